"""The live agent; all tests share one policy and few shapes, so that little is compiled."""

import re

import jax
import numpy as np
import pytest
from agent_life import ACTIONS, UNITS, assert_same_table, history, make, price, respond, run
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_cmab import (
    MAP,
    AdditiveRewardModel,
    Agent,
    AnovaEmbeddingModel,
    ConstantBeta,
    DirectPolicy,
    EmbeddingPolicy,
    Fixed,
    FunctionPolicy,
    HeteroscedasticTransitionModel,
    LogarithmicBeta,
    ResidualPolicy,
)
from bayes_cmab.environments import Purpose, get_environment, stream, trial_key
from bayes_cmab.rounds import AgentSpec
from bayes_cmab.simulation import play
from bayes_cmab.worlds import declared_scales

SHARP = ResidualPolicy(AdditiveRewardModel(), HeteroscedasticTransitionModel())


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        (None, SHARP),
        ("paper", EmbeddingPolicy()),
        ("anova", EmbeddingPolicy(embedding=AnovaEmbeddingModel())),
        ("transition", SHARP),
    ],
)
def test_an_embedding_has_a_name(name, policy):
    assert Agent(ACTIONS, embedding=name)._settings.policy == policy


def test_hyperparameters_are_fitted_unless_they_are_given():
    sites = SHARP.default_sites(1, 1, 1)
    assert Agent(ACTIONS)._settings.inference == MAP()
    assert Agent(ACTIONS, hyperparameters=sites)._settings.inference == Fixed()
    fitted = Agent(ACTIONS, hyperparameters=sites, inference=MAP(every=3))
    assert fitted._settings.inference == MAP(every=3)
    nothing_to_fit = FunctionPolicy(lambda _, action: action[0])
    assert Agent(ACTIONS, policy=nothing_to_fit)._settings.inference == Fixed()


def test_with_a_known_reward_the_embedding_is_the_papers():
    agent = Agent(ACTIONS, reward_function=lambda r: r[0])
    assert agent._settings.policy == EmbeddingPolicy()


# The live path


@pytest.mark.slow
def test_agrees_with_the_simulation():
    environment, offline, rounds, seed = get_environment("C"), 5, 15, 3
    spec = AgentSpec(EmbeddingPolicy(), Fixed(), ConstantBeta(0.25))
    record = play(
        spec, environment, rounds=rounds, offline=offline, seed=seed, trials=range(2, 3)
    ).rounds
    key = trial_key(seed, 2)
    agent = make(actions=np.asarray(environment.actions), scales=declared_scales(environment))
    agent.add_outcomes(*environment.sample_offline(stream(key, 0, Purpose.OFFLINE), offline))
    world, context = environment.reset(key)
    step = jax.jit(environment.step)
    for t in range(rounds):
        decision = agent.ask(context, key=stream(key, t, Purpose.AGENT))
        assert decision.index == record.action_index[0, t]
        assert decision.mean == pytest.approx(record.predicted_mean[0, t], abs=1e-8)
        variance = record.predicted_variance[0, t]
        assert decision.standard_deviation**2 == pytest.approx(variance, abs=1e-8)
        world, seen = step(key, world, decision.action)
        context = world.context
        agent.tell(decision.ticket, intermediate=seen.intermediate, outcome=seen.outcome)
    assert agent.round == rounds


def test_compiles_at_most_once_per_function_and_capacities(caplog):
    rng = np.random.default_rng(0)
    agent = make(scales=UNITS)
    agent.add_outcomes(rng.uniform(-2.0, 2.0, (150, 2)), rng.normal(size=150))
    visited = set()
    with jax.log_compiles(), caplog.at_level("WARNING", "jax"):
        for _ in range(100):
            run(agent, 1, rng)
            visited.add(tuple(len(rows[-2]) for rows in agent.data))
    compiled = re.findall(
        r"Compiling jit\((condition|evaluate|add_\w+)\) with global shapes and types (.*)\. Arg",
        caplog.text,
    )
    assert visited == {(32, 256, 32), (64, 256, 64), (128, 256, 128)}
    assert len(compiled) == len(set(compiled))
    for name in {name for name, _ in compiled}:
        assert sum(name == other for other, _ in compiled) <= len(visited), name


