"""One round of a trial, and how well an agent knows ``g``: what every simulation is made of."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from bayes_cmab.acquisition import Acquisition, BetaSchedule, MatchedMomentsUCB, select
from bayes_cmab.data import Data, with_capacity
from bayes_cmab.environments import Environment
from bayes_cmab.inference import MAP, Fixed, Sampler
from bayes_cmab.inference.gate import Gate
from bayes_cmab.policies import Policy
from bayes_cmab.scaling import Scales
from bayes_cmab.worlds import World, declared_scales

LEVELS = (0.5, 0.8, 0.95)
"""Nominal levels of the central intervals of ``g`` whose coverage is recorded."""


@dataclass(frozen=True)
class AgentSpec:
    """A policy with its inference and its exploration: what plays a trial.

    Attributes
    ----------
    policy : the model and its moments; a `DrawsPolicy` where the inference is a sampler.
    inference : of the hyperparameters.
    beta : exploration weight.
    acquisition : from moments to scores.
    gate : that a sampler's fits must pass.
    """

    policy: Policy[Any]
    inference: Fixed | MAP | Sampler
    beta: BetaSchedule
    acquisition: Acquisition = MatchedMomentsUCB()
    gate: Gate = Gate()


class Round(NamedTuple):
    """What is recorded of a round; fields get the axes (trial, round).

    Attributes
    ----------
    action_index : of the chosen action; -1 if a score was not finite.
    outcome, mean_reward, best_mean_reward : of the environment.
    predicted_mean, predicted_variance : of ``g`` at the chosen action, in the user's units.
    negativity : see `Moments`.
    """

    action_index: Int[Array, "..."]
    outcome: Float[Array, "..."]
    mean_reward: Float[Array, "..."]
    best_mean_reward: Float[Array, "..."]
    predicted_mean: Float[Array, "..."]
    predicted_variance: Float[Array, "..."]
    negativity: Float[Array, "..."]


class Record(NamedTuple):
    """Everything recorded of a batch of trials, as NumPy arrays.

    Attributes
    ----------
    rounds : fields of shape (trials, rounds).
    coverage : (trials, checkpoints, levels) share of the grid whose ``g`` lies in its interval.
    fits, failures : (trials, rounds) programs whose hyperparameters were fitted before a round,
        and how many of these fits failed at the convergence gate.
    shares : (trials, rounds, programs) effective sample size over the number of draws after each
        round; NaN without draws.
    """

    rounds: Round
    coverage: np.ndarray
    fits: np.ndarray
    failures: np.ndarray
    shares: np.ndarray


class Scene(NamedTuple):
    """What a batch of trials starts from.

    Attributes
    ----------
    scales : declared by the environment. betas : (rounds,).
    world, data : of every trial.
    """

    scales: Scales
    betas: Float[Array, " rounds"]
    world: World
    data: Data


def play_round(
    policy: Policy[Any],
    acquisition: Acquisition,
    scales: Scales,
    actions: Float[Array, "k q"],
    posterior: Any,
    data: Data,
    beta: Float[Array, ""],
    world: World,
) -> tuple[Any, Data, Round]:
    """Choose an action, see what the world answers, and learn from it.

    Parameters
    ----------
    actions : (k, q) in standardised units.
    posterior, data : before the round.
    world : this round's row of a `World`.
    """
    context = scales.context.standardise(world.contexts)
    moments, score = acquisition(policy, posterior, context, actions, beta, world.keys)
    index = select(world.ties, score)
    action = actions[index]
    r = scales.intermediate.standardise(world.intermediates[index])
    y = scales.outcome.standardise(world.outcomes[index])
    posterior = policy.observe_transition(posterior, context, action, r)
    posterior = policy.observe_outcome(posterior, r, y)
    posterior = policy.observe_reward(posterior, context, action, y)
    data = Data(
        data.transitions.append(context, action, r),
        data.outcomes.append(r, y),
        data.rewards.append(context, action, y),
    )
    record = Round(
        action_index=index,
        outcome=world.outcomes[index],
        mean_reward=world.mean_rewards[index],
        best_mean_reward=world.best_mean_rewards,
        predicted_mean=scales.outcome.restore(moments.mean[index]),
        predicted_variance=moments.variance[index] * scales.outcome.scale**2,
        negativity=moments.negativity,
    )
    return posterior, data, record


@partial(jax.jit, static_argnums=(0, 1))
def coverage(policy: Policy[Any], environment: Environment, state: Any) -> Float[Array, " levels"]:
    """Return the share of the grid whose ``g`` lies in its central interval, for ``LEVELS``."""
    scales = declared_scales(environment)
    contexts = scales.context.standardise(environment.contexts)
    actions = scales.action.standardise(environment.actions)
    truth = scales.outcome.standardise(environment.mean_reward_table())
    widths = jax.scipy.stats.norm.ppf(0.5 + 0.5 * jnp.asarray(LEVELS))
    moments = lax.map(lambda s: policy.moments(state, s, actions), contexts)
    error = jnp.abs(truth - moments.mean)
    inside = error[..., None] <= widths[None, None, :] * jnp.sqrt(moments.variance)[..., None]
    return jnp.mean(inside, axis=(0, 1))


def capacities(rounds: int) -> tuple[int, ...]:
    """Return the capacities of the data sets during a trial: half of the rounds, then all.

    Each costs a compilation; with two, a round costs on average 7/12 of what it would at full
    capacity, in the parts that are quadratic.
    """
    return (-(-rounds // 2), rounds)


def capacity_at(rounds: int, end: int) -> int:
    """Return the capacity during a segment that ends with a round."""
    return next(capacity for capacity in capacities(rounds) if capacity >= end)


def segment_ends(rounds: int, every: int | None, checkpoints: tuple[int, ...]) -> list[int]:
    """Return the rounds at which segments end: checkpoints, refits, and growing capacities."""
    ends = {end for end in (*checkpoints, *capacities(rounds)) if 0 < end < rounds} | {rounds}
    if every is not None:
        ends |= set(range(every, rounds, every))
    return sorted(ends)


def grow(data: Data, rows: int, outcomes: int) -> Data:
    """Return the data of one trial in another capacity."""
    return Data(
        with_capacity(data.transitions, rows),
        with_capacity(data.outcomes, outcomes),
        with_capacity(data.rewards, rows),
    )
