"""The settings A to F: what an environment is, its random streams, and six of them.

A to D are the simulations of Martinez-Taboada & Sejdinovic (arXiv 2210.13692); in E r given
(s, a) is bimodal, in F its spread grows with the action and f has a cliff.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array

from bayes_cmab.environment import Environment, EnvironmentState, Noise, Step
from bayes_cmab.streams import Purpose, stream, trial_key

__all__ = [
    "SETTINGS",
    "Environment",
    "EnvironmentState",
    "Noise",
    "Purpose",
    "Step",
    "get_environment",
    "stream",
    "trial_key",
]


def get_environment(name: str) -> Environment:
    """Return the setting of that name, 'A' to 'F'; raise ValueError for any other."""
    if name not in SETTINGS:
        names = ", ".join(repr(known) for known in SETTINGS)
        raise ValueError(f"environment name: expected one of {names}, got {name!r}")
    return SETTINGS[name]


def _means_a(s: Array, a: Array) -> Array:
    return jnp.array([[jnp.sin(math.pi * s) + jnp.cos(math.pi * a)]])


def _means_b(s: Array, a: Array) -> Array:
    return jnp.array([[jnp.sin(s + a), jnp.sin(s - a)]])


def _means_c(s: Array, a: Array) -> Array:
    return jnp.array([[jnp.sin(s), jnp.cos(a)]])


def _means_d(s: Array, a: Array) -> Array:
    return jnp.array([[jnp.sin(s), jnp.cos(a), jnp.sin(a), jnp.cos(s), jnp.sin(s) + jnp.cos(s)]])


def _means_e(s: Array, a: Array) -> Array:
    centre = 0.5 * jnp.sin(s)
    return jnp.array([[centre + jnp.cos(a)], [centre - jnp.cos(a)]])


def _means_f(s: Array, a: Array) -> Array:
    return jnp.array([[0.5 * jnp.sin(s) + 0.35 * a]])


def _phi_a(r: Array) -> Array:
    return jnp.sin(r)


def _phi_b(r: Array) -> Array:
    return jnp.tanh(5 * math.pi * r) + jnp.cos(math.pi * r)


def _phi_cd(r: Array) -> Array:
    return jnp.sin(math.pi * r)


def _phi_e(r: Array) -> Array:
    return jnp.sin(2 * r)


def _phi_f(r: Array) -> Array:
    return r - 2 * jax.nn.sigmoid(12 * (r - 1))


SETTINGS: dict[str, Environment] = {
    environment.name: environment
    for environment in (
        # name, description, d, means, noise, phi, reward_dims, outcome noise, offline bound
        Environment("A", "one smooth intermediate", 1, _means_a, 0.25, _phi_a, 1, 0.05, 2.0),
        Environment("B", "f has a steep step in r_0", 2, _means_b, 0.25, _phi_b, 1, 1.0, 2.0),
        Environment("C", "a fixed action is optimal", 2, _means_c, 0.25, _phi_cd, 2, 1.0, 2.0),
        Environment("D", "five intermediates", 5, _means_d, 0.25, _phi_cd, 5, 1.0, 2.0),
        Environment("E", "r is bimodal given s, a", 1, _means_e, 0.2, _phi_e, 1, 0.5, 2.0),
        # and, in F, the slope of the noise in |a|
        Environment("F", "noisy r near a cliff", 1, _means_f, 0.05, _phi_f, 1, 0.5, 2.5, 0.2),
    )
}
