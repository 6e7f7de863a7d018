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
    from bayes_cmab.acquisition import (
        ConstantBeta,
        LogarithmicBeta,
        MatchedMomentsUCB,
        MeanUCB,
        MixtureQuantile,
        Thompson,
    )
    from bayes_cmab.agent import Agent
    from bayes_cmab.boxes import Box
    from bayes_cmab.categories import Period
    from bayes_cmab.decision import Decision
    from bayes_cmab.history import ConvergenceWarning
    from bayes_cmab.inference import MAP, NUTS, SVI, EffectiveSampleSize, EveryRounds, Fixed, Never
    from bayes_cmab.inference.gate import Gate
    from bayes_cmab.models import (
        AdditiveRewardModel,
        AnovaEmbeddingModel,
        DirectRewardModel,
        EmbeddingModel,
        HeteroscedasticTransitionModel,
        RewardModel,
        TransitionModel,
    )
    from bayes_cmab.policies import (
        DirectPolicy,
        EmbeddingPolicy,
        FunctionPolicy,
        KnownRewardPolicy,
        MarginalPolicy,
        MarginalResidualPolicy,
        Policy,
        ResidualPolicy,
        StackedPolicy,
        TransitionPolicy,
    )
    from bayes_cmab.scaling import Scales, Units

__all__ = [
    "MAP",
    "NUTS",
    "SVI",
    "AdditiveRewardModel",
    "Agent",
    "AnovaEmbeddingModel",
    "Box",
    "ConstantBeta",
    "ConvergenceWarning",
    "Decision",
    "DirectPolicy",
    "DirectRewardModel",
    "EffectiveSampleSize",
    "EmbeddingModel",
    "EmbeddingPolicy",
    "EveryRounds",
    "Fixed",
    "FunctionPolicy",
    "Gate",
    "HeteroscedasticTransitionModel",
    "KnownRewardPolicy",
    "LogarithmicBeta",
    "MarginalPolicy",
    "MarginalResidualPolicy",
    "MatchedMomentsUCB",
    "MeanUCB",
    "MixtureQuantile",
    "Never",
    "Period",
    "Policy",
    "ResidualPolicy",
    "RewardModel",
    "Scales",
    "StackedPolicy",
    "Thompson",
    "TransitionModel",
    "TransitionPolicy",
    "Units",
    "__version__",
]

__version__ = version("bayes-cmab")

_HOMES = {
    "MAP": "bayes_cmab.inference",
    "NUTS": "bayes_cmab.inference",
    "SVI": "bayes_cmab.inference",
    "Agent": "bayes_cmab.agent",
    "AdditiveRewardModel": "bayes_cmab.models",
    "AnovaEmbeddingModel": "bayes_cmab.models",
    "Box": "bayes_cmab.boxes",
    "ConstantBeta": "bayes_cmab.acquisition",
    "ConvergenceWarning": "bayes_cmab.history",
    "Decision": "bayes_cmab.decision",
    "DirectPolicy": "bayes_cmab.policies",
    "DirectRewardModel": "bayes_cmab.models",
    "EffectiveSampleSize": "bayes_cmab.inference",
    "EmbeddingModel": "bayes_cmab.models",
    "EmbeddingPolicy": "bayes_cmab.policies",
    "EveryRounds": "bayes_cmab.inference",
    "Fixed": "bayes_cmab.inference",
    "FunctionPolicy": "bayes_cmab.policies",
    "Gate": "bayes_cmab.inference.gate",
    "HeteroscedasticTransitionModel": "bayes_cmab.models",
    "KnownRewardPolicy": "bayes_cmab.policies",
    "LogarithmicBeta": "bayes_cmab.acquisition",
    "MarginalPolicy": "bayes_cmab.policies",
    "MarginalResidualPolicy": "bayes_cmab.policies",
    "MatchedMomentsUCB": "bayes_cmab.acquisition",
    "MeanUCB": "bayes_cmab.acquisition",
    "MixtureQuantile": "bayes_cmab.acquisition",
    "Never": "bayes_cmab.inference",
    "Period": "bayes_cmab.categories",
    "Policy": "bayes_cmab.policies",
    "ResidualPolicy": "bayes_cmab.policies",
    "RewardModel": "bayes_cmab.models",
    "Scales": "bayes_cmab.scaling",
    "StackedPolicy": "bayes_cmab.policies",
    "Thompson": "bayes_cmab.acquisition",
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
