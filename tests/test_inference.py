"""Type-II maximum a posteriori: the mode, its start, and how often it compiles."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.optimize import minimize

from bayes_cmab.data import Data, Outcomes, Rewards, Transitions, with_capacity
from bayes_cmab.inference import MAP, maximise, maximise_program
from bayes_cmab.models import RewardModel
from bayes_cmab.policies import EmbeddingPolicy
from bayes_cmab.programs import Program, potential, sample_sites

POLICY = EmbeddingPolicy()
FIT = jax.jit(partial(maximise, POLICY), static_argnums=2)


def make_data(n: int, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    s, a = rng.uniform(-1.5, 1.5, (2, n, 1))
    r = np.sin(2 * s) + np.cos(a) + 0.1 * rng.standard_normal((n, 1))
    y = np.sin(2 * r[:, 0]) + 0.2 * rng.standard_normal(n)
    rewards = Rewards.empty(1, 1, 32)
    return Data(
        Transitions.create(s, a, r, capacity=32), Outcomes.create(r, y, capacity=32), rewards
    )


def test_the_mode_equals_that_of_an_independent_optimiser() -> None:
    data = make_data(25)
    sites, info = FIT(data, POLICY.default_sites(1, 1, 1), MAP(tolerance=1e-8, max_steps=200))
    for name, program in POLICY.programs(data, sites).items():
        names = sample_sites(program)
        at_mode = {site: jnp.log(sites[site]) for site in names}
        flat, restore = jax.flatten_util.ravel_pytree(at_mode)
        density = jax.jit(lambda z, p=program, r=restore: potential(p, r(z)))
        gradient = jax.jit(jax.grad(density))
        found = minimize(density, flat + 0.3, jac=gradient, method="L-BFGS-B", tol=1e-12)
        np.testing.assert_allclose(density(flat), found.fun, atol=1e-6)
        np.testing.assert_allclose(flat, found.x, atol=2e-3)
        assert np.linalg.norm(gradient(flat)) < 1e-3
        assert bool(info[name].improved)


@pytest.mark.slow
def test_a_fit_never_returns_something_worse_than_its_start() -> None:
    data = make_data(10)
    start = {k: 50.0 * v for k, v in POLICY.default_sites(1, 1, 1).items()}
    sites, info = FIT(data, start, MAP(max_steps=1))
    for name, program in POLICY.programs(data, sites).items():
        energy = jax.jit(lambda z, p=program: potential(p, z))
        names = sample_sites(program)
        before, after = (energy({k: jnp.log(v[k]) for k in names}) for v in (start, sites))
        assert float(after) <= float(before) + 1e-9
        assert np.isfinite(float(info[name].potential))


def nowhere(outcomes: Any) -> None:
    del outcomes
    x = numpyro.sample("x", dist.LogNormal(0.0, 1.0))
    numpyro.factor("data", jnp.where(x > 100.0, jnp.nan, -x))


def never(outcomes: Any) -> None:
    del outcomes
    numpyro.sample("x", dist.LogNormal(0.0, 1.0))
    numpyro.factor("data", -jnp.inf)


def test_a_start_of_no_density_is_left_if_another_has_one() -> None:
    start = {"x": jnp.asarray(1000.0)}
    sites, info = maximise_program(Program(nowhere, (None,)), start, MAP())
    assert info.improved
    assert np.isfinite(info.potential)
    assert sites["x"] < 100.0
    for settings in (MAP(starts=1), MAP()):
        sites, info = maximise_program(Program(never, (None,)), start, settings)
        assert not info.improved
        np.testing.assert_allclose(sites["x"], 1000.0)


def test_a_warm_start_at_the_mode_stays_there_and_nothing_is_compiled_again() -> None:
    settings = MAP(starts=1)
    sites = POLICY.default_sites(1, 1, 1)
    before = FIT._cache_size()
    for n in (12, 13, 20, 25):
        sites, _ = FIT(make_data(n), sites, settings)
    again, info = FIT(make_data(25), sites, settings)
    assert FIT._cache_size() == before + 1
    for name in sites:
        np.testing.assert_allclose(again[name], sites[name], rtol=2e-2)
    assert all(int(i.steps) < 20 for i in info.values())


def test_padding_does_not_move_the_density() -> None:
    data = make_data(9)
    sites = {k: jnp.log(v) for k, v in RewardModel().default_sites(1).items()}
    value = jax.jit(lambda outcomes: potential(Program(RewardModel(), (outcomes,)), sites))
    wide = with_capacity(data.outcomes, 64)
    np.testing.assert_allclose(value(data.outcomes), value(wide), rtol=1e-12)


def test_zero_rows_give_the_prior_mode() -> None:
    empty = Data.empty(1, 1, 1)
    sites, _ = FIT(empty, POLICY.default_sites(1, 1, 1), MAP(tolerance=1e-8))
    for name, value in POLICY.default_sites(1, 1, 1).items():
        np.testing.assert_allclose(sites[name], value, rtol=1e-4)


def two_modes() -> None:
    """Have modes near exp(-1) and, the better one, exp(2)."""
    x = jnp.log(numpyro.sample("x", dist.LogNormal(0.0, 2.0)))
    both = jnp.stack([-0.5 * ((x + 1.0) / 0.2) ** 2, 3.0 - 0.5 * ((x - 2.0) / 0.2) ** 2])
    numpyro.factor("likelihood", jax.scipy.special.logsumexp(both))


def test_several_starts_find_the_better_of_two_modes() -> None:
    program, start = Program(two_modes, ()), {"x": jnp.exp(-1.0)}
    fit = jax.jit(partial(maximise_program, program), static_argnums=1)
    one, _ = fit(start, MAP(starts=1))
    np.testing.assert_allclose(jnp.log(one["x"]), -1.0, atol=0.05)
    several, info = fit(start, MAP(starts=8))
    np.testing.assert_allclose(jnp.log(several["x"]), 2.0, atol=0.05)
    assert bool(info.improved)
    again, _ = fit(several, MAP(starts=8))
    np.testing.assert_allclose(again["x"], several["x"], rtol=1e-3)


def far_mode() -> None:
    """Have a mode near exp(3), and a better one near the prior's median."""
    x = jnp.log(numpyro.sample("x", dist.LogNormal(0.0, 2.0)))
    both = jnp.stack([-0.5 * ((x - 0.5) / 0.3) ** 2, -4.0 - 0.5 * ((x - 3.0) / 0.3) ** 2])
    numpyro.factor("likelihood", jax.scipy.special.logsumexp(both))


def test_by_default_a_fit_leaves_a_poor_mode_that_one_start_keeps() -> None:
    program, start = Program(far_mode, ()), {"x": jnp.exp(3.0)}
    fit = jax.jit(partial(maximise_program, program), static_argnums=1)
    kept, left = (fit(start, settings)[0]["x"] for settings in (MAP(starts=1), MAP()))
    np.testing.assert_allclose(jnp.log(kept), 3.0, atol=0.1)
    np.testing.assert_allclose(jnp.log(left), 0.5, atol=0.1)


@pytest.mark.parametrize("field", ["every", "max_steps", "tolerance", "starts"])
def test_bad_settings_are_refused_by_name(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field}: expected"):
        MAP(**{field: 0})
