"""Bayesian contextual bandits whose actions work through an intermediate reward.

A context s arrives, the agent picks an action a, an intermediate r ~ P(r | s, a) follows, and an
outcome y = f(r) + noise; the agent maximises the sum of y.

>>> import bayes_cmab, numpyro
>>> numpyro.enable_x64()
>>> agent = bayes_cmab.Agent(actions=[-1.0, 0.0, 1.0], beta=0.25, seed=1)
>>> decision = agent.ask([0.5])
>>> agent.tell(decision.ticket, intermediate=0.7, outcome=1.2)
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayes_cmab.acquisition import ConstantBeta, LogarithmicBeta
    from bayes_cmab.agent import Agent
    from bayes_cmab.decision import Decision
    from bayes_cmab.inference import MAP, Fixed
    from bayes_cmab.models import DirectRewardModel, EmbeddingModel, RewardModel, TransitionModel
    from bayes_cmab.policies import (
        DirectPolicy,
        EmbeddingPolicy,
        FunctionPolicy,
        KnownRewardPolicy,
        Policy,
        TransitionPolicy,
    )
    from bayes_cmab.scaling import Scales, Units

__all__ = [
    "MAP",
    "Agent",
    "ConstantBeta",
    "Decision",
    "DirectPolicy",
    "DirectRewardModel",
    "EmbeddingModel",
    "EmbeddingPolicy",
    "Fixed",
    "FunctionPolicy",
    "KnownRewardPolicy",
    "LogarithmicBeta",
    "Policy",
    "RewardModel",
    "Scales",
    "TransitionModel",
    "TransitionPolicy",
    "Units",
    "__version__",
]

__version__ = version("bayes-cmab")

_HOMES = {
    "MAP": "bayes_cmab.inference",
    "Agent": "bayes_cmab.agent",
    "ConstantBeta": "bayes_cmab.acquisition",
    "Decision": "bayes_cmab.decision",
    "DirectPolicy": "bayes_cmab.policies",
    "DirectRewardModel": "bayes_cmab.models",
    "EmbeddingModel": "bayes_cmab.models",
    "EmbeddingPolicy": "bayes_cmab.policies",
    "Fixed": "bayes_cmab.inference",
    "FunctionPolicy": "bayes_cmab.policies",
    "KnownRewardPolicy": "bayes_cmab.policies",
    "LogarithmicBeta": "bayes_cmab.acquisition",
    "Policy": "bayes_cmab.policies",
    "RewardModel": "bayes_cmab.models",
    "Scales": "bayes_cmab.scaling",
    "TransitionModel": "bayes_cmab.models",
    "TransitionPolicy": "bayes_cmab.policies",
    "Units": "bayes_cmab.scaling",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command line starts quickly."""
    if name not in _HOMES:
        raise AttributeError(f"module 'bayes_cmab' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
