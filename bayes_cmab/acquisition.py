r"""From what is known of the actions to a choice: acquisitions and their exploration weight."""

import math
from dataclasses import dataclass
from typing import Protocol

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from bayes_cmab.moments import Moments
from bayes_cmab.policies import Policy
from bayes_cmab.validate import as_positive, number_within, whole_number


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
        number_within(self.delta, "delta", 0.0, 1.0)

    def __call__(self, round_index: Int[Array, ""] | int) -> Float[Array, ""]:
        """Return the weight of a round."""
        level = self.n_actions * math.pi**2 / (6.0 * self.delta)
        t = jnp.asarray(round_index, float)
        return self.scale * 2.0 * (jnp.log(level) + 2.0 * jnp.log1p(t))


class Acquisition(Protocol):
    """Turns what a policy knows of a set of actions into scores; hashable."""

    def __call__[State](
        self,
        policy: Policy[State],
        state: State,
        context: Float[Array, " p"],
        actions: Float[Array, "k q"],
        beta: Float[Array, ""],
        key: PRNGKeyArray,
    ) -> tuple[Moments, Float[Array, " k"]]:
        """Return the moments of ``g`` and the scores (k,), in standardised units."""
        ...


@dataclass(frozen=True)
class MatchedMomentsUCB:
    """``mean + sqrt(beta * variance)`` of ``g``, both averaged over the hyperparameters."""

    def __call__[State](
        self,
        policy: Policy[State],
        state: State,
        context: Float[Array, " p"],
        actions: Float[Array, "k q"],
        beta: Float[Array, ""],
        key: PRNGKeyArray,
    ) -> tuple[Moments, Float[Array, " k"]]:
        """Return moments and scores; ``O(k N^2)`` for each draw."""
        del key
        moments = policy.moments(state, context, actions)
        return moments, upper_confidence_bound(moments, beta)


@dataclass(frozen=True)
class MeanUCB:
    """The average over the hyperparameters of their upper confidence bounds.

    It explores less than `MatchedMomentsUCB`, because ``E sd <= sqrt(E var + Var mean)``. The
    pairs of draws make it ``O(T J k N^2)``.
    """

    def __call__[State](
        self,
        policy: Policy[State],
        state: State,
        context: Float[Array, " p"],
        actions: Float[Array, "k q"],
        beta: Float[Array, ""],
        key: PRNGKeyArray,
    ) -> tuple[Moments, Float[Array, " k"]]:
        """Return moments and scores."""
        del key
        mixture = policy.mixture(state, context, actions)
        bounds = mixture.mean + _root(beta * mixture.variance)
        return policy.moments(state, context, actions), mixture.weight @ bounds


@dataclass(frozen=True)
class MixtureQuantile:
    """The quantile at level ``Phi(sqrt(beta))`` of the mixture over the hyperparameters.

    Bisection between the smallest and the largest quantile of a component. ``O(T J k N^2)``.

    Attributes
    ----------
    steps : of the bisection; 60 exhaust the precision of a float.
    """

    steps: int = 60

    def __post_init__(self) -> None:
        whole_number(self.steps, "steps", least=1)

    def __call__[State](
        self,
        policy: Policy[State],
        state: State,
        context: Float[Array, " p"],
        actions: Float[Array, "k q"],
        beta: Float[Array, ""],
        key: PRNGKeyArray,
    ) -> tuple[Moments, Float[Array, " k"]]:
        """Return moments and scores."""
        del key
        mixture = policy.mixture(state, context, actions)
        deviation = jnp.sqrt(mixture.variance)
        component = mixture.mean + jnp.sqrt(beta) * deviation
        level = ndtr(jnp.sqrt(beta))
        # The clip keeps a component without variance a step function instead of 0 / 0.
        scale = jnp.maximum(deviation, np.finfo(float).tiny)

        def halve(_: int, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = bracket
            middle = 0.5 * (low + high)
            below = mixture.weight @ ndtr((middle[None, :] - mixture.mean) / scale) < level
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        start = (jnp.min(component, axis=0), jnp.max(component, axis=0))
        low, high = lax.fori_loop(0, self.steps, halve, start)
        found = lax.stop_gradient(0.5 * (low + high))
        # Bisection knows no derivative: that of the implicit function, from one step of Newton.
        z = (found[None, :] - mixture.mean) / scale
        density = lax.stop_gradient(mixture.weight @ (norm.pdf(z) / scale))
        newton = (level - mixture.weight @ ndtr(z)) / jnp.maximum(density, np.finfo(float).tiny)
        quantile = found + newton - lax.stop_gradient(newton)
        return policy.moments(state, context, actions), quantile


@dataclass(frozen=True)
class Thompson:
    """A joint draw of ``g`` at all actions, under hyperparameters drawn by weight; no ``beta``."""

    def __call__[State](
        self,
        policy: Policy[State],
        state: State,
        context: Float[Array, " p"],
        actions: Float[Array, "k q"],
        beta: Float[Array, ""],
        key: PRNGKeyArray,
    ) -> tuple[Moments, Float[Array, " k"]]:
        """Return moments and the draw."""
        del beta
        draw = policy.sample(state, context, actions, key)
        return policy.moments(state, context, actions), draw


def upper_confidence_bound(moments: Moments, beta: Float[Array, ""]) -> Float[Array, " k"]:
    """Return ``mean + sqrt(beta * variance)``."""
    return moments.mean + _root(beta * moments.variance)


def _root(square: Array) -> Array:
    """Return the square root, whose derivative at zero is zero: without a bonus nothing climbs."""
    some = square != 0.0
    return jnp.where(some, jnp.sqrt(jnp.where(some, square, 1.0)), 0.0)


def select(
    uniform: Float[Array, " k"], score: Float[Array, " k"], allowed: Bool[Array, " k"] | None = None
) -> Int[Array, ""]:
    """Return the index of the highest score, ties broken at random.

    A score that is not finite is never hidden: it makes the index -1.

    Parameters
    ----------
    uniform : (k,) draws on [0, 1) from the agent's key.
    score : (k,).
    allowed : (k,) which actions may be chosen; by default all.
    """
    if allowed is not None:
        finite = jnp.all(jnp.isfinite(score) | ~allowed)
        score = jnp.where(allowed, score, -jnp.inf)
    else:
        finite = jnp.all(jnp.isfinite(score))
    tie = score == jnp.max(score)
    index = jnp.argmax(jnp.where(tie, uniform, -1.0))
    return jnp.where(finite, index, -1)
