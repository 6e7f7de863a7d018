"""Draws of hyperparameters: against a dense grid, without a second compilation."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_cmab.data import Outcomes
from bayes_cmab.inference import NUTS, Draws, WarmStart, cold_start, potential, sample
from bayes_cmab.models import RewardModel
from bayes_cmab.policies import Program

MODEL = RewardModel(unit_variance=True)
RNG = np.random.default_rng(11)
R = RNG.uniform(-2.0, 2.0, (24, 1))
Y = np.sin(2.0 * R[:, 0]) + 0.3 * RNG.standard_normal(24)


def outcomes(n: int) -> Outcomes:
    return Outcomes.create(R[:n], Y[:n], capacity=24)


@partial(jax.jit, static_argnums=(3, 4))
def run(rows: Outcomes, key: jax.Array, start: WarmStart, settings: NUTS, cold: bool) -> Draws:
    return sample(Program(MODEL, (rows,)), key, start, settings, cold=cold)


def start(settings: NUTS) -> WarmStart:
    return cold_start(Program(MODEL, (outcomes(24),)), jax.random.key(0), settings.chains)


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


def test_draws_have_the_moments_of_a_dense_grid_integral() -> None:
    """Four means and deviations within 4.5 standard errors at 1,000 steps thinned to 400 draws.

    With at least 200 effective draws the false-alarm rate is below 1e-4.
    """
    settings = NUTS(draws=400, chains=4, warmup=200, thinning=3)
    draws = run(outcomes(24), jax.random.key(1), start(settings), settings, True)
    mean, deviation = grid_moments(outcomes(24))
    got = np.stack(
        [
            np.log(np.asarray(draws.sites["reward_lengthscale"])[..., 0]),
            np.log(np.asarray(draws.sites["reward_noise_scale"])),
        ]
    ).reshape(2, -1)
    error = 4.5 * deviation / np.sqrt(200)
    np.testing.assert_array_less(np.abs(got.mean(axis=1) - mean), error)
    np.testing.assert_array_less(np.abs(got.std(axis=1) - deviation), error)
    assert not np.any(draws.stats.diverging)
    assert draws.sites["reward_lengthscale"].shape == (4, 100, 1)
    assert all(np.shape(value) == (4, 100) for value in draws.stats)
    assert np.all(np.isfinite(draws.stats.energy))


@pytest.mark.parametrize("method", ["sequential", "vectorized"])
def test_growing_data_and_warm_starts_compile_nothing_again(method: str) -> None:
    settings = NUTS(draws=8, chains=2, warmup=20, rewarm=10, chain_method=method)
    before = run._cache_size()
    warm = run(outcomes(10), jax.random.key(0), start(settings), settings, True).following
    for n in (11, 12, 24):
        draws = run(outcomes(n), jax.random.key(n), warm, settings, False)
        warm = draws.following
        assert np.all(np.isfinite(draws.stats.lp))
    assert run._cache_size() == before + 2  # one cold program, one warm
    eigenvalues = np.linalg.eigvalsh(warm.inverse_mass_matrix)
    assert np.all(eigenvalues > 0.0)


def test_the_same_key_gives_the_same_draws() -> None:
    settings = NUTS(draws=8, chains=2, warmup=20, rewarm=10)
    first, second, other = (
        run(outcomes(10), jax.random.key(seed), start(settings), settings, True)
        for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(first.stats.lp, second.stats.lp)
    assert not np.array_equal(first.stats.lp, other.stats.lp)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draws": 0}, "draws: expected at least 1, got 0"),
        ({"draws": 10, "chains": 4}, "draws: expected a multiple of the 4 chains, got 10"),
        ({"target_accept": 1.0}, "target_accept: expected a number between 0 and 1"),
        ({"chain_method": "parallel"}, "chain_method: expected 'sequential' or 'vectorized'"),
    ],
)
def test_bad_settings_are_refused_by_name(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NUTS(**options)
