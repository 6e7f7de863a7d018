"""The live agent: ask for an action, tell what came of it, all in the user's units."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
from jaxtyping import Array, PRNGKeyArray

from bayes_cmab import options, steps
from bayes_cmab.acquisition import BetaSchedule
from bayes_cmab.data import Data
from bayes_cmab.decision import Decision, Evaluation
from bayes_cmab.inference import MAP, Fixed
from bayes_cmab.models.priors import Sites
from bayes_cmab.policies import EmbeddingPolicy, Policy
from bayes_cmab.scaling import Scales
from bayes_cmab.steps import AgentState
from bayes_cmab.tickets import Ledger
from bayes_cmab.validate import (
    FloatArray,
    Numbers,
    as_column,
    as_positive,
    as_rows,
    as_vector,
    require_x64,
    same_length,
)

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_POLICY = EmbeddingPolicy()
DEFAULT_INFERENCE = Fixed()


class Agent:
    r"""Ask for actions; tell intermediates and outcomes when they become known, in any order.

    Units (mean and population standard deviation): the action's are measured on the offered set,
    the context's on ``context_sample`` or else on the contexts seen, the intermediate's and the
    outcome's on all rows at hand. They change at an ask, where everything is conditioned afresh:
    with `MAP`, at each refit; with `Fixed`, after `add_outcomes` or `add_transitions`, and when a
    data set has outgrown its capacity (32, 64, 128, ... rows). A `Fixed` agent without a history
    starts with centre 0 and scale 1: better give it ``scales``.

    Parameters
    ----------
    actions : (k, q), offered in every round; a DataFrame names the columns.
    policy : model and moments.
    inference : of the hyperparameters. `Fixed` keeps them; `MAP` refits them at the asks whose
        number, from zero, is a multiple of its ``every``, if there is any data.
    beta : exploration weight, or its schedule.
    dim_context, dim_intermediate : p and d; p = 0 means that there are no contexts.
    seed : ties are broken at random with the key ``fold_in(key(seed), round)``.
    hyperparameters : all sites of the policy by name, in standardised units: kept, or the start
        of the first fit. By default the medians of the priors.
    scales : the units, if they are not to be measured.
    context_sample : (n, p), rows to take the context's units from.
    reward_function : ``f`` where it is known: from an intermediate (d,) to a scalar, in the
        user's units, made of JAX operations. No outcome is needed then.

    Raises
    ------
    ValueError
        If an argument is not as described. The methods raise it too, and nothing changes then.
    RuntimeError
        If JAX is not set to float64.
    """

    def __init__(
        self,
        actions: Numbers,
        *,
        policy: Policy[Any] = DEFAULT_POLICY,
        inference: Fixed | MAP = DEFAULT_INFERENCE,
        beta: float | BetaSchedule = 0.25,
        dim_context: int = 1,
        dim_intermediate: int = 1,
        seed: int = 0,
        hyperparameters: Mapping[str, Numbers] | None = None,
        scales: Scales | None = None,
        context_sample: Numbers | None = None,
        reward_function: Callable[[Array], Array] | None = None,
    ) -> None:
        require_x64()
        self._p = p = options.whole_number(dim_context, "dim_context", least=0)
        self._d = d = options.whole_number(dim_intermediate, "dim_intermediate", least=1)
        self._seed = options.whole_number(seed, "seed", least=0)
        self._actions, self._columns = options.offered_actions(actions)
        q = self._actions.shape[1]
        self._policy = options.policy_of(policy, reward_function, d)
        self._inference = options.inference_of(inference)
        self._beta = options.beta_schedule(beta)
        sample = None
        if context_sample is not None:
            sample = as_rows(context_sample, "context_sample", p).copy()
        sites = options.sites_of(hyperparameters, self._policy.default_sites(p, q, d))
        ledger = Ledger.empty(p, q, d)
        measure = partial(Ledger.measure, offered=self._actions, context_sample=sample)
        self._measure = measure if scales is None else None
        units = measure(ledger) if scales is None else options.scales_of(scales, p, q, d)
        self._ledger, self._state = ledger, AgentState(None, ledger.data(units), sites, units)
        self._prepared: AgentState | None = None
        self._round = 0

    @property
    def sites(self) -> Sites:
        """The hyperparameters of the last ask, in standardised units."""
        return dict(self._state.sites)

    @property
    def scales(self) -> Scales:
        """The units of the last ask."""
        return self._state.scales

    @property
    def data(self) -> Data:
        """All complete rows, in those units, padded."""
        return self._state.data

    @property
    def round(self) -> int:
        """The number of decisions so far."""
        return self._round

    def ask(self, context: Numbers | None = None, *, key: PRNGKeyArray | None = None) -> Decision:
        """Choose an action.

        Parameters
        ----------
        context : (p,); None if there are no contexts.
        key : for breaking ties, instead of the one that comes from the seed.

        Raises
        ------
        FloatingPointError
            If a score is not finite, or a variance is negative beyond rounding.
        """
        s = options.context_of(context, self._p)
        state = self._prepare()
        evaluation = self._evaluate(state, s, key)
        decision = evaluation.decision(len(self._ledger.tickets), self._actions)
        self._commit(self._ledger.issue(s, self._actions[decision.index]), state)
        self._round += 1
        return decision

    def score(self, context: Numbers | None = None) -> "pd.DataFrame":
        """Return a table of the actions, as the next ask would see them; it changes no decision.

        Parameters
        ----------
        context : (p,); None if there are no contexts.

        Returns
        -------
        One row per action: its columns, ``mean``, ``standard_deviation``, ``score``,
        ``variance_reward``, ``variance_embedding``, ``variance_transition``.

        Raises
        ------
        FloatingPointError
            As in `ask`.
        """
        s = options.context_of(context, self._p)
        evaluation = self._evaluate(self._prepare(), s, None)
        return evaluation.table(self._actions, self._columns)

    def tell(
        self, ticket: int, *, intermediate: Numbers | None = None, outcome: Numbers | None = None
    ) -> None:
        """Tell what came of a decision: its intermediate, its outcome, or both.

        An outcome may come before its intermediate: it is kept, and joins the outcomes when the
        intermediate arrives. An agent that ignores intermediates learns from it at once.

        Parameters
        ----------
        ticket : of the decision.
        intermediate : (d,). outcome : a number.
        """
        r = None if intermediate is None else as_vector(intermediate, "intermediate", self._d)
        y = None if outcome is None else float(as_vector(outcome, "outcome", 1)[0])
        ledger, state, policy = self._ledger.settle(ticket, r, y), self._state, self._policy
        if state.posterior is None or not ledger.fits(state.data):
            return self._outgrow(ledger)
        s, a, known_r, known_y = ledger.tickets[ticket]
        if r is not None:
            state = steps.add_transition(policy, state, s, a, known_r)
        if known_r is not None and known_y is not None:
            state = steps.add_outcome(policy, state, known_r, known_y)
        if y is not None:
            state = steps.add_reward(policy, state, s, a, known_y)
        return self._commit(ledger, state)

    def add_outcomes(self, intermediates: Numbers, outcomes: Numbers) -> None:
        """Add rows (r, y) that belong to no decision; the next ask conditions on all at once.

        Parameters
        ----------
        intermediates : (m, d). outcomes : (m,).
        """
        r = as_rows(intermediates, "intermediates", self._d)
        y = as_column(outcomes, "outcomes")
        same_length(intermediates=r, outcomes=y)
        self._outgrow(self._ledger.add_outcomes(r, y))

    def add_transitions(
        self, contexts: Numbers | None, actions: Numbers, intermediates: Numbers
    ) -> None:
        """Add rows (s, a, r) that belong to no decision; the next ask conditions on all at once.

        Parameters
        ----------
        contexts : (n, p); None if there are no contexts. actions : (n, q), any.
        intermediates : (n, d).
        """
        a = as_rows(actions, "actions", self._actions.shape[1])
        r = as_rows(intermediates, "intermediates", self._d)
        s = options.contexts_of(contexts, len(a), self._p)
        same_length(contexts=s, actions=a, intermediates=r)
        self._outgrow(self._ledger.add_transitions(s, a, r))

    def _outgrow(self, ledger: Ledger) -> None:
        data = ledger.data(self._state.scales)
        self._commit(ledger, self._state._replace(posterior=None, data=data))

    def _commit(self, ledger: Ledger, state: AgentState) -> None:
        self._ledger, self._state, self._prepared = ledger, state, None

    def _prepare(self) -> AgentState:
        # Kept apart until an ask commits it, so that looking at scores changes no decision.
        if self._prepared is None:
            self._prepared = steps.prepare(
                self._policy, self._inference, self._measure, self._round, self._ledger, self._state
            )
        return self._prepared

    def _evaluate(
        self, state: AgentState, context: FloatArray, key: PRNGKeyArray | None
    ) -> Evaluation:
        beta = as_positive(as_vector(self._beta(self._round), "beta", 1)[0], "beta", zero=True)
        if key is None:
            key = jax.random.fold_in(jax.random.key(self._seed), self._round)
        arguments = (self._policy, state, context, self._actions, beta, key)
        evaluation: Evaluation = jax.device_get(steps.evaluate(*arguments))
        evaluation.check(self._round)
        return evaluation
