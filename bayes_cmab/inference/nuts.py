r"""Draws of hyperparameters by the No-U-Turn Sampler, in one compiled program per capacity.

``numpyro.infer.MCMC`` compiles its program again whenever the data change their shape. Here the
same NUTS kernel runs inside one jitted function whose arguments are the padded data, and a later
fit starts from the last one: positions, step size and mass matrix.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray
from numpyro.infer.hmc import hmc
from numpyro.infer.util import constrain_fn, unconstrain_fn

from bayes_cmab.inference.programs import potential, prior_medians
from bayes_cmab.models.priors import Sites
from bayes_cmab.policies.base import Program

MASS_PRIOR_DRAWS = 5.0
"""Weight of the diagonal ``MASS_PRIOR_VARIANCE`` in a mass matrix taken from draws."""

MASS_PRIOR_VARIANCE = 1e-2


@dataclass(frozen=True)
class NUTS:
    """Sample the posterior of the hyperparameters by NUTS, and marginalise over the draws.

    Attributes
    ----------
    draws : kept draws of each program, over all chains.
    chains : Markov chains, run one after the other or together.
    warmup : steps before the first fit's draws, in which step size and mass matrix adapt.
    rewarm : steps before a later fit's draws; positions, step size and mass matrix are taken over
        from the last fit, and only the step size adapts.
    thinning : steps a kept draw.
    target_accept : of the step size's adaptation.
    max_tree_depth : of a trajectory.
    chain_method : ``"sequential"`` or ``"vectorized"``.
    """

    draws: int = 64
    chains: int = 4
    warmup: int = 128
    rewarm: int = 24
    thinning: int = 2
    target_accept: float = 0.8
    max_tree_depth: int = 7
    chain_method: Literal["sequential", "vectorized"] = "sequential"

    def __post_init__(self) -> None:
        for name in ("draws", "chains", "warmup", "rewarm", "thinning", "max_tree_depth"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.draws % self.chains:
            raise ValueError(
                f"draws: expected a multiple of the {self.chains} chains, got {self.draws}"
            )
        if not 0.0 < self.target_accept < 1.0:
            raise ValueError(
                f"target_accept: expected a number between 0 and 1, got {self.target_accept}"
            )
        if self.chain_method not in ("sequential", "vectorized"):
            raise ValueError(
                f"chain_method: expected 'sequential' or 'vectorized', got {self.chain_method!r}"
            )


class WarmStart(NamedTuple):
    """Where a fit starts.

    Attributes
    ----------
    position : (chains, k) unconstrained.
    step_size : (chains,).
    inverse_mass_matrix : (k, k), shared by the chains.
    """

    position: Float[Array, "chains k"]
    step_size: Float[Array, " chains"]
    inverse_mass_matrix: Float[Array, "k k"]


class SampleStats(NamedTuple):
    """Of each draw, (chains, draws); the names are ArviZ's."""

    lp: Float[Array, "chains draws"]
    energy: Float[Array, "chains draws"]
    n_steps: Array
    acceptance_rate: Float[Array, "chains draws"]
    step_size: Float[Array, "chains draws"]
    diverging: Array


class Draws(NamedTuple):
    """Result of a fit of one program.

    Attributes
    ----------
    sites : constrained values, each (chains, draws, ...).
    stats : of the sampler.
    following : where the next fit starts.
    """

    sites: Sites
    stats: SampleStats
    following: WarmStart


def cold_start(program: Program, key: PRNGKeyArray, chains: int) -> WarmStart:
    """Return starting points scattered around the prior medians, with a unit mass matrix."""
    flat, _ = ravel_pytree(unconstrain_fn(*program, {}, prior_medians(program)))
    scatter = 0.3 * jax.random.normal(key, (chains, flat.shape[0]))
    return WarmStart(flat[None, :] + scatter, jnp.full(chains, 0.3), jnp.eye(flat.shape[0]))


def sample(
    program: Program, key: PRNGKeyArray, start: WarmStart, settings: NUTS, *, cold: bool
) -> Draws:
    """Run the chains; pure, and meant to be jitted with ``settings`` and ``cold`` static.

    Parameters
    ----------
    program : NumPyro program and its data.
    key : split among the chains.
    start : positions, step sizes and mass matrix.
    cold : whether to use ``settings.warmup`` steps, in which the mass matrix adapts too.
    """
    template = unconstrain_fn(*program, {}, prior_medians(program))
    _, restore = ravel_pytree(template)
    warmup = settings.warmup if cold else settings.rewarm
    kept = settings.draws // settings.chains

    def one(inputs: tuple[PRNGKeyArray, Array, Array]) -> tuple[Array, SampleStats, Array]:
        chain_key, position, step_size = inputs
        initialise, kernel = hmc(
            potential_fn_gen=lambda *arguments: (
                lambda z: potential(Program(program.model, arguments), restore(z))
            ),
            algo="NUTS",
        )
        state = initialise(
            position,
            warmup,
            step_size=step_size,
            inverse_mass_matrix=start.inverse_mass_matrix,
            adapt_mass_matrix=cold,
            dense_mass=True,
            target_accept_prob=settings.target_accept,
            max_tree_depth=settings.max_tree_depth,
            model_args=program.arguments,
            rng_key=chain_key,
        )

        def step(state: Any, _: None) -> tuple[Any, None]:
            return kernel(state, program.arguments, {}), None

        def draw(state: Any, _: None) -> tuple[Any, tuple[Array, SampleStats]]:
            state, _ = lax.scan(step, state, None, length=settings.thinning)
            stats = SampleStats(
                lp=-state.potential_energy,
                energy=state.energy,
                n_steps=state.num_steps,
                acceptance_rate=state.accept_prob,
                step_size=state.adapt_state.step_size,
                diverging=state.diverging,
            )
            return state, (state.z, stats)

        state, _ = lax.scan(step, state, None, length=warmup)
        state, (positions, stats) = lax.scan(draw, state, None, length=kept)
        return positions, stats, state.adapt_state.step_size

    inputs = (jax.random.split(key, settings.chains), start.position, start.step_size)
    run = jax.vmap(one) if settings.chain_method == "vectorized" else _sequentially(one)
    positions, stats, step_size = run(inputs)
    flat = positions.reshape(-1, positions.shape[-1])

    def constrain(z: Array) -> Sites:
        sites: Sites = constrain_fn(*program, {}, restore(z))
        return sites

    return Draws(
        sites=jax.vmap(jax.vmap(constrain))(positions),
        stats=stats,
        following=WarmStart(positions[:, -1], step_size, _covariance(flat)),
    )


def _sequentially(one: Any) -> Any:
    return lambda inputs: lax.map(one, inputs)


def _covariance(draws: Float[Array, "n k"]) -> Float[Array, "k k"]:
    """Return the covariance of the draws, shrunk towards a small diagonal as Stan does."""
    n, k = draws.shape
    centred = draws - jnp.mean(draws, axis=0, keepdims=True)
    covariance = centred.T @ centred / max(n - 1, 1)
    weight = n / (n + MASS_PRIOR_DRAWS)
    return weight * covariance + (1.0 - weight) * MASS_PRIOR_VARIANCE * jnp.eye(k)
