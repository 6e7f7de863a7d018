"""Append rows to what an agent knows, in place where that is safe.

The factors of many draws are large, and a row changes little of them: their buffers are *donated*,
which spares the copy and destroys the old ones. So a state must not be used after a row was
appended to it; `is_spent` tells.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from bayes_cmab.data import Data
from bayes_cmab.policies import Policy
from bayes_cmab.scaling import Scales
from bayes_cmab.steps import AgentState
from bayes_cmab.validate import FloatArray

LEAST_SIDE = 32
"""Of the matrices that are donated: factors and covariances, which nothing else refers to."""


class Row(NamedTuple):
    """A ticket, in the user's units; None where a data set does not get it.

    Attributes
    ----------
    context : (p,). action : (q,).
    intermediate : (d,). outcome : ().
    """

    context: FloatArray
    action: FloatArray
    intermediate: FloatArray | None
    outcome: float | None


class Gained(NamedTuple):
    """Which data sets get a row: D1, D2, and that of agents that ignore the intermediate."""

    transition: bool
    outcome: bool
    reward: bool


def append(policy: Policy[Any], state: AgentState, row: Row, gained: Gained) -> AgentState:
    """Return the state with a row more, for which there is room; ``O(N^2)``.

    The given state is spent afterwards.
    """
    leaves, structure = jax.tree.flatten(state.posterior)
    kept = jax.tree.leaves((state.data, state.sites, state.scales, state.inferred))
    taken = {leaf.unsafe_buffer_pointer() for leaf in kept if isinstance(leaf, jax.Array)}
    large: list[Array | None] = []
    small: list[Array | None] = []
    for leaf in leaves:
        free = isinstance(leaf, jax.Array) and leaf.ndim >= 2 and min(leaf.shape[-2:]) >= LEAST_SIDE
        if free and (pointer := leaf.unsafe_buffer_pointer()) not in taken:
            taken.add(pointer)
            large.append(leaf)
            small.append(None)
        else:
            large.append(None)
            small.append(leaf)
    known = (policy, gained, structure, tuple(large), tuple(small), state.data, state.scales)
    posterior, data = _append(*known, row)
    return state._replace(posterior=posterior, data=data)


def is_spent(state: AgentState) -> bool:
    """Return whether a row was appended to the state, which destroyed its posterior."""
    leaves = jax.tree.leaves(state.posterior)
    return any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in leaves)


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=3)
def _append(
    policy: Policy[Any],
    gained: Gained,
    structure: Any,
    large: tuple[Array | None, ...],
    small: tuple[Array | None, ...],
    data: Data,
    scales: Scales,
    row: Row,
) -> tuple[Any, Data]:
    pairs = zip(large, small, strict=True)
    leaves = [other if leaf is None else leaf for leaf, other in pairs]
    posterior = jax.tree.unflatten(structure, leaves)
    s = scales.context.standardise(jnp.asarray(row.context))
    a = scales.action.standardise(jnp.asarray(row.action))
    if row.intermediate is not None:
        r = scales.intermediate.standardise(jnp.asarray(row.intermediate))
    if row.outcome is not None:
        y = scales.outcome.standardise(jnp.asarray(row.outcome))
    if gained.transition:
        posterior = policy.observe_transition(posterior, s, a, r)
        data = data._replace(transitions=data.transitions.append(s, a, r))
    if gained.outcome:
        posterior = policy.observe_outcome(posterior, r, y)
        data = data._replace(outcomes=data.outcomes.append(r, y))
    if gained.reward:
        posterior = policy.observe_reward(posterior, s, a, y)
        data = data._replace(rewards=data.rewards.append(s, a, y))
    return posterior, data
