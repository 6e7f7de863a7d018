"""Files of older schemas are read as what they were."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from agent_files import ADVERTS, VISITORS, assert_same, offering_adverts, rewrite, show_adverts
from live_agents import ACTIONS, LENIENT, SAMPLER, Clock, make, play

from bayes_cmab import Agent, codec, persistence
from bayes_cmab.columns import Columns

FIXTURES = Path(__file__).parent / "data"


def test_a_file_of_schema_one_is_read():
    agent = Agent.load(FIXTURES / "agent-schema-1.zip")
    assert agent.round == 9
    assert agent.waiting == (3, 4)
    assert [int(rows.size) for rows in agent.data] == [8, 9, 6]
    assert agent.history()["event"].value_counts().to_dict() == {
        "ask": 9,
        "tell": 9,
        "abandon": 1,
        "add_outcomes": 1,
        "add_transitions": 1,
    }
    decision = agent.ask(0.25)
    assert decision.action.tolist() == EXPECTED["action"]
    assert decision.mean == pytest.approx(EXPECTED["mean"], abs=1e-8)
    assert decision.standard_deviation == pytest.approx(EXPECTED["sd"], abs=1e-8)


EXPECTED = {"action": [0.5], "mean": 1.0864829677403032, "sd": 0.27762811839725443}
"""What the agent in that fixture decided next when it was saved."""


def test_a_damaged_file_of_schema_one_is_refused(tmp_path):
    path = tmp_path / "agent"
    shutil.copy(FIXTURES / "agent-schema-1.zip", path)
    rewrite(path, lambda document: document["settings"].pop("columns"))
    with pytest.raises(ValueError, match=r"Agent\.save of schema 1, got KeyError: 'columns'"):
        Agent.load(path)


def of_schema_one(document) -> None:
    """Turn a document of an agent of numbers, without a box, into one of schema 1, in place."""
    settings = document["settings"]
    columns = settings.pop("columns")["fields"]
    settings |= {"columns": columns["names"], "named": columns["named"]}
    settings["dim_context"] = len(settings.pop("contexts")["fields"]["names"]["$tuple"])
    assert settings.pop("box") is None
    document["schema"] = 1
    inferred = document["session"]["fields"]["state"]["fields"]["inferred"]
    if inferred is not None:
        fields = inferred["fields"]["draws"]["fields"]
        fields |= fields.pop("programs")["$dict"]
        assert set(fields) == {"reward", "embedding", "lengthscale"}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"dim_context": 0, "scales": None}, marks=pytest.mark.slow),
        {"actions": pd.DataFrame({"dose": ACTIONS})},
        pytest.param({"inference": SAMPLER, "gate": LENIENT}, marks=pytest.mark.slow),
    ],
    ids=["no context", "named", "draws"],
)
def test_what_schema_one_could_hold_is_read(options, tmp_path):
    path = tmp_path / "agent"
    agent = make(clock=Clock(), **options)
    context = () if "dim_context" in options else (0.3,)
    for r in (0.1, 0.5):
        agent.tell(agent.ask(*context).ticket, intermediate=r, outcome=r)
    agent.save(path)
    rewrite(path, of_schema_one)
    loaded = Agent.load(path)
    assert repr(loaded._settings) == repr(agent._settings)
    table = agent.score(*context)
    pd.testing.assert_frame_equal(loaded.score(*context), table, check_exact=True)


def test_draws_of_schema_one_are_put_in_order_by_program():
    old = {"reward": "f", "embedding": ["P"], "lengthscale": {"$jax": ["float64-1", 0]}}
    inner = {"$class": "HyperparameterDraws", "fields": dict(old)}
    settings = {"columns": {"$tuple": ["x", "y"]}, "named": True, "dim_context": 1, "seed": 3}
    document = {"schema": 1, "settings": settings, "session": [1, {"draws": inner}]}
    new = persistence.MIGRATIONS[1](document)
    (_, state) = new["session"]
    assert list(state["draws"]["fields"]["programs"]["$dict"]) == ["reward", "embedding"]
    assert state["draws"]["fields"]["lengthscale"] == old["lengthscale"]
    assert inner["fields"] == old  # the old document is left alone
    assert codec.decode(new["settings"]["columns"], {}) == Columns(("x", "y"), (None, None), True)
    assert codec.decode(new["settings"]["contexts"], {}) == Columns(("context_0",), (None,))
    assert (new["settings"]["box"], new["settings"]["seed"], new["schema"]) == (None, 3, 2)


def test_a_file_of_schema_two_is_read():
    agent = Agent.load(FIXTURES / "agent-schema-2.zip")
    assert agent.round == 9
    assert agent.waiting == (0, 3, 6)
    assert [int(rows.size) for rows in agent.data] == [11, 6, 6]
    assert agent._settings.columns.levels == (("blue", "red"), (1, 2, 3, 4.5), (False, True))
    asks = agent.history().query("event == 'ask'")
    assert asks["action"].iloc[7].tolist() == ["blue", 4.5, True]
    assert asks["context"].iloc[8].tolist() == [pytest.approx(34.829999, abs=1e-6), "other"]
    decision = agent.ask({"device": "other", "age": 33.0})
    assert decision.action.tolist() == EXPECTED_TWO["action"]
    assert decision.mean == pytest.approx(EXPECTED_TWO["mean"], abs=1e-8)
    assert decision.standard_deviation == pytest.approx(EXPECTED_TWO["sd"], abs=1e-8)


EXPECTED_TWO = {
    "action": ["red", 1, True],
    "mean": -0.7662217518263401,
    "sd": 1.0578146871005654,
}
"""What the agent in that fixture decided next when it was saved."""


def test_older_files_go_through_every_migration(tmp_path, monkeypatch):
    path = tmp_path / "agent"
    agent = make(seed=7)
    play(agent, 3, 0)
    agent.save(path)
    applied = []

    def to_three(document):
        applied.append(3)
        return document | {"settings": document["settings"] | {"speed": 1}}

    def to_four(document):
        applied.append(4)
        assert document["settings"].pop("speed") == 1
        return document

    monkeypatch.setattr(persistence, "MIGRATIONS", {2: to_three, 3: to_four})
    monkeypatch.setattr(persistence, "SCHEMA", 4)
    loaded = Agent.load(path)
    assert applied == [3, 4]
    assert_same(agent, loaded)
    loaded.save(path)
    assert_same(agent, Agent.load(path))
    assert applied == [3, 4]


def test_there_is_a_migration_from_every_older_schema():
    assert sorted(persistence.MIGRATIONS) == list(range(1, persistence.SCHEMA))


def make_fixture() -> None:
    """Write the fixture of the schema, once for each: an older one is never written again."""
    agent = offering_adverts(seed=11, clock=Clock())
    agent.add_transitions(VISITORS, ADVERTS[:2], [0.2, 0.4])
    show_adverts(agent, 9, 5)
    agent.save(FIXTURES / f"agent-schema-{persistence.SCHEMA}.zip")
