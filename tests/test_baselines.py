"""The baselines' moments against scikit-learn, dense formulas, quadrature and Monte Carlo."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from bayes_cmab import baselines, kernels, posteriors
from bayes_cmab.data import Data, Outcomes, Rewards, Transitions
from bayes_cmab.models import (
    AnovaEmbeddingModel,
    DirectRewardModel,
    EmbeddingHyperparameters,
    EmbeddingModel,
    RewardHyperparameters,
    RewardModel,
    TransitionHyperparameters,
    TransitionModel,
)
from bayes_cmab.moments import Moments
from bayes_cmab.policies import DirectPolicy
from bayes_cmab.scaling import Scales

# Over a fresh seed, the Monte Carlo test would fail correct moments with at most this probability
# (Bonferroni over the comparisons it makes).
FALSE_ALARM_RATE = 1e-4
N_DRAWS = 50_000

N, M, CAPACITY = 6, 7, 9
CONTEXT, ACTIONS = jnp.array([0.3]), jnp.array([[-0.5], [0.1], [1.9]])
EMBEDDING, TRANSITION = EmbeddingModel(), TransitionModel()
EMBEDDING_HYPER = EmbeddingHyperparameters(
    lengthscale_s=jnp.array([0.9]),
    lengthscale_a=jnp.array([0.6]),
    embedding_variance=jnp.array(0.8),
    embedding_noise=jnp.array(0.15),
)


def reward_hyper(d: int, mean_variance: float) -> RewardHyperparameters:
    return RewardHyperparameters(
        lengthscale_r=jnp.array([0.8, 1.1])[:d],
        reward_variance=jnp.array(1.7),
        reward_noise=jnp.array(0.2),
        mean_variance=jnp.asarray(mean_variance),
        measure_mean=jnp.array([0.2, -0.1])[:d],
        measure_scale=jnp.array([2.0, 1.5])[:d],
    )


def transition_hyper(d: int, noise: float = 1.0) -> TransitionHyperparameters:
    full = TransitionHyperparameters(
        weight_constant=jnp.array([0.25, 0.3]),
        weight_s=jnp.array([0.5, 0.2]),
        weight_a=jnp.array([0.3, 0.9]),
        weight_sa=jnp.array([0.4, 0.1]),
        lengthscale_s=jnp.array([[0.9], [0.5]]),
        lengthscale_a=jnp.array([[0.7], [1.2]]),
        transition_noise=noise * jnp.array([0.1, 0.2]),
    )
    return jax.tree.map(lambda field: field[:d], full)


class Rows(NamedTuple):
    """Plain arrays, and the same rows padded."""

    s: np.ndarray
    a: np.ndarray
    r: np.ndarray
    r_outcomes: np.ndarray
    y: np.ndarray
    transitions: Transitions
    outcomes: Outcomes


def rows(d: int) -> Rows:
    rng = np.random.default_rng(d)
    s, a = rng.normal(size=(2, N, 1))
    r, r_outcomes = rng.normal(size=(N, d)), rng.normal(size=(M, d))
    y = 2.0 + np.sin(2.0 * r_outcomes[:, 0]) + 0.3 * rng.normal(size=M)
    return Rows(
        *(s, a, r, r_outcomes, y),
        Transitions.create(s, a, r, capacity=CAPACITY),
        Outcomes.create(r_outcomes, y, capacity=CAPACITY),
    )


def embedding_weights(data: Rows, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Return E (k, N) and F - G (k,) of the RBF embedding, by dense formulas."""
    kernel = ConstantKernel(variance) * RBF([0.9, 0.6])
    seen = np.hstack([data.s, data.a])
    asked = np.hstack([np.full((3, 1), CONTEXT[0]), ACTIONS])
    cross = kernel(asked, seen)
    E = np.linalg.solve(kernel(seen) + 0.15 * np.eye(N), cross.T).T
    return E, variance - np.sum(E * cross, axis=1)


def test_gp_ucb_equals_scikit_learn_on_centred_outcomes() -> None:
    data = rows(1)
    y = np.random.default_rng(3).normal(loc=5.0, size=N)

    @jax.jit
    def compute(t: Transitions, y: jax.Array) -> Moments:
        posterior = posteriors.condition_embedding(
            EMBEDDING, EMBEDDING_HYPER, t.contexts, t.actions, t.size
        )
        return baselines.gp_ucb_moments(EMBEDDING, posterior, y, CONTEXT, ACTIONS)

    got = compute(data.transitions, np.append(y, np.full(CAPACITY - N, 99.0)))
    reference = GaussianProcessRegressor(
        ConstantKernel(0.8, "fixed") * RBF([0.9, 0.6], "fixed"), alpha=0.15
    ).fit(np.hstack([data.s, data.a]), y - y.mean())
    asked = np.hstack([np.full((3, 1), CONTEXT[0]), ACTIONS])
    mean, deviation = reference.predict(asked, return_std=True)
    np.testing.assert_allclose(got.mean, y.mean() + mean, rtol=1e-9)
    np.testing.assert_allclose(got.variance, deviation**2, rtol=1e-8)
    np.testing.assert_array_equal(got.variance, got.variance_reward)


