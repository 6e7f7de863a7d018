"""The agents' models behind one interface."""

from bayes_cmab.policies.averaged import averaged
from bayes_cmab.policies.base import Policy
from bayes_cmab.policies.direct import DirectPolicy, FunctionPolicy
from bayes_cmab.policies.draws import DrawsPolicy, HyperparameterDraws
from bayes_cmab.policies.embedding import EmbeddingPolicy
from bayes_cmab.policies.known import KnownRewardPolicy
from bayes_cmab.policies.marginal import MarginalPolicy
from bayes_cmab.policies.marginal_residual import MarginalResidualPolicy
from bayes_cmab.policies.residual import ResidualPolicy
from bayes_cmab.policies.transition import TransitionPolicy
from bayes_cmab.programs import Program

__all__ = [
    "DirectPolicy",
    "DrawsPolicy",
    "EmbeddingPolicy",
    "FunctionPolicy",
    "HyperparameterDraws",
    "KnownRewardPolicy",
    "MarginalPolicy",
    "MarginalResidualPolicy",
    "Policy",
    "Program",
    "ResidualPolicy",
    "TransitionPolicy",
    "averaged",
]
