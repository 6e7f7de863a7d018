"""Kernels against scikit-learn, and the powers of the kernel operator against quadrature."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from sklearn.gaussian_process import kernels as sklearn_kernels

from bayes_cmab import kernels
from bayes_cmab.kernels import KERNELS, Measure
from bayes_cmab.models import AnovaEmbeddingModel, EmbeddingModel, TransitionModel

LENGTHSCALE = np.array([0.7, 1.4, 0.9])
CENTRE = np.array([0.3, -0.2, 0.1])
SCALE = np.array([1.6, 2.0, 0.8])

rbf = jax.jit(kernels.rbf)
matern52 = jax.jit(kernels.matern52)
matern32 = jax.jit(kernels.matern32)
power_gram = jax.jit(kernels.power_gram, static_argnums=0, static_argnames="normalised")
expected_power_gram = jax.jit(
    kernels.expected_power_gram, static_argnums=0, static_argnames="normalised"
)
smoothed_power_gram = jax.jit(
    kernels.smoothed_power_gram, static_argnums=0, static_argnames="normalised"
)
nuclear_dominant_kernel = jax.jit(kernels.nuclear_dominant_kernel)


def points(seed: int, n: int, d: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(scale=1.3, size=(n, d))


def measure(d: int) -> Measure:
    return Measure(jnp.asarray(CENTRE[:d]), jnp.asarray(SCALE[:d]))


@pytest.mark.parametrize("d", [1, 3])
def test_rbf_and_matern_equal_scikit_learn(d: int) -> None:
    x, y, lengthscale = points(0, 5, d), points(1, 4, d), LENGTHSCALE[:d]
    y[0] = x[0]
    np.testing.assert_allclose(
        rbf(x, y, lengthscale), sklearn_kernels.RBF(lengthscale)(x, y), rtol=1e-12
    )
    np.testing.assert_allclose(
        matern52(x, y, lengthscale), sklearn_kernels.Matern(lengthscale, nu=2.5)(x, y), rtol=1e-12
    )
    np.testing.assert_allclose(
        matern32(x, y, lengthscale), sklearn_kernels.Matern(lengthscale, nu=1.5)(x, y), rtol=1e-12
    )


@pytest.mark.parametrize("name", KERNELS)
def test_without_columns_every_pair_is_alike(name: str) -> None:
    nothing = np.zeros((3, 0)), np.zeros((2, 0)), np.zeros(0)
    np.testing.assert_array_equal(KERNELS[name](*map(jnp.asarray, nothing)), np.ones((3, 2)))


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_are_finite_and_right_at_coincident_points(name: str) -> None:
    def total(x: jax.Array, y: jax.Array, lengthscale: jax.Array) -> jax.Array:
        return jnp.sum(KERNELS[name](x, y, lengthscale))

    gradient = jax.jit(jax.grad(total, (0, 2)))
    x = np.array([[0.4, -1.0]])
    for gradients in gradient(x, x, LENGTHSCALE[:2]):
        np.testing.assert_array_equal(gradients, np.zeros_like(gradients))
    # One step away from coincidence there is no jump: the slope is about -distance.
    slope, _ = gradient(x + np.array([[1e-7, 0.0]]), x, LENGTHSCALE[:2])
    curvature = {"rbf": 1.0, "matern52": 5.0 / 3.0, "matern32": 3.0}[name] / LENGTHSCALE[0] ** 2
    np.testing.assert_allclose(slope[0, 0], -1e-7 * curvature, rtol=1e-5)


def test_context_and_action_may_have_kernels_of_their_own() -> None:
    assert kernels.factors("rbf") == (kernels.rbf, kernels.rbf)
    assert kernels.factors(("matern52", "rbf")) == (kernels.matern52, kernels.rbf)
    s, a, lengthscale = points(1, 3, 1), points(2, 3, 2), LENGTHSCALE
    model = EmbeddingModel(kernel=("matern32", "rbf"))
    sites = model.default_sites(1, 2) | {"embedding_lengthscale_a": lengthscale[:2]}
    hyper = model.hyperparameters(sites)
    got = jax.jit(model.gram)(hyper, s, a, s, a)
    expected = matern32(s, s, hyper.lengthscale_s) * rbf(a, a, lengthscale[:2])
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    k_s = matern32(s, s, jnp.array([0.6]))
    k_a = matern52(a, a, jnp.array([0.6, 0.6]))
    kernel = ("matern32", "matern52")
    anova = AnovaEmbeddingModel(kernel=kernel)
    got = jax.jit(anova.gram)(anova.hyperparameters(anova.default_sites(1, 2)), s, a, s, a)
    np.testing.assert_allclose(got, 0.1 * (1.0 + k_s + k_a + k_s * k_a), rtol=1e-12)
    transition = TransitionModel(kernel=kernel)
    sites = transition.default_sites(1, 2, 1)
    (got,) = jax.jit(transition.gram)(transition.hyperparameters(sites), s, a, s, a)
    np.testing.assert_allclose(got, 0.25 + 0.3 * (k_s + k_a + k_s * k_a), rtol=1e-12)


@pytest.mark.parametrize("model", [EmbeddingModel, AnovaEmbeddingModel, TransitionModel])
@pytest.mark.parametrize("kernel", ["cubic", ("rbf",), ("rbf", "cubic")])
def test_unknown_kernels_are_refused(model: type, kernel: object) -> None:
    with pytest.raises(ValueError, match="kernel: expected one of 'rbf', 'matern52', 'matern32'"):
        model(kernel=kernel)


def trapezoid(mean: float, deviation: float, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights against N(mean, deviation^2), out to eight deviations.

    For Gaussian integrands the error of the rule falls as exp(-2 (pi width / step)^2).
    """
    u = np.linspace(-8.0, 8.0, nodes)
    return mean + deviation * u, stats.norm.pdf(u) * (u[1] - u[0])


