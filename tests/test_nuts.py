"""Draws of hyperparameters: against a dense grid, without a second compilation."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_cmab.data import Outcomes
from bayes_cmab.inference import NUTS, SVI, Fit, Sampler
from bayes_cmab.inference.gate import Gate, overall
from bayes_cmab.inference.marginal import begin, run_pass
from bayes_cmab.models import RewardModel
from bayes_cmab.programs import Program, potential

MODEL = RewardModel(unit_variance=True)
RNG = np.random.default_rng(11)
R = RNG.uniform(-2.0, 2.0, (24, 1))
Y = np.sin(2.0 * R[:, 0]) + 0.3 * RNG.standard_normal(24)


def outcomes(n: int) -> Outcomes:
    return Outcomes.create(R[:n], Y[:n], capacity=24)


def run(sampler: Sampler, n: int, seed: int, passes: int) -> Fit:
    start = begin(MODEL, sampler, (outcomes(n),), jax.random.key(seed))
    for number in range(passes):
        key = jax.random.fold_in(jax.random.key(seed), number)
        fit = run_pass(MODEL, sampler, (outcomes(n),), key, start)
        start = fit.following
    return fit


def grid_moments(rows: Outcomes) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of (log lengthscale, log noise) by a sum over a grid."""
    lengthscale, noise = jnp.linspace(-2.5, 1.5, 121), jnp.linspace(-2.5, 0.5, 121)

    @jax.jit
    @partial(jax.vmap, in_axes=(None, 0))
    @partial(jax.vmap, in_axes=(0, None))
    def energy(x: jax.Array, z: jax.Array) -> jax.Array:
        sites = {"reward_lengthscale": x[None], "reward_noise_scale": z}
        return potential(Program(MODEL, (rows,)), sites)

    values = np.asarray(energy(lengthscale, noise))
    weight = np.exp(values.min() - values)
    weight /= weight.sum()
    assert weight[[0, -1]].sum() + weight[:, [0, -1]].sum() < 1e-6  # the grid is wide enough
    points = np.stack(np.meshgrid(lengthscale, noise))
    mean = (points * weight).sum(axis=(1, 2))
    return mean, np.sqrt(((points - mean[:, None, None]) ** 2 * weight).sum(axis=(1, 2)))


def logarithms(fit: Fit) -> np.ndarray:
    names = ("reward_lengthscale", "reward_noise_scale")
    return np.stack([np.log(np.asarray(fit.trace[name])).ravel() for name in names])


@pytest.mark.slow
def test_draws_have_the_moments_of_a_dense_grid_integral() -> None:
    """Four means and deviations within 4.5 standard errors of 200 effective draws of 1,200.

    The false-alarm rate is below 1e-4.
    """
    fit = run(NUTS(draws=400, warmup=100, thinning=3), 24, 1, passes=3)
    mean, deviation = grid_moments(outcomes(24))
    got = logarithms(fit)
    error = 4.5 * deviation / np.sqrt(200)
    np.testing.assert_array_less(np.abs(got.mean(axis=1) - mean), error)
    np.testing.assert_array_less(np.abs(got.std(axis=1) - deviation), error)
    assert overall(Gate(rhat=1.05, ess=200).check("reward", fit)) == "ok"
    assert fit.trace["reward_lengthscale"].shape == (4, 300, 1)
    assert fit.sites["reward_lengthscale"].shape == (400, 1)
    assert fit.trace["reward_noise"].shape == (4, 300)  # deterministic sites come along
    assert {value.shape for value in fit.stats.values()} == {(4, 300)}


def test_the_agents_draws_are_a_thinned_trace() -> None:
    fit = run(NUTS(draws=8, chains=2, warmup=10, thinning=3), 10, 0, passes=1)
    for name, value in fit.sites.items():
        expected = np.asarray(fit.trace[name])[:, 2::3]
        np.testing.assert_array_equal(value, expected.reshape(8, *expected.shape[2:]))
    np.testing.assert_array_equal(fit.log_weight, np.zeros(8))


