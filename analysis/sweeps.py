"""The sweeps behind the tables of the README and the docs, as pure data."""

from bayes_cmab.sweep import Sweep

SETTINGS = ("A", "B", "C", "D", "E", "F")
SEED = 1  # seed 0 was used while developing

FIXED = Sweep(
    SETTINGS,
    ("cbmp-fixed", "cme-fixed", "icme-fixed", "gp-fixed", "plugin-fixed", "random", "oracle"),
    betas=(0.25, 1.0, 4.0),
    trials=100,
    seed=SEED,
    chunk=25,
)
"""All agents with the medians of the priors as hyperparameters."""

FIXED_SLOW = Sweep(
    SETTINGS, ("gaussian-fixed",), betas=(0.25, 1.0, 4.0), trials=100, seed=SEED, chunk=25
)
"""The one whose variance sums over pairs of outcomes."""

FIXED_PROPOSITION = Sweep(SETTINGS, ("proposition-fixed",), trials=30, seed=SEED, chunk=10)
"""The paper's projected moments, which factorise every round."""

MAP = Sweep(
    SETTINGS,
    ("cbmp-map", "cme-map", "icme-map", "gp-map", "plugin-map", "gaussian-map"),
    trials=30,
    seed=SEED,
    chunk=10,
)
"""All agents with type-II maximum a posteriori hyperparameters, refitted every 5 rounds."""

SWEEPS = {
    "fixed": FIXED,
    "map": MAP,
    "fixed-slow": FIXED_SLOW,
    "fixed-proposition": FIXED_PROPOSITION,
}
