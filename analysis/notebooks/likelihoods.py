"""The computations and the figures of `embedding_likelihoods`."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from figures import BLUE, GREY, INK, ORANGE, Floats, canvas, drawn, legend_above
from matplotlib.figure import Figure
from scipy.stats import gaussian_kde

from bayes_cmab.comparison import explored
from bayes_cmab.data import Transitions
from bayes_cmab.environments import Environment
from bayes_cmab.inference import NUTS
from bayes_cmab.inference.fit import Fit
from bayes_cmab.inference.marginal import begin, run_pass
from bayes_cmab.kernels import rbf
from bayes_cmab.models import EmbeddingModel
from bayes_cmab.models.embedding import Features, reference_features, reference_lengthscale
from bayes_cmab.models.priors import Sites
from bayes_cmab.posteriors import condition_embedding
from bayes_cmab.programs import Program, prior_draws
from bayes_cmab.report_style import round_ticks

MODELS = {
    "composite": EmbeddingModel(),
    "matrix_normal": EmbeddingModel(likelihood="matrix_normal"),
}
STYLES = {
    "composite": {"color": BLUE, "linestyle": "-"},
    "matrix_normal": {"color": ORANGE, "linestyle": (0, (4, 1.2))},
}
TITLES = {
    "embedding_lengthscale_s": "lengthscale of $s$",
    "embedding_lengthscale_a": "lengthscale of $a$",
    "embedding_scale": r"scale $s_\mu$",
    "embedding_noise_scale": r"$\sqrt{\lambda}$",
}


def transitions_of(environment: Environment, size: int, seed: int) -> Transitions:
    """Return transitions of uniform contexts and actions, in the setting's units."""
    return explored(environment, size, 0, jax.random.key(seed))[0]


features_of = jax.jit(reference_features)


def posterior(model: EmbeddingModel, sampler: NUTS, transitions: Transitions, seed: int) -> Fit:
    """Return the draws of a model's hyperparameters: all passes of the first fit."""
    key = jax.random.key(seed)
    arguments = (transitions, features_of(transitions))
    start = begin(model, sampler, arguments, key)
    for number in range(sampler.passes):
        fit = run_pass(model, sampler, arguments, jax.random.fold_in(key, number), start)
        start = fit.following
    return jax.device_get(fit)


def prior(transitions: Transitions, draws: int, seed: int) -> Sites:
    """Return draws of the sites from their prior."""
    program = Program(MODELS["composite"], (transitions, features_of(transitions)))
    return jax.device_get(prior_draws(program, jax.random.key(seed), draws))


@partial(jax.jit, static_argnums=0)
def _profile(
    model: EmbeddingModel, transitions: Transitions, features: Features, lengthscales: jax.Array
) -> jax.Array:
    hyper = model.hyperparameters(model.default_sites(1, 1))

    def one(lengthscale: jax.Array) -> jax.Array:
        own = hyper._replace(lengthscale_a=lengthscale[None])
        return model.log_likelihood(own, transitions, features)

    return jax.lax.map(one, lengthscales)


def profiles(
    transitions: Transitions, lengthscales: Floats, jitters: list[float]
) -> dict[str, Floats]:
    """Return log likelihoods over the action's lengthscale, the rest at the prior medians.

    Parameters
    ----------
    jitters : added to the diagonal of ``R_rr``, relative to it, for the matrix-normal likelihood.
    """
    features = features_of(transitions)
    grid = jnp.asarray(lengthscales)
    found = {"composite": _profile(MODELS["composite"], transitions, features, grid)}
    size = features.nuclear.shape[0]
    for jitter in jitters:
        added = jitter * jnp.trace(features.nuclear) / size * jnp.eye(size)
        own = features._replace(nuclear=features.nuclear + added)
        label = f"matrix normal, jitter {jitter:.0e}"
        found[label] = _profile(MODELS["matrix_normal"], transitions, own, grid)
    return {name: np.asarray(values) for name, values in found.items()}


