"""The failure catalogue: what goes wrong in practice is handled, or explained and changes nothing.

Wrong options, bad calls of every method, and scores that are not finite are in
``test_agent_errors``, degenerate data with draws of the hyperparameters in ``test_agent_draws``,
the border in ``test_validate``.
"""

import re
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from bayes_cmab import MAP, Agent, DirectPolicy, EmbeddingPolicy, Fixed, Scales, TransitionPolicy
from bayes_cmab.options import EMBEDDINGS
from bayes_cmab.policies import Policy

ACTIONS = np.linspace(-2.0, 2.0, 5)
ROWS = 20
type Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def rows() -> Rows:
    rng = np.random.default_rng(0)
    s, a = rng.uniform(-3.0, 3.0, ROWS), rng.choice(ACTIONS, ROWS)
    r = np.column_stack([np.sin(s), np.cos(a)]) + 0.25 * rng.normal(size=(ROWS, 2))
    return s, a, r, 1.0 + 1.5 * np.sin(np.pi * r).sum(axis=1) + rng.normal(size=ROWS)


def duplicates(s, a, r, y) -> Rows:
    return np.full(ROWS, s[0]), np.full(ROWS, a[0]), np.tile(r[0], (ROWS, 1)), y


def near_duplicates(s, a, r, y) -> Rows:
    rng = np.random.default_rng(1)
    first = np.arange(ROWS) % 3
    nearly = r[first] + 1e-9 * rng.normal(size=(ROWS, 2))
    return s[first] + 1e-9 * rng.normal(size=ROWS), a[first], nearly, y


def flat_outcome(s, a, r, y) -> Rows:
    return s, a, r, np.full_like(y, 3.0)


def all_flat(s, a, r, y) -> Rows:
    return *duplicates(s, a, r, y)[:3], np.full(ROWS, 3.0)


def outlier(s, a, r, y) -> Rows:
    return s, a, r, np.append(y[:-1], 1e6)


def huge(s, a, r, y) -> Rows:
    return 1e6 * s, a, 1e6 * r, 1e6 * y


def tiny(s, a, r, y) -> Rows:
    return 1e-6 * s, a, 1e-6 * r, 1e-6 * y


EMBEDDING_NAMES = ["paper", pytest.param("transition", marks=pytest.mark.slow)]
KINDS: list[Callable[..., Rows]] = [
    *(duplicates, near_duplicates, flat_outcome, all_flat, outlier, huge, tiny)
]


def sound(agent: Agent, context: float) -> None:
    """Check what an agent says, before and after one more row."""
    for _ in range(2):
        table = agent.score(context)
        assert np.isfinite(table.to_numpy()).all()
        assert (table.standard_deviation >= 0.0).all()
        decision = agent.ask(context)
        assert decision.action[0] in ACTIONS
        agent.tell(decision.ticket, intermediate=[0.1, 0.2], outcome=1.0)


