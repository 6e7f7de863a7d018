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
from bayes_cmab.models import EmbeddingModel, RewardModel
from bayes_cmab.plot_style import COLOURS, STYLE
from bayes_cmab.posteriors import condition_embedding, embedding_weights
from bayes_cmab.predictive import prior_predictive
from bayes_cmab.programs import Program, prior_draws

TARGET = Path(__file__).parent.parent / "docs" / "figures" / "priors.png"
DRAWS, SHOWN = 400, 7
GRID = np.linspace(-3.0, 3.0, 121)


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
    low, high = np.quantile(y, [0.05, 0.95], axis=0)
    axis.fill_between(GRID, low, high, color=COLOURS["cbmp"], alpha=0.15, linewidth=0)
    axis.plot(GRID, f[:SHOWN].T, color=COLOURS["cbmp"], linewidth=0.9)
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
    low, high = np.quantile(share, [0.05, 0.95], axis=0)
    axis.fill_between(GRID, low, high, color=COLOURS["cme"], alpha=0.15, linewidth=0)
    axis.plot(GRID, share[:SHOWN].T, color=COLOURS["cme"], linewidth=0.9)
    axis.set_title("one transition at $a = 0$", loc="left")
    axis.set_xlabel("action $a$, standardised")
    axis.set_ylabel("$G / F$, share explained")
    axis.set_ylim(0.0, 1.0)


def main() -> None:
    """Write the figure."""
    numpyro.enable_x64()
    with mpl.rc_context(STYLE):
        figure = Figure((7.0, 2.7), layout="constrained")
        left, right = figure.subplots(1, 2)
        draw_outcomes(left)
        draw_learning(right)
        figure.savefig(TARGET, dpi=150)


if __name__ == "__main__":
    main()