@partial(jax.jit, static_argnums=0)
def _held_out(
    model: EmbeddingModel, sites: Sites, known: Transitions, fresh: Transitions
) -> jax.Array:
    lengthscale = reference_lengthscale(known.intermediates, known.mask)
    lengthscale = lengthscale * jnp.ones(known.intermediates.shape[1])

    def weights(own: Sites) -> jax.Array:
        hyper = model.hyperparameters(own)
        embedding = condition_embedding(model, hyper, known.contexts, known.actions, known.size)
        cross = model.gram(hyper, fresh.contexts, fresh.actions, known.contexts, known.actions)
        return cross @ embedding.factor.inverse.T @ embedding.factor.inverse

    averaged = jnp.mean(jax.lax.map(weights, sites), axis=0)
    between = rbf(fresh.intermediates, known.intermediates, lengthscale)
    within = rbf(known.intermediates, known.intermediates, lengthscale)
    squares = 1.0 - 2.0 * jnp.sum(averaged * between, axis=1)
    return 0.5 * jnp.mean(squares + jnp.sum((averaged @ within) * averaged, axis=1))


def held_out(model: EmbeddingModel, fit: Fit, known: Transitions, fresh: Transitions) -> float:
    """Return the kernel score of fresh rows, the embedding averaged over draws; small is good."""
    own = {name: jnp.asarray(fit.sites[name]) for name in TITLES}
    return float(_held_out(model, own, known, fresh))


class Replicated(NamedTuple):
    """Posteriors of one likelihood from many data sets.

    Attributes
    ----------
    mean, deviation : (data sets,) of the logarithm of each site.
    score : (data sets,) of fresh rows.
    """

    mean: dict[str, Floats]
    deviation: dict[str, Floats]
    score: Floats


def replicated(fits: list[Fit], scores: list[float]) -> Replicated:
    """Collect the posteriors from many data sets."""
    logs = {name: np.stack([np.log(fit.trace[name]).ravel() for fit in fits]) for name in TITLES}
    mean = {name: draws.mean(axis=1) for name, draws in logs.items()}
    deviation = {name: draws.std(axis=1, ddof=1) for name, draws in logs.items()}
    return Replicated(mean, deviation, np.array(scores))


def calibration(found: dict[str, Replicated]) -> pd.DataFrame:
    """Return, by likelihood and site, how much the centre moves and how much it claims to.

    ``ratio``: standard deviation of the posterior means over the data sets, divided by the root
    mean square of the posterior standard deviations; ``overlap``: share of pairs of data sets with
    ``|m_i - m_j| < 1.96 sqrt(s_i^2 + s_j^2)``.
    """
    rows = []
    for likelihood, own in found.items():
        for site in TITLES:
            mean, deviation = own.mean[site], own.deviation[site]
            i, j = np.triu_indices(len(mean), 1)
            z = np.abs(mean[i] - mean[j]) / np.hypot(deviation[i], deviation[j])
            moved, claimed = mean.std(ddof=1), np.sqrt(np.mean(deviation**2))
            rows.append((likelihood, site, moved, claimed, moved / claimed, np.mean(z < 1.96)))
    columns = ["likelihood", "site", "moved", "claimed", "ratio", "overlap"]
    return pd.DataFrame(rows, columns=columns).set_index(["likelihood", "site"])


@drawn
def draw_profiles(lengthscales: Floats, found: dict[str, Floats]) -> Figure:
    """Draw the log likelihoods below their maxima, far away and close to the top."""
    figure, axes = canvas(1, 2, 2.7)
    shades = ["#7F3800", ORANGE, "#F5A36B", "#F9CDB0"]
    colours = dict(zip(list(found)[1:], shades, strict=False))
    for axis, depth in zip(axes[0], (None, 6.0), strict=True):
        for name, values in found.items():
            style = {"color": colours.get(name, BLUE), "linewidth": 1.4, "label": name}
            axis.plot(lengthscales, values - values.max(), **style)
        axis.set_xscale("log")
        axis.set_xlabel("lengthscale of $a$, standardised")
        if depth is not None:
            axis.set_ylim(-depth, 0.02 * depth)
        round_ticks(axis.xaxis)
    axes[0, 0].set_yscale("symlog", linthresh=1.0)
    axes[0, 0].set_ylim(top=0.2)
    axes[0, 0].set_ylabel("log likelihood below its maximum")
    legend_above(figure, axes[0, 0], columns=2)
    return figure


