"""The steps of a live agent: pure functions of an immutable state, compiled.

The policy is a static argument and the data are arguments, so each function is compiled once per
policy and capacity of the data sets, for all agents of a process. Contexts, actions and rows come
in the user's units.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from bayes_cmab import posteriors
from bayes_cmab.acquisition import Acquisition
from bayes_cmab.data import Data
from bayes_cmab.decision import Evaluation
from bayes_cmab.history import Refit
from bayes_cmab.inference import MAP, Fixed, Sampler, maximise
from bayes_cmab.inference.gate import Gate
from bayes_cmab.inference.marginal import Inferred, infer, settle
from bayes_cmab.models.priors import Sites
from bayes_cmab.policies import MarginalPolicy, Policy
from bayes_cmab.policies.marginal import PROGRAMS
from bayes_cmab.scaling import Scales
from bayes_cmab.tickets import Ledger
from bayes_cmab.validate import FloatArray


class Core(NamedTuple):
    """What an agent is: nothing here changes during its life.

    Attributes
    ----------
    policy, inference, acquisition, gate : see `Agent`.
    measure : of the units; None if they are given.
    """

    policy: Policy[Any]
    inference: Fixed | MAP | Sampler
    acquisition: Acquisition
    gate: Gate
    measure: Callable[[Ledger], Scales] | None


SETTINGS = ("policy", "inference", "acquisition", "gate")
"""What of it a user chooses by name."""


class AgentState(NamedTuple):
    """What an agent knows, in standardised units.

    Attributes
    ----------
    posterior : the policy's state; None while it must be conditioned afresh.
    data : all complete rows, padded.
    sites : hyperparameters.
    scales : the units.
    inferred : draws of hyperparameters, with a sampler, after the first fit.
    """

    posterior: Any
    data: Data
    sites: Sites
    scales: Scales
    inferred: Inferred | None = None


def prepare(
    core: Core, round_index: int, ledger: Ledger, state: AgentState, key: PRNGKeyArray
) -> tuple[AgentState, tuple[Refit, ...]]:
    """Return the state that a round starts with: refitted, or conditioned afresh, where due.

    Units are measured anew where the hyperparameters are fitted, because these are in units;
    under `Fixed` inference, wherever the posterior is conditioned afresh.

    Parameters
    ----------
    key : for the draws of hyperparameters.

    Returns
    -------
    The state, and what was fitted.
    """
    if isinstance(core.policy, MarginalPolicy) and not isinstance(core.inference, Fixed | MAP):
        return _prepare_draws(core.policy, core.inference, core, round_index, ledger, state, key)
    inference = core.inference
    refit = isinstance(inference, MAP) and round_index % inference.every == 0
    refit = refit and any(ledger.sizes())
    if state.posterior is not None and not refit:
        return state, ()
    if core.measure is not None and (refit or isinstance(inference, Fixed)):
        scales = core.measure(ledger)
        state = state._replace(scales=scales, data=ledger.data(scales))
    refits: tuple[Refit, ...] = ()
    if isinstance(inference, MAP) and refit:
        state = state._replace(sites=fit(core.policy, inference, state.data, state.sites))
        reason = f"every {inference.every} rounds"
        refits = tuple(Refit(round_index, name, reason) for name in core.policy.models())
    posterior = condition(core.policy, state.sites, state.data, state.scales)
    return state._replace(posterior=posterior), refits


def _prepare_draws(
    policy: MarginalPolicy,
    sampler: Sampler,
    core: Core,
    round_index: int,
    ledger: Ledger,
    state: AgentState,
    key: PRNGKeyArray,
) -> tuple[AgentState, tuple[Refit, ...]]:
    inferred, scales, data = state.inferred, state.scales, state.data
    reasons: dict[str, str] = {}
    if inferred is None:
        reasons = dict.fromkeys(PROGRAMS, "first")
    else:
        if state.posterior is None:
            _, posterior = settle(policy, inferred.draws, data, np.zeros(2, bool))
            state = state._replace(posterior=posterior)
        shares = np.asarray(effective_shares(policy, state.posterior))
        if sampler.refit.scheduled(round_index):
            reasons = dict.fromkeys(PROGRAMS, "scheduled")
        for name, share in zip(PROGRAMS, shares, strict=True):
            if share < sampler.refit.least_share:
                reasons[name] = (
                    f"effective sample size {share * sampler.draws:.1f} of {sampler.draws} draws"
                )
    if not reasons:
        return state, ()
    if core.measure is not None:
        # Draws are in units: where these are measured, all programs are fitted together.
        scales = core.measure(ledger)
        data = ledger.data(scales)
        reasons |= {name: "with the other" for name in PROGRAMS if name not in reasons}
    names = tuple(name for name in PROGRAMS if name in reasons)
    arguments = (policy, sampler, core.gate, data, key, inferred, names)
    inferred, posterior, attempts = infer(*arguments)
    refits = tuple(
        Refit(round_index, name, reasons[name], *attempts[name], weights=_weights(inferred, name))
        for name in names
    )
    if core.measure is not None and not all(attempt.accepted for attempt in attempts.values()):
        # Draws that stay are in the old units, and so must everything else be.
        assert state.inferred is not None  # a first fit is always accepted
        kept = state.inferred._replace(following=inferred.following)
        rejected = tuple(refit._replace(accepted=False) for refit in refits)
        return state._replace(inferred=kept), rejected
    return AgentState(posterior, data, state.sites, scales, inferred), refits


def _weights(inferred: Inferred, name: str) -> FloatArray:
    logarithm = np.asarray(inferred.fits[name].log_weight)
    weight = np.exp(logarithm - logarithm.max())
    return np.asarray(weight / weight.sum())


def weights(policy: Policy[Any], state: AgentState) -> dict[str, FloatArray]:
    """Return the normalised weights of the draws, by program; empty without draws."""
    if not isinstance(policy, MarginalPolicy):
        return {}
    logarithms = log_weights(policy, state.posterior)
    pairs = zip(PROGRAMS, logarithms, strict=True)
    return {name: np.exp(np.asarray(weight)) for name, weight in pairs}


@partial(jax.jit, static_argnums=0)
def log_weights(policy: MarginalPolicy, posterior: Any) -> tuple[Array, Array]:
    """Return the normalised log weights of the draws of both programs."""
    return posteriors.log_weights(policy.base.reward, posterior)


@partial(jax.jit, static_argnums=0)
def effective_shares(policy: MarginalPolicy, posterior: Any) -> Float[Array, " 2"]:
    """Return the effective sample size over the number of draws, for both programs."""
    return policy.effective_shares(posterior)


@partial(jax.jit, static_argnums=(0, 1))
def fit(policy: Policy[Any], settings: MAP, data: Data, start: Sites) -> Sites:
    """Return the hyperparameters that maximise their posterior density."""
    sites, _ = maximise(policy, data, start, settings)
    return sites


@partial(jax.jit, static_argnums=0)
def condition(policy: Policy[Any], sites: Sites, data: Data, scales: Scales) -> Any:
    """Return the policy's state given all rows; ``O(N^3)``."""
    return policy.condition(sites, data, scales)


@partial(jax.jit, static_argnums=(0, 1))
def evaluate(
    policy: Policy[Any],
    acquisition: Acquisition,
    state: AgentState,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
    beta: Float[Array, ""],
    key: PRNGKeyArray,
) -> Evaluation:
    """Score the actions, ties broken at random by the key; ``O(k N^2)``."""
    s, a, _, y = state.scales
    known = (policy, state.posterior, s.standardise(context), a.standardise(actions))
    moments, score = acquisition(*known, beta, jax.random.fold_in(key, 1))
    uniform = jax.random.uniform(key, (actions.shape[0],))
    return Evaluation.of(moments, score, uniform, y)


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
