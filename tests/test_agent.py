"""The live agent; all tests share one policy and few shapes, so that little is compiled."""

import doctest
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_agents import paper_agent

import bayes_cmab
from bayes_cmab import (
    MAP,
    AdditiveRewardModel,
    Agent,
    AnovaEmbeddingModel,
    ConstantBeta,
    Decision,
    DirectPolicy,
    EmbeddingPolicy,
    Fixed,
    FunctionPolicy,
    HeteroscedasticTransitionModel,
    LogarithmicBeta,
    ResidualPolicy,
    Scales,
    TransitionPolicy,
    Units,
    decision,
)
from bayes_cmab.environments import Purpose, get_environment, stream, trial_key
from bayes_cmab.rounds import AgentSpec
from bayes_cmab.simulation import play
from bayes_cmab.worlds import declared_scales

ACTIONS = np.linspace(-2.0, 2.0, 5)
UNITS = Scales(
    *(
        Units.create([c] * k, [z] * k, "x", k)
        for c, z, k in ((0.3, 2.0, 1), (0.0, 1.5, 1), (0.1, 1.2, 2))
    ),
    Units(jnp.array(1.0), jnp.array(2.0)),
)
SHARP = ResidualPolicy(AdditiveRewardModel(), HeteroscedasticTransitionModel())
FIGURES = ["mean", "standard_deviation", "score"]
PARTS = list(decision.PARTS)


def make(**options):
    return paper_agent(options.pop("actions", ACTIONS), **{"dim_intermediate": 2} | options)


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


def respond(rng, context, action):
    r = np.array([np.sin(np.sum(context)), np.cos(np.sum(action))]) + 0.25 * rng.normal(size=2)
    return r, 1.0 + 1.5 * np.sin(np.pi * r).sum() + rng.normal()


def run(agent, rounds, rng, *, first=0):
    """Ask and tell; return the decisions."""
    decisions = []
    for _ in range(first, first + rounds):
        s = rng.uniform(-3.0, 3.0)
        decisions.append(agent.ask(s))
        r, y = respond(rng, s, decisions[-1].action)
        agent.tell(decisions[-1].ticket, intermediate=r, outcome=y)
    return decisions


def history(rng, n):
    """Return contexts, actions, intermediates and outcomes of n rows."""
    s, a = rng.uniform(-3.0, 3.0, n), rng.choice(ACTIONS, n)
    rows = [respond(rng, *pair) for pair in zip(s, a, strict=True)]
    return s, a, np.array([r for r, _ in rows]), np.array([y for _, y in rows])


def assert_same_table(one, other, tolerance=1e-10):
    np.testing.assert_allclose(one.to_numpy(), other.to_numpy(), rtol=0.0, atol=tolerance)


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


def price(r):
    return 3.0 + 2.0 * r[0] - r[1] ** 2


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


# Units


def test_decisions_do_not_depend_on_the_users_units():
    rng = np.random.default_rng(6)
    s, a, r, y = history(rng, 25)
    agents = []
    for (cs, zs), (ca, za), (cr, zr), (cy, zy) in (
        ((0.0, 1.0),) * 4,
        ((5.0, 0.1), (-40.0, 10.0), (300.0, 50.0), (1e4, 200.0)),
    ):
        agent = make(actions=ca + za * ACTIONS)
        agent.add_transitions(cs + zs * s, ca + za * a, cr + zr * r)
        agent.add_outcomes(cr + zr * r, cy + zy * y)
        agents.append((agent, agent.ask(cs + zs * 0.5), cy, zy))
    (plain, decision, _, _), (moved, other, c, z) = agents
    assert decision.index == other.index
    assert other.mean == pytest.approx(c + z * decision.mean, rel=1e-10)
    assert other.score == pytest.approx(c + z * decision.score, rel=1e-10)
    assert other.standard_deviation == pytest.approx(z * decision.standard_deviation, rel=1e-8)
    assert other.second_moment == pytest.approx(z**2 * decision.second_moment, rel=1e-8)
    for mine, theirs in zip(plain.data, moved.data, strict=True):
        np.testing.assert_allclose(mine[-2], theirs[-2], atol=1e-10)


