"""Write `docs/marginalisation.md` from the tables in `analysis/results`.

python analysis/marginalisation.py
"""

import numpy as np
import pandas as pd
import reward_part
import tables

from bayes_cmab.ledger import difference, summarise_trials
from bayes_cmab.summary import half_width, interval_factor

HEAD = """# Fixed, fitted and marginalised hyperparameters

CBMP-UCB with the paper's embedding, settings A to D, 100 rounds; `fixed`: medians of the priors;
`map1`: type-II maximum a posteriori every 5 rounds, searched from the last result; `map`: the same
from the medians of the priors as well, the better end kept (the default of `MAP`); `nuts`, `svi`:
averaged over 64 draws a model, drawn again when the effective sample size falls below one half.
Seed 2, which the paper's form was not developed on, but for the two starts of `map`, chosen with
its trials in view (the last table); the trials are paired. Cells that are not listed have not
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
BEST = """
Each at the weight (in brackets) at which its mean reward was highest, of the weights that all have;
as the weight was chosen on these trials, the means are a little too high, for all of them.

"""

INFERENCES = ("fixed", "map1", "map", "svi", "nuts")
PAIRS = (
    *(("map", "fixed"), ("map", "map1"), ("svi", "map")),
    *(("svi", "fixed"), ("svi", "nuts"), ("nuts", "fixed"), ("nuts", "map")),
)
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


def best_table(frame: pd.DataFrame, agents: tuple[str, ...]) -> str:
    """Return each agent at the weight with its highest mean reward, and paired differences."""
    first, *others = agents
    rows = []
    for (setting, offline), here in frame.groupby(["setting", "offline"]):
        own = here[here.agent.isin(agents)]
        if set(own.agent) != set(agents):
            continue
        shared = set.intersection(*(set(group.beta) for _, group in own.groupby("agent")))
        wide = own[own.beta.isin(shared)].pivot_table(
            index="trial", columns=["agent", "beta"], values="mean_reward"
        )
        best = {agent: wide[agent].mean().idxmax() for agent in agents}
        gaps = []
        for other in others:
            paired = (wide[first][best[first]] - wide[other][best[other]]).dropna().to_numpy()
            mean, half = float(paired.mean()), float(half_width(paired))
            gaps.append(tables.interval(mean, mean - half, mean + half))
        weights = [f"{wide[agent][best[agent]].mean():.1f} ({best[agent]:g})" for agent in agents]
        rows.append([f"{setting}, m = {offline}", *weights, *gaps])
    names = [agent.removeprefix("cbmp-") for agent in agents]
    heads = [f"{names[0]} over {name}" for name in names[1:]]
    return tables.markdown(rows, ["", *names, *heads])


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
        parts += [WEIGHTS, beta_table(mine[mine.agent.isin(moved)]), BEST]
        parts += [best_table(mine, ("cbmp-map", "cbmp-fixed")), "\n"]
        parts += [
            best_table(
                mine[mine.setting.isin(["B", "C"]) & (mine.offline == 50)],
                ("cbmp-nuts", "cbmp-fixed", "cbmp-map"),
            )
        ]
    if (tables.FOLDER / "traps.csv").exists():
        parts += reward_part.trap_tables()
    if (tables.FOLDER / "calibration.csv").exists():
        parts += reward_part.calibration_tables()
    return "".join(parts)


if __name__ == "__main__":
    target = tables.FOLDER.parent.parent / "docs" / "marginalisation.md"
    target.write_text(page(), encoding="utf-8")
