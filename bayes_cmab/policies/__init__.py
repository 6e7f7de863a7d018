"""The agents' models behind one interface."""

from bayes_cmab.policies.base import Policy, Program
from bayes_cmab.policies.direct import DirectPolicy, FunctionPolicy
from bayes_cmab.policies.embedding import EmbeddingPolicy
from bayes_cmab.policies.known import KnownRewardPolicy
from bayes_cmab.policies.transition import TransitionPolicy

__all__ = [
    "DirectPolicy",
    "EmbeddingPolicy",
    "FunctionPolicy",
    "KnownRewardPolicy",
    "Policy",
    "Program",
    "TransitionPolicy",
]
