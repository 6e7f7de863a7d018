"""Play trials of an agent that averages over draws of its hyperparameters, one by one.

The rounds run in one compiled loop until the weights of the draws have become uneven, a checkpoint
is reached or the data outgrow their capacity; then the host decides whether to infer again.
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
from bayes_cmab.data import Data
from bayes_cmab.environments import Environment, Purpose, stream, trial_key
from bayes_cmab.inference import MAP, Fixed, Sampler
from bayes_cmab.inference.gate import overall
from bayes_cmab.inference.marginal import Inferred, infer, settle
from bayes_cmab.policies import DrawsPolicy
from bayes_cmab.rounds import (
    LEVELS,
    AgentSpec,
    Record,
    Round,
    Scene,
    capacity_at,
    coverage,
    grow,
    play_round,
    segment_ends,
)
from bayes_cmab.scaling import Scales
from bayes_cmab.worlds import World


class Progress(NamedTuple):
    """A trial between two stops.

    Attributes
    ----------
    round : number of rounds played.
    posterior, data : after them; no posterior before the first fit.
    record : (rounds,) of the whole trial, filled so far.
    shares : (rounds, programs) see `Record`.
    """

    round: Int[Array, ""]
    posterior: Any
    data: Data
    record: Round
    shares: Float[Array, "rounds programs"]


def play_adaptive(
    agent: AgentSpec,
    environment: Environment,
    scene: Scene,
    seed: int,
    trials: range,
    checkpoints: tuple[int, ...],
    advance: Callable[[int], None] | None,
) -> Record:
    """Play the trials of a batch one after the other; see `simulation.play`."""
    rounds = scene.world.outcomes.shape[1]
    records = []
    for i, trial in enumerate(trials):
        own = scene._replace(
            world=jax.tree.map(lambda leaf, i=i: leaf[i], scene.world),
            data=jax.tree.map(lambda leaf, i=i: leaf[i], scene.data),
        )
        records.append(_play_trial(agent, environment, own, trial_key(seed, trial), checkpoints))
        if advance is not None:
            advance(rounds)
    stacked: Record = jax.tree.map(lambda *parts: np.stack(parts), *records)
    return stacked


def _play_trial(
    agent: AgentSpec,
    environment: Environment,
    scene: Scene,
    key: Array,
    checkpoints: tuple[int, ...],
) -> Record:
    policy, sampler = agent.policy, agent.inference
    if isinstance(sampler, Fixed | MAP) or not isinstance(policy, DrawsPolicy):
        raise ValueError(f"policy: expected a DrawsPolicy with a sampler, got {policy!r}")
    rounds = scene.world.outcomes.shape[0]
    offline = int(scene.data.outcomes.size)
    measured = {min(checkpoint, rounds) for checkpoint in checkpoints}
    fits, failures = np.zeros((2, rounds), np.int8)
    covered = []
    inferred: Inferred | None = None
    shares = jnp.full((rounds, len(policy.names)), jnp.nan)
    progress = Progress(jnp.asarray(0), None, scene.data, _blank(rounds), shares)
    for end in segment_ends(rounds, None, checkpoints):
        rows = capacity_at(rounds, end)
        data = grow(progress.data, rows, rows + offline)
        grown = data.outcomes.outcomes.shape != progress.data.outcomes.outcomes.shape
        progress = progress._replace(data=data)
        if grown and inferred is not None:
            old = jnp.zeros(len(policy.names), bool)
            _, posterior = settle(policy, inferred.draws, data, old)
            progress = progress._replace(posterior=posterior)
        while (t := int(progress.round)) < end:
            names = due(policy, sampler, inferred, t, np.asarray(progress.shares[t - 1]))
            if names:
                fit_key = jax.random.fold_in(stream(key, t, Purpose.AGENT), 2)
                inferred, posterior, attempts = infer(
                    policy, sampler, agent.gate, progress.data, fit_key, inferred, names
                )
                progress = progress._replace(posterior=posterior)
                fits[t] = len(names)
                failures[t] = sum(overall(a.checks) == "failed" for a in attempts.values())
            stop = next((s for s in range(t + 1, end) if sampler.refit.scheduled(s)), end)
            progress = _advance(
                *(policy, agent.acquisition, scene.scales, environment.actions),
                *(jnp.asarray(sampler.refit.least_share), scene.betas, scene.world),
                *(progress, jnp.asarray(stop)),
            )
        if end in measured:
            covered.append(np.asarray(coverage(policy, environment, progress.posterior)))
    return Record(
        jax.tree.map(np.asarray, progress.record),
        np.stack(covered) if covered else np.zeros((0, len(LEVELS))),
        fits,
        failures,
        np.asarray(progress.shares),
    )


def due(
    policy: DrawsPolicy[Any],
    sampler: Sampler,
    inferred: Inferred | None,
    round_index: int,
    shares: np.ndarray,
) -> tuple[str, ...]:
    """Return the programs to fit before a round.

    Parameters
    ----------
    shares : (programs,) effective sample size over the number of draws.
    """
    if inferred is None or sampler.refit.scheduled(round_index):
        return policy.names
    pairs = zip(policy.names, shares, strict=True)
    return policy.joined(tuple(name for name, share in pairs if share < sampler.refit.least_share))


def _blank(rounds: int) -> Round:
    nothing = jnp.zeros(rounds)
    return Round(jnp.zeros(rounds, int), *[nothing] * (len(Round._fields) - 1))


@partial(jax.jit, static_argnums=(0, 1))
def _advance(
    policy: DrawsPolicy[Any],
    acquisition: Acquisition,
    scales: Scales,
    offered: Float[Array, "k q"],
    least: Float[Array, ""],
    betas: Float[Array, " rounds"],
    world: World,
    progress: Progress,
    stop: Int[Array, ""],
) -> Progress:
    """Play rounds until ``stop``, or until an effective share has fallen below ``least``."""
    actions = scales.action.standardise(offered)
    start = progress.round

    def goes_on(now: Progress) -> Array:
        even = jnp.all(now.shares[now.round - 1] >= least)
        return (now.round < stop) & ((now.round == start) | even)

    def play(now: Progress) -> Progress:
        t = now.round
        row = jax.tree.map(lambda leaf: leaf[t], world)
        posterior, data, record = play_round(
            policy, acquisition, scales, actions, now.posterior, now.data, betas[t], row
        )
        return Progress(
            t + 1,
            posterior,
            data,
            jax.tree.map(lambda whole, one: whole.at[t].set(one), now.record, record),
            now.shares.at[t].set(policy.effective_shares(posterior)),
        )

    played: Progress = lax.while_loop(goes_on, play, progress)
    return played
