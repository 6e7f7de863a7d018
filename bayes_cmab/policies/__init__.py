"""The agents' models behind one interface."""

from bayes_cmab.policies.base import Policy
from bayes_cmab.policies.direct import DirectPolicy, FunctionPolicy
from bayes_cmab.policies.embedding import EmbeddingPolicy
from bayes_cmab.policies.known import KnownRewardPolicy
from bayes_cmab.policies.marginal import HyperparameterDraws, MarginalPolicy
from bayes_cmab.policies.residual import ResidualPolicy
from bayes_cmab.policies.transition import TransitionPolicy
from bayes_cmab.programs import Program

__all__ = [
    "DirectPolicy",
    "EmbeddingPolicy",
    "FunctionPolicy",
    "HyperparameterDraws",
    "KnownRewardPolicy",
    "MarginalPolicy",
    "Policy",
    "Program",
    "ResidualPolicy",
    "TransitionPolicy",
]
