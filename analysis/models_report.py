"""Write `docs/embeddings.md` from the tables in `analysis/results`.

python analysis/models_report.py
"""

import numpy as np
import pandas as pd
import tables

from bayes_cmab.ledger import summarise_trials

HEAD = """# Models of P(r | s, a), compared

Settings A to F, 100 rounds, β = 0.25, fixed before; `fixed`: the medians of the priors; `map`:
hyperparameters fitted every 5 rounds from two starts; `nuts`, `svi`: averaged over 64 draws. Seed
2; the models were developed on seed 0. Cells that are empty have not been run. `bayes-cmab
reproduce` makes the tables (sweeps map, bayes, and those whose names begin with models), and
`python analysis/models_report.py` this page.

| name | model |
| --- | --- |
{names}

"""
REWARDS = """## Rewards

Cumulative outcome, mean and standard error, and in brackets the 0.05 quantile and the number of
trials.

"""
DIFFERENCES = """
## {agent} against the others

Differences of the sums of mean rewards in the same trials, with 95% intervals.

"""
COVERAGE = """
## Coverage of g

Mean over the nominal levels 50, 80 and 95% and the ends of rounds 20, 50 and 100 of |coverage -
nominal|, where coverage is that of the 61 x 61 grid, averaged over the trials; in brackets the
coverage of the 95% interval after 100 rounds.

"""
COSTS = """
## Cost

CPU seconds a round (least of the chunks; with the coverage, which is measured three times a trial).

"""

BETA = 0.25
NAMES = {
    "cbmp": "the paper's form: product of RBF kernels, prior mean zero",
    "anova": "the same with ANOVA kernels",
    "residual": "transition prior, corrected by an embedding",
    "varying": "the same, with a noise of `r` that depends on `(s, a)`",
    "additive": "as residual, with main effects in `f` (the same where `r` has one dimension)",
    "sharp": "as residual, with both",
    "gaussian": "the transition model alone: `r` is normal given `(s, a)`",
    "cme": "CME-UCB",
    "gp": "GP-UCB on `(s, a)`, without `r`",
}
AGENTS = (*(f"{name}-map" for name in NAMES), "sharp-fixed", "cbmp-nuts", "sharp-svi", "sharp-nuts")
COMPARED = ("sharp-map", "residual-map", "sharp-svi", "sharp-nuts")
LEVELS, CHECKPOINTS = (50, 80, 95), (20, 50, 100)


def by_scene(frame: pd.DataFrame, agents: list[str], text: dict[tuple[str, int, str], str]) -> str:
    """Return a table of texts with a row a scene and a column an agent."""
    scenes = sorted(set(zip(frame.setting, frame.offline, strict=True)))
    rows = [
        [f"{setting}, m = {offline}", *(text.get((setting, offline, name), "") for name in agents)]
        for setting, offline in scenes
    ]
    return tables.markdown(rows, ["", *agents])


def coverage_text(means: pd.Series) -> str:
    """Return the mean distance of the coverage from its level, and that of the last 95%."""
    distances = [
        abs(means[f"coverage_{level}_after_{rounds}"] - level / 100.0)
        for level in LEVELS
        for rounds in CHECKPOINTS
    ]
    if not np.isfinite(distances).all():
        return ""
    return f"{np.mean(distances):.3f} ({means['coverage_95_after_100']:.2f})"


def agents_of(frame: pd.DataFrame) -> list[str]:
    """Return the agents of a table, in the order of their models."""
    order = list(NAMES)
    return sorted(set(frame.agent), key=lambda name: (order.index(name.partition("-")[0]), name))


def page() -> str:
    """Return the page."""
    every = tables.STUDY.trials()
    frame = every[(every.beta == BETA) & every.agent.isin(AGENTS)]
    names = agents_of(frame)
    rewards, costs = {}, {}
    for row in summarise_trials(frame).itertuples():
        key = (row.setting, row.offline, row.agent)
        tail = f"({row.outcome_q05:.0f}; {row.trials})"
        rewards[key] = f"{row.outcome_mean:.1f} ± {row.outcome_se:.1f} {tail}"
        costs[key] = f"{row.seconds_per_round:.3f}"
    means = frame.groupby(["setting", "offline", "agent"]).mean(numeric_only=True)
    covered = {key: coverage_text(row) for key, row in means.iterrows()}
    listed = "\n".join(f"| `{name}` | {NAMES[name]} |" for name in NAMES)
    parts = [HEAD.format(names=listed), REWARDS, by_scene(frame, names, rewards)]
    for agent in (name for name in COMPARED if name in names):
        pairs = {other: (agent, other) for other in names if other != agent}
        parts += [DIFFERENCES.format(agent=agent), tables.difference_table(frame, pairs)[0]]
    parts += [COVERAGE, by_scene(frame, names, covered), COSTS, by_scene(frame, names, costs)]
    return "".join(parts)


def main() -> None:
    """Write the page."""
    (tables.FOLDER.parent.parent / "docs" / "embeddings.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
