"""Figures of the case studies: colour says the policy as in `bayes_cmab.plots`, line the inference.

Dotted lines learn f from the patients' own outcomes alone; grey ones learn nothing.
"""

from collections.abc import Sequence
from typing import Any

import actg_play
import matplotlib as mpl
import numpy as np
import pandas as pd
import warfarin_play
from case_tables import Interval, own, paired, players, title
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from play import ACTG, WARFARIN
from warfarin_clinic import LOG_DOSES, harm
from warfarin_patients import ALLELES

from bayes_cmab.plot_style import COLOURS, LINES, STYLE
from bayes_cmab.summary import half_width

GREYS = {
    "35 mg": "#555555",
    "best single dose": "#999999",
    "random": COLOURS["random"],
    "best arm": COLOURS["oracle"],
}


def look(player: str) -> dict[str, Any]:
    """Return colour and line of a player."""
    policy, _, data = player.partition(":")
    family, _, inference = policy.partition("-")
    if family not in COLOURS or not inference:
        return {"color": GREYS.get(policy, "#777777"), "linewidth": 1.1}
    line = dict(LINES[inference])
    if data == "own":
        line |= {"linestyle": ":", "linewidth": 1.5}
    return {"color": COLOURS[family], **line}


def curves(axis: Axes, table: pd.DataFrame, shown: Sequence[str], names: Sequence[str]) -> None:
    """Draw cumulative pseudo-regret by patient, with 95% intervals, and label the lines."""
    step, last = (int(name.removeprefix("regret_")) for name in (names[0], names[-1]))
    patients = np.arange(0, last + 1, step)
    ends = []
    for player in shown:
        paths = np.column_stack([own(table, player, name).to_numpy() for name in names])
        paths = np.hstack([np.zeros((len(paths), 1)), paths])
        mean, half, style = paths.mean(axis=0), half_width(paths), look(player)
        axis.plot(patients, mean, **style)
        axis.fill_between(
            patients, mean - half, mean + half, color=style["color"], alpha=0.12, lw=0
        )
        ends.append((mean[-1], player, style["color"]))
    label_ends(axis, last, sorted(ends))
    axis.set_xlim(0, last)
    axis.set_ylim(bottom=0)


def label_ends(axis: Axes, x: float, ends: Sequence[tuple[float, str, str]]) -> None:
    """Write the names of lines to the right of their ends, apart from each other."""
    top = max(end for end, _, _ in ends)
    gap, at = 0.058 * top, -np.inf
    for end, player, colour in ends:
        at = max(end, at + gap)
        source = player.partition(":")[2]
        name = title(player).replace("CBMP-UCB (transition prior)", "with transition prior")
        name += "" if source == "none" else f" ({source})"
        axis.annotate(
            name,
            (x, end),
            xytext=(x * 1.03, at),
            color=colour,
            fontsize=7,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "lw": 0.5,
                "shrinkA": 0,
                "shrinkB": 0,
                "relpos": (0.0, 0.5),  # from the left of the name
            },
        )


def dots(axis: Axes, intervals: dict[str, Interval]) -> None:
    """Draw differences with their intervals, one player a row."""
    for row, (player, interval) in enumerate(intervals.items()):
        style = look(player)
        hollow = "white" if player.endswith(":own") else style["color"]
        axis.errorbar(
            interval.mean,
            row,
            xerr=interval.half,
            fmt="o",
            color=style["color"],
            markerfacecolor=hollow,
            markersize=4,
            elinewidth=1.2,
        )
    axis.axvline(0.0, color="#444444", lw=0.8)
    labels = []
    for player, interval in intervals.items():
        source = player.partition(":")[2]
        source = "" if source == "none" else f", {source}"
        labels.append(f"{title(player)}{source} ({interval.trials})")
    axis.set_yticks(range(len(labels)), labels)
    axis.set_ylim(len(labels) - 0.5, -0.5)
    axis.grid(visible=False, axis="y")


