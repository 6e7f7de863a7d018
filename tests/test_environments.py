"""The settings A to F: exact values, sampling laws, and random streams shared by all agents."""

import functools
import itertools
import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from scipy import integrate, stats

from bayes_cmab import environment
from bayes_cmab.environments import (
    SETTINGS,
    Environment,
    Purpose,
    get_environment,
    stream,
    trial_key,
)

# The statistical tests use fixed seeds. Over a fresh seed, each of them would fail a correct
# environment with at most this probability (Bonferroni over the comparisons it makes).
FALSE_ALARM_RATE = 1e-4
N_DRAWS = 20_000

every_setting = pytest.mark.parametrize("env", SETTINGS.values(), ids=SETTINGS.keys())
# The random streams are code shared by all settings: five dimensions, a mixture, a varying spread.
some_settings = pytest.mark.parametrize("env", [SETTINGS[name] for name in "DEF"], ids=list("DEF"))


# Compiled once per setting: what these tests cost is compilation.
mean_reward = jax.jit(Environment.mean_reward, static_argnums=0)
gradient = jax.jit(jax.grad(Environment.mean_reward, (1, 2)), static_argnums=0)


def point(value: float) -> jax.Array:
    return jnp.array([value], float)


@functools.partial(jax.jit, static_argnums=0)
def _draws(env: Environment, key: jax.Array, context: jax.Array, action: jax.Array):
    key_intermediate, key_outcome = jax.random.split(key, (2, N_DRAWS))
    r = jax.vmap(env.sample_intermediate, (0, None, None))(key_intermediate, context, action)
    y = jax.vmap(env.sample_outcome)(key_outcome, r)
    return r, y, y - jax.vmap(env.outcome_mean)(r)


def draws(env: Environment, seed: int, context: float, action: float) -> list[np.ndarray]:
    """Return N_DRAWS draws of (r, y) at one (s, a), and the noise of y."""
    results = _draws(env, jax.random.key(seed), point(context), point(action))
    return [np.asarray(result) for result in results]


@functools.partial(jax.jit, static_argnums=0)
def play(env: Environment, key: jax.Array, actions: jax.Array):
    """Play one action a round, in a scan; return the stacked steps and the noise in them."""
    state, _ = env.reset(key)
    played = jax.lax.scan(functools.partial(env.step, key), state, actions)[1]
    components, scales = jax.vmap(env._components)(played.context, played.action)
    # N of r relative to each component's mean, and N of y
    residuals = (played.intermediate[:, None, :] - components) / scales[:, None, None]
    return played, residuals, played.outcome - jax.vmap(env.outcome_mean)(played.intermediate)


# Values


def test_oracle_settings_every_field_and_point():
    oracle = oracles.load("settings.json")
    compared = 0
    for name, expected in oracle.items():
        if name == "note":
            continue
        env = get_environment(name)
        table = env.mean_reward_table()
        index, value = env.best_fixed_action()
        assert table.shape == (61, 61)
        for field, target in expected.items():
            match field:
                case "oracle":
                    assert env.oracle_value() == pytest.approx(target, abs=1e-12)
                case "best_fixed_action":
                    assert value == pytest.approx(target, abs=1e-12)
                case "best_fixed_index":
                    assert index == target
                case "random":
                    assert env.random_value() == pytest.approx(target, abs=1e-12)
                case "points":
                    for entry in target:
                        s, a = entry["context"], entry["action"]
                        assert set(entry) == {"context", "action", "value"}
                        assert float(table[s, a]) == pytest.approx(entry["value"], abs=1e-12)
                        direct = mean_reward(env, env.contexts[s], env.actions[a])
                        assert float(direct) == pytest.approx(entry["value"], abs=1e-12)
                        compared += 1
                case _:
                    pytest.fail(f"settings.json: unknown field {field!r} of {name}")
    assert compared >= len(SETTINGS)


