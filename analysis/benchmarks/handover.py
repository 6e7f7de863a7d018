"""Hand a trial of the package to the NumPy reference: the same draws, the same hyperparameters."""

import jax
import numpy as np
from numpy_reference import Hyperparameters, Inputs

from bayes_cmab.environments import Environment, Purpose, stream, trial_key
from bayes_cmab.policies import EmbeddingPolicy
from bayes_cmab.rounds import AgentSpec
from bayes_cmab.worlds import environment_dims, tie_breaks


def draw_inputs(
    environment: Environment, *, rounds: int, offline: int, seed: int, trials: range
) -> list[Inputs]:
    """Return everything random of some trials, drawn as `bayes_cmab.simulation.play` does."""
    keys = [trial_key(seed, trial) for trial in trials]
    grid = np.asarray(environment.contexts)
    table = np.asarray(environment.mean_reward_table())
    n_actions = len(environment.actions)

    @jax.jit
    def draw(key: jax.Array) -> tuple[jax.Array, ...]:
        every = np.arange(rounds)
        noise = jax.vmap(lambda t: environment.draw(key, t))(every)
        ties = jax.vmap(lambda t: tie_breaks(key, t, n_actions))(every)
        first = environment.reset(key)[1]
        known = environment.sample_offline(stream(key, 0, Purpose.OFFLINE), offline)
        return first, noise, ties, known

    inputs = []
    for key in keys:
        first, noise, ties, (known_r, known_y) = jax.tree.map(np.asarray, draw(key))
        contexts = np.concatenate([first[None], noise.next_context[:-1]])[:, 0]
        inputs.append(
            Inputs(
                actions=np.asarray(environment.actions),
                center=np.asarray(environment.context_center),
                scale=np.asarray(environment.context_scale),
                mean_reward=table,
                contexts=np.abs(grid[:, 0] - contexts[:, None]).argmin(axis=1),
                intermediate_noise=noise.intermediate,
                outcome_noise=noise.outcome,
                ties=ties,
                offline_intermediates=known_r,
                offline_outcomes=known_y,
            )
        )
    return inputs


def fixed_hyperparameters(agent: AgentSpec, environment: Environment) -> Hyperparameters:
    """Return the hyperparameters of a fixed agent, as NumPy numbers and arrays."""
    policy = agent.policy
    if not isinstance(policy, EmbeddingPolicy):
        raise ValueError(f"agent: expected an embedding policy, got {type(policy).__name__}")
    sites = policy.default_sites(*environment_dims(environment))
    reward = policy.reward.hyperparameters(sites)
    embedding = policy.embedding.hyperparameters(sites)
    values = reward._asdict() | embedding._asdict()
    return Hyperparameters(
        **{k: float(v) if v.ndim == 0 else np.asarray(v) for k, v in values.items()}
    )