def warfarin_law() -> Figure:
    """Draw f with a registry, and g by dose for three genotypes."""
    clinic, table, _ = warfarin_play.known()
    figure = Figure((7.2, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    inr = np.linspace(1.0, 6.0, 400)
    left.plot(inr, -harm(inr), color="black", lw=1.3)
    task = warfarin_play.Task("cbmp-map", "registry", 5, 0, warfarin_play.ROUNDS)
    r, y = warfarin_play.registry(task, warfarin_play.REGISTRY)
    left.plot(np.exp(r), y, "o", ms=3.5, mfc="white", mec=COLOURS["cbmp"], mew=1.0)
    left.text(1.42, -9.0, "f, minus the harm index", fontsize=7.5)
    left.text(2.1, -4.2, "50 cells of a registry", fontsize=7.5, color=COLOURS["cbmp"])
    left.set(
        xlabel="INR, r", ylabel="outcome y (400 person-years a cell)", xlim=(1, 6), ylim=(-18, 1)
    )
    left.set_title("What a registry tells of f", loc="left")
    counts = clinic.contexts.vkorc1.to_numpy()
    shades = ("#6baed6", "#2171b5", "#08306b")
    for (name, count), shade in zip(ALLELES.items(), shades, strict=True):
        mean = table[counts == count].mean(axis=0)
        right.plot(np.exp(LOG_DOSES), mean, color=shade)
        best = mean.argmax()
        right.plot(np.exp(LOG_DOSES[best]), mean[best], "o", color=shade, ms=4)
        right.text(19.0, -4.7 - 0.4 * count, f"VKORC1 {name}", fontsize=7.5, color=shade)
    right.axvline(35.0, color=GREYS["35 mg"], lw=0.9, ls="--")
    right.annotate("35 mg", (35.6, -5.6), fontsize=7.5, color=GREYS["35 mg"])
    right.set(xlabel="dose a, mg a week", ylabel="mean reward g", ylim=(-6, -1.5), xlim=(10, 70))
    right.set_title("Mean reward by genotype", loc="left")
    return figure


def warfarin_regret(table: pd.DataFrame) -> Figure:
    """Draw the pseudo-regret by patient, and the paired differences to 35 mg."""
    figure = Figure((10.6, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.0, 0.9])
    wanted = ["35 mg:none", "best single dose:none", "residual-map:registry", "sharp-map:registry"]
    wanted += ["cbmp-fixed:registry", "cbmp-map:registry", "cme-fixed:registry"]
    wanted += ["cbmp-nuts:registry", "cme-map:registry", "gaussian-map:registry"]
    names = [name for name in table.columns if name.startswith("regret_")]
    here = players(table, WARFARIN)
    curves(left, table, [name for name in wanted if name in here], names)
    left.set(xlabel="patient", ylabel="cumulative pseudo-regret")
    left.set_title("Pseudo-regret, mean and 95% interval", loc="left")
    skipped = ("random:none", "35 mg:none")
    compared = [name for name in here if name not in skipped]
    gaps = {name: paired(table, name, "35 mg:none", names[-1]) for name in compared}
    dots(right, dict(sorted(gaps.items(), key=lambda item: item[1].mean)))
    right.set(xlabel="less is better")
    right.set_title("Pseudo-regret minus that of 35 mg (trials)", loc="left")
    return figure


def actg_value(table: pd.DataFrame) -> Figure:
    """Draw the pseudo-regret by week, and the paired differences to a random arm."""
    figure = Figure((10.6, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.0, 0.9])
    wanted = ["random:none", "gp-map:own", "cbmp-map:own", "cbmp-map:m=50", "residual-map:m=50"]
    wanted += ["cbmp-fixed:m=50", "sharp-map:m=50", "cme-map:m=50"]
    names = [name for name in table.columns if name.startswith("regret_")]
    here = players(table, ACTG)
    curves(left, table, [name for name in wanted if name in here], names)
    for delay, text in zip(actg_play.DELAYS.values(), ("first r", "first y"), strict=True):
        left.axvline(delay, color="#888888", lw=0.8, ls="--")
        left.annotate(text, (delay + 1.5, left.get_ylim()[1] * 0.95), fontsize=7, color="#555555")
    left.set(xlabel="week, one patient each", ylabel="cumulative pseudo-regret, CD4 cells")
    left.set_title("Shortfall from the best arm, mean and 95% interval", loc="left")
    compared = [name for name in here if name not in ("random:none", "best arm:none")]
    gaps = {name: paired(table, name, "random:none", "value") for name in compared}
    dots(right, dict(sorted(gaps.items(), key=lambda item: -item[1].mean)))
    right.set(xlabel="CD4 cells; more is better")
    right.set_title("Value minus that of a random arm (trials)", loc="left")
    return figure


def figures(warfarin: pd.DataFrame, actg: pd.DataFrame) -> dict[str, Figure]:
    """Return the figures by name."""
    with mpl.rc_context(STYLE):
        return {
            "case_warfarin_law": warfarin_law(),
            "case_warfarin_regret": warfarin_regret(warfarin),
            "case_actg_value": actg_value(actg),
        }
