"""The reward model: its likelihood against scikit-learn and a dense formula, and its program."""

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
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from bayes_cmab.data import Outcomes
from bayes_cmab.kernels import power_gram
from bayes_cmab.models import RewardModel

ROWS, CAPACITY = 6, 8
MODELS = {
    "paper": RewardModel(),
    "centred": RewardModel(integrated_mean=False),
    "cme": RewardModel(power=0, unit_variance=True, integrated_mean=False),
}
every_model = pytest.mark.parametrize("name", MODELS)


def outcomes(d: int, count: int = ROWS, capacity: int = CAPACITY) -> Outcomes:
    rng = np.random.default_rng(d)
    r, y = rng.normal(size=(ROWS, d)), 1.5 + rng.normal(size=ROWS)
    return Outcomes.create(r[:count], y[:count], capacity=capacity)


def sites(name: str, d: int) -> dict[str, jax.Array]:
    """Return values away from the medians."""
    default = MODELS[name].default_sites(d)
    rng = np.random.default_rng(10)
    return {
        key: value * np.exp(0.4 * rng.normal(size=value.shape))
        for key, value in sorted(default.items())
    }


@jax.jit(static_argnums=0)
def log_likelihood(name: str, values: dict[str, jax.Array], rows: Outcomes) -> jax.Array:
    model = MODELS[name]
    return model.log_likelihood(model.hyperparameters(values), rows)


@jax.jit(static_argnums=0)
def density_and_gradient(
    name: str, logarithms: dict[str, jax.Array], rows: Outcomes
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Return NumPyro's log density at exp(logarithms), and its gradient in the logarithms."""

    def density(logarithms: dict[str, jax.Array]) -> jax.Array:
        values = jax.tree.map(jnp.exp, logarithms)
        return log_density(MODELS[name], (rows,), {}, values)[0]

    return jax.value_and_grad(density)(logarithms)


def logs(values: dict[str, jax.Array]) -> dict[str, jax.Array]:
    return {key: jnp.log(value) for key, value in values.items()}


def test_log_likelihood_of_the_rbf_model_equals_scikit_learn() -> None:
    values, rows = sites("cme", 2), outcomes(2)
    noise = float(values["reward_noise_scale"]) ** 2 + 1e-6
    kernel = RBF(np.asarray(values["reward_lengthscale"])) + WhiteKernel(noise)
    r, y = (np.asarray(column)[:ROWS] for column in rows[:2])
    reference = GaussianProcessRegressor(kernel, optimizer=None).fit(r, y - y.mean())
    np.testing.assert_allclose(
        log_likelihood("cme", values, rows), reference.log_marginal_likelihood_value_, rtol=1e-8
    )


def test_log_likelihood_with_a_constant_mean_equals_scikit_learn_with_a_constant_kernel() -> None:
    """With power 0, whose kernel scikit-learn has: a check of the integrated mean."""
    model, rows = RewardModel(power=0), outcomes(1)
    values = MODELS["paper"].default_sites(1)
    kernel = RBF(1.0) + ConstantKernel(9.0) + WhiteKernel(0.09 + 1e-6)
    r, y = (np.asarray(column)[:ROWS] for column in rows[:2])
    reference = GaussianProcessRegressor(kernel, optimizer=None).fit(r, y)
    got = jax.jit(lambda v: model.log_likelihood(model.hyperparameters(v), rows))(values)
    np.testing.assert_allclose(got, reference.log_marginal_likelihood_value_, rtol=1e-8)


@pytest.mark.parametrize("name", ["paper", "centred"])
def test_log_likelihood_of_the_nuclear_dominant_kernel_equals_a_dense_formula(name: str) -> None:
    values, rows = sites(name, 2), outcomes(2)
    hyper = MODELS[name].hyperparameters(values)
    r, y = (np.asarray(column)[:ROWS] for column in rows[:2])
    gram = np.asarray(power_gram(1, r, r, hyper.lengthscale_r, hyper.measure))
    centre = np.zeros((1, 2))
    gram /= power_gram(1, centre, centre, hyper.lengthscale_r, hyper.measure)
    covariance = float(values["reward_scale"]) ** 2 * gram
    covariance += (float(values["reward_noise_scale"]) ** 2 + 1e-6) * np.eye(ROWS)
    if name == "paper":
        covariance += 9.0
    else:
        y = y - y.mean()
    expected = stats.multivariate_normal(np.zeros(ROWS), covariance).logpdf(y)
    np.testing.assert_allclose(log_likelihood(name, values, rows), expected, rtol=1e-10)


def log_prior(values: dict[str, jax.Array], d: int) -> float:
    medians = {"lengthscale": d**0.25, "scale": 1.0, "noise_scale": 0.3}
    spreads = {"lengthscale": 0.7, "scale": 0.7, "noise_scale": 1.2}
    total = 0.0
    for site, value in values.items():
        key = site.removeprefix("reward_")
        total += np.sum(stats.lognorm(s=spreads[key], scale=medians[key]).logpdf(value))
    return float(total)


@every_model
def test_the_programs_density_is_the_likelihood_times_the_priors(name: str) -> None:
    values, rows = sites(name, 2), outcomes(2)
    got, _ = density_and_gradient(name, logs(values), rows)
    expected = float(log_likelihood(name, values, rows)) + log_prior(values, 2)
    np.testing.assert_allclose(got, expected, rtol=1e-10)


@every_model
def test_the_programs_gradient_equals_finite_differences(name: str) -> None:
    values, rows, step = logs(sites(name, 2)), outcomes(2), 1e-5
    flat, unravel = ravel_pytree(values)
    _, gradient = density_and_gradient(name, values, rows)
    difference = []
    for i in range(flat.size):
        up, down = (
            density_and_gradient(name, unravel(flat.at[i].add(sign * step)), rows)[0]
            for sign in (1.0, -1.0)
        )
        difference.append((up - down) / (2.0 * step))
    got = ravel_pytree(gradient)[0]
    np.testing.assert_allclose(got, difference, rtol=1e-6, atol=1e-7)


@every_model
def test_padding_changes_neither_density_nor_gradient(name: str) -> None:
    values = logs(sites(name, 2))
    padded = density_and_gradient(name, values, outcomes(2))
    exact = density_and_gradient(name, values, outcomes(2, capacity=ROWS))
    garbage = outcomes(2)
    garbage = garbage._replace(intermediates=garbage.intermediates.at[-1].set(3.3))
    for other in (padded, density_and_gradient(name, values, garbage)):
        for got, expected in zip(jax.tree.leaves(other), jax.tree.leaves(exact), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-10)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1])
