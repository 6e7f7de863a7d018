"""Write the tables and figures of the case studies into the docs, from the committed trials.

python analysis/cases/report.py

Text between `<!-- NAME -->` and `<!-- end -->` of a page is replaced; the rest is written by hand.
"""

import sys
from pathlib import Path

import actg_play
import case_figures
import pandas as pd
import typer
import warfarin_play
from case_tables import Interval, markdown, own, paired, players, title, trials
from play import ACTG, SEED, WARFARIN

sys.path.append(str(Path(__file__).parents[1]))

import tables

DOCS = Path(__file__).parents[2] / "docs"


def warfarin_trials() -> pd.DataFrame:
    """Return the trials of the warfarin case that the docs report."""
    return trials("warfarin", SEED, warfarin_play.ROUNDS)


def actg_trials() -> pd.DataFrame:
    """Return the trials of the ACTG 175 case that the docs report."""
    return trials("actg", SEED, actg_play.ROUNDS)


def warfarin_table(table: pd.DataFrame) -> str:
    """Return rewards, doses and pseudo-regrets of the policies."""
    last, before = warfarin_play.ROUNDS, warfarin_play.ROUNDS - 30
    rows = []
    for player in players(table, WARFARIN):
        reward, dose, regret, seconds = (
            own(table, player, name).to_numpy()
            for name in ("reward", "dose", f"regret_{last}", "cpu_seconds")
        )
        late = (regret - own(table, player, f"regret_{before}").to_numpy()) / (last - before)
        whole = Interval.of(regret)
        source = player.partition(":")[2]
        cells = [title(player), "" if source == "none" else source, str(len(reward))]
        cells += [f"{reward.mean():.3f}", f"{dose.mean():.1f}"]
        cells += [f"{whole.mean:.1f} ± {whole.half:.1f}", f"{late.mean():.3f}"]
        rows.append([*cells, f"{pd.Series(seconds).median():.1f}"])
    header = ["policy", "learns f from", "trials", "mean reward", "mean dose, mg"]
    header += ["pseudo-regret of 130", "a patient, last 30", "CPU s"]
    return markdown(header, rows, left=2)


def warfarin_differences(table: pd.DataFrame) -> str:
    """Return the differences in pseudo-regret to CBMP-UCB with MAP and to 35 mg."""
    base, fixed = "cbmp-map:registry", "35 mg:none"
    column = f"regret_{warfarin_play.ROUNDS}"
    rows = []
    for player in players(table, WARFARIN):
        cells = [
            "" if player == other else paired(table, player, other, column).text(".1f", bold=True)
            for other in (base, fixed)
        ]
        rows.append([title(player), player.partition(":")[2].replace("none", ""), *cells])
    return markdown(
        ["policy", "learns f from", "minus CBMP-UCB, map, registry", "minus 35 mg"], rows, left=2
    )


def actg_table(table: pd.DataFrame) -> str:
    """Return outcomes, values and arms of the policies."""
    rows = []
    for player in players(table, ACTG):
        values = {name: own(table, player, name).to_numpy() for name in table.columns[5:]}
        texts = [f"{values['outcome'].mean():.1f}"]
        for name in ("adjusted", "value"):
            interval = Interval.of(values[name])
            texts.append(f"{interval.mean:.1f} ± {interval.half:.1f}")
        texts += [f"{values[f'arm_{k}'].mean():.2f}" for k in range(4)]
        source = player.partition(":")[2]
        cells = [title(player), "" if source == "none" else source, str(len(values["outcome"]))]
        rows.append([*cells, *texts, f"{pd.Series(values['cpu_seconds']).median():.0f}"])
    header = ["policy", "outcomes", "trials", "outcome", "adjusted", "value"]
    return markdown([*header, *(f"arm {k}" for k in range(4)), "CPU s"], rows, left=2)


def actg_differences(table: pd.DataFrame) -> str:
    """Return the differences in value and adjusted outcome to a random arm."""
    rows = []
    for player in players(table, ACTG):
        if player != "random:none":
            cells = [
                paired(table, player, "random:none", name).text(".1f", bold=True)
                for name in ("value", "adjusted")
            ]
            rows.append([title(player), player.partition(":")[2].replace("none", ""), *cells])
    return markdown(["policy", "outcomes", "value", "adjusted outcome"], rows, left=2)


def pages() -> dict[str, str]:
    """Return the pages with fresh tables, by name."""
    parts = {
        "case_warfarin": {
            "rewards": warfarin_table(warfarin_trials()),
            "differences": warfarin_differences(warfarin_trials()),
        },
        "case_actg": {
            "values": actg_table(actg_trials()),
            "differences": actg_differences(actg_trials()),
        },
    }
    made = {}
    for page, shown in parts.items():
        text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        for name, table in shown.items():
            text = tables.filled(text, name, table)
        made[page] = text
    return made


def main() -> None:
    """Write the tables, and draw the figures."""
    for name, text in pages().items():
        (DOCS / f"{name}.md").write_text(text, encoding="utf-8")
    for name, figure in case_figures.figures(warfarin_trials(), actg_trials()).items():
        figure.savefig(DOCS / "figures" / f"{name}.png", dpi=160, metadata={"Software": None})


if __name__ == "__main__":
    typer.run(main)