def test_units_are_those_of_all_rows_and_a_matched_row_counts_once():
    rng = np.random.default_rng(7)
    s, a, r, y = history(rng, 6)
    agent = make()
    agent.add_outcomes(r, y)
    agent.add_transitions(s, a, r + 1.0)
    decisions = [agent.ask(t) for t in (0.5, 0.5, 2.5)]
    agent.tell(0, intermediate=[4.0, -1.0], outcome=30.0)
    agent.tell(1, outcome=-30.0)
    agent.add_transitions([], [], np.zeros((0, 2)))
    agent.ask(0.0)
    all_r = np.concatenate([r, r + 1.0, [[4.0, -1.0]]])
    all_y = np.concatenate([y, [30.0, -30.0]])
    all_s = np.concatenate([s, [0.5, 0.5, 2.5]])
    for units, rows in zip(agent.scales, (all_s, ACTIONS, all_r, all_y), strict=True):
        np.testing.assert_allclose(np.squeeze(units.center), rows.mean(axis=0))
        np.testing.assert_allclose(np.squeeze(units.scale), rows.std(axis=0))
    assert [d.ticket for d in decisions] == [0, 1, 2]


def test_a_constant_column_has_scale_one_and_a_sample_gives_the_contexts_units():
    agent = make(context_sample=[1.0, 2.0, 6.0])
    agent.add_outcomes([[7.0, 1.0], [7.0, 3.0]], [2.0, 2.0])
    agent.ask(100.0)
    s, _, r, y = agent.scales
    assert (float(s.center[0]), float(s.scale[0])) == pytest.approx((3.0, np.sqrt(14.0 / 3.0)))
    assert r.center.tolist() == [7.0, 2.0]
    assert r.scale.tolist() == [1.0, 1.0]
    assert (float(y.center), float(y.scale)) == (2.0, 1.0)


def test_a_fixed_agent_measures_its_units_when_its_data_outgrow_their_capacity():
    rng = np.random.default_rng(8)
    agent = make(policy=FunctionPolicy())
    run(agent, 32, rng)
    assert agent.scales.outcome.scale == 1.0
    run(agent, 1, rng)
    agent.ask(0.0)
    assert agent.scales.outcome.scale != 1.0
    assert int(agent.data.outcomes.size) == 33


def test_given_units_never_change():
    rng = np.random.default_rng(9)
    agent = make(scales=UNITS)
    s, a, r, y = history(rng, 4)
    agent.add_transitions(s, a, r)
    agent.add_outcomes(r, y)
    agent.ask(0.0)
    for units, wanted in zip(agent.scales, UNITS, strict=True):
        assert np.array_equal(units.center, wanted.center)
        assert np.array_equal(units.scale, wanted.scale)
    np.testing.assert_allclose(agent.data.outcomes.outcomes[:4], (y - 1.0) / 2.0)
    np.testing.assert_allclose(agent.data.transitions.contexts[:4, 0], (s - 0.3) / 2.0)


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


# What goes in and comes out


def test_numpy_pandas_lists_scalars_and_integers_are_the_same():
    frame = pd.DataFrame({"dose": [-2, -1, 0, 1, 2]})
    inputs = (
        (ACTIONS, np.array([1.0]), np.array([1.0, 2.0]), np.array([3.0])),
        (frame, pd.Series([1]), pd.Series([1, 2]), pd.Series([3])),
        (ACTIONS.tolist(), 1, [1, 2], 3),
        (jnp.asarray(ACTIONS)[:, None], [[1]], pd.DataFrame([[1, 2]]), np.float32(3)),
    )
    tables = []
    for actions, s, r, y in inputs:
        agent = make(actions=actions, scales=UNITS)
        agent.tell(agent.ask(s).ticket, intermediate=r, outcome=y)
        agent.add_outcomes([r] if np.ndim(r) == 1 else r, [3])
        tables.append(agent.score(s))
        for other in tables[1:]:
            np.testing.assert_array_equal(tables[0].to_numpy(), other.to_numpy())
    assert tables[0].columns.tolist() == ["action_0", *FIGURES, *PARTS]
    assert tables[1].columns[0] == "dose"


def test_a_decision_is_its_row_of_the_table():
    rng = np.random.default_rng(12)
    agent = make(scales=UNITS)
    run(agent, 4, rng)
    table = agent.score(1.0)
    decision = agent.ask(1.0)
    assert isinstance(decision, Decision)
    row = table.loc[decision.index]
    assert decision.action.tolist() == [row["action_0"]]
    assert [getattr(decision, name) for name in FIGURES + PARTS] == row[1:].tolist()
    assert decision.index == table["score"].idxmax()
    parts = sum(row[name] for name in PARTS)
    assert row["standard_deviation"] ** 2 == pytest.approx(parts)


