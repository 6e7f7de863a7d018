"""The border: what a user hands over becomes a finite float64 array of a known shape, or an error.

Everything behind this module may rely on shapes and finiteness; nothing behind it checks again.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

type Numbers = Any
"""NumPy or JAX arrays, lists, pandas objects, or a scalar."""

type FloatArray = npt.NDArray[np.float64]

NOT_NUMBERS = {"c": "complex", "M": "dates", "m": "durations", "S": "bytes", "U": "text"}
"""Kinds of NumPy array that would turn into float64, and what they hold."""


def require_x64() -> None:
    """Raise unless JAX works in float64."""
    if not jax.config.jax_enable_x64:
        raise RuntimeError(
            "bayes_cmab needs float64, and JAX is set to float32: call `numpyro.enable_x64()` "
            "(or `jax.config.update('jax_enable_x64', True)`) before the first JAX computation"
        )


def _as_array(value: Numbers, name: str) -> FloatArray:
    try:
        if (kind := np.asarray(value).dtype.kind) in NOT_NUMBERS:
            raise TypeError(NOT_NUMBERS[kind])
        if kind == "O" and any(isinstance(item, str | bytes) for item in np.ravel(value)):
            raise TypeError("text")
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
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


def one_of(value: str, name: str, choices: Sequence[str]) -> str:
    """Return ``value`` if it is among ``choices``."""
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name}: expected one of {listed}, got {value!r}")
    return value
