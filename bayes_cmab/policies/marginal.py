"""CBMP-UCB and CME-UCB averaged over draws of their hyperparameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bayes_cmab import marginal, posteriors
from bayes_cmab.data import Data
from bayes_cmab.models.embedding import reference_lengthscale
from bayes_cmab.moments import Mixture, Moments
from bayes_cmab.policies.draws import DrawsPolicy, HyperparameterDraws, noted
from bayes_cmab.policies.embedding import EmbeddingPolicy
from bayes_cmab.posteriors import MarginalPosterior, WeightedDraws
from bayes_cmab.posteriors.marginal import embedding_log_likelihood, reward_log_likelihood
from bayes_cmab.scaling import Scales

FORMS = ("operator", "cme_ucb")
"""Forms of the moments that are averaged over draws."""


@dataclass(frozen=True)
class MarginalPolicy(DrawsPolicy[MarginalPosterior]):
    """An `EmbeddingPolicy` averaged over all pairs of draws of its hyperparameters.

    Attributes
    ----------
    base : the policy, in operator form or in that of CME-UCB.
    """

    base: EmbeddingPolicy = EmbeddingPolicy()

    def __post_init__(self) -> None:
        if not isinstance(self.base, EmbeddingPolicy) or self.base.moments_form not in FORMS:
            raise ValueError(
                "policy: expected an EmbeddingPolicy with moments_form 'operator' or 'cme_ucb' "
                f"to average over draws, got {self.base!r}"
            )
        if self.base.embedding.likelihood != "composite":
            raise ValueError(
                "policy: expected an embedding with likelihood 'composite' to average over draws, "
                f"got {self.base.embedding.likelihood!r}, whose draws cannot be reweighted"
            )

    def condition(self, sites: Any, data: Data, scales: Scales) -> MarginalPosterior:
        """Condition every draw; ``sites`` are `HyperparameterDraws`."""
        del scales
        return self._conditioned(sites, data)

    def _conditioned(self, draws: HyperparameterDraws, data: Data) -> MarginalPosterior:
        reward, embedding = (draws.programs[name] for name in self.names)
        models = (self.base.reward, self.base.embedding)
        return posteriors.condition_marginal(*models, reward, embedding, data, draws.lengthscale)

    def given(
        self,
        name: str,
        data: Data,
        draws: Mapping[str, WeightedDraws],
        fresh: Mapping[str, Bool[Array, ""]],
    ) -> tuple[Any, ...]:
        """Return the data set of a program, which depends on no other."""
        del draws, fresh
        return self.base.arguments(data, {})[name]

    def refitted(
        self, draws: HyperparameterDraws, data: Data, fresh: Bool[Array, " 2"]
    ) -> tuple[HyperparameterDraws, MarginalPosterior]:
        """Condition every draw; see `DrawsPolicy.refitted`."""
        t = data.transitions
        reference = jnp.broadcast_to(
            reference_lengthscale(t.intermediates, t.mask), draws.lengthscale.shape
        )
        draws = draws._replace(lengthscale=jnp.where(fresh[1], reference, draws.lengthscale))
        state = self._conditioned(draws, data)
        own = draws.programs
        likelihood = reward_log_likelihood(self.base.reward, state.reward)
        reward = noted(own["reward"], likelihood, fresh[0])
        embedding = noted(own["embedding"], embedding_log_likelihood(state), fresh[1])
        state = state._replace(reward_at_fit=reward.at_fit, embedding_at_fit=embedding.at_fit)
        programs = {"reward": reward, "embedding": embedding}
        return HyperparameterDraws(programs, draws.lengthscale), state

    def log_weights(self, state: MarginalPosterior) -> dict[str, Float[Array, " draws"]]:
        """Return the normalised log weights of the draws of both programs."""
        weights = posteriors.log_weights(self.base.reward, state)
        return dict(zip(self.names, weights, strict=True))

    def observe_transition(
        self, state: MarginalPosterior, context: Array, action: Array, intermediate: Array
    ) -> MarginalPosterior:
        """Add a target and a row of the embedding to every draw."""
        return posteriors.append_marginal_transition(
            self.base.reward, self.base.embedding, state, context, action, intermediate
        )

    def observe_outcome(
        self, state: MarginalPosterior, intermediate: Array, outcome: Array
    ) -> MarginalPosterior:
        """Condition the reward GP of every draw."""
        return posteriors.append_marginal_outcome(self.base.reward, state, intermediate, outcome)

    def moments(self, state: MarginalPosterior, context: Array, actions: Array) -> Moments:
        """Return the matched moments over all pairs of draws."""
        return marginal.marginal_moments(
            *(self.base.reward, self.base.embedding, state, context, actions),
            operator=self.base.moments_form == "operator",
        )

    def mixture(self, state: MarginalPosterior, context: Array, actions: Array) -> Mixture:
        """Return the distribution of ``g`` under every pair of draws."""
        return marginal.pairwise_mixture(
            *(self.base.reward, self.base.embedding, state, context, actions),
            operator=self.base.moments_form == "operator",
        )

    @property
    def draws_jointly(self) -> bool:
        """Whether `sample` is there."""
        return self.base.draws_jointly

    def sample(
        self, state: MarginalPosterior, context: Array, actions: Array, key: PRNGKeyArray
    ) -> Array:
        """Draw ``g`` at all actions jointly, under a pair of draws chosen by weight."""
        models = (self.base.reward, self.base.embedding)
        return marginal.sample_joint(*models, state, context, actions, key)
