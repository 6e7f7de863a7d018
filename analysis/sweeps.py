"""The sweeps behind the tables of the README and the docs, as pure data."""

from dataclasses import replace

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
    ("cbmp-map1", "cme-map1", "icme-map1", "gp-map1", "plugin-map1", "gaussian-map1"),
    trials=30,
    seed=SEED,
    chunk=10,
)
"""All agents with type-II maximum a posteriori hyperparameters, from the last result alone."""

BAYES = Sweep(
    ("C", "B", "A", "D"),
    ("cbmp-fixed", "cbmp-map1", "cbmp-map", "cbmp-nuts", "cbmp-svi"),
    offline=(50, 0),
    trials=30,
    seed=2,
    chunk=10,
    coverage=True,
)
"""Fixed against marginalised hyperparameters, with coverage of g; fresh seeds."""

BAYES_BETAS = Sweep(
    ("C", "B", "A", "D"),
    ("cbmp-fixed", "cbmp-map"),
    offline=(50, 0),
    betas=(0.1, 0.25, 0.5, 1.0, 2.0, 4.0),
    trials=30,
    seed=2,
    chunk=10,
)
"""Exploration weights of the fixed and the fitted agent, in the same trials as `BAYES`."""

BAYES_NUTS_BETAS = Sweep(
    ("C", "B"), ("cbmp-nuts",), offline=(50,), betas=(0.1, 1.0), trials=30, seed=2, chunk=10
)
"""Exploration weights of the marginalised agent; the weight 0.25 is in `BAYES`."""

MODELS = Sweep(
    ("E", "F", "B", "C", "A", "D"),
    (
        *("residual-map", "gaussian-map", "cbmp-map", "anova-map", "additive-map"),
        *("cme-map", "gp-map"),
    ),
    offline=(50, 0),
    trials=60,
    seed=BAYES.seed,
    chunk=10,
    coverage=True,
)
"""Models of P(r | s, a) and of f, fitted; they were developed on seed 0."""

MODELS_BAYES = replace(MODELS, agents=("residual-nuts",), trials=20, chunk=5)
"""The transition prior averaged over draws, in the first of these trials."""

MODELS_PAPER = replace(MODELS_BAYES, settings=("E", "F"), agents=("cbmp-nuts",))
"""The paper's form averaged over draws, in the settings that `BAYES` does not have."""

SWEEPS = {
    "fixed": FIXED,
    "map": MAP,
    "fixed-slow": FIXED_SLOW,
    "fixed-proposition": FIXED_PROPOSITION,
    "bayes": BAYES,
    "bayes-betas": BAYES_BETAS,
    "bayes-nuts-betas": BAYES_NUTS_BETAS,
    "models": MODELS,
    "models-bayes": MODELS_BAYES,
    "models-paper": MODELS_PAPER,
}
