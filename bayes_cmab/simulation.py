r"""Play trials of one agent in one environment, many trials in one compiled program.

A trial is cut into *segments*. Within a segment the hyperparameters stay and every row is
appended in ``O(n^2)``; between two segments the data move to the next capacity, and where the
agent infers its hyperparameters, they are inferred again. A segment is one jitted scan over its
rounds; its length and the capacities are static, everything else is an argument.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from bayes_cmab.acquisition import BetaSchedule, select, upper_confidence_bound
from bayes_cmab.data import Data, Outcomes, with_capacity
from bayes_cmab.environments import Environment, trial_key
from bayes_cmab.inference import MAP, Fixed, maximise
from bayes_cmab.models.priors import Sites
from bayes_cmab.moments import NEGATIVITY_TOLERANCE
from bayes_cmab.policies import Policy
from bayes_cmab.scaling import Scales
from bayes_cmab.worlds import World, declared_scales, draw_worlds, environment_dims

LEVELS = (0.5, 0.8, 0.95)
"""Nominal levels of the central intervals of ``g`` whose coverage is recorded."""


@dataclass(frozen=True)
class AgentSpec:
    """A policy with its inference and its exploration: what plays a trial.

    Attributes
    ----------
    policy : the model and its moments.
    inference : of the hyperparameters.
    beta : exploration weight.
    """

    policy: Policy[Any]
    inference: Fixed | MAP
    beta: BetaSchedule


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


class Trial(NamedTuple):
    """A trial between two segments."""

    world: World
    data: Data
    sites: Sites


class Record(NamedTuple):
    """Everything recorded of a batch of trials, as NumPy arrays.

    Attributes
    ----------
    rounds : fields of shape (trials, rounds).
    coverage : (trials, checkpoints, levels) share of the grid whose ``g`` lies in its interval.
    """

    rounds: Round
    coverage: np.ndarray


def capacities(rounds: int) -> tuple[int, ...]:
    """Return the capacities of the data sets during a trial: half of the rounds, then all.

    Each costs a compilation; with two, a round costs on average 7/12 of what it would at full
    capacity, in the parts that are quadratic.
    """
    return (-(-rounds // 2), rounds)


def segment_ends(rounds: int, every: int | None, checkpoints: tuple[int, ...]) -> list[int]:
    """Return the rounds at which segments end: checkpoints, refits, and growing capacities."""
    ends = {end for end in (*checkpoints, *capacities(rounds)) if 0 < end < rounds} | {rounds}
    if every is not None:
        ends |= set(range(every, rounds, every))
    return sorted(ends)


def play(
    agent: AgentSpec,
    environment: Environment,
    *,
    rounds: int,
    offline: int,
    seed: int,
    trials: range,
    checkpoints: tuple[int, ...] = (),
    advance: Callable[[int], None] | None = None,
) -> Record:
    """Play a batch of trials and return what happened.

    Parameters
    ----------
    agent, environment : who plays, and where.
    rounds : of each trial.
    offline : unmatched rows of D2 that are known before the first round.
    seed, trials : the key of a trial is a function of the seed and its number alone, and gives
        every agent the same contexts and noise.
    checkpoints : rounds after which the coverage is measured; those beyond the last round count
        as the last.
    advance : called with the number of rounds after each segment (a progress bar).

    Raises
    ------
    FloatingPointError
        If a score was not finite, or a variance was negative beyond rounding.
    """
    p, q, d = environment_dims(environment)
    measured = {min(checkpoint, rounds) for checkpoint in checkpoints}
    scales, actions = declared_scales(environment), environment.actions
    betas = jnp.stack([agent.beta(t) for t in range(rounds)])
    keys = jax.vmap(partial(trial_key, seed))(jnp.asarray(trials))
    world, r, y = draw_worlds(environment, offline, rounds, keys)
    blank = Data.empty(p, q, d, capacities(rounds)[0])
    sizes = jnp.full(len(trials), offline)
    known = Outcomes(scales.intermediate.standardise(r), scales.outcome.standardise(y), sizes)
    default = agent.policy.default_sites(p, q, d)
    sites, data = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (len(trials), *jnp.shape(leaf))), (default, blank)
    )
    batch = Trial(world, data._replace(outcomes=known), sites)
    played: list[Round] = []
    covered: list[Array] = []
    start = 0
    for end in segment_ends(rounds, agent.inference.every, checkpoints):
        rows = next(capacity for capacity in capacities(rounds) if capacity >= end)
        batch = batch._replace(data=_grow(batch.data, rows, rows + offline))
        if isinstance(agent.inference, MAP) and start + offline > 0:
            batch = _refit(agent.policy, agent.inference, batch)
        batch, record = _segment(
            agent.policy, end - start, scales, actions, jnp.asarray(start), betas, batch
        )
        played.append(record)
        if end in measured:
            covered.append(_coverage(agent.policy, environment, batch))
        if advance is not None:
            advance(end - start)
        start = end
    merged: Round = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *played)
    _check(merged, trials)
    return Record(
        merged,
        np.stack(covered, axis=1) if covered else np.zeros((len(trials), 0, len(LEVELS))),
    )


def _check(rounds: Round, trials: range) -> None:
    bad = np.argwhere(rounds.action_index < 0)
    if bad.size:
        trial, at = trials[int(bad[0][0])], int(bad[0][1])
        raise FloatingPointError(
            f"a score was not finite in trial {trial}, round {at}: the Gram matrices are singular "
            "beyond the largest jitter; look at the noise variances and lengthscales"
        )
    worst = float(np.max(rounds.negativity))
    if worst > NEGATIVITY_TOLERANCE:
        raise FloatingPointError(f"a variance was negative by {worst:.1e} of the prior variance")


def _grow(data: Data, rows: int, outcomes: int) -> Data:
    pad = jax.vmap(with_capacity, in_axes=(0, None))
    return Data(pad(data.transitions, rows), pad(data.outcomes, outcomes), pad(data.rewards, rows))


@partial(jax.jit, static_argnums=(0, 1))
def _refit(policy: Policy[Any], settings: MAP, batch: Trial) -> Trial:
    def one(trial: Trial) -> Trial:
        sites, _ = maximise(policy, trial.data, trial.sites, settings)
        return trial._replace(sites=sites)

    refitted: Trial = lax.map(one, batch)
    return refitted


@partial(jax.jit, static_argnums=(0, 1))
def _segment(
    policy: Policy[Any],
    length: int,
    scales: Scales,
    offered: Float[Array, "k q"],
    start: Int[Array, ""],
    betas: Float[Array, " rounds"],
    batch: Trial,
) -> tuple[Trial, Round]:
    actions = scales.action.standardise(offered)

    def one(trial: Trial) -> tuple[Trial, Round]:
        # The sizes are the same in all trials: taken from the round, they stay unbatched, and a
        # row is written in place.
        data = _with_sizes(trial.data, start)
        state = policy.condition(trial.sites, data, scales)

        def step(
            carry: tuple[Any, Data], inputs: tuple[Array, World]
        ) -> tuple[tuple[Any, Data], Round]:
            posterior, data = carry
            beta, world = inputs
            context = scales.context.standardise(world.contexts)
            moments = policy.moments(posterior, context, actions)
            index = select(world.ties, upper_confidence_bound(moments, beta))
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
            return (posterior, data), record

        def window(rows: Array) -> Array:
            return lax.dynamic_slice_in_dim(rows, start, length)

        inputs = (window(betas), jax.tree.map(window, trial.world))
        (_, data), record = lax.scan(step, (state, data), inputs)
        return trial._replace(data=data), record

    if policy.one_trial_at_a_time:
        played: tuple[Trial, Round] = lax.map(one, batch)
        return played
    return jax.vmap(one)(batch)


def _with_sizes(data: Data, start: Int[Array, ""]) -> Data:
    offline = data.outcomes.outcomes.shape[0] - data.transitions.actions.shape[0]
    return Data(
        data.transitions._replace(size=start),
        data.outcomes._replace(size=start + offline),
        data.rewards._replace(size=start),
    )


@partial(jax.jit, static_argnums=(0, 1))
def _coverage(
    policy: Policy[Any], environment: Environment, batch: Trial
) -> Float[Array, "trials levels"]:
    scales = declared_scales(environment)
    contexts = scales.context.standardise(environment.contexts)
    actions = scales.action.standardise(environment.actions)
    truth = scales.outcome.standardise(environment.mean_reward_table())
    widths = jax.scipy.stats.norm.ppf(0.5 + 0.5 * jnp.asarray(LEVELS))

    def one(trial: Trial) -> Float[Array, " levels"]:
        state = policy.condition(trial.sites, trial.data, scales)
        moments = lax.map(lambda s: policy.moments(state, s, actions), contexts)
        error = jnp.abs(truth - moments.mean)
        inside = error[..., None] <= widths[None, None, :] * jnp.sqrt(moments.variance)[..., None]
        return jnp.mean(inside, axis=(0, 1))

    covered: Array = lax.map(one, batch)
    return covered
