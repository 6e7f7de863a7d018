"""CBMP-UCB with a transition prior, averaged over draws of its hyperparameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bayes_cmab import posteriors
from bayes_cmab.data import Data
from bayes_cmab.marginal_residual import (
    marginal_residual_moments,
    mean_residual_gram,
    residual_mixture,
    sample_residual_joint,
)
from bayes_cmab.models.embedding import reference_features, reference_lengthscale
from bayes_cmab.moments import Mixture, Moments
from bayes_cmab.policies.draws import DrawsPolicy, HyperparameterDraws, noted
from bayes_cmab.policies.residual import ResidualPolicy
from bayes_cmab.posteriors import ResidualDraws, WeightedDraws
from bayes_cmab.posteriors.marginal import reward_log_likelihood
from bayes_cmab.posteriors.marginal_residual import (
    condition_transition_draws,
    transition_log_likelihood,
)
from bayes_cmab.scaling import Scales
from bayes_cmab.validate import whole_number


@dataclass(frozen=True)
class MarginalResidualPolicy(DrawsPolicy[ResidualDraws]):
    """A `ResidualPolicy` averaged over draws of its hyperparameters.

    The residual's hyperparameters are drawn given those of the transition (a cut): from the
    composite likelihood averaged over the transition's draws. They are drawn anew whenever the
    transition's are, and keep their weights in between.

    Attributes
    ----------
    base : the policy.
    pairs : how many draws of each program stand for all in the moments, see `marginal_residual`.
    """

    one_trial_at_a_time: ClassVar[bool] = True

    base: ResidualPolicy = ResidualPolicy()
    pairs: int = 8

    def __post_init__(self) -> None:
        if not isinstance(self.base, ResidualPolicy):
            raise ValueError(f"base: expected a ResidualPolicy, got {self.base!r}")
        whole_number(self.pairs, "pairs", least=1)

    def joined(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the programs to fit: the embedding is fitted with the transition."""
        wanted = {*names, "embedding"} if "transition" in names else set(names)
        return tuple(name for name in self.names if name in wanted)

    def given(
        self,
        name: str,
        data: Data,
        draws: Mapping[str, WeightedDraws],
        fresh: Mapping[str, Bool[Array, ""]],
    ) -> tuple[Any, ...]:
        """Return D2, D1, or D1 with the residual's Gram matrix averaged over the transition."""
        t = data.transitions
        if name != "embedding":
            return (data.outcomes,) if name == "reward" else (t,)
        own = draws["transition"]
        transition = condition_transition_draws(self.base.transition, own.sites, data)
        gained = jnp.where(fresh["transition"], 0.0, transition_log_likelihood(transition))
        log_weight = gained - own.at_fit
        lengthscale = reference_lengthscale(t.intermediates, t.mask)
        gram = mean_residual_gram(
            self.base.transition,
            transition,
            log_weight - logsumexp(log_weight),
            t.intermediates,
            jnp.broadcast_to(lengthscale, (t.intermediates.shape[1],)),
            t.mask,
            self.pairs,
        )
        return t, reference_features(t)._replace(gram=gram)

    def condition(self, sites: Any, data: Data, scales: Scales) -> ResidualDraws:
        """Condition every draw; ``sites`` are `HyperparameterDraws`."""
        del scales
        return self._conditioned(sites.programs, data)

    def _conditioned(self, draws: dict[str, WeightedDraws], data: Data) -> ResidualDraws:
        models = (self.base.reward, self.base.transition, self.base.embedding)
        return posteriors.condition_residual_draws(*models, draws, data)

    def refitted(
        self, draws: HyperparameterDraws, data: Data, fresh: Bool[Array, " 3"]
    ) -> tuple[HyperparameterDraws, ResidualDraws]:
        """Condition every draw; see `DrawsPolicy.refitted`. The residual's weights stay."""
        state = self._conditioned(draws.programs, data)
        reward = noted(
            draws.programs["reward"],
            reward_log_likelihood(self.base.reward, state.reward),
            fresh[0],
        )
        likelihood = transition_log_likelihood(state.transition)
        transition = noted(draws.programs["transition"], likelihood, fresh[1])
        state = state._replace(reward_at_fit=reward.at_fit, transition_at_fit=transition.at_fit)
        programs = draws.programs | {"reward": reward, "transition": transition}
        return draws._replace(programs=programs), state

    def log_weights(self, state: ResidualDraws) -> dict[str, Float[Array, " draws"]]:
        """Return the normalised log weights of the draws of each program."""
        return posteriors.residual_log_weights(self.base.reward, state)

    def observe_transition(
        self, state: ResidualDraws, context: Array, action: Array, intermediate: Array
    ) -> ResidualDraws:
        """Add a row to the transition GPs and to the embedding of every draw."""
        models = (self.base.transition, self.base.embedding)
        return posteriors.append_residual_transition(*models, state, context, action, intermediate)

    def observe_outcome(
        self, state: ResidualDraws, intermediate: Array, outcome: Array
    ) -> ResidualDraws:
        """Condition the reward GP of every draw."""
        return posteriors.append_residual_outcome(self.base.reward, state, intermediate, outcome)

    def moments(self, state: ResidualDraws, context: Array, actions: Array) -> Moments:
        """Return the matched moments over draws that stand for all."""
        models = (self.base.reward, self.base.transition, self.base.embedding)
        return marginal_residual_moments(*models, state, context, actions, self.pairs)

    def mixture(self, state: ResidualDraws, context: Array, actions: Array) -> Mixture:
        """Return the distribution of ``g`` under pairs of draws that stand for all."""
        models = (self.base.reward, self.base.transition, self.base.embedding)
        return residual_mixture(*models, state, context, actions, self.pairs)

    @property
    def draws_jointly(self) -> bool:
        """Whether `sample` is there."""
        return True

    def sample(
        self, state: ResidualDraws, context: Array, actions: Array, key: PRNGKeyArray
    ) -> Array:
        """Draw ``g`` at all actions jointly, under draws of the programs chosen by weight."""
        models = (self.base.reward, self.base.transition, self.base.embedding)
        return sample_residual_joint(*models, state, context, actions, key)
