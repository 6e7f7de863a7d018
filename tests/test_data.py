"""The data sets: validated at creation, padded, and growing without a change of shape."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_cmab.data import (
    SMALLEST_CAPACITY,
    Data,
    Outcomes,
    Rewards,
    Transitions,
    capacity_for,
    pad_rows,
    with_capacity,
)


def test_capacity_starts_at_the_smallest_and_doubles() -> None:
    small = SMALLEST_CAPACITY
    counts = [0, 1, small, small + 1, 2 * small, 2 * small + 1, 1000]
    expected = [small, small, small, 2 * small, 2 * small, 4 * small, 1024]
    assert [capacity_for(count) for count in counts] == expected


@settings(max_examples=25, deadline=None, derandomize=True)
@given(count=st.integers(0, 100_000))
def test_a_capacity_holds_the_rows_and_less_than_twice_as_many(count: int) -> None:
    capacity = capacity_for(count)
    assert count <= capacity
    assert capacity == SMALLEST_CAPACITY or capacity < 2 * count


def test_rows_are_kept_in_order_and_the_padding_is_zero() -> None:
    s, a, r = [[1, 2], [3, 4], [5, 6]], [7, 8, 9], [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]
    rows = Transitions.create(s, a, r)
    assert rows.size == 3
    for column, value in zip(rows[:3], (s, a, r), strict=True):
        value = np.asarray(value, float).reshape(3, -1)
        assert column.dtype == jnp.float64
        assert column.shape == (SMALLEST_CAPACITY, value.shape[1])
        np.testing.assert_array_equal(column[:3], value)
        assert not np.any(column[3:])
    np.testing.assert_array_equal(rows.mask, np.arange(SMALLEST_CAPACITY) < 3)


def test_one_dimensional_input_is_one_column() -> None:
    rows = Transitions.create([1, 2], [3, 4], [5, 6], capacity=2)
    assert [column.shape for column in rows[:3]] == [(2, 1), (2, 1), (2, 1)]
    outcomes = Outcomes.create([1, 2], [[3], [4]], capacity=2)
    assert outcomes.intermediates.shape == (2, 1)
    np.testing.assert_array_equal(outcomes.outcomes, [3.0, 4.0])


def test_no_context_is_a_matrix_without_columns() -> None:
    for nothing in (None, np.zeros((2, 0))):
        rows = Transitions.create(nothing, [3, 4], [5, 6], capacity=4)
        assert rows.contexts.shape == (4, 0)
        np.testing.assert_array_equal(rows.mask, [True, True, False, False])


def test_pandas_integers_booleans_and_scalars_are_cast_to_float64() -> None:
    frame = pd.DataFrame({"s": [1, 2], "t": [True, False], "a": [3, 4], "r": [0.5, 1.5]})
    rows = Transitions.create(frame[["s", "t"]], frame["a"], frame["r"].astype("float32"))
    assert all(column.dtype == jnp.float64 for column in rows[:3])
    np.testing.assert_array_equal(rows.contexts[:2], [[1.0, 1.0], [2.0, 0.0]])
    one = Outcomes.create(3, True)
    np.testing.assert_array_equal(one.intermediates[:1], [[3.0]])
    assert (one.outcomes[0], one.size) == (1.0, 1)


@pytest.mark.parametrize("empty", [[], np.zeros((0, 1))])
def test_no_rows_can_be_created(empty: Any) -> None:
    assert Transitions.create(None, empty, empty).size == 0
    outcomes = Outcomes.create(empty, [])
    assert outcomes.size == 0
    assert not outcomes.mask.any()


def test_empty_data_have_the_shapes_of_their_columns() -> None:
    data = Data.empty(p=0, q=2, d=3, capacity=4)
    shapes = [column.shape for rows in data for column in rows]
    assert shapes == [
        *((4, 0), (4, 2), (4, 3), ()),
        *((4, 3), (4,), ()),
        *((4, 0), (4, 2), (4,), ()),
    ]
    assert all(rows.size == 0 and not rows.mask.any() for rows in data)


@jax.jit
def append_to_each(data: Data, s: jax.Array, a: jax.Array, r: jax.Array, y: jax.Array) -> Data:
    return Data(
        data.transitions.append(s, a, r), data.outcomes.append(r, y), data.rewards.append(s, a, y)
    )


def test_appending_rows_equals_creating_them_and_never_recompiles() -> None:
    rng = np.random.default_rng(0)
    s, a, r, y = (rng.normal(size=(5, *k)) for k in ((2,), (1,), (3,), ()))
    data = Data.empty(2, 1, 3)
    before = append_to_each._cache_size()
    for row in zip(s, a, r, y, strict=True):
        data = append_to_each(data, *row)
    assert append_to_each._cache_size() == before + 1
    for appended, created in (
        (data.transitions, Transitions.create(s, a, r)),
        (data.outcomes, Outcomes.create(r, y)),
    ):
        jax.tree.map(np.testing.assert_array_equal, appended, created)
    assert data.rewards.size == 5
    np.testing.assert_array_equal(data.rewards.contexts[:5], s)
    np.testing.assert_array_equal(data.rewards.actions[:5], a)
    np.testing.assert_array_equal(data.rewards.outcomes[:5], y)
    assert data.rewards.mask.sum() == 5


def test_appending_leaves_the_original_alone() -> None:
    rows = Outcomes.create([1.0], [2.0])
    rows.append(jnp.array([3.0]), jnp.array(4.0))
    assert rows.size == 1
    assert not np.any(rows.outcomes[1:])


def test_a_later_change_of_the_users_arrays_changes_nothing() -> None:
    r, y = np.zeros((64, 1)), np.zeros(64)
    outcomes = Outcomes.create(r, y, capacity=64)
    r[:] = 7.0
    y[:] = 7.0
    assert not np.any(outcomes.intermediates)
    assert not np.any(outcomes.outcomes)


def test_a_larger_capacity_keeps_the_rows() -> None:
    data = Data(
        Transitions.create([[1.0, 2.0]], [3.0], [4.0], capacity=2),
        Outcomes.create([4.0], [5.0], capacity=2),
        Rewards.empty(2, 1, 2).append(jnp.array([1.0, 2.0]), jnp.array([3.0]), jnp.array(5.0)),
    )
    for rows in data:
        larger = with_capacity(rows, 6)
        assert type(larger) is type(rows)
        assert larger.size == rows.size == 1
        for small, large in zip(rows[:-1], larger[:-1], strict=True):
            assert large.shape == (6, *small.shape[1:])
            np.testing.assert_array_equal(large, pad_rows(small, 6))
            np.testing.assert_array_equal(large[:2], small)
            assert not np.any(large[2:])


def test_a_smaller_capacity_is_an_error() -> None:
    with pytest.raises(ValueError, match="negative"):
        with_capacity(Outcomes.empty(1, capacity=4), 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], [1, 2], [1, 2]), "got: contexts has 1, actions has 2, intermediates has 2"),
        (([1, 2], [1, 2], [1]), "got: contexts has 2, actions has 2, intermediates has 1"),
        ((None, [1, 2], [1]), "contexts has 2, actions has 2, intermediates has 1"),
        (
            ([[1, np.nan]], [1], [1]),
            "contexts: expected finite numbers, got nan at row 0, col",
        ),
        (([1], [np.inf], [1]), "actions: expected finite numbers, got inf at row 0"),
        (([1], [1], [[1, 2], [3]]), "intermediates: expected numbers, got list"),
        (([1], ["a"], [1]), "actions: expected numbers, got list"),
        (([1], None, [1]), "actions: expected finite numbers, got nan"),
        (([1], [1], np.zeros((1, 1, 1))), "intermediates: expected a matrix (rows, columns)"),
    ],
)
def test_bad_transitions_are_an_error_that_names_the_argument(
    arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Transitions.create(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [1]), "got: intermediates has 2, outcomes has 1"),
        (([1, 2], [[1, 2]]), "outcomes: expected one number a row, got shape (1, 2)"),
        (([1, 2], [1, np.nan]), "outcomes: expected finite numbers, got nan at row 1"),
        (([1], np.nan), "outcomes: expected finite numbers, got nan"),
        (
            ([[1, -np.inf]], [1]),
            "intermediates: expected finite numbers, got -inf at row 0, c",
        ),
    ],
)
def test_bad_outcomes_are_an_error_that_names_the_argument(
    arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Outcomes.create(*arguments)


def test_a_capacity_below_the_number_of_rows_is_an_error() -> None:
    message = "capacity: expected at least the number of rows, 3, got 2"
    for create in (
        lambda: Transitions.create(None, [1, 2, 3], [1, 2, 3], capacity=2),
        lambda: Outcomes.create([1, 2, 3], [1, 2, 3], capacity=2),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            create()
