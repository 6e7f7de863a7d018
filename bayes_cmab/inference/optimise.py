r"""Hyperparameters that are given, or found by type-II maximum a posteriori.

The NumPyro programs of a policy define the posterior of its hyperparameters. Its mode is taken
in unconstrained coordinates (the logarithms of all positive sites), where a log-normal prior is
a normal density. Every function here is pure, and compiled once per capacity of the data.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optimistix
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int
from numpyro.infer.util import constrain_fn, unconstrain_fn

from bayes_cmab.data import Data
from bayes_cmab.models.priors import Sites
from bayes_cmab.policies.base import Policy
from bayes_cmab.programs import Program, coordinates, potential, sample_sites
from bayes_cmab.validate import number_within, whole_number

START_SPREAD = 0.7
"""Standard deviation of the scattered starts, in unconstrained coordinates."""


@dataclass(frozen=True)
class Fixed:
    """Keep the hyperparameters that were given (by default the medians of the priors)."""

    every: None = None


@dataclass(frozen=True)
class MAP:
    """Maximise the posterior of the hyperparameters, warm-started, every few rounds.

    Attributes
    ----------
    every : rounds between two fits.
    max_steps : of the quasi-Newton optimiser (BFGS) in one fit.
    tolerance : relative and absolute, of the optimiser.
    starts : of the search; the best end counts. The first is the last result, the second the
        medians of the prior, the others scattered around these, always in the same places. From
        the last result alone a poor mode can be kept for long (``docs/marginalisation.md``).
    """

    every: int = 5
    max_steps: int = 60
    tolerance: float = 1e-4
    starts: int = 2

    def __post_init__(self) -> None:
        for name in ("every", "max_steps", "starts"):
            whole_number(getattr(self, name), name, least=1)
        number_within(self.tolerance, "tolerance", 0.0, math.inf)


class FitInfo(NamedTuple):
    """What happened in one fit, per program.

    Attributes
    ----------
    steps : of the optimiser, from all starts.
    potential : minus the log posterior at the result.
    improved : whether the result is finite and no worse than the start; if not, the start is kept.
    """

    steps: Int[Array, ""]
    potential: Float[Array, ""]
    improved: Bool[Array, ""]


def maximise_program(program: Program, start: Sites, settings: MAP) -> tuple[Sites, FitInfo]:
    """Return the mode of one program's sites, searched from ``start`` (both constrained)."""
    model, arguments = program
    flat, restore = ravel_pytree(unconstrain_fn(model, arguments, {}, start))

    def objective(position: Array, _: Any) -> Array:
        return potential(program, restore(position))

    def search(position: Array) -> tuple[Array, Array, Array]:
        solver: Any = optimistix.BFGS(rtol=settings.tolerance, atol=settings.tolerance)
        solution: Any = optimistix.minimise(
            objective, solver, position, max_steps=settings.max_steps, throw=False
        )
        value = objective(solution.value, None)
        sound = jnp.isfinite(value) & jnp.all(jnp.isfinite(solution.value))
        return solution.value, jnp.where(sound, value, jnp.inf), solution.stats["num_steps"]

    if settings.starts == 1:
        end, after, steps = search(flat)
    else:
        ends, values, each = lax.map(search, _starts(program, flat, settings.starts))
        chosen = jnp.argmin(values)
        end, after, steps = ends[chosen], values[chosen], jnp.sum(each)
    before = objective(flat, None)
    improved = jnp.isfinite(after) & ~(after > before)  # where the start is NaN, too
    best = jnp.where(improved, end, flat)
    info = FitInfo(steps, jnp.where(improved, after, before), improved)
    found: Sites = constrain_fn(model, arguments, {}, restore(best), return_deterministic=True)
    return found, info


def _starts(program: Program, first: Float[Array, " k"], count: int) -> Float[Array, "starts k"]:
    medians = coordinates(program).medians
    scatter = jax.random.normal(jax.random.key(0), (count - 1, first.shape[0])).at[0].set(0.0)
    return jnp.concatenate([first[None, :], medians[None, :] + START_SPREAD * scatter])


def maximise[State](
    policy: Policy[State], data: Data, start: Sites, settings: MAP
) -> tuple[Sites, dict[str, FitInfo]]:
    """Return the mode of all of a policy's sites, program by program, in the policy's order."""
    sites, info = dict(start), {}
    for name in policy.models():
        program = policy.programs(data, sites)[name]  # afresh: it may depend on what was found
        own = {site: start[site] for site in sample_sites(program)}
        found, info[name] = maximise_program(program, own, settings)
        sites |= {site: found[site] for site in start if site in found}
    return sites, info