def test_the_program_works_with_no_row_and_with_one(d: int, count: int) -> None:
    values = sites("paper", d)
    density, gradient = density_and_gradient("paper", logs(values), outcomes(d, count))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    expected = log_prior(values, d)
    if count:
        variance = 9.0 + 1e-6 + float(values["reward_noise_scale"]) ** 2
        hyper = MODELS["paper"].hyperparameters(values)
        r, y = outcomes(d).intermediates[:1], float(outcomes(d).outcomes[0])
        variance += float(MODELS["paper"].gram(hyper, r, r)[0, 0])
        expected += stats.norm(0.0, np.sqrt(variance)).logpdf(y)
    np.testing.assert_allclose(density, expected, rtol=1e-10)


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
@pytest.mark.parametrize("d", [1, 3])
def test_default_sites_are_exactly_the_sample_sites(name: str, d: int) -> None:
    found = program_sites(MODELS[name], outcomes(d))
    default = MODELS[name].default_sites(d)
    assert found["sample"] == {key: value.shape for key, value in default.items()}
    assert set(found["deterministic"]) == {"reward_variance", "reward_noise"}
    assert set(found["factor"]) == {"reward_log_likelihood"}
    assert set(found["plate"]) == {"r_dim"}


def test_prior_draws_are_positive_and_the_variances_are_squares() -> None:
    draws = Predictive(MODELS["paper"], num_samples=50)(jax.random.key(1), outcomes(2))
    assert draws["reward_lengthscale"].shape == (50, 2)
    for site, values in draws.items():
        if site != "reward_log_likelihood":
            assert np.min(values) > 0.0, site
    np.testing.assert_allclose(draws["reward_variance"], draws["reward_scale"] ** 2, rtol=1e-12)
    np.testing.assert_allclose(
        draws["reward_noise"], draws["reward_noise_scale"] ** 2 + 1e-6, rtol=1e-12
    )


def test_the_programs_structure_can_be_inspected_and_rendered() -> None:
    relations = get_model_relations(MODELS["paper"], (outcomes(2),))
    assert set(MODELS["paper"].default_sites(2)) <= set(relations["sample_sample"])
    pytest.importorskip("graphviz")
    source = numpyro.render_model(
        MODELS["paper"], (outcomes(2),), render_distributions=True, render_params=True
    ).source
    for site in MODELS["paper"].default_sites(2):
        assert site in source
