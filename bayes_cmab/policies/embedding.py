"""Agents with a reward GP and a conditional mean embedding: CBMP-UCB, CME-UCB, I-CME-UCB."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, PRNGKeyArray

from bayes_cmab import baselines, moments, posteriors
from bayes_cmab.data import Data
from bayes_cmab.models import AdditiveRewardModel, EmbeddingModel, RewardModel
from bayes_cmab.models.embedding import reference_features
from bayes_cmab.models.priors import Sites
from bayes_cmab.moments import Moments
from bayes_cmab.policies.base import Policy
from bayes_cmab.posteriors import EmbeddingPosterior, RewardPosterior, Targets
from bayes_cmab.programs import checked_medians
from bayes_cmab.scaling import Scales
from bayes_cmab.validate import instance_of, one_of

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
    reward_program, embedding_program : NumPyro programs to infer the hyperparameters with, in
        place of the models' own; called with ``(outcomes)`` and ``(transitions, features)``. They
        must have the models' sites, as sample or deterministic sites (see ``docs/inference.md``).
    """

    moments_form: str = "operator"
    reward: RewardModel = RewardModel()
    embedding: EmbeddingModel = EmbeddingModel()
    reward_program: Callable[..., None] | None = None
    embedding_program: Callable[..., None] | None = None

    def __post_init__(self) -> None:
        instance_of(self.reward, "reward", RewardModel)
        instance_of(self.embedding, "embedding", EmbeddingModel)
        if self.moments_form != "operator" and isinstance(self.reward, AdditiveRewardModel):
            raise ValueError(
                "moments_form: expected 'operator' with an AdditiveRewardModel, "
                f"got {self.moments_form!r}"
            )
        form = one_of(self.moments_form, "moments_form", list(MOMENTS))
        if form != "operator" and self.reward.integrated_mean:
            raise ValueError(
                f"reward: expected integrated_mean=False with moments_form {form!r}, which has no "
                f"constant mean, got {self.reward!r}"
            )
        unit = self.reward.unit_variance and self.embedding.unit_variance
        if form in ("cme_ucb", "improved_cme_ucb") and not unit:
            raise ValueError(
                f"reward, embedding: expected unit_variance=True with moments_form {form!r}, got "
                f"{self.reward!r} and {self.embedding!r}"
            )

    def default_sites(self, p: int, q: int, d: int) -> Sites:
        """Return the medians of the priors.

        Raises
        ------
        ValueError
            If a program of the user's lacks a site of the model, or has it in another shape.
        """
        sites = self.reward.default_sites(d) | self.embedding.default_sites(p, q)
        given = {"reward": self.reward_program, "embedding": self.embedding_program}
        if any(given.values()):
            programs = self.programs(Data.empty(p, q, d, 1), sites)
            for name in (name for name, program in given.items() if program is not None):
                own = {site: value for site, value in sites.items() if site.startswith(name)}
                sites |= checked_medians(programs[name], f"{name}_program", own)
        return sites

    def models(self) -> dict[str, Callable[..., None]]:
        """Return the reward program and the embedding program."""
        return {
            "reward": self.reward_program or self.reward,
            "embedding": self.embedding_program or self.embedding,
        }

    def arguments(self, data: Data, sites: Sites) -> dict[str, tuple[Any, ...]]:
        """Return D2 for the reward program, D1 and its features for the embedding program."""
        del sites
        features = reference_features(data.transitions)
        return {"reward": (data.outcomes,), "embedding": (data.transitions, features)}

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

    @property
    def draws_jointly(self) -> bool:
        """Whether the moments are exact: the other forms are bounds, not distributions."""
        return self.moments_form == "operator"

    def sample(
        self, state: EmbeddingState, context: Array, actions: Array, key: PRNGKeyArray
    ) -> Array:
        """Draw ``g`` at all actions jointly."""
        arguments = (self.reward, self.embedding, *state, context, actions)
        mean = moments.operator_moments(*arguments).mean
        # The third of three keys, as a MarginalPolicy spends two on its draws.
        key = jax.random.split(key, 3)[2]
        return moments.sample_normal(key, mean, moments.operator_covariance(*arguments))
