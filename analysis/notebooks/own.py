"""The figures of `own_program`, and how its programs are looked at."""

import shutil
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from figures import BLUE, GREY, INK, ORANGE, Floats, canvas, drawn, legend_above, sized
from IPython.display import Image
from matplotlib.figure import Figure
from scipy.stats import gaussian_kde

from bayes_cmab.acquisition import ConstantBeta
from bayes_cmab.data import Outcomes, Transitions
from bayes_cmab.environments import Environment
from bayes_cmab.inference import MAP, Fixed
from bayes_cmab.models import EmbeddingModel, RewardModel
from bayes_cmab.models.embedding import reference_features
from bayes_cmab.models.priors import Sites
from bayes_cmab.policies import EmbeddingPolicy
from bayes_cmab.posteriors import condition_embedding, embedding_weights
from bayes_cmab.predictive import prior_predictive
from bayes_cmab.programs import Program, prior_draws
from bayes_cmab.report_style import round_ticks
from bayes_cmab.rounds import AgentSpec, Record
from bayes_cmab.simulation import play
from bayes_cmab.summary import half_width

COLOURS = {"default": BLUE, "own": "#009E73"}


def graph(program: Callable[..., None], *arguments: Any) -> Image | str:
    """Return the picture of a program's graph, or its source where there is no Graphviz."""
    drawing = numpyro.render_model(program, model_args=arguments, render_distributions=True)
    font = {"fontname": "DejaVu Sans", "fontsize": "10"}
    drawing.graph_attr.update(rankdir="LR", dpi="130", **font)
    drawing.node_attr.update(font)
    if shutil.which("dot") is None:
        return drawing.source
    return Image(data=drawing.pipe(format="png"), width=640)


def blank(size: int) -> tuple[Transitions, Outcomes]:
    """Return rows whose values do not matter, for a program's prior."""
    column = np.zeros((size, 1))
    return Transitions.create(column, column, column), Outcomes.create(column, column[:, 0])


def explained(
    model: EmbeddingModel, program: Callable[..., None], grid: Floats, draws: int, seed: int
) -> Floats:
    """Return prior draws (draws, k) of ``G / F`` at actions, after one transition at action 0."""
    one = Transitions.create(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)), capacity=1)
    names = list(model.default_sites(1, 1))

    @jax.jit
    def simulate(key: jax.Array) -> jax.Array:
        sites = prior_draws(Program(program, (one, reference_features(one))), key, draws)

        def share(site: Sites) -> jax.Array:
            hyper = model.hyperparameters(site)
            known = condition_embedding(model, hyper, one.contexts, one.actions, one.size)
            e = embedding_weights(model, known, jnp.zeros(1), jnp.asarray(grid)[:, None])
            return e.explained / e.prior

        return jax.vmap(share)({name: sites[name] for name in names})

    return np.asarray(simulate(jax.random.key(seed)))


def predicted(
    model: RewardModel, program: Callable[..., None], grid: Floats, draws: int, seed: int
) -> Floats:
    """Return prior draws (draws, k) of outcomes at intermediates."""
    rows = Outcomes.create(grid[:, None], np.zeros(len(grid)), capacity=len(grid))
    names = list(model.default_sites(1))

    @jax.jit
    def simulate(key: jax.Array) -> jax.Array:
        sites = prior_draws(Program(program, (rows,)), key, draws)
        keys = jax.random.split(key, draws)
        own = {name: sites[name] for name in names}
        return jax.vmap(
            lambda site, k: prior_predictive(model, model.hyperparameters(site), rows, k)
        )(own, keys)

    return np.asarray(simulate(jax.random.key(seed)))


