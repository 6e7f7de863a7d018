"""Every value of ``moments.json`` (50-digit arithmetic), field by field."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

from bayes_cmab import baselines, moments, posteriors
from bayes_cmab.data import Outcomes, Transitions
from bayes_cmab.kernels import Measure
from bayes_cmab.models import (
    EmbeddingHyperparameters,
    EmbeddingModel,
    RewardHyperparameters,
    RewardModel,
)
from bayes_cmab.models.embedding import reference_features

CASES = oracles.load("moments.json")["cases"]


class Case:
    """One case of the file as the package's objects."""

    def __init__(self, case: dict[str, Any], padding: int = 0) -> None:
        h = {k: jnp.asarray(v, float) for k, v in case["hyperparameters"].items()}
        d = h["lengthscale_r"].shape[0]
        self.reward_hyper = RewardHyperparameters(
            h["lengthscale_r"],
            h["reward_variance"],
            h["reward_noise"],
            h["mean_variance"],
            h["measure_mean"],
            jnp.broadcast_to(h["measure_scale"], (d,)),
        )
        self.embedding_hyper = EmbeddingHyperparameters(
            h["lengthscale_s"],
            h["lengthscale_a"],
            h["embedding_variance"],
            h["embedding_noise"],
        )
        n, m = len(case["contexts"]), len(case["outcome"])
        self.transitions = Transitions.create(
            case["contexts"], case["actions"], case["intermediate"], capacity=n + padding
        )
        self.outcomes = Outcomes.create(
            case["outcome_intermediate"], case["outcome"], capacity=m + padding
        )
        self.context = jnp.asarray(case["query_context"], float)
        self.actions = jnp.asarray(case["query_actions"], float)
        self.features = reference_features(
            self.transitions,
            h["lengthscale_r"],
            self.reward_hyper.measure_scale,
            Measure(h["measure_mean"], self.reward_hyper.measure_scale),
        )


def posterior_arguments(
    case: Case,
    reward_model: RewardModel,
    reward_hyper: RewardHyperparameters,
    embedding_model: EmbeddingModel,
    embedding_hyper: EmbeddingHyperparameters,
) -> tuple[Any, ...]:
    t = case.transitions
    reward = posteriors.condition_reward(reward_model, reward_hyper, case.outcomes)
    targets = posteriors.condition_targets(reward_model, reward, t.intermediates, t.size)
    embedding = posteriors.condition_embedding(
        embedding_model, embedding_hyper, t.contexts, t.actions, t.size
    )
    return reward_model, embedding_model, reward, targets, embedding, case.context, case.actions


def paper(case: Case) -> tuple[Any, ...]:
    """Condition the paper's models."""
    return posterior_arguments(
        case, RewardModel(), case.reward_hyper, EmbeddingModel(), case.embedding_hyper
    )


def cme(case: Case) -> tuple[Any, ...]:
    """Condition the models of CME-UCB; the oracle does not centre the outcomes."""
    one = jnp.ones(())
    return posterior_arguments(
        case,
        RewardModel(power=0),
        case.reward_hyper._replace(reward_variance=one, mean_variance=0 * one),
        EmbeddingModel(kernel="matern52"),
        case.embedding_hyper._replace(embedding_variance=one),
    )


def log_likelihood(case: Case, likelihood: Any) -> Any:
    model = EmbeddingModel(likelihood=likelihood)
    return model.log_likelihood(case.embedding_hyper, case.transitions, case.features)


FIELDS: dict[str, tuple[float, Callable[[Case], Any]]] = {
    "operator": (
        1e-8,
        lambda c: (
            moments.operator_moments(*paper(c))._asdict()
            | {"covariance": moments.operator_covariance(*paper(c))}
        ),
    ),
    "second_moment": (1e-8, lambda c: moments.operator_moments(*paper(c)).second_moment),
    "proposition": (1e-6, lambda c: moments.proposition_moments(*paper(c))._asdict()),
    "cme_ucb": (1e-8, lambda c: baselines.cme_ucb_moments(*cme(c))._asdict()),
    "log_marginal_reward": (
        1e-8,
        lambda c: RewardModel().log_likelihood(c.reward_hyper, c.outcomes),
    ),
    "log_likelihood_composite": (1e-8, lambda c: log_likelihood(c, "composite")),
    "log_likelihood_matrix_normal": (1e-8, lambda c: log_likelihood(c, "matrix_normal")),
}
"""How each expected field of the file is computed, and its relative tolerance."""


def evaluate(case: Case, fields: list[str]) -> dict[str, Any]:
    """Compute the fields in one program."""
    values = vars(case)

    def compute(arrays: dict[str, Any]) -> dict[str, Any]:
        traced = Case.__new__(Case)
        vars(traced).update(arrays)
        return {field: FIELDS[field][1](traced) for field in fields}

    result: dict[str, Any] = jax.jit(compute)(values)
    return result


@pytest.mark.parametrize(
    ("index", "padding"), [(i, 0) for i in range(len(CASES))] + [(1, 5), (5, 5)]
)
def test_every_expected_field_of_the_moments_oracle(index: int, padding: int) -> None:
    expected = CASES[index]["expected"]
    got = evaluate(Case(CASES[index], padding), list(expected))
    assert expected
    for key, value in expected.items():
        nested = isinstance(value, dict)
        for field, wanted in value.items() if nested else [("", value)]:
            computed = got[key][field] if nested else got[key]
            np.testing.assert_allclose(
                computed, wanted, rtol=FIELDS[key][0], err_msg=f"{key} {field}"
            )


def test_moments_are_jittable_and_vmappable_over_contexts() -> None:
    *models, reward, targets, embedding, context, actions = paper(Case(CASES[2]))
    contexts = jnp.stack([context, context + 0.3])

    def one(s: jax.Array) -> moments.Moments:
        return moments.operator_moments(*models, reward, targets, embedding, s, actions)

    together = jax.jit(jax.vmap(one))(contexts)
    for row, s in enumerate(contexts):
        alone = jax.jit(one)(s)
        for field in alone._fields[:-1]:
            np.testing.assert_allclose(
                getattr(together, field)[row], getattr(alone, field), rtol=1e-12, atol=1e-14
            )
