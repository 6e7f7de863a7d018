"""Objects that options are made of: what does not make sense is refused by its name at once."""

import math

import numpy as np
import pytest

from bayes_cmab import (
    MAP,
    NUTS,
    SVI,
    EmbeddingModel,
    EmbeddingPolicy,
    FunctionPolicy,
    Gate,
    LogarithmicBeta,
    MixtureQuantile,
    RewardModel,
)
from bayes_cmab.inference import EveryRounds
from bayes_cmab.models import AdditiveRewardModel, LogNormal

WHOLE = "expected a whole number of at least"


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (MAP, {"every": 0}, f"every: {WHOLE} 1, got 0"),
        (MAP, {"every": 2.5}, f"every: {WHOLE} 1, got 2.5"),
        (MAP, {"every": math.nan}, f"every: {WHOLE} 1, got nan"),
        (MAP, {"starts": "a"}, f"starts: {WHOLE} 1, got 'a'"),
        (MAP, {"tolerance": "a"}, "tolerance: expected a number between 0.0 and inf, got 'a'"),
        (NUTS, {"draws": 0}, f"draws: {WHOLE} 1, got 0"),
        (NUTS, {"draws": 8.0}, f"draws: {WHOLE} 1, got 8.0"),
        (NUTS, {"draws": 10, "chains": 4}, "draws: expected a multiple of the 4 chains, got 10"),
        (NUTS, {"target_accept": 1.0}, "target_accept: expected a number between 0.0 and 1.0"),
        (NUTS, {"chain_method": "parallel"}, "chain_method: expected one of 'sequential', 'vec"),
        (NUTS, {"refit": 3}, "refit: expected a RefitPolicy, got 3"),
        (SVI, {"steps": 0}, f"steps: {WHOLE} 1, got 0"),
        (SVI, {"draws": "a"}, f"draws: {WHOLE} 1, got 'a'"),
        (SVI, {"learning_rate": 0.0}, "learning_rate: expected a number between 0.0 and inf"),
        (SVI, {"diagnostic_draws": 8}, "diagnostic_draws: expected at least the 64 draws, got 8"),
        (SVI, {"refit": EveryRounds}, "refit: expected a RefitPolicy, got <class"),
        (Gate, {"rhat": "a"}, "rhat: expected a number from 0.0 to inf, got 'a'"),
        (Gate, {"ess": -1}, "ess: expected a number from 0.0 to inf, got -1"),
        (Gate, {"pareto_k": math.nan}, "pareto_k: expected a number from 0.0 to inf, got nan"),
        (LogarithmicBeta, {"n_actions": 3, "delta": "a"}, "delta: expected a number between"),
        (MixtureQuantile, {"steps": 0}, f"steps: {WHOLE} 1, got 0"),
        (RewardModel, {"power": 2}, "power: expected 0 or 1, got 2"),
        (RewardModel, {"measure_scale": -1.0}, "measure_scale: expected a number between 0.0"),
        (RewardModel, {"priors": 3}, "priors: expected a RewardPriors, got 3"),
        (AdditiveRewardModel, {"measure_scale": math.nan}, "measure_scale: expected a number"),
        (EmbeddingModel, {"kernel": ["rbf", "rbf"]}, "kernel: expected"),
        (EmbeddingModel, {"priors": 3}, "priors: expected a EmbeddingPriors, got 3"),
        (EmbeddingPolicy, {"reward": 3}, "reward: expected a RewardModel, got 3"),
        (EmbeddingPolicy, {"embedding": 3}, "embedding: expected a EmbeddingModel, got 3"),
        (FunctionPolicy, {"function": 3}, "function: expected a function, got 3"),
        (LogNormal, {"median": -1.0, "spread": 1.0}, "median: expected a number between 0.0"),
        (LogNormal, {"median": 1.0, "spread": True}, "spread: expected a number between 0.0"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    kind: type, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**options)


def test_numbers_of_numpy_are_numbers() -> None:
    assert MAP(every=np.int64(3)).every == 3
    assert Gate(rhat=np.float32(1.5), ess=np.inf, elbo_drift=0).ess == np.inf
