"""The figures of `moments`."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from figures import GREY, INK, Floats, canvas, drawn, legend_above
from matplotlib.figure import Figure
from projection import FORMS, Rows, dense_proposition, moments_of, rows_of

from bayes_cmab.environments import Environment
from bayes_cmab.moments import NEGATIVITY_TOLERANCE, Moments
from bayes_cmab.plot_style import COLOURS
from bayes_cmab.report_style import round_ticks
from bayes_cmab.worlds import declared_scales

STYLES = {
    "operator": {"color": COLOURS["cbmp"], "label": "operator form"},
    "proposition": {
        "color": COLOURS["proposition"],
        "label": "Proposition",
        "linestyle": (0, (4, 1.2)),
    },
}
DIMENSIONS = {1: "#222222", 2: COLOURS["cbmp"], 5: COLOURS["cme"]}
MARKERS = {1: "s", 2: "o", 5: "^"}
"""Colour and marker of the dimension of r."""
QUANTILES = (0.1, 0.5, 0.9)


@drawn
def draw_check(actions: Floats, found: dict[str, Moments], where: Floats, draws: Floats) -> Figure:
    """Draw mean and standard deviation of g over the actions, and what simulation says of them.

    Parameters
    ----------
    actions : (k,). found : moments at them, by form. where : (j,) actions of the draws (n, j).
    """
    figure, ((left, right),) = canvas(1, 2, 2.8)
    n = len(draws)
    mean, sd = draws.mean(axis=0), draws.std(axis=0, ddof=1)
    kurtosis = ((draws - mean) ** 4).mean(axis=0) / sd**4
    errors = (sd / np.sqrt(n), sd * np.sqrt((kurtosis - 1.0) / (4.0 * n)))
    for form, moments in found.items():
        left.plot(actions, moments.mean, linewidth=1.6, **STYLES[form])
        right.plot(actions, np.sqrt(moments.variance), linewidth=1.6, **STYLES[form])
    for axis, values, error in zip((left, right), (mean, sd), errors, strict=True):
        axis.errorbar(
            where,
            values,
            yerr=1.96 * error,
            fmt="o",
            markersize=3,
            color=INK,
            elinewidth=0.9,
            label="simulation, 95% interval",
        )
        axis.set_xlabel("action $a$")
    left.set_ylabel("mean of $g$")
    right.set_ylabel("standard deviation of $g$")
    right.set_ylim(0.0)
    legend_above(figure, left)
    return figure


class Lost(NamedTuple):
    """What the projection changes, (sizes, values): of contexts, actions and data sets.

    Attributes
    ----------
    variance : of the Proposition over the operator form's; NaN where it is negative.
    explained : ``G / F``, the share of the embedding's variance that the rows explain.
    mean : difference of the means, in standard deviations of the operator form.
    """

    variance: Floats
    explained: Floats
    mean: Floats


def lost(
    environment: Environment, sizes: list[int], offline: int, seeds: range, contexts: list[float]
) -> Lost:
    """Compare the two forms while rows arrive."""
    found: list[list[Floats]] = []
    everything = [rows_of(environment, max(sizes), offline, seed) for seed in seeds]
    for size in sizes:
        for rows in everything:
            for context in contexts:
                own = (environment, rows.first(size, offline), context, 4)
                exact, projected = (moments_of(form, *own) for form in FORMS)
                # Negative parts are set to zero; `negativity` says that there were some.
                bad = projected.negativity > NEGATIVITY_TOLERANCE
                found.append(
                    [
                        np.where(bad, np.nan, projected.variance / exact.variance),
                        1.0 - exact.variance_embedding / exact.second_moment,  # F is one
                        (projected.mean - exact.mean) / np.sqrt(exact.variance),
                    ]
                )
    parts = (np.reshape(part, (len(sizes), -1)) for part in zip(*found, strict=True))
    return Lost(*parts)


@drawn
def draw_lost(sizes: list[int], found: dict[str, tuple[int, Lost]], shown_size: int) -> Figure:
    """Draw the ratio of variances over the rows, and over what the rows explain at one size.

    Parameters
    ----------
    found : dimension of r, and what is lost, by the name of the setting.
    """
    figure, ((left, right),) = canvas(1, 2, 3.0, sharey=True)
    for name, (d, own) in found.items():
        style = {"color": DIMENSIONS[d], "label": f"setting {name}, $d$ = {d}"}
        low, middle, high = np.nanquantile(own.variance, QUANTILES, axis=1)
        left.fill_between(sizes, low, high, color=style["color"], alpha=0.15, linewidth=0)
        left.plot(sizes, middle, marker=MARKERS[d], markersize=4, linewidth=1.4, **style)
        at = sizes.index(shown_size)
        right.plot(
            own.explained[at],
            own.variance[at],
            MARKERS[d],
            color=style["color"],
            markersize=2.5,
            alpha=0.6,
            markeredgewidth=0,
        )
    left.set_xscale("log")
    left.set_xticks(sizes, [f"{size}" for size in sizes])
    left.minorticks_off()
    left.set_xlabel("transitions with outcome")
    left.set_ylabel("variance, Proposition / operator")
    right.set_xlabel(f"known of $P(r \\mid s, a)$: $G/F$, at {shown_size} transitions")
    for axis in (left, right):
        axis.axhline(1.0, color=GREY, linewidth=0.9, linestyle=(0, (4, 1.8)))
        axis.set_yscale("log")
        round_ticks(axis.yaxis)
    legend_above(figure, left)
    return figure


def over_jitter(
    environment: Environment, rows: Rows, context: float, jitters: Floats
) -> tuple[Floats, Floats]:
    """Return the ratio of variances and the shift of means (jitters, actions) by the jitter."""
    scales = declared_scales(environment)
    s = scales.context.standardise(jnp.asarray([context]))
    a = scales.action.standardise(environment.actions)
    exact = moments_of("operator", environment, rows, context)
    d = environment.dim_intermediate
    found = [dense_proposition(d, rows, s, a, jnp.asarray(jitter)) for jitter in jitters]
    mean, variance = (np.array(part) for part in zip(*found, strict=True))
    return variance / exact.variance, (mean - exact.mean) / np.sqrt(exact.variance)


@drawn
def draw_jitter(jitters: Floats, found: dict[str, tuple[int, Floats]]) -> Figure:
    """Draw quantiles over the actions of the ratio of variances, by the jitter.

    Parameters
    ----------
    found : dimension of r, and ratios (jitters, actions), by the name of the setting.
    """
    figure, (axes,) = canvas(1, len(found), 2.6, sharey=True)
    for axis, (name, (d, ratio)) in zip(axes, found.items(), strict=True):
        sound = np.isfinite(ratio).all(axis=1)
        low, middle, high = np.quantile(ratio[sound], QUANTILES, axis=1)
        colour = DIMENSIONS[d]
        axis.fill_between(jitters[sound], low, high, color=colour, alpha=0.18, linewidth=0)
        axis.plot(
            jitters[sound], middle, marker=MARKERS[d], color=colour, markersize=3, linewidth=1.4
        )
        if not sound.all():
            axis.axvspan(jitters[0], jitters[~sound].max(), color="#EEEEEE", linewidth=0)
        axis.axhline(1.0, color=GREY, linewidth=0.9, linestyle=(0, (4, 1.8)))
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlim(jitters[0], jitters[-1])
        axis.set_xlabel("jitter, relative to the diagonal")
        axis.set_title(f"setting {name}, $d$ = {d}", loc="left")
    axes[0].set_ylabel("variance, Proposition / operator")
    return figure


@drawn
def draw_timings(sizes: list[int], seconds: dict[str, list[float]]) -> Figure:
    """Draw how much longer the Proposition takes to score a context."""
    figure, ((axis,),) = canvas(1, 1, 2.3)
    ratio = np.divide(seconds["proposition"], seconds["operator"])
    axis.plot(sizes, ratio, "o-", color=COLOURS["proposition"], linewidth=1.6, markersize=4)
    for size, value in zip(sizes, ratio, strict=True):
        axis.annotate(
            f"{value:.0f}", (size, value), (0, 6), textcoords="offset points", ha="center"
        )
    axis.set_ylim(0.0, 1.2 * ratio.max())
    axis.set_xticks(sizes)
    axis.set_xlabel("transitions, and as many matched and unmatched outcomes each")
    axis.set_ylabel("CPU time, Proposition / operator")
    return figure
