"""Everything that an environment could answer in a batch of trials, drawn before the first round.

Contexts and noise do not depend on the actions, so what would follow from every action of the grid
is known in advance. An agent's trial is then a look-up, its compiled program knows nothing of the
environment, and settings of the same dimensions share it.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from bayes_cmab.environments import Environment, Purpose, stream
from bayes_cmab.scaling import Scales, Units


class World(NamedTuple):
    """A trial's contexts, and what every action would bring, in the user's units.

    Attributes
    ----------
    contexts : (rounds, p).
    intermediates : (rounds, k, d). outcomes, mean_rewards : (rounds, k).
    best_mean_rewards : (rounds,).
    ties : (rounds, k) uniform draws by which the agent breaks ties.
    keys : (rounds,) for what else the agent draws.
    """

    contexts: Float[Array, "rounds p"]
    intermediates: Float[Array, "rounds k d"]
    outcomes: Float[Array, "rounds k"]
    mean_rewards: Float[Array, "rounds k"]
    best_mean_rewards: Float[Array, " rounds"]
    ties: Float[Array, "rounds k"]
    keys: PRNGKeyArray


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


@partial(jax.jit, static_argnums=(0, 1, 2))
def draw_worlds(
    environment: Environment, offline: int, rounds: int, keys: PRNGKeyArray
) -> tuple[World, Float[Array, "trials m d"], Float[Array, "trials m"]]:
    """Draw the worlds of a batch of trials and their offline outcomes (r, y).

    Parameters
    ----------
    offline, rounds : numbers of rows and of rounds.
    keys : of the trials.
    """
    actions = environment.actions
    every = jnp.arange(rounds)
    table = environment.mean_reward_table()
    best = jnp.max(table, axis=1)

    def one(key: PRNGKeyArray) -> tuple[World, Array, Array]:
        noise = jax.vmap(lambda t: environment.draw(key, t))(every)
        _, first = environment.reset(key)
        contexts = jnp.concatenate([first[None, :], noise.next_context[:-1]])

        def answers(t: Array) -> World:
            drawn = jax.tree.map(lambda rows: rows[t], noise)
            r, y = jax.vmap(environment.answer, in_axes=(None, None, 0))(
                drawn, contexts[t], actions
            )
            row = jnp.argmin(jnp.abs(environment.contexts[:, 0] - contexts[t, 0]))
            ties = tie_breaks(key, t, actions.shape[0])
            agent = jax.random.fold_in(stream(key, t, Purpose.AGENT), 1)
            return World(contexts[t], r, y, table[row], best[row], ties, agent)

        r, y = environment.sample_offline(stream(key, 0, Purpose.OFFLINE), offline)
        return jax.vmap(answers)(every), r, y

    return jax.vmap(one)(keys)
