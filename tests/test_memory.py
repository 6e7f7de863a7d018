"""What an agent is told: abandoned tickets, its history, and threads."""

import copy
import pickle
import threading
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
from live_agents import ACTIONS, Clock, make, play

from bayes_cmab import MAP, Agent, DirectPolicy, Thompson


def sizes(agent):
    return [int(rows.size) for rows in agent.data]


# Abandoned tickets


def test_an_abandoned_ticket_keeps_what_was_told_and_waits_no_more():
    agent = make()
    for _ in range(3):
        agent.ask(0.3)
    agent.tell(0, intermediate=0.2)
    agent.tell(1, outcome=1.0)
    before = agent.score(0.1)
    assert agent.waiting == (0, 1, 2)
    agent.abandon(0)
    agent.abandon(np.int64(2))
    assert agent.waiting == (1,)
    assert sizes(agent) == [1, 0, 1]
    pd.testing.assert_frame_equal(agent.score(0.1), before)
    agent.tell(1, intermediate=0.4)
    assert agent.waiting == ()
    assert sizes(agent) == [2, 1, 1]


def test_an_outcome_told_before_its_ticket_was_abandoned_is_still_learned_from():
    agent = make(policy=DirectPolicy())
    agent.ask(0.3)
    agent.tell(0, outcome=4.0)
    agent.abandon(0)
    agent.add_outcomes([], [])  # everything is conditioned afresh
    assert agent.score(0.3)["mean"].to_numpy() == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a.abandon(1), "ticket: expected one that waits, got 1, which was abandoned b"),
        (lambda a: a.abandon(2), "expected one that waits, got 2, which has its intermediate and"),
        (lambda a: a.abandon(3), "ticket: expected one of the 3 issued so far, got 3"),
        (lambda a: a.abandon(-1), "ticket: expected one of the 3 issued so far, got -1"),
        (lambda a: a.abandon("0"), "ticket: expected a decision's ticket, got '0'"),
        (
            lambda a: a.tell(1, intermediate=0.1),
            "ticket: expected one that waits, got 1, which was abandoned",
        ),
        (lambda a: a.tell(1, outcome=0.1), "ticket: expected one that waits, got 1, which was a"),
    ],
)
def test_a_bad_ticket_is_refused_and_changes_nothing(call, message):
    agent = make()
    for _ in range(3):
        agent.ask(0.0)
    agent.abandon(1)
    agent.tell(2, intermediate=0.1, outcome=0.2)
    before = dict(vars(agent))
    with pytest.raises(ValueError, match=message):
        call(agent)
    assert all(vars(agent)[name] is value for name, value in before.items())


# The history


def test_the_history_has_every_event_in_order():
    agent = make(inference=MAP(every=2, max_steps=2), clock=Clock())
    agent.add_outcomes([0.1, 0.2], [0.3, 0.4])
    agent.add_transitions([0.1], [0.0], [0.3])
    agent.ask(0.5)
    agent.score(0.5)
    agent.tell(0, intermediate=0.7)
    agent.ask(-0.5, exploit=True)
    agent.abandon(1)
    agent.tell(0, outcome=1.5)
    agent.ask(0.0)
    table = agent.history()
    refits = ["refit"] * 2
    events = ["add_outcomes", "add_transitions", *refits, "ask", "tell", "ask", "abandon", "tell"]
    assert table["event"].tolist() == [*events, *refits, "ask"]
    assert table["round"].tolist() == [0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2]
    assert table["rows"][:2].tolist() == [2, 1]
    refit = table.iloc[2]
    assert (refit["program"], refit["reason"]) == ("reward", "every 2 rounds")
    asks = table.query("event == 'ask'")
    assert asks["ticket"].tolist() == [0, 1, 2]
    assert asks["exploit"].tolist() == [False, True, False]
    assert [s.tolist() for s in asks["context"]] == [[0.5], [-0.5], [0.0]]
    assert all(a[0] in ACTIONS for a in asks["action"])
    parts = [name for name in table.columns if name.startswith("variance_")]
    np.testing.assert_allclose(asks[parts].sum(axis=1), asks["standard_deviation"] ** 2)
    tells = table.query("event == 'tell'")
    assert tells["intermediate"].tolist() == [pytest.approx([0.7]), None]
    assert tells["outcome"].tolist() == [pytest.approx(np.nan, nan_ok=True), 1.5]
    assert table["time"].dtype == "datetime64[us, UTC]"
    assert table["time"].is_monotonic_increasing
    assert table["time"].nunique() > 8


