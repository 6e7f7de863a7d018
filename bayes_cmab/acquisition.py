r"""From moments to an action: upper confidence bounds and their exploration weight."""

import math
from dataclasses import dataclass
from typing import Protocol

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bayes_cmab.moments import Moments
from bayes_cmab.validate import as_positive


class BetaSchedule(Protocol):
    """The exploration weight of a round; hashable, so that it can be a static argument."""

    def __call__(self, round_index: Int[Array, ""] | int) -> Float[Array, ""]:
        """Return ``beta`` of a round, counted from zero."""
        ...


@dataclass(frozen=True)
class ConstantBeta:
    """``beta_t = value``."""

    value: float = 0.25

    def __post_init__(self) -> None:
        as_positive(self.value, "beta", zero=True)

    def __call__(self, round_index: Int[Array, ""] | int) -> Float[Array, ""]:
        """Return the constant."""
        del round_index
        return jnp.asarray(self.value)


@dataclass(frozen=True)
class LogarithmicBeta:
    r"""``beta_t = scale * 2 log(k (t + 1)^2 pi^2 / (6 delta))``.

    With ``scale = 1`` the schedule of Srinivas et al. (2010, Theorem 1) for ``k`` actions, whose
    confidence bounds hold at once in all rounds with probability ``1 - delta``.
    """

    n_actions: int
    delta: float = 0.1
    scale: float = 1.0

    def __post_init__(self) -> None:
        as_positive(self.n_actions, "n_actions")
        as_positive(self.scale, "scale", zero=True)
        if not 0.0 < self.delta < 1.0:
            raise ValueError(f"delta: expected a probability between 0 and 1, got {self.delta}")

    def __call__(self, round_index: Int[Array, ""] | int) -> Float[Array, ""]:
        """Return the weight of a round."""
        level = self.n_actions * math.pi**2 / (6.0 * self.delta)
        t = jnp.asarray(round_index, float)
        return self.scale * 2.0 * (jnp.log(level) + 2.0 * jnp.log1p(t))


def upper_confidence_bound(moments: Moments, beta: Float[Array, ""]) -> Float[Array, " k"]:
    """Return ``mean + sqrt(beta * variance)``."""
    return moments.mean + jnp.sqrt(beta * moments.variance)


def select(uniform: Float[Array, " k"], score: Float[Array, " k"]) -> Int[Array, ""]:
    """Return the index of the highest score, ties broken at random.

    A score that is not finite is never hidden: it makes the index -1.

    Parameters
    ----------
    uniform : (k,) draws on [0, 1) from the agent's key.
    score : (k,).
    """
    tie = score == jnp.max(score)
    index = jnp.argmax(jnp.where(tie, uniform, -1.0))
    return jnp.where(jnp.all(jnp.isfinite(score)), index, -1)
