"""What goes into the live agent and comes out: in any units, in any container."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from agent_life import ACTIONS, UNITS, assert_same_table, history, make, run

from bayes_cmab import MAP, Decision, Fixed, FunctionPolicy, decision

FIGURES = ["mean", "standard_deviation", "score"]
PARTS = list(decision.PARTS)


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


@pytest.mark.parametrize("inference", [Fixed(), MAP(every=5, max_steps=5)])
def test_rows_from_elsewhere_change_the_units_at_the_next_ask(inference):
    rng = np.random.default_rng(8)
    agent = make(inference=inference)
    agent.ask(0.0)  # nothing is known; the next fit on schedule would be four asks away
    s, a, r, y = history(rng, 20)
    agent.add_transitions(s, a, 1e3 + 50.0 * r)
    agent.add_outcomes(1e3 + 50.0 * r, 4e4 + 300.0 * y)
    agent.ask(0.5)
    np.testing.assert_allclose(agent.scales.outcome.center, 4e4 + 300.0 * y.mean())
    np.testing.assert_allclose(agent.scales.intermediate.scale, 50.0 * r.std(axis=0))


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
