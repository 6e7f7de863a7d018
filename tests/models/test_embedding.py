"""The embedding model and the direct reward model: likelihoods, reference, and programs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree
from numpyro import handlers
from numpyro.infer import Predictive
from numpyro.infer.inspect import get_model_relations
from numpyro.infer.util import log_density
from scipy import stats
from scipy.spatial.distance import pdist
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from bayes_cmab.data import Rewards, Transitions
from bayes_cmab.kernels import Measure, power_gram
from bayes_cmab.models import DirectRewardModel, EmbeddingModel
from bayes_cmab.models.embedding import reference_features, reference_lengthscale

ROWS, CAPACITY = 6, 8
MODELS = {
    "composite": EmbeddingModel(),
    "matrix_normal": EmbeddingModel(likelihood="matrix_normal"),
    "unit matern": EmbeddingModel(kernel="matern52", unit_variance=True),
}
every_model = pytest.mark.parametrize("name", MODELS)


def transitions(
    p: int = 1, q: int = 1, d: int = 2, count: int = ROWS, capacity: int = CAPACITY
) -> Transitions:
    rng = np.random.default_rng(100 * p + 10 * q + d)
    rows = (rng.normal(size=(ROWS, k))[:count] for k in (p, q, d))
    return Transitions.create(*rows, capacity=capacity)


def sites(name: str, p: int = 1, q: int = 1) -> dict[str, jax.Array]:
    """Return values away from the medians."""
    default, rng = MODELS[name].default_sites(p, q), np.random.default_rng(10)
    return {
        key: value * np.exp(0.4 * rng.normal(size=value.shape))
        for key, value in sorted(default.items())
    }


@jax.jit(static_argnums=0)
def log_likelihood(name: str, values: dict[str, jax.Array], rows: Transitions) -> jax.Array:
    model = MODELS[name]
    return model.log_likelihood(model.hyperparameters(values), rows, reference_features(rows))


@jax.jit(static_argnums=0)
def density_and_gradient(
    name: str, logarithms: dict[str, jax.Array], rows: Transitions
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Return NumPyro's log density at exp(logarithms), and its gradient in the logarithms."""

    def density(logarithms: dict[str, jax.Array]) -> jax.Array:
        values = jax.tree.map(jnp.exp, logarithms)
        return log_density(MODELS[name], (rows,), {}, values)[0]

    return jax.value_and_grad(density)(logarithms)


def logs(values: dict[str, jax.Array]) -> dict[str, jax.Array]:
    return {key: jnp.log(value) for key, value in values.items()}


def log_prior(values: dict[str, jax.Array]) -> float:
    priors = {
        "lengthscale_s": (0.6, 0.6),
        "lengthscale_a": (0.6, 0.6),
        "scale": (1.0, 0.25),
        "noise_scale": (0.2**0.5, 0.5),
    }
    total = 0.0
    for site, value in values.items():
        median, spread = priors[site.removeprefix("embedding_")]
        total += np.sum(stats.lognorm(s=spread, scale=median).logpdf(value))
    return float(total)


def dense_covariance(name: str, values: dict[str, jax.Array], rows: Transitions) -> np.ndarray:
    """Return C of the rows in use, with scikit-learn's kernels."""
    n = int(rows.size)
    covariance = float(values.get("embedding_scale", 1.0)) ** 2 * np.ones((n, n))
    for label, column in (("s", rows.contexts), ("a", rows.actions)):
        if column.shape[1]:
            lengthscale = np.asarray(values[f"embedding_lengthscale_{label}"])
            kernel = Matern(lengthscale, nu=2.5) if "matern" in name else RBF(lengthscale)
            covariance = covariance * kernel(np.asarray(column)[:n])
    return covariance + (float(values["embedding_noise_scale"]) ** 2 + 1e-6) * np.eye(n)


def dense_log_likelihood(name: str, C: np.ndarray, r: np.ndarray) -> float:
    """Return the composite or the matrix normal likelihood at the median heuristic."""
    n, d = r.shape
    lengthscale = np.median(pdist(r)) / np.sqrt(2.0)
    K = RBF(lengthscale)(r)
    if name != "matrix_normal":
        weight = (1.0 + 4.0 / lengthscale**2) ** (d / 2.0)
        logdet = np.linalg.slogdet(C)[1]
        return -0.5 * weight * (logdet + np.trace(np.linalg.solve(C, K)))
    # log MN(K; 0, C, R) is the density of vec(K) ~ N(0, R (x) C).
    one = jnp.ones(d)
    R = np.asarray(power_gram(1, r, r, lengthscale * one, Measure(0.0 * one, 2.0 * one)))
    return stats.multivariate_normal(np.zeros(n * n), np.kron(R, C)).logpdf(K.ravel(order="F"))


