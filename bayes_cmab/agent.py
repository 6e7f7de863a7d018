"""The live agent: ask for an action, tell what came of it, all in the user's units."""

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax
from jaxtyping import Array, PRNGKeyArray

from bayes_cmab import options, session, steps
from bayes_cmab.acquisition import Acquisition, BetaSchedule, MatchedMomentsUCB
from bayes_cmab.decision import Decision
from bayes_cmab.history import Ask, ConvergenceWarning
from bayes_cmab.inference import MAP, Fixed, Sampler
from bayes_cmab.inference.gate import Gate
from bayes_cmab.memory import Clock, Memory, utc_now
from bayes_cmab.offers import Offer, call_actions, names_of, offered_actions
from bayes_cmab.policies import EmbeddingPolicy, Policy
from bayes_cmab.scaling import Scales
from bayes_cmab.session import Session
from bayes_cmab.settings import Settings
from bayes_cmab.validate import FloatArray, Numbers, as_rows, require_x64

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

DEFAULT_POLICY = EmbeddingPolicy()
DEFAULT_INFERENCE = Fixed()
DEFAULT_ACQUISITION = MatchedMomentsUCB()
DEFAULT_GATE = Gate()


class Agent(Memory):
    r"""Ask for actions; tell intermediates and outcomes when they become known, in any order.

    Units (mean and population standard deviation): the action's are measured on the offered set,
    the context's on ``context_sample`` or else on the contexts seen, the intermediate's and the
    outcome's on all rows at hand. They change at an ask, where everything is conditioned afresh:
    with `MAP`, at each refit; with `Fixed`, after `add_outcomes` or `add_transitions`, and when a
    data set has outgrown its capacity (32, 64, 128, ... rows). A `Fixed` agent without a history
    starts with centre 0 and scale 1: better give it ``scales``.

    Any number of decisions may wait for their consequences. Those that wait teach nothing: asked
    twice about a context with nothing told in between, the agent gives the same action again but
    for ties, unless it draws (`Thompson`), which it does afresh in every round.

    Threads may share an agent: a call waits until the one before has returned.

    Parameters
    ----------
    actions : (k, q), offered in every round; a DataFrame names the columns.
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
    dim_context, dim_intermediate : p and d; p = 0 means that there are no contexts.
    seed : of the key ``fold_in(key(seed), round)``, with which ties are broken and
        hyperparameters and Thompson's scores are drawn.
    hyperparameters : all sites of the policy by name, in standardised units: kept, or the start
        of the first fit of `MAP`. By default the medians of the priors.
    scales : the units, if they are not to be measured.
    context_sample : (n, p), rows to take the context's units from.
    reward_function : ``f`` where it is known: from an intermediate (d,) to a scalar, in the
        user's units, made of JAX operations. No outcome is needed then.
    clock : of the time stamps in `history`, with a time zone; nothing else depends on it.

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
        inference: Fixed | MAP | Sampler = DEFAULT_INFERENCE,
        acquisition: Acquisition = DEFAULT_ACQUISITION,
        gate: Gate = DEFAULT_GATE,
        beta: float | BetaSchedule = 0.25,
        dim_context: int = 1,
        dim_intermediate: int = 1,
        seed: int = 0,
        hyperparameters: Mapping[str, Numbers] | None = None,
        scales: Scales | None = None,
        context_sample: Numbers | None = None,
        reward_function: Callable[[Array], Array] | None = None,
        clock: Clock = utc_now,
    ) -> None:
        require_x64()
        p = options.whole_number(dim_context, "dim_context", least=0)
        d = options.whole_number(dim_intermediate, "dim_intermediate", least=1)
        offered, columns = offered_actions(actions)
        sample = None
        if context_sample is not None:
            sample = as_rows(context_sample, "context_sample", p).copy()
        settings = Settings(
            actions=offered,
            columns=columns,
            named=bool(names_of(actions)),
            policy=policy,
            inference=inference,
            acquisition=acquisition,
            gate=gate,
            beta=options.beta_schedule(beta),
            dim_context=p,
            dim_intermediate=d,
            seed=options.whole_number(seed, "seed", least=0),
            scales=None if scales is None else options.scales_of(scales, p, offered.shape[1], d),
            context_sample=sample,
            reward_function=reward_function,
        )
        super().__init__(settings, session.start(settings, hyperparameters), clock)

    def ask(
        self,
        context: Numbers | None = None,
        actions: Numbers | None = None,
        *,
        exploit: bool = False,
        key: PRNGKeyArray | None = None,
    ) -> Decision:
        """Choose an action.

        Parameters
        ----------
        context : (p,); None if there are no contexts.
        actions : (k, q) of this call, in place of the offered set: some of it, or any others. If
            the offered set was a DataFrame, one is matched by name.
        exploit : choose the highest mean, whatever the acquisition.
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
        s, offer = self._question(context, actions)
        with self._lock:
            now = self._prepare(key)
            question = (s, offer, self._key(key))
            evaluation = session.evaluate(self._core, self._settings, now, *question, exploit)
            decision = evaluation.decision(now.round, offer)
            weights = steps.weights(self._core.policy, now.state)
            event = Ask.of(decision, exploit, weights, self._now())
            self._commit(session.ask(now, s, decision.action.copy(), event))
        return decision

    def score(
        self,
        context: Numbers | None = None,
        actions: Numbers | None = None,
        *,
        exploit: bool = False,
    ) -> "pd.DataFrame":
        """Return a table of the actions, as the next ask would see them; it changes no decision.

        Parameters
        ----------
        context, actions, exploit : as in `ask`. Some of the offered actions have the scores that
            they have among all; so have others, but for rounding, unless they are drawn jointly.

        Returns
        -------
        One row per action: its columns, ``mean``, ``standard_deviation``, ``score`` (the mean, to
        exploit), and the five parts of the variance (see `Decision`).

        Raises
        ------
        FloatingPointError
            As in `ask`.
        """
        s, offer = self._question(context, actions)
        with self._lock:
            now, question = self._prepare(None), (s, offer, self._key(None))
            evaluation = session.evaluate(self._core, self._settings, now, *question, exploit)
        return evaluation.table(offer, self._settings.columns)

    def posterior(self, context: Numbers | None = None) -> "xr.DataTree":
        """Return the posterior of the hyperparameters for ArviZ, as the next ask would see it.

        Parameters
        ----------
        context : (p,) of the predictions; by default the last one asked about.

        Returns
        -------
        See `bayes_cmab.diagnostics.posterior_tree`.

        Raises
        ------
        ValueError
            If the inference is not `NUTS` or `SVI`: there are no draws then.
        """
        from bayes_cmab.diagnostics import posterior_tree  # ArviZ is slow to import

        with self._lock:
            options.require_draws(self._core.inference)
            now = self._prepare(None)
            tickets = now.ledger.tickets
            if context is None and tickets:
                context = tickets[-1].context
            predictions: dict[str, FloatArray] = {}
            if context is not None:
                s, offer = self._question(context, None)
                question = (s, offer, self._key(None))
                evaluation = session.evaluate(self._core, self._settings, now, *question)
                predictions = evaluation.figures(offer)
            return posterior_tree(self._settings, now, predictions, self._key(None))

    def _question(
        self, context: Numbers | None, actions: Numbers | None
    ) -> tuple[FloatArray, Offer]:
        known = self._settings
        s = options.context_of(context, known.dim_context)
        return s, call_actions(actions, known.actions, known.names)

    def _key(self, key: PRNGKeyArray | None) -> PRNGKeyArray:
        seed = jax.random.key(self._settings.seed)
        return jax.random.fold_in(seed, self.round) if key is None else key

    def _prepare(self, key: PRNGKeyArray | None) -> Session:
        # Kept apart until an ask commits it, so that looking at scores changes no decision.
        if self._prepared is None or key is not None:
            own = jax.random.fold_in(self._key(key), 2)
            now = self._session
            self._prepared = session.prepare(self._core, now, own, self._now())
            for refit in self._prepared.fits[len(now.fits) :]:
                if refit.verdict == "failed":
                    warnings.warn(refit.message(), ConvergenceWarning, stacklevel=3)
        return self._prepared
