"""Write `docs/marginalisation.md` from the tables in `analysis/results`.

python analysis/marginalisation.py
"""

import numpy as np
import pandas as pd
import tables

from bayes_cmab.ledger import difference, summarise_trials
from bayes_cmab.summary import half_width, interval_factor

HEAD = """# Fixed, fitted and marginalised hyperparameters

CBMP-UCB with the paper's embedding, settings A to D, 100 rounds; `fixed`: medians of the priors;
`map1`: type-II maximum a posteriori every 5 rounds, searched from the last result; `map`: the same
from the medians of the priors as well, the better end kept (the default of `MAP`); `nuts`, `svi`:
averaged over 64 draws a model, drawn again when the effective sample size falls below one half.
Seed 2, which nothing was developed on; the trials are paired. Cells that are not listed have not
been run yet.
`bayes-cmab reproduce` makes the tables (sweeps fixed, map, bayes, betas, nuts-betas),
`python analysis/calibration.py` those of the reward part.

"""

REWARDS = """## Rewards

Cumulative outcome, mean and standard error over {trials} trials, and in brackets the 0.05
quantile.

"""
DIFFERENCES = """
Differences of the sums of mean rewards in the same trials, with 95% intervals; bold where they
exclude zero, none corrected for the number of comparisons.

"""
COVERAGE = """
## Coverage of g

Share of the 61 x 61 grid whose exact mean reward lies in its 50, 80 and 95% interval, after 20, 50
and 100 rounds.

"""
COSTS = """
## Cost

CPU seconds a trial (least of the chunks, with the coverage), rounds before which hyperparameters
were fitted, and in brackets fits that failed at the gate.

"""
WEIGHTS = """
## Exploration weights

Cumulative outcome.

"""
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
DISTANCE = """
Mean over levels and rounds of |coverage - nominal| (published peers, for all of g: BayesIMP 0.25,
IMPspec 0.06 to 0.07).

"""

INFERENCES = ("fixed", "map1", "map", "svi", "nuts")
CALIBRATED = ("fixed", "map", "svi", "nuts")
PAIRS = (
    *(("map", "fixed"), ("map", "map1"), ("svi", "map")),
    *(("svi", "fixed"), ("svi", "nuts"), ("nuts", "fixed"), ("nuts", "map")),
)
FITTED_LOWER = 2.0
"""Nats below the best mode from which a fit counts as trapped."""
LEVELS = (50, 80, 95)
TRIALS, BETA = 30, 0.25
NORMAL_95 = 1.959964


def scene_tables(frame: pd.DataFrame) -> list[str]:
    """Return rewards, differences, coverage and costs of `BAYES`, by setting and offline size."""
    rewards, differences, coverage, costs = [], [], [], []
    names = [f"cbmp-{inference}" for inference in INFERENCES]
    pairs = [(f"cbmp-{name}", f"cbmp-{base}") for name, base in PAIRS]
    columns = {
        pair: tables.differences(frame, *pair) for pair in pairs if set(pair) <= set(frame.agent)
    }
    for (setting, offline), group in frame.groupby(["setting", "offline"]):
        scene = f"{setting}, m = {offline}"
        summary = summarise_trials(group).set_index("agent")
        here = [name for name in names if name in summary.index]
        rewards.append(
            [scene]
            + [
                f"{summary.outcome_mean[n]:.1f} ± {summary.outcome_se[n]:.1f} "
                f"({summary.outcome_q05[n]:.0f})"
                if n in here
                else ""
                for n in names
            ]
        )
        differences.append(
            [scene, *(column.get((setting, offline, BETA), "") for column in columns.values())]
        )
        means = group.groupby("agent").mean(numeric_only=True)
        coverage += [
            [f"{scene}, after {rounds}"]
            + [
                " / ".join(
                    f"{means[f'coverage_{level}_after_{rounds}'][n]:.2f}" for level in LEVELS
                )
                if n in here
                else ""
                for n in names
            ]
            for rounds in (20, 50, 100)
        ]
        costs.append(
            [scene]
            + [
                f"{100 * summary.seconds_per_round[n]:.1f} s, {means.refits[n]:.0f} "
                f"({means.failed_fits[n]:.1f})"
                if n in here
                else ""
                for n in names
            ]
        )
    differences.append(
        ["**mean of the cells**", *(mean_of_cells(frame, *pair) for pair in columns)]
    )
    header = ["", *INFERENCES]
    heads = [
        f"{name.removeprefix('cbmp-')} over {base.removeprefix('cbmp-')}" for name, base in columns
    ]
    return [
        REWARDS.format(trials=TRIALS),
        tables.markdown(rewards, header),
        DIFFERENCES,
        tables.markdown(differences, ["", *heads]),
        COVERAGE,
        tables.markdown(coverage, header),
        COSTS,
        tables.markdown(costs, header),
    ]


def mean_of_cells(frame: pd.DataFrame, agent: str, other: str) -> str:
    """Return the mean of the differences over the cells with its 95% interval, as text."""
    cells = difference(frame, agent, other)
    error = np.sqrt((((cells.high - cells.low) / 2.0 / interval_factor(TRIALS)) ** 2).sum())
    mean, half = cells.difference.mean(), NORMAL_95 * error / len(cells)
    return tables.interval(mean, mean - half, mean + half)


def beta_table(frame: pd.DataFrame) -> str:
    """Return the mean outcome by exploration weight."""
    betas = sorted(frame.beta.unique())
    rows = []
    for (setting, offline, agent), group in frame.groupby(["setting", "offline", "agent"]):
        summary = summarise_trials(group).set_index("beta")
        cells = [
            f"{summary.outcome_mean[beta]:.1f} ± {summary.outcome_se[beta]:.1f}"
            if beta in summary.index
            else ""
            for beta in betas
        ]
        rows.append([f"{setting}, m = {offline}", agent.removeprefix("cbmp-"), *cells])
    return tables.markdown(rows, ["", "", *(f"β = {beta:g}" for beta in betas)])


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
        ]
    return parts


def page() -> str:
    """Return the page on marginalised hyperparameters."""
    parts = [HEAD]
    every = tables.STUDY.trials()
    names = [f"cbmp-{inference}" for inference in INFERENCES]
    mine = every[every.agent.isin(names) & every.setting.isin(list("ABCD"))]
    mine = mine[mine.trial < TRIALS]
    parts += scene_tables(mine[mine.beta == BETA])
    moved = mine[mine.beta != BETA].agent.unique()
    if len(moved):
        parts += [WEIGHTS, beta_table(mine[mine.agent.isin(moved)])]
    if (tables.FOLDER / "traps.csv").exists():
        parts += trap_tables()
    if (tables.FOLDER / "calibration.csv").exists():
        parts += calibration_tables()
    return "".join(parts)


if __name__ == "__main__":
    target = tables.FOLDER.parent.parent / "docs" / "marginalisation.md"
    target.write_text(page(), encoding="utf-8")