@every_model
def test_log_likelihood_equals_a_dense_formula(name: str) -> None:
    values, rows = sites(name), transitions()
    C = dense_covariance(name, values, rows)
    expected = dense_log_likelihood(name, C, np.asarray(rows.intermediates)[:ROWS])
    np.testing.assert_allclose(log_likelihood(name, values, rows), expected, rtol=1e-8)


@every_model
def test_the_programs_density_is_the_likelihood_times_the_priors(name: str) -> None:
    values, rows = sites(name), transitions()
    got, _ = density_and_gradient(name, logs(values), rows)
    expected = float(log_likelihood(name, values, rows)) + log_prior(values)
    np.testing.assert_allclose(got, expected, rtol=1e-10)


@every_model
def test_the_programs_gradient_equals_finite_differences(name: str) -> None:
    values, rows, step = logs(sites(name)), transitions(), 1e-5
    flat, unravel = ravel_pytree(values)
    _, gradient = density_and_gradient(name, values, rows)
    differences = []
    for i in range(flat.size):
        up, down = (
            density_and_gradient(name, unravel(flat.at[i].add(sign * step)), rows)[0]
            for sign in (1.0, -1.0)
        )
        differences.append((up - down) / (2.0 * step))
    np.testing.assert_allclose(ravel_pytree(gradient)[0], differences, rtol=1e-6, atol=1e-6)


@every_model
def test_padding_changes_neither_density_nor_gradient(name: str) -> None:
    values, padded = logs(sites(name)), transitions()
    exact = density_and_gradient(name, values, transitions(capacity=ROWS))
    garbage = Transitions(*(column.at[-1].set(3.3) for column in padded[:3]), padded.size)
    for rows in (padded, garbage):
        got = density_and_gradient(name, values, rows)
        for leaf, expected in zip(jax.tree.leaves(got), jax.tree.leaves(exact), strict=True):
            np.testing.assert_allclose(leaf, expected, rtol=1e-9)


@pytest.mark.parametrize(("p", "q", "d"), [(0, 1, 1), (2, 2, 3)])
def test_the_program_works_without_context_and_with_few_rows(p: int, q: int, d: int) -> None:
    values = sites("composite", p, q)
    for count in (0, 1, ROWS):
        rows = transitions(p, q, d, count)
        density, gradient = density_and_gradient("composite", logs(values), rows)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
        C = dense_covariance("composite", values, rows)
        if count == ROWS:
            expected = dense_log_likelihood("composite", C, np.asarray(rows.intermediates)[:ROWS])
        else:  # the reference lengthscale is sqrt(d), and K_rr is one
            weight = (1.0 + 4.0 / d) ** (d / 2.0)
            expected = -0.5 * weight * float(np.sum(np.log(np.diag(C)) + 1.0 / np.diag(C)))
        np.testing.assert_allclose(density, expected + log_prior(values), rtol=1e-9)


def test_an_unknown_likelihood_is_refused() -> None:
    with pytest.raises(ValueError, match="likelihood: expected one of 'composite', 'matrix_norm"):
        EmbeddingModel(likelihood="nonsense")  # type: ignore[arg-type]


def test_the_matrix_normal_likelihood_of_no_rows_is_zero() -> None:
    assert log_likelihood("matrix_normal", sites("matrix_normal"), transitions(count=0)) == 0.0


def test_the_likelihood_prefers_little_noise_where_r_is_a_smooth_function_of_a() -> None:
    a = np.linspace(-1.0, 1.0, ROWS)
    rows = Transitions.create(None, a, np.sin(2.0 * a), capacity=CAPACITY)
    values = MODELS["composite"].default_sites(0, 1)
    quiet = log_likelihood("composite", values | {"embedding_noise_scale": jnp.float64(0.2)}, rows)
    loud = log_likelihood("composite", values | {"embedding_noise_scale": jnp.float64(3.0)}, rows)
    assert quiet > loud


reference = jax.jit(reference_lengthscale)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    distinct=st.integers(1, 7),
    repeats=st.integers(0, 4),
    seed=st.integers(0, 10**6),
)
def test_reference_lengthscale_is_numpys_median_of_the_distinct_rows(
    distinct: int, repeats: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(distinct, 2))
    together = rng.permutation(np.concatenate([rows, rows[rng.integers(distinct, size=repeats)]]))
    capacity = 12
    mask = rng.permutation(np.arange(capacity) < len(together))
    padded = rng.normal(size=(capacity, 2))  # what stands outside the mask does not matter
    padded[mask] = together
    expected = np.median(pdist(rows)) / np.sqrt(2.0) if distinct >= 5 else np.sqrt(2.0)
    np.testing.assert_allclose(reference(padded, mask), expected, rtol=1e-12)