def test_later_changes_of_a_users_arrays_change_nothing():
    s, r, sample = np.array([0.5]), np.array([0.1, 0.2]), np.array([-1.0, 1.0])
    offered = ACTIONS.copy()
    agent = make(actions=offered, context_sample=sample)
    decision = agent.ask(s)
    agent.tell(decision.ticket, intermediate=r, outcome=1.0)
    agent.add_outcomes([[0.0, 0.0]], [2.0])
    expected = agent.score(0.0)
    for array in (s, r, sample, offered, decision.action):
        array += 100.0
    agent.add_outcomes(np.zeros((0, 2)), [])
    assert_same_table(agent.score(0.0), expected, 0.0)


SITES = {name: np.asarray(value) for name, value in make().sites.items()}


def without(name):
    return {key: value for key, value in SITES.items() if key != name}


def vector_valued(r):
    return r


def not_jax(r):
    return float(r[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"actions": []}, "actions: expected at least one row and one column, got"),
        ({"actions": np.zeros((0, 2))}, "actions: expected at least one row"),
        ({"actions": [0.0, np.nan]}, "actions: expected finite numbers, got nan at row 1"),
        ({"actions": pd.DataFrame({"score": [1.0]})}, "other than mean, .*, got 'score'"),
        ({"dim_context": -1}, "dim_context: expected a whole number of at least 0, got -1"),
        ({"dim_intermediate": 0}, "dim_intermediate: expected .* at least 1, got 0"),
        ({"seed": 1.5}, "seed: expected a whole number of at least 0, got 1.5"),
        ({"beta": -0.1}, "beta: expected non-negative numbers, got -0.1"),
        ({"beta": np.nan}, "beta: expected finite numbers, got nan"),
        ({"policy": "operator"}, "policy: expected a Policy, got 'operator'"),
        (
            {"policy": None, "embedding": "product"},
            "embedding: expected one of 'paper', 'anova', 'transition', got 'product'",
        ),
        (
            {"policy": DirectPolicy(), "embedding": "paper"},
            "embedding: expected None beside a policy, which has its own, got 'paper'",
        ),
        ({"inference": "map"}, "inference: expected Fixed, MAP, NUTS or SVI, got 'map'"),
        ({"hyperparameters": [1.0]}, "hyperparameters: expected a dict, got list"),
        (
            {"hyperparameters": SITES | {"noise": 1.0}},
            "hyperparameters: expected .*reward_scale; got the unknown noise",
        ),
        (
            {"hyperparameters": without("reward_scale")},
            "hyperparameters: expected .*; got none named reward_scale",
        ),
        (
            {"hyperparameters": SITES | {"reward_noise_scale": -0.1}},
            r"hyperparameters\['reward_noise_scale'\]: expected positive numbers, got -0.1",
        ),
        (
            {"hyperparameters": SITES | {"embedding_lengthscale_a": [0.0]}},
            r"hyperparameters\['embedding_lengthscale_a'\]: expected positive numbers, got 0.0",
        ),
        (
            {"hyperparameters": SITES | {"reward_lengthscale": 1.0}},
            r"hyperparameters\['reward_lengthscale'\]: expected shape \(2,\), got \(\)",
        ),
        ({"scales": (0.0, 1.0)}, "scales: expected a Scales, got tuple"),
        ({"scales": UNITS, "dim_intermediate": 3}, "scales: intermediate center: expected 3"),
        (
            {"scales": UNITS._replace(outcome=Units(jnp.array(0.0), jnp.array(0.0)))},
            "scales: outcome scale: expected positive numbers, got 0.0",
        ),
        ({"context_sample": [[1.0, 2.0]]}, "context_sample: expected 1 column, got shape"),
        ({"reward_function": 3.0}, "reward_function: expected a function, got 3.0"),
        ({"reward_function": vector_valued}, "reward_function: expected a scalar array, got"),
        ({"reward_function": not_jax}, "reward_function: expected .* made of JAX operations"),
        (
            {"reward_function": price, "policy": TransitionPolicy()},
            "policy: expected an EmbeddingPolicy in operator form",
        ),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a.ask(), "context: expected 1 number, got None"),
        (lambda a: a.ask([1.0, 2.0]), r"context: expected 1 number, got shape \(2,\)"),
        (lambda a: a.ask("left"), "context: expected numbers, got str"),
        (lambda a: a.ask(np.nan), "context: expected finite numbers, got nan"),
        (lambda a: a.score(np.inf), "context: expected finite numbers, got inf"),
        (lambda a: a.tell(2, outcome=1.0), "ticket: expected one of the 2 issued so far, got 2"),
        (lambda a: a.tell(-1, outcome=1.0), "ticket: expected one of the 2 issued so far, got -1"),
        (lambda a: a.tell("1", outcome=1.0), "ticket: expected a decision's ticket, got '1'"),
        (lambda a: a.tell(1), "tell: expected an intermediate, an outcome or both, got neither"),
        (lambda a: a.tell(0, outcome=1.0), "outcome: expected one a ticket, got a second .* 0"),
        (
            lambda a: a.tell(0, intermediate=[0, 0], outcome=1.0),
            "intermediate: expected one a ticket, got a second for ticket 0",
        ),
        (lambda a: a.tell(1, intermediate=[0.0]), r"intermediate: expected 2 numbers, got shape"),
        (
            lambda a: a.tell(1, intermediate=[0.0, np.nan], outcome=1.0),
            "intermediate: expected finite numbers, got nan at row 1",
        ),
        (
            lambda a: a.tell(1, intermediate=[0.0, 0.0], outcome=np.nan),
            "outcome: expected finite numbers, got nan",
        ),
        (lambda a: a.add_outcomes([[1.0]], [1.0]), "intermediates: expected 2 columns, got shape"),
        (
            lambda a: a.add_outcomes(np.zeros((3, 2)), [1.0, 2.0]),
            "same number of rows, got: intermediates has 3, outcomes has 2",
        ),
        (
            lambda a: a.add_transitions([0.0], [0.0], [[0.0, np.inf]]),
            "intermediates: expected finite numbers, got inf at row 0, column 1",
        ),
        (
            lambda a: a.add_transitions(None, [0.0], [[0.0, 1.0]]),
            "contexts: expected 1 column, got None",
        ),
    ],
)
def test_bad_calls_change_nothing(call, message):
    agent = make(scales=UNITS)
    for s in (0.0, 1.0):
        agent.ask(s)
    agent.tell(0, intermediate=[0.1, 0.2], outcome=1.0)
    before = dict(vars(agent))
    with pytest.raises(ValueError, match=message):
        call(agent)
    assert all(vars(agent)[name] is value for name, value in before.items())