@pytest.mark.parametrize("units", ["measured", "given"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "policy",
    [
        EmbeddingPolicy(),
        DirectPolicy(),
        TransitionPolicy(),
        pytest.param(EMBEDDINGS["transition"], marks=pytest.mark.slow),
    ],
    ids=lambda p: type(p).__name__,
)
def test_numerically_hard_data(policy: Policy, kind: Callable[..., Rows], units: str) -> None:
    s, a, r, y = kind(*rows())
    scales = Scales.identity(1, 1, 2) if units == "given" else None
    options = {"policy": policy, "scales": scales, "inference": Fixed()}
    agent = Agent(ACTIONS, dim_intermediate=2, **options)
    agent.add_transitions(s, a, r)
    agent.add_outcomes(r, y)
    sound(agent, float(s[1]))


@pytest.mark.parametrize("embedding", EMBEDDING_NAMES)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_hyperparameters_are_fitted_to_numerically_hard_data(
    kind: Callable[..., Rows], embedding: str
) -> None:
    s, a, r, y = kind(*rows())
    inference = MAP(every=1, max_steps=20)
    agent = Agent(ACTIONS, dim_intermediate=2, embedding=embedding, inference=inference)
    agent.add_transitions(s, a, r)
    agent.add_outcomes(r, y)
    sound(agent, float(s[1]))
    assert all(np.all(np.asarray(value) > 0.0) for value in agent.sites.values())


@pytest.mark.parametrize("embedding", EMBEDDING_NAMES)
@pytest.mark.parametrize("inference", [Fixed(), MAP(every=1, max_steps=20)])
@pytest.mark.parametrize("known", ["nothing", "one transition", "one outcome", "one of both"])
def test_none_or_one_row(known: str, inference: Fixed | MAP, embedding: str) -> None:
    agent = Agent(ACTIONS, dim_intermediate=2, embedding=embedding, inference=inference)
    if known in ("one transition", "one of both"):
        agent.add_transitions([0.5], [1.0], [[0.2, 0.3]])
    if known in ("one outcome", "one of both"):
        agent.add_outcomes([[0.2, 0.3]], [1.0])
    sound(agent, 0.5)


def test_matched_data_told_twice_over() -> None:
    s, a, r, y = rows()
    agent = Agent(ACTIONS, dim_intermediate=2, embedding="paper", inference=Fixed())
    for i in range(5):
        decision = agent.ask(s[i])
        agent.tell(decision.ticket, intermediate=r[i], outcome=y[i])
    agent.add_outcomes(r[:5], y[:5])
    agent.add_transitions(s[:5], a[:5], r[:5])
    sound(agent, 0.5)


@pytest.mark.slow
def test_an_outlier_at_round_fifty() -> None:
    rng = np.random.default_rng(2)
    agent = Agent(ACTIONS, dim_intermediate=2, inference=Fixed())
    for t in range(51):
        decision = agent.ask(rng.uniform(-3.0, 3.0))
        r = rng.normal(size=2)
        agent.tell(decision.ticket, intermediate=r, outcome=1e6 if t == 50 else r.sum())
    assert np.isfinite(agent.score(0.5).to_numpy()).all()
    agent.add_outcomes(np.zeros((0, 2)), [])  # the units are measured anew
    sound(agent, 0.5)
    assert float(agent.scales.outcome.scale) > 1e4


# What sites are looked for by their name, and the value they get.
EXTREMES = {
    "no noise": ("noise", 1e-8),
    "long lengthscales": ("lengthscale", 1e6),
    "short lengthscales": ("lengthscale", 1e-6),
    "nothing varies": ("_scale", 1e-8),
}


@pytest.mark.parametrize("embedding", EMBEDDING_NAMES)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("extreme", EXTREMES)
def test_extreme_hyperparameters(extreme: str, kind: Callable[..., Rows], embedding: str) -> None:
    word, value = EXTREMES[extreme]
    sites = {
        name: np.full_like(v, value) if re.search(word, name) else v
        for name, v in EMBEDDINGS[embedding].default_sites(1, 1, 2).items()
    }
    s, a, r, y = kind(*rows())
    agent = Agent(ACTIONS, dim_intermediate=2, embedding=embedding, hyperparameters=sites)
    agent.add_transitions(s, a, r)
    agent.add_outcomes(r, y)
    sound(agent, float(s[1]))


def test_large_outcomes_under_lengthscales_that_make_all_rows_one() -> None:
    # Large outcomes, lengthscales that make all rows one, and no noise.
    policy = TransitionPolicy()
    sites = {
        k: np.full_like(v, 1e-8 if "noise" in k else 1e6 if "lengthscale" in k else 1.0)
        for k, v in policy.default_sites(1, 1, 2).items()
    }
    s, a, r, y = rows()
    agent = Agent(
        ACTIONS,
        policy=policy,
        dim_intermediate=2,
        hyperparameters=sites,
        scales=Scales.identity(1, 1, 2),
    )
    agent.add_transitions(s, a, r)
    agent.add_outcomes(r, 1e6 * y)
    sound(agent, 0.3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a.ask([[1.0], [2.0]]), r"context: expected 1 number, got shape \(2, 1\)"),
        (lambda a: a.ask([]), r"context: expected 1 number, got shape \(0,\)"),
        (lambda a: a.ask(pd.Timestamp("2020-01-01")), "context: expected numbers, got Timestamp"),
        (lambda a: a.ask({"x": 1.0}), "context: expected numbers, got dict"),
        (lambda a: a.ask(1j), "context: expected numbers, got complex"),
        (lambda a: a.ask(pd.NA), "context: expected numbers, got NAType"),
        (lambda a: a.tell(0, intermediate="left"), "intermediate: expected numbers, got str"),
        (lambda a: a.tell(0, intermediate=[1, 2, 3]), "intermediate: expected 2 numbers, got"),
        (lambda a: a.tell(0, outcome=[1.0, 2.0]), r"outcome: expected 1 number, got shape \(2,\)"),
        (lambda a: a.tell(0, outcome="high"), "outcome: expected numbers, got str"),
        (lambda a: a.tell(0, outcome=-np.inf), "outcome: expected finite numbers, got -inf"),
        (lambda a: a.tell(None, outcome=1.0), "ticket: expected a decision's ticket, got None"),
        (lambda a: a.tell(True, outcome=1.0), "ticket: expected a decision's ticket, got True"),
        (lambda a: a.tell(0.0, outcome=1.0), "ticket: expected a decision's ticket, got 0.0"),
        (
            lambda a: a.add_outcomes([[0.0, 0.0]], ["high"]),
            "outcomes: expected numbers, got list: text",
        ),
        (
            lambda a: a.add_outcomes([[0.0, 1.0], [np.nan, 0.0]], [1.0, 2.0]),
            "intermediates: expected finite numbers, got nan at row 1, column 0",
        ),
        (
            lambda a: a.add_outcomes(np.zeros((2, 3)), [1.0, 2.0]),
            r"intermediates: expected 2 columns, got shape \(2, 3\)",
        ),
        (
            lambda a: a.add_transitions([0.0], [[0.0, 1.0]], [[0.0, 1.0]]),
            r"actions: expected 1 column, got shape \(1, 2\)",
        ),
        (
            lambda a: a.add_transitions([[0.0, 1.0]], [0.0], [[0.0, 1.0]]),
            r"contexts: expected 1 column, got shape \(1, 2\)",
        ),
        (
            lambda a: a.add_transitions([0.0, 1.0], [0.0], [[0.0, 1.0]]),
            "got: contexts has 2, actions has 1, intermediates has 1",
        ),
        (
            lambda a: a.add_transitions([0.0], [np.inf], [[0.0, 1.0]]),
            "actions: expected finite numbers, got inf at row 0",
        ),
    ],
)
def test_bad_content_is_explained_and_changes_nothing(call, message: str) -> None:
    agent = Agent(ACTIONS, dim_intermediate=2)
    agent.ask(0.0)
    before = dict(vars(agent))
    with pytest.raises(ValueError, match=message):
        call(agent)
    assert all(vars(agent)[name] is value for name, value in before.items())
