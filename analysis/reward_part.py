"""What `marginalisation` says of the reward model alone: traps of its fits, and its calibration."""

import numpy as np
import pandas as pd
import tables

from bayes_cmab.summary import half_width

REWARD_PART = """
## The reward part alone

P(r | s, a) is known exactly, so that only f is learned, from 50 unmatched outcomes and one outcome
a round at a uniform context and action: at least {trials} trials (seed 3). Coverage of the 50, 80
and 95% intervals of g.

"""
TRAPS = """
## A trap of type-II fitting

The reward model's posterior has poor modes, in which a lengthscale is long and what `f` does along
it is noise. A search from the last result alone stays in one. CBMP-UCB in setting {setting} with 50
unmatched outcomes, {trials} trials of seed 2 (`python analysis/traps.py`): share of the trials in
which the mode in use after 25, 50 and 95 rounds was worse by more than {limit:g} in log posterior
density than the best of 8 searches on the same data, and what the agents earned (sum of mean
rewards).

"""
TRAPPED_DRAWS = """
After 50 rounds the longest lengthscale is {trapped} where a fit is trapped and {sound} where
it is not. NUTS on the data of the agent with one start: at most {most:.0%} of the draws, and
{mean:.1%} on average, have one above 1.
"""
AVERAGED = """
The agents averaged over draws beside those in the first {trials} of these trials:

"""
DISTANCE = """
Mean over levels and rounds of |coverage - nominal| (published peers, for all of g: BayesIMP 0.25,
IMPspec 0.06 to 0.07).

"""

CALIBRATED = ("fixed", "map", "svi", "nuts")
FITTED_LOWER = 2.0
"""Nats below the best mode from which a fit counts as trapped."""
LEVELS = (50, 80, 95)


def calibration_tables() -> list[str]:
    """Return coverage of the reward part, and its mean distance from the nominal levels."""
    frame = pd.read_csv(tables.FOLDER / "calibration.csv")
    levels = [str(level) for level in LEVELS]
    means = frame.groupby(["setting", "rounds", "inference"])[levels].mean()
    rows, distances = [], []
    for setting, group in means.groupby("setting"):
        for rounds in sorted(frame.rounds.unique()):
            rows.append(
                [f"{setting}, after {rounds}"]
                + [
                    " / ".join(f"{x:.2f}" for x in group.loc[setting, rounds, i])
                    for i in CALIBRATED
                ]
            )
        distance = (group - np.array(LEVELS) / 100.0).abs().mean(axis=1)
        by_inference = distance.groupby("inference").mean()
        distances.append([setting, *(f"{by_inference[i]:.3f}" for i in CALIBRATED)])
    count = frame.groupby(["setting", "rounds", "inference"]).size().min()
    return [
        REWARD_PART.format(trials=count),
        tables.markdown(rows, ["", *CALIBRATED]),
        DISTANCE,
        tables.markdown(distances, ["", *CALIBRATED]),
    ]


def averaged_table(setting: str, offline: int = 50, beta: float = 0.25) -> str:
    """Return rewards of the fitted and the averaged agents in the trials that all have."""
    names = [f"cbmp-{how}" for how in ("map1", "map", "svi", "nuts")]
    frame = tables.STUDY.trials()
    here = (frame.setting == setting) & (frame.offline == offline) & (frame.beta == beta)
    wide = frame[here].pivot_table(index="trial", columns="agent", values="mean_reward")
    wide = wide[names].dropna()
    rows = []
    for name in names:
        gap = (wide[name] - wide[names[0]]).to_numpy()
        mean, half = float(gap.mean()), float(half_width(gap))
        rows.append(
            [
                f"`{name}`",
                f"{wide[name].mean():.1f} ({wide[name].quantile(0.05):.0f})",
                "" if name == names[0] else tables.interval(mean, mean - half, mean + half),
            ]
        )
    head = ["", "reward (0.05 quantile)", "over map1"]
    return AVERAGED.format(trials=len(wide)) + tables.markdown(rows, head)


def span(values: pd.Series) -> str:
    """Return the least and the largest value as text."""
    return f"{values.min():.1f} to {values.max():.1f}"


def trap_tables() -> list[str]:
    """Return how often type-II fitting is trapped, by the number of its starts."""
    parts = []
    for setting, frame in pd.read_csv(tables.FOLDER / "traps.csv").groupby("setting"):
        complete = frame.groupby("trial").filter(lambda own: own.starts.nunique() == 3)
        one = complete[complete.starts == 1].set_index("trial")
        rows = []
        for starts, group in complete.groupby("starts"):
            gaps = group[[c for c in group if c.startswith("gap")]]
            paired = (group.set_index("trial").mean_reward - one.mean_reward).to_numpy()
            half = float(half_width(paired))
            rows.append(
                [
                    f"{starts} start{'s' * (starts > 1)}",
                    " / ".join(f"{share:.0%}" for share in (gaps > FITTED_LOWER).mean()),
                    f"{group.mean_reward.mean():.1f} ({group.mean_reward.quantile(0.05):.0f})",
                    ""
                    if starts == 1
                    else f"{paired.mean():+.1f} [{paired.mean() - half:+.1f}, "
                    f"{paired.mean() + half:+.1f}]",
                ]
            )
        heads = ["", "trapped after 25 / 50 / 95", "reward (0.05 quantile)", "over 1 start"]
        draws = one.long_draws
        parts += [
            TRAPS.format(setting=setting, trials=len(one), limit=FITTED_LOWER),
            tables.markdown(rows, heads),
            TRAPPED_DRAWS.format(
                trapped=span(complete[complete.gap_50 > FITTED_LOWER].longest_50),
                sound=span(complete[complete.gap_50 <= FITTED_LOWER].longest_50),
                most=draws.max(),
                mean=draws.mean(),
            ),
            averaged_table(str(setting)),
        ]
    return parts
