"""NumPyro programs: their densities and their sites, as pure functions of their arguments."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray
from numpyro import handlers
from numpyro.infer.util import constrain_fn, potential_energy, unconstrain_fn

from bayes_cmab.models.priors import Sites


class Program(NamedTuple):
    """A NumPyro program and the arguments that it is called with."""

    model: Callable[..., None]
    arguments: tuple[Any, ...]


class Coordinates(NamedTuple):
    """A program's sites as one unconstrained vector.

    Attributes
    ----------
    medians : (k,) of the prior.
    restore : from a vector to the sites, unconstrained.
    constrain : from a vector to the sites, and to the deterministic ones.
    potential : minus the log posterior density of a vector.
    """

    medians: Float[Array, " k"]
    restore: Callable[[Array], Sites]
    constrain: Callable[[Array], Sites]
    potential: Callable[[Array], Array]


def potential(program: Program, unconstrained: Sites) -> Float[Array, ""]:
    """Return minus the log posterior density of unconstrained sites."""
    energy: Array = potential_energy(program.model, program.arguments, {}, unconstrained)
    return energy


def _trace(program: Program, key: PRNGKeyArray) -> dict[str, Any]:
    seeded = handlers.seed(program.model, key)
    trace: dict[str, Any] = handlers.trace(seeded).get_trace(*program.arguments)
    return trace


def sample_sites(program: Program) -> list[str]:
    """Return the names of the unobserved sample sites of a program."""
    trace = _trace(program, jax.random.key(0))
    return [
        name for name, site in trace.items() if site["type"] == "sample" and not site["is_observed"]
    ]


def prior_draws(program: Program, key: PRNGKeyArray, draws: int) -> Sites:
    """Return draws of the sample and deterministic sites, each (draws, ...), from the prior."""
    wanted = set(sample_sites(program))

    def draw(one: PRNGKeyArray) -> Sites:
        trace = _trace(program, one)
        return {
            name: site["value"]
            for name, site in trace.items()
            if name in wanted or site["type"] == "deterministic"
        }

    return jax.vmap(draw)(jax.random.split(key, draws))


def prior_medians(program: Program, draws: int = 15) -> Sites:
    """Return the medians of a few prior draws of each sample site: a start for any program."""
    values = prior_draws(program, jax.random.key(0), draws)
    return {name: jnp.median(values[name], axis=0) for name in sample_sites(program)}


def coordinates(program: Program) -> Coordinates:
    """Return the unconstrained coordinates of a program."""
    model, arguments = program
    medians, restore = ravel_pytree(unconstrain_fn(model, arguments, {}, prior_medians(program)))

    def constrain(z: Array) -> Sites:
        sites: Sites = constrain_fn(model, arguments, {}, restore(z), return_deterministic=True)
        return sites

    return Coordinates(medians, restore, constrain, lambda z: potential(program, restore(z)))


def checked_medians(program: Program, name: str, expected: Sites) -> Sites:
    """Return the medians of the prior draws of every site of a user's program.

    Raises
    ------
    ValueError
        If an expected site is missing or has another shape, or if the density is not finite.
    """
    draws = jax.jit(lambda: prior_draws(program, jax.random.key(0), 15))()
    listed = ", ".join(f"{site} {jnp.shape(value)}" for site, value in sorted(expected.items()))
    got = ", ".join(f"{site} {jnp.shape(value)[1:]}" for site, value in sorted(draws.items()))
    for site, value in expected.items():
        if site not in draws or jnp.shape(draws[site])[1:] != jnp.shape(value):
            raise ValueError(
                f"{name}: expected sample or deterministic sites {listed}; got {got or 'none'}"
            )
    medians = {site: jnp.median(value, axis=0) for site, value in draws.items()}
    energy = jax.jit(lambda: coordinates(program).potential(coordinates(program).medians))()
    finite = all(bool(jnp.all(jnp.isfinite(value))) for value in medians.values())
    if not (finite and bool(jnp.isfinite(energy))):
        raise ValueError(
            f"{name}: expected a finite log density at the medians of its prior, got {-energy}"
        )
    return medians


def prior_log_density(program: Program, sites: Sites) -> Sites:
    """Return the log prior density of each sample site, in its own coordinates and shape."""
    substituted = handlers.substitute(handlers.seed(program.model, jax.random.key(0)), data=sites)
    trace = handlers.trace(substituted).get_trace(*program.arguments)
    return {name: trace[name]["fn"].log_prob(sites[name]) for name in sites}
