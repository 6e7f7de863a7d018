"""Write `docs/paper.md`, what of the paper holds, from the tables in `analysis/results`.

python analysis/paper.py
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import tables

from bayes_cmab.ledger import summarise_trials
from bayes_cmab.plots import save
from bayes_cmab.reproduction import figures
from bayes_cmab.study import read_study
from bayes_cmab.summary import TAIL, half_width

ROOT = Path(__file__).parent
BETA, SETTINGS = 0.25, ("A", "B", "C", "D")
INFERENCES = ("fixed", "map", "svi", "nuts")
RESAMPLES = 4000

HEAD = """# What of the paper holds

The paper ([arXiv 2210.13692](https://arxiv.org/abs/2210.13692)) plays CBMP-UCB against CME-UCB in
four settings, and shows the mean and the 0.05 quantile of the cumulative outcome. Here are its
settings A to D at full size: 100 rounds, no unmatched outcomes (m = 0) or 50 of them, 100 trials
for `fixed` and `map`, 30 for `svi` and `nuts` (of our own `sharp` 60, averaged 20). All agents see
the same contexts and noise, and have the same priors, units, optimiser and exploration weight, β =
0.25, none of them tuned; the paper says neither what its β was nor how hyperparameters were chosen.
Seed 2; the paper's form was developed on seed 0, but that `map` starts twice was decided with
trials of seed 2 in view, and so was the choice of `sharp` ([on a fresh
seed](embeddings.md#on-a-fresh-seed)). Differences are of the sum of the mean rewards in the same
trials, with 95% intervals, bold where these exclude zero; none is corrected for their number.
`bayes-cmab reproduce` makes the tables ([how](reproduce.md)), and `python analysis/paper.py` this
page. Cells that are not listed have not been run yet.

Three facts about the settings matter for all of it. In C and D *one* action is the best in every
context, in A almost (1.930 of 1.950 a round): who finds it early and stays has won, whatever the
context. Only in B does the spread of `r` given `(s, a)` decide. And `r` is normal given `(s, a)`
with the same variance everywhere, so a model of its mean and a variance is enough.

In short (the sections below have the numbers):

- *CBMP-UCB beats CME-UCB*: with fitted hyperparameters in B, the one setting where the spread of
  `r` decides. In C it is behind, in A and D the two are not told apart, and with fixed
  hyperparameters it is behind nearly everywhere. At the same β, CME-UCB's larger variance makes
  it explore more, and its score leaves out the variance of `f`, so that a wrong noise of `y`
  reaches its mean alone. Averaged over draws by NUTS it is ahead in A, where the fitted agents
  freeze, and in B with m = 0 (there by SVI too), and behind in C and D (by SVI in C with m = 0, and
  in D).
- *Also in bad trials*: fitted in B with m = 0 alone. Fitted in A, its bad trials are the worst of
  all: the agent never leaves one action. Averaged over draws they are behind in three (NUTS) and
  four (SVI) of the eight cells, and ahead in none.
- *Unmatched outcomes help*: not CBMP-UCB in the paper's form. What limits it is learning
  `P(r | s, a)`, of which they say nothing ([where reward is lost](models.md)). They hurt a fixed
  agent in B and D, whose noise is far from the prior's median (as it is in C, where they do not),
  and a fitted one in D, as they hurt fitted CME-UCB there. Our own model, which learns
  `P(r | s, a)` faster, gains by them in B, C and D.
- *The whole distribution of r counts*: sometimes. Averaging `f` over `r` beats `f` at its mean in
  some cells and loses in others. In the [warfarin case](case_warfarin.md) it matters little to a
  policy that knows the law, and a great deal to one that learns it.
- *The uncertainty of both counts*: adding that of `f` to CME-UCB changes nothing that can be
  seen.
- *Marginalising*, which the paper does not do, pays where fitting freezes the agent (A, by NUTS)
  and is lost in D with m = 0 ([the comparison](marginalisation.md)).

![Mean of the cumulative outcome](figures/study_mean.png)

![0.05 quantile of the cumulative outcome](figures/study_quantile.png)

"""
AHEAD = """## "Outperforms the state of the art": CBMP-UCB minus CME-UCB

{verdict}

"""
TAILS = """
The 0.05 quantile of the cumulative outcome: CBMP-UCB / CME-UCB, and in brackets the 95% interval
of their difference, from {resamples} resamples of the paired trials.

"""
UNMATCHED = """
## "Potentially requiring unmatched data": 50 unmatched outcomes against none

The same trials with m = 50 minus those with m = 0. {verdict}

"""
SPREAD = """
## "The full conditional distribution needs to be accounted for"

A Gaussian transition model that averages `f` over a normal `r`, minus the same model with `f` at
the mean of `r` (`gaussian` minus `plugin`; fixed hyperparameters, 100 trials, seed 1). {verdict}

"""
BOTH = """
## "Takes into consideration the uncertainty of both"

CME-UCB's variance knows only what is unknown of `P(r | s, a)`; I-CME-UCB adds the standard
deviation of `f`. `icme` minus `cme`. {verdict}

"""
FORM = """
## The Proposition

The paper's moments project on the points at hand; ours are exact ([mathematics](mathematics.md)).
`cbmp` minus `proposition`, fixed hyperparameters, 30 trials, seed 1. {verdict} With m = 0 the
Proposition has no result in A (and E): its variance becomes negative beyond rounding.

"""
DEFAULT = """
## Our own model beside the paper's form

`sharp` corrects Gaussian processes for `r` by an embedding, with a noise of `r` that varies and
main effects in `f` ([models](embeddings.md)); minus CBMP-UCB in the paper's form, CME-UCB, and the
Gaussian transition model without an embedding, all fitted. {verdict} On [a fresh
seed](embeddings.md#on-a-fresh-seed) it is not ahead of the last in D with m = 0, and behind it in B
with m = 50.

"""
COVERAGE = """
## Coverage of g

Share of the grid of contexts and actions whose exact mean reward lies in its 95% interval after 100
rounds; other levels and rounds are in `analysis/results/study/summary.csv`.

"""
RUNS = """
## Outcomes, pseudo-regret and cost

Cumulative outcome, mean ± standard error (0.05 quantile); pseudo-regret; CPU seconds a trial with
the coverage; rounds with a fit (fits that failed at the gate). All trials of the study together,
those of [its other pages](embeddings.md) too, are {hours:.1f} CPU hours at these speeds, without
compiling.

"""


def section(template: str, frame: pd.DataFrame, pairs: dict[str, tuple[str, str]]) -> str:
    """Return a section on paired differences; nothing if none of them has been run."""
    table, counts = tables.difference_table(frame, pairs)
    return template.format(verdict=tables.sentence(counts)) + table if counts else ""


def tails(frame: pd.DataFrame, names: Iterable[str]) -> str:
    """Return the table of 0.05 quantiles of CBMP-UCB and CME-UCB."""
    names = [n for n in names if {f"cbmp-{n}", f"cme-{n}"} <= set(frame.agent)]
    if not names:
        return ""
    lines = []
    for setting, offline in tables.scenes(frame):
        here = frame[(frame.setting == setting) & (frame.offline == offline)]
        wide = here.pivot_table(index="trial", columns="agent", values="outcome")
        cells = []
        for name in names:
            if not {f"cbmp-{name}", f"cme-{name}"} <= set(wide.columns):
                cells.append("")
                continue
            pair = wide[[f"cbmp-{name}", f"cme-{name}"]].dropna().to_numpy()
            rng = np.random.default_rng(0)
            drawn = pair[rng.integers(len(pair), size=(RESAMPLES, len(pair)))]
            gaps = np.quantile(drawn, TAIL, axis=1) @ np.array([1.0, -1.0])
            own, other = np.quantile(pair, TAIL, axis=0)
            low, high = np.quantile(gaps, [0.025, 0.975])
            strong = "**" if low > 0.0 or high < 0.0 else ""
            cells.append(f"{strong}{own:.0f} / {other:.0f}{strong} [{low:+.0f}, {high:+.0f}]")
        lines.append([f"{setting}, m = {offline}", *cells])
    return TAILS.format(resamples=RESAMPLES) + tables.markdown(lines, ["", *names])


def unmatched(frame: pd.DataFrame, names: list[str]) -> str:
    """Return a table of what unmatched outcomes add, a row a setting, and how it came out."""
    names = [name for name in names if name in set(frame.agent)]
    rows, lines = [], []
    for setting, here in frame.groupby("setting"):
        wide = here.pivot_table(index=["agent", "trial"], columns="offline", values="mean_reward")
        if not {0, 50} <= set(wide.columns):
            continue
        line = [str(setting)]
        for name in names:
            own = wide.loc[name] if name in wide.index else wide.iloc[:0]
            gain = (own[50] - own[0]).dropna().to_numpy()
            if len(gain) < 2:
                line.append("")
                continue
            mean, half = float(gain.mean()), float(half_width(gain))
            rows.append({"agent": name, "low": mean - half, "high": mean + half})
            line.append(tables.interval(mean, mean - half, mean + half))
        lines.append(line)
    table = pd.DataFrame(rows, columns=["agent", "low", "high"])
    counts = {str(name): tables.count(own) for name, own in table.groupby("agent", sort=False)}
    text = UNMATCHED.format(verdict=tables.sentence(counts))
    return text + tables.markdown(lines, ["", *names])


def coverage(summary: pd.DataFrame, names: list[str]) -> str:
    """Return the table of the coverage after the last round."""
    by_scene = summary.set_index(["setting", "offline", "agent"])["coverage_95_after_100"]
    lines = []
    for setting, offline in tables.scenes(summary):
        shares = [by_scene.get((setting, offline, name), np.nan) for name in names]
        cells = ["" if np.isnan(share) else f"{share:.2f}" for share in shares]
        lines.append([f"{setting}, m = {offline}", *cells])
    return tables.markdown(lines, ["", *names])


def runs(summary: pd.DataFrame, names: list[str]) -> str:
    """Return the table of outcomes and costs, a row an agent and a scene."""
    lines = []
    for setting, offline in tables.scenes(summary):
        here = summary[(summary.setting == setting) & (summary.offline == offline)]
        for name in names:
            for row in here[here.agent == name].itertuples():
                failed = f" ({row.failed_fits:.1f})" if row.failed_fits else ""
                lines.append(
                    [
                        f"{setting}, m = {offline}",
                        f"`{name}`",
                        f"{row.trials}",
                        f"{row.outcome_mean:.1f} ± {row.outcome_se:.1f} ({row.outcome_q05:.0f})",
                        f"{row.regret_mean:.1f} ± {row.regret_se:.1f}",
                        f"{100 * row.seconds_per_round:.2f}",
                        f"{row.refits:.0f}{failed}",
                    ]
                )
    heads = ["", "agent", "trials", "outcome", "pseudo-regret", "CPU s", "fits"]
    return tables.markdown(lines, heads)


def page() -> str:
    """Return the page."""
    every = tables.STUDY.trials()
    frame = every[(every.beta == BETA) & every.setting.isin(SETTINGS)]
    first = tables.FIXED.trials()
    first = first[first.beta == BETA]
    summary = summarise_trials(frame)
    order = [
        *(f"{name}-{how}" for name in ("cbmp", "cme") for how in INFERENCES),
        *(f"{name}-{how}" for name in ("icme", "gp", "gaussian") for how in ("fixed", "map")),
        *("sharp-fixed", "sharp-map", "sharp-svi", "sharp-nuts", "residual-map"),
        *("random", "oracle"),
    ]
    order = [name for name in order if name in set(frame.agent)]
    parts = [
        HEAD,
        section(AHEAD, frame, {h: (f"cbmp-{h}", f"cme-{h}") for h in INFERENCES}),
        tails(frame, INFERENCES),
        unmatched(
            frame,
            [*(f"{n}-{h}" for n in ("cbmp", "cme") for h in INFERENCES), "sharp-map"],
        ),
        section(SPREAD, first, {"gaussian over plugin": ("gaussian-fixed", "plugin-fixed")}),
        section(BOTH, frame, {h: (f"icme-{h}", f"cme-{h}") for h in ("fixed", "map")}),
        section(FORM, first, {"exact over projected": ("cbmp-fixed", "proposition-fixed")}),
        section(
            DEFAULT,
            frame,
            {f"over {n}": ("sharp-map", f"{n}-map") for n in ("cbmp", "cme", "gaussian")},
        ),
    ]
    covered = [name for name in order if name not in ("random", "oracle")]
    hours = 100.0 * every.seconds_per_round.sum() / 3600.0
    parts += [COVERAGE, coverage(summary, covered)]
    parts += [RUNS.format(hours=hours), runs(summary, order)]
    return "".join(parts)


def main() -> None:
    """Write the page, with its figures."""
    docs = ROOT.parent / "docs"
    (docs / "paper.md").write_text(page(), encoding="utf-8")
    curves = tables.STUDY.curves()
    study = read_study(ROOT / "study.toml")
    drawn = figures(study, curves[curves.setting.isin(SETTINGS)], tables.STUDY.trials())
    save({f"study_{name}": figure for name, figure in drawn.items()}, docs / "figures")


if __name__ == "__main__":
    main()
