"""Which columns of a user's rows are categorical, and what their categories are."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bayes_cmab.validate import FloatArray, Numbers


class Period(NamedTuple):
    """Says that a column of numbers is periodic: an angle, a time of day.

    It becomes the two columns ``cos`` and ``sin`` of ``2 pi x / length``, on which an RBF with one
    lengthscale is MacKay's periodic kernel ``exp(-2 sin^2(pi (x - x') / length) / l^2)``.

    Attributes
    ----------
    length : of the period, in the units of the column: 24 for hours.
    """

    length: float

    def restore(self, cosine: FloatArray, sine: FloatArray) -> FloatArray:
        """Return the numbers of points of the circle, in [0, length), without rounding errors.

        A number beyond the period comes back as the one within that is the same: 25 o'clock as 1.
        """
        turn = np.arctan2(sine, cosine) / (2.0 * np.pi)
        digits = min(12 - int(np.ceil(np.log10(self.length))), 300)  # NumPy can take 308
        rounded: FloatArray = np.round(self.length * (turn % 1.0), digits)
        return rounded % self.length


type Categories = Mapping[str, Sequence[Any] | Period]
"""Categories by the name of their column (strings, bools or numbers), or its `Period`."""


def is_table(value: object) -> bool:
    """Return whether a value is a DataFrame."""
    return hasattr(value, "columns") and hasattr(value, "iloc")


def are_names(labels: Iterable[object]) -> bool:
    """Return whether labels of columns are names, not numbers."""
    return all(isinstance(label, str) for label in labels)


def holds_categories(value: Numbers) -> bool:
    """Return whether some of what is not a table is categorical."""
    if hasattr(getattr(value, "dtype", None), "categories"):
        return True
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        return False
    if array.dtype.kind in "bU":
        return True
    return array.dtype.kind == "O" and any(isinstance(x, str | bool) for x in array.ravel())


def split(value: Numbers, argument: str, size: int | None) -> list[Any]:
    """Return the columns of rows, as Series or arrays; one axis is one row where that fits."""
    if is_table(value):
        columns = [value.iloc[:, j] for j in range(value.shape[1])]
        shape = value.shape
    elif hasattr(value, "iloc") and size in (None, 1):  # a Series, with its type
        columns, shape = [value], value.shape
    else:
        array = np.asarray(value, dtype=object)
        shape = array.shape
        if array.ndim < 2:
            one_row = array.ndim == 0 or size not in (None, 1)
            array = array.reshape(1, -1) if one_row else array.reshape(-1, 1)
        columns = list(array.T) if array.ndim == 2 else []
    if not columns or (size is not None and len(columns) != size):
        wanted = "a matrix (rows, columns)" if size is None else f"{size} column{'s' * (size != 1)}"
        raise ValueError(f"{argument}: expected {wanted}, got shape {shape}")
    return columns


def levels_of(column: Any, where: str) -> tuple[Any, ...] | None:
    """Return the categories of a column; None if it is one of numbers."""
    declared = getattr(column.dtype, "categories", None)
    if declared is not None:
        return distinct(declared, where)
    if column.dtype.kind in "iufcmM":
        return None
    values = list(column)
    if values and all(isinstance(value, bool | np.bool_) for value in values):
        return (False, True)
    texts = [isinstance(value, str) for value in values]
    if not any(texts):
        return None
    if not all(texts):
        i = texts.index(False)
        raise ValueError(f"{where}: expected strings only, got {values[i]!r} at row {i}")
    return distinct(sorted(set(values)), where)


def distinct(levels: Sequence[Any], where: str) -> tuple[Any, ...]:
    """Return categories, which are distinct strings, bools or numbers."""
    if isinstance(levels, str) or not isinstance(levels, Iterable):
        raise ValueError(f"{where}: expected a list of categories, got {levels!r}")
    given = [level.item() if isinstance(level, np.generic) else level for level in levels]
    allowed = all(isinstance(level, str | bool | int | float) for level in given)
    if not given or not allowed or len(set(given)) < len(given):
        raise ValueError(
            f"{where}: expected distinct strings, bools or numbers as categories, got {given!r}"
        )
    return tuple(str(level) if isinstance(level, str) else level for level in given)
