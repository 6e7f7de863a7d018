"""What a user may hand over: any units, any container, columns that do not vary."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_cmab import Agent, Fixed

ROWS, CONTEXT = 20, np.array([0.4, 7.0])
RNG = np.random.default_rng(0)
ACTIONS = np.column_stack([np.linspace(-1.0, 1.0, 5), np.full(5, 3.0), RNG.normal(size=5)])
S = np.column_stack([RNG.uniform(-3.0, 3.0, ROWS), np.full(ROWS, 7.0)])
A = ACTIONS[RNG.integers(0, 5, ROWS)]
R = np.column_stack([np.sin(S[:, 0]) + RNG.normal(size=ROWS), A[:, 0] + RNG.normal(size=ROWS)])
R = np.column_stack([R, np.full(ROWS, -2.0)])
Y = np.sin(R[:, 0]) + R[:, 1] + 0.1 * RNG.normal(size=ROWS)


def know(actions, s, a, r, y, embedding: str = "paper") -> Agent:
    agent = Agent(
        actions, dim_context=2, dim_intermediate=3, embedding=embedding, inference=Fixed()
    )
    agent.add_transitions(s, a, r)
    agent.add_outcomes(r, y)
    return agent


def figures(table: pd.DataFrame) -> np.ndarray:
    return table.iloc[:, ACTIONS.shape[1] :].to_numpy()


@st.composite
def affine(draw, columns: int, *, positive: bool = False):
    """Draw a map x -> scale * (x + shift) of each column; scales from 1e-6 to 1e6."""
    powers = draw(st.lists(st.floats(-6.0, 6.0), min_size=columns, max_size=columns))
    shift = draw(st.lists(st.floats(-10.0, 10.0), min_size=columns, max_size=columns))
    one = st.just(1.0) if positive else st.sampled_from([-1.0, 1.0])
    sign = draw(st.lists(one, min_size=columns, max_size=columns))
    scale = np.array(sign) * 10.0 ** np.array(powers)
    return lambda x: scale * (x + np.array(shift)), scale, np.array(shift)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(affine(2), affine(3), affine(3))
def test_scores_do_not_depend_on_the_units_of_context_action_and_intermediate(s, a, r) -> None:
    plain = know(ACTIONS, S, A, R, Y).score(CONTEXT)
    moved = know(a[0](ACTIONS), s[0](S), a[0](A), r[0](R), Y).score(s[0](CONTEXT))
    np.testing.assert_allclose(figures(moved), figures(plain), rtol=1e-7, atol=1e-9)


@pytest.mark.slow
@settings(max_examples=10, deadline=None, derandomize=True)
@given(affine(2), affine(3), affine(3))
def test_scores_of_the_default_model_do_not_depend_on_units_either(s, a, r) -> None:
    plain = know(ACTIONS, S, A, R, Y, "transition").score(CONTEXT)
    moved = know(a[0](ACTIONS), s[0](S), a[0](A), r[0](R), Y, "transition").score(s[0](CONTEXT))
    np.testing.assert_allclose(figures(moved), figures(plain), rtol=1e-7, atol=1e-9)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(affine(1, positive=True))
def test_scores_follow_the_units_of_the_outcome(y) -> None:
    transform, (scale,), (shift,) = y
    plain = figures(know(ACTIONS, S, A, R, Y).score(CONTEXT))
    moved = figures(know(ACTIONS, S, A, R, transform(Y)).score(CONTEXT))
    for column, power, at in (
        (0, 1, shift),
        (1, 1, 0.0),
        (2, 1, shift),
        *((i, 2, 0.0) for i in range(3, 8)),
    ):
        wanted = scale**power * (plain[:, column] + at)
        np.testing.assert_allclose(moved[:, column], wanted, rtol=1e-7, atol=1e-9 * scale**power)


def test_a_column_that_does_not_vary_changes_nothing() -> None:
    agent = know(ACTIONS, S, A, R, Y)
    agent.ask(CONTEXT)
    s, a, r, _ = agent.scales
    assert (s.scale[1], a.scale[1], r.scale[2]) == (1.0, 1.0, 1.0)
    assert (s.center[1], a.center[1], r.center[2]) == (7.0, 3.0, -2.0)
    with_others = ACTIONS.copy()
    with_others[:, 1] = 1e6
    elsewhere = A.copy()
    elsewhere[:, 1] = 1e6
    moved = know(with_others, S, elsewhere, R, Y).score(CONTEXT)
    np.testing.assert_allclose(figures(moved), figures(agent.score(CONTEXT)), rtol=1e-12)


def test_a_column_that_varies_by_rounding_only_is_a_column() -> None:
    s = S.copy()
    s[:, 1] = 7.0 + 1e-15 * np.arange(ROWS)
    assert np.isfinite(figures(know(ACTIONS, s, A, R, Y).score(CONTEXT))).all()


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.tolist(),
        lambda x: x.astype(np.float32),
        lambda x: x.astype(np.int8),
        lambda x: x.astype(object),
        np.asfortranarray,
        jnp.asarray,
        pd.DataFrame,
    ],
    ids=["lists", "float32", "int8", "object", "fortran", "jax", "pandas"],
)
def test_containers_and_types_are_the_same(change) -> None:
    rows = [np.round(2.0 * x) for x in (ACTIONS, S, A, R)]
    plain = know(*rows, np.round(Y)).score([1.0, 7.0])
    other = know(*map(change, rows), change(np.round(Y))).score(change(np.array([[1.0, 7.0]])))
    np.testing.assert_array_equal(figures(other), figures(plain))


def test_float32_data_are_cast_up_before_anything_is_computed() -> None:
    rows = [x.astype(np.float32) for x in (ACTIONS, S, A, R, Y)]
    low = know(*rows).score(CONTEXT.astype(np.float32))
    high = know(*(x.astype(float) for x in rows)).score(CONTEXT.astype(np.float32).astype(float))
    np.testing.assert_array_equal(figures(low), figures(high))


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_units_far_from_one_without_a_history(unit: float) -> None:
    form = {"embedding": "paper", "inference": Fixed()}
    agent = Agent(unit * ACTIONS, dim_context=2, dim_intermediate=3, **form)
    for i in range(ROWS):
        decision = agent.ask(unit * S[i])
        agent.tell(decision.ticket, intermediate=unit * R[i], outcome=unit * Y[i])
    assert np.isfinite(figures(agent.score(unit * S[0]))).all()
