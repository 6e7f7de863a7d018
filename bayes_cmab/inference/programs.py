"""Densities and sites of NumPyro programs, as pure functions of their arguments."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray
from numpyro import handlers
from numpyro.infer.util import potential_energy

from bayes_cmab.models.priors import Sites
from bayes_cmab.policies.base import Program


def potential(program: Program, unconstrained: Sites) -> Float[Array, ""]:
    """Return minus the log posterior density of unconstrained sites."""
    energy: Array = potential_energy(program.model, program.arguments, {}, unconstrained)
    return energy


def sample_sites(program: Program) -> list[str]:
    """Return the names of the unobserved sample sites of a program."""
    seeded = handlers.seed(program.model, jax.random.key(0))
    trace = handlers.trace(seeded).get_trace(*program.arguments)
    return [
        name for name, site in trace.items() if site["type"] == "sample" and not site["is_observed"]
    ]


def prior_medians(program: Program, draws: int = 15) -> Sites:
    """Return the medians of a few prior draws of each site: a start for any program."""
    names = sample_sites(program)

    def draw(key: PRNGKeyArray) -> Sites:
        trace = handlers.trace(handlers.seed(program.model, key)).get_trace(*program.arguments)
        return {name: trace[name]["value"] for name in names}

    values = jax.vmap(draw)(jax.random.split(jax.random.key(0), draws))
    return {name: jnp.median(value, axis=0) for name, value in values.items()}