@pytest.mark.parametrize("name", ["A", "C", "D", "E"])
def test_mean_reward_matches_closed_form_of_a_sine(name: str):
    """E sin(k X) = exp(-k^2 v / 2) sin(k m) for X ~ N(m, v), off the grid as well."""
    env = SETTINGS[name]
    for s, a in [(0.3, -1.7), (-2.9, 3.2), (5.1, -8.4)]:
        sin, cos, pi = math.sin, math.cos, math.pi
        k, variance, means = {
            "A": (1.0, 0.0625, [sin(pi * s) + cos(pi * a)]),
            "C": (pi, 0.0625, [sin(s), cos(a)]),
            "D": (pi, 0.0625, [sin(s), cos(a), sin(a), cos(s), sin(s) + cos(s)]),
            "E": (2.0, 0.04, [0.5 * sin(s) + cos(a), 0.5 * sin(s) - cos(a)]),
        }[name]
        total = math.exp(-(k**2) * variance / 2) * sum(sin(k * m) for m in means)
        expected = 1 + 1.5 * (total / 2 if name == "E" else total)
        assert float(mean_reward(env, point(s), point(a))) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "s", "a", "tolerance"),
    [
        ("B", 0.3, -0.32, 1e-11),
        ("B", -5.1, 8.4, 1e-11),
        ("F", 0.4, 0.0, 1e-11),
        ("F", -2.2, 3.25, 1e-11),
        ("F", 1.1, -3.0, 1e-11),
        ("F", 1.1, 7.0, 1e-9),
    ],
)
def test_mean_reward_matches_adaptive_quadrature(name: str, s: float, a: float, tolerance: float):
    if name == "B":
        mean, sd, edge = math.sin(s + a), 0.25, 0.0

        def f(r: float) -> float:
            return 1.5 * (math.tanh(5 * math.pi * r) + math.cos(math.pi * r)) + 1
    else:
        mean, sd, edge = 0.5 * math.sin(s) + 0.35 * a, 0.05 + 0.2 * abs(a), 1.0

        def f(r: float) -> float:
            return 1.5 * r - 3 / (1 + math.exp(-12 * (r - 1))) + 1

    def integrand(r: float) -> float:
        return f(r) * stats.norm.pdf(r, mean, sd)

    steps = [edge + x for x in (-0.5, -0.1, 0, 0.1, 0.5)]
    breaks = sorted([*steps, *(mean + x * sd for x in (-10, -2, 2, 10))])
    expected = sum(
        integrate.quad(integrand, low, high, epsabs=1e-13, epsrel=1e-13)[0]
        for low, high in itertools.pairwise(breaks)
    )
    value = float(mean_reward(SETTINGS[name], point(s), point(a)))
    assert value == pytest.approx(expected, abs=tolerance)


@every_setting
def test_mean_reward_agrees_with_simulated_outcomes(env: Environment):
    points = [(-3.0, 3.25), (-1.4, 0.3), (0.2, 0.0), (1.7, -2.6), (3.25, 1.5)]
    threshold = stats.norm.isf(FALSE_ALARM_RATE / (2 * len(points) * len(SETTINGS)))
    for index, (s, a) in enumerate(points):
        _, y, _ = draws(env, 100 + index, s, a)
        standard_error = y.std() / math.sqrt(N_DRAWS)
        assert standard_error < 0.03
        error = y.mean() - float(mean_reward(env, point(s), point(a)))
        assert abs(error) < threshold * standard_error


@every_setting
def test_gradient_of_mean_reward_matches_finite_differences(env: Environment):
    s, a, h = 0.4, -0.9, 1e-5
    for actual, ds, da in zip(gradient(env, point(s), point(a)), (h, 0), (0, h), strict=True):
        above = mean_reward(env, point(s + ds), point(a + da))
        below = mean_reward(env, point(s - ds), point(a - da))
        expected = float(above - below) / (2 * h)
        assert float(actual[0]) == pytest.approx(expected, rel=1e-7, abs=1e-8)


# Sampling laws


def test_intermediate_of_e_is_bimodal():
    """At a = 0 the two modes are five standard deviations either side of their midpoint."""
    s = 0.8
    offset = draws(SETTINGS["E"], 3, s, 0.0)[0][:, 0] - 0.5 * math.sin(s)
    upper = offset > 0
    # Between the modes: |offset| < .2 has probability 6e-5, an expected count of 1.
    assert np.mean(np.abs(offset) < 0.2) < 1e-3
    assert stats.binomtest(int(upper.sum()), N_DRAWS).pvalue > FALSE_ALARM_RATE / 3
    for side, mode in ((upper, 1.0), (~upper, -1.0)):
        test = stats.kstest(offset[side], stats.norm(mode, 0.2).cdf)
        assert test.pvalue > FALSE_ALARM_RATE / 3


def test_intermediate_of_f_is_heteroscedastic():
    s, actions = -0.7, [0.0, -1.0, 3.25]
    for index, (a, sd) in enumerate(zip(actions, [0.05, 0.25, 0.7], strict=True)):
        r = draws(SETTINGS["F"], 200 + index, s, a)[0][:, 0]
        law = stats.norm(0.5 * math.sin(s) + 0.35 * a, sd)
        assert stats.kstest(r, law.cdf).pvalue > FALSE_ALARM_RATE / len(actions)


