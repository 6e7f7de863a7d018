"""Standardised units: an agent works in them and reports in the user's.

A column is centred and divided by its scale. In experiments the scales are declared by the
environment, so that every agent sees the same units and none rescales mid-way.
"""

from typing import NamedTuple, Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayes_cmab.validate import FloatArray, Numbers, as_positive, as_vector


class Units(NamedTuple):
    """Centre and scale of each column, ``z = (x - center) / scale``.

    Attributes
    ----------
    center, scale : (k,), or scalars for the outcome.
    """

    center: Float[Array, "*k"]
    scale: Float[Array, "*k"]

    @classmethod
    def create(cls, center: Numbers, scale: Numbers, name: str, size: int) -> Self:
        """Validate given units of ``size`` columns."""
        c = as_vector(center, f"{name} center", size)
        s = as_positive(as_vector(scale, f"{name} scale", size), f"{name} scale")
        return cls(jnp.asarray(c), jnp.asarray(s))

    @classmethod
    def measured(cls, rows: FloatArray) -> Self:
        """Return the mean and the population standard deviation of each column.

        A column with fewer than two distinct values has scale 1, and without rows centre 0.
        """
        if not len(rows):
            return cls(jnp.zeros(rows.shape[1:]), jnp.ones(rows.shape[1:]))
        flat = np.all(rows == rows[:1], axis=0)
        with np.errstate(over="ignore"):  # an infinite scale: no score is finite, which is an error
            deviation = np.where(flat, 1.0, np.std(rows, axis=0))
        center = np.where(flat, rows[0], np.mean(rows, axis=0))
        return cls(jnp.asarray(center), jnp.asarray(np.where(deviation > 0.0, deviation, 1.0)))

    def standardise(self, value: Array) -> Array:
        """Return values, of shape (..., k), in standardised units."""
        center, scale = self._like(value)
        return (value - center) / scale

    def restore(self, value: Array) -> Array:
        """Return values in the user's units."""
        center, scale = self._like(value)
        return value * scale + center

    def _like(self, value: Array) -> tuple[Array, Array]:
        shape = (1,) * (jnp.ndim(value) - jnp.ndim(self.center)) + jnp.shape(self.center)
        return jnp.reshape(self.center, shape), jnp.reshape(self.scale, shape)


class Scales(NamedTuple):
    """Units of the context, the action, the intermediate and the outcome."""

    context: Units
    action: Units
    intermediate: Units
    outcome: Units

    @classmethod
    def identity(cls, p: int, q: int, d: int) -> Self:
        """Return units that change nothing."""
        s, a, r = (Units(jnp.zeros(k), jnp.ones(k)) for k in (p, q, d))
        return cls(s, a, r, Units(jnp.zeros(()), jnp.ones(())))