def test_gp_ucb_takes_an_anova_kernel() -> None:
    data, model = rows(1), AnovaEmbeddingModel()
    y = np.random.default_rng(3).normal(loc=5.0, size=N)
    policy = DirectPolicy(DirectRewardModel(model))
    asked = np.hstack([np.full((3, 1), CONTEXT[0]), ACTIONS])
    seen = np.hstack([data.s, data.a])

    def gram(x: np.ndarray, z: np.ndarray) -> np.ndarray:
        k_s, k_a = (RBF(0.6)(x[:, [j]], z[:, [j]]) for j in (0, 1))
        return 0.1 * (1.0 + k_s + k_a + k_s * k_a)

    rewards = Rewards.empty(1, 1, CAPACITY)
    for row in zip(data.s, data.a, y, strict=True):
        rewards = rewards.append(*map(jnp.asarray, row))
    known = Data(data.transitions, data.outcomes, rewards)
    sites = policy.default_sites(1, 1, 1)
    state = policy.condition(sites, known, Scales.identity(1, 1, 1))
    got = jax.jit(policy.moments)(state, CONTEXT, ACTIONS)
    E = np.linalg.solve(gram(seen, seen) + (0.2 + 1e-6) * np.eye(N), gram(seen, asked)).T
    np.testing.assert_allclose(got.mean, y.mean() + E @ (y - y.mean()), rtol=1e-9)
    expected = 0.4 - np.sum(E * gram(asked, seen), axis=1)
    np.testing.assert_allclose(got.variance, expected, rtol=1e-8)


def test_cme_ucb_and_its_improvement_equal_dense_formulas_with_scikit_learn() -> None:
    """Printed: a sum over E and (F - G) / lambda. Improved: the sum of two deviations, squared."""
    data = rows(2)
    model = RewardModel(power=0, integrated_mean=False)
    hyper = reward_hyper(2, 0.0)._replace(reward_variance=jnp.array(1.0))
    unit = EMBEDDING_HYPER._replace(embedding_variance=jnp.array(1.0))

    @jax.jit
    def compute(t: Transitions, o: Outcomes) -> tuple[Moments, Moments]:
        reward = posteriors.condition_reward(model, hyper, o)
        targets = posteriors.condition_targets(model, reward, t.intermediates, t.size)
        embedding = posteriors.condition_embedding(EMBEDDING, unit, t.contexts, t.actions, t.size)
        arguments = (model, EMBEDDING, reward, targets, embedding, CONTEXT, ACTIONS)
        return (
            baselines.cme_ucb_moments(*arguments),
            baselines.improved_cme_ucb_moments(*arguments),
        )

    printed, improved = compute(data.transitions, data.outcomes)
    reference = GaussianProcessRegressor(RBF([0.8, 1.1], "fixed"), alpha=0.2).fit(
        data.r_outcomes, data.y - data.y.mean()
    )
    f, covariance = reference.predict(data.r, return_cov=True)
    E, rest = embedding_weights(data, 1.0)
    about_f = np.einsum("ki,ij,kj->k", E, covariance, E)
    for got in (printed, improved):
        np.testing.assert_allclose(got.mean, data.y.mean() + E @ f, rtol=1e-9)
        np.testing.assert_allclose(got.variance_embedding, rest / 0.15, rtol=1e-9)
    np.testing.assert_allclose(printed.variance, rest / 0.15, rtol=1e-9)
    np.testing.assert_allclose(improved.variance_reward, about_f, rtol=1e-8)
    np.testing.assert_allclose(
        improved.variance, (np.sqrt(rest / 0.15) + np.sqrt(about_f)) ** 2, rtol=1e-9
    )
    np.testing.assert_allclose(
        improved.variance,
        (np.sqrt(printed.variance) + np.sqrt(improved.variance_reward)) ** 2,
        rtol=1e-12,
    )


