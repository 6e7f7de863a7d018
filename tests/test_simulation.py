"""Trials: paired seeds, segments that do not matter, faults that are not hidden."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_cmab import simulation, worlds
from bayes_cmab.environments import SETTINGS, Purpose, stream, trial_key
from bayes_cmab.policies import FunctionPolicy
from bayes_cmab.registry import make_agent
from bayes_cmab.rounds import LEVELS, AgentSpec, Record, segment_ends
from bayes_cmab.simulation import play

ENVIRONMENT = SETTINGS["C"]
OPTIONS = {"rounds": 24, "offline": 3, "seed": 5}


def play_named(name: str, **changes: object) -> Record:
    agent = make_agent(name, ENVIRONMENT, refit_every=8)
    return play(agent, ENVIRONMENT, **(OPTIONS | {"trials": range(3)} | changes))


@pytest.fixture(scope="module")
def fixed() -> Record:
    return play_named("cbmp-fixed", checkpoints=(12, 100))


@pytest.mark.slow
def test_a_trial_depends_on_its_number_and_not_on_its_batch(fixed: Record) -> None:
    alone = play_named("cbmp-fixed", trials=range(1, 2))
    np.testing.assert_array_equal(alone.rounds.action_index[0], fixed.rounds.action_index[1])
    np.testing.assert_allclose(alone.rounds.outcome[0], fixed.rounds.outcome[1], rtol=1e-12)


def test_the_same_seed_gives_the_same_record_to_the_bit(fixed: Record) -> None:
    again = play_named("cbmp-fixed", checkpoints=(12, 100))
    jax.tree.map(np.testing.assert_array_equal, again, fixed)


def test_agents_see_the_same_contexts_and_noise(fixed: Record) -> None:
    oracle = play_named("oracle")
    np.testing.assert_array_equal(oracle.rounds.best_mean_reward, fixed.rounds.best_mean_reward)
    np.testing.assert_allclose(oracle.rounds.mean_reward, oracle.rounds.best_mean_reward)
    same = oracle.rounds.action_index == fixed.rounds.action_index
    np.testing.assert_allclose(oracle.rounds.outcome[same], fixed.rounds.outcome[same])


@pytest.mark.slow
def test_where_segments_end_does_not_change_a_trial(fixed: Record) -> None:
    other = play_named("cbmp-fixed", checkpoints=(5, 20))
    np.testing.assert_array_equal(other.rounds.action_index, fixed.rounds.action_index)
    np.testing.assert_allclose(
        other.rounds.predicted_variance, fixed.rounds.predicted_variance, rtol=1e-8
    )


def test_coverage_is_a_share_and_grows_with_the_level(fixed: Record) -> None:
    assert fixed.coverage.shape == (3, 2, len(LEVELS))
    assert np.all((fixed.coverage >= 0.0) & (fixed.coverage <= 1.0))
    assert np.all(np.diff(fixed.coverage, axis=2) >= 0.0)


@pytest.mark.slow
def test_type_two_agents_refit_and_learn_more_than_chance() -> None:
    learned = play_named("cbmp-map")
    random = play_named("random")
    assert learned.rounds.mean_reward.sum() > random.rounds.mean_reward.sum()


@pytest.mark.slow
def test_every_agent_of_the_registry_plays_a_round_of_every_setting() -> None:
    for name in ("proposition-fixed", "icme-fixed", "gp-fixed", "gaussian-fixed", "plugin-fixed"):
        record = play(
            make_agent(name, SETTINGS["A"]),
            SETTINGS["A"],
            rounds=4,
            offline=2,
            seed=0,
            trials=range(2),
        )
        assert np.all(record.rounds.action_index >= 0)
        assert np.all(record.rounds.predicted_variance >= 0.0)


def test_segments_end_at_checkpoints_and_refits() -> None:
    assert segment_ends(100, None, ()) == [50, 100]
    assert segment_ends(100, None, (20, 50, 100)) == [20, 50, 100]
    assert segment_ends(12, 5, (8, 12)) == [5, 6, 8, 10, 12]


def test_where_coverage_is_measured_changes_no_refit() -> None:
    agent = make_agent("gp-map", ENVIRONMENT, refit_every=7)
    options = OPTIONS | {"trials": range(1)}
    plain, measured = (play(agent, ENVIRONMENT, **options, checkpoints=c) for c in ((), (10,)))
    np.testing.assert_array_equal(np.flatnonzero(plain.fits[0]), [0, 7, 14, 21])
    np.testing.assert_array_equal(measured.fits, plain.fits)
    np.testing.assert_array_equal(measured.rounds.action_index, plain.rounds.action_index)


def test_float32_is_refused() -> None:
    with jax.enable_x64(False), pytest.raises(RuntimeError, match="needs float64"):
        play_named("random")


def nowhere(context, action):
    del context
    return jnp.nan * action[0]


def test_scores_that_are_not_finite_raise_with_trial_and_round() -> None:
    agent = make_agent("random", ENVIRONMENT)
    broken = AgentSpec(FunctionPolicy(nowhere), agent.inference, agent.beta)
    with pytest.raises(FloatingPointError, match="not finite in trial 4, round"):
        play(broken, ENVIRONMENT, **(OPTIONS | {"trials": range(4, 6)}))


def test_tie_breaks_are_the_agents_stream() -> None:
    key = trial_key(3, 1)
    expected = jax.random.uniform(stream(key, 2, Purpose.AGENT), (61,))
    np.testing.assert_array_equal(worlds.tie_breaks(key, 2, 61), expected)
    assert not jnp.array_equal(expected, worlds.tie_breaks(key, 3, 61))


def test_what_an_action_brings_in_advance_is_what_the_environment_answers() -> None:
    key = trial_key(2, 0)
    world, _, _ = worlds.draw_worlds(ENVIRONMENT, 0, 4, key[None])
    state, _ = ENVIRONMENT.reset(key)
    for t, index in enumerate((3, 60, 0, 17)):
        np.testing.assert_array_equal(world.contexts[0, t], state.context)
        state, step = ENVIRONMENT.step(key, state, ENVIRONMENT.actions[index])
        np.testing.assert_allclose(world.intermediates[0, t, index], step.intermediate, rtol=1e-12)
        np.testing.assert_allclose(world.outcomes[0, t, index], step.outcome, rtol=1e-12)
        np.testing.assert_allclose(world.mean_rewards[0, t, index], step.mean_reward, rtol=1e-12)
        np.testing.assert_allclose(world.best_mean_rewards[0, t], step.best_mean_reward)


@pytest.mark.slow
def test_settings_of_the_same_dimensions_share_a_compiled_segment() -> None:
    before = simulation._segment._cache_size()
    for name in ("A", "E", "F"):
        agent = make_agent("gp-fixed", SETTINGS[name])
        play(agent, SETTINGS[name], rounds=6, offline=1, seed=0, trials=range(2))
    assert simulation._segment._cache_size() == before + 2  # the two capacities
