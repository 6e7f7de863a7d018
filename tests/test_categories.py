"""Categorical columns become zeros and ones, tables are matched by name, errors name the column."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from live_agents import paper_agent

from bayes_cmab import Agent, Box, Period
from bayes_cmab.columns import Columns
from bayes_cmab.kernels import rbf

ACTIONS = np.linspace(-1.0, 1.0, 4)

ADVERTS = pd.DataFrame(
    {"colour": ["red", "blue", "red", "green"], "price": [1.0, 2.0, 3.0, 4.0], "new": [True] * 4}
)
VISITORS = pd.DataFrame({"age": [20.0, 40.0, 60.0], "device": ["phone", "tablet", "phone"]})


def make(**options) -> Agent:
    return paper_agent(ADVERTS, **{"context_sample": VISITORS} | options)


# The columns


def test_a_table_becomes_numbers_and_comes_back() -> None:
    columns = Columns.of(ADVERTS, "actions", "action")
    assert columns.levels == (("blue", "green", "red"), None, (False, True))
    assert columns.labels == (
        *("colour=blue", "colour=green", "colour=red", "price", "new=False", "new=True"),
    )
    rows = columns.rows(ADVERTS, "actions")
    np.testing.assert_array_equal(rows[1], [1.0, 0.0, 0.0, 2.0, 0.0, 1.0])
    assert rows.shape == (4, columns.width) == (4, 6)
    pd.testing.assert_frame_equal(pd.DataFrame(columns.restore(rows)), ADVERTS, check_dtype=False)


@pytest.mark.parametrize(
    ("value", "levels"),
    [
        (["b", "a", "b"], (("a", "b"),)),
        (np.array([True, False, True]), ((False, True),)),
        ([["b", 1], ["a", 2], ["b", 3]], (("a", "b"), None)),
        (pd.Series(["b", "a", "b"]), (("a", "b"),)),
        (pd.Series(["b", "a", "b"], dtype="category"), (("a", "b"),)),
        (pd.Series(pd.Categorical([3, 1, 3], categories=[3, 2, 1])), ((3, 2, 1),)),
        (pd.DataFrame({"x": pd.array([True, False, True], dtype="boolean")}), ((False, True),)),
        ([1.0, 2.0, 3.0], (None,)),
        (pd.DataFrame({"x": [1, 2, 3]}), (None,)),
        (np.array([1, 2, 3], dtype=object), (None,)),
    ],
)
def test_strings_bools_and_pandas_categories_are_categorical(value, levels) -> None:
    columns = Columns.of(value, "x", "x")
    assert columns.levels == levels
    rows = columns.rows(value, "x")
    assert rows.shape == (3, columns.width)
    if levels[0] is not None:
        np.testing.assert_array_equal(rows[:, : len(levels[0])].sum(axis=1), 1.0)


def test_two_categories_are_at_squared_distance_two_whatever_the_data() -> None:
    agent = make()
    agent.ask({"age": 30.0, "device": "phone"})
    s, a = agent.scales.context, agent.scales.action
    assert s.center.tolist() == [pytest.approx(40.0), 0.0, 0.0]
    assert s.scale.tolist()[1:] == [1.0, 1.0]
    assert a.center.tolist() == [0.0, 0.0, 0.0, 2.5, 0.0, 0.0]
    assert a.scale.tolist()[:3] == [1.0, 1.0, 1.0]
    rows = agent._settings.columns.rows(ADVERTS, "actions")[:2]
    standard = (rows - np.asarray(a.center)) / np.asarray(a.scale)
    assert np.sum((standard[0] - standard[1])[:3] ** 2) == 2.0


# The agent


def test_an_agent_learns_which_category_is_good() -> None:
    agent = paper_agent(["red", "blue", "green"], dim_context=0)
    for _ in range(15):
        decision = agent.ask()
        (colour,) = decision.action
        r = {"red": 0.0, "blue": 1.0, "green": -1.0}[colour]
        agent.tell(decision.ticket, intermediate=r, outcome=r)
    table = agent.score()
    assert table.loc[table["mean"].idxmax(), "action_0"] == "blue"
    agent.add_transitions(None, ["green", "red"], [1.0, 0.0])
    assert int(agent.data.transitions.size) == 17


def test_a_context_may_come_by_name_or_by_position_in_any_container(tmp_path) -> None:
    agent = make()
    contexts = (
        {"device": "tablet", "age": 25},
        pd.DataFrame({"device": ["tablet"], "age": [25]}),
        pd.Series({"device": "tablet", "age": 25.0}),
        [25, "tablet"],
        [[25.0, "tablet"]],
        np.array([25.0, "tablet"], dtype=object),
    )
    tables = [agent.score(context) for context in contexts]
    for other in tables[1:]:
        pd.testing.assert_frame_equal(tables[0], other)
    assert tables[0].columns[:3].tolist() == ["colour", "price", "new"]
    decision = agent.ask(contexts[0])
    assert decision.action.tolist() == ADVERTS.iloc[decision.index].tolist()
    agent.add_transitions(
        VISITORS[["device", "age"]], ADVERTS.iloc[:3][["new", "price", "colour"]], [1.0, 2.0, 3.0]
    )
    stored = agent._session.ledger.transitions()
    np.testing.assert_array_equal(stored[0], [[20, 1, 0], [40, 0, 1], [60, 1, 0]])
    np.testing.assert_array_equal(stored[1][:, 3], [1.0, 2.0, 3.0])
    text = agent.report(tmp_path / "report.html").read_text("utf-8")
    assert "age = 25, device = tablet" in text
    assert "colour=blue" in text


def test_categories_that_are_not_in_the_data_yet() -> None:
    names = VISITORS.iloc[:0].astype({"age": float})
    agent = make(
        context_sample=names, categories={"device": ["phone", "watch"], "price": [1, 2, 3, 4, 5]}
    )
    assert agent._settings.contexts.labels == ("age", "device=phone", "device=watch")
    assert agent._settings.columns.width == 3 + 5 + 2
    assert np.isfinite(agent.score([30.0, "watch"]).score).all()
    positions = paper_agent([0.0, 1.0], categories={"context_0": ["a", "b"]})
    assert positions._settings.contexts.row("b", "context").tolist() == [0.0, 1.0]


def test_numeric_tables_are_matched_by_name_too() -> None:
    sample = pd.DataFrame({"age": [20.0, 40.0], "income": [1.0, 9.0]})
    agent = paper_agent([0.0, 1.0], context_sample=sample)
    decision = agent.ask({"income": 1.0, "age": 30.0})
    assert agent._session.ledger.tickets[decision.ticket].context.tolist() == [30.0, 1.0]


SEEN = {"age": 30.0, "device": "phone"}


def test_actions_of_a_call_have_categories_and_names_too() -> None:
    agent = make()
    whole = agent.score(SEEN)
    some = ADVERTS.iloc[[3, 0]][["new", "price", "colour"]]
    expected = whole.iloc[[3, 0]].reset_index(drop=True)
    pd.testing.assert_frame_equal(agent.score(SEEN, some), expected, check_exact=True)
    others = [["green", 1.5, False], ["red", 9.0, True]]
    table = agent.score(SEEN, others)
    assert table[["colour", "price", "new"]].to_numpy().tolist() == others
    decision = agent.ask(SEEN, others, exploit=True)
    assert decision.action.tolist() == others[decision.index]
    stored = agent._session.ledger.tickets[decision.ticket].action
    assert stored.dtype == float
    assert agent._settings.columns.restore_rows(stored[None])[0].tolist() == others[decision.index]
    asks = agent.history()
    assert asks["context"][0].tolist() == [30.0, "phone"]
    assert asks["action"][0].tolist() == others[decision.index]
    agent.tell(decision.ticket, intermediate=0.3, outcome=0.2)
    assert np.isfinite(agent.score(SEEN)["score"]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda a: a.ask(SEEN, [["pink", 1.0, True]]),
            "actions: column 'colour': expected one of 'blue', 'green', 'red', got 'pink' at row 0",
        ),
        (lambda a: a.score(SEEN, [["red", 1.0]]), "actions: expected 3 columns, got shape (1, 2)"),
        (
            lambda a: a.score(SEEN, ADVERTS[["price", "new"]]),
            "actions: expected the columns colour, price, new; got missing colour",
        ),
        (
            lambda a: a.score(SEEN, ADVERTS.iloc[:0]),
            "actions: expected at least one row and one column, got (0, 6)",
        ),
        (
            lambda a: a.ask([30.0, "watch"]),
            "context: column 'device': expected one of 'phone', 'tablet', got 'watch' at row 0",
        ),
        (
            lambda a: a.ask({"age": 30.0}),
            "context: expected the columns age, device; got missing device",
        ),
        (
            lambda a: a.ask({"age": 30.0, "gadget": "phone"}),
            "got extra gadget and missing device",
        ),
        (
            lambda a: a.ask(pd.Series({"age": 1.0, "device": "phone", "x": 2.0})),
            "got extra x",
        ),
        (lambda a: a.ask([30.0]), "context: expected 2 columns, got shape (1,)"),
        (lambda a: a.ask(["old", "phone"]), "context: column 'age': expected numbers"),
        (lambda a: a.ask([np.nan, "phone"]), "context: column 'age': expected finite numbers"),
        (lambda a: a.ask([30.0, np.nan]), "expected one of 'phone', 'tablet', got nan at row 0"),
        (lambda a: a.ask([30.0, ["phone"]]), "expected"),
        (lambda a: a.ask(VISITORS), "context: expected one row, got 3"),
        (lambda a: a.ask(), "context: expected 2 numbers, got None"),
        (
            lambda a: a.add_transitions(VISITORS[:1], [["pink", 1.0, True]], [0.0]),
            "actions: column 'colour': expected one of 'blue', 'green', 'red', got 'pink' at row 0",
        ),
        (
            lambda a: a.add_transitions(VISITORS[:1], ADVERTS[:1].drop(columns="new"), [0.0]),
            "actions: expected the columns colour, price, new; got missing new",
        ),
    ],
)
def test_what_was_not_declared_is_explained_and_changes_nothing(call, message: str) -> None:
    agent = make()
    before = dict(vars(agent))
    with pytest.raises(ValueError, match=re.escape(message)):
        call(agent)
    assert all(vars(agent)[name] is value for name, value in before.items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"categories": ["a"]}, "categories: expected a dict, got list"),
        (
            {"categories": {"size": ["a"]}},
            "expected columns of age, device, colour, price, new; 's",
        ),
        ({"categories": {"device": "phone"}}, r"categories\['device'\]: expected a list of"),
        ({"categories": {"device": ["a", "a"]}}, "expected distinct strings, bools or numbers"),
        ({"categories": {"device": []}}, "expected distinct strings, bools or numbers"),
        ({"categories": {"device": ["tablet"]}}, "'device': expected one of 'tablet', got 'phone'"),
        (
            {"actions": [["a", 1.0], [2.0, 1.0]]},
            "'action_0': expected strings only, got 2.0 at row 1",
        ),
        (
            {"actions": pd.DataFrame({"x": ["a", None]})},
            "'x': expected strings only, got nan at row",
        ),
        ({"actions": pd.DataFrame([["a", "b"]], columns=["x", "x"])}, "got 'x' twice"),
        ({"context_sample": VISITORS, "dim_context": 1}, "context_sample: expected 1 column, got"),
        (
            {"actions": pd.DataFrame({"age": [1.0]}), "categories": {"age": [1, 20, 40, 60]}},
            "'age' is twice there",
        ),
    ],
)
def test_bad_declarations(options, message: str) -> None:
    actions = options.pop("actions", ADVERTS)
    with pytest.raises(ValueError, match=message):
        paper_agent(actions, **{"context_sample": VISITORS} | options)


def test_a_periodic_column_is_a_point_of_the_circle_and_comes_back() -> None:
    hours = np.array([0.0, 5.5, 12.0, 23.0, 24.0, 29.5])
    columns = Columns.numeric(1, "hour").declare({"hour_0": Period(24.0)})
    assert columns.width == 2
    assert columns.labels == ("hour_0=cos", "hour_0=sin")
    rows = columns.rows(hours[:, None], "hours")
    np.testing.assert_allclose(np.sum(rows**2, axis=1), 1.0)
    np.testing.assert_allclose(rows[0], rows[4], atol=1e-15)
    np.testing.assert_allclose(rows[1], rows[5], atol=1e-14)
    restored = columns.restore(rows)["hour_0"]
    np.testing.assert_array_equal(restored, [0.0, 5.5, 12.0, 23.0, 0.0, 5.5])
    # The RBF on the circle is the periodic kernel.
    got = np.asarray(rbf(rows, rows, np.full(2, 0.7)))
    angle = np.pi * (hours[:, None] - hours[None, :]) / 24.0
    np.testing.assert_allclose(got, np.exp(-2.0 * np.sin(angle) ** 2 / 0.49), rtol=1e-12)


def test_an_agent_sees_midnight_as_one_hour(tmp_path: Path) -> None:
    sample = pd.DataFrame({"hour": [0.0, 12.0], "load": [1.0, 3.0]})
    agent = paper_agent(ACTIONS, context_sample=sample, categories={"hour": Period(24.0)}, seed=1)
    for hour, outcome in ((23.5, 2.0), (11.0, -1.0)):
        decision = agent.ask({"hour": hour, "load": 2.0})
        agent.tell(decision.ticket, intermediate=outcome, outcome=outcome)
    scores = [agent.score([hour, 2.0])["score"] for hour in (24.0, 0.0, 48.0)]
    for other in scores[1:]:
        np.testing.assert_allclose(other, scores[0], rtol=1e-9)
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent")
    np.testing.assert_array_equal(again.score([0.0, 2.0])["score"], scores[1])


def test_actions_of_a_period_come_back_as_they_were_offered() -> None:
    offered = np.arange(24.0)
    agent = paper_agent(pd.DataFrame({"hour": offered}), categories={"hour": Period(24.0)})
    np.testing.assert_array_equal(agent.score(0.0)["hour"], offered)
    weeks = Columns.numeric(1, "week").declare({"week_0": Period(1e-3)})
    given = 1e-3 * np.arange(7) / 7
    back = weeks.restore(weeks.rows(given[:, None], "weeks"))["week_0"]
    np.testing.assert_allclose(back, given, atol=1e-15)


def test_a_column_of_a_box_has_no_period() -> None:
    with pytest.raises(ValueError, match=r"categories: expected none of a Box, .* got 'hour'"):
        Agent(Box([0.0], [24.0], columns=("hour",)), categories={"hour": Period(24.0)})


@pytest.mark.parametrize("length", [0.0, -24.0, float("nan")])
def test_a_period_is_positive(length: float) -> None:
    with pytest.raises(ValueError, match=r"categories\['hour'\]: Period"):
        Agent(
            ACTIONS,
            context_sample=pd.DataFrame({"hour": [1.0]}),
            categories={"hour": Period(length)},
        )