@drawn
def draw_posteriors(before: Sites, fits: dict[str, list[Fit]]) -> Figure:
    """Draw the posteriors of every site from a few data sets, beside the prior."""
    figure, axes = canvas(2, 2, 3.8)
    for axis, (site, title) in zip(axes.ravel(), TITLES.items(), strict=True):
        grid = np.linspace(np.log(0.08), np.log(5.0), 1500)
        axis.fill_between(
            np.exp(grid),
            gaussian_kde(np.log(before[site]).ravel())(grid),
            color="#D8D8D8",
            linewidth=0,
            label="prior",
        )
        for name, own in fits.items():
            for number, fit in enumerate(own):
                density = gaussian_kde(np.log(fit.trace[site]).ravel())(grid)
                axis.plot(
                    np.exp(grid),
                    density / max(1.0, density.max() / 2.5),
                    label="" if number else name.replace("_", " "),
                    linewidth=1.2,
                    **STYLES[name],
                )
        axis.set_xscale("log")
        round_ticks(axis.xaxis)
        axis.set_yticks([])
        axis.set_ylim(0.0)
        axis.set_title(title, loc="left")
    legend_above(figure, axes[0, 0])
    return figure


@drawn
def draw_calibration(found: dict[str, Replicated], table: pd.DataFrame) -> Figure:
    """Draw the posterior of one lengthscale from every data set, and the ratios of all sites."""
    site = "embedding_lengthscale_a"
    figure, ((left, right),) = canvas(1, 2, 3.1)
    for shift, (name, own) in zip((-0.17, 0.17), found.items(), strict=True):
        at = np.arange(1, len(own.score) + 1) + shift
        mean, half = own.mean[site], 1.96 * own.deviation[site]
        left.errorbar(
            at,
            np.exp(mean),
            yerr=np.abs(np.exp([mean - half, mean + half]) - np.exp(mean)),
            fmt="o",
            markersize=3,
            elinewidth=1.4,
            color=STYLES[name]["color"],
            label=f"{name.replace('_', ' ')}, 95% interval",
        )
        ratio = table.loc[name]["ratio"].loc[list(TITLES)]
        right.plot(ratio, np.arange(len(TITLES)), "o", color=STYLES[name]["color"], markersize=6)
    left.set_yscale("log")
    round_ticks(left.yaxis)
    left.set_xlabel("data set")
    left.set_ylabel("lengthscale of $a$")
    right.axvline(1.0, color=GREY, linewidth=0.9, linestyle=(0, (4, 1.8)))
    right.set_yticks(np.arange(len(TITLES)), list(TITLES.values()))
    right.set_ylim(len(TITLES) - 0.5, -0.5)
    right.set_xscale("log")
    round_ticks(right.xaxis)
    right.set_xlabel("centres move / posteriors claim")
    legend_above(figure, left)
    return figure


@drawn
def draw_scores(found: dict[str, Replicated]) -> Figure:
    """Draw the scores of fresh rows, and their paired differences."""
    figure, ((left, right),) = canvas(1, 2, 2.4)
    composite, other = (found[name].score for name in ("composite", "matrix_normal"))
    at = np.arange(1, len(composite) + 1)
    for name, scores in (("composite", composite), ("matrix_normal", other)):
        left.plot(
            at, scores, "o", color=STYLES[name]["color"], markersize=4, label=name.replace("_", " ")
        )
    left.set_ylabel("kernel score of fresh rows")
    right.bar(at, other - composite, color=INK, width=0.5)
    right.axhline(0.0, color=GREY, linewidth=0.8)
    right.set_ylabel("matrix normal $-$ composite")
    for axis in (left, right):
        axis.set_xlabel("data set")
        axis.set_xticks(at[:: max(1, len(at) // 6)])
    legend_above(figure, left)
    return figure