def test_an_empty_history_has_the_same_columns():
    agent = make()
    empty = agent.history()
    agent.ask(0.0)
    assert len(empty) == 0
    pd.testing.assert_series_equal(empty.dtypes[["time"]], agent.history().dtypes[["time"]])
    assert empty.columns.tolist() == agent.history().columns.tolist()


def test_time_changes_no_decision_and_is_in_utc():
    east = timezone(timedelta(hours=5))
    still = datetime(2001, 2, 3, 4, tzinfo=east)
    frozen = make(clock=lambda: still)
    assert play(frozen, 3, 1) == play(make(clock=Clock()), 3, 1)
    assert set(frozen.history()["time"]) == {pd.Timestamp(still)}
    assert str(frozen.history()["time"][0]) == "2001-02-02 23:00:00+00:00"
    now = datetime.now(UTC)
    agent = make()
    agent.ask(0.0)
    assert abs(agent.history()["time"][0] - now) < timedelta(minutes=1)


def test_a_clock_may_return_the_timestamps_of_pandas(tmp_path):
    agent = make(clock=lambda: pd.Timestamp("2026-01-02 03:04:05.678901234", tz="UTC"))
    agent.ask(0.0)
    agent.save(tmp_path / "agent")
    time = Agent.load(tmp_path / "agent").history()["time"][0]
    assert time == datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)


@pytest.mark.parametrize("time", [datetime(2026, 1, 1), 0.0])
def test_a_clock_without_a_zone_is_refused_and_changes_nothing(time):
    agent = make(clock=lambda: time)
    with pytest.raises(ValueError, match="clock: expected a datetime with a time zone, got"):
        agent.ask(0.0)
    assert agent.round == 0


def test_who_changes_the_history_changes_no_data():
    agent, other = make(), make()
    for one in (agent, other):
        play(one, 3, 0)
    table = agent.history()
    for name in ("context", "action", "intermediate"):
        for value in table[name]:
            if isinstance(value, np.ndarray):
                value *= 60.0
    for one in (agent, other):
        one.add_outcomes([0.0], [0.0])
    np.testing.assert_array_equal(agent.score(0.1)["mean"], other.score(0.1)["mean"])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda agent: pickle.loads(pickle.dumps(agent))])
def test_a_copy_goes_on_by_itself(copied):
    agent, same = make(clock=Clock().constant), make()
    play(agent, 3, 0)
    play(same, 3, 0)
    other = copied(agent)
    decided = play(other, 2, 1)
    assert agent.round == 3
    assert decided == play(same, 2, 1) == play(agent, 2, 1)


# Threads


def test_threads_take_turns():
    agent, rounds, workers = make(), 8, 4
    errors, seen = [], []

    def work(number: int) -> None:
        try:
            for _ in range(rounds):
                decision = agent.ask(0.1 * number)
                seen.append(decision.ticket)
                agent.score(0.1 * number)
                agent.tell(decision.ticket, intermediate=0.1 * number, outcome=1.0)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(seen) == list(range(rounds * workers))
    assert sizes(agent) == [rounds * workers] * 3
    assert agent.waiting == ()
    assert len(agent.history()) == 2 * rounds * workers


# Several decisions that wait


def test_decisions_that_wait_teach_nothing_and_thompson_draws_anew():
    upper, thompson = make(), make(acquisition=Thompson(), seed=2)
    for agent in (upper, thompson):
        play(agent, 4, 0)
    again = [upper.ask(0.2) for _ in range(5)]
    assert len({(d.index, d.score) for d in again}) == 1
    assert [d.ticket for d in again] == list(range(4, 9))
    drawn = [thompson.ask(0.2, np.linspace(-2.0, 2.0, 9)) for _ in range(8)]
    assert len({d.score for d in drawn}) == 8
    assert len({d.index for d in drawn}) > 1
    for decision in reversed(again):
        upper.tell(decision.ticket, intermediate=0.1, outcome=0.2)
    assert sizes(upper)[:2] == [9, 8]  # the outcome of ticket 3 never came
