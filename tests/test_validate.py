"""Every error at the border names the argument, what was expected, and what was got."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from bayes_cmab import validate
from bayes_cmab.data import Outcomes, Transitions
from bayes_cmab.validate import as_column, as_positive, as_rows, as_vector, one_of, same_length


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([[1, 2], [3, 4]], [[1.0, 2.0], [3.0, 4.0]]),
        ([1, 2, 3], [[1.0], [2.0], [3.0]]),
        (7, [[7.0]]),
        (np.float32(0.5), [[0.5]]),
        (np.arange(4, dtype=np.int8).reshape(2, 2), [[0.0, 1.0], [2.0, 3.0]]),
        ([True, False], [[1.0], [0.0]]),
        (np.array([2**60], dtype=object), [[2.0**60]]),
        (pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]}), [[1.0, 0.5], [2.0, 1.5]]),
        (pd.DataFrame({"a": [True, False], "b": [2, 3]}), [[1.0, 2.0], [0.0, 3.0]]),
        (pd.Series([1, 2], index=[9, 4], dtype="Int64"), [[1.0], [2.0]]),
        (pd.Series([True, False], dtype="boolean"), [[1.0], [0.0]]),
        (jnp.arange(2), [[0.0], [1.0]]),
        ([], np.zeros((0, 1))),
        (np.zeros((3, 0)), np.zeros((3, 0))),
    ],
)
def test_as_rows_accepts_anything_that_reads_as_rows_of_numbers(value: Any, expected: Any) -> None:
    rows = as_rows(value, "x")
    assert rows.dtype == np.float64
    np.testing.assert_array_equal(rows, expected, strict=True)


@pytest.mark.parametrize(
    ("value", "columns", "shape"),
    [
        ([1, 2, 3], 3, (1, 3)),
        ([1, 2, 3], 1, (3, 1)),
        (5, 1, (1, 1)),
        ([], 0, (0, 0)),
        ([], 2, (0, 2)),
        (np.zeros((0, 2)), 2, (0, 2)),
        (np.zeros((4, 0)), 0, (4, 0)),
    ],
)
def test_as_rows_of_a_given_width_reads_one_axis_as_one_row(
    value: Any, columns: int, shape: tuple[int, int]
) -> None:
    assert as_rows(value, "x", columns).shape == shape


@pytest.mark.parametrize(
    ("value", "expected"),
    [([1, 2], [1.0, 2.0]), ([[1, 2]], [1.0, 2.0]), (pd.Series([1, 2]), [1.0, 2.0])],
)
def test_as_vector_accepts_one_row_of_the_given_size(value: Any, expected: Any) -> None:
    np.testing.assert_array_equal(as_vector(value, "x", 2), expected, strict=True)


def test_as_vector_accepts_a_scalar_for_size_one_and_none_for_size_zero() -> None:
    np.testing.assert_array_equal(as_vector(3, "x", 1), [3.0], strict=True)
    np.testing.assert_array_equal(as_vector(None, "x", 0), np.zeros(0), strict=True)


@pytest.mark.parametrize("value", [[1, 2], [[1], [2]], pd.Series([1, 2]), np.array([1, 2])])
def test_as_column_accepts_one_number_a_row(value: Any) -> None:
    np.testing.assert_array_equal(as_column(value, "x"), [1.0, 2.0], strict=True)


def test_input_is_not_aliased_when_it_has_to_be_cast_and_never_changed() -> None:
    value = np.array([[1, 2]])
    as_rows(value, "x")[0, 0] = 9.0
    assert value[0, 0] == 1


NUMBERS = "reward: expected numbers, got {}"
FINITE = "reward: expected finite numbers, got {}"
REJECTED: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
    (as_rows, (["a", "b"],), NUMBERS.format("list")),
    (as_rows, (["1", "2"],), NUMBERS.format("list: text")),
    (as_rows, (b"3",), NUMBERS.format("bytes")),
    (as_rows, ([[1, 2], [3]],), NUMBERS.format("list")),
    (as_rows, ([1 + 2j],), NUMBERS.format("list: complex")),
    (as_rows, (np.array([1 + 0j]),), NUMBERS.format("ndarray: complex")),
    (as_rows, (np.array(["2020-01-01"], "datetime64[D]"),), NUMBERS.format("ndarray: dates")),
    (as_rows, (pd.Series(pd.to_datetime(["2020-01-01"])),), NUMBERS.format("Series: dates")),
    (as_rows, (np.timedelta64(3, "s"),), NUMBERS.format("timedelta64: durations")),
    (as_rows, (pd.Series(["x"]),), NUMBERS.format("Series")),
    (as_column, (pd.Series(["1", 2], dtype=object),), NUMBERS.format("Series: a str")),
    (as_rows, (np.array([[1.0, b"2"]], dtype=object),), NUMBERS.format("ndarray: a bytes")),
    (as_column, ([10**400, 1],), NUMBERS.format("list")),
    (as_column, (np.array([1, 2j], object),), NUMBERS.format("ndarray: a complex")),
    (
        as_column,
        (np.array([np.timedelta64(3, "D")], object),),
        NUMBERS.format("ndarray: a timedel"),
    ),
    (
        as_column,
        (pd.Series(pd.to_datetime(["2020-01-01"])).dt.tz_localize("UTC"),),
        NUMBERS.format("Series: a Timestamp"),
    ),
    (as_column, (np.ma.masked_values([1.0, -9.0], -9.0),), FINITE.format("nan at row 1")),
    (as_column, (np.ma.masked_equal([1, 2], 2),), FINITE.format("nan at row 1")),
    (as_rows, (object(),), NUMBERS.format("object")),
    (as_rows, ([[0.0, 1.0], [2.0, np.nan]],), FINITE.format("nan at row 1, column 1")),
    (as_rows, ([[0.0, -np.inf], [np.nan, 0.0]],), FINITE.format("-inf at row 0, column 1")),
    (as_rows, ([0.0, np.inf],), FINITE.format("inf at row 1")),
    (as_rows, (pd.Series([1, None], dtype="Int64"),), FINITE.format("nan at row 1")),
    (as_rows, ([0.0, None],), FINITE.format("nan at row 1")),
    (as_rows, (np.nan,), FINITE.format("nan")),
    (as_rows, (None,), FINITE.format("nan")),
    (as_rows, (np.zeros((2, 2, 2)),), "reward: expected a matrix (rows, columns), got 3 axes"),
    (as_column, (np.inf,), FINITE.format("inf")),
    (as_column, (None,), FINITE.format("nan")),
    (as_column, ([[1, 2]],), "reward: expected one number a row, got shape (1, 2)"),
    (as_column, (np.zeros((2, 2)),), "reward: expected one number a row, got shape (2, 2)"),
    (as_positive, ([1.0, 0.0],), "reward: expected positive numbers, got 0.0"),
    (as_positive, (-2.0,), "reward: expected positive numbers, got -2.0"),
    (as_positive, (np.nan,), FINITE.format("nan")),
]


@pytest.mark.parametrize(("function", "arguments", "message"), REJECTED)
def test_bad_input_is_an_error_that_names_the_argument_and_what_was_got(
    function: Callable[..., Any], arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        function(*arguments, "reward")


@pytest.mark.parametrize(
    ("function", "value", "size", "message"),
    [
        (as_rows, [[1, 2]], 3, "x: expected 3 columns, got shape (1, 2)"),
        (as_rows, [1, 2], 3, "x: expected 3 columns, got shape (2, 1)"),
        (as_rows, [[1, 2]], 1, "x: expected 1 column, got shape (1, 2)"),
        (as_rows, [1, 2], 0, "x: expected 0 columns, got shape (2, 1)"),
        (as_vector, [1, 2], 3, "x: expected 3 numbers, got shape (2,)"),
        (as_vector, [1, 2], 1, "x: expected 1 number, got shape (2,)"),
        (as_vector, 1, 2, "x: expected 2 numbers, got shape ()"),
        (as_vector, [[1], [2]], 2, "x: expected 2 numbers, got shape (2, 1)"),
        (as_vector, None, 1, "x: expected finite numbers, got nan"),
    ],
)
def test_a_wrong_size_is_an_error_that_names_both_sizes(
    function: Callable[..., Any], value: Any, size: int, message: str
) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        function(value, "x", size)


def test_as_positive_accepts_zero_only_if_asked() -> None:
    np.testing.assert_array_equal(as_positive([0, 1], "x", zero=True), [0.0, 1.0])
    with pytest.raises(ValueError, match=r"^x: expected non-negative numbers, got -1\.0$"):
        as_positive([0, -1], "x", zero=True)


def test_same_length_returns_it_or_lists_every_argument() -> None:
    assert same_length(s=np.zeros(3), a=np.zeros((3, 2))) == 3
    with pytest.raises(
        ValueError, match=r"^expected the same number of rows, got: s has 3, a has 2, r has 3$"
    ):
        same_length(s=np.zeros(3), a=np.zeros(2), r=np.zeros(3))


def test_one_of_returns_the_choice_or_lists_the_choices() -> None:
    assert one_of("map", "inference", ["map", "nuts"]) == "map"
    with pytest.raises(ValueError, match=r"^inference: expected one of 'map', 'nuts', got 'vi'$"):
        one_of("vi", "inference", ["map", "nuts"])


def test_float32_is_an_error_that_says_what_to_call() -> None:
    validate.require_x64()
    calls = [
        validate.require_x64,
        lambda: Transitions.create(None, [1.0], [1.0]),
        lambda: Outcomes.create([1.0], [1.0]),
    ]
    with jax.enable_x64(False):
        for call in calls:
            with pytest.raises(RuntimeError, match=r"float64.*numpyro\.enable_x64\(\)"):
                call()
    validate.require_x64()
