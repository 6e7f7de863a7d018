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
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bayes_cmab.acquisition import Acquisition
from bayes_cmab.data import Data
from bayes_cmab.decision import Evaluation
from bayes_cmab.history import Refit
from bayes_cmab.inference import MAP, FitInfo, Fixed, Sampler, maximise
from bayes_cmab.inference.gate import Gate
from bayes_cmab.inference.marginal import Inferred, effective_shares, infer, log_weights, settle
from bayes_cmab.models.priors import Sites
from bayes_cmab.policies import DrawsPolicy, Policy
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

    `MAP` is due every few rounds, and wherever the posterior has to be conditioned afresh. Units
    are measured anew where the hyperparameters are fitted, because these are in units; under
    `Fixed` inference, wherever the posterior is conditioned afresh. Rows are conditioned on
    in the ledger's order, whatever the order in which they came.

    Parameters
    ----------
    key : for the draws of hyperparameters.

    Returns
    -------
    The state, and what was fitted.
    """
    if isinstance(core.policy, DrawsPolicy) and not isinstance(core.inference, Fixed | MAP):
        return _prepare_draws(core.policy, core.inference, core, round_index, ledger, state, key)
    inference = core.inference
    scheduled = isinstance(inference, MAP) and round_index % inference.every == 0
    afresh = isinstance(inference, MAP) and state.posterior is None
    refit = (scheduled or afresh) and any(ledger.sizes())
    if state.posterior is not None and not refit:
        return state, ()
    if core.measure is not None and (refit or isinstance(inference, Fixed)):
        state = state._replace(scales=core.measure(ledger))
    state = state._replace(data=ledger.data(state.scales))
    refits: tuple[Refit, ...] = ()
    if isinstance(inference, MAP) and refit:
        sites, found = fit(core.policy, inference, state.data, state.sites)
        state = state._replace(sites=sites)
        reason = f"every {inference.every} rounds" if scheduled else "many new rows"
        refits = tuple(
            Refit(round_index, name, reason, accepted=bool(found[name].improved))
            for name in core.policy.models()
        )
    return condition_afresh(core, state), refits


def condition_afresh(core: Core, state: AgentState) -> AgentState:
    """Return the state with the posterior of its data, under its hyperparameters or draws."""
    policy, inferred = core.policy, state.inferred
    if isinstance(policy, DrawsPolicy) and inferred is not None:
        old = np.zeros(len(policy.names), bool)
        _, posterior = settle(policy, inferred.draws, state.data, old)
    else:
        posterior = condition(policy, state.sites, state.data, state.scales)
    return state._replace(posterior=posterior)


def _prepare_draws(
    policy: DrawsPolicy[Any],
    sampler: Sampler,
    core: Core,
    round_index: int,
    ledger: Ledger,
    state: AgentState,
    key: PRNGKeyArray,
) -> tuple[AgentState, tuple[Refit, ...]]:
    inferred, scales, programs = state.inferred, state.scales, policy.names
    reasons: dict[str, str] = {}
    if inferred is None:
        reasons = dict.fromkeys(programs, "first")
    else:
        if state.posterior is None:
            state = condition_afresh(core, state)
        shares = np.asarray(effective_shares(policy, state.posterior))
        if sampler.refit.scheduled(round_index):
            reasons = dict.fromkeys(programs, "scheduled")
        for name, share in zip(programs, shares, strict=True):
            if share < sampler.refit.least_share:
                reasons[name] = (
                    f"effective sample size {share * sampler.draws:.1f} of {sampler.draws} draws"
                )
    if not reasons:
        return state, ()
    if core.measure is not None:
        # Draws are in units: where these are measured, all programs are fitted together.
        scales, names = core.measure(ledger), programs
    else:
        names = policy.joined(tuple(reasons))
    reasons = dict.fromkeys(names, "with another") | reasons
    data = ledger.data(scales)
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
    if not isinstance(policy, DrawsPolicy):
        return {}
    logarithms = log_weights(policy, state.posterior)
    return {name: np.exp(np.asarray(logarithms[name])) for name in policy.names}


@partial(jax.jit, static_argnums=(0, 1))
def fit(
    policy: Policy[Any], settings: MAP, data: Data, start: Sites
) -> tuple[Sites, dict[str, FitInfo]]:
    """Return the hyperparameters that maximise their posterior density, and how it went."""
    return maximise(policy, data, start, settings)


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
    allowed: Bool[Array, " k"],
    beta: Float[Array, ""],
    key: PRNGKeyArray,
) -> Evaluation:
    """Score the actions and choose an allowed one, ties broken by the key; ``O(k N^2)``."""
    s, a, _, y = state.scales
    known = (policy, state.posterior, s.standardise(context), a.standardise(actions))
    moments, score = acquisition(*known, beta, jax.random.fold_in(key, 1))
    uniform = jax.random.uniform(key, (actions.shape[0],))
    return Evaluation.of(moments, score, uniform, allowed, y)
