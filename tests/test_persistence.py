"""Agents in files."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from agent_files import ADVERTS, VISITORS, assert_same, offering_adverts, show_adverts
from live_agents import LENIENT, SAMPLER, Clock, make, play

from bayes_cmab import (
    MAP,
    NUTS,
    SVI,
    Agent,
    Box,
    DirectPolicy,
    EmbeddingPolicy,
    EveryRounds,
    FunctionPolicy,
    Gate,
    LogarithmicBeta,
    ResidualPolicy,
    Thompson,
)

# An agent goes on as if it had never been saved


@pytest.mark.parametrize(
    ("before", "after"), [(12, 12), pytest.param(45, 100, marks=pytest.mark.slow)]
)
def test_the_next_actions_are_those_of_the_agent_that_was_saved(before, after, tmp_path):
    agent = make(scales=None, seed=4, clock=Clock().constant)
    agent.add_outcomes([0.1, -0.4, 0.9], [0.3, 0.4, 1.0])
    play(agent, before, 0)
    agent.save(tmp_path / "agent")
    loaded = Agent.load(tmp_path / "agent", clock=Clock().constant)
    assert_same(agent, loaded)
    assert play(loaded, after, 1) == play(agent, after, 1)
    assert_same(agent, loaded)


@pytest.mark.parametrize(
    "options",
    [
        {"acquisition": Thompson(), "beta": LogarithmicBeta(4)},
        pytest.param(
            {"inference": MAP(every=4, max_steps=3), "scales": None}, marks=pytest.mark.slow
        ),
        {"policy": DirectPolicy(), "dim_context": 1},
        pytest.param(
            {"inference": MAP(every=7, max_steps=20), "policy": ResidualPolicy()},
            marks=pytest.mark.slow,
        ),
        pytest.param({"inference": SAMPLER, "gate": LENIENT}, marks=pytest.mark.slow),
        pytest.param(
            {"inference": SAMPLER, "gate": LENIENT, "scales": None}, marks=pytest.mark.slow
        ),
        pytest.param(
            {"inference": NUTS(8, 2, 8, 1, refit=EveryRounds(3)), "gate": Gate(rhat=0.1)},
            marks=[pytest.mark.slow, pytest.mark.filterwarnings("ignore:round")],
        ),
        pytest.param(
            {"inference": SVI(draws=8, steps=20, passes=1), "gate": Gate(pareto_k=np.inf)},
            marks=[pytest.mark.slow, pytest.mark.filterwarnings("ignore:round")],
        ),
    ],
    ids=["thompson", "map", "direct", "residual", "nuts", "nuts-units", "failing", "svi"],
)
def test_an_agent_that_is_saved_and_loaded_all_the_time_is_the_same(options, tmp_path):
    steady, restless = make(clock=Clock(), **options), make(clock=Clock(), **options)
    for part in range(5):
        clock = restless._clock
        restless.save(tmp_path / "agent")
        restless = Agent.load(tmp_path / "agent", clock=clock)
        assert play(restless, 4, part) == play(steady, 4, part)
    assert_same(steady, restless)


def test_any_moment_of_a_life_can_be_saved(tmp_path):
    path = tmp_path / "deep" / "agent.zip"
    agent, moments = make(), 0

    def saved():
        nonlocal moments
        agent.save(path)
        loaded = Agent.load(str(path))
        assert_same(agent, loaded)
        again = tmp_path / "again"
        loaded.save(again)
        assert again.read_bytes() == path.read_bytes()
        moments += 1

    saved()
    for _ in range(4):
        agent.ask(0.2)
    saved()
    agent.tell(1, outcome=0.4)
    agent.tell(2, intermediate=0.3)
    saved()
    agent.abandon(2)
    agent.score(0.1)
    saved()
    agent.add_transitions([0.2], [0.1], [0.3])
    saved()
    agent.score(0.0)
    saved()
    agent.ask(0.1, [0.3, 0.4], exploit=True)
    agent.tell(1, intermediate=-0.2)
    saved()
    assert moments == 7


def test_the_columns_of_a_table_keep_their_names(tmp_path):
    frame = pd.DataFrame({"dose": [0.0, 1.0, 1.0], "hours": [2.0, 3.0, 5.0]})
    agent = make(actions=frame, scales=None, dim_context=0, context_sample=None)
    agent.save(tmp_path / "agent")
    loaded = Agent.load(tmp_path / "agent")
    pd.testing.assert_frame_equal(loaded.score(None, frame[["hours", "dose"]]), agent.score())


def test_categories_come_back_with_their_types(tmp_path):
    path = tmp_path / "agent"
    agent = offering_adverts(seed=3, clock=Clock().constant)
    agent.add_transitions(VISITORS, ADVERTS[:2], [0.2, 0.4])
    show_adverts(agent, 6, 0)
    agent.save(path)
    loaded = Agent.load(path, clock=Clock().constant)
    for mine, theirs in zip(agent._settings[1:3], loaded._settings[1:3], strict=True):
        assert repr(mine) == repr(theirs)
    assert show_adverts(loaded, 6, 1) == show_adverts(agent, 6, 1)
    last = loaded.history().query("event == 'ask'").iloc[-1]
    assert last["context"][1] == "other"
    pd.testing.assert_frame_equal(agent.history(), loaded.history(), check_exact=True)
    for one in (agent, loaded):
        with pytest.raises(ValueError, match=r"'price': expected one of 1, 2, 3, 4\.5, got 5 at"):
            one.ask([30.0, "phone"], [["red", 5, True]])


@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"acquisition": Thompson()}, marks=pytest.mark.slow)],
    ids=["ucb", "thompson"],
)
def test_a_box_comes_back(options, tmp_path):
    box = Box(-1.0, 2.0, columns=("dose",), candidates=16, starts=2, steps=5)
    agent = make(actions=box, seed=2, clock=Clock().constant, **options)
    play(agent, 4, 0)
    agent.ask(0.1, [0.3, 5.0])
    agent.save(tmp_path / "agent")
    loaded = Agent.load(tmp_path / "agent", clock=Clock().constant)
    assert loaded._settings.box == box
    assert_same(agent, loaded)
    assert play(loaded, 4, 1) == play(agent, 4, 1)
    assert_same(agent, loaded)


# What is the user's own


def schedule(t):
    return 0.5 + 0.0 * t


def price(r):
    return jnp.minimum(r[0], 1.0)


def test_a_users_code_is_demanded_again(tmp_path):
    path = tmp_path / "agent"
    agent = make(beta=schedule, reward_function=price)
    play(agent, 3, 0)
    agent.save(path)
    with pytest.raises(ValueError, match=r"arguments of load.*: beta \(<function schedule .*got n"):
        Agent.load(path)
    with pytest.raises(ValueError, match=r"reward_function \(<function price .*; got beta"):
        Agent.load(path, beta=schedule)
    own = {"beta": schedule, "reward_function": price}
    with pytest.raises(ValueError, match=r"only what the file lacks, .*; got policy, seed"):
        Agent.load(path, **own, policy=EmbeddingPolicy(), seed=3)
    loaded = Agent.load(path, **own)
    assert play(loaded, 3, 1) == play(agent, 3, 1)
    with pytest.raises(ValueError, match="reward_function: expected a function, got 3"):
        Agent.load(path, beta=schedule, reward_function=3)


def test_a_users_policy_must_fit(tmp_path):
    path = tmp_path / "agent"
    own = FunctionPolicy(lambda s, a: -((a[0] - s[0]) ** 2))
    agent = make(policy=own)
    agent.ask(0.4)
    agent.save(path)
    with pytest.raises(ValueError, match="expected a policy whose sites are none; got one with"):
        Agent.load(path, policy=EmbeddingPolicy())
    with pytest.raises(ValueError, match="policy: expected a Policy, got 'x'"):
        Agent.load(path, policy="x")
    assert Agent.load(path, policy=own).ask(0.4).action == 0.5
