"""Figures of a live agent's report: what it saw, what it expected, what it would score."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayes_cmab.decision import PARTS
from bayes_cmab.report_style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    legend,
    plain,
    round_ticks,
    short,
    svg,
)
from bayes_cmab.validate import FloatArray

if TYPE_CHECKING:
    import pandas as pd

PART_STYLE = {
    "variance_reward": ("f, given its hyperparameters", "#0072B2"),
    "variance_reward_hyperparameters": ("hyperparameters of f", "#56B4E9"),
    "variance_embedding": ("P(r | s, a) as a distribution", "#D55E00"),
    "variance_embedding_hyperparameters": ("hyperparameters of P(r | s, a)", "#E69F00"),
    "variance_transition": ("mean of the transition GP", "#009E73"),
}
"""Name and colour of each part of the variance: blue where outcomes help, else transitions do."""

MOST_RANKED, MOST_PANELS = 30, 3


def draw_data(
    matched: tuple[FloatArray, FloatArray],
    unmatched: tuple[FloatArray, FloatArray],
    alone: FloatArray,
) -> str:
    """Draw the outcomes over each dimension of r, and ticks where an r has no outcome.

    Parameters
    ----------
    matched, unmatched : intermediates (m, d) and outcomes (m,), of decisions and from elsewhere.
    alone : (n, d), intermediates of transitions.
    """
    panels = min(alone.shape[1], MOST_PANELS)

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, panels, squeeze=False, sharey=True)[0]
        for j, axis in enumerate(axes):
            for (r, y), style in (
                (unmatched, {"marker": "D", "facecolors": "none", "edgecolors": GREY}),
                (matched, {"marker": "o", "facecolors": BLUE, "edgecolors": "none", "alpha": 0.7}),
            ):
                label = "from decisions" if r is matched[0] else "from elsewhere"
                if len(y):
                    axis.scatter(r[:, j], y, s=18, label=label, **style)
            low = axis.get_ylim()[0]
            if len(alone):
                axis.plot(
                    *(alone[:, j], np.full(len(alone), low), "|"),
                    color=ORANGE,
                    markersize=9,
                    clip_on=False,
                    label="r of a transition",
                )
            axis.set_xlabel("intermediate r" if panels == 1 else f"intermediate r[{j}]")
        axes[0].set_ylabel("outcome y")
        legend(figure, axes[0])

    return svg("data", (7.2, 2.9), draw)


def draw_rounds(
    outcomes: FloatArray,
    means: FloatArray,
    deviations: FloatArray,
    actions: dict[str, npt.NDArray[Any]],
) -> str:
    """Draw outcomes beside what was expected of them, and the chosen actions, over the rounds.

    Parameters
    ----------
    outcomes : (rounds,), NaN where unknown. means, deviations : (rounds,) of g at the decision.
    actions : values (rounds,) by column.
    """
    rounds = np.arange(len(outcomes))
    shown = dict(list(actions.items())[:MOST_PANELS])

    def draw(figure: Figure) -> None:
        axes = figure.subplots(
            1 + len(shown), 1, sharex=True, height_ratios=[2.0, *([0.8] * len(shown))]
        )
        low, high = means - 2.0 * deviations, means + 2.0 * deviations
        axes[0].fill_between(
            *(rounds, low, high), color=BLUE, alpha=0.15, linewidth=0, label="expected, ± 2 sd of g"
        )
        axes[0].plot(rounds, means, color=BLUE, linewidth=1.2, label="expected mean of g")
        axes[0].plot(rounds, outcomes, "o", color=INK, markersize=3.2, label="outcome y")
        axes[0].set_ylabel("outcome")
        for axis, (name, values) in zip(axes[1:], shown.items(), strict=True):
            if values.dtype == object:
                levels, values = np.unique(values.astype(str), return_inverse=True)
                axis.set_yticks(np.arange(len(levels)), [plain(level) for level in levels])
            axis.plot(rounds, values, "o", color=ORANGE, markersize=3.0)
            axis.set_ylabel(plain(name))
        axes[-1].set_xlabel("round")
        axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        legend(figure, axes[0])

    return svg("rounds", (7.2, 2.5 + 0.9 * len(shown)), draw)


def draw_budget(parts: dict[str, FloatArray]) -> str:
    """Draw the standard deviation of g at the decisions, and the shares of its variance.

    Parameters
    ----------
    parts : (rounds,) each, by the names in ``PARTS``.
    """
    used = [name for name in PARTS if np.any(parts[name] > 0.0)]
    values = np.stack([parts[name] for name in PARTS])
    total = values.sum(axis=0)
    share = {name: 100.0 * parts[name] / np.where(total > 0.0, total, 1.0) for name in used}
    rounds = np.arange(len(total))

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        left.plot(rounds, np.sqrt(total), color=INK, linewidth=1.3, marker="o", markersize=2.2)
        if np.all(total > 0.0):
            left.set_yscale("log")
            round_ticks(left.yaxis)
        left.set_ylabel("standard deviation of g")
        edges = np.append(rounds, len(rounds)) - 0.5
        below = np.zeros(len(total))
        for name, values in share.items():
            label, colour = PART_STYLE[name]
            right.stairs(
                *(below + values, edges), baseline=below, fill=True, color=colour, label=label
            )
            below = below + values
        right.set_ylabel("share of the variance, %")
        right.set_ylim(0.0, 100.0)
        right.grid(visible=False)
        for axis in (left, right):
            axis.set_xlabel("round")
            axis.set_xlim(edges[0], edges[-1])
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        legend(figure, right, columns=3)

    return svg("budget", (7.2, 3.0), draw)


def draw_scores(scores: "pd.DataFrame", columns: tuple[str, ...]) -> str:
    """Draw mean, interval and score of the actions: over a numeric column, or ranked by score.

    Parameters
    ----------
    scores : the table of `Agent.score`. columns : those of the actions.
    """
    if len(columns) == 1 and scores[columns[0]].dtype.kind in "fi":
        return _score_curve(scores.sort_values(columns[0]), columns[0])
    return _score_ranking(best_first(scores, columns), columns)


def best_first(scores: "pd.DataFrame", columns: tuple[str, ...]) -> "pd.DataFrame":
    """Return the rows by falling score, each action once as far as four digits tell."""
    ranked = scores.sort_values("score", ascending=False)
    names = ranked[list(columns)].map(short)
    return ranked[~names.duplicated()]


def _score_curve(scores: "pd.DataFrame", column: str) -> str:
    a, mean, sd = (scores[name].to_numpy() for name in (column, "mean", "standard_deviation"))

    def draw(figure: Figure) -> None:
        axis = figure.subplots()
        marker = "o" if len(a) <= 40 else ""
        axis.fill_between(
            *(a, mean - 2.0 * sd, mean + 2.0 * sd),
            color=BLUE,
            alpha=0.15,
            linewidth=0,
            label="± 2 sd of g",
        )
        axis.plot(a, mean, color=BLUE, marker=marker, markersize=2.5, label="mean of g")
        axis.plot(
            *(a, scores["score"]),
            color=ORANGE,
            linestyle=(0, (4, 1.8)),
            marker=marker,
            markersize=2.5,
            label="score",
        )
        best = scores["score"].to_numpy().argmax()
        axis.plot(
            *(a[best], scores["score"].iloc[best], "^"), color=ORANGE, markersize=8, label="highest"
        )
        axis.set_xlabel(plain(column))
        axis.set_ylabel("outcome")
        legend(figure, axis)

    return svg("scores", (7.2, 3.2), draw)


def _score_ranking(scores: "pd.DataFrame", columns: tuple[str, ...]) -> str:
    top = scores.head(MOST_RANKED)
    mean, sd = top["mean"].to_numpy(), top["standard_deviation"].to_numpy()
    names = [", ".join(short(value) for value in row) for row in top[list(columns)].to_numpy()]
    rows = np.arange(len(top))

    def draw(figure: Figure) -> None:
        axis = figure.subplots()
        axis.hlines(
            *(rows, mean - 2.0 * sd, mean + 2.0 * sd), color=BLUE, alpha=0.5, label="± 2 sd of g"
        )
        axis.plot(mean, rows, "o", color=BLUE, markersize=4.0, label="mean of g")
        axis.plot(top["score"], rows, "^", color=ORANGE, markersize=4.5, label="score")
        axis.set_yticks(rows, [plain(name) for name in names])
        axis.set_ylim(len(top) - 0.4, -0.6)
        axis.set_xlabel("outcome")
        axis.set_ylabel(plain(", ".join(columns)))
        legend(figure, axis)

    return svg("scores", (7.2, 1.1 + 0.19 * len(top)), draw)
