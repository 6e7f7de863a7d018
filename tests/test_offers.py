"""The actions of one call."""

import re

import jax
import numpy as np
import pandas as pd
import pytest
from live_agents import ACTIONS, LENIENT, SAMPLER, make, play

from bayes_cmab import LogarithmicBeta, MixtureQuantile, Thompson
from bayes_cmab.offers import Offer


def informed(**options):
    agent = make(**options)
    play(agent, 4, 0)
    return agent


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"acquisition": Thompson()},
        {"acquisition": MixtureQuantile(steps=30)},
        pytest.param({"inference": SAMPLER, "gate": LENIENT}, marks=pytest.mark.slow),
    ],
    ids=["ucb", "thompson", "quantile", "draws"],
)
def test_some_of_the_offered_actions_score_as_among_all(options):
    agent = informed(**options)
    whole = agent.score(0.2)
    some = agent.score(0.2, [2.0, -1.0, -0.0, 2.0])
    assert some["action_0"].tolist() == [2.0, -1.0, 0.0, 2.0]
    expected = whole.iloc[[3, 0, 1, 3]].reset_index(drop=True)
    pd.testing.assert_frame_equal(some, expected, check_exact=True)


@pytest.mark.parametrize("acquisition", [None, MixtureQuantile(steps=30)])
def test_offered_actions_score_the_same_beside_others(acquisition):
    agent = informed(**({"acquisition": acquisition} if acquisition else {}))
    whole, mixed = agent.score(0.2), agent.score(0.2, [2.0, -1.0, 0.77])
    np.testing.assert_allclose(mixed[:2], whole.iloc[[3, 0]], rtol=0.0, atol=1e-10)
    other = make(actions=[0.77])
    play(other, 0, 0)
    fresh = make()
    expected = other.score(0.3).to_numpy()
    np.testing.assert_allclose(fresh.score(0.3, [0.77]).to_numpy(), expected, atol=1e-10)


@pytest.mark.parametrize("acquisition", [None, Thompson()])
def test_a_decision_is_among_the_actions_of_the_call(acquisition):
    options = {"acquisition": acquisition} if acquisition else {}
    for actions in ([0.5, -1.0], [0.3, 0.1, 0.2], [0.0]):
        agent, looked_at = informed(**options), informed(**options)
        table = agent.score(0.2, actions)
        decision = looked_at.ask(0.2, actions)
        assert decision.action.tolist() == [actions[decision.index]]
        assert decision.index == table["score"].idxmax()
        assert decision.score == table["score"].max()
        looked_at.tell(decision.ticket, intermediate=0.1, outcome=0.2)
        assert looked_at.data.transitions.actions[4, 0] == decision.action[0]


def test_to_exploit_is_to_choose_the_highest_mean():
    for options in ({"beta": 100.0}, {"acquisition": Thompson()}, {"beta": LogarithmicBeta(4)}):
        agent = informed(**options)
        table = agent.score(0.2, exploit=True)
        assert (table["score"] == table["mean"]).all()
        assert (agent.score(0.2)["score"] != table["mean"]).any()
        decision = agent.ask(0.2, exploit=True)
        assert decision.index == table["mean"].idxmax()
        assert decision.score == decision.mean


def test_columns_of_a_table_are_matched_by_name():
    offered = pd.DataFrame({"dose": [0.0, 1.0, 1.0], "hours": [2.0, 3.0, 5.0]})
    agent = make(actions=offered, scales=None)
    swapped = offered.iloc[[2, 0]][["hours", "dose"]]
    expected = agent.score(0.2).iloc[[2, 0]].reset_index(drop=True)
    pd.testing.assert_frame_equal(agent.score(0.2, swapped), expected)
    decision = agent.ask(0.2, pd.DataFrame({"hours": [7.0], "dose": [0.5]}))
    assert decision.action.tolist() == [0.5, 7.0]
    agent.add_transitions([0.1], pd.DataFrame({"hours": [8.0], "dose": [0.25]}), [0.3])
    agent.tell(decision.ticket, intermediate=0.1)
    rows = agent.scales.action.restore(agent.data.transitions.actions[:2])
    np.testing.assert_allclose(rows, [[0.25, 8.0], [0.5, 7.0]])
    plain = make(actions=offered.to_numpy(), scales=None)
    unnamed = plain.score(0.2, pd.DataFrame({"x": [1.0], "y": [5.0]}))  # no names to match
    assert unnamed["score"][0] == plain.score(0.2)["score"][2]


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([], "actions: expected at least one row and one column, got"),
        ([[1.0]], r"actions: expected 2 columns, got shape \(1, 1\)"),
        ([[1.0, np.nan]], "actions: expected finite numbers, got nan at row 0, column 1"),
        (
            pd.DataFrame({"dose": [1.0], "minutes": [1.0], "day": [1.0]}),
            "actions: expected the columns dose, hours; got extra day, minutes and missing hours",
        ),
        (pd.DataFrame({"dose": [1.0]}), "expected the columns dose, hours; got missing hours"),
        (
            pd.DataFrame([[1.0, 2.0, 3.0]], columns=["dose", "hours", "dose"]),
            "expected the columns dose, hours; got one twice",
        ),
    ],
)
def test_bad_actions_of_a_call(actions, message):
    agent = make(actions=pd.DataFrame({"dose": [0.0, 1.0], "hours": [2.0, 3.0]}), scales=None)
    for call in (agent.ask, agent.score):
        with pytest.raises(ValueError, match=message):
            call(0.2, actions)
    assert agent.round == 0


def test_a_new_number_of_actions_is_rarely_a_new_program(caplog):
    agent = informed()
    with jax.log_compiles(), caplog.at_level("WARNING", "jax"):
        for size in range(1, 40):
            agent.score(0.1, np.linspace(-3.0, 3.1, size))
        for size in range(1, 4):
            agent.ask(0.1, ACTIONS[:size])
    compiled = re.findall(r"Compiling jit\((\w+)\) with global shapes", caplog.text)
    assert compiled in (["evaluate"], ["evaluate"] * 2)  # for 64, and 32 if no test had it yet


def test_a_part_of_the_offered_set_is_recognised_with_repeated_rows():
    offered = np.array([[0.0, 1.0], [2.0, 3.0], [0.0, 1.0]])
    offer = Offer.of(np.array([[2.0, 3.0], [-0.0, 1.0]]), offered)
    assert offer.actions is offered
    assert offer.rows.tolist() == [1, 0]
    assert offer.allowed.tolist() == [True, True, False]
    padded = Offer.of(np.array([[2.0, 3.5]]), offered)
    assert padded.actions.shape == (32, 2)
    assert padded.allowed.sum() == 1