@pytest.mark.parametrize("name", ["A", "B", "C", "D"])
def test_intermediate_of_a_to_d_is_gaussian_and_independent(name: str):
    env, s, a = SETTINGS[name], 0.9, -1.2
    r = draws(env, 5, s, a)[0]
    sin, cos, pi = math.sin, math.cos, math.pi
    means = {
        "A": [sin(pi * s) + cos(pi * a)],
        "B": [sin(s + a), sin(s - a)],
        "C": [sin(s), cos(a)],
        "D": [sin(s), cos(a), sin(a), cos(s), sin(s) + cos(s)],
    }[name]
    assert r.shape == (N_DRAWS, env.dim_intermediate)
    standard = (r - np.array(means)) / 0.25
    comparisons = 4 * env.dim_intermediate**2
    for i in range(env.dim_intermediate):
        assert stats.kstest(standard[:, i], "norm").pvalue > FALSE_ALARM_RATE / comparisons
        for j in range(i):
            pair = stats.pearsonr(standard[:, i], standard[:, j])
            assert pair.pvalue > FALSE_ALARM_RATE / comparisons


@every_setting
def test_outcome_noise_is_gaussian_with_the_stated_scale(env: Environment):
    noise = draws(env, 6, 0.1, 0.7)[2]
    scale = {"A": 0.05, "B": 1.0, "C": 1.0, "D": 1.0, "E": 0.5, "F": 0.5}[env.name]
    level = FALSE_ALARM_RATE / (2 * len(SETTINGS))
    assert stats.kstest(noise, stats.norm(0, scale).cdf).pvalue > level
    tail = stats.chi2.cdf(np.sum((noise / scale) ** 2), N_DRAWS)
    assert 2 * min(tail, 1 - tail) > level


def test_contexts_are_uniform_on_the_grid():
    env = SETTINGS["A"]
    contexts = jax.jit(jax.vmap(env.sample_context))(jax.random.split(jax.random.key(7), 61 * 200))
    index = jnp.argmin(jnp.abs(contexts - env.contexts.T), axis=1)
    np.testing.assert_array_equal(env.contexts[index], contexts)
    assert stats.chisquare(np.bincount(index, minlength=61)).pvalue > FALSE_ALARM_RATE


@every_setting
def test_offline_rows_are_uniform_on_the_box(env: Environment):
    n = 5_000
    bound = 2.5 if env.name == "F" else 2.0
    r, y = env.sample_offline(jax.random.key(8), n)
    assert r.shape == (n, env.dim_intermediate)
    assert y.shape == (n,)
    assert float(jnp.max(jnp.abs(r))) <= bound
    for column in np.asarray(r).T:
        # The outermost 1% of an interval stays empty with probability 2e-22.
        assert column.min() < -0.98 * bound
        assert column.max() > 0.98 * bound
        uniform = stats.uniform(-bound, 2 * bound)
        assert stats.kstest(column, uniform.cdf).pvalue > FALSE_ALARM_RATE / 22
    noise = np.asarray(y - jax.vmap(env.outcome_mean)(r)) / env.outcome_noise
    assert stats.kstest(noise, "norm").pvalue > FALSE_ALARM_RATE / 22


@every_setting
def test_no_offline_rows_is_two_empty_arrays(env: Environment):
    r, y = env.sample_offline(jax.random.key(8), 0)
    assert r.shape == (0, env.dim_intermediate)
    assert y.shape == (0,)
    assert r.dtype == y.dtype == jnp.float64


# Streams, purity, transformations


@some_settings
def test_agents_of_one_trial_share_contexts_and_noise(env: Environment):
    """Two action sequences: equal contexts, and equal r and y wherever the actions are equal.

    Where they differ, the noise of r and of y, and the sign Z of E, are still equal.
    """
    first = jnp.zeros((12, 1))
    second = first.at[::2].set(0.5)
    (one, r_noise_one, y_noise_one), (two, r_noise_two, y_noise_two) = (
        play(env, trial_key(3, 5), actions) for actions in (first, second)
    )
    np.testing.assert_array_equal(one.context, two.context)
    np.testing.assert_array_equal(one.intermediate[1::2], two.intermediate[1::2])
    np.testing.assert_array_equal(one.outcome[1::2], two.outcome[1::2])
    assert np.all(np.any(one.intermediate[::2] != two.intermediate[::2], axis=1))
    # At a = 0 and .5 the modes of E lie more than eight standard deviations apart.
    sign_one, sign_two = (np.abs(r[:, :, 0]).argmin(axis=1) for r in (r_noise_one, r_noise_two))
    np.testing.assert_array_equal(sign_one, sign_two)
    rounds = np.arange(12)
    np.testing.assert_allclose(
        r_noise_one[rounds, sign_one], r_noise_two[rounds, sign_two], rtol=0, atol=1e-12
    )
    np.testing.assert_allclose(y_noise_one, y_noise_two, rtol=0, atol=1e-12)


def test_streams_differ_by_seed_trial_round_and_purpose():
    keys = [
        stream(trial_key(seed, trial), t, purpose)
        for seed in range(2)
        for trial in range(2)
        for t in range(3)
        for purpose in Purpose
    ]
    data = {tuple(np.asarray(jax.random.key_data(key)).tolist()) for key in keys}
    assert len(data) == len(keys)
    expected = jax.random.fold_in(jax.random.fold_in(trial_key(1, 1), 2), 4)
    np.testing.assert_array_equal(jax.random.key_data(keys[-1]), jax.random.key_data(expected))


