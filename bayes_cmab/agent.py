"""The live agent: ask for an action, tell what came of it, all in the user's units."""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from bayes_cmab import history, options, steps
from bayes_cmab.acquisition import Acquisition, BetaSchedule, MatchedMomentsUCB
from bayes_cmab.boxes import Box
from bayes_cmab.categories import Categories
from bayes_cmab.categories import measure as measure_units
from bayes_cmab.data import Data
from bayes_cmab.decision import Decision, Evaluation
from bayes_cmab.history import Ask, ConvergenceWarning, Refit
from bayes_cmab.inference import MAP, Fixed, Sampler
from bayes_cmab.inference.gate import Gate
from bayes_cmab.models.priors import Sites
from bayes_cmab.policies import EmbeddingPolicy, MarginalPolicy, Policy
from bayes_cmab.scaling import Scales
from bayes_cmab.steps import AgentState, Core
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
    import xarray as xr

DEFAULT_POLICY = EmbeddingPolicy()
DEFAULT_INFERENCE = Fixed()
DEFAULT_ACQUISITION = MatchedMomentsUCB()
DEFAULT_GATE = Gate()


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
    actions : (k, q), offered in every round; a DataFrame names the columns. Columns of strings,
        bools or pandas categories are categorical: see `bayes_cmab.categories`. Or a `Box`, whose
        candidates give the action's units.
    policy : model and moments.
    inference : of the hyperparameters. `Fixed` keeps them; `MAP` refits them at the asks whose
        number, from zero, is a multiple of its ``every``, if there is any data. `NUTS` and `SVI`
        draw them from their posterior; the agent averages over the draws, reweights them by every
        new row, and draws again when their refit policy says so.
    acquisition : from what is known to scores: `MatchedMomentsUCB`, `MeanUCB`,
        `MixtureQuantile`, `Thompson`.
    gate : limits that the fits of `NUTS` and `SVI` must keep. One that does not is continued by
        another pass; if that fails too, the last draws that passed stay in use, reweighted, and a
        `ConvergenceWarning` says so.
    beta : exploration weight, or its schedule.
    dim_context, dim_intermediate : p and d; p = 0 means that there are no contexts. By default
        p is the number of columns of ``context_sample`` if it is a DataFrame, else 1.
    seed : of the key ``fold_in(key(seed), round)``, with which ties are broken and
        hyperparameters and Thompson's scores are drawn.
    hyperparameters : all sites of the policy by name, in standardised units: kept, or the start
        of the first fit of `MAP`. By default the medians of the priors.
    scales : the units, if they are not to be measured.
    context_sample : (n, p), rows to take the context's units and categories from. A DataFrame
        names the columns, and tables of contexts are then matched by name; without rows it does
        only that.
    categories : of columns, by name, where the offered actions or the sample do not have all of
        them. One that was not declared is an error.
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
        actions: Numbers | Box,
        *,
        policy: Policy[Any] = DEFAULT_POLICY,
        inference: Fixed | MAP | Sampler = DEFAULT_INFERENCE,
        acquisition: Acquisition = DEFAULT_ACQUISITION,
        gate: Gate = DEFAULT_GATE,
        beta: float | BetaSchedule = 0.25,
        dim_context: int | None = None,
        dim_intermediate: int = 1,
        seed: int = 0,
        hyperparameters: Mapping[str, Numbers] | None = None,
        scales: Scales | None = None,
        context_sample: Numbers | None = None,
        categories: Categories | None = None,
        reward_function: Callable[[Array], Array] | None = None,
    ) -> None:
        require_x64()
        known = options.known_categories(categories)
        sample, self._contexts = options.context_columns(context_sample, dim_context, known)
        self._box = actions if isinstance(actions, Box) else None
        self._actions, self._columns = options.offered_actions(actions, known)
        options.check_categories(known, self._contexts, self._columns)
        self._d = d = options.whole_number(dim_intermediate, "dim_intermediate", least=1)
        self._seed = options.whole_number(seed, "seed", least=0)
        p, q = self._contexts.width, self._columns.width
        base = options.policy_of(policy, reward_function, d)
        sites = options.sites_of(hyperparameters, base.default_sites(p, q, d), inference)
        used = options.inferred_policy(base, inference)
        options.check_acquisition(acquisition, used)
        self._beta = options.beta_schedule(beta)
        ledger = Ledger.empty(p, q, d)
        measure = partial(
            measure_units,
            contexts=self._contexts,
            actions=self._columns,
            offered=self._actions,
            context_sample=sample,
        )
        measured = measure if scales is None else None
        self._core = Core(used, inference, acquisition, options.gate_of(gate), measured)
        units = measure(ledger) if scales is None else options.scales_of(scales, p, q, d)
        self._ledger, self._state = ledger, AgentState(None, ledger.data(units), sites, units)
        self._prepared: tuple[AgentState, tuple[Refit, ...]] | None = None
        self._round = 0
        self._events: list[Refit | Ask] = []

    @property
    def sites(self) -> Sites:
        """The hyperparameters of the last ask, in standardised units; (draws, ...) of a sampler."""
        inferred = self._state.inferred
        if inferred is None:
            return dict(self._state.sites)
        return inferred.draws.reward.sites | inferred.draws.embedding.sites

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
        key : to use instead of the one that comes from the seed.

        Raises
        ------
        FloatingPointError
            If a score is not finite, or a variance is negative beyond rounding.

        Warns
        -----
        ConvergenceWarning
            If a fit of the hyperparameters failed at the gate.
        """
        s = options.context_of(context, self._contexts)
        state, refits = self._prepare(key)
        points, evaluation = self._evaluate(state, s, key)
        offered = self._columns.restore_rows(points)
        decision = evaluation.decision(len(self._ledger.tickets), offered)
        self._commit(self._ledger.issue(s, points[decision.index]), state)
        weights = steps.weights(self._core.policy, state)
        self._events += [*refits, Ask(self._round, weights, decision.figures())]
        self._round += 1
        return decision

    def history(self) -> "pd.DataFrame":
        """Return the fits of hyperparameters, and what was believed at every decision.

        Returns
        -------
        One row per event and program, see `bayes_cmab.history.table`.
        """
        return history.table(self._events)

    def posterior(self, context: Numbers | None = None) -> "xr.DataTree":
        """Return the posterior of the hyperparameters for ArviZ, as the next ask would see it.

        The draws are those of the last fit, before they were reweighted by the rows that have come
        since (`history` has the weights); everything else is computed with all rows at hand.

        Parameters
        ----------
        context : (p,) of the predictions; by default the last one asked about.

        Returns
        -------
        xarray.DataTree
            ``posterior``, ``prior``, ``sample_stats``, ``log_prior`` of the sites of both
            programs, in standardised units; ``observed_data``, ``constant_data``,
            ``posterior_predictive``, ``prior_predictive`` in the user's units;
            ``log_likelihood``, of each outcome given all others (the leave-one-out conditional of
            the Gaussian process); ``predictions``, the figures of each action (see `score`);
            with `SVI`, ``optimisation``, the trace of the evidence lower bound. The JSON attribute
            ``bayes_cmab`` has the versions, the seed, the round, the inference and the gate's
            verdicts.

        Raises
        ------
        ValueError
            If the inference is not `NUTS` or `SVI`: there are no draws then.
        """
        from bayes_cmab.diagnostics import posterior_tree, versions  # ArviZ is slow to import

        policy = self._core.policy
        if not isinstance(policy, MarginalPolicy):
            raise ValueError(
                f"posterior: expected an agent with NUTS or SVI, got {self._core.inference!r}"
            )
        state, refits = self._prepare(None)
        points, predictions = self._actions, dict[str, FloatArray]()
        if context is not None or self._ledger.tickets:
            s = self._ledger.tickets[-1].context
            if context is not None:
                s = options.context_of(context, self._contexts)
            points, evaluation = self._evaluate(state, s, None)
            predictions = evaluation.figures()
        fits = [event for event in (*self._events, *refits) if isinstance(event, Refit)]
        information = {
            "versions": versions(),
            "seed": self._seed,
            "round": self._round,
            "inference": repr(self._core.inference),
            "gate": [[fit.round, fit.program, fit.reason, fit.verdict] for fit in fits],
        }
        key = jax.random.fold_in(self._key(None), 3)
        labels = {"s_dim": self._contexts.labels, "a_dim": self._columns.labels}
        arguments = (policy, state, points, labels, predictions, key, information)
        return posterior_tree(*arguments)

    def score(self, context: Numbers | None = None) -> "pd.DataFrame":
        """Return a table of the actions, as the next ask would see them; it changes no decision.

        Parameters
        ----------
        context : (p,); None if there are no contexts.

        Returns
        -------
        One row per action: its columns, ``mean``, ``standard_deviation``, ``score``,
        and the five parts of the variance (see `Decision`). Of a `Box`: its candidates, and then
        the tops of the climbs.

        Raises
        ------
        FloatingPointError
            As in `ask`.
        """
        s = options.context_of(context, self._contexts)
        points, evaluation = self._evaluate(self._prepare(None)[0], s, None)
        return evaluation.table(self._columns.restore(points))

    def report(self, path: str | Path, context: Numbers | None = None) -> Path:
        """Write one self-contained HTML page about the agent, as the next ask would see it.

        Data and their units, outcomes and expectations over the rounds, the uncertainty budget of
        every decision, the scores of the actions, the hyperparameters (with pictures of their
        draws, if there are any), the fits and the gate's verdicts, settings and versions. Like
        `score` it may fit hyperparameters, and changes no decision. Where scores are not finite
        the page says so instead of showing them.

        Parameters
        ----------
        path : of the file, written atomically.
        context : (p,) of the scores; by default the last one asked about.

        Returns
        -------
        The path.
        """
        from bayes_cmab.diagnostics import versions  # ArviZ is slow to import
        from bayes_cmab.report import Subject, write_report

        state, refits = self._prepare(None)
        core, tickets = self._core, self._ledger.tickets
        s = tickets[-1].context if tickets else None if self._contexts.names else np.zeros(0)
        if context is not None:
            s = options.context_of(context, self._contexts)
        scores, tree, problem = None, None, "There was no context yet: give one to see the scores."
        try:
            if s is not None:
                points, evaluation = self._evaluate(state, s, None)
                scores = evaluation.table(self._columns.restore(points))
            tree = self.posterior(context) if isinstance(core.policy, MarginalPolicy) else None
        except FloatingPointError as error:
            problem = str(error)
        inferred = state.inferred
        subject = Subject(
            settings={name: repr(getattr(core, name)) for name in steps.SETTINGS}
            | {"beta": repr(self._beta), "seed": str(self._seed)},
            versions=versions(),
            ledger=self._ledger,
            scales=state.scales,
            sites=state.sites if inferred is None else {},
            events=(*self._events, *refits),
            columns=self._columns,
            contexts=self._contexts,
            context=s,
            scores=scores,
            posterior=tree,
            problem="" if s is not None and scores is not None else problem,
        )
        return write_report(subject, Path(path))

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
        ledger, state, policy = self._ledger.settle(ticket, r, y), self._state, self._core.policy
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
        a = self._columns.rows(actions, "actions")
        r = as_rows(intermediates, "intermediates", self._d)
        s = options.contexts_of(contexts, len(a), self._contexts)
        same_length(contexts=s, actions=a, intermediates=r)
        self._outgrow(self._ledger.add_transitions(s, a, r))

    def _outgrow(self, ledger: Ledger) -> None:
        data = ledger.data(self._state.scales)
        self._commit(ledger, self._state._replace(posterior=None, data=data))

    def _commit(self, ledger: Ledger, state: AgentState) -> None:
        self._ledger, self._state, self._prepared = ledger, state, None

    def _key(self, key: PRNGKeyArray | None) -> PRNGKeyArray:
        return jax.random.fold_in(jax.random.key(self._seed), self._round) if key is None else key

    def _prepare(self, key: PRNGKeyArray | None) -> tuple[AgentState, tuple[Refit, ...]]:
        # Kept apart until an ask commits it, so that looking at scores changes no decision.
        if self._prepared is None:
            own = jax.random.fold_in(self._key(key), 2)
            self._prepared = steps.prepare(self._core, self._round, self._ledger, self._state, own)
            for refit in self._prepared[1]:
                if refit.verdict == "failed":
                    warnings.warn(refit.message(), ConvergenceWarning, stacklevel=3)
        return self._prepared

    def _evaluate(
        self, state: AgentState, context: FloatArray, key: PRNGKeyArray | None
    ) -> tuple[FloatArray, Evaluation]:
        beta = as_positive(as_vector(self._beta(self._round), "beta", 1)[0], "beta", zero=True)
        known = (self._core.policy, self._core.acquisition, state, context)
        points = self._actions
        if self._box is None:
            found = steps.evaluate(*known, points, beta, self._key(key))
            evaluation: Evaluation = jax.device_get(found)
        else:
            points, evaluation = self._box.evaluate(*known, points, beta, self._key(key))
        evaluation.check(self._round)
        return points, evaluation