def test_x64_is_required():
    with jax.enable_x64(False), pytest.raises(RuntimeError, match=r"numpyro\.enable_x64"):
        make()


def test_a_score_that_is_not_finite_is_an_error_and_changes_nothing():
    huge = SITES | {"reward_scale": 1e200}
    agent = make(scales=UNITS, hyperparameters=huge)
    for look in (partial(agent.ask, 0.0), partial(agent.score, 0.0)):
        with pytest.raises(FloatingPointError, match="not finite in round 0: likely causes"):
            look()
    assert agent.round == 0


@dataclass(frozen=True)
class NegativePolicy(FunctionPolicy):
    def moments(self, state, context, actions):
        return super().moments(state, context, actions)._replace(negativity=jnp.asarray(1e-3))


def test_a_truly_negative_variance_is_an_error():
    agent = make(policy=NegativePolicy())
    with pytest.raises(FloatingPointError, match=r"negative by 1\.0e-03 .* likely causes"):
        agent.ask(0.0)


# The package


def test_the_example_of_the_package_runs():
    result = doctest.testmod(bayes_cmab)
    assert result.attempted == 5
    assert result.failed == 0


def test_the_package_lists_what_it_exports():
    names = bayes_cmab.__all__
    assert names == sorted(names, key=lambda n: (not n.isupper(), n))
    assert all(hasattr(bayes_cmab, name) for name in names)


def test_importing_the_package_loads_neither_arviz_nor_pandas():
    code = "import sys, bayes_cmab; print({'arviz', 'pandas'} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert loaded.stdout.strip() == "set()", loaded.stderr
