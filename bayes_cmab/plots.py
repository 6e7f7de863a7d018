"""Figures of a sweep: pure functions of its results that return a matplotlib figure.

Colour says the policy, the same in every figure of the project; line style says how its
hyperparameters are inferred. Nothing here touches pyplot or leaves a setting changed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bayes_cmab.files import write_atomically
from bayes_cmab.registry import agent_title, split_name
from bayes_cmab.summary import (
    TAIL,
    Results,
    cumulative_outcome,
    cumulative_pseudo_regret,
    half_width,
)
from bayes_cmab.sweep import Cell, explores
from bayes_cmab.validate import FloatArray, one_of

COLOURS = {
    "cbmp": "#0072B2",
    "proposition": "#56B4E9",
    "residual": "#004D80",
    "additive": "#882255",
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


@dataclass(frozen=True)
class Curve:
    """How the cells' curves are computed and named.

    Attributes
    ----------
    label : of the vertical axis.
    note : what the curve is, for a number of trials.
    total : of a data set, shape (trials, rounds).
    centre : over the trials, shape (rounds,).
    band : whether to draw the 95% t-interval of the mean.
    """

    label: str
    note: str
    total: Callable[[xr.Dataset], FloatArray]
    centre: Callable[[FloatArray], FloatArray]
    band: bool


def _mean(values: FloatArray) -> FloatArray:
    return np.asarray(values.mean(axis=0), np.float64)


def _tail(values: FloatArray) -> FloatArray:
    return np.asarray(np.quantile(values, TAIL, axis=0), np.float64)


MEAN_NOTE = "mean of {trials} trials, 95% band"
CURVES = {
    "mean": Curve("cumulative outcome", MEAN_NOTE, cumulative_outcome, _mean, True),
    "quantile": Curve(
        "cumulative outcome",
        f"{TAIL:g} quantile of {{trials}} trials",
        cumulative_outcome,
        _tail,
        False,
    ),
}
REGRET = Curve("cumulative pseudo-regret", MEAN_NOTE, cumulative_pseudo_regret, _mean, True)


def plot_cumulative(results: Results, statistic: Literal["mean", "quantile"] = "mean") -> Figure:
    """Draw the cumulative outcome over the rounds, as in the paper's Figures 1 and 2.

    Parameters
    ----------
    results : of `load_sweep`.
    statistic : over the trials: ``"mean"`` with the 95% t-interval of the mean as a band, or
        ``"quantile"``, the 0.05 quantile.

    Returns
    -------
    matplotlib.figure.Figure
        One panel for each setting (rows), and each offline size and exploration weight
        (columns).

    Raises
    ------
    ValueError
        If the statistic is unknown or there are no results.
    """
    return _draw(results, CURVES[one_of(statistic, "statistic", list(CURVES))])


def plot_regret(results: Results) -> Figure:
    """Draw the mean cumulative pseudo-regret with its 95% band; see `plot_cumulative`."""
    return _draw(results, REGRET)


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
    one_of(kind, "format", FORMATS)
    figures = {
        "cumulative": plot_cumulative(results),
        "quantile": plot_cumulative(results, "quantile"),
        "regret": plot_regret(results),
    }
    paths = [folder / f"{name}.{kind}" for name in figures]
    with mpl.rc_context(STYLE):
        for path, figure in zip(paths, figures.values(), strict=True):
            write_atomically(path, partial(figure.savefig, format=kind))
    return paths


def _draw(results: Results, curve: Curve) -> Figure:
    if not results:
        raise ValueError("results: expected at least one cell, got none")
    settings = list(dict.fromkeys(cell.setting for cell in results))
    weights = list(dict.fromkeys(cell.beta for cell in results if explores(cell.agent)))
    weights = weights or [next(iter(results)).beta]
    columns = [
        (offline, beta)
        for offline in dict.fromkeys(cell.offline for cell in results)
        for beta in weights
    ]
    with mpl.rc_context(STYLE):
        figure = Figure(_size(len(settings), len(columns)), layout="constrained")
        axes = figure.subplots(
            len(settings), len(columns), squeeze=False, sharex=True, sharey="row"
        )
        for row, setting in zip(axes, settings, strict=True):
            for axis, (offline, beta) in zip(row, columns, strict=True):
                for cell, data in results.items():
                    here = (cell.setting, cell.offline) == (setting, offline)
                    if here and (cell.beta == beta or not explores(cell.agent)):
                        _line(axis, cell, data, curve)
                weight = f", $\\beta$ = {beta:g}" if len(weights) > 1 else ""
                axis.set_title(f"Setting {setting}, $m$ = {offline}{weight}", loc="left")
            row[0].set_ylabel(curve.label)
        for axis in axes[-1]:
            axis.set_xlabel("round")
        _legend(figure, results, curve, len(columns))
    return figure


def _size(rows: int, columns: int) -> tuple[float, float]:
    """Return width and height in inches: two panels fill a page of seven inches."""
    if columns == 1:
        return 5.6, 0.2 + 2.6 * rows
    return 0.4 + 3.3 * columns, 0.8 + 2.4 * rows


def _line(axis: Axes, cell: Cell, data: xr.Dataset, curve: Curve) -> None:
    """Draw one agent's curve, from zero before the first round."""
    total = np.pad(curve.total(data), ((0, 0), (1, 0)))
    rounds = np.arange(total.shape[1])
    centre = curve.centre(total)
    style = line_style(cell.agent)
    above = 3.0 - 0.01 * len(axis.lines)  # the agents that are named first lie on top
    axis.plot(rounds, centre, label=agent_title(cell.agent), zorder=above, **style)
    if curve.band and len(total) > 1:
        half = half_width(total)
        lower, upper = centre - half, centre + half
        axis.fill_between(rounds, lower, upper, color=style["color"], alpha=0.15, linewidth=0)
    axis.margins(x=0.0)


def _legend(figure: Figure, results: Results, curve: Curve, columns: int) -> None:
    """Put the legend outside: beside a single column of panels, below several."""
    agents = list(dict.fromkeys(cell.agent for cell in results))
    lines = -(-len(agents) // (2 * columns))
    figure.legend(
        handles=[Line2D([], [], label=agent_title(a), **line_style(a)) for a in agents],
        title=curve.note.format(trials=next(iter(results.values())).sizes["trial"]),
        loc="outside right upper" if columns == 1 else "outside lower center",
        ncols=1 if columns == 1 else -(-len(agents) // lines),
        alignment="left",
    )
