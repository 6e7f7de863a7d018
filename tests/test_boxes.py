"""Continuous actions: the box finds what a fine grid finds, and compiles once."""

import sys
from importlib import import_module
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from live_agents import paper_agent

from bayes_cmab import Agent, Box, FunctionPolicy, MixtureQuantile, Thompson
from bayes_cmab.boxes import climb, spread
from bayes_cmab.environments import get_environment
from bayes_cmab.moments import Mixture, Moments
from bayes_cmab.policies import EmbeddingPolicy

BENCHMARKS = Path(__file__).parent.parent / "analysis" / "benchmarks"


def peak(context, action):
    """Highest at (0.3 s, 2 - s), inside the box or on its faces."""
    return -((action[0] - 0.3 * context[0]) ** 2) - (action[1] - 2.0 + context[0]) ** 4


def two_columns(**options) -> Agent:
    box = Box([-1.0, 0.0], [1.0, 5.0], columns=("dose", "hours"))
    return paper_agent(box, policy=FunctionPolicy(peak), **options)


@pytest.mark.slow
def test_the_gap_to_a_fine_grid_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    benchmark = import_module("box_gap")
    gap, _ = benchmark.gaps(get_environment("A"), EmbeddingPolicy(), "short", 5, seed=1)
    assert gap.max() < 1e-3


@pytest.mark.parametrize("context", [0.0, 1.0, -2.0, 2.5, 4.0])
def test_the_highest_point_of_two_columns_inside_and_on_a_face(context: float) -> None:
    agent = two_columns()
    decision = agent.ask(context)
    wanted = [np.clip(0.3 * context, -1.0, 1.0), np.clip(2.0 - context, 0.0, 5.0)]
    np.testing.assert_allclose(decision.action, wanted, atol=0.02)
    best = peak([context], wanted)
    assert best - 1e-5 < decision.score <= best
    table = agent.score(context)
    assert table.columns[:2].tolist() == ["dose", "hours"]
    assert len(table) == 256 + 16
    assert table.loc[decision.index, ["dose", "hours"]].tolist() == decision.action.tolist()
    assert table["score"].max() == decision.score
    assert table["dose"].between(-1.0, 1.0).all()
    assert table["hours"].between(0.0, 5.0).all()


def test_a_box_is_climbed_in_every_round_and_compiles_nothing_once_it_is_warm(
    caplog, tmp_path
) -> None:
    rng = np.random.default_rng(0)
    box = Box(-2.0, 2.0, candidates=32, starts=4, steps=10)

    def play(agent: Agent, rounds: int) -> list[float]:
        chosen = []
        for s in rng.uniform(-1.0, 1.0, rounds):
            decision = agent.ask(s)
            chosen.append(float(decision.action[0]))
            agent.tell(
                decision.ticket, intermediate=chosen[-1], outcome=-((chosen[-1] - 1.23) ** 2)
            )
        return chosen

    agent = paper_agent(box, beta=0.1)
    play(agent, 3)
    with jax.log_compiles(), caplog.at_level("WARNING", "jax"):
        chosen = play(agent, 22)
    assert "Compiling" not in caplog.text
    assert not set(chosen[-5:]) <= set(box.cover()[:, 0])  # the climbs are chosen
    assert "Scores" in agent.report(tmp_path / "report.html").read_text("utf-8")
    agent.add_transitions([0.0], [3.5], [0.0])  # an action outside the box may have been taken
    assert np.isfinite(agent.score(0.0).score).all()


def test_the_seed_decides_among_equals() -> None:
    box = Box(0.0, 1.0, candidates=32, starts=4, steps=10)
    actions = [paper_agent(box, seed=seed).ask(0.0).action[0] for seed in (0, 0, 1, 2, 3)]
    assert actions[0] == actions[1]
    assert len(set(actions)) > 2


def test_the_units_of_a_boxs_actions_do_not_matter() -> None:
    scores = []
    for low, high in ((-2.0, 2.0), (1e5, 5e5)):
        a = low + (high - low) * np.linspace(0.0, 1.0, 7)
        agent = paper_agent(Box(low, high, candidates=32, starts=4, steps=10), beta=0.1)
        agent.add_transitions(np.zeros(7), a, np.sin(np.arange(7.0)))
        agent.add_outcomes(np.linspace(-1.0, 1.0, 7), np.linspace(-1.0, 1.0, 7) ** 2)
        decision = agent.ask(0.0)
        scores.append((decision.score, (decision.action[0] - low) / (high - low)))
    np.testing.assert_allclose(*scores, rtol=1e-6)


def test_thompson_draws_at_the_candidates() -> None:
    box = Box(-1.0, 1.0, candidates=16, starts=2, steps=5)
    agent = paper_agent(box, acquisition=Thompson())
    agent.add_transitions(np.zeros(3), [-1.0, 0.0, 1.0], [0.0, 1.0, 2.0])
    agent.add_outcomes([0.0, 1.0, 2.0], [0.0, 1.0, 0.0])
    decision = agent.ask(0.0)
    assert decision.action[0] in box.cover()[:, 0]
    assert len(agent.score(0.0)) == 16


