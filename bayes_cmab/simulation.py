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
from jaxtyping import Array, Float, Int, PRNGKeyArray

from bayes_cmab.acquisition import BetaSchedule, select, upper_confidence_bound
from bayes_cmab.data import Data, Outcomes, Rewards, Transitions, with_capacity
from bayes_cmab.environments import (
    Environment,
    EnvironmentState,
    Noise,
    Purpose,
    stream,
    trial_key,
)
from bayes_cmab.inference import MAP, Fixed, maximise
from bayes_cmab.models.priors import Sites
from bayes_cmab.moments import NEGATIVITY_TOLERANCE
from bayes_cmab.policies import Policy
from bayes_cmab.scaling import Scales, Units

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
    """A trial between two segments; ``noise`` and ``ties`` lead with the round."""

    noise: Noise
    ties: Float[Array, "rounds k"]
    state: EnvironmentState
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


def environment_dims(environment: Environment) -> tuple[int, int, int]:
    """Return the dimensions (p, q, d) of context, action and intermediate."""
    return environment.dim_context, environment.dim_action, environment.dim_intermediate


def declared_scales(environment: Environment) -> Scales:
    """Return the units that an environment declares."""
    e, size = environment, environment.dim_intermediate
    outcome = Units(jnp.asarray(e.outcome_center[0]), jnp.asarray(e.outcome_scale[0]))
    return Scales(
        Units.create(e.context_center, e.context_scale, "context", e.dim_context),
        Units.create(e.action_center, e.action_scale, "action", e.dim_action),
        Units.create(e.intermediate_center, e.intermediate_scale, "intermediate", size),
        outcome,
    )


def tie_breaks(
    key: PRNGKeyArray, round_index: Int[Array, ""] | int, n_actions: int
) -> Float[Array, " k"]:
    """Return the agent's uniform draws of a round; ``key`` is the trial's."""
    return jax.random.uniform(stream(key, round_index, Purpose.AGENT), (n_actions,))


def segment_ends(rounds: int, every: int | None, checkpoints: tuple[int, ...]) -> list[int]:
    """Return the rounds at which segments end.

    Without refits, these are the checkpoints, which also bound the capacities; with refits, every
    ``every`` rounds, and the checkpoints.
    """
    ends = {end for end in checkpoints if 0 < end < rounds} | {rounds}
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
    checkpoints: tuple[int, ...] = (20, 50, 100),
    coverage: bool = False,
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
    checkpoints : rounds after which the capacity may change and the coverage is measured.
    coverage : whether to measure it.
    advance : called with the number of rounds after each segment (a progress bar).

    Raises
    ------
    FloatingPointError
        If a score was not finite, or a variance was negative beyond rounding.
    """
    checkpoints = (*(c for c in checkpoints if c < rounds), rounds)
    betas = jnp.stack([agent.beta(t) for t in range(rounds)])
    keys = jax.vmap(partial(trial_key, seed))(jnp.asarray(trials))
    ends = segment_ends(rounds, agent.inference.every, checkpoints)
    sites = agent.policy.default_sites(*environment_dims(environment))
    noise, ties, state, data = _begin(environment, offline, rounds, checkpoints[0], keys)
    stacked = {k: jnp.broadcast_to(v, (len(trials), *v.shape)) for k, v in sites.items()}
    batch = Trial(noise, ties, state, data, stacked)
    played: list[Round] = []
    covered: list[Array] = []
    start = 0
    for end in ends:
        rows = next(c for c in checkpoints if c >= end)
        batch = batch._replace(data=_grow(batch.data, rows, rows + offline))
        if isinstance(agent.inference, MAP) and start + offline > 0:
            batch = _refit(agent.policy, agent.inference, batch)
        batch, record = _segment(
            agent.policy, environment, end - start, jnp.asarray(start), betas, batch
        )
        played.append(record)
        if coverage and end in checkpoints:
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


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _begin(
    environment: Environment, offline: int, rounds: int, capacity: int, keys: PRNGKeyArray
) -> tuple[Noise, Array, EnvironmentState, Data]:
    """Draw everything random of a batch of trials, so that segments compile without it."""
    p, q, d = environment_dims(environment)
    scales = declared_scales(environment)
    every = jnp.arange(rounds)

    def one(key: PRNGKeyArray) -> tuple[Noise, Array, EnvironmentState, Data]:
        r, y = environment.sample_offline(stream(key, 0, Purpose.OFFLINE), offline)
        outcomes = Outcomes(
            scales.intermediate.standardise(r),
            scales.outcome.standardise(y),
            jnp.asarray(offline),
        )
        data = Data(Transitions.empty(p, q, d, capacity), outcomes, Rewards.empty(p, q, capacity))
        noise = jax.vmap(lambda t: environment.draw(key, t))(every)
        ties = jax.vmap(lambda t: tie_breaks(key, t, environment.actions.shape[0]))(every)
        state, _ = environment.reset(key)
        return noise, ties, state, data

    return jax.vmap(one)(keys)


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


@partial(jax.jit, static_argnums=(0, 1, 2))
def _segment(
    policy: Policy[Any],
    environment: Environment,
    length: int,
    start: Int[Array, ""],
    betas: Float[Array, " rounds"],
    batch: Trial,
) -> tuple[Trial, Round]:
    scales = declared_scales(environment)
    offered = environment.actions
    actions = scales.action.standardise(offered)

    def one(trial: Trial) -> tuple[Trial, Round]:
        # The counts are the same in all trials: taken from the round, they stay unbatched, and a
        # row is written in place.
        data = _with_counts(trial.data, start)
        state = policy.condition(trial.sites, data, scales)

        def step(
            carry: tuple[Any, Data, EnvironmentState], inputs: tuple[Array, Array, Noise]
        ) -> tuple[tuple[Any, Data, EnvironmentState], Round]:
            posterior, data, world = carry
            beta, ties, noise = inputs
            context = scales.context.standardise(world.context)
            moments = policy.moments(posterior, context, actions)
            score = upper_confidence_bound(moments, beta)
            index = select(ties, score)
            world, seen = environment.respond(noise, world, offered[index])
            action = actions[index]
            r = scales.intermediate.standardise(seen.intermediate)
            y = scales.outcome.standardise(seen.outcome)
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
                outcome=seen.outcome,
                mean_reward=seen.mean_reward,
                best_mean_reward=seen.best_mean_reward,
                predicted_mean=scales.outcome.restore(moments.mean[index]),
                predicted_variance=moments.variance[index] * scales.outcome.scale**2,
                negativity=moments.negativity,
            )
            return (posterior, data, world), record

        def window(rows: Array) -> Array:
            return lax.dynamic_slice_in_dim(rows, start, length)

        inputs = (window(betas), window(trial.ties), jax.tree.map(window, trial.noise))
        carry = (state, data, trial.state)
        (_, data, world), record = lax.scan(step, carry, inputs)
        return trial._replace(data=data, state=world), record

    if policy.one_trial_at_a_time:
        played: tuple[Trial, Round] = lax.map(one, batch)
        return played
    return jax.vmap(one)(batch)


def _with_counts(data: Data, start: Int[Array, ""]) -> Data:
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
