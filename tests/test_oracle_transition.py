"""Every value of ``transition.json`` (50-digit arithmetic), field by field."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

from bayes_cmab import posteriors
from bayes_cmab.data import Outcomes, Transitions
from bayes_cmab.models import (
    EmbeddingHyperparameters,
    EmbeddingModel,
    RewardHyperparameters,
    RewardModel,
)
from bayes_cmab.posteriors import Predicted
from bayes_cmab.residual import residual_gram, residual_moments

CASES = oracles.load("transition.json")["cases"]


def pad(rows: Any, padding: int) -> jax.Array:
    return jnp.pad(jnp.asarray(rows, float), ((0, padding), (0, 0)), constant_values=0.7)


@jax.jit
def compute(
    reward_hyper: RewardHyperparameters,
    embedding_hyper: EmbeddingHyperparameters,
    transitions: Transitions,
    outcomes: Outcomes,
    there: Predicted,
    here: Predicted,
    context: jax.Array,
    actions: jax.Array,
) -> dict[str, jax.Array]:
    models = RewardModel(), EmbeddingModel()
    t = transitions
    reward = posteriors.condition_reward(models[0], reward_hyper, outcomes)
    embedding = posteriors.condition_embedding(
        models[1], embedding_hyper, t.contexts, t.actions, t.size
    )
    moments = residual_moments(
        *(*models, reward, embedding, t.intermediates, there, here, context, actions)
    )
    gram = residual_gram(t.intermediates, there.atoms, reward_hyper.lengthscale_r, t.mask)
    return moments._asdict() | {"residual_gram": gram}


@pytest.mark.parametrize(("index", "padding"), [(0, 0), (1, 0), (2, 0), (0, 3), (2, 3)])
def test_every_expected_field_of_the_transition_oracle(index: int, padding: int) -> None:
    case = CASES[index]
    h = {k: jnp.asarray(v, float) for k, v in case["hyperparameters"].items()}
    n, m, d = len(case["contexts"]), len(case["outcome"]), h["lengthscale_r"].shape[0]
    got = compute(
        RewardHyperparameters(
            h["lengthscale_r"],
            h["reward_variance"],
            h["reward_noise"],
            h["mean_variance"],
            h["measure_mean"],
            jnp.broadcast_to(h["measure_scale"], (d,)),
        ),
        EmbeddingHyperparameters(
            *(h[name] for name in ("lengthscale_s", "lengthscale_a")),
            *(h[name] for name in ("embedding_variance", "embedding_noise")),
        ),
        Transitions.create(
            case["contexts"], case["actions"], case["intermediate"], capacity=n + padding
        ),
        Outcomes.create(case["outcome_intermediate"], case["outcome"], capacity=m + padding),
        Predicted(
            pad(case["transition_mean"], padding),
            pad(case["transition_variance"], padding),
            jnp.broadcast_to(h["transition_noise"], (n + padding, d)),
        ),
        Predicted(
            jnp.asarray(case["query_transition_mean"], float),
            jnp.asarray(case["query_transition_variance"], float),
            jnp.broadcast_to(h["transition_noise"], (len(case["query_actions"]), d)),
        ),
        jnp.asarray(case["query_context"], float),
        jnp.asarray(case["query_actions"], float),
    )
    assert case["expected"]
    for field, wanted in case["expected"].items():
        computed = got[field][:n, :n] if field == "residual_gram" else got[field]
        np.testing.assert_allclose(computed, wanted, rtol=1e-8, err_msg=field)
