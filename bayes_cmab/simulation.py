r"""Play trials of one agent in one environment, many trials in one compiled program.

A trial is cut into *segments*. Within a segment the hyperparameters stay and every row is
appended in ``O(n^2)``; between two segments the data move to the next capacity, and where the
agent infers its hyperparameters, they are inferred again. A segment is one jitted scan over its
rounds; its length and the capacities are static, everything else is an argument. Agents that
average over draws are played trial by trial, see `adaptive`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from bayes_cmab.acquisition import Acquisition
from bayes_cmab.adaptive import play_adaptive
from bayes_cmab.data import Data, Outcomes
from bayes_cmab.environments import Environment, trial_key
from bayes_cmab.inference import MAP, Fixed, maximise
from bayes_cmab.models.priors import Sites
from bayes_cmab.moments import NEGATIVITY_TOLERANCE
from bayes_cmab.policies import Policy
from bayes_cmab.rounds import (
    LEVELS,
    AgentSpec,
    Record,
    Round,
    Scene,
    capacities,
    capacity_at,
    coverage,
    grow,
    play_round,
    segment_ends,
)
from bayes_cmab.scaling import Scales
from bayes_cmab.validate import require_x64
from bayes_cmab.worlds import World, declared_scales, draw_worlds, environment_dims


class Trial(NamedTuple):
    """A trial between two segments."""

    world: World
    data: Data
    sites: Sites


def begin(
    agent: AgentSpec, environment: Environment, rounds: int, offline: int, seed: int, trials: range
) -> Scene:
    """Draw the worlds of a batch of trials and put the offline outcomes into their data."""
    p, q, d = environment_dims(environment)
    scales = declared_scales(environment)
    betas = jnp.stack([agent.beta(t) for t in range(rounds)])
    keys = jax.vmap(partial(trial_key, seed))(jnp.asarray(trials))
    world, r, y = draw_worlds(environment, offline, rounds, keys)
    blank = Data.empty(p, q, d, capacities(rounds)[0])
    data = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(trials), *jnp.shape(x))), blank)
    known = Outcomes(
        scales.intermediate.standardise(r),
        scales.outcome.standardise(y),
        jnp.full(len(trials), offline),
    )
    return Scene(scales, betas, world, data._replace(outcomes=known))


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
    RuntimeError
        If JAX is not set to float64.
    """
    require_x64()
    scene = begin(agent, environment, rounds, offline, seed, trials)
    if not isinstance(agent.inference, Fixed | MAP):
        record = play_adaptive(agent, environment, scene, seed, trials, checkpoints, advance)
    else:
        record = _play_batch(agent, environment, scene, offline, checkpoints, advance)
    _check(record.rounds, trials)
    return record


def _play_batch(
    agent: AgentSpec,
    environment: Environment,
    scene: Scene,
    offline: int,
    checkpoints: tuple[int, ...],
    advance: Callable[[int], None] | None,
) -> Record:
    count, rounds = scene.world.outcomes.shape[:2]
    measured = {min(checkpoint, rounds) for checkpoint in checkpoints}
    default = agent.policy.default_sites(*environment_dims(environment))
    sites = jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *jnp.shape(x))), default)
    batch = Trial(scene.world, scene.data, sites)
    played: list[Round] = []
    covered: list[Array] = []
    fits, failures = np.zeros((2, count, rounds), np.int8)
    start = 0
    assert isinstance(agent.inference, Fixed | MAP)
    for end in segment_ends(rounds, agent.inference.every, checkpoints):
        rows = capacity_at(rounds, end)
        batch = batch._replace(
            data=jax.vmap(grow, in_axes=(0, None, None))(batch.data, rows, rows + offline)
        )
        scheduled = isinstance(agent.inference, MAP) and start % agent.inference.every == 0
        if scheduled and start + offline > 0:
            batch, failed = _refit(agent.policy, agent.inference, batch)
            fits[:, start], failures[:, start] = len(agent.policy.models()), failed
        batch, record = _segment(
            *(agent.policy, agent.acquisition, end - start),
            *(scene.scales, environment.actions, jnp.asarray(start), scene.betas, batch),
        )
        played.append(record)
        if end in measured:
            covered.append(_coverages(agent.policy, environment, batch))
        if advance is not None:
            advance(end - start)
        start = end
    merged: Round = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *played)
    none = np.zeros((count, 0, len(LEVELS)))
    return Record(
        merged,
        np.stack(covered, axis=1) if covered else none,
        fits,
        failures,
        np.full((count, rounds, 2), np.nan),
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


@partial(jax.jit, static_argnums=(0, 1))
def _refit(policy: Policy[Any], settings: MAP, batch: Trial) -> tuple[Trial, Array]:
    """Return the trials with new hyperparameters, and how many programs of each found none."""

    def one(trial: Trial) -> tuple[Trial, Array]:
        sites, info = maximise(policy, trial.data, trial.sites, settings)
        failed = sum((~own.improved for own in info.values()), jnp.zeros((), int))
        return trial._replace(sites=sites), failed

    refitted: tuple[Trial, Array] = lax.map(one, batch)
    return refitted


@partial(jax.jit, static_argnums=(0, 1, 2))
def _segment(
    policy: Policy[Any],
    acquisition: Acquisition,
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
            posterior, data, record = play_round(
                policy, acquisition, scales, actions, *carry, *inputs
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
def _coverages(
    policy: Policy[Any], environment: Environment, batch: Trial
) -> Float[Array, "trials levels"]:
    scales = declared_scales(environment)

    def one(trial: Trial) -> Float[Array, " levels"]:
        state = policy.condition(trial.sites, trial.data, scales)
        covered: Array = coverage(policy, environment, state)
        return covered

    covered: Array = lax.map(one, batch)
    return covered
