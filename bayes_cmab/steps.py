"""The steps of a live agent: pure functions of an immutable state, compiled.

The policy is a static argument and the data are arguments, so each function is compiled once per
policy and capacity of the data sets, for all agents of a process. Contexts, actions and rows come
in the user's units.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from bayes_cmab.data import Data
from bayes_cmab.decision import Evaluation
from bayes_cmab.inference import MAP, Fixed, maximise
from bayes_cmab.models.priors import Sites
from bayes_cmab.policies import Policy
from bayes_cmab.scaling import Scales
from bayes_cmab.tickets import Ledger


class AgentState(NamedTuple):
    """What an agent knows, in standardised units.

    Attributes
    ----------
    posterior : the policy's state; None while it must be conditioned afresh.
    data : all complete rows, padded.
    sites : hyperparameters.
    scales : the units.
    """

    posterior: Any
    data: Data
    sites: Sites
    scales: Scales


def prepare(
    policy: Policy[Any],
    inference: Fixed | MAP,
    measure: Callable[[Ledger], Scales] | None,
    round_index: int,
    ledger: Ledger,
    state: AgentState,
) -> AgentState:
    """Return the state that a round starts with: refitted, or conditioned afresh, where due.

    Units are measured anew where the hyperparameters are fitted, because these are in units;
    under `Fixed` inference, wherever the posterior is conditioned afresh.

    Parameters
    ----------
    measure : of the units; None if they are given.
    """
    refit = isinstance(inference, MAP) and round_index % inference.every == 0
    refit = refit and any(ledger.sizes())
    if state.posterior is not None and not refit:
        return state
    if measure is not None and (refit or isinstance(inference, Fixed)):
        scales = measure(ledger)
        state = state._replace(scales=scales, data=ledger.data(scales))
    if isinstance(inference, MAP) and refit:
        state = state._replace(sites=fit(policy, inference, state.data, state.sites))
    return state._replace(posterior=condition(policy, state.sites, state.data, state.scales))


@partial(jax.jit, static_argnums=(0, 1))
def fit(policy: Policy[Any], settings: MAP, data: Data, start: Sites) -> Sites:
    """Return the hyperparameters that maximise their posterior density."""
    sites, _ = maximise(policy, data, start, settings)
    return sites


@partial(jax.jit, static_argnums=0)
def condition(policy: Policy[Any], sites: Sites, data: Data, scales: Scales) -> Any:
    """Return the policy's state given all rows; ``O(N^3)``."""
    return policy.condition(sites, data, scales)


@partial(jax.jit, static_argnums=0)
def evaluate(
    policy: Policy[Any],
    state: AgentState,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
    beta: Float[Array, ""],
    key: PRNGKeyArray,
) -> Evaluation:
    """Score the actions, ties broken at random by the key; ``O(k N^2)``."""
    s, a, _, y = state.scales
    moments = policy.moments(state.posterior, s.standardise(context), a.standardise(actions))
    uniform = jax.random.uniform(key, (actions.shape[0],))
    return Evaluation.of(moments, beta, uniform, y)


@partial(jax.jit, static_argnums=0)
def add_transition(
    policy: Policy[Any],
    state: AgentState,
    context: Float[Array, " p"],
    action: Float[Array, " q"],
    intermediate: Float[Array, " d"],
) -> AgentState:
    """Append a row of D1, for which there is room; ``O(N^2)``."""
    s, a, r, _ = state.scales
    row = s.standardise(context), a.standardise(action), r.standardise(intermediate)
    posterior = policy.observe_transition(state.posterior, *row)
    data = state.data._replace(transitions=state.data.transitions.append(*row))
    return state._replace(posterior=posterior, data=data)


@partial(jax.jit, static_argnums=0)
def add_outcome(
    policy: Policy[Any],
    state: AgentState,
    intermediate: Float[Array, " d"],
    outcome: Float[Array, ""],
) -> AgentState:
    """Append a row of D2, for which there is room; ``O(N^2)``."""
    _, _, r, y = state.scales
    row = r.standardise(intermediate), y.standardise(outcome)
    posterior = policy.observe_outcome(state.posterior, *row)
    data = state.data._replace(outcomes=state.data.outcomes.append(*row))
    return state._replace(posterior=posterior, data=data)


@partial(jax.jit, static_argnums=0)
def add_reward(
    policy: Policy[Any],
    state: AgentState,
    context: Float[Array, " p"],
    action: Float[Array, " q"],
    outcome: Float[Array, ""],
) -> AgentState:
    """Append a row (s, a, y), for which there is room; ``O(N^2)``."""
    s, a, _, y = state.scales
    row = s.standardise(context), a.standardise(action), y.standardise(outcome)
    posterior = policy.observe_reward(state.posterior, *row)
    data = state.data._replace(rewards=state.data.rewards.append(*row))
    return state._replace(posterior=posterior, data=data)
