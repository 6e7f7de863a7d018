"""The priors are those of the design, in the coordinates that it gives them in."""

import math

import jax
import numpy as np
import pytest
from scipy import stats

from bayes_cmab.models import (
    EmbeddingModel,
    EmbeddingPriors,
    LogNormal,
    RewardModel,
    RewardPriors,
    TransitionModel,
    TransitionPriors,
)

X = np.geomspace(0.05, 20.0, 7)


def test_log_normal_has_the_stated_median_and_spread() -> None:
    prior = LogNormal(0.6, 0.8)
    expected = stats.lognorm(s=0.8, scale=0.6)
    np.testing.assert_allclose(prior.distribution().log_prob(X), expected.logpdf(X), rtol=1e-12)
    assert expected.median() == pytest.approx(prior.median)


def test_scaled_and_root_are_the_priors_of_a_multiple_and_of_a_square_root() -> None:
    prior = LogNormal(0.6, 0.8)
    density = stats.lognorm(s=0.8, scale=0.6)
    np.testing.assert_allclose(
        prior.scaled(3.0).distribution().log_prob(X),
        density.logpdf(X / 3.0) - np.log(3.0),
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        prior.root().distribution().log_prob(X), density.logpdf(X**2) + np.log(2.0 * X), rtol=1e-12
    )


def test_the_priors_are_those_of_the_design() -> None:
    """Sites that are scales whose variance the design gives a prior have half its spread."""
    reward, embedding, transition = RewardPriors(), EmbeddingPriors(), TransitionPriors()
    stated = {
        reward.lengthscale: (0.0, 0.7),
        reward.scale: (0.0, 0.7),
        reward.noise_scale: (math.log(0.3), 1.2),
        embedding.lengthscale: (math.log(0.6), 0.6),
        embedding.scale: (0.0, 0.5 / 2.0),
        embedding.noise_scale: (math.log(0.2) / 2.0, 1.0 / 2.0),
        transition.weight: (math.log(0.3), 1.2),
        transition.lengthscale: (math.log(0.6), 0.6),
        transition.noise_scale: (math.log(0.3), 0.7),
    }
    for prior, expected in stated.items():
        np.testing.assert_allclose((math.log(prior.median), prior.spread), expected, atol=1e-12)
    assert (reward.mean_variance, transition.weight_constant) == (9.0, 0.25)


@pytest.mark.parametrize("d", [1, 5])
def test_the_median_reward_lengthscale_grows_as_the_fourth_root_of_the_dimension(d: int) -> None:
    lengthscale = RewardModel().default_sites(d)["reward_lengthscale"]
    np.testing.assert_allclose(np.log(lengthscale), np.full(d, 0.25 * np.log(d)), atol=1e-12)


def test_default_sites_give_the_median_variances_of_the_design() -> None:
    """But for the noise floor, which is added in squares."""
    embedding = EmbeddingModel().hyperparameters(EmbeddingModel().default_sites(1, 1))
    np.testing.assert_allclose(embedding.embedding_variance, 1.0)
    np.testing.assert_allclose(embedding.embedding_noise, 0.2 + 1e-6, rtol=1e-12)
    transition = TransitionModel().hyperparameters(TransitionModel().default_sites(1, 1, 2))
    for weight in (transition.weight_s, transition.weight_a, transition.weight_sa):
        np.testing.assert_allclose(weight, [0.3, 0.3], rtol=1e-12)
    np.testing.assert_allclose(transition.weight_constant, [0.25, 0.25])
    np.testing.assert_allclose(transition.transition_noise, np.full(2, 0.09 + 1e-6), rtol=1e-12)
    reward = RewardModel().hyperparameters(RewardModel().default_sites(2))
    np.testing.assert_allclose(reward.reward_noise, 0.09 + 1e-6, rtol=1e-12)
    np.testing.assert_allclose(reward.measure_scale, [2.0, 2.0])
    assert (reward.reward_variance, reward.mean_variance) == (1.0, 9.0)


MODELS = {
    "reward": (RewardModel(), RewardModel().default_sites(2)),
    "embedding": (EmbeddingModel(), EmbeddingModel().default_sites(2, 1)),
    "embedding without context": (EmbeddingModel(), EmbeddingModel().default_sites(0, 1)),
    "transition": (TransitionModel(), TransitionModel().default_sites(2, 1, 3)),
    "transition without context": (TransitionModel(), TransitionModel().default_sites(0, 1, 3)),
    "unit reward": (
        RewardModel(unit_variance=True),
        RewardModel(unit_variance=True).default_sites(2),
    ),
    "unit embedding": (
        EmbeddingModel(unit_variance=True),
        EmbeddingModel(unit_variance=True).default_sites(2, 1),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_hyperparameters_of_many_draws_are_those_of_each_draw(name: str) -> None:
    model, default = MODELS[name]
    rng = np.random.default_rng(0)
    draws = {
        key: np.asarray(value) * rng.uniform(0.5, 2.0, size=(4, *value.shape))
        for key, value in default.items()
    }
    together = model.hyperparameters(draws)
    for i in range(4):
        alone = model.hyperparameters({key: jax.numpy.asarray(v[i]) for key, v in draws.items()})
        for field, whole, one in zip(alone._fields, together, alone, strict=True):
            if one is None:
                assert whole is None, field
                continue
            assert np.asarray(whole).shape == (4, *np.shape(one)), field
            np.testing.assert_allclose(whole[i], one, rtol=1e-15, err_msg=field)


@pytest.mark.parametrize("name", ["reward", "embedding", "transition"])
def test_the_noise_has_its_floor_however_small_the_site(name: str) -> None:
    model, sites = MODELS[name]
    site = f"{name}_noise_scale"
    hyper = model.hyperparameters(sites | {site: 1e-12 * sites[site]})
    noise = getattr(hyper, f"{name}_noise")
    assert model.priors.noise_floor > 0.0
    np.testing.assert_allclose(noise, np.full(noise.shape, model.priors.noise_floor**2), rtol=1e-9)


def test_unit_variance_fixes_the_variance_at_one() -> None:
    reward, sites = MODELS["unit reward"]
    assert "reward_scale" not in sites
    assert reward.hyperparameters(sites).reward_variance == 1.0
    embedding, sites = MODELS["unit embedding"]
    assert "embedding_scale" not in sites
    assert embedding.hyperparameters(sites).embedding_variance == 1.0
