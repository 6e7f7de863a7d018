"""Figures of a sweep: pure functions of its table of curves that return a matplotlib figure.

To the right of the curves are the 95% intervals of their ends, one bar an agent, in the order of
the legend: bands around ten curves would hide each other. Nothing here touches pyplot or leaves a
setting changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from bayes_cmab.curves import curves, interval, sums_of
from bayes_cmab.files import write_atomically
from bayes_cmab.ledger import KEY
from bayes_cmab.plot_style import STYLE, line_style
from bayes_cmab.registry import agent_title
from bayes_cmab.summary import TAIL, Results, tail_interval
from bayes_cmab.sweep import explores
from bayes_cmab.validate import FloatArray, one_of

FORMATS = ("png", "pdf", "svg")

LETTER = 0.06
"""Width of a letter of the legend in inches, about."""

FIRST_BAR, BAR_STEP = 1.03, 0.022
"""Where the intervals of the ends are drawn, in last rounds."""


@dataclass(frozen=True)
class Statistic:
    """What a figure shows of the curves.

    Attributes
    ----------
    label : of the vertical axis.
    note : what it is, for a number of trials.
    column : of the table of curves.
    mean : name of the mean whose 95% t-interval is drawn; without one it is that of the quantile.
    """

    label: str
    note: str
    column: str
    mean: str | None = None


MEAN_NOTE = "mean of {trials} trials; bars: 95% intervals at the end"
STATISTICS = {
    "mean": Statistic("cumulative outcome", MEAN_NOTE, "outcome_mean", "outcome"),
    "quantile": Statistic(
        f"{TAIL:g} quantile of cumulative outcome",
        "of {trials} trials; bars: 95% intervals at the end (bootstrap)",
        "outcome_q05",
    ),
    "regret": Statistic("cumulative pseudo-regret", MEAN_NOTE, "regret_mean", "regret"),
}


def plot_curves(
    frame: pd.DataFrame,
    statistic: Literal["mean", "quantile", "regret"] = "mean",
    sums: pd.DataFrame | None = None,
    *,
    agents: Sequence[str] = (),
) -> Figure:
    """Draw the curves of a table, as in the paper's Figures 1 and 2.

    Parameters
    ----------
    frame : of `curves.curves`, or a part of it.
    statistic : over the trials: ``"mean"`` of the cumulative outcome, ``"quantile"``, its 0.05
        quantile, or ``"regret"``, the mean of the cumulative pseudo-regret.
    sums : of `Ledger.trials`, whose ``outcome`` the interval of the quantile comes from
        (`tail_interval`); without them it has none. Those of the means are t-intervals.
    agents : their order in the legend; by default, and for those not named, that of the table.

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
    found = frame["agent"].unique()
    order = [agent for agent in dict.fromkeys([*agents, *found]) if agent in found]
    return _draw(frame, order, shown, sums)


def plot_cumulative(results: Results, statistic: Literal["mean", "quantile"] = "mean") -> Figure:
    """Draw the cumulative outcome over the rounds; see `plot_curves`.

    Parameters
    ----------
    results : of `load_sweep`.
    """
    one_of(statistic, "statistic", ("mean", "quantile"))
    sums = sums_of(results) if statistic == "quantile" else None
    return plot_curves(curves(results), statistic, sums)


def plot_regret(results: Results) -> Figure:
    """Draw the mean cumulative pseudo-regret; see `plot_curves`."""
    return plot_curves(curves(results), "regret")


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


def _draw(
    frame: pd.DataFrame, agents: list[str], shown: Statistic, sums: pd.DataFrame | None
) -> Figure:
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
                _bars(axis, panel, agents, shown, sums)
                weight = f", $\\beta$ = {beta:g}" if len(weights) > 1 else ""
                axis.set_title(f"Setting {setting}, $m$ = {offline}{weight}", loc="left")
            row[0].set_ylabel(shown.label)
        for axis in axes[-1]:
            axis.set_xlabel("round")
        _legend(figure, frame, agents, shown, len(columns))
    return figure


def _size(rows: int, columns: int) -> tuple[float, float]:
    """Return width and height in inches: two panels fill a page of seven inches."""
    if columns == 1:
        return 6.6, 0.2 + 2.6 * rows
    return 0.4 + 3.3 * columns, 0.8 + 2.4 * rows


def _line(axis: Axes, agent: str, own: pd.DataFrame, shown: Statistic) -> None:
    """Draw one agent's curve, from zero before the first round."""
    above = 3.0 - 0.01 * len(axis.lines)  # the agents that are named first lie on top
    rounds, centre = np.append(0, own["round"]), np.append(0.0, own[shown.column])
    axis.plot(rounds, centre, label=agent_title(agent), zorder=above, **line_style(agent))


def _bars(
    axis: Axes,
    panel: pd.DataFrame,
    agents: list[str],
    shown: Statistic,
    sums: pd.DataFrame | None,
) -> None:
    """Draw the intervals of the ends beyond the last round, each agent's at its own place."""
    last = int(panel["round"].max())
    ends = panel[(panel["round"] == last) & (panel["trials"] > 1)]
    for agent in ends["agent"]:
        own = ends[ends["agent"] == agent]
        if shown.mean:
            low, high = (float(bound[0]) for bound in interval(own, shown.mean))
        elif sums is not None:
            low, high = tail_interval(_outcomes(sums, own))
        else:
            continue
        at = last * (FIRST_BAR + BAR_STEP * agents.index(agent))
        centre = float(own[shown.column].iloc[0])
        style = {"color": line_style(agent)["color"], "linewidth": 1.4}
        axis.errorbar(at, centre, [[centre - low], [high - centre]], fmt="o", ms=2.2, **style)
    axis.set_xlim(0.0, last * (FIRST_BAR + BAR_STEP * len(agents)))
    axis.set_xticks([t for t in MaxNLocator(5, integer=True).tick_values(0, last) if t <= last])


def _outcomes(sums: pd.DataFrame, own: pd.DataFrame) -> FloatArray:
    """Return the cumulative outcomes of the trials of one cell."""
    rows = (sums[KEY] == own[KEY].iloc[0]).all(axis=1)
    return sums.loc[rows, "outcome"].to_numpy(np.float64)[: int(own["trials"].iloc[0])]


def _legend(
    figure: Figure, frame: pd.DataFrame, agents: list[str], shown: Statistic, columns: int
) -> None:
    """Put the legend outside: beside a single column of panels, below several."""
    longest = max(len(agent_title(agent)) for agent in agents)
    fitting = int(figure.get_figwidth() / (0.5 + LETTER * longest))
    lines = -(-len(agents) // max(min(2 * columns, fitting), 1))
    least, most = frame["trials"].min(), frame["trials"].max()
    title = shown.note.format(trials=most if least == most else f"{least} to {most}")
    figure.legend(
        handles=[Line2D([], [], label=agent_title(a), **line_style(a)) for a in agents],
        title=title.replace("; ", ";\n") if columns == 1 else title,
        loc="outside right upper" if columns == 1 else "outside lower center",
        ncols=1 if columns == 1 else -(-len(agents) // lines),
        alignment="left",
    )
