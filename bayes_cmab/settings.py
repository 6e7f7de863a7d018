"""The options of a live agent."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array

from bayes_cmab import options
from bayes_cmab.acquisition import Acquisition, BetaSchedule
from bayes_cmab.boxes import Box
from bayes_cmab.columns import Columns
from bayes_cmab.inference import MAP, Fixed, Sampler
from bayes_cmab.inference.gate import Gate
from bayes_cmab.policies import Policy
from bayes_cmab.scaling import Scales
from bayes_cmab.steps import Core
from bayes_cmab.tickets import Ledger
from bayes_cmab.validate import FloatArray, as_positive, as_vector


class Settings(NamedTuple):
    """What an agent was made with; nothing here changes during its life.

    Attributes
    ----------
    actions : (k, q), offered, as numbers; of a box, its candidates.
    columns, contexts : the columns of actions and of contexts.
    box : that is offered, if one is.
    context_sample : (n, p), as numbers.
    policy, inference, acquisition, gate, beta, dim_intermediate, seed, scales, reward_function :
        see `Agent`.
    """

    actions: FloatArray
    columns: Columns
    contexts: Columns
    box: Box | None
    policy: Policy[Any]
    inference: Fixed | MAP | Sampler
    acquisition: Acquisition
    gate: Gate
    beta: BetaSchedule
    dim_intermediate: int
    seed: int
    scales: Scales | None
    context_sample: FloatArray | None
    reward_function: Callable[[Array], Array] | None

    @property
    def base(self) -> Policy[Any]:
        """The policy given its hyperparameters, with the reward function if that is known."""
        return options.policy_of(self.policy, self.reward_function, self.dim_intermediate)

    def exploration(self, round_index: int) -> FloatArray:
        """Return ``beta`` of a round, ()."""
        beta = as_vector(self.beta(round_index), "beta", 1)[0]
        return as_positive(beta, "beta", zero=True)

    def units(self, ledger: Ledger) -> Scales:
        """Return the units that were given, or else those of the rows at hand.

        Columns that stand for a category keep centre 0 and scale 1.
        """
        if self.scales is not None:
            return self.scales
        measured = ledger.measure(self.actions, self.context_sample)
        return measured._replace(
            context=self.contexts.units(measured.context),
            action=self.columns.units(measured.action),
        )

    def shown(self, ledger: Ledger) -> Ledger:
        """Return a ledger whose tickets have contexts and actions as the user wrote them."""
        tickets = tuple(
            ticket._replace(
                context=self.contexts.restore_rows(ticket.context[None])[0],
                action=self.columns.restore_rows(ticket.action[None])[0],
            )
            for ticket in ledger.tickets
        )
        return ledger._replace(tickets=tickets)

    def core(self) -> Core:
        """Return what the steps of the agent need.

        Raises
        ------
        ValueError
            If the policy does not support the inference, the acquisition, or a known reward.
        """
        used = options.inferred_policy(self.base, self.inference)
        options.check_acquisition(self.acquisition, used)
        gate = options.gate_of(self.gate)
        measure = self.units if self.scales is None else None
        return Core(used, self.inference, self.acquisition, gate, measure)
