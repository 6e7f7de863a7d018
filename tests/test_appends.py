"""Rows appended in place: what is destroyed, what is not, and how an agent survives it."""

import jax
import numpy as np
import pytest
from live_agents import paper_agent

from bayes_cmab import session
from bayes_cmab.agent import Agent
from bayes_cmab.appends import Gained, Row, append, is_spent

ACTIONS = np.linspace(-1.0, 1.0, 4)


def make() -> Agent:
    agent = paper_agent(ACTIONS, seed=2)
    agent.add_outcomes([0.3, -0.8, 1.1], [0.5, -1.0, 1.2])
    for context in (0.1, -0.4):
        decision = agent.ask(context)
        agent.tell(decision.ticket, intermediate=context, outcome=1.0 + context)
    agent.ask(0.5)
    return agent


def test_factors_are_reused_and_everything_else_survives() -> None:
    agent = make()
    before = agent._session.state
    factor = before.posterior.embedding.factor.inverse
    others = jax.tree.leaves((before.data, before.sites, before.scales))
    row = Row(np.array([0.5]), ACTIONS[:1], np.array([0.2]), 0.7)
    after = append(agent._core.policy, before, row, Gained(True, True, True))
    assert is_spent(before)
    assert factor.is_deleted()
    assert not any(leaf.is_deleted() for leaf in others)
    assert not is_spent(after)
    assert int(after.data.transitions.size) == int(before.data.transitions.size) + 1


def test_a_tell_that_is_interrupted_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, other = make(), make()
    observe = session.observe

    def interrupted(*arguments: object) -> None:
        observe(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "observe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        agent.tell(2, intermediate=0.2, outcome=0.7)
    monkeypatch.undo()
    assert agent.waiting == (2,)
    np.testing.assert_allclose(agent.score(0.3)["score"], other.score(0.3)["score"], rtol=1e-9)
    for one in (agent, other):
        one.tell(2, intermediate=0.2, outcome=0.7)
    np.testing.assert_allclose(agent.score(0.3)["score"], other.score(0.3)["score"], rtol=1e-9)


def test_a_refused_tell_spends_nothing() -> None:
    agent = make()
    with pytest.raises(ValueError, match="ticket"):
        agent.tell(9, outcome=1.0)
    assert not is_spent(agent._session.state)
