"""The transition model: its likelihood against scipy and scikit-learn, and its program."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from jax.flatten_util import ravel_pytree
from numpyro import handlers
from numpyro.infer import Predictive
from numpyro.infer.inspect import get_model_relations
from numpyro.infer.util import log_density
from scipy import stats
from sklearn.gaussian_process.kernels import RBF

from bayes_cmab.data import Transitions
from bayes_cmab.models import TransitionModel

ROWS, CAPACITY = 6, 8
MODEL = TransitionModel()
SHAPES = [(0, 1, 1), (1, 1, 2), (2, 1, 3)]
every_shape = pytest.mark.parametrize(("p", "q", "d"), SHAPES)


def transitions(p: int, q: int, d: int, count: int = ROWS, capacity: int = CAPACITY) -> Transitions:
    rng = np.random.default_rng(100 * p + 10 * q + d)
    rows = (rng.normal(size=(ROWS, k))[:count] for k in (p, q, d))
    return Transitions.create(*rows, capacity=capacity)


def sites(p: int, q: int, d: int) -> dict[str, jax.Array]:
    """Return values away from the medians, different in every dimension of r."""
    default, rng = MODEL.default_sites(p, q, d), np.random.default_rng(10)
    return {
        key: value * np.exp(0.4 * rng.normal(size=value.shape))
        for key, value in sorted(default.items())
    }


@jax.jit
def log_likelihood(values: dict[str, jax.Array], rows: Transitions) -> jax.Array:
    return MODEL.log_likelihood(MODEL.hyperparameters(values), rows)


@jax.jit
def density_and_gradient(
    logarithms: dict[str, jax.Array], rows: Transitions
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Return NumPyro's log density at exp(logarithms), and its gradient in the logarithms."""

    def density(logarithms: dict[str, jax.Array]) -> jax.Array:
        return log_density(MODEL, (rows,), {}, jax.tree.map(jnp.exp, logarithms))[0]

    return jax.value_and_grad(density)(logarithms)


def logs(values: dict[str, jax.Array]) -> dict[str, jax.Array]:
    return {key: jnp.log(value) for key, value in values.items()}


def log_prior(values: dict[str, jax.Array]) -> float:
    """Return the priors' log density; a weight, not its root, has the stated prior."""
    root = (0.3**0.5, 0.6)
    priors = {
        **{f"scale_{label}": root for label in ("s", "a", "sa")},
        **{f"lengthscale_{label}": (0.6, 0.6) for label in ("s", "a")},
        "noise_scale": (0.3, 0.7),
    }
    total = 0.0
    for site, value in values.items():
        median, spread = priors[site.removeprefix("transition_")]
        total += np.sum(stats.lognorm(s=spread, scale=median).logpdf(value))
    return float(total)


def dense_log_likelihood(values: dict[str, jax.Array], rows: Transitions) -> float:
    """Return the sum over the dimensions of r of Gaussian log densities."""
    n = int(rows.size)
    s, a, r = (np.asarray(column)[:n] for column in rows[:3])
    v = {key.removeprefix("transition_"): np.asarray(value) for key, value in values.items()}
    total = 0.0
    for j in range(r.shape[1]):
        k_a = RBF(v["lengthscale_a"][j])(a)
        covariance = 0.25 + v["scale_a"][j] ** 2 * k_a
        if s.shape[1]:
            k_s = RBF(v["lengthscale_s"][j])(s)
            covariance += v["scale_s"][j] ** 2 * k_s + v["scale_sa"][j] ** 2 * k_s * k_a
        covariance += (v["noise_scale"][j] ** 2 + 1e-6) * np.eye(n)
        total += stats.multivariate_normal(np.zeros(n), covariance).logpdf(r[:, j])
    return float(total)


@every_shape
def test_log_likelihood_and_density_equal_dense_formulas(p: int, q: int, d: int) -> None:
    values, rows = sites(p, q, d), transitions(p, q, d)
    expected = dense_log_likelihood(values, rows)
    np.testing.assert_allclose(log_likelihood(values, rows), expected, rtol=1e-10)
    density, _ = density_and_gradient(logs(values), rows)
    np.testing.assert_allclose(density, expected + log_prior(values), rtol=1e-10)


