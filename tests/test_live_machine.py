"""The live agent under random calls, and under random kills."""

import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import hypothesis.strategies as st
import jax
import live_loop
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from live_agents import ACTIONS, Clock, make, play

from bayes_cmab import Agent

ROOM = 32
NUMBERS = st.floats(-4.0, 4.0) | st.sampled_from([0.0, 1e-9, -3.0, 3.0])
OTHERS = st.lists(NUMBERS | st.sampled_from(ACTIONS.tolist()), min_size=1, max_size=4)
TICKETS = st.integers(-1, 12)


class Machine(RuleBasedStateMachine):
    """Any calls in any order, beside a plain list of what was told."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.agent = make(clock=Clock().constant)
        self.tickets: list[dict[str, bool]] = []
        self.transitions = self.outcomes = self.calls = 0

    def teardown(self) -> None:
        self.folder.cleanup()

    def room(self) -> bool:
        # All stay within the smallest capacity, so that nothing is compiled again.
        return max(self.transitions, self.outcomes) + len(self.tickets) + 3 <= ROOM

    @precondition(room)
    @rule(context=NUMBERS, actions=st.none() | OTHERS, exploit=st.booleans())
    def ask(self, context, actions, exploit):
        table = self.agent.score(context, actions, exploit=exploit)
        decision = self.agent.ask(context, actions, exploit=exploit)
        assert decision.action[0] in (ACTIONS if actions is None else actions)
        assert decision.ticket == len(self.tickets)
        assert decision.score == table["score"].max()
        assert np.isfinite(table.to_numpy()).all()
        assert (table["standard_deviation"] >= 0.0).all()
        self.tickets.append({"intermediate": False, "outcome": False, "abandoned": False})
        self.calls += 1

    @rule(ticket=TICKETS, r=st.none() | NUMBERS, y=st.none() | NUMBERS)
    def tell(self, ticket, r, y):
        told = {"intermediate": r, "outcome": y}
        known = self.tickets[ticket] if 0 <= ticket < len(self.tickets) else {"abandoned": True}
        given = [name for name, value in told.items() if value is not None]
        if known["abandoned"] or not given or any(known[name] for name in given):
            with pytest.raises(ValueError, match="expected"):
                self.agent.tell(ticket, **told)
            return
        self.agent.tell(ticket, **told)
        known.update(dict.fromkeys(given, True))
        self.calls += 1

    @rule(ticket=TICKETS)
    def abandon(self, ticket):
        known = self.tickets[ticket] if 0 <= ticket < len(self.tickets) else {"abandoned": True}
        if known["abandoned"] or (known["intermediate"] and known["outcome"]):
            with pytest.raises(ValueError, match="expected"):
                self.agent.abandon(ticket)
            return
        self.agent.abandon(ticket)
        known["abandoned"] = True
        self.calls += 1

    @precondition(room)
    @rule(rows=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=3))
    def add_outcomes(self, rows):
        self.agent.add_outcomes([r for r, _ in rows], [y for _, y in rows])
        self.outcomes += len(rows)
        self.calls += 1

    @precondition(room)
    @rule(rows=st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=3))
    def add_transitions(self, rows):
        self.agent.add_transitions(*([row[i] for row in rows] for i in range(3)))
        self.transitions += len(rows)
        self.calls += 1

    @rule()
    def save_and_load(self):
        path = Path(self.folder.name) / "agent"
        self.agent.save(path)
        loaded = Agent.load(path, clock=Clock().constant)
        one, other = (agent.score(0.5) for agent in (self.agent, loaded))
        pd.testing.assert_frame_equal(one, other, check_exact=True)
        assert len(loaded.history()) == self.calls
        self.agent = loaded

    @invariant()
    def the_data_are_what_was_told(self):
        told = self.tickets
        seen, known = ([t[name] for t in told] for name in ("intermediate", "outcome"))
        both = sum(r and y for r, y in zip(seen, known, strict=True))
        expected = [self.transitions + sum(seen), self.outcomes + both, sum(known)]
        assert [int(rows.size) for rows in self.agent.data] == expected
        waiting = [not (t["abandoned"] or (t["intermediate"] and t["outcome"])) for t in told]
        assert self.agent.waiting == tuple(np.flatnonzero(waiting))
        assert self.agent.round == len(told)


RELAXED = [HealthCheck.too_slow, HealthCheck.filter_too_much]

TestFewCalls = Machine.TestCase
TestFewCalls.settings = settings(
    max_examples=8,
    stateful_step_count=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=RELAXED,
)


class LongMachine(Machine):
    pass


TestManyCalls = pytest.mark.slow(LongMachine.TestCase)
TestManyCalls.settings = settings(
    max_examples=500, stateful_step_count=30, deadline=None, suppress_health_check=RELAXED
)


@pytest.mark.slow
def test_a_loop_that_is_killed_at_random_moments_loses_nothing(tmp_path):
    path, kills = tmp_path / "agent", 20
    rng = np.random.default_rng(0)
    command = [sys.executable, live_loop.__file__, str(path)]
    for _ in range(kills):
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            lines = [child.stdout.readline() for _ in range(rng.integers(1, 6))]
            time.sleep(rng.uniform(0.0, 0.03))
        finally:
            child.kill()
            lines += child.communicate()[0].splitlines()
        assert child.returncode == -9
        # One more call may have been saved, and not said so.
        assert len(Agent.load(path).history()) - int(lines[-1]) in (0, 1)
    resumed = Agent.load(path, clock=Clock().constant)
    assert resumed.round < live_loop.ROUNDS
    live_loop.run(resumed, lambda: None)
    steady = live_loop.new()
    live_loop.run(steady, lambda: None)
    pd.testing.assert_frame_equal(resumed.history(), steady.history(), check_exact=True)
    assert [int(rows.size) for rows in resumed.data] == [50, 47, 47]
    assert not resumed.history().duplicated(["event", "ticket", "outcome"]).any()


@pytest.mark.slow
def test_a_thousand_rounds_compile_each_function_once_a_capacity(caplog):
    agent = make()
    with jax.log_compiles(), caplog.at_level("WARNING", "jax"):
        for part in range(100):
            play(agent, 10, part)
    assert agent.round == 1000
    functions = "condition|evaluate|_append"
    compiled = re.findall(
        rf"Compiling jit\(({functions})\) with global shapes and types (.*)\. Arg", caplog.text
    )
    caplog.clear()
    for (name, _), times in Counter(compiled).items():
        # Of the same shapes, a ticket may gain its outcome alone, or both at once.
        assert times <= (2 if name == "_append" else 1)
    # From 32 to 1,024, each of three data sets doubles its capacity five times; a ticket gains its
    # intermediate, its outcome, or both at once.
    counts = Counter(name for name, _ in compiled)
    assert counts.pop("_append") <= 4 * (1 + 3 * 5)
    assert max(counts.values()) <= 1 + 3 * 5
