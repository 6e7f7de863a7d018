"""CBMP-UCB whose embedding corrects transition GPs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bayes_cmab import posteriors
from bayes_cmab.data import Data
from bayes_cmab.models import AnovaEmbeddingModel, EmbeddingModel, RewardModel, TransitionModel
from bayes_cmab.models.embedding import Features, reference_features, reference_lengthscale
from bayes_cmab.models.priors import Sites
from bayes_cmab.moments import Moments
from bayes_cmab.policies.base import Policy
from bayes_cmab.posteriors import (
    EmbeddingPosterior,
    Predicted,
    RewardPosterior,
    Targets,
    TransitionPosterior,
)
from bayes_cmab.residual import residual_gram, residual_moments, sample_residual
from bayes_cmab.scaling import Scales


class ResidualState(NamedTuple):
    """State of a `ResidualPolicy`."""

    reward: RewardPosterior
    targets: Targets
    transition: TransitionPosterior
    embedding: EmbeddingPosterior
    intermediates: Float[Array, "N d"]


@dataclass(frozen=True)
class ResidualPolicy(Policy[ResidualState]):
    """CBMP-UCB with transition GPs as the prior mean of the embedding.

    The transitions are used twice: for the transition GPs, and for the embedding of what these
    leave unexplained. Inference is modular: the transition's hyperparameters come from their own
    likelihood, and the embedding's from the composite likelihood of the residual, given them.

    Attributes
    ----------
    reward, transition, embedding : the models; the embedding's is that of the residual.
    """

    one_trial_at_a_time: ClassVar[bool] = True

    reward: RewardModel = RewardModel()
    transition: TransitionModel = TransitionModel()
    embedding: EmbeddingModel = AnovaEmbeddingModel()

    def __post_init__(self) -> None:
        if self.embedding.likelihood != "composite":
            raise ValueError(
                "embedding: expected the likelihood 'composite', the one that the residual has, "
                f"got {self.embedding.likelihood!r}"
            )

    def default_sites(self, p: int, q: int, d: int) -> Sites:
        """Return the medians of the priors."""
        return (
            self.reward.default_sites(d)
            | self.transition.default_sites(p, q, d)
            | self.embedding.default_sites(p, q)
        )

    def models(self) -> dict[str, Callable[..., None]]:
        """Return the programs; the transition comes before the embedding, which depends on it."""
        return {
            "reward": self.reward,
            "transition": self.transition,
            "embedding": self.embedding,
        }

    def arguments(self, data: Data, sites: Sites) -> dict[str, tuple[Any, ...]]:
        """Return D2, D1, and D1 with the Gram matrix of the residual."""
        return {
            "reward": (data.outcomes,),
            "transition": (data.transitions,),
            "embedding": (data.transitions, self.residual_features(data, sites)),
        }

    def residual_features(self, data: Data, sites: Sites) -> Features:
        """Return the residual's features at the reference lengthscale, given the transition."""
        t = data.transitions
        hyper = self.transition.hyperparameters(sites)
        transition = posteriors.condition_transition(self.transition, hyper, t)
        fitted = posteriors.fitted_transition(self.transition, transition, t.intermediates)
        plain = reference_features(t)
        lengthscale = reference_lengthscale(t.intermediates, t.mask)
        reference = jnp.broadcast_to(lengthscale, (t.intermediates.shape[1],))
        return plain._replace(gram=residual_gram(t.intermediates, fitted.atoms, reference, t.mask))

    def condition(self, sites: Any, data: Data, scales: Scales) -> ResidualState:
        """Condition the three models."""
        del scales
        t = data.transitions
        reward = posteriors.condition_reward(
            self.reward, self.reward.hyperparameters(sites), data.outcomes
        )
        nowhere = jnp.zeros((0, reward.points.shape[1]))
        hyper = self.embedding.hyperparameters(sites)
        return ResidualState(
            reward,
            posteriors.condition_targets(self.reward, reward, nowhere, jnp.asarray(0)),
            posteriors.condition_transition(
                self.transition, self.transition.hyperparameters(sites), t
            ),
            posteriors.condition_embedding(self.embedding, hyper, t.contexts, t.actions, t.size),
            t.intermediates,
        )

    def observe_transition(
        self, state: ResidualState, context: Array, action: Array, intermediate: Array
    ) -> ResidualState:
        """Condition the transition GPs and the embedding."""
        i = state.embedding.size
        return state._replace(
            transition=posteriors.append_transition(
                self.transition, state.transition, context, action, intermediate
            ),
            embedding=posteriors.append_embedding(self.embedding, state.embedding, context, action),
            intermediates=state.intermediates.at[i].set(intermediate),
        )

    def observe_outcome(
        self, state: ResidualState, intermediate: Array, outcome: Array
    ) -> ResidualState:
        """Condition the reward GP."""
        reward, targets = posteriors.append_outcome(
            self.reward, state.reward, state.targets, intermediate, outcome
        )
        return state._replace(reward=reward, targets=targets)

    def moments(self, state: ResidualState, context: Array, actions: Array) -> Moments:
        """Return the moments of ``g``."""
        return residual_moments(
            *(self.reward, self.embedding, state.reward, state.embedding),
            *(state.intermediates, *self._predicted(state, context, actions)),
            *(context, actions),
        )

    def _predicted(
        self, state: ResidualState, context: Array, actions: Array
    ) -> tuple[Predicted, Predicted]:
        """Return what the transition GPs say at the transitions and at the actions."""
        known = (self.transition, state.transition)
        return (
            posteriors.fitted_transition(*known, state.intermediates),
            posteriors.predict_transition(*known, context, actions),
        )

    @property
    def draws_jointly(self) -> bool:
        """Whether `sample` is there."""
        return True

    def sample(
        self, state: ResidualState, context: Array, actions: Array, key: PRNGKeyArray
    ) -> Array:
        """Draw ``g`` at all actions jointly."""
        covariance = posteriors.transition_covariance(
            self.transition, state.transition, context, actions
        )
        return sample_residual(
            *(self.reward, self.embedding, state.reward, state.embedding),
            *(state.intermediates, *self._predicted(state, context, actions)),
            *(covariance, context, actions),
            # The last of four keys, as a MarginalResidualPolicy spends three on its draws.
            jax.random.split(key, 4)[3],
        )