@every_shape
def test_the_program_works_with_no_row_and_with_one(p: int, q: int, d: int) -> None:
    values = sites(p, q, d)
    for count in (0, 1):
        rows = transitions(p, q, d, count)
        density, gradient = density_and_gradient(logs(values), rows)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
        expected = dense_log_likelihood(values, rows) if count else 0.0
        np.testing.assert_allclose(density, expected + log_prior(values), rtol=1e-10)


def test_the_programs_gradient_equals_finite_differences() -> None:
    values, rows, step = logs(sites(1, 1, 2)), transitions(1, 1, 2), 1e-5
    flat, unravel = ravel_pytree(values)
    _, gradient = density_and_gradient(values, rows)
    differences = []
    for i in range(flat.size):
        up, down = (
            density_and_gradient(unravel(flat.at[i].add(sign * step)), rows)[0]
            for sign in (1.0, -1.0)
        )
        differences.append((up - down) / (2.0 * step))
    np.testing.assert_allclose(ravel_pytree(gradient)[0], differences, rtol=1e-6, atol=1e-7)


def test_padding_changes_neither_density_nor_gradient() -> None:
    values, padded = logs(sites(1, 1, 2)), transitions(1, 1, 2)
    exact = density_and_gradient(values, transitions(1, 1, 2, capacity=ROWS))
    garbage = padded._replace(
        contexts=padded.contexts.at[-1].set(3.3), actions=padded.actions.at[-1].set(3.3)
    )
    for rows in (padded, garbage):
        got = density_and_gradient(values, rows)
        for leaf, expected in zip(jax.tree.leaves(got), jax.tree.leaves(exact), strict=True):
            np.testing.assert_allclose(leaf, expected, rtol=1e-10)


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


@every_shape
def test_default_sites_are_exactly_the_sample_sites(p: int, q: int, d: int) -> None:
    found = program_sites(MODEL, transitions(p, q, d))
    default = MODEL.default_sites(p, q, d)
    assert found["sample"] == {key: value.shape for key, value in default.items()}
    assert "transition_noise" in found["deterministic"]
    assert set(found["factor"]) == {"transition_log_likelihood"}
    assert set(found["plate"]) == {"r_dim"}


@every_shape
def test_the_prior_variance_is_the_diagonal_of_the_gram_matrix(p: int, q: int, d: int) -> None:
    hyper, rows = MODEL.hyperparameters(sites(p, q, d)), transitions(p, q, d)
    gram = jax.jit(MODEL.gram)(hyper, *rows[:2], *rows[:2])
    diagonal = np.diagonal(gram, axis1=1, axis2=2)
    np.testing.assert_allclose(
        diagonal, np.tile(MODEL.prior_variance(hyper)[:, None], CAPACITY), rtol=1e-12
    )
    with_noise = np.diagonal(jax.jit(MODEL.covariance)(hyper, *rows[:2]), axis1=1, axis2=2)
    np.testing.assert_allclose(
        with_noise - diagonal, np.tile(hyper.transition_noise[:, None], CAPACITY), rtol=1e-10
    )


def test_prior_draws_are_positive_and_the_noise_is_a_square() -> None:
    draws = Predictive(MODEL, num_samples=50)(jax.random.key(1), transitions(2, 1, 3))
    assert draws["transition_lengthscale_s"].shape == (50, 3, 2)
    for site, values in draws.items():
        if site != "transition_log_likelihood":
            assert np.min(values) > 0.0, site
    np.testing.assert_allclose(
        draws["transition_noise"], draws["transition_noise_scale"] ** 2 + 1e-6, rtol=1e-12
    )


def test_the_programs_structure_can_be_inspected_and_rendered() -> None:
    rows, default = transitions(1, 1, 2), MODEL.default_sites(1, 1, 2)
    assert set(default) <= set(get_model_relations(MODEL, (rows,))["sample_sample"])
    pytest.importorskip("graphviz")
    source = numpyro.render_model(
        MODEL, (rows,), render_distributions=True, render_params=True
    ).source
    for site in default:
        assert site in source
