"""The NumPyro programs and the pure functions that they are made of."""

from bayes_cmab.models.additive import AdditiveHyperparameters, AdditiveRewardModel
from bayes_cmab.models.anova import AnovaEmbeddingModel, AnovaHyperparameters
from bayes_cmab.models.embedding import DirectRewardModel, EmbeddingModel
from bayes_cmab.models.heteroscedastic import HeteroscedasticTransitionModel
from bayes_cmab.models.hyperparameters import (
    EmbeddingHyperparameters,
    RewardHyperparameters,
    TransitionHyperparameters,
)
from bayes_cmab.models.priors import (
    AdditivePriors,
    AnovaPriors,
    EmbeddingPriors,
    LogNormal,
    RewardPriors,
    TransitionPriors,
)
from bayes_cmab.models.reward import RewardModel
from bayes_cmab.models.transition import TransitionModel

__all__ = [
    "AdditiveHyperparameters",
    "AdditivePriors",
    "AdditiveRewardModel",
    "AnovaEmbeddingModel",
    "AnovaHyperparameters",
    "AnovaPriors",
    "DirectRewardModel",
    "EmbeddingHyperparameters",
    "EmbeddingModel",
    "EmbeddingPriors",
    "HeteroscedasticTransitionModel",
    "LogNormal",
    "RewardHyperparameters",
    "RewardModel",
    "RewardPriors",
    "TransitionHyperparameters",
    "TransitionModel",
    "TransitionPriors",
]
