"""Leave-one-out scores of the models of P(r | s, a): against leaving each row out."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_cmab import posteriors
from bayes_cmab.data import Transitions
from bayes_cmab.kernels import Measure, expected_power_gram, rbf, smoothed_power_gram
from bayes_cmab.models import (
    AnovaEmbeddingModel,
    EmbeddingModel,
    HeteroscedasticTransitionModel,
)
from bayes_cmab.models.priors import Sites
from bayes_cmab.posteriors import condition_transition, predict_transition
from bayes_cmab.scores import (
    embedding_scores,
    leave_one_out_transition,
    residual_scores,
    score_lengthscale,
    transition_scores,
)

N, D = 6, 2
RNG = np.random.default_rng(4)
S, A = RNG.uniform(-1.0, 1.0, (2, N, 1))
R = np.concatenate([np.sin(2 * S), S * A], axis=1) + 0.3 * RNG.standard_normal((N, D))
DATA = Transitions.create(S, A, R, capacity=N + 2)
TRANSITION, EMBEDDING = HeteroscedasticTransitionModel(), AnovaEmbeddingModel()
SITES = TRANSITION.default_sites(1, 1, D) | EMBEDDING.default_sites(1, 1)
SITES["transition_noise_factor_a"] = jnp.asarray(RNG.uniform(0.5, 2.0, (D, 1, 5)))
NOISE = np.asarray(TRANSITION.noise(TRANSITION.hyperparameters(SITES), S, A))
LENGTHSCALE = score_lengthscale(DATA)
MEASURE = Measure(jnp.zeros(D), jnp.ones(D))


def without(i: int) -> Transitions:
    keep = np.arange(N) != i
    return Transitions.create(S[keep], A[keep], R[keep], capacity=N)


@jax.jit
def predicted(known: Transitions) -> tuple[jax.Array, jax.Array]:
    """Return mean and variance of h at all N transitions, given those that are known."""
    hyper = TRANSITION.hyperparameters(SITES)
    posterior = condition_transition(TRANSITION, hyper, known)
    predict = jax.vmap(lambda s, a: predict_transition(TRANSITION, posterior, s, a[None]))
    mean, variance, _ = predict(jnp.asarray(S), jnp.asarray(A))
    return mean[:, 0], variance[:, 0]


def embedding_weights(model: EmbeddingModel, sites: Sites, i: int) -> np.ndarray:
    """Return the weights of the other rows at x_i, from a model that has not seen i."""
    known = without(i)
    hyper = model.hyperparameters(sites)
    rows = (known.contexts, known.actions, known.size)
    posterior = posteriors.condition_embedding(model, hyper, *rows)
    e = posteriors.embedding_weights(model, posterior, jnp.asarray(S[i]), jnp.asarray(A[i])[None])
    return np.asarray(e.weights[0, : N - 1])


def cross(x: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return np.asarray(smoothed_power_gram(0, x, mean, variance, LENGTHSCALE, MEASURE))


def own(*atoms: np.ndarray) -> np.ndarray:
    return np.asarray(expected_power_gram(0, *atoms, LENGTHSCALE, MEASURE))


def test_leaving_one_out_in_closed_form_is_conditioning_on_the_others() -> None:
    mean, variance = jax.jit(partial(leave_one_out_transition, TRANSITION, SITES))(DATA)
    for i in range(N):
        expected = predicted(without(i))
        np.testing.assert_allclose(mean[i, :N], expected[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(variance[i, :N], expected[1], rtol=1e-9)


@pytest.mark.parametrize("model", [EmbeddingModel(), EMBEDDING], ids=["product", "anova"])
def test_the_score_of_an_embedding(model: EmbeddingModel) -> None:
    sites = model.default_sites(1, 1)
    got = jax.jit(partial(embedding_scores, model, sites))(DATA)
    for i in range(N):
        w = embedding_weights(model, sites, i)
        others = np.delete(R, i, axis=0)
        to_others = np.asarray(rbf(R[i][None], others, LENGTHSCALE))[0]
        expected = 0.5 * (
            1 - 2 * w @ to_others + w @ np.asarray(rbf(others, others, LENGTHSCALE)) @ w
        )
        np.testing.assert_allclose(got[i], expected, rtol=1e-9)


def test_the_score_of_normal_predictions() -> None:
    got = jax.jit(partial(transition_scores, TRANSITION, SITES))(DATA)
    for i in range(N):
        mean, variance = (np.asarray(x)[i : i + 1] for x in predicted(without(i)))
        atom = (mean, variance + NOISE[i : i + 1])
        expected = 0.5 * (1 - 2 * cross(R[i : i + 1], *atom) + own(*atom, *atom))[0, 0]
        np.testing.assert_allclose(got[i], expected, rtol=1e-9)


def test_the_score_of_the_embedding_that_corrects_them() -> None:
    got = jax.jit(partial(residual_scores, TRANSITION, EMBEDDING, SITES))(DATA)
    for i in range(N):
        w = embedding_weights(EMBEDDING, SITES, i)
        mean, variance = (np.asarray(x) for x in predicted(without(i)))
        variance = variance + NOISE
        keep = np.arange(N) != i
        # Atoms: the other points with weights w, their predictions with -w, the prediction at i.
        means = np.concatenate([R[keep], mean[keep], mean[i : i + 1]])
        variances = np.concatenate([0 * R[keep], variance[keep], variance[i : i + 1]])
        weights = np.concatenate([w, -w, [1.0]])
        to_point = cross(R[i : i + 1], means, variances)[0]
        square = weights @ own(means, variances, means, variances) @ weights
        np.testing.assert_allclose(got[i], 0.5 * (1 - 2 * weights @ to_point + square), rtol=1e-9)


def test_the_score_is_least_for_the_distribution_that_made_the_rows() -> None:
    """The expected score of N(0, v) for draws of N(0, 1) is least at v = 1: it is proper."""
    lengthscale, measure = jnp.ones(1), Measure(jnp.zeros(1), jnp.ones(1))

    def expected(variance: float) -> float:
        truth, model = (
            (np.zeros((1, 1)), np.ones((1, 1))),
            (np.zeros((1, 1)), np.full((1, 1), variance)),
        )
        between = expected_power_gram(0, *truth, *model, lengthscale, measure)[0, 0]
        within = expected_power_gram(0, *model, *model, lengthscale, measure)[0, 0]
        return float(0.5 * (1 - 2 * between + within))

    assert expected(1.0) < min(expected(0.5), expected(0.9), expected(1.1), expected(2.0))