def one_dimensional_power(power: int, x: np.ndarray, y: np.ndarray, j: int) -> np.ndarray:
    """Return the p-fold integral of dimension j, a chain of matrix products over a rule."""

    def k(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * ((u[:, None] - v[None, :]) / LENGTHSCALE[j]) ** 2)

    if power == 0:
        return k(x, y)
    u, w = trapezoid(CENTRE[j], SCALE[j], 240)
    chain = k(x, u) * w[None, :]
    for _ in range(power - 1):
        chain = chain @ k(u, u) * w[None, :]
    return chain @ k(u, y)


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize("d", [1, 2])
def test_power_gram_equals_the_p_fold_integral(power: int, d: int) -> None:
    x, y = points(2, 4, d), points(3, 3, d)
    # In two dimensions: one joint rule over pairs of nodes, with the two-dimensional kernel.
    rules = [trapezoid(CENTRE[j], SCALE[j], 240 if d == 1 else 60) for j in range(d)]
    u = np.array(list(itertools.product(*(nodes for nodes, _ in rules))))
    w = np.array([np.prod(pair) for pair in itertools.product(*(weight for _, weight in rules))])

    def k(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return sklearn_kernels.RBF(LENGTHSCALE[:d])(a, b)

    chain = k(x, u) * w[None, :]
    for _ in range(power - 1):
        chain = chain @ k(u, u) * w[None, :]
    got = power_gram(power, x, y, LENGTHSCALE[:d], measure(d))
    np.testing.assert_allclose(got, chain @ k(u, y), rtol=1e-9)


def test_nuclear_dominant_kernel_equals_adaptive_quadrature() -> None:
    x, y = points(4, 2, 1), points(5, 2, 1)

    def integrand(u: float, a: float, b: float) -> float:
        density = np.exp(-0.5 * ((u - CENTRE[0]) / SCALE[0]) ** 2)
        both = np.exp(-0.5 * ((u - a) ** 2 + (u - b) ** 2) / LENGTHSCALE[0] ** 2)
        return both * density / (SCALE[0] * np.sqrt(2.0 * np.pi))

    expected = [
        [integrate.quad(integrand, -15.0, 15.0, args=(a, b), epsabs=1e-13)[0] for b in y[:, 0]]
        for a in x[:, 0]
    ]
    got = nuclear_dominant_kernel(x, y, LENGTHSCALE[:1], measure(1))
    np.testing.assert_allclose(got, expected, rtol=1e-10)


@pytest.mark.parametrize("power", [0, 1, 3])
def test_normalised_power_gram_is_one_at_the_centre_and_proportional_to_the_raw_one(
    power: int,
) -> None:
    x = np.concatenate([CENTRE[None, :], points(6, 3, 3)])
    raw, normalised = (
        power_gram(power, x, x, LENGTHSCALE, measure(3), normalised=flag) for flag in (False, True)
    )
    assert normalised[0, 0] == 1.0
    np.testing.assert_allclose(normalised, raw / raw[0, 0], rtol=1e-12)


@pytest.mark.parametrize("power", [0, 1, 3])
def test_power_gram_does_not_cancel_far_from_the_centre(power: int) -> None:
    """At 30 lengthscales the exponent is a difference of numbers near 1,000."""
    x = np.array([[25.0], [25.3]])
    coefficients = kernels.power_coefficients(power, LENGTHSCALE[:1], measure(1))
    C, A, B = (np.longdouble(np.asarray(c)[0]) for c in coefficients)
    u = (x - CENTRE[0]).astype(np.longdouble)
    exact = C * np.exp(-0.5 * ((A - B) * (u**2 + u.T**2) + B * (u - u.T) ** 2))
    got = power_gram(power, x, x, LENGTHSCALE[:1], measure(1))
    np.testing.assert_allclose(got, exact.astype(float), rtol=1e-11)


@pytest.mark.parametrize("power", [0, 1, 3])
@pytest.mark.parametrize("normalised", [False, True])
def test_expected_power_gram_equals_quadrature_over_both_gaussians(
    power: int, normalised: bool
) -> None:
    d, rng = 2, np.random.default_rng(7)
    (x, y), (v, w) = rng.normal(size=(2, 3, d)), rng.uniform(0.05, 0.8, size=(2, 3, d))
    expected = np.ones((3, 3))
    for i, k, j in itertools.product(range(3), range(3), range(d)):
        a, weight_a = trapezoid(x[i, j], np.sqrt(v[i, j]), 120)
        b, weight_b = trapezoid(y[k, j], np.sqrt(w[k, j]), 120)
        expected[i, k] *= weight_a @ one_dimensional_power(power, a, b, j) @ weight_b
        if normalised:
            centre = CENTRE[j : j + 1]
            expected[i, k] /= one_dimensional_power(power, centre, centre, j)[0, 0]
    got = expected_power_gram(power, x, v, y, w, LENGTHSCALE[:d], measure(d), normalised=normalised)
    np.testing.assert_allclose(got, expected, rtol=1e-8)


@pytest.mark.parametrize("power", [0, 1, 3])
def test_expected_power_gram_without_variance_is_power_gram(power: int) -> None:
    x, y = points(8, 4, 3), points(9, 3, 3)
    got = expected_power_gram(
        power, x, np.zeros_like(x), y, np.zeros_like(y), LENGTHSCALE, measure(3)
    )
    np.testing.assert_allclose(
        got, power_gram(power, x, y, LENGTHSCALE, measure(3)), rtol=1e-11, atol=1e-300
    )


@pytest.mark.parametrize("power", [0, 1, 3])
@pytest.mark.parametrize("normalised", [False, True])
def test_smoothed_power_gram_is_the_expected_one_at_points(power: int, normalised: bool) -> None:
    x, y = points(8, 4, 3), points(9, 3, 3)
    w = np.random.default_rng(7).uniform(0.05, 0.8, size=y.shape)
    kernel = (LENGTHSCALE, measure(3))
    got = smoothed_power_gram(power, x, y, w, *kernel, normalised=normalised)
    nothing = np.zeros_like(x)
    expected = expected_power_gram(power, x, nothing, y, w, *kernel, normalised=normalised)
    np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-300)


