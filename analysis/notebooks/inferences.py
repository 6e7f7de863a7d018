"""The computations and the figures of `fixed_or_marginalised`."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from agents import Beliefs
from figures import BLUE, GREY, INK, ORANGE, Floats, band, canvas, drawn, legend_above
from matplotlib.figure import Figure
from scipy.stats import gaussian_kde

from bayes_cmab import Agent
from bayes_cmab.plot_style import line_style
from bayes_cmab.report_style import round_ticks
from bayes_cmab.summary import half_width

sys.path.append(str(Path(__file__).parent.parent))

import tables

INFERENCES = ("fixed", "map", "svi", "nuts")
MARKERS = {"fixed": "s", "map": "D", "svi": "^", "nuts": "o"}
SITES = {
    "reward_lengthscale": "$f$: lengthscale",
    "reward_scale": "$f$: scale",
    "reward_noise_scale": "$y$: noise sd",
    "embedding_lengthscale_s": "$k_x$: lengthscale of $s$",
    "embedding_lengthscale_a": "$k_x$: lengthscale of $a$",
    "embedding_scale": "$k_x$: scale",
    "embedding_noise_scale": r"$k_x$: $\sqrt{\lambda}$",
}
LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])


def style_of(inference: str) -> dict[str, Any]:
    """Return the line of CBMP-UCB with an inference, the same in all figures of the project."""
    return line_style(f"cbmp-{inference}")


def _density(values: Floats, grid: Floats) -> Floats:
    return gaussian_kde(np.log10(values.ravel()))(grid)


@drawn
def draw_hyperparameters(agents: dict[str, Agent], trees: dict[str, xr.DataTree]) -> Figure:
    """Draw the posterior of every site beside its prior, the point of MAP, and the prior median."""
    figure, axes = canvas(2, 4, 3.6)
    prior = trees["nuts"]["prior"]
    for axis, (site, title) in zip(axes.ravel(), SITES.items(), strict=False):
        before = prior[site].to_numpy()
        draws = {name: tree["posterior"][site].to_numpy() for name, tree in trees.items()}
        points = {name: float(np.ravel(agents[name].sites[site])[0]) for name in ("fixed", "map")}
        every = np.concatenate([*(d.ravel() for d in draws.values()), list(points.values())])
        low, high = np.log10(every.min()) - 0.25, np.log10(every.max()) + 0.25
        grid = np.linspace(low, high, 200)
        axis.fill_between(
            10.0**grid, _density(before, grid), color="#D8D8D8", linewidth=0, label="prior"
        )
        for name, values in draws.items():
            label = f"{name}, posterior"
            axis.plot(10.0**grid, _density(values, grid), label=label, **style_of(name))
        for name, value in points.items():
            axis.axvline(value, label=f"{name}, the point in use", **style_of(name))
        axis.set_xscale("log")
        round_ticks(axis.xaxis)
        axis.set_xlim(10.0**low, 10.0**high)
        axis.set_ylim(0.0)
        axis.set_yticks([])
        axis.set_title(title, loc="left")
    rest = axes.ravel()[len(SITES)]
    rest.axis("off")
    rest.legend(*axes[0, 0].get_legend_handles_labels(), loc="center left")
    return figure


@drawn
def draw_intervals(actions: Floats, found: dict[str, Beliefs], row: int) -> Figure:
    """Draw g over the actions in one context, with the action of the highest score."""
    figure, (axes,) = canvas(1, len(found), 2.5, sharey=True)
    for axis, (name, own) in zip(axes, found.items(), strict=True):
        band(
            axis,
            actions,
            own.mean[row],
            own.deviation[row],
            color=BLUE,
            label="mean of $g$ and 95% interval",
        )
        axis.plot(actions, own.truth[row], color=INK, linewidth=1.0, label="true $g$")
        best = int(own.score[row].argmax())
        axis.plot(
            actions[best],
            own.score[row, best],
            "v",
            color=ORANGE,
            markersize=6,
            label="highest score",
        )
        axis.set_title(name, loc="left")
        axis.set_xlabel("action $a$")
    axes[0].set_ylabel("outcome")
    legend_above(figure, axes[0])
    return figure


@drawn
def draw_calibration(found: list[dict[str, Beliefs]]) -> Figure:
    """Draw coverage against level, and the loss of the decisions, over data sets."""
    figure, ((left, right),) = canvas(1, 2, 3.0)
    left.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
    positions = np.arange(len(INFERENCES))
    for name in INFERENCES:
        share = np.array([own[name].coverage(LEVELS) for own in found])
        left.plot(LEVELS, share.mean(axis=0), label=name, **style_of(name))
        if len(share) > 1:
            half = half_width(share)
            left.errorbar(
                LEVELS[[4, 9]],
                share.mean(axis=0)[[4, 9]],
                yerr=half[[4, 9]],
                fmt=MARKERS[name],
                markersize=4,
                color=BLUE,
                elinewidth=0.8,
                markerfacecolor="white",
            )
    left.set_xlabel("level of the interval")
    left.set_ylabel("share of the grid covered")
    left.legend(loc="upper left")
    losses = np.array([[own[name].loss() for name in INFERENCES] for own in found])
    right.plot(positions, losses.T, color=GREY, linewidth=0.6)
    for position, name in enumerate(INFERENCES):
        right.plot(
            np.full(len(losses), position),
            losses[:, position],
            MARKERS[name],
            color=BLUE,
            markersize=3.5,
            markerfacecolor="white",
            clip_on=False,
        )
        right.hlines(
            losses[:, position].mean(),
            position - 0.2,
            position + 0.2,
            color=INK,
            linewidth=2.0,
            zorder=3,
        )
    right.set_xticks(positions, INFERENCES)
    right.set_ylim(0.0)
    right.set_ylabel("loss of $g$ by the decisions")
    return figure


def study() -> pd.DataFrame:
    """Return the committed sums of 30 trials of CBMP-UCB in A to D at the weight 0.25."""
    frame = tables.STUDY.trials()
    frame = frame[(frame.trial < 30) & frame.setting.isin(list("ABCD"))]
    return frame[(frame.beta == 0.25) & frame.agent.str.startswith("cbmp-")]


def paired(frame: pd.DataFrame, agent: str, other: str) -> pd.DataFrame:
    """Return differences of mean reward over the trials that both have, with 95% intervals."""
    rows = []
    for (setting, offline), group in frame.groupby(["setting", "offline"]):
        own, base = (
            group[group.agent == f"cbmp-{name}"].set_index("trial")["mean_reward"]
            for name in (agent, other)
        )
        values = (own - base).dropna().to_numpy()
        if len(values) > 1:
            cell = f"{setting}, $m$ = {offline}"
            rows.append((cell, len(values), values.mean(), float(half_width(values))))
    return pd.DataFrame(rows, columns=["cell", "trials", "difference", "half"])


PAIRS = (("map", "fixed"), ("nuts", "fixed"), ("nuts", "map"), ("svi", "map"), ("svi", "nuts"))


@drawn
def draw_differences(frame: pd.DataFrame) -> Figure:
    """Draw the paired differences of the committed study, a panel for each pair."""
    cells = [
        f"{s}, $m$ = {m}" for s, m in sorted(set(zip(frame.setting, frame.offline, strict=True)))
    ]
    figure, (axes,) = canvas(1, len(PAIRS), 0.8 + 0.23 * len(cells), sharex=True, sharey=True)
    for axis, (agent, other) in zip(axes, PAIRS, strict=True):
        own = paired(frame, agent, other)
        at = np.array([cells.index(cell) for cell in own.cell])
        axis.axvline(0.0, color=GREY, linewidth=0.8)
        sure = (own.difference.abs() > own.half).to_numpy()
        for chosen, face in ((sure, BLUE), (~sure, "white")):
            axis.errorbar(
                own.difference[chosen],
                at[chosen],
                xerr=own.half[chosen],
                fmt="o",
                color=BLUE,
                markerfacecolor=face,
                markersize=4.5,
                elinewidth=1.2,
            )
        axis.set_title(f"{agent} $-$ {other}", loc="left")
        axis.set_yticks(np.arange(len(cells)), cells)
        axis.set_ylim(len(cells) - 0.5, -0.5)
        axis.grid(visible=False, axis="y")
    figure.supxlabel(
        "difference of the sum of mean rewards over 100 rounds, 95% interval", fontsize=8
    )
    return figure


@drawn
def draw_study_coverage(frame: pd.DataFrame) -> Figure:
    """Draw the coverage of the 95% intervals after 100 rounds in the committed study."""
    figure, ((axis,),) = canvas(1, 1, 2.4)
    groups = list(frame.groupby(["setting", "offline"]))
    offsets = np.linspace(-0.24, 0.24, len(INFERENCES))
    for offset, name in zip(offsets, INFERENCES, strict=True):
        style = {
            "fmt": MARKERS[name],
            "color": BLUE,
            "markersize": 4.5,
            "elinewidth": 1.0,
            "markerfacecolor": BLUE if name == "nuts" else "white",
        }
        axis.errorbar([], [], label=name, **style)
        for position, (_, group) in enumerate(groups):
            share = group[group.agent == f"cbmp-{name}"]["coverage_95_after_100"].to_numpy()
            if len(share) > 1:
                half = float(half_width(share))
                axis.errorbar(position + offset, share.mean(), yerr=half, **style)
    axis.axhline(0.95, color=GREY, linewidth=0.9, linestyle=(0, (4, 1.8)))
    axis.set_xticks(range(len(groups)), [f"{s}, $m$ = {m}" for (s, m), _ in groups])
    axis.set_ylim(0.0, 1.03)
    axis.set_ylabel("covered, nominal 95%")
    axis.grid(visible=False, axis="x")
    legend_above(figure, axis)
    return figure
