"""The live agent: ask for an action, tell what came of it, all in the user's units."""

from collections.abc import Callable, Mapping
from typing import Any

from jaxtyping import Array, PRNGKeyArray

from bayes_cmab import options, session, steps
from bayes_cmab.acquisition import Acquisition, BetaSchedule, MatchedMomentsUCB
from bayes_cmab.boxes import Box
from bayes_cmab.categories import Categories
from bayes_cmab.decision import Decision
from bayes_cmab.history import Ask
from bayes_cmab.inference import MAP, Fixed, Sampler
from bayes_cmab.inference.gate import Gate
from bayes_cmab.memory import Clock, utc_now
from bayes_cmab.offers import offered_actions
from bayes_cmab.policies import Policy
from bayes_cmab.scaling import Scales
from bayes_cmab.settings import Settings
from bayes_cmab.validate import Numbers, require_x64, whole_number
from bayes_cmab.views import Views

DEFAULT_ACQUISITION = MatchedMomentsUCB()
DEFAULT_GATE = Gate()


class Agent(Views):
    r"""Ask for actions; tell intermediates and outcomes when they become known, in any order.

    Units (mean and population standard deviation): the action's are measured on the offered set,
    the context's on ``context_sample`` or else on the contexts seen, the intermediate's and the
    outcome's on all rows at hand. They change at an ask, where everything is conditioned afresh:
    with `MAP`, at each refit; with `Fixed`, after `add_outcomes` or `add_transitions`, and when a
    data set has outgrown its capacity (32, 64, 128, ... rows). An agent without a history starts
    with centre 0 and scale 1: better give it ``scales``.

    Any number of decisions may wait for their consequences. Those that wait teach nothing: asked
    twice about a context with nothing told in between, the agent gives the same action again but
    for ties, unless it draws (`Thompson`), which it does afresh in every round.

    Threads may share an agent: a call waits until the one before has returned.

    Parameters
    ----------
    actions : (k, q), offered in every round; a DataFrame names the columns. Columns of strings,
        bools or pandas categories are categorical: see `bayes_cmab.columns`. Or a `Box`, whose
        candidates give the action's units.
    policy : model and moments; by default that of the embedding below.
    embedding : in place of a policy, the name of one by its model of ``P(r | s, a)``.
        ``"transition"`` (the default) corrects Gaussian processes for ``r``, whose noise varies
        with ``s`` and ``a``, by an embedding, and ``f`` has main effects of the dimensions of
        ``r`` (`ResidualPolicy`). ``"paper"`` has a product of RBF kernels on ``s`` and ``a`` and
        the prior mean zero; it is the default with a known ``reward_function``. ``"anova"`` has
        main effects and their product in its place.
    inference : of the hyperparameters. `MAP` (the default) refits them at the asks whose number,
        from zero, is a multiple of its ``every``, and at the next ask when rows were added from
        elsewhere or have outgrown their capacity, if there is any data. `Fixed` keeps them; it is
        the default if ``hyperparameters`` are given or the policy has none. `NUTS` and `SVI`
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
    hyperparameters : all sites of the policy by name, in standardised units: kept, or with
        `MAP` the start of the first fit. By default the medians of the priors.
    scales : the units, if they are not to be measured.
    context_sample : (n, p), rows to take the context's units and categories from. A DataFrame
        names the columns, and tables of contexts are then matched by name; without rows it does
        only that.
    categories : of columns, by name, where the offered actions or the sample do not have all of
        them; or the `Period` of a column of angles or times. A category that was not declared is
        an error.
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
        actions: Numbers | Box,
        *,
        policy: Policy[Any] | None = None,
        embedding: str | None = None,
        inference: Fixed | MAP | Sampler | None = None,
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
        clock: Clock = utc_now,
    ) -> None:
        require_x64()
        d = whole_number(dim_intermediate, "dim_intermediate", least=1)
        known = options.known_categories(categories)
        sample, contexts = options.context_columns(context_sample, dim_context, known)
        offered, columns = offered_actions(actions, known)
        options.check_categories(known, contexts, columns)
        p, q = contexts.width, columns.width
        chosen = options.chosen_policy(policy, embedding, known_reward=reward_function is not None)
        settings = Settings(
            actions=offered,
            columns=columns,
            contexts=contexts,
            box=actions if isinstance(actions, Box) else None,
            policy=chosen,
            inference=options.chosen_inference(inference, chosen, kept=hyperparameters is not None),
            acquisition=acquisition,
            gate=gate,
            beta=options.beta_schedule(beta),
            dim_intermediate=d,
            seed=whole_number(seed, "seed", least=0),
            scales=None if scales is None else options.scales_of(scales, p, q, d),
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
        actions : (k, q) of this call, in place of the offered set or box: some of it, or any
            others. If the offered set was a DataFrame, one is matched by name.
        exploit : choose the highest mean, whatever the acquisition.
        key : to use instead of the one that comes from the seed.

        Raises
        ------
        FloatingPointError
            If a score is not finite, or a variance is negative beyond rounding.

        Warns
        -----
        ConvergenceWarning
            If a fit of the hyperparameters failed: at the gate or, by `MAP`, found none.
        """
        s, offer = self._question(context, actions)
        with self._lock:
            now = self._prepare(key)
            question = (s, offer, self._key(key))
            found = session.evaluate(self._core, self._settings, now, *question, exploit)
            offer, evaluation = found
            decision = evaluation.decision(now.round, offer, self._settings.columns)
            weights = steps.weights(self._core.policy, now.state)
            event = Ask.of(decision, exploit, weights, self._now())
            self._commit(session.ask(now, s, offer.given[decision.index], event))
        return decision