def test_trace_of_square_equals_quadrature() -> None:
    expected = 1.0
    for j in range(3):
        u, w = trapezoid(CENTRE[j], SCALE[j], 240)
        k = np.exp(-0.5 * ((u[:, None] - u[None, :]) / LENGTHSCALE[j]) ** 2)
        expected *= w @ k**2 @ w
    np.testing.assert_allclose(kernels.trace_of_square(LENGTHSCALE, SCALE), expected, rtol=1e-8)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    log_lengthscale=st.floats(-1.5, 1.5),
    log_scale=st.floats(-1.0, 1.5),
    spread=st.floats(0.01, 5.0),
)
def test_nuclear_dominant_kernel_is_symmetric_and_positive_semi_definite(
    seed: int, log_lengthscale: float, log_scale: float, spread: float
) -> None:
    x = spread * np.random.default_rng(seed).normal(size=(12, 2))
    x[6] = x[0]
    at = Measure(jnp.asarray(CENTRE[:2]), jnp.exp(log_scale) * jnp.ones(2))
    gram = np.asarray(nuclear_dominant_kernel(x, x, np.exp(log_lengthscale) * np.ones(2), at))
    # Rounding of the exponent, which may be a difference of large numbers, is the only asymmetry.
    largest = np.max((x - CENTRE[:2]) ** 2) * np.exp(-2.0 * log_lengthscale) + 1.0
    rounding = 1e-15 * largest * gram.max()
    np.testing.assert_allclose(gram, gram.T, atol=rounding)
    assert np.linalg.eigvalsh((gram + gram.T) / 2.0).min() >= -len(x) * rounding
    assert gram.min() >= 0.0
    np.testing.assert_allclose(gram[6], gram[0], atol=rounding)