@pytest.mark.slow
def test_the_normal_guide_is_close_to_a_dense_grid_integral() -> None:
    """Within 0.3 posterior standard deviations: SVI is an approximation, and its ELBO is noisy."""
    fit = run(SVI(steps=200, particles=8), 24, 1, passes=4)
    mean, deviation = grid_moments(outcomes(24))
    got = logarithms(fit)
    np.testing.assert_array_less(np.abs(got.mean(axis=1) - mean), 0.3 * deviation)
    np.testing.assert_allclose(got.std(axis=1), deviation, rtol=0.3)
    checks = {check.criterion: check for check in Gate().check("reward", fit)}
    assert checks["elbo_drift"].verdict == "ok"
    assert 0.0 < checks["pareto_k"].value < 1.3  # a normal misses some of the tails
    assert fit.stats["elbo"].shape == (200,)


@pytest.mark.slow
def test_importance_ratios_of_the_guide_are_those_of_the_program() -> None:
    fit = run(SVI(draws=4, diagnostic_draws=6, steps=20), 24, 0, passes=1)
    program = Program(MODEL, (outcomes(24),))
    loc, scale = fit.following["auto_loc"], fit.following["auto_scale_tril"]
    energy = jax.jit(lambda z: potential(program, z))
    for i in range(6):
        z = {name: jnp.log(fit.trace[name][0, i]) for name in MODEL.default_sites(1)}
        np.testing.assert_allclose(fit.stats["log_p"][0, i], -energy(z), rtol=1e-9)
        flat = jax.flatten_util.ravel_pytree(z)[0]
        normal = jax.scipy.stats.multivariate_normal.logpdf(flat, loc, scale @ scale.T)
        np.testing.assert_allclose(fit.stats["log_q"][0, i], normal, rtol=1e-9)


@pytest.mark.parametrize(
    "sampler",
    [
        NUTS(draws=8, chains=2, warmup=10),
        pytest.param(
            NUTS(draws=8, chains=2, warmup=10, chain_method="vectorized"), marks=pytest.mark.slow
        ),
        SVI(draws=8, steps=10, diagnostic_draws=8),
    ],
    ids=["sequential", "vectorized", "svi"],
)
def test_growing_data_and_warm_starts_compile_nothing_again(sampler: Sampler) -> None:
    before = run_pass._cache_size()
    following = begin(MODEL, sampler, (outcomes(10),), jax.random.key(0))
    for n in (10, 11, 12, 24):
        fit = run_pass(MODEL, sampler, (outcomes(n),), jax.random.key(n), following)
        following = fit.following
        assert all(np.all(np.isfinite(value)) for value in fit.sites.values())
    assert run_pass._cache_size() == before + 1
    if isinstance(sampler, NUTS):
        assert np.all(np.linalg.eigvalsh(following.inverse_mass_matrix) > 0.0)


@pytest.mark.parametrize(
    "sampler",
    [
        NUTS(draws=8, chains=2, warmup=10),
        pytest.param(SVI(draws=8, steps=10), marks=pytest.mark.slow),
    ],
)
def test_the_same_key_gives_the_same_draws(sampler: Sampler) -> None:
    first, second, other = (run(sampler, 10, seed, passes=1) for seed in (5, 5, 6))
    jax.tree.map(np.testing.assert_array_equal, first, second)
    assert not np.array_equal(first.sites["reward_noise_scale"], other.sites["reward_noise_scale"])


def test_no_rows_give_the_prior() -> None:
    """Mean and deviation of log noise within 5 errors of 100 effective draws of 800."""
    sampler = NUTS(draws=200, warmup=50, thinning=4)
    rows = Outcomes.empty(1, 24)
    start = begin(MODEL, sampler, (rows,), jax.random.key(0))
    for number in range(3):
        fit = run_pass(MODEL, sampler, (rows,), jax.random.key(number), start)
        start = fit.following
    prior = MODEL.priors.noise_scale
    got = np.log(np.asarray(fit.trace["reward_noise_scale"]))
    assert abs(got.mean() - np.log(prior.median)) < 5.0 * prior.spread / 10.0
    assert abs(got.std() / prior.spread - 1.0) < 5.0 / np.sqrt(200)
