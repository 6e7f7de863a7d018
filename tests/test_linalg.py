"""The masked Cholesky factor, its updates, and the log densities built on it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bayes_cmab import linalg
from bayes_cmab.linalg import Factor

CAPACITY = 9
ALL = jnp.ones(CAPACITY, bool)

factorise = jax.jit(linalg.factorise)
append_row = jax.jit(linalg.append_row)
gaussian = jax.jit(linalg.gaussian_log_density)
masks = pytest.mark.parametrize(
    "mask",
    [np.arange(CAPACITY) < 6, np.isin(np.arange(CAPACITY), [0, 2, 3, 7, 8])],
    ids=["prefix", "scattered"],
)


def healthy(seed: int, condition: float = 1e3) -> np.ndarray:
    """Return a random positive definite matrix (CAPACITY, CAPACITY) of a given condition."""
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(CAPACITY, CAPACITY)))
    matrix = (basis * np.geomspace(1.0, 1.0 / condition, CAPACITY)) @ basis.T
    return 3.0 * (matrix + matrix.T) / 2.0


def rbf(x: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * np.sum((x[:, None] - x[None, :]) ** 2, axis=-1))


def used(matrix: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return np.asarray(matrix)[np.ix_(mask, mask)]


def test_a_healthy_matrix_gets_no_jitter() -> None:
    for seed in range(3):
        matrix = healthy(seed)
        factor = factorise(matrix, ALL)
        assert factor.jitter == 0.0
        expected = np.linalg.inv(np.linalg.cholesky(matrix))
        np.testing.assert_allclose(factor.inverse, expected, rtol=1e-10, atol=1e-12)


def test_a_noise_floor_of_one_in_ten_million_needs_no_jitter() -> None:
    x = np.random.default_rng(0).normal(size=(CAPACITY, 1))
    x[4:] = x[:5]
    assert factorise(rbf(x) + 1e-7 * np.eye(CAPACITY), ALL).jitter == 0.0


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_duplicates_get_the_first_jitter_at_any_scale_and_it_is_recorded(scale: float) -> None:
    x = np.random.default_rng(1).normal(size=(CAPACITY, 2))
    x[6:] = x[:3]
    matrix = scale * rbf(x)
    factor = factorise(matrix, ALL)
    assert factor.jitter == linalg.FIRST_JITTER
    jittered = matrix + linalg.FIRST_JITTER * scale * np.eye(CAPACITY)
    identity = factor.inverse @ jittered @ factor.inverse.T
    np.testing.assert_allclose(identity, np.eye(CAPACITY), atol=1e-4)


def test_pivots_that_are_rounding_errors_are_not_accepted() -> None:
    """Without jitter this matrix factorises, with a last pivot of a few units of rounding."""
    lower = np.eye(CAPACITY)
    lower[-1, -1] = 1e-8
    lower[-1, :-1] = np.sqrt((1.0 - 1e-16) / (CAPACITY - 1))
    matrix = lower @ lower.T
    matrix[-1, -1] = np.nextafter(matrix[-1, -1], 2.0) + 1e-15
    assert np.linalg.cholesky(matrix)[-1, -1] < 1e-6
    factor = factorise(matrix, ALL)
    assert factor.jitter == linalg.FIRST_JITTER
    assert np.abs(factor.inverse).max() < 2.0 / np.sqrt(linalg.FIRST_JITTER)


def test_a_small_diagonal_entry_is_not_taken_for_a_small_pivot() -> None:
    root = np.geomspace(1.0, 1e-7, CAPACITY)
    matrix = root[:, None] * healthy(5) * root[None, :]
    factor = factorise(matrix, ALL)
    assert factor.jitter == 0.0
    expected = np.linalg.inv(np.linalg.cholesky(healthy(5)))
    np.testing.assert_allclose(factor.inverse * root[None, :], expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("last", [-1.0, -1e-4, np.nan])
def test_a_hopeless_matrix_gives_nan_after_the_largest_jitter(last: float) -> None:
    factor = factorise(np.diag([1.0] * (CAPACITY - 1) + [last]), ALL)
    assert np.isnan(factor.inverse).any()
    np.testing.assert_allclose(factor.jitter, linalg.LARGEST_JITTER, rtol=1e-12)


def test_a_slightly_indefinite_matrix_gets_the_smallest_power_of_ten_that_works() -> None:
    last = -3e-8  # a jitter of 1e-7 times the mean diagonal, 8/9, lifts it above zero
    factor = factorise(np.diag([1.0] * (CAPACITY - 1) + [last]), ALL)
    np.testing.assert_allclose(factor.jitter, 1e-7, rtol=1e-12)
    assert np.isfinite(factor.inverse).all()


def test_under_vmap_each_matrix_gets_its_own_jitter() -> None:
    x = np.random.default_rng(1).normal(size=(CAPACITY, 2))
    x[6:] = x[:3]
    indefinite = np.diag([1.0] * (CAPACITY - 1) + [-1.0])
    stack = jnp.stack([healthy(0), rbf(x), indefinite])
    together = jax.jit(jax.vmap(linalg.factorise, (0, None)))(stack, ALL)
    np.testing.assert_allclose(
        together.jitter, [0.0, linalg.FIRST_JITTER, linalg.LARGEST_JITTER], rtol=1e-12
    )
    for alone, row in zip(stack, together.inverse, strict=True):
        np.testing.assert_allclose(row, factorise(alone, ALL).inverse, rtol=1e-6, atol=1e-9)


@masks
def test_padding_is_an_identity_block_whatever_stood_there(mask: np.ndarray) -> None:
    matrix = healthy(2)
    garbage = np.where(np.outer(mask, mask), matrix, np.nan)
    factor = factorise(garbage, mask)
    expected = np.linalg.inv(np.linalg.cholesky(used(matrix, mask)))
    np.testing.assert_allclose(used(factor.inverse, mask), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(used(factor.inverse, ~mask), np.eye(np.sum(~mask)))
    assert not np.any(np.asarray(factor.inverse)[np.ix_(mask, ~mask)])
    assert not np.any(np.asarray(factor.inverse)[np.ix_(~mask, mask)])
    assert factor.jitter == 0.0


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_padding_changes_neither_the_jitter_nor_the_factor_of_a_singular_matrix(
    scale: float,
) -> None:
    ones = scale * np.ones((4, 4))
    alone = jax.jit(linalg.factorise)(ones, np.ones(4, bool))
    padded = factorise(np.pad(ones, (0, CAPACITY - 4)), np.arange(CAPACITY) < 4)
    assert padded.jitter == alone.jitter == linalg.FIRST_JITTER
    # Rounding, 2.2e-16, over the jitter, 1e-10, times the few rows.
    np.testing.assert_allclose(padded.inverse[:4, :4], alone.inverse, rtol=1e-5, atol=0.0)
    np.testing.assert_array_equal(padded.inverse[4:, 4:], np.eye(CAPACITY - 4))
    np.testing.assert_allclose(
        linalg.log_determinant(padded), linalg.log_determinant(alone), rtol=1e-7
    )


def test_no_rows_in_use_give_the_identity() -> None:
    factor = factorise(np.full((CAPACITY, CAPACITY), np.nan), np.zeros(CAPACITY, bool))
    np.testing.assert_array_equal(factor.inverse, np.eye(CAPACITY))
    assert linalg.log_determinant(factor) == factor.jitter == 0.0


@jax.jit
def append_all(matrix: jax.Array, start: jax.Array) -> Factor:
    """Factorise the first ``start`` rows and append the others one by one."""

    def one(i: jax.Array, factor: Factor) -> Factor:
        column = jnp.where(jnp.arange(CAPACITY) < i, matrix[i], 0.0)
        return linalg.append_row(factor, column, matrix[i, i], i)[0]

    first = linalg.factorise(matrix, linalg.row_mask(start, CAPACITY))
    return jax.lax.fori_loop(start, CAPACITY, one, first)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    start=st.integers(0, CAPACITY),
    log_condition=st.floats(0.0, 6.0),
)
def test_appending_rows_one_by_one_equals_one_factorisation(
    seed: int, start: int, log_condition: float
) -> None:
    matrix = healthy(seed, 10.0**log_condition)
    appended, whole = append_all(matrix, start), factorise(matrix, ALL)
    assert appended.jitter == whole.jitter == 0.0
    # The error of a factor grows as the condition; 2.2e-16 * 1e6 * CAPACITY is about 2e-9.
    largest = np.abs(whole.inverse).max()
    np.testing.assert_allclose(appended.inverse, whole.inverse, atol=1e-8 * largest)


def test_an_appended_row_returns_its_whitened_column_and_pivot() -> None:
    matrix, n = healthy(3), CAPACITY - 1
    before = factorise(matrix, np.arange(CAPACITY) < n)
    _, v, pivot = append_row(before, np.append(matrix[n, :n], 0.0), matrix[n, n], n)
    lower = np.linalg.cholesky(matrix)
    np.testing.assert_allclose(v, np.append(lower[n, :n], 0.0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(pivot, lower[n, n], rtol=1e-9)


def test_a_row_that_would_need_more_jitter_than_is_allowed_gives_nan() -> None:
    matrix, n = healthy(3), CAPACITY - 1
    before = factorise(matrix, np.arange(CAPACITY) < n)
    matrix[n, n] *= 0.1  # no longer positive definite
    assert np.linalg.eigvalsh(matrix)[0] < -1e-3 * matrix[n, n]
    after, _, pivot = append_row(before, np.append(matrix[n, :n], 0.0), matrix[n, n], n)
    assert np.isnan(pivot)
    assert np.isnan(after.inverse).any()


def test_near_duplicate_rows_with_tiny_noise_give_a_finite_factor_and_a_recorded_jitter() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(CAPACITY, 2))
    x[3:] = x[:1] + 1e-9 * rng.normal(size=(CAPACITY - 3, 2))
    matrix = rbf(x) + 1e-13 * np.eye(CAPACITY)
    for factor in (factorise(matrix, ALL), append_all(matrix, 2)):
        assert np.isfinite(factor.inverse).all()
        assert 0.0 < factor.jitter <= 10.0 * linalg.FIRST_JITTER
    # Both stand for the same matrix up to the jitter: they agree on what the data determine.
    right = matrix @ np.ones(CAPACITY)
    for factor in (factorise(matrix, ALL), append_all(matrix, 2)):
        np.testing.assert_allclose(matrix @ linalg.solve(factor, right), right, rtol=1e-6)


@masks
def test_log_determinant_solve_and_trace_solve_equal_numpy(mask: np.ndarray) -> None:
    matrix, rng = healthy(6), np.random.default_rng(6)
    factor = factorise(matrix, mask)
    right = np.where(mask[:, None], rng.normal(size=(CAPACITY, 2)), 0.0)
    symmetric = np.where(np.outer(mask, mask), healthy(7), 0.0)
    inside = used(matrix, mask)
    np.testing.assert_allclose(
        linalg.log_determinant(factor), np.linalg.slogdet(inside)[1], rtol=1e-11
    )
    for columns in (right, right[:, 0]):
        solved = np.zeros_like(columns)
        solved[mask] = np.linalg.solve(inside, columns[mask])
        np.testing.assert_allclose(linalg.solve(factor, columns), solved, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        linalg.trace_solve(factor, symmetric),
        np.trace(np.linalg.solve(inside, used(symmetric, mask))),
        rtol=1e-10,
    )


@masks
def test_gaussian_log_density_equals_scipy(mask: np.ndarray) -> None:
    matrix = healthy(8)
    residual = np.where(mask, np.random.default_rng(8).normal(size=CAPACITY), 0.0)
    inside = used(matrix, mask)
    expected = stats.multivariate_normal(np.zeros(len(inside)), inside).logpdf(residual[mask])
    np.testing.assert_allclose(gaussian(residual, matrix, mask), expected, rtol=1e-11)


def test_gaussian_log_density_of_no_rows_is_zero() -> None:
    nothing = jnp.zeros(CAPACITY, bool)
    assert gaussian(jnp.zeros(CAPACITY), jnp.eye(CAPACITY), nothing) == 0.0


# Both densities as functions of four log hyperparameters and of the data, padded and dense.
COLUMNS = jnp.asarray(np.random.default_rng(9).normal(size=(CAPACITY, 2)))
DATA = jnp.asarray(np.random.default_rng(10).normal(size=CAPACITY))
THETA = jnp.array([0.3, -0.2, 0.1, -1.5])
SCATTERED = np.isin(np.arange(CAPACITY), [0, 2, 3, 7, 8])
ROWS = np.flatnonzero(SCATTERED)


def covariance(theta: jax.Array, rows: jax.Array) -> jax.Array:
    scaled = rows / jnp.exp(theta[1:3])[None, :]
    squared = jnp.sum((scaled[:, None, :] - scaled[None, :, :]) ** 2, axis=-1)
    return jnp.exp(theta[0] - 0.5 * squared) + jnp.exp(theta[3]) * jnp.eye(len(rows))


def second_moments(data: jax.Array) -> jax.Array:
    return jnp.exp(-0.5 * (data[:, None] - data[None, :]) ** 2)


def masked_density(name: str, theta: jax.Array, data: jax.Array) -> jax.Array:
    matrix = covariance(theta, COLUMNS)
    if name == "gaussian":
        return linalg.gaussian_log_density(jnp.where(SCATTERED, data, 0.0), matrix, SCATTERED)
    both = SCATTERED[:, None] & SCATTERED[None, :]
    moments = jax.lax.stop_gradient(jnp.where(both, second_moments(data), 0.0))
    return linalg.trace_log_density(matrix, moments, SCATTERED)


def dense_density(name: str, theta: jax.Array, data: jax.Array) -> jax.Array:
    matrix, inside = covariance(theta, COLUMNS[ROWS]), data[ROWS]
    log_determinant = jnp.linalg.slogdet(matrix)[1]
    if name == "gaussian":
        quadratic = inside @ jnp.linalg.solve(matrix, inside)
        return -0.5 * (quadratic + log_determinant + len(ROWS) * jnp.log(2.0 * jnp.pi))
    moments = jax.lax.stop_gradient(second_moments(inside))
    return -0.5 * (jnp.trace(jnp.linalg.solve(matrix, moments)) + log_determinant)


@pytest.mark.parametrize("name", ["gaussian", "trace"])
def test_density_gradient_and_hessian_equal_autodiff_of_the_dense_formula(name: str) -> None:
    def everything(density: object) -> dict[str, jax.Array]:
        f = functools.partial(density, name)  # type: ignore[arg-type]
        return {
            "value": f(THETA, DATA),
            "gradient": jax.grad(f)(THETA, DATA),
            "data gradient": jax.grad(f, 1)(THETA, DATA),
            "hessian": jax.hessian(f)(THETA, DATA),
        }

    @jax.jit
    def both() -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        return everything(masked_density), everything(dense_density)

    masked, dense = both()
    for key, expected in dense.items():
        np.testing.assert_allclose(masked[key], expected, rtol=1e-9, atol=1e-11, err_msg=key)
    # The rows left out have no influence.
    assert not np.any(np.asarray(masked["data gradient"])[~SCATTERED])


@pytest.mark.parametrize("name", ["gaussian", "trace"])
def test_density_gradient_equals_finite_differences_under_vmap(name: str) -> None:
    f = functools.partial(masked_density, name)
    value_and_gradient = jax.jit(jax.vmap(jax.value_and_grad(f), (0, None)))
    step = 1e-5
    steps = step * jnp.eye(4)
    points = THETA[None] + jnp.concatenate([jnp.zeros((1, 4)), steps, -steps])
    value, gradient = value_and_gradient(points, DATA)
    differences = (value[1:5] - value[5:]) / (2.0 * step)
    np.testing.assert_allclose(gradient[0], differences, rtol=1e-7, atol=1e-8)


def test_the_gradient_in_the_whole_covariance_is_symmetric_and_zero_in_the_padding() -> None:
    matrix, residual = healthy(11), jnp.where(SCATTERED, DATA, 0.0)
    gradient = np.asarray(jax.jit(jax.grad(gaussian, 1))(residual, matrix, SCATTERED))
    np.testing.assert_allclose(gradient, gradient.T, atol=1e-12)
    assert not np.any(gradient[~SCATTERED])
    assert not np.any(gradient[:, ~SCATTERED])
    precision = np.linalg.inv(used(matrix, SCATTERED))
    alpha = precision @ np.asarray(DATA)[ROWS]
    expected = 0.5 * (np.outer(alpha, alpha) - precision)
    np.testing.assert_allclose(used(gradient, SCATTERED), expected, rtol=1e-8, atol=1e-10)
