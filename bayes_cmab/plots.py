"""Figures of a sweep: pure functions of its table of curves that return a matplotlib figure.

Colour says the policy, the same in every figure of the project; line style says how its
hyperparameters are inferred. Nothing here touches pyplot or leaves a setting changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bayes_cmab.curves import curves, interval
from bayes_cmab.files import write_atomically
from bayes_cmab.registry import agent_title, split_name
from bayes_cmab.summary import TAIL, Results
from bayes_cmab.sweep import explores
from bayes_cmab.validate import one_of

COLOURS = {
    "cbmp": "#0072B2",
    "proposition": "#56B4E9",
    "residual": "#004D80",
    "additive": "#882255",
    "varying": "#999933",
    "sharp": "#332288",
    "anova": "#117733",
    "cme": "#D55E00",
    "icme": "#E69F00",
    "gp": "#009E73",
    "gaussian": "#CC79A7",
    "plugin": "#000000",
    "oracle": "#6B6B6B",
    "random": "#A8A8A8",
}
"""Colour of each policy: Okabe and Ito's palette, which colour-blind readers can tell apart."""

LINES: dict[str, dict[str, Any]] = {
    "fixed": {"linestyle": (0, (4, 1.8)), "linewidth": 1.2},
    "map": {"linestyle": "-", "linewidth": 1.3},
    "map1": {"linestyle": (0, (1, 1)), "linewidth": 1.3},
    "svi": {"linestyle": (0, (5, 1.5, 1, 1.5)), "linewidth": 1.3},
    "nuts": {"linestyle": "-", "linewidth": 2.4},
}
"""Line of each inference."""

PLAIN: dict[str, Any] = {"linestyle": "-", "linewidth": 1.1}
"""Line of the policies that infer nothing."""

STYLE: dict[Any, Any] = {
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#444444",
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.5,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "legend.title_fontsize": 7.5,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "legend.handletextpad": 0.6,
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
}
"""Matplotlib settings of a figure, in force while it is drawn and saved."""

FORMATS = ("png", "pdf", "svg")

LETTER = 0.06
"""Width of a letter of the legend in inches, about."""


@dataclass(frozen=True)
class Statistic:
    """What a figure shows of the curves.

    Attributes
    ----------
    label : of the vertical axis.
    note : what it is, for a number of trials.
    column : of the table of curves.
    band : name of the mean whose 95% t-interval is drawn, if one is.
    """

    label: str
    note: str
    column: str
    band: str | None = None


MEAN_NOTE = "mean of {trials} trials, 95% band"
STATISTICS = {
    "mean": Statistic("cumulative outcome", MEAN_NOTE, "outcome_mean", "outcome"),
    "quantile": Statistic(
        "cumulative outcome", f"{TAIL:g} quantile of {{trials}} trials", "outcome_q05"
    ),
    "regret": Statistic("cumulative pseudo-regret", MEAN_NOTE, "regret_mean", "regret"),
}


def plot_curves(
    frame: pd.DataFrame, statistic: Literal["mean", "quantile", "regret"] = "mean"
) -> Figure:
    """Draw the curves of a table, as in the paper's Figures 1 and 2.

    Parameters
    ----------
    frame : of `curves.curves`, or a part of it.
    statistic : over the trials: ``"mean"`` of the cumulative outcome with its 95% t-interval as a
        band, ``"quantile"``, its 0.05 quantile, or ``"regret"``, the mean of the cumulative
        pseudo-regret with its band.

    Returns
    -------
    matplotlib.figure.Figure
        One panel for each setting (rows), and each offline size and exploration weight
        (columns). An agent that does not explore is in the panels of all weights.

    Raises
    ------
    ValueError
        If the statistic is unknown or the table is empty.
    """
    shown = STATISTICS[one_of(statistic, "statistic", list(STATISTICS))]
    if frame.empty:
        raise ValueError("frame: expected at least one row, got none")
    return _draw(frame, shown)


def plot_cumulative(results: Results, statistic: Literal["mean", "quantile"] = "mean") -> Figure:
    """Draw the cumulative outcome over the rounds; see `plot_curves`.

    Parameters
    ----------
    results : of `load_sweep`.
    """
    one_of(statistic, "statistic", ("mean", "quantile"))
    return plot_curves(curves(results), statistic)


def plot_regret(results: Results) -> Figure:
    """Draw the mean cumulative pseudo-regret with its 95% band; see `plot_curves`."""
    return plot_curves(curves(results), "regret")


