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
    actg_play.THUMB: "#333333",
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
    """Draw cumulative pseudo-regret by patient, the 95% intervals of its ends, and names."""
    step, last = (int(name.removeprefix("regret_")) for name in (names[0], names[-1]))
    patients = np.arange(0, last + 1, step)
    ends = []
    for place, player in enumerate(shown):
        paths = np.column_stack([own(table, player, name).to_numpy() for name in names])
        mean, style = np.append(0.0, paths.mean(axis=0)), look(player)
        axis.plot(patients, mean, **style)
        half = float(half_width(paths[:, -1]))
        at = last * (1.02 + 0.016 * place)
        axis.errorbar(at, mean[-1], half, fmt="o", ms=2.5, color=style["color"], linewidth=1.3)
        ends.append((mean[-1], player, style["color"]))
    right = last * (1.02 + 0.016 * len(shown))
    label_ends(axis, right, sorted(ends))
    axis.set_xlim(0, right)
    axis.set_xticks([t for t in axis.get_xticks() if t <= last])
    axis.set_ylim(bottom=0)


def label_ends(axis: Axes, x: float, ends: Sequence[tuple[float, str, str]]) -> None:
    """Write the names of lines to the right of their ends, apart from each other."""
    top = max(end for end, _, _ in ends)
    gap, at = 0.075 * top, -np.inf
    for end, player, colour in ends:
        at = max(end, at + gap)
        source = player.partition(":")[2]
        name = title(player) + ("" if source == "none" else f" ({source})")
        axis.annotate(
            name,
            (x, end),
            xytext=(x * 1.04, at),
            color=colour,
            fontsize=7.5,
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
    left.plot(np.exp(r), y, "o", ms=3.5, mfc="white", mec="#5C5C5C", mew=1.0)
    left.text(1.42, -9.0, "f, minus the harm index", fontsize=7.5)
    left.text(2.1, -4.2, "50 cells of a registry", fontsize=7.5, color="#5C5C5C")
    left.set(
        xlabel="INR, r", ylabel="y: minus harm, 400 person-years a cell", xlim=(1, 6), ylim=(-18, 1)
    )
    left.set_title("What a registry tells of f", loc="left")
    counts = clinic.contexts.vkorc1.to_numpy()
    shades = ("#9A9A9A", "#5C5C5C", "#1A1A1A")
    for (name, count), shade in zip(ALLELES.items(), shades, strict=True):
        mean = table[counts == count].mean(axis=0)
        right.plot(np.exp(LOG_DOSES), mean, color=shade)
        best = mean.argmax()
        right.plot(np.exp(LOG_DOSES[best]), mean[best], "o", color=shade, ms=4)
        right.text(19.0, -4.7 - 0.4 * count, f"VKORC1 {name}", fontsize=7.5, color=shade)
    right.axvline(35.0, color=GREYS["35 mg"], lw=0.9, ls="--")
    right.annotate("35 mg", (35.6, -5.6), fontsize=7.5, color=GREYS["35 mg"])
    right.set(
        xlabel="dose a, mg a week",
        ylabel="mean reward g, minus harm index",
        ylim=(-6, -1.5),
        xlim=(10, 70),
    )
    right.set_title("Mean reward by genotype", loc="left")
    return figure


def two_panels(compared: int) -> tuple[Figure, Axes, Axes]:
    """Return a figure with curves above and as many differences below, as wide as a page."""
    heights = [3.0, 0.5 + 0.17 * compared]
    figure = Figure((7.2, sum(heights) + 0.6), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=heights)  # each with its own margins
    return figure, above.subplots(), below.subplots()


def warfarin_regret(table: pd.DataFrame) -> Figure:
    """Draw the pseudo-regret by patient, and the paired differences to 35 mg."""
    names = [name for name in table.columns if name.startswith("regret_")]
    here = players(table, WARFARIN)
    compared = [name for name in here if name not in ("random:none", "35 mg:none")]
    figure, above, below = two_panels(len(compared))
    wanted = ["35 mg:none", "best single dose:none", "residual-map:registry", "sharp-map:registry"]
    wanted += ["cbmp-map:registry", "cbmp-nuts:registry", "cme-map:registry"]
    curves(above, table, [name for name in wanted if name in here], names)
    above.set(xlabel="patient", ylabel="cumulative pseudo-regret, harm index")
    above.set_title("Pseudo-regret, mean of 20 trials with 95% interval at the end", loc="left")
    gaps = {name: paired(table, name, "35 mg:none", names[-1]) for name in compared}
    dots(below, dict(sorted(gaps.items(), key=lambda item: item[1].mean)))
    below.set(
        xlabel="pseudo-regret of 130 patients minus that of 35 mg, harm index; less is better"
    )
    below.set_title("Paired differences, 95% intervals (trials)", loc="left")
    return figure


def actg_value(table: pd.DataFrame) -> Figure:
    """Draw the pseudo-regret by week, and the paired differences to a random arm."""
    names = [name for name in table.columns if name.startswith("regret_")]
    here = players(table, ACTG)
    compared = [name for name in here if name not in ("random:none", "best arm:none")]
    figure, above, below = two_panels(len(compared))
    wanted = ["random:none", f"{actg_play.THUMB}:none", "gp-map:own", "cbmp-map:own"]
    wanted += ["cbmp-map:m=50", "cbmp-nuts:m=50", "sharp-map:m=50", "cme-map:m=50"]
    curves(above, table, [name for name in wanted if name in here], names)
    for delay, text in zip(actg_play.DELAYS.values(), ("first r", "first y"), strict=True):
        above.axvline(delay, color="#888888", lw=0.8, ls="--")
        above.annotate(
            text, (delay + 1.5, above.get_ylim()[1] * 0.94), fontsize=7.5, color="#555555"
        )
    above.set(xlabel="week, one patient each", ylabel="cumulative shortfall, CD4 cells")
    above.set_title(
        "Shortfall from the best arm, mean of 20 trials with 95% interval at the end", loc="left"
    )
    gaps = {name: paired(table, name, "random:none", "value") for name in compared}
    dots(below, dict(sorted(gaps.items(), key=lambda item: -item[1].mean)))
    below.set(xlabel="value minus that of a random arm, CD4 cells a patient; more is better")
    below.set_title("Paired differences, 95% intervals (trials)", loc="left")
    return figure


def figures(warfarin: pd.DataFrame, actg: pd.DataFrame) -> dict[str, Figure]:
    """Return the figures by name."""
    with mpl.rc_context(STYLE):
        return {
            "case_warfarin_law": warfarin_law(),
            "case_warfarin_regret": warfarin_regret(warfarin),
            "case_actg_value": actg_value(actg),
        }