@drawn
def draw_prior(
    actions: Floats, shares: dict[str, Floats], grid: Floats, outcomes: dict[str, Floats]
) -> Figure:
    """Draw what one transition teaches, and what outcomes look like, under both priors."""
    figure, axes = canvas(1, 3, 2.6, width_ratios=[1.0, 1.0, 1.1])
    for axis, (name, values) in zip(axes[0], shares.items(), strict=False):
        low, high = np.quantile(values, [0.05, 0.95], axis=0)
        axis.fill_between(actions, low, high, color=COLOURS[name], alpha=0.16, linewidth=0)
        axis.plot(actions, values[:6].T, color=COLOURS[name], linewidth=0.9)
        axis.set_title(f"{name} kernel and priors", loc="left")
        axis.set_xlabel("action $a$")
        axis.set_ylim(0.0, 1.0)
    axes[0, 0].set_ylabel("explained by one row at $a$ = 0")
    last = axes[0, 2]
    for name, values in outcomes.items():
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95], axis=0)
        style = {"color": COLOURS[name], "linewidth": 1.3}
        last.plot(grid, low, label=f"{name}: 90% of outcomes", **style)
        last.plot(grid, high, **style)
        last.plot(grid, middle, linestyle=(0, (1, 1.5)), **style)
    last.set_title("prior predictive outcome", loc="left")
    last.set_xlabel("intermediate $r$")
    last.legend(loc="upper center", handlelength=1.2)
    last.set_ylim(top=1.5 * last.get_ylim()[1])
    return figure


@drawn
def draw_learned(prior: dict[str, Floats], posterior: dict[str, Floats]) -> Figure:
    """Draw prior and posterior densities of the sampled sites on logarithmic axes."""
    figure, axes = canvas(2, -(-len(posterior) // 2), 3.4)
    for axis in axes.ravel()[len(posterior) :]:
        axis.axis("off")
    for axis, (name, values) in zip(axes.ravel(), posterior.items(), strict=False):
        before, after = np.log10(prior[name].ravel()), np.log10(values.ravel())
        edges = np.quantile(before, [0.05, 0.99])
        grid = np.linspace(min(edges[0], after.min()), max(edges[1], after.max()), 200)
        axis.fill_between(
            10.0**grid, gaussian_kde(before)(grid), color="#D8D8D8", linewidth=0, label="prior"
        )
        axis.plot(
            10.0**grid,
            gaussian_kde(after)(grid),
            color=COLOURS["own"],
            linewidth=1.6,
            label="posterior",
        )
        axis.set_xscale("log")
        round_ticks(axis.xaxis)
        axis.set_ylim(0.0)
        axis.set_yticks([])
        axis.set_title(name.replace("_", " "), loc="left")
    legend_above(figure, axes[0, 0])
    return figure


def played(
    policy: EmbeddingPolicy, environment: Environment, rounds: int, trials: int, seed: int
) -> Record:
    """Play paired trials with hyperparameters fitted every ten rounds (fixed, in the tests)."""
    agent = AgentSpec(policy, sized(MAP(every=10), Fixed()), ConstantBeta(0.25))
    return play(agent, environment, rounds=rounds, offline=0, seed=seed, trials=range(trials))


@drawn
def draw_played(records: dict[str, Record]) -> Figure:
    """Draw the cumulative pseudo-regret of both kernels, and the difference trial by trial."""
    figure, ((left, right),) = canvas(1, 2, 2.7, width_ratios=[1.3, 1.0])
    ends = {}
    for name, record in records.items():
        regret = np.cumsum(record.rounds.best_mean_reward - record.rounds.mean_reward, axis=1)
        rounds, mean, half = np.arange(1, regret.shape[1] + 1), regret.mean(0), half_width(regret)
        ends[name] = regret[:, -1]
        left.fill_between(
            rounds, mean - half, mean + half, color=COLOURS[name], alpha=0.16, linewidth=0
        )
        left.plot(rounds, mean, color=COLOURS[name], label=f"{name}, 95% band", linewidth=1.5)
    left.set_xlabel("round")
    left.set_ylabel("cumulative pseudo-regret")
    left.set_xlim(0.0)
    left.set_ylim(0.0)
    left.legend(loc="upper left")
    difference = np.sort(ends["own"] - ends["default"])
    right.axvline(0.0, color=GREY, linewidth=0.8)
    at = np.arange(1, len(difference) + 1)
    right.plot(difference, at, "o", color=INK, markersize=3.5, markerfacecolor="white")
    middle, half = difference.mean(), float(half_width(difference))
    right.errorbar(middle, -1.0, xerr=half, fmt="D", color=ORANGE, markersize=5)
    right.text(middle, -2.2, "mean, 95% interval", color=ORANGE, ha="center", va="top")
    right.set_ylim(-5.0, len(difference) + 1)
    right.set_yticks([])
    right.set_ylabel("trials, sorted")
    right.set_xlabel("pseudo-regret, own $-$ default")
    return figure
