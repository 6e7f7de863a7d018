"""The variance of the smoothed mean: quadrature, and its two forms against each other."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_cmab import posteriors, smoothing
from bayes_cmab.data import Outcomes
from bayes_cmab.models import AdditiveRewardModel, RewardModel
from bayes_cmab.posteriors import RewardPosterior
from bayes_cmab.smoothing import variance_of_smoothed_mean

PLAIN, SUM = RewardModel(), AdditiveRewardModel()
SITES = {
    1: {
        "reward_lengthscale": jnp.array([0.8]),
        "reward_scale": jnp.array(1.3),
        "reward_noise_scale": jnp.array(0.3),
    },
    2: {
        "reward_lengthscale": jnp.array([0.9, 1.3]),
        "reward_scale": jnp.array(0.7),
        "reward_noise_scale": jnp.array(0.3),
        "reward_main_lengthscale": jnp.array([0.6, 1.7]),
        "reward_main_scale": jnp.array([1.1, 0.4]),
    },
}
RNG = np.random.default_rng(2)
ROWS = 12
R = {d: RNG.normal(size=(ROWS, d)) for d in (1, 2)}
MEAN = {d: jnp.asarray(RNG.normal(size=(4, d))) for d in (1, 2)}
NOISE = {d: jnp.asarray(RNG.uniform(0.05, 0.3, (4, d))) for d in (1, 2)}
CASES = [(PLAIN, 1), (SUM, 1), (PLAIN, 2), (SUM, 2)]


def condition(model: RewardModel, d: int) -> RewardPosterior:
    outcomes = Outcomes.create(R[d], np.sin(2 * R[d][:, 0]) + R[d][:, -1], capacity=ROWS + 3)
    return posteriors.condition_reward(model, model.hyperparameters(SITES[d]), outcomes)


@partial(jax.jit, static_argnums=(0, 1))
def compute(model: RewardModel, d: int, variance: jax.Array) -> jax.Array:
    return variance_of_smoothed_mean(model, condition(model, d), MEAN[d], variance, NOISE[d])


@partial(jax.jit, static_argnums=(0, 1))
def values(model: RewardModel, d: int, h: jax.Array, noise: jax.Array) -> jax.Array:
    posterior = condition(model, d)
    alpha = posteriors.reward_alpha(model, posterior)[:ROWS]
    gram = model.smoothed_gram(posterior.hyper, jnp.asarray(R[d]), h, noise)
    return alpha @ gram


@pytest.mark.parametrize(("model", "d"), CASES)
@pytest.mark.parametrize("variance", [1e-3, 0.1, 0.6])
def test_it_equals_quadrature(model: RewardModel, d: int, variance: float) -> None:
    """With the smallest variance all is done by the series, with the largest by pairs too."""
    V = variance * jnp.linspace(0.5, 1.5, 4 * d).reshape(4, d)
    got = compute(model, d, V)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    grid = np.array(list(itertools.product(nodes, repeat=d)))
    w = np.prod(list(itertools.product(weights / weights.sum(), repeat=d)), axis=1)
    for k in range(4):
        h = jnp.asarray(np.asarray(MEAN[d][k]) + np.sqrt(V[k]) * grid)
        at_nodes = np.asarray(values(model, d, h, jnp.broadcast_to(NOISE[d][k], h.shape)))
        expected = w @ (at_nodes - w @ at_nodes) ** 2
        np.testing.assert_allclose(got[k], expected, rtol=1e-8)


@pytest.mark.parametrize(("model", "d"), [(PLAIN, 1), (SUM, 2)])
def test_the_series_and_the_pairs_agree_up_to_the_slowest_ratio(
    model: RewardModel, d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    variances = [v * jnp.ones((4, d)) for v in (0.01, 0.05, 0.2, 0.4)]

    def under(slowest: float) -> np.ndarray:
        monkeypatch.setattr(smoothing, "SLOWEST_RATIO", slowest)

        def fresh(V: jax.Array) -> jax.Array:  # a new function: the bound is read when traced
            return variance_of_smoothed_mean(model, condition(model, d), MEAN[d], V, NOISE[d])

        return np.stack([jax.jit(fresh)(V) for V in variances])

    series, pairs = under(0.45), under(-1.0)
    np.testing.assert_allclose(series, pairs, rtol=1e-8)
    assert np.any(series != pairs)  # both were in use


@pytest.mark.parametrize(("model", "d"), CASES)
def test_nothing_is_left_without_variance_and_the_gradient_is_finite(
    model: RewardModel, d: int
) -> None:
    none = jnp.zeros((4, d))
    np.testing.assert_allclose(compute(model, d, none), 0.0, atol=1e-12)

    def total(scale: jax.Array) -> jax.Array:
        return jnp.sum(compute(model, d, scale * jnp.ones((4, d))))

    slope = jax.jit(jax.grad(total))(jnp.asarray(0.1))
    step = 1e-5
    expected = (total(jnp.asarray(0.1 + step)) - total(jnp.asarray(0.1 - step))) / (2.0 * step)
    np.testing.assert_allclose(slope, expected, rtol=1e-6)