def test_a_round_compiles_nothing_once_its_capacities_are_warm(caplog):
    rng = np.random.default_rng(1)
    run(make(scales=UNITS), 3, rng)
    agent = make(scales=UNITS, seed=5)
    with jax.log_compiles(), caplog.at_level("WARNING", "jax"):
        run(agent, 5, rng)
    assert "Compiling" not in caplog.text


def test_appended_rows_give_the_same_as_all_rows_at_once():
    one_by_one, at_once = make(scales=UNITS), make(scales=UNITS)
    rng = np.random.default_rng(2)
    rows = [respond(rng, 0.1 * i, 0.2 * i) for i in range(20)]
    for agent in (one_by_one, at_once):
        for s in np.linspace(-3.0, 3.0, 20):
            agent.ask(s)
    at_once.add_outcomes(np.zeros((0, 2)), [])  # from here on, nothing is conditioned until an ask
    for agent in (one_by_one, at_once):
        for ticket, (r, y) in enumerate(rows):
            agent.tell(ticket, intermediate=r, outcome=y)
    assert_same_table(one_by_one.score(0.3), at_once.score(0.3))
    for mine, theirs in zip(one_by_one.data, at_once.data, strict=True):
        for column, other in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(column, other, atol=1e-14)


ARRIVALS = 6


@settings(max_examples=8, deadline=None, derandomize=True)
@given(order=st.permutations(range(2 * ARRIVALS)))
def test_the_posterior_does_not_depend_on_the_order_of_arrival(order):
    def told(events):
        rng = np.random.default_rng(3)
        agent = make(scales=UNITS)
        tickets = [agent.ask(s) for s in np.linspace(-2.0, 2.0, ARRIVALS)]
        rows = [respond(rng, 0.5 * d.ticket, d.action) for d in tickets]
        for event in events:
            i, late = divmod(event, 2)
            agent.tell(i, **({"outcome": rows[i][1]} if late else {"intermediate": rows[i][0]}))
        return agent

    reference, permuted = told(range(2 * ARRIVALS)), told(order)
    assert_same_table(reference.score(0.7), permuted.score(0.7))
    assert int(permuted.data.outcomes.size) == ARRIVALS


def test_an_outcome_waits_for_its_intermediate():
    agent = make(scales=UNITS)
    decision = agent.ask(0.5)
    before = agent.score(0.5)
    agent.tell(decision.ticket, outcome=2.0)
    assert_same_table(agent.score(0.5), before, 0.0)
    counts = [int(rows.size) for rows in agent.data]
    assert counts == [0, 0, 1]
    agent.tell(decision.ticket, intermediate=[0.1, 0.2])
    counts = [int(rows.size) for rows in agent.data]
    assert counts == [1, 1, 1]
    assert not np.allclose(agent.score(0.5)["mean"], before["mean"])


def test_an_agent_that_ignores_intermediates_learns_from_the_outcome_at_once():
    agent = make(policy=DirectPolicy(), scales=UNITS)
    decision = agent.ask(0.5)
    agent.tell(decision.ticket, outcome=8.0)
    at_once = agent.score(0.5)
    # One row is its own mean; where it was seen, the variance v shrinks to v - v^2 / (v + noise).
    assert at_once["mean"].to_numpy() == pytest.approx(8.0)
    shrunk = at_once["standard_deviation"][decision.index] ** 2 / 4.0
    assert shrunk == pytest.approx(1.0 - 1.0 / (1.0 + 0.2 + 1e-6))
    agent.tell(decision.ticket, intermediate=[0.0, 0.0])
    assert_same_table(agent.score(0.5), at_once, 0.0)


def test_an_agent_without_contexts():
    agent = make(dim_context=0)
    decision = agent.ask()
    agent.add_transitions(None, ACTIONS, np.stack([np.cos(ACTIONS), ACTIONS], axis=1))
    agent.tell(decision.ticket, intermediate=[0.3, -0.4], outcome=1.0)
    assert agent.ask(None).ticket == 1
    assert agent.data.transitions.contexts.shape == (32, 0)
    assert int(agent.data.transitions.size) == 6
    with pytest.raises(ValueError, match="context: expected 0 numbers, got shape"):
        agent.ask(1.0)


