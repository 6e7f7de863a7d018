"""Trials with draws of hyperparameters: when they are drawn again, and what does not change."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from bayes_cmab import adaptive
from bayes_cmab.acquisition import ConstantBeta
from bayes_cmab.environments import SETTINGS
from bayes_cmab.inference import NUTS, SVI, EffectiveSampleSize, EveryRounds, Never
from bayes_cmab.inference.gate import Gate
from bayes_cmab.inference.marginal import run_pass
from bayes_cmab.policies import EmbeddingPolicy, MarginalPolicy
from bayes_cmab.registry import agent_names, make_agent
from bayes_cmab.rounds import AgentSpec, Record
from bayes_cmab.simulation import play

SAMPLER = NUTS(draws=16, chains=2, warmup=8, passes=2, refit=EffectiveSampleSize(0.5))
LENIENT = Gate(rhat=np.inf, ess=0.0, divergent=1.0, bfmi=0.0)
ROUNDS = 12

pytestmark = pytest.mark.slow  # the module compiles the whole loop with draws


def play_with(sampler=SAMPLER, gate=LENIENT, **changes) -> Record:
    spec = AgentSpec(MarginalPolicy(), sampler, ConstantBeta(0.25), gate=gate)
    options = {"rounds": ROUNDS, "offline": 4, "seed": 3, "trials": range(2)}
    return play(spec, SETTINGS["A"], **(options | changes))


@pytest.fixture(scope="module")
def record() -> Record:
    return play_with(checkpoints=(9, 100))


def test_draws_are_replaced_when_their_weights_have_become_uneven(record: Record) -> None:
    assert np.all(record.fits[:, 0] == 2)
    uneven = record.shares < 0.5
    np.testing.assert_array_equal(record.fits[:, 1:], uneven[:, :-1].sum(axis=2))
    assert record.fits[:, 1:].sum() > 0
    assert np.all((record.shares > 0.0) & (record.shares <= 1.0 + 1e-12))
    assert np.all(record.failures == 0)


def test_a_trial_is_complete_and_does_not_depend_on_its_batch(record: Record) -> None:
    assert record.rounds.action_index.shape == (2, ROUNDS)
    assert record.coverage.shape == (2, 2, 3)
    assert np.all(record.rounds.predicted_variance > 0.0)
    alone = play_with(trials=range(1, 2), checkpoints=(9, 100))
    jax.tree.map(lambda one, both: np.testing.assert_array_equal(one[0], both[1]), alone, record)


@pytest.mark.usefixtures("record")
def test_nothing_is_compiled_again_in_later_trials() -> None:
    counts = adaptive._advance._cache_size(), run_pass._cache_size()
    play_with(trials=range(5, 6), checkpoints=(9, 100))
    assert (adaptive._advance._cache_size(), run_pass._cache_size()) == counts


def test_agents_see_the_same_world_as_the_fixed_agent(record: Record) -> None:
    spec = make_agent("oracle", SETTINGS["A"])
    oracle = play(spec, SETTINGS["A"], rounds=ROUNDS, offline=4, seed=3, trials=range(2))
    np.testing.assert_array_equal(oracle.rounds.best_mean_reward, record.rounds.best_mean_reward)
    same = oracle.rounds.action_index == record.rounds.action_index
    np.testing.assert_allclose(oracle.rounds.outcome[same], record.rounds.outcome[same])


def test_refits_on_a_schedule_and_never() -> None:
    scheduled = play_with(replace(SAMPLER, refit=EveryRounds(5)), trials=range(1))
    assert np.flatnonzero(scheduled.fits[0]).tolist() == [0, 5, 10]
    never = play_with(replace(SAMPLER, refit=Never()), trials=range(1))
    assert np.flatnonzero(never.fits[0]).tolist() == [0]
    assert never.shares[0, -1].min() < 0.5  # it would have been time


def test_fits_that_fail_are_counted_and_the_trial_goes_on() -> None:
    record = play_with(gate=Gate(rhat=0.0), trials=range(1))
    np.testing.assert_array_equal(record.failures, record.fits)
    assert np.all(record.rounds.action_index >= 0)


@pytest.mark.slow
def test_variational_inference_plays_too() -> None:
    sampler = SVI(draws=16, steps=10, passes=2, diagnostic_draws=32)
    record = play_with(sampler, trials=range(1))
    assert record.fits[0, 0] == 2
    assert np.all(np.isfinite(record.rounds.predicted_mean))


def test_a_sampler_needs_a_policy_that_is_averaged() -> None:
    spec = AgentSpec(EmbeddingPolicy(), SAMPLER, ConstantBeta(0.25))
    with pytest.raises(ValueError, match="policy: expected a DrawsPolicy with a sampler"):
        play(spec, SETTINGS["A"], rounds=2, offline=0, seed=0, trials=range(1))


def test_names_of_agents_with_draws() -> None:
    names = agent_names()
    assert {"cbmp-nuts", "cbmp-svi", "cme-nuts", "cme-svi"} <= set(names)
    assert "gp-nuts" not in names
    assert isinstance(make_agent("cme-nuts", SETTINGS["A"]).policy, MarginalPolicy)
