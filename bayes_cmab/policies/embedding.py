"""Agents with a reward GP and a conditional mean embedding: CBMP-UCB, CME-UCB, I-CME-UCB."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Array

from bayes_cmab import baselines, moments, posteriors
from bayes_cmab.data import Data
from bayes_cmab.models import EmbeddingModel, RewardModel
from bayes_cmab.models.embedding import reference_features
from bayes_cmab.models.priors import Sites
from bayes_cmab.moments import Moments
from bayes_cmab.policies.base import Policy, Program
from bayes_cmab.posteriors import EmbeddingPosterior, RewardPosterior, Targets
from bayes_cmab.scaling import Scales

MOMENTS: dict[str, Callable[..., Moments]] = {
    "operator": moments.operator_moments,
    "proposition": moments.proposition_moments,
    "cme_ucb": baselines.cme_ucb_moments,
    "improved_cme_ucb": baselines.improved_cme_ucb_moments,
}


class EmbeddingState(NamedTuple):
    """State of an `EmbeddingPolicy`."""

    reward: RewardPosterior
    targets: Targets
    embedding: EmbeddingPosterior


@dataclass(frozen=True)
class EmbeddingPolicy(Policy[EmbeddingState]):
    """An agent with a reward GP and a conditional mean embedding: CBMP-UCB, CME-UCB, I-CME-UCB.

    Attributes
    ----------
    moments_form : a key of ``MOMENTS``.
    reward, embedding : the models.
    """

    moments_form: str = "operator"
    reward: RewardModel = RewardModel()
    embedding: EmbeddingModel = EmbeddingModel()

    def default_sites(self, p: int, q: int, d: int) -> Sites:
        """Return the medians of the priors."""
        return self.reward.default_sites(d) | self.embedding.default_sites(p, q)

    def programs(self, data: Data) -> dict[str, Program]:
        """Return the reward program on D2 and the embedding program on D1."""
        features = reference_features(data.transitions)
        return {
            "reward": Program(self.reward, (data.outcomes,)),
            "embedding": Program(self.embedding, (data.transitions, features)),
        }

    def condition(self, sites: Sites, data: Data, scales: Scales) -> EmbeddingState:
        """Condition both models."""
        del scales
        t = data.transitions
        reward = posteriors.condition_reward(
            self.reward, self.reward.hyperparameters(sites), data.outcomes
        )
        return EmbeddingState(
            reward,
            posteriors.condition_targets(self.reward, reward, t.intermediates, t.size),
            posteriors.condition_embedding(
                self.embedding,
                self.embedding.hyperparameters(sites),
                t.contexts,
                t.actions,
                t.size,
            ),
        )

    def observe_transition(
        self, state: EmbeddingState, context: Array, action: Array, intermediate: Array
    ) -> EmbeddingState:
        """Add a target and a row of the embedding."""
        return state._replace(
            targets=posteriors.append_target(
                self.reward, state.reward, state.targets, intermediate
            ),
            embedding=posteriors.append_embedding(self.embedding, state.embedding, context, action),
        )

    def observe_outcome(
        self, state: EmbeddingState, intermediate: Array, y: Array
    ) -> EmbeddingState:
        """Condition the reward GP."""
        reward, targets = posteriors.append_outcome(
            self.reward, state.reward, state.targets, intermediate, y
        )
        return state._replace(reward=reward, targets=targets)

    def moments(self, state: EmbeddingState, context: Array, actions: Array) -> Moments:
        """Return the moments in the chosen form."""
        form = MOMENTS[self.moments_form]
        return form(self.reward, self.embedding, *state, context, actions)
