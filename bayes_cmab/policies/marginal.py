"""CBMP-UCB and CME-UCB averaged over draws of their hyperparameters."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bayes_cmab import marginal, posteriors
from bayes_cmab.data import Data
from bayes_cmab.models.embedding import reference_lengthscale
from bayes_cmab.models.priors import Sites
from bayes_cmab.moments import Mixture, Moments
from bayes_cmab.policies.base import Policy
from bayes_cmab.policies.embedding import EmbeddingPolicy
from bayes_cmab.posteriors import MarginalPosterior, WeightedDraws
from bayes_cmab.posteriors.marginal import embedding_log_likelihood, reward_log_likelihood
from bayes_cmab.scaling import Scales

PROGRAMS = ("reward", "embedding")
"""Order of the programs wherever there is one number for each."""

FORMS = ("operator", "cme_ucb")
"""Forms of the moments that are averaged over draws."""


class HyperparameterDraws(NamedTuple):
    """What a `MarginalPolicy` takes as hyperparameters.

    Attributes
    ----------
    reward, embedding : draws of both programs.
    lengthscale : (d,) reference of the embedding's likelihood when its draws were made.
    """

    reward: WeightedDraws
    embedding: WeightedDraws
    lengthscale: Float[Array, " d"]


@dataclass(frozen=True)
class MarginalPolicy(Policy[MarginalPosterior]):
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

    def default_sites(self, p: int, q: int, d: int) -> Sites:
        """Return the medians of the priors; `HyperparameterDraws` come from the inference."""
        return self.base.default_sites(p, q, d)

    def models(self) -> dict[str, Callable[..., None]]:
        """Return the programs of the base."""
        return self.base.models()

    def arguments(self, data: Data, sites: Sites) -> dict[str, tuple[Any, ...]]:
        """Return the arguments of the base."""
        return self.base.arguments(data, sites)

    def condition(self, sites: Any, data: Data, scales: Scales) -> MarginalPosterior:
        """Condition every draw; ``sites`` are `HyperparameterDraws`."""
        del scales
        return self._conditioned(sites, data)

    def _conditioned(self, draws: HyperparameterDraws, data: Data) -> MarginalPosterior:
        return posteriors.condition_marginal(
            *(self.base.reward, self.base.embedding, draws.reward, draws.embedding),
            *(data, draws.lengthscale),
        )

    def refitted(
        self, draws: HyperparameterDraws, data: Data, fresh: Bool[Array, " 2"]
    ) -> tuple[HyperparameterDraws, MarginalPosterior]:
        """Condition every draw, and take note of the likelihood that fresh ones were drawn with.

        Parameters
        ----------
        draws : of both programs; what a fresh one has as ``at_fit`` is the logarithm of minus its
            importance weight (zero for a sampler).
        data : all rows.
        fresh : whether the draws of each of ``PROGRAMS`` were made with these data.
        """
        t = data.transitions
        reference = jnp.broadcast_to(
            reference_lengthscale(t.intermediates, t.mask), draws.lengthscale.shape
        )
        draws = draws._replace(lengthscale=jnp.where(fresh[1], reference, draws.lengthscale))
        state = self._conditioned(draws, data)

        def noted(own: WeightedDraws, now: Array, is_fresh: Array) -> WeightedDraws:
            return own._replace(at_fit=jnp.where(is_fresh, own.at_fit + now, own.at_fit))

        likelihood = reward_log_likelihood(self.base.reward, state)
        reward = noted(draws.reward, likelihood, fresh[0])
        embedding = noted(draws.embedding, embedding_log_likelihood(state), fresh[1])
        state = state._replace(reward_at_fit=reward.at_fit, embedding_at_fit=embedding.at_fit)
        return HyperparameterDraws(reward, embedding, draws.lengthscale), state

    def effective_shares(self, state: MarginalPosterior) -> Float[Array, " 2"]:
        """Return the effective sample size over the number of draws, for ``PROGRAMS``."""
        weights = posteriors.log_weights(self.base.reward, state)
        sizes = [posteriors.effective_sample_size(w) / w.shape[0] for w in weights]
        return jnp.stack(sizes)

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
