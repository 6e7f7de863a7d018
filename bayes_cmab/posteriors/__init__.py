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
from bayes_cmab.posteriors.marginal import (
    MarginalPosterior,
    WeightedDraws,
    append_marginal_outcome,
    append_marginal_transition,
    condition_marginal,
    effective_sample_size,
    log_weights,
)
from bayes_cmab.posteriors.marginal_residual import (
    ResidualDraws,
    append_residual_outcome,
    append_residual_transition,
    condition_residual_draws,
    residual_log_weights,
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
    Atoms,
    Predicted,
    TransitionPosterior,
    append_transition,
    condition_transition,
    fitted_transition,
    predict_transition,
    transition_covariance,
)

__all__ = [
    "Atoms",
    "EmbeddingPosterior",
    "EmbeddingWeights",
    "MarginalPosterior",
    "Predicted",
    "ResidualDraws",
    "RewardPosterior",
    "Targets",
    "TransitionPosterior",
    "WeightedDraws",
    "append_embedding",
    "append_marginal_outcome",
    "append_marginal_transition",
    "append_outcome",
    "append_residual_outcome",
    "append_residual_transition",
    "append_target",
    "append_transition",
    "condition_embedding",
    "condition_marginal",
    "condition_residual_draws",
    "condition_reward",
    "condition_targets",
    "condition_transition",
    "effective_sample_size",
    "embedding_covariance",
    "embedding_weights",
    "fitted_transition",
    "log_weights",
    "predict_transition",
    "residual_log_weights",
    "reward_alpha",
    "reward_offset",
    "second_moment",
    "target_mean",
    "transition_covariance",
]