def condition(power: int, d: int, data: Rows, noise: float = 1.0) -> tuple[Any, ...]:
    """Return the arguments of the moments that use the transition GPs."""
    model = RewardModel(power=power, integrated_mean=power == 1)
    hyper = reward_hyper(d, 4.0 if power == 1 else 0.0)
    reward = posteriors.condition_reward(model, hyper, data.outcomes)
    transition = posteriors.condition_transition(
        TRANSITION, transition_hyper(d, noise), data.transitions
    )
    return model, TRANSITION, reward, transition, CONTEXT, ACTIONS


@jax.jit(static_argnums=(0, 1))
def compute(
    power: int, d: int, data: Rows, noise: float
) -> tuple[Moments, Moments, posteriors.Predicted]:
    arguments = condition(power, d, data, noise)
    prediction = posteriors.predict_transition(TRANSITION, *arguments[3:])
    return (
        baselines.gaussian_transition_moments(*arguments),
        baselines.plug_in_moments(*arguments),
        prediction,
    )


def anova(data: Rows, j: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the dense posterior of h_j: its mean and variance at the actions, and its noise."""
    h = jax.tree.map(lambda field: np.asarray(field)[j], transition_hyper(2))

    def kernel(s: np.ndarray, a: np.ndarray, t: np.ndarray, b: np.ndarray) -> np.ndarray:
        k_s, k_a = RBF(h.lengthscale_s)(s, t), RBF(h.lengthscale_a)(a, b)
        return h.weight_constant + h.weight_s * k_s + h.weight_a * k_a + h.weight_sa * k_s * k_a

    s, a = np.full((3, 1), CONTEXT[0]), np.asarray(ACTIONS)
    cross = kernel(s, a, data.s, data.a)
    covariance = kernel(data.s, data.a, data.s, data.a) + h.transition_noise * np.eye(N)
    solved = np.linalg.solve(covariance, cross.T)
    variance = np.diag(kernel(s, a, s, a)) - np.sum(cross.T * solved, axis=0)
    return solved.T @ data.r[:, j], variance, float(h.transition_noise)


gram_of_f = jax.jit(RewardModel.gram, static_argnums=0)


class Reward:
    """The reward GP by dense formulas, with the package's Gram matrix (tested elsewhere)."""

    def __init__(self, power: int, d: int, data: Rows) -> None:
        self.model = RewardModel(power=power, integrated_mean=power == 1)
        self.hyper = reward_hyper(d, 4.0 if power == 1 else 0.0)
        self.points = data.r_outcomes
        self.offset = 0.0 if power == 1 else data.y.mean()
        A = self.prior(self.points, self.points) + 0.2 * np.eye(M)
        self.precision = np.linalg.inv(A)
        self.alpha = self.precision @ (data.y - self.offset)

    def prior(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the prior covariance of b + f."""
        gram = gram_of_f(self.model, self.hyper, x, z)
        return np.asarray(gram) + float(self.hyper.mean_variance)

    def mean(self, x: np.ndarray) -> np.ndarray:
        return self.offset + self.prior(x, self.points) @ self.alpha

    def covariance(self, x: np.ndarray) -> np.ndarray:
        cross = self.prior(x, self.points)
        return self.prior(x, x) - cross @ self.precision @ cross.T


def test_predict_transition_equals_a_dense_gp() -> None:
    data = rows(2)
    mean, variance, _ = compute(1, 2, data, 1.0)[2]
    for j in range(2):
        expected_mean, expected_variance, _ = anova(data, j)
        np.testing.assert_allclose(mean[:, j], expected_mean, rtol=1e-9)
        np.testing.assert_allclose(variance[:, j], expected_variance, rtol=1e-9)


NODES = np.linspace(-7.5, 7.5, 160)
WEIGHTS = stats.norm.pdf(NODES) * (NODES[1] - NODES[0])


@pytest.mark.parametrize("power", [1, 0])
def test_gaussian_transition_moments_equal_quadrature_in_one_dimension(power: int) -> None:
    data = rows(1)
    got = compute(power, 1, data, 1.0)[0]
    reward, (m, V, S) = Reward(power, 1, data), anova(data, 0)
    for i in range(3):
        # What is unknown of h, with the noise integrated at each of its values.
        h = m[i] + np.sqrt(V[i]) * NODES
        r = h[:, None] + np.sqrt(S) * NODES[None, :]
        smoothed = reward.mean(r.reshape(-1, 1)).reshape(r.shape) @ WEIGHTS
        mean = WEIGHTS @ smoothed
        np.testing.assert_allclose(got.mean[i], mean, rtol=1e-9)
        np.testing.assert_allclose(
            got.variance_transition[i], WEIGHTS @ (smoothed - mean) ** 2, rtol=1e-8
        )
        # What is unknown of f, averaged over all that is unknown of r.
        nodes = (m[i] + np.sqrt(V[i] + S) * NODES)[:, None]
        np.testing.assert_allclose(
            got.variance_reward[i], WEIGHTS @ reward.covariance(nodes) @ WEIGHTS, rtol=1e-8
        )
    np.testing.assert_array_equal(got.variance_embedding, np.zeros(3))
    np.testing.assert_allclose(got.variance, got.variance_reward + got.variance_transition)


def test_gaussian_transition_variance_leaves_out_what_is_unknown_of_f_and_h_at_once() -> None:
    """The law of total variance has ``E_h kappa_f(N(h, S), N(h, S))`` for ``kappa_f(N, N)``.

    The two differ by the variance of ``f(h)`` that is due to both at once, which is never negative:
    the formula in use is a lower bound, and far from it while data are few.
    """
    data = rows(1)
    got = compute(1, 1, data, 1.0)[0]
    reward, (m, V, S) = Reward(1, 1, data), anova(data, 0)
    x, w = np.polynomial.hermite_e.hermegauss(30)
    w /= w.sum()
    ratio = []
    for i in range(3):
        nodes = [m[i] + np.sqrt(V[i]) * h + np.sqrt(S) * NODES for h in x]
        inner = [WEIGHTS @ reward.covariance(r[:, None]) @ WEIGHTS for r in nodes]
        ratio.append(got.variance[i] / (w @ inner + got.variance_transition[i]))
    assert np.all(np.array(ratio) < 1.0)
    assert np.min(ratio) < 0.9


def test_gaussian_transition_moments_equal_monte_carlo_over_h_in_two_dimensions() -> None:
    data = rows(2)
    got = compute(1, 2, data, 1.0)[0]
    reward, rng = Reward(1, 2, data), np.random.default_rng(4)
    m, V, S = (np.stack(part, -1) for part in zip(*(anova(data, j) for j in range(2)), strict=True))
    z = []
    for i in range(3):
        h = m[i] + np.sqrt(V[i]) * rng.normal(size=(N_DRAWS, 2))
        smoothed = np.asarray(
            kernels.expected_power_gram(
                1,
                jnp.asarray(h),
                jnp.tile(S[None, :], (N_DRAWS, 1)),
                jnp.asarray(data.r_outcomes),
                jnp.zeros((M, 2)),
                reward.hyper.lengthscale_r,
                reward.hyper.measure,
                normalised=True,
            )
        )
        g = (1.7 * smoothed + 4.0) @ reward.alpha
        # One draw of r for each draw of h has the same mean: a check of the smoothing itself.
        noisy = reward.mean(h + np.sqrt(S) * rng.normal(size=(N_DRAWS, 2)))
        for draws, expected in (
            (g, got.mean[i]),
            (noisy, got.mean[i]),
            ((g - g.mean()) ** 2, got.variance_transition[i]),
        ):
            z.append((draws.mean() - expected) / (draws.std() / np.sqrt(N_DRAWS)))
    np.testing.assert_array_less(np.abs(z), stats.norm.isf(FALSE_ALARM_RATE / 2.0 / len(z)))


@pytest.mark.parametrize("power", [1, 0])
def test_plug_in_is_the_reward_gp_at_the_mean_of_r(power: int) -> None:
    data = rows(2)
    got, (m, *_) = compute(power, 2, data, 1.0)[1:]
    reward = Reward(power, 2, data)
    np.testing.assert_allclose(got.mean, reward.mean(np.asarray(m)), rtol=1e-9)
    covariance = reward.covariance(np.asarray(m))
    np.testing.assert_allclose(got.variance, np.diag(covariance), rtol=1e-8)


@pytest.mark.parametrize("power", [1, 0])
def test_without_noise_a_seen_action_has_the_reward_gp_at_its_intermediate(power: int) -> None:
    """With r known exactly, the Gaussian transition and the plug-in agree."""
    data = rows(2)
    s, a = data.s.copy(), data.a.copy()
    s[:3], a[:3] = CONTEXT[0], ACTIONS
    data = data._replace(transitions=Transitions.create(s, a, data.r, capacity=CAPACITY))
    gaussian, plug_in, (m, V, _) = compute(power, 2, data, 1e-9)
    np.testing.assert_allclose(m, data.r[:3], atol=1e-7)
    np.testing.assert_array_less(V, 1e-8)
    reward = Reward(power, 2, data)
    for got in (gaussian, plug_in):
        np.testing.assert_allclose(got.mean, reward.mean(data.r[:3]), rtol=1e-6)
        variance = np.diag(reward.covariance(data.r[:3]))
        np.testing.assert_allclose(got.variance, variance, rtol=1e-6)
