"""NumPyro programs: their densities and their sites, as pure functions of their arguments."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PRNGKeyArray
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.distributions.util import sum_rightmost
from numpyro.infer.util import constrain_fn, potential_energy, unconstrain_fn

from bayes_cmab.models.priors import Sites

FEW = 15
"""Draws of a prior whose medians a search starts from."""


class Program(NamedTuple):
    """A NumPyro program and the arguments that it is called with."""

    model: Callable[..., None]
    arguments: tuple[Any, ...]


class Coordinates(NamedTuple):
    """A program's sites as one unconstrained vector.

    Attributes
    ----------
    medians : (k,) of the prior.
    element : (k,) of the plate that each number belongs to, where everything is in one plate, the
        likelihood too: then the elements are independent in the posterior. Zeros elsewhere.
    restore : from a vector to the sites, unconstrained.
    constrain : from a vector to the sites, and to the deterministic ones.
    potential : minus the log posterior density of a vector.
    densities : (elements,) log posterior densities of the elements; they add up to all of it.
    """

    medians: Float[Array, " k"]
    element: Int[Array, " k"]
    restore: Callable[[Array], Sites]
    constrain: Callable[[Array], Sites]
    potential: Callable[[Array], Array]
    densities: Callable[[Array], Array]


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


def prior_medians(program: Program) -> Sites:
    """Return the medians of a few prior draws of each sample site: a start for any program."""
    values = prior_draws(program, jax.random.key(0), FEW)
    return {name: jnp.median(values[name], axis=0) for name in sample_sites(program)}


def coordinates(program: Program) -> Coordinates:
    """Return the unconstrained coordinates of a program."""
    model, arguments = program
    unconstrained = unconstrain_fn(model, arguments, {}, prior_medians(program))
    medians, restore = ravel_pytree(unconstrained)

    def constrain(z: Array) -> Sites:
        sites: Sites = constrain_fn(model, arguments, {}, restore(z), return_deterministic=True)
        return sites

    def energy(z: Array) -> Array:
        return potential(program, restore(z))

    axes = _plate_axes(program)
    if axes is None:
        alone = jnp.zeros(medians.shape, int)
        return Coordinates(medians, alone, restore, constrain, energy, lambda z: -energy(z)[None])
    element, _ = ravel_pytree(
        {name: lax.broadcasted_iota(int, x.shape, axes[name]) for name, x in unconstrained.items()}
    )
    return Coordinates(
        *(medians, element, restore, constrain, energy),
        lambda z: _log_densities(program, restore(z)),
    )


def _plate_axes(program: Program) -> dict[str, int] | None:
    """Return the axis of each site that is along the one plate of a program, if it has one.

    None if not everything in the program is in that plate and in no other, or a handler scales it.
    """
    trace = _trace(program, jax.random.key(0))
    scored = {name: site for name, site in trace.items() if site["type"] == "sample"}
    plates = {tuple(frame.name for frame in site["cond_indep_stack"]) for site in scored.values()}
    scaled = any(site["scale"] is not None for site in scored.values())
    if scaled or len(plates) != 1 or len(plates.pop()) != 1:
        return None
    return {
        name: len(site["fn"].batch_shape) + site["cond_indep_stack"][0].dim
        for name, site in scored.items()
    }


def _log_densities(program: Program, unconstrained: Sites) -> Float[Array, " elements"]:
    """Return the log posterior density of each element of the one plate of a program."""
    model, arguments = program
    sites = constrain_fn(model, arguments, {}, unconstrained)
    substituted = handlers.substitute(handlers.seed(model, jax.random.key(0)), data=sites)
    total = jnp.zeros(())
    for name, site in handlers.trace(substituted).get_trace(*arguments).items():
        if site["type"] != "sample":
            continue
        total = total + site["fn"].log_prob(site["value"])
        if name in unconstrained:
            transform = biject_to(site["fn"].support)
            z = unconstrained[name]
            stretch = transform.log_abs_det_jacobian(z, site["value"])
            total = total + sum_rightmost(stretch, stretch.ndim - total.ndim)
    return total.ravel()


def checked_medians(program: Program, name: str, expected: Sites) -> Sites:
    """Return the medians of the prior draws of every site of a user's program.

    Raises
    ------
    ValueError
        If an expected site is missing or has another shape, or if the density is not finite.
    """
    draws = jax.jit(lambda: prior_draws(program, jax.random.key(0), FEW))()
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
