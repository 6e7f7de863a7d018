"""Draw what the priors predict before any data: `docs/figures/priors.png`.

python analysis/priors.py
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import numpyro
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayes_cmab.data import Outcomes, Transitions
from bayes_cmab.models import EmbeddingModel, HeteroscedasticTransitionModel, RewardModel
from bayes_cmab.plot_style import STYLE
from bayes_cmab.posteriors import condition_embedding, embedding_weights
from bayes_cmab.predictive import prior_predictive
from bayes_cmab.programs import Program, prior_draws
from bayes_cmab.report_style import round_ticks

TARGET = Path(__file__).parent.parent / "docs" / "figures" / "priors.png"
DRAWS, SHOWN = 4000, 7
GRID = np.linspace(-3.0, 3.0, 61)
INK = "#444444"


def show(axis: Axes, lines: np.ndarray, every: np.ndarray) -> None:
    """Draw the first lines, and the middle 90% of every draw."""
    low, high = np.quantile(every, [0.05, 0.95], axis=0)
    axis.fill_between(GRID, low, high, color=INK, alpha=0.13, linewidth=0)
    axis.plot(GRID, lines[:SHOWN].T, color=INK, linewidth=0.9)
    axis.set_xlim(GRID[0], GRID[-1])


def draw_outcomes(axis: Axes) -> None:
    """Show outcomes along a one-dimensional r, and the band of 90% of them."""
    model = RewardModel()
    rows = Outcomes.create(GRID[:, None], np.zeros(len(GRID)), capacity=len(GRID))

    @jax.jit
    def simulate(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        sites = prior_draws(Program(model, (rows,)), key, DRAWS)
        keys = jax.random.split(key, DRAWS)
        own = {name: sites[name] for name in model.default_sites(1)}

        def one(site: dict[str, jax.Array], key: jax.Array) -> tuple[jax.Array, jax.Array]:
            hyper = model.hyperparameters(site)
            silent = hyper._replace(reward_noise=jnp.asarray(1e-8))
            return (
                prior_predictive(model, hyper, rows, key),
                prior_predictive(model, silent, rows, key),
            )

        return jax.vmap(one)(own, keys)

    y, f = (np.asarray(x) for x in simulate(jax.random.key(4)))
    show(axis, f, y)
    axis.set_title("$b + f(r)$, and 90% of the outcomes", loc="left")
    axis.set_xlabel("intermediate $r$, standardised")
    axis.set_ylabel("outcome, standardised")


def draw_learning(axis: Axes) -> None:
    """Show how much one transition at action 0 explains of the embedding at other actions."""
    model = EmbeddingModel()
    one = Transitions.create(np.zeros((1, 0)), np.zeros((1, 1)), np.zeros((1, 1)), capacity=1)

    @jax.jit
    def simulate(key: jax.Array) -> jax.Array:
        sites = prior_draws(Program(model, (one,)), key, DRAWS)
        own = {name: sites[name] for name in model.default_sites(0, 1)}

        def explained(site: dict[str, jax.Array]) -> jax.Array:
            hyper = model.hyperparameters(site)
            known = condition_embedding(model, hyper, one.contexts, one.actions, one.size)
            e = embedding_weights(model, known, jnp.zeros(0), jnp.asarray(GRID)[:, None])
            return e.explained / e.prior

        return jax.vmap(explained)(own)

    share = np.asarray(simulate(jax.random.key(2)))
    show(axis, share, share)
    axis.set_title("paper's form: one transition at $a = 0$", loc="left")
    axis.set_xlabel("action $a$, standardised")
    axis.set_ylabel("$G / F$, share explained")
    axis.set_ylim(0.0, 1.0)


def draw_transition(mean: Axes, noise: Axes) -> None:
    """Show the default's r by action in one context, and the standard deviation of its noise."""
    model = HeteroscedasticTransitionModel()
    rows = Transitions.create(
        np.zeros((len(GRID), 1)), GRID[:, None], np.zeros((len(GRID), 1)), capacity=len(GRID)
    )

    @jax.jit
    def simulate(key: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        sites = prior_draws(Program(model, (rows,)), key, DRAWS)
        own = {name: sites[name] for name in model.default_sites(1, 1, 1)}

        def one(site: dict[str, jax.Array], key: jax.Array) -> tuple[jax.Array, ...]:
            hyper = model.hyperparameters(site)
            where = (rows.contexts, rows.actions)
            (gram,) = model.gram(hyper, *where, *where)
            deviation = jnp.sqrt(model.noise(hyper, *where)[:, 0])
            root = jnp.linalg.cholesky(gram + 1e-8 * jnp.eye(len(GRID)))
            first, second = jax.random.normal(key, (2, len(GRID)))
            return root @ first, root @ first + deviation * second, deviation

        return jax.vmap(one)(own, jax.random.split(key, DRAWS))

    h, r, deviation = (np.asarray(x) for x in simulate(jax.random.key(3)))
    show(mean, h, r)
    mean.set_title("default: $h(s, a)$ in one context, and 90% of $r$", loc="left")
    mean.set_ylabel("intermediate, standardised")
    show(noise, deviation, deviation)
    noise.set_title("default: standard deviation of $r$ given $(s, a)$", loc="left")
    noise.set_yscale("log")
    round_ticks(noise.yaxis)
    noise.set_ylabel("standardised")
    for axis in (mean, noise):
        axis.set_xlabel("action $a$, standardised")


def main() -> None:
    """Write the figure."""
    numpyro.enable_x64()
    with mpl.rc_context(STYLE):
        figure = Figure((7.0, 5.2), layout="constrained")
        axes = figure.subplots(2, 2)
        draw_outcomes(axes[0, 0])
        draw_learning(axes[0, 1])
        draw_transition(axes[1, 0], axes[1, 1])
        figure.savefig(TARGET, dpi=150)


if __name__ == "__main__":
    main()