def line_style(agent: str) -> dict[str, Any]:
    """Return the colour, line style and line width of an agent."""
    policy, inference = split_name(agent)
    return {"color": COLOURS[policy], **(LINES[inference] if explores(agent) else PLAIN)}


def save_figures(results: Results, folder: Path, kind: str = "png") -> list[Path]:
    """Write ``cumulative``, ``quantile`` and ``regret`` figures; return where.

    Raises
    ------
    ValueError
        If ``kind`` is not one of `FORMATS`.
    """
    figures = {
        "cumulative": plot_cumulative(results),
        "quantile": plot_cumulative(results, "quantile"),
        "regret": plot_regret(results),
    }
    return save(figures, folder, kind)


def save(figures: Mapping[str, Figure], folder: Path, kind: str = "png") -> list[Path]:
    """Write figures by their names; return where.

    Raises
    ------
    ValueError
        If ``kind`` is not one of `FORMATS`.
    """
    one_of(kind, "format", FORMATS)
    paths = [folder / f"{name}.{kind}" for name in figures]
    with mpl.rc_context(STYLE):
        for path, figure in zip(paths, figures.values(), strict=True):
            write_atomically(path, partial(figure.savefig, format=kind))
    return paths


def _draw(frame: pd.DataFrame, shown: Statistic) -> Figure:
    settings = list(frame["setting"].unique())
    moving = frame["agent"].map(explores)
    weights = list(frame["beta"][moving].unique()) or [frame["beta"].iloc[0]]
    columns = [(size, beta) for size in frame["offline"].unique() for beta in weights]
    with mpl.rc_context(STYLE):
        figure = Figure(_size(len(settings), len(columns)), layout="constrained")
        axes = figure.subplots(
            len(settings), len(columns), squeeze=False, sharex=True, sharey="row"
        )
        for row, setting in zip(axes, settings, strict=True):
            for axis, (offline, beta) in zip(row, columns, strict=True):
                here = (frame["setting"] == setting) & (frame["offline"] == offline)
                panel = frame[here & ((frame["beta"] == beta) | ~moving)]
                for agent, own in panel.groupby("agent", sort=False):
                    _line(axis, str(agent), own, shown)
                weight = f", $\\beta$ = {beta:g}" if len(weights) > 1 else ""
                axis.set_title(f"Setting {setting}, $m$ = {offline}{weight}", loc="left")
            row[0].set_ylabel(shown.label)
        for axis in axes[-1]:
            axis.set_xlabel("round")
        _legend(figure, frame, shown, len(columns))
    return figure


def _size(rows: int, columns: int) -> tuple[float, float]:
    """Return width and height in inches: two panels fill a page of seven inches."""
    if columns == 1:
        return 5.6, 0.2 + 2.6 * rows
    return 0.4 + 3.3 * columns, 0.8 + 2.4 * rows


def _line(axis: Axes, agent: str, own: pd.DataFrame, shown: Statistic) -> None:
    """Draw one agent's curve, from zero before the first round."""
    rounds = np.append(0, own["round"])
    style = line_style(agent)
    above = 3.0 - 0.01 * len(axis.lines)  # the agents that are named first lie on top
    centre = np.append(0.0, own[shown.column])
    axis.plot(rounds, centre, label=agent_title(agent), zorder=above, **style)
    if shown.band and own["trials"].iloc[0] > 1:
        low, high = (np.append(0.0, bound) for bound in interval(own, shown.band))
        axis.fill_between(rounds, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axis.margins(x=0.0)


def _legend(figure: Figure, frame: pd.DataFrame, shown: Statistic, columns: int) -> None:
    """Put the legend outside: beside a single column of panels, below several."""
    agents = list(frame["agent"].unique())
    longest = max(len(agent_title(agent)) for agent in agents)
    fitting = int(figure.get_figwidth() / (0.5 + LETTER * longest))
    lines = -(-len(agents) // max(min(2 * columns, fitting), 1))
    least, most = frame["trials"].min(), frame["trials"].max()
    figure.legend(
        handles=[Line2D([], [], label=agent_title(a), **line_style(a)) for a in agents],
        title=shown.note.format(trials=most if least == most else f"{least} to {most}"),
        loc="outside right upper" if columns == 1 else "outside lower center",
        ncols=1 if columns == 1 else -(-len(agents) // lines),
        alignment="left",
    )