def test_step_is_pure_and_equal_under_vmap_and_scan():
    env = SETTINGS["E"]
    keys = [trial_key(0, trial) for trial in range(3)]
    states = [env.reset(key)[0] for key in keys]
    actions = jnp.array([[-1.0], [0.25], [2.0]])
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    step = jax.jit(jax.vmap(env.step))
    batched, again = (step(jnp.stack(keys), stacked, actions) for _ in range(2))
    jax.tree.map(np.testing.assert_array_equal, batched, again)
    for i, key in enumerate(keys):
        scanned, _, _ = play(env, key, jnp.tile(actions[i], (12, 1)))
        for field, expected in zip(batched[1], scanned, strict=True):
            np.testing.assert_allclose(field[i], expected[0], rtol=1e-12)
        np.testing.assert_array_equal(batched[0].context[i], scanned.context[1])
        assert int(batched[0].round[i]) == 1


@some_settings
def test_step_draws_from_the_named_streams_and_reports_the_best_action(env: Environment):
    key = trial_key(0, 0)
    played, _, _ = play(env, key, jnp.full((12, 1), 0.3, float))
    table = np.asarray(env.mean_reward_table())
    grid = np.asarray(env.contexts)[:, 0]
    for t in range(3):
        context = env.sample_context(stream(key, t, Purpose.CONTEXT))
        np.testing.assert_array_equal(played.context[t], context)
        r = env.sample_intermediate(stream(key, t, Purpose.INTERMEDIATE), context, point(0.3))
        np.testing.assert_allclose(played.intermediate[t], r, rtol=1e-12)
        y = env.sample_outcome(stream(key, t, Purpose.OUTCOME), r)
        assert float(played.outcome[t]) == pytest.approx(float(y), rel=1e-10)
        row = grid.tolist().index(float(context[0]))
        assert float(played.best_mean_reward[t]) == table[row].max()
        exact = float(mean_reward(env, context, point(0.3)))
        assert float(played.mean_reward[t]) == pytest.approx(exact, abs=1e-12)


def test_table_first_made_inside_a_trace_holds_values():
    env = SETTINGS["E"]
    environment._table.cache_clear()
    traced = jax.jit(env.mean_reward_table)()
    np.testing.assert_array_equal(env.mean_reward_table(), traced)
    assert env.mean_reward_table().dtype == jnp.float64
    assert env.oracle_value() == pytest.approx(1.551759074234469, abs=1e-12)


@every_setting
def test_environment_is_a_static_argument_that_survives_pickling(env: Environment):
    copy = pickle.loads(pickle.dumps(env))
    assert copy == env
    assert hash(copy) == hash(env)
    compiled = mean_reward._cache_size()
    mean_reward(env, point(0.1), point(0.2))
    assert mean_reward(copy, point(0.1), point(0.2)).dtype == jnp.float64
    assert mean_reward._cache_size() <= compiled + 1


# Declared units and bad input


@every_setting
def test_declared_units_are_those_of_the_grid(env: Environment):
    grid = np.linspace(-3, 3.25, 61)
    np.testing.assert_array_equal(env.contexts, grid[:, None])
    np.testing.assert_array_equal(env.actions, grid[:, None])
    assert env.context_center == env.action_center == pytest.approx((grid.mean(),), abs=1e-15)
    assert env.context_scale == env.action_scale == pytest.approx((grid.std(),), rel=1e-14)
    assert env.intermediate_center == (0.0,) * env.dim_intermediate
    assert env.intermediate_scale == (1.0,) * env.dim_intermediate
    assert (env.outcome_center, env.outcome_scale) == ((0.0,), (1.0,))


def test_unknown_setting_names_the_known_ones():
    with pytest.raises(ValueError, match="expected one of 'A', 'B', 'C', 'D', 'E', 'F', got 'G'"):
        get_environment("G")


def test_bad_shapes_and_counts_are_refused():
    env = SETTINGS["C"]
    with pytest.raises(ValueError, match=r"action: expected shape \(1,\), got \(61, 1\)"):
        env.mean_reward(point(0.0), env.actions)
    with pytest.raises(ValueError, match=r"context: expected shape \(1,\), got \(\)"):
        env.sample_intermediate(jax.random.key(0), jnp.array(0.0), point(0.0))
    with pytest.raises(ValueError, match=r"intermediate: expected shape \(2,\), got \(1,\)"):
        env.outcome_mean(point(0.0))
    with pytest.raises(ValueError, match=r"n: expected a non-negative number of rows, got -1"):
        env.sample_offline(jax.random.key(0), -1)
