"""The embedding of the residual: its special cases, and its Gram matrix by Monte Carlo."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from bayes_cmab import baselines, moments, posteriors
from bayes_cmab.data import Outcomes, Transitions
from bayes_cmab.models import EmbeddingModel, RewardModel, TransitionModel
from bayes_cmab.models.priors import Sites
from bayes_cmab.moments import Moments
from bayes_cmab.posteriors import Atoms, Predicted
from bayes_cmab.residual import residual_gram, residual_moments, sample_residual

REWARD, EMBEDDING, TRANSITION = RewardModel(), EmbeddingModel(), TransitionModel()
RNG = np.random.default_rng(3)
S, A = RNG.uniform(-1.5, 1.5, (2, 8, 1))
R = np.concatenate([np.sin(2 * S), np.cos(A)], axis=1) + 0.2 * RNG.standard_normal((8, 2))
Y = np.sin(2 * R[:, 0]) + 0.3 * RNG.standard_normal(8)
CONTEXT, ACTIONS = jnp.array([0.3]), jnp.linspace(-1.5, 1.5, 5)[:, None]
ROWS = Transitions.create(S, A, R, capacity=10), Outcomes.create(R, Y, capacity=11)
SITES = REWARD.default_sites(2) | EMBEDDING.default_sites(1, 1) | TRANSITION.default_sites(1, 1, 2)


@partial(jax.jit, static_argnums=1)
def all_moments(sites: Sites, far: bool) -> tuple[Moments, Moments, Moments]:
    """Return the residual form, the plain operator form and the Gaussian transition's."""
    t, outcomes = ROWS
    reward = posteriors.condition_reward(REWARD, REWARD.hyperparameters(sites), outcomes)
    targets = posteriors.condition_targets(REWARD, reward, t.intermediates, t.size)
    hyper = EMBEDDING.hyperparameters(sites)
    embedding = posteriors.condition_embedding(EMBEDDING, hyper, t.contexts, t.actions, t.size)
    transition = posteriors.condition_transition(TRANSITION, TRANSITION.hyperparameters(sites), t)

    def predict(context: jax.Array, action: jax.Array) -> Predicted:
        at = posteriors.predict_transition(TRANSITION, transition, context, action[None])
        return Predicted(*(x[0] for x in at))

    there = jax.vmap(predict)(t.contexts, t.actions)
    here = posteriors.predict_transition(TRANSITION, transition, CONTEXT, ACTIONS)
    if far:  # where f is zero, whatever the data
        there, here = (
            Predicted(0.0 * a.mean + 1e4, 0.0 * a.variance, 0.0 * a.noise) for a in (there, here)
        )
    models = (REWARD, EMBEDDING)
    residual = residual_moments(
        *(*models, reward, embedding, t.intermediates, there, here, CONTEXT, ACTIONS)
    )
    plain = moments.operator_moments(*models, reward, targets, embedding, CONTEXT, ACTIONS)
    gaussian = baselines.gaussian_transition_moments(
        REWARD, TRANSITION, reward, transition, CONTEXT, ACTIONS
    )
    return residual, plain, gaussian


def test_where_the_prior_mean_contributes_nothing_it_is_the_plain_operator_form() -> None:
    residual, plain, _ = all_moments(SITES, True)
    for name in ("mean", "variance", "variance_reward", "variance_embedding"):
        np.testing.assert_allclose(getattr(residual, name), getattr(plain, name), rtol=1e-9)
    np.testing.assert_allclose(residual.variance_transition, 0.0, atol=1e-20)


@jax.jit
def far_draws(sites: Sites, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return a draw of the residual form where its prior mean is nothing, and the plain form's."""
    t, outcomes = ROWS
    reward = posteriors.condition_reward(REWARD, REWARD.hyperparameters(sites), outcomes)
    targets = posteriors.condition_targets(REWARD, reward, t.intermediates, t.size)
    hyper = EMBEDDING.hyperparameters(sites)
    embedding = posteriors.condition_embedding(EMBEDDING, hyper, t.contexts, t.actions, t.size)
    there, here = (Predicted(jnp.full((n, 2), 1e4), *(jnp.zeros((2, n, 2)))) for n in (10, 5))
    models, still = (REWARD, EMBEDDING), jnp.stack([1e-20 * jnp.eye(5)] * 2)
    draw = sample_residual(
        *(*models, reward, embedding, t.intermediates, there, here, still),
        *(CONTEXT, ACTIONS, key),
    )
    arguments = (*models, reward, targets, embedding, CONTEXT, ACTIONS)
    covariance = moments.operator_covariance(*arguments)
    mean = moments.operator_moments(*arguments).mean
    return draw, moments.sample_normal(jax.random.split(key)[1], mean, covariance)


def test_there_its_draws_are_those_of_the_plain_form() -> None:
    np.testing.assert_allclose(*far_draws(SITES, jax.random.key(0)), rtol=1e-6)


def test_without_an_embedding_it_is_the_gaussian_transition_agent() -> None:
    residual, plain, gaussian = all_moments(SITES | {"embedding_scale": jnp.array(0.0)}, False)
    for name in ("mean", "variance", "variance_reward", "variance_transition"):
        np.testing.assert_allclose(getattr(residual, name), getattr(gaussian, name), rtol=1e-9)
    np.testing.assert_array_equal(residual.variance_embedding, np.zeros(5))
    assert np.max(np.abs(plain.mean - gaussian.mean)) > 0.01


def test_the_part_about_the_transition_is_the_gaussian_agents() -> None:
    residual, _, gaussian = all_moments(SITES, False)
    assert np.all(residual.variance_embedding > 0.0)
    assert np.all(residual.variance > 0.0)
    np.testing.assert_allclose(
        residual.variance_transition, gaussian.variance_transition, rtol=1e-9
    )


def test_the_residuals_gram_matrix_by_monte_carlo() -> None:
    """20,000 draws of each atom; 16 entries within 5 standard errors (false alarms below 1e-5)."""
    lengthscale = jnp.array([0.7, 1.1])
    predicted = Atoms(jnp.asarray(R[:4]) + 0.3, jnp.full((4, 2), 0.2))
    exact = jax.jit(residual_gram)(jnp.asarray(R[:4]), predicted, lengthscale, jnp.ones(4, bool))
    rng = np.random.default_rng(0)
    one, other = (
        np.asarray(predicted.mean) + np.sqrt(0.2) * rng.standard_normal((20000, 4, 2))
        for _ in range(2)
    )

    def kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * np.sum(((x - y) / np.asarray(lengthscale)) ** 2, axis=-1))

    for i in range(4):
        for j in range(4):
            draws = (
                kernel(R[i], R[j])
                - kernel(R[i], other[:, j])
                - kernel(one[:, i], R[j])
                + kernel(one[:, i], other[:, j])
            )
            error = draws.std() / np.sqrt(len(draws))
            assert abs(draws.mean() - exact[i, j]) < 5.0 * error
