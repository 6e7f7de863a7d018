"""The section on the hyperparameters in a live agent's report, and the figures of their draws."""

from typing import TYPE_CHECKING

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayes_cmab import report_page as html
from bayes_cmab.models.priors import Sites
from bayes_cmab.report_style import BLUE, GREY, INK, legend, plain, round_ticks, svg
from bayes_cmab.validate import FloatArray

if TYPE_CHECKING:
    import xarray as xr

CHAIN_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST_REPLICATES = 50


def hyperparameters(sites: Sites, tree: "xr.DataTree | None") -> str:
    """Return the section on the hyperparameters: of their draws, or else of their values."""
    rows: list[tuple[object, ...]] = []
    if tree is not None:
        for label, draws in sites_by_element(tree, "posterior").items():
            quantiles = (float(q) for q in np.quantile(draws, (0.05, 0.5, 0.95)))
            rows.append((label, float(draws.mean()), *quantiles))
        header = ("hyperparameter", "mean", "5%", "50%", "95%")
        text = "Draws of the last fit, in standardised units, before later rows reweighted them."
        return html.paragraph(text) + html.table(header, rows) + _draws(tree)
    for name, value in sorted(jax.device_get(sites).items()):
        flat = np.ravel(value)
        labels = [name] if flat.size == 1 else [f"{name}[{i}]" for i in range(flat.size)]
        rows += [(label, float(x)) for label, x in zip(labels, flat, strict=True)]
    if not rows:
        return html.paragraph("None.")
    text = html.paragraph("Values in use, in standardised units.")
    return text + html.table(("hyperparameter", "value"), rows)


def _draws(tree: "xr.DataTree") -> str:
    text = html.drawing(
        draw_draws(tree),
        "Prior and posterior intervals of the hyperparameters, and traces of their draws",
        "Left: where prior and posterior are the same, the data say nothing. Right: chains that "
        "agree cross each other all the time; the gate's checks are below.",
    )
    if "optimisation" in tree.children:
        text += html.drawing(
            draw_elbo(tree),
            "Evidence lower bound over the steps",
            "Variational inference has converged where the curve is level.",
        )
    if "posterior_predictive" in tree.children:
        text += html.drawing(
            draw_replicates(tree),
            "Distribution of the outcomes and of predictions in their place",
            "The reward model, checked: outcomes away from the blue lines do not fit it.",
        )
    return text


def sites_by_element(tree: "xr.DataTree", group: str) -> dict[str, FloatArray]:
    """Return the draws (chain, draw) of every element of the sampled sites."""
    found: dict[str, FloatArray] = {}
    for name in sorted(map(str, tree["log_prior"].data_vars)):
        values = tree[group][name].to_numpy()
        flat = values.reshape(*values.shape[:2], -1)
        labels = [name] if values.ndim == 2 else [f"{name}[{i}]" for i in range(flat.shape[2])]
        found |= dict(zip(labels, np.moveaxis(flat, 2, 0), strict=True))
    return found


def draw_draws(tree: "xr.DataTree") -> str:
    """Draw prior and posterior intervals of each hyperparameter, and the trace of its chains."""
    prior, draws = (sites_by_element(tree, group) for group in ("prior", "posterior"))

    def draw(figure: Figure) -> None:
        axes = figure.subplots(len(draws), 2, squeeze=False, width_ratios=[1.25, 1.0])
        for (left, right), (name, values) in zip(axes, draws.items(), strict=True):
            _interval(left, prior[name], 1.0, GREY, "prior, 50% and 90%")
            _interval(left, values, 0.0, BLUE, "posterior, 50% and 90%")
            if min(values.min(), prior[name].min()) > 0.0:
                left.set_xscale("log")
                round_ticks(left.xaxis)
            left.set_yticks([])
            left.set_ylim(-0.6, 1.6)
            left.set_title(plain(name), loc="left")
            for index, chain in enumerate(values):
                colour = CHAIN_COLOURS[index % len(CHAIN_COLOURS)]
                right.plot(chain, color=colour, linewidth=0.8, label=f"chain {index}")
            right.xaxis.set_major_locator(MaxNLocator(integer=True))
        for axis, label in zip(axes[-1], ("value", "draw"), strict=True):
            axis.set_xlabel(label)
        handles = [axis.get_legend_handles_labels() for axis in axes[0]]
        figure.legend(
            *(handles[0][i] + handles[1][i] for i in (0, 1)),
            loc="outside upper left",
            ncols=6,
        )

    return svg("draws", (7.2, 0.9 + 0.85 * len(draws)), draw)


def draw_replicates(tree: "xr.DataTree") -> str:
    """Draw the distribution of the outcomes, and of those that the reward model would predict."""
    seen = np.sort(tree["observed_data"]["outcome"].to_numpy())
    every = tree["posterior_predictive"]["outcome"].to_numpy().reshape(-1, len(seen))
    some = np.sort(every[:: -(-len(every) // MOST_REPLICATES)], axis=1)
    share = np.arange(1, len(seen) + 1) / len(seen)

    def draw(figure: Figure) -> None:
        axis = figure.subplots()
        for index, row in enumerate(some):
            label = "" if index else "predicted in their place"
            axis.step(
                *(row, share), where="post", color=BLUE, alpha=0.25, linewidth=0.7, label=label
            )
        axis.step(seen, share, where="post", color=INK, linewidth=1.6, label="outcomes at hand")
        axis.set_xlabel("outcome y")
        axis.set_ylabel("share at or below")
        legend(figure, axis)

    return svg("replicates", (7.2, 2.8), draw)


def draw_elbo(tree: "xr.DataTree") -> str:
    """Draw the evidence lower bound over the steps of variational inference."""

    def draw(figure: Figure) -> None:
        traces = tree["optimisation"].data_vars
        axes = figure.subplots(1, len(traces), squeeze=False)[0]
        for axis, (name, trace) in zip(axes, traces.items(), strict=True):
            axis.plot(trace.to_numpy(), color=BLUE, linewidth=0.9)
            axis.set_title(plain(name).replace("_elbo", " program"), loc="left")
            axis.set_xlabel("step")
        axes[0].set_ylabel("evidence lower bound, nats")

    return svg("elbo", (7.2, 2.5), draw)


def _interval(axis: Axes, values: FloatArray, height: float, colour: str, label: str) -> None:
    low, lower, middle, upper, high = np.quantile(values, QUANTILES)
    axis.hlines(height, low, high, color=colour, linewidth=1.4, label=label)
    axis.hlines(height, lower, upper, color=colour, linewidth=5.0)
    axis.plot(middle, height, "o", color="white", markeredgecolor=colour, markersize=4.5, zorder=4)