def test_to_exploit_a_box_is_to_climb_the_mean() -> None:
    options = {"beta": 100.0, "context_sample": [-1.0, 1.0]}
    agent = paper_agent(Box(-2.0, 2.0, candidates=16, starts=4, steps=20), **options)
    agent.add_transitions(np.zeros(9), np.linspace(-2.0, 2.0, 9), np.linspace(-2.0, 2.0, 9))
    agent.add_outcomes(np.linspace(-2.0, 2.0, 9), -((np.linspace(-2.0, 2.0, 9) - 0.37) ** 2))
    table = agent.score(0.0, exploit=True)
    assert (table["score"] == table["mean"]).all()
    decision = agent.ask(0.0, exploit=True)
    assert decision.score == decision.mean == table["mean"].max()
    assert decision.mean > table["mean"][:16].max()  # a climb is above all candidates
    assert decision.mean >= agent.score(0.0)["mean"].max() - 1e-6


def test_actions_of_a_call_take_the_place_of_the_box() -> None:
    agent = two_columns()
    frame = pd.DataFrame({"hours": [1.0, 9.0], "dose": [0.5, -3.0]})
    table = agent.score(0.4, frame)
    assert table[["dose", "hours"]].to_numpy().tolist() == [[0.5, 1.0], [-3.0, 9.0]]
    decision = agent.ask(0.4, [[0.5, 1.0], [-3.0, 9.0]])
    assert (decision.index, decision.action.tolist()) == (0, [0.5, 1.0])
    with pytest.raises(ValueError, match=r"expected the columns dose, hours; got missing hours"):
        agent.ask(0.4, frame[["dose"]])
    agent.tell(decision.ticket, intermediate=0.3, outcome=0.2)
    assert agent.ask(0.4).score > decision.score


def test_a_climb_that_leaves_the_finite_numbers_is_forgotten() -> None:
    def cliff(place):
        return jnp.where(place[0] > 0.6, jnp.nan, place[0])

    first = jnp.array([0.55])
    assert 0.55 <= climb(cliff, 20, first)[0] <= 0.6


def test_starts_lie_apart() -> None:
    places = jnp.linspace(0.0, 1.0, 101)[:, None]
    chosen = spread(places, -((places[:, 0] - 0.3) ** 2), 4)
    assert places[chosen[0], 0] == pytest.approx(0.3)
    assert len(set(chosen.tolist())) == 4
    assert np.diff(np.sort(places[chosen, 0])).min() >= 0.125 - 1e-9


class TwoNormals:
    """Two equally probable normals whose means and deviations depend on the action."""

    def mixture(self, _state, _context, actions):
        a = actions[:, 0]
        mean = jnp.stack([jnp.sin(a), a**2])
        return Mixture(mean, jnp.stack([1.0 + a**2, jnp.exp(a)]), jnp.array([0.4, 0.6]))

    def moments(self, _state, _context, actions):
        return Moments(*[actions[:, 0]] * 7, jnp.array(0.0), jnp.array(0.0))


def test_the_quantile_of_a_mixture_has_a_derivative() -> None:
    def quantile(a):
        arguments = (TwoNormals(), None, None, a[None, None], jnp.array(1.3), jax.random.key(0))
        return MixtureQuantile()(*arguments)[1][0]

    a, step = jnp.array(0.7), 1e-5
    central = (quantile(a + step) - quantile(a - step)) / (2.0 * step)
    assert jax.grad(quantile)(a) == pytest.approx(float(central), rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 0.0), "high: expected more than 0.0 in column 0, got 0.0"),
        (([0.0, 1.0], [1.0, 0.5]), "high: expected more than 1.0 in column 1, got 0.5"),
        (([0.0], [1.0, 2.0]), "same number of rows, got: low has 1, high has 2"),
        (([], []), "low: expected at least one column, got none"),
        ((0.0, np.inf), "high: expected finite numbers, got inf"),
        ((0.0, 1.0, ("a", "b")), "columns: expected 1 names, got 2"),
        ((0.0, 1.0, (), 1), "candidates: expected a whole number of at least 2, got 1"),
        ((0.0, 1.0, (), 8, 0), "starts: expected a whole number of at least 1, got 0"),
        ((0.0, 1.0, (), 8, 9), "starts: expected at most as many as candidates, 8, got 9"),
        ((0.0, 1.0, (), 8, 4, 2.5), "steps: expected a whole number of at least 1, got 2.5"),
    ],
)
def test_bad_boxes(arguments, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Box(*arguments)


def test_bad_names_and_a_box_is_hashable() -> None:
    with pytest.raises(ValueError, match=r"distinct column names .*, got 'score'"):
        paper_agent(Box(0.0, 1.0, columns=("score",)))
    assert hash(Box(np.zeros(2), [1, 2])) == hash(Box([0.0, 0.0], (1.0, 2.0)))
