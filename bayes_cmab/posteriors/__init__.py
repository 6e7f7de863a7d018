"""Posteriors of the models given their hyperparameters, and how a new row changes them.

Each posterior is a pytree of padded arrays. ``condition_*`` computes it from the data in
``O(N^3)``; ``append_*`` adds a row in ``O(N^2)``.
"""

from bayes_cmab.posteriors.embedding import (
    EmbeddingPosterior,
    EmbeddingWeights,
    append_embedding,
    condition_embedding,
    embedding_covariance,
    embedding_weights,
)
from bayes_cmab.posteriors.reward import (
    RewardPosterior,
    Targets,
    append_outcome,
    append_target,
    condition_reward,
    condition_targets,
    reward_alpha,
    reward_offset,
    second_moment,
    target_mean,
)
from bayes_cmab.posteriors.transition import (
    TransitionPosterior,
    append_transition,
    condition_transition,
    predict_transition,
)

__all__ = [
    "EmbeddingPosterior",
    "EmbeddingWeights",
    "RewardPosterior",
    "Targets",
    "TransitionPosterior",
    "append_embedding",
    "append_outcome",
    "append_target",
    "append_transition",
    "condition_embedding",
    "condition_reward",
    "condition_targets",
    "condition_transition",
    "embedding_covariance",
    "embedding_weights",
    "predict_transition",
    "reward_alpha",
    "reward_offset",
    "second_moment",
    "target_mean",
]