def test_a_known_reward_function_needs_no_outcome():
    rng = np.random.default_rng(5)
    s, a, r, _ = history(rng, 12)
    agent = make(scales=UNITS, reward_function=price)
    agent.add_transitions(s, a, r)
    table = agent.score(0.4)
    # E f(r) by a dense solve: prior medians are lengthscales .6, variance 1, noise .2.
    x = np.stack([(s - 0.3) / 2.0, a / 1.5], axis=1)
    query = np.stack([np.full(5, 0.1 / 2.0), ACTIONS / 1.5], axis=1)

    def kernel(u, v):
        return np.exp(-0.5 * ((u[:, None] - v[None]) ** 2).sum(-1) / 0.6**2)

    f = (np.array([price(row) for row in r]) - 1.0) / 2.0
    expected = kernel(query, x) @ np.linalg.solve(kernel(x, x) + (0.2 + 1e-6) * np.eye(12), f)
    np.testing.assert_allclose(table["mean"], 1.0 + 2.0 * expected, atol=1e-9)
    assert (table["variance_reward"] == 0.0).all()
    assert agent.ask(0.4).index == table["score"].idxmax()


# Hyperparameters, randomness


def test_map_refits_at_the_asks_whose_number_is_a_multiple_and_looking_changes_nothing():
    inference = MAP(every=3, max_steps=15)
    rng, shadow = np.random.default_rng(10), np.random.default_rng(10)
    agent, looked_at = make(inference=inference), make(inference=inference)
    fits, scales = [], []
    for _ in range(7):
        (decision,) = run(agent, 1, rng)
        looked_at.score(0.3)
        (other,) = run(looked_at, 1, shadow)
        assert decision.index == other.index
        assert decision.score == other.score
        fits.append(float(agent.sites["reward_noise_scale"]))
        scales.append(float(agent.scales.outcome.scale))
    changed = [t for t in range(1, 7) if fits[t] != fits[t - 1]]
    assert changed == [3, 6]
    assert [t for t in range(1, 7) if scales[t] != scales[t - 1]] == [3, 6]


def test_hyperparameters_are_those_given():
    given_sites = {name: 2.0 * np.asarray(v) for name, v in make().sites.items()}
    agent = make(scales=UNITS, hyperparameters=given_sites)
    assert {name: np.asarray(v).tolist() for name, v in agent.sites.items()} == {
        name: v.tolist() for name, v in given_sites.items()
    }
    # Nothing seen yet: variance = mean_variance + F * second_moment, second_moment = q Tr(T^2).
    assert agent.ask(0.0).variance_reward == pytest.approx(9.0 * 4.0)


def test_the_seed_decides_ties_and_nothing_else():
    def first(seed):
        return make(scales=UNITS, seed=seed).ask(0.0).index

    assert len({first(seed) for seed in range(12)}) > 2  # P(fewer) < 1e-4
    one = run(make(scales=UNITS, seed=3), 6, np.random.default_rng(11))
    two = run(make(scales=UNITS, seed=3), 6, np.random.default_rng(11))
    assert [(d.index, d.score) for d in one] == [(d.index, d.score) for d in two]


def test_beta_weighs_the_standard_deviation():
    for beta, weight in ((0.0, 0.0), (4, 4.0), (LogarithmicBeta(5), LogarithmicBeta(5)(0))):
        decision = make(scales=UNITS, beta=beta).ask(0.0)
        bonus = np.sqrt(weight) * decision.standard_deviation
        assert decision.score == pytest.approx(decision.mean + bonus)
    agent = make(scales=UNITS, beta=lambda t: 1.0 - t)
    assert agent.ask(0.0).ticket == agent.ask(0.0).ticket - 1
    with pytest.raises(ValueError, match=r"beta: expected non-negative numbers, got -1\.0"):
        agent.ask(0.0)
    assert agent.round == 2