def test_reference_lengthscale_without_rows_is_the_root_of_the_dimension() -> None:
    for d in (1, 3):
        got = reference(np.zeros((4, d)), np.zeros(4, bool))
        np.testing.assert_allclose(got, np.sqrt(d))


def program_sites(model: Any, *arguments: Any) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return the shapes of the sites of a program by type, without computing anything."""
    found: dict[str, dict[str, tuple[int, ...]]] = {}

    def run() -> None:
        trace = handlers.trace(handlers.seed(model, jax.random.key(0))).get_trace(*arguments)
        for name, site in trace.items():
            kind = "factor" if site.get("is_observed") else site["type"]
            found.setdefault(kind, {})[name] = jnp.shape(site["value"])

    jax.eval_shape(run)
    return found


@every_model
@pytest.mark.parametrize(("p", "q"), [(0, 1), (2, 3)])
def test_default_sites_are_exactly_the_sample_sites(name: str, p: int, q: int) -> None:
    found = program_sites(MODELS[name], transitions(p, q))
    default = MODELS[name].default_sites(p, q)
    assert found["sample"] == {key: value.shape for key, value in default.items()}
    assert set(found["deterministic"]) == {"embedding_variance", "embedding_noise"}
    assert set(found["factor"]) == {"embedding_log_likelihood"}
    assert set(found["plate"]) == ({"s_dim", "a_dim"} if p else {"a_dim"})


def test_prior_draws_are_positive_and_the_variances_are_squares() -> None:
    draws = Predictive(MODELS["composite"], num_samples=50)(jax.random.key(1), transitions(2))
    assert draws["embedding_lengthscale_s"].shape == (50, 2)
    for site, values in draws.items():
        if site != "embedding_log_likelihood":
            assert np.min(values) > 0.0, site
    np.testing.assert_allclose(
        draws["embedding_variance"], draws["embedding_scale"] ** 2, rtol=1e-12
    )
    np.testing.assert_allclose(
        draws["embedding_noise"], draws["embedding_noise_scale"] ** 2 + 1e-6, rtol=1e-12
    )


# The direct reward model, contextual GP-UCB's.


def rewards(count: int = ROWS) -> Rewards:
    rng, rows = np.random.default_rng(3), Rewards.empty(1, 1, CAPACITY)
    append = jax.jit(Rewards.append)
    for s, a, y in zip(*rng.normal(size=(2, ROWS, 1)), rng.normal(2.0, size=ROWS), strict=True):
        rows = append(rows, s, a, y)
    mask = np.arange(CAPACITY) < count
    columns = (
        jnp.where(mask.reshape(-1, *[1] * (column.ndim - 1)), column, 0.0) for column in rows[:3]
    )
    return Rewards(*columns, jnp.asarray(count))


def test_the_direct_reward_models_density_equals_scikit_learn_and_the_priors() -> None:
    model = DirectRewardModel()
    values = sites("composite")

    @jax.jit
    def density(values: dict[str, jax.Array], rows: Rewards) -> jax.Array:
        return log_density(model, (rows,), {}, values)[0]

    rows = rewards()
    s, a, y = (np.asarray(column)[:ROWS] for column in rows[:3])
    scales = [float(values[f"embedding_lengthscale_{label}"][0]) for label in "sa"]
    kernel = ConstantKernel(float(values["embedding_scale"]) ** 2) * RBF(scales)
    kernel += WhiteKernel(float(values["embedding_noise_scale"]) ** 2 + 1e-6)
    reference = GaussianProcessRegressor(kernel, optimizer=None).fit(
        np.hstack([s, a]), y - y.mean()
    )
    expected = reference.log_marginal_likelihood_value_ + log_prior(values)
    np.testing.assert_allclose(density(values, rows), expected, rtol=1e-8)
    np.testing.assert_allclose(density(values, rewards(0)), log_prior(values), rtol=1e-10)


def test_the_direct_reward_model_has_the_embeddings_sites() -> None:
    found = program_sites(DirectRewardModel(), rewards())
    default = EmbeddingModel().default_sites(1, 1)
    assert found["sample"] == {key: value.shape for key, value in default.items()}
    assert set(found["factor"]) == {"direct_log_likelihood"}


@pytest.mark.parametrize(
    ("model", "rows"), [(EmbeddingModel(), transitions()), (DirectRewardModel(), rewards())]
)
def test_the_programs_structure_can_be_inspected_and_rendered(model: Any, rows: Any) -> None:
    default = EmbeddingModel().default_sites(1, 1)
    assert set(default) <= set(get_model_relations(model, (rows,))["sample_sample"])
    pytest.importorskip("graphviz")
    source = numpyro.render_model(
        model, (rows,), render_distributions=True, render_params=True
    ).source
    for site in default:
        assert site in source
