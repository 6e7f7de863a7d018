"""The options of a live agent."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array

from bayes_cmab import options
from bayes_cmab.acquisition import Acquisition, BetaSchedule
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
    actions : (k, q), offered. columns : (q,) their names. named : whether the user named them.
    policy, inference, acquisition, gate, beta, dim_context, dim_intermediate, seed, scales,
    context_sample, reward_function : see `Agent`.
    """

    actions: FloatArray
    columns: tuple[str, ...]
    named: bool
    policy: Policy[Any]
    inference: Fixed | MAP | Sampler
    acquisition: Acquisition
    gate: Gate
    beta: BetaSchedule
    dim_context: int
    dim_intermediate: int
    seed: int
    scales: Scales | None
    context_sample: FloatArray | None
    reward_function: Callable[[Array], Array] | None

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the user gave the actions' columns; empty if none."""
        return self.columns if self.named else ()

    @property
    def base(self) -> Policy[Any]:
        """The policy given its hyperparameters, with the reward function if that is known."""
        return options.policy_of(self.policy, self.reward_function, self.dim_intermediate)

    def exploration(self, round_index: int) -> FloatArray:
        """Return ``beta`` of a round, ()."""
        beta = as_vector(self.beta(round_index), "beta", 1)[0]
        return as_positive(beta, "beta", zero=True)

    def units(self, ledger: Ledger) -> Scales:
        """Return the units that were given, or else those of the rows at hand."""
        if self.scales is not None:
            return self.scales
        return ledger.measure(self.actions, self.context_sample)

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
