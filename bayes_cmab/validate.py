"""The border: what a user hands over becomes a finite float64 array of a known shape, or an error.

Everything behind this module may rely on shapes and finiteness; nothing behind it checks again.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

type Numbers = Any
"""NumPy or JAX arrays, lists, pandas objects, or a scalar."""

type FloatArray = npt.NDArray[np.float64]

NOT_NUMBERS = {"c": "complex", "M": "dates", "m": "durations", "S": "bytes", "U": "text"}
"""Kinds of NumPy array that would turn into float64, and what they hold."""


NOT_NUMBER_TYPES = (str, bytes, complex, date, timedelta, np.datetime64, np.timedelta64)
"""Types of elements of an object array that would turn into float64 just so."""

LARGEST_INTEGER = 2**63 - 1


def require_x64() -> None:
    """Raise unless JAX works in float64."""
    if not jax.config.jax_enable_x64:
        raise RuntimeError(
            "bayes_cmab needs float64, and JAX is set to float32: call `numpyro.enable_x64()` "
            "(or `jax.config.update('jax_enable_x64', True)`) before the first JAX computation"
        )


def _as_array(value: Numbers, name: str) -> FloatArray:
    if isinstance(value, np.ma.MaskedArray):  # what is masked is refused below
        value = np.where(np.ma.getmaskarray(value), np.nan, value.data)
    try:
        if (kind := np.asarray(value).dtype.kind) in NOT_NUMBERS:
            raise TypeError(NOT_NUMBERS[kind])
        if kind == "O":
            for item in np.asarray(value, dtype=object).flat:
                if isinstance(item, NOT_NUMBER_TYPES):
                    raise TypeError(f"a {type(item).__name__}")
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name}: expected numbers, got {type(value).__name__}: {error}") from None
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        position = tuple(int(i) for i in bad[0])
        where = " at " + ", ".join(
            f"{axis} {i}" for axis, i in zip(("row", "column", "axis 2"), position, strict=False)
        )
        raise ValueError(
            f"{name}: expected finite numbers, got {array[position]}{where if position else ''}"
        )
    return array


def as_rows(value: Numbers, name: str, columns: int | None = None) -> FloatArray:
    """Return a matrix (n, columns) whose rows are observations.

    A one-dimensional input of length n is n rows of one column, unless ``columns`` is not 1 and
    equals its length, when it is a single row. A scalar is one row of one column. With
    ``columns=0`` any empty input, or a matrix without columns, is accepted.
    """
    array = _as_array(value, name)
    if array.ndim == 0:
        array = array.reshape(1, 1)
    elif array.ndim == 1:
        one_row = columns not in (None, 1) and array.size == columns and array.size > 0
        array = array.reshape(1, -1) if one_row else array.reshape(-1, 1)
        if array.size == 0:
            array = array.reshape(0, 1 if columns is None else columns)
    elif array.ndim != 2:
        raise ValueError(
            f"{name}: expected a matrix (rows, columns), got {array.ndim} axes, shape {array.shape}"
        )
    if columns is not None and array.shape[1] != columns:
        raise ValueError(
            f"{name}: expected {columns} column{'s' * (columns != 1)}, got shape {array.shape}"
        )
    return array


def as_vector(value: Numbers, name: str, size: int) -> FloatArray:
    """Return one row of ``size`` numbers, shape (size,); a scalar where ``size`` is 1."""
    if value is None and size == 0:
        return np.zeros(0)
    array = _as_array(value, name)
    if array.ndim == 2 and array.shape[0] == 1:
        array = array[0]
    array = np.atleast_1d(array)
    if array.shape != (size,):
        raise ValueError(
            f"{name}: expected {size} number{'s' * (size != 1)}, got shape {np.shape(value)}"
        )
    return array


def as_column(value: Numbers, name: str) -> FloatArray:
    """Return a one-dimensional array of scalars, shape (n,)."""
    array = _as_array(value, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    array = np.atleast_1d(array)
    if array.ndim != 1:
        raise ValueError(f"{name}: expected one number a row, got shape {array.shape}")
    return array


def as_positive(value: Numbers, name: str, *, zero: bool = False) -> FloatArray:
    """Return an array of positive (or, with ``zero``, non-negative) numbers."""
    array = _as_array(value, name)
    bad = array < 0.0 if zero else array <= 0.0
    if np.any(bad):
        wanted = "non-negative" if zero else "positive"
        raise ValueError(f"{name}: expected {wanted} numbers, got {array[bad].flat[0]}")
    return array


def same_length(**columns: FloatArray) -> int:
    """Return the common number of rows of the named arrays."""
    lengths = {name: len(array) for name, array in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"expected the same number of rows, got: {listed}")
    return next(iter(lengths.values()))


def whole_number(value: int, name: str, *, least: int) -> int:
    """Return an integer that is at least ``least``, and no larger than JAX can take."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not least <= value <= LARGEST_INTEGER:
        raise ValueError(f"{name}: expected a whole number of at least {least}, got {value!r}")
    return int(value)


def number_within(value: float, name: str, low: float, high: float, *, ends: bool = False) -> float:
    """Return a number between two; with ``ends`` it may be one of them."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool | complex)
    if not number or not (low <= value <= high if ends else low < value < high):
        between = "from {} to {}" if ends else "between {} and {}"
        raise ValueError(f"{name}: expected a number {between.format(low, high)}, got {value!r}")
    return float(value)


def instance_of(value: object, name: str, kind: type | tuple[type, ...]) -> None:
    """Raise unless a value is of a class, or of one of some."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        listed = " or ".join(k.__name__ for k in kinds)
        raise ValueError(f"{name}: expected a {listed}, got {value!r}")


def one_of(value: str, name: str, choices: Sequence[str]) -> str:
    """Return ``value`` if it is among ``choices``."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name}: expected one of {listed}, got {value!r}")
    return value
