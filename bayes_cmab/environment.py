"""A synthetic environment with a known oracle.

An environment draws a context s, answers an action a with an intermediate reward r ~ P(r | s, a)
and an outcome y = f(r) + noise, and knows g(s, a) = E[f(R) | s, a], which the bandit maximises.

All have one form, so that g is exact up to rounding. P(r | s, a) is a mixture of equally probable
N(mean_c(s, a), scale(a)^2 I) with scale(a) = noise + slope abs(a), and f is additive,
f(r) = 1 + 1.5 sum_j phi(r_j): E[f(R) | s, a] is a mean of one-dimensional Gaussian integrals.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from bayes_cmab.streams import Purpose, stream

# Contexts and actions. A tuple, because an environment is a static argument of `jax.jit`.
_GRID = tuple(np.linspace(-3.0, 3.25, 61).tolist())

# Trapezoid rule for E phi(m + scale N). It converges like exp(-2 pi p / h), where h is the
# spacing and p the distance of phi(m + scale z)'s nearest pole from the real line; on the grid
# p >= 0.37 (the cliff of F at a = 3.25). Gauss-Hermite rules converge far more slowly here.
_NODES = np.linspace(-8.5, 8.5, 301)
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()


class EnvironmentState(NamedTuple):
    """Hold what changes from round to round: the round t and the context waiting for an action."""

    round: Int[Array, ""]
    context: Float[Array, " p"]


class Noise(NamedTuple):
    """Hold what is random in a round: uniform, standard normals [d] and [], the next context."""

    component: Float[Array, ""]
    intermediate: Float[Array, " d"]
    outcome: Float[Array, ""]
    next_context: Float[Array, " p"]


class Step(NamedTuple):
    """Hold one round: what the agent sees, and the two mean rewards of its pseudo-regret."""

    context: Float[Array, " p"]
    action: Float[Array, " q"]
    intermediate: Float[Array, " d"]
    outcome: Float[Array, ""]
    mean_reward: Float[Array, ""]
    best_mean_reward: Float[Array, ""]


@dataclass(frozen=True)
class Environment:
    """Simulate one setting; hashable, so a static argument of `jax.jit`, with pure methods.

    Parameters
    ----------
    name, description
        The letter of the setting, and one line on what makes it hard.
    dim_intermediate
        Dimension d of r.
    intermediate_means
        (s, a), two scalars, to the means [n_components, d] of the mixture P(r | s, a).
    intermediate_noise, intermediate_noise_slope
        The standard deviation of each r_j in a component is noise + slope abs(a).
    coordinate_reward
        phi, elementwise, in f(r) = 1 + 1.5 sum_j phi(r_j).
    reward_dims
        The sum runs over the first `reward_dims` coordinates of r.
    outcome_noise
        Standard deviation of y given r.
    offline_bound
        Offline intermediate rewards are uniform on [-offline_bound, offline_bound]^d.
    """

    name: str
    description: str
    dim_intermediate: int
    intermediate_means: Callable[[Array, Array], Array]
    intermediate_noise: float
    coordinate_reward: Callable[[Array], Array]
    reward_dims: int
    outcome_noise: float
    offline_bound: float
    intermediate_noise_slope: float = 0.0

    dim_context: ClassVar[int] = 1
    dim_action: ClassVar[int] = 1

    # Declared units: every agent standardises by these, so none rescales mid-way.
    context_center: ClassVar[tuple[float, ...]] = (float(np.mean(_GRID)),)
    context_scale: ClassVar[tuple[float, ...]] = (float(np.std(_GRID)),)
    action_center: ClassVar[tuple[float, ...]] = context_center
    action_scale: ClassVar[tuple[float, ...]] = context_scale
    outcome_center: ClassVar[tuple[float, ...]] = (0.0,)
    outcome_scale: ClassVar[tuple[float, ...]] = (1.0,)

    @property
    def intermediate_center(self) -> tuple[float, ...]:
        """Return the declared centre of r, zero in each of the d columns."""
        return (0.0,) * self.dim_intermediate

    @property
    def intermediate_scale(self) -> tuple[float, ...]:
        """Return the declared scale of r, one in each of the d columns."""
        return (1.0,) * self.dim_intermediate

    @property
    def contexts(self) -> Float[Array, "n_contexts p"]:
        """Return the grid of contexts, which are drawn uniformly; shape [61, 1]."""
        return jnp.array(_GRID)[:, None]

    @property
    def actions(self) -> Float[Array, "n_actions q"]:
        """Return the grid of offered actions, the same as the contexts'; shape [61, 1]."""
        return self.contexts

    def sample_context(self, key: PRNGKeyArray) -> Float[Array, " p"]:
        """Draw a context uniformly from the grid; shape [1]."""
        return self.contexts[_uniform_index(key, len(_GRID))]

    def sample_intermediate(
        self, key: PRNGKeyArray, context: Float[Array, " p"], action: Float[Array, " q"]
    ) -> Float[Array, " d"]:
        """Draw r [d] from P(r | s, a): a component and noise, the same draws for every (s, a)."""
        return self._intermediate(*self._intermediate_noise(key), context, action)

    def outcome_mean(self, intermediate: Float[Array, " d"]) -> Float[Array, ""]:
        """Evaluate f(r) = 1 + 1.5 sum_j phi(r_j) at r [d]."""
        _check_shape("intermediate", intermediate, (self.dim_intermediate,))
        return 1.0 + 1.5 * jnp.sum(self.coordinate_reward(intermediate[: self.reward_dims]))

    def sample_outcome(
        self, key: PRNGKeyArray, intermediate: Float[Array, " d"]
    ) -> Float[Array, ""]:
        """Draw y = f(r) + outcome_noise N at r [d]."""
        return self._outcome(jax.random.normal(key), intermediate)

    def sample_offline(
        self, key: PRNGKeyArray, n: int
    ) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        """Draw n >= 0 (static) unmatched rows of D2: r~ [n, d] uniform, y [n] as online."""
        if n < 0:
            raise ValueError(f"n: expected a non-negative number of rows, got {n}")
        key_intermediate, key_outcome = jax.random.split(key)
        bound = self.offline_bound
        shape = (n, self.dim_intermediate)
        intermediates = jax.random.uniform(key_intermediate, shape, minval=-bound, maxval=bound)
        noise = self.outcome_noise * jax.random.normal(key_outcome, (n,))
        return intermediates, jax.vmap(self.outcome_mean)(intermediates) + noise

    def mean_reward(
        self, context: Float[Array, " p"], action: Float[Array, " q"]
    ) -> Float[Array, ""]:
        """Evaluate g(s, a) = E[f(R) | s, a] by the trapezoid rule, for any context and action.

        Parameters
        ----------
        context, action
            s [1] and a [1], on the grid or off it. The error is of the size of rounding, but in F
            it grows with abs(a) beyond the grid: below 1e-9 up to 7, 1e-6 at 10.

        Returns
        -------
        Float[Array, ""]
            The mean reward, differentiable in both arguments.
        """
        means, scale = self._components(context, action)
        points = means[:, : self.reward_dims, None] + scale * jnp.asarray(_NODES)[None, None, :]
        expectations = self.coordinate_reward(points) @ jnp.asarray(_WEIGHTS)
        return 1.0 + 1.5 * jnp.mean(jnp.sum(expectations, axis=1))

    def mean_reward_table(self) -> Float[Array, "n_contexts n_actions"]:
        """Return g at every context (rows) and action (columns) of the grid."""
        return jnp.asarray(_table(self, jnp.result_type(float).name))

    def oracle_value(self) -> float:
        """Return the reward per round of the best action in each context."""
        return float(_table(self, jnp.result_type(float).name).max(axis=1).mean())

    def best_fixed_action(self) -> tuple[int, float]:
        """Return the index, and the reward per round, of the best action that ignores s."""
        values = _table(self, jnp.result_type(float).name).mean(axis=0)
        return int(values.argmax()), float(values.max())

    def random_value(self) -> float:
        """Return the reward per round of an action drawn uniformly from the grid."""
        return float(_table(self, jnp.result_type(float).name).mean())

    def reset(self, key: PRNGKeyArray) -> tuple[EnvironmentState, Float[Array, " p"]]:
        """Start the trial of that key (`trial_key`): the state of round 0, and its context [1]."""
        context = self.sample_context(stream(key, 0, Purpose.CONTEXT))
        return EnvironmentState(jnp.zeros((), int), context), context

    def draw(self, key: PRNGKeyArray, round_index: Int[Array, ""] | int) -> Noise:
        """Draw everything random of a round, and the next context; `key` is the trial's."""
        t = round_index
        component, intermediate = self._intermediate_noise(stream(key, t, Purpose.INTERMEDIATE))
        return Noise(
            component,
            intermediate,
            jax.random.normal(stream(key, t, Purpose.OUTCOME)),
            self.sample_context(stream(key, t + 1, Purpose.CONTEXT)),
        )

    def answer(
        self, noise: Noise, context: Float[Array, " p"], action: Float[Array, " q"]
    ) -> tuple[Float[Array, " d"], Float[Array, ""]]:
        """Return what r [d] and y an action brings, given the round's noise."""
        r = self._intermediate(noise.component, noise.intermediate, context, action)
        return r, self._outcome(noise.outcome, r)

    def respond(
        self, noise: Noise, state: EnvironmentState, action: Float[Array, " q"]
    ) -> tuple[EnvironmentState, Step]:
        """Answer an action with r and y, given the round's noise (see `step`)."""
        t, context = state
        r, outcome = self.answer(noise, context, action)
        # A look-up: 61 integrals a round would cost as much as a cheap agent does.
        row = jnp.argmin(jnp.abs(self.contexts[:, 0] - context[0]))
        best = jnp.max(self.mean_reward_table(), axis=1)[row]
        played = Step(context, action, r, outcome, self.mean_reward(context, action), best)
        return EnvironmentState(t + 1, noise.next_context), played

    def step(
        self, key: PRNGKeyArray, state: EnvironmentState, action: Float[Array, " q"]
    ) -> tuple[EnvironmentState, Step]:
        """Answer an action with r and y, and draw the next round's context.

        Parameters
        ----------
        key
            The key of the trial, the same in every round: the round comes from the state.
        state
            From `reset` or `step`: its context is a point of the grid.
        action
            a [1], on the grid or off it.

        Returns
        -------
        tuple
            The next state, and the round just played. `best_mean_reward` is the largest mean
            reward of the grid's actions in this context.
        """
        return self.respond(self.draw(key, state.round), state, action)

    def _intermediate_noise(self, key: PRNGKeyArray) -> tuple[Float[Array, ""], Float[Array, " d"]]:
        key_component, key_noise = jax.random.split(key)
        normal = jax.random.normal(key_noise, (self.dim_intermediate,))
        return jax.random.uniform(key_component), normal

    def _intermediate(
        self, component: Array, normal: Array, context: Array, action: Array
    ) -> Array:
        means, scale = self._components(context, action)
        index = jnp.floor(means.shape[0] * component).astype(int)
        return means[index] + scale * normal

    def _outcome(self, normal: Array, intermediate: Array) -> Array:
        return self.outcome_mean(intermediate) + self.outcome_noise * normal

    def _components(
        self, context: Float[Array, " p"], action: Float[Array, " q"]
    ) -> tuple[Float[Array, "n_components d"], Float[Array, ""]]:
        """Return the means and the common standard deviation of the mixture P(r | s, a)."""
        _check_shape("context", context, (self.dim_context,))
        _check_shape("action", action, (self.dim_action,))
        scale = self.intermediate_noise + self.intermediate_noise_slope * jnp.abs(action[0])
        return self.intermediate_means(context[0], action[0]), scale


@functools.cache
def _table(environment: Environment, dtype: str) -> np.ndarray:
    """Tabulate g on the grid once per environment and precision, also while JAX is tracing."""
    with jax.ensure_compile_time_eval():
        over_actions = jax.vmap(environment.mean_reward, in_axes=(None, 0))
        table = jax.jit(jax.vmap(over_actions, in_axes=(0, None)))
        return np.asarray(table(environment.contexts, environment.actions), dtype)


def _uniform_index(key: PRNGKeyArray, n: int) -> Int[Array, ""]:
    # `jax.random.randint` takes three times the random bits to be exact for huge n.
    return jnp.floor(n * jax.random.uniform(key)).astype(int)


def _check_shape(name: str, value: Array, shape: tuple[int, ...]) -> None:
    if jnp.shape(value) != shape:
        raise ValueError(f"{name}: expected shape {shape}, got {jnp.shape(value)}")
