"""How a user's columns of contexts or of actions become columns of numbers, and back.

A column of strings, of bools or of a pandas category is *categorical*: it becomes one column of
zeros and ones for each of its categories, which are declared once. These have centre 0 and scale 1
whatever the data, so that two categories are at squared distance 2 before lengthscales, as two rows
of a standardised column are on average; a category that is rare, or the only one, is no different.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bayes_cmab.scaling import Scales, Units
from bayes_cmab.tickets import Ledger
from bayes_cmab.validate import FloatArray, Numbers, as_column, as_rows, as_vector

type Categories = Mapping[str, Sequence[Any]]
"""Categories by the name of their column: strings, bools or numbers."""


class Columns(NamedTuple):
    """The columns of contexts or of actions.

    Attributes
    ----------
    names : of the user's columns.
    levels : the categories of each, None where it is numeric.
    named : whether tables are matched by name; by position otherwise.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[Any, ...] | None, ...]
    named: bool = False

    @classmethod
    def numeric(cls, size: int, prefix: str) -> Self:
        """Return columns of numbers, called ``prefix_0``, ``prefix_1``, ..."""
        return cls(tuple(f"{prefix}_{j}" for j in range(size)), (None,) * size)

    @classmethod
    def of(cls, value: Numbers, argument: str, prefix: str, size: int | None = None) -> Self:
        """Return the columns of a table of rows; ``size`` of them, if it is given."""
        if not is_table(value) and not _holds_categories(value):
            return cls.numeric(as_rows(value, argument, size).shape[1], prefix)
        columns = _split(value, argument, size)
        names = cls.numeric(len(columns), prefix).names
        if is_table(value):
            names = tuple(str(name) for name in value.columns)
        for j, name in enumerate(names):
            if name in names[:j]:
                raise ValueError(f"{argument}: expected distinct column names, got {name!r} twice")
        levels = tuple(
            _levels(column, f"{argument}: column {name!r}")
            for name, column in zip(names, columns, strict=True)
        )
        return cls(names, levels, is_table(value) and _are_names(value.columns))

    def declare(self, categories: Categories) -> Self:
        """Return the columns with the given categories of those that are named."""
        levels = list(self.levels)
        for j, name in enumerate(self.names):
            if name in categories:
                levels[j] = _distinct(categories[name], f"categories[{name!r}]")
        return self._replace(levels=tuple(levels))

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the names of the columns of numbers."""
        return tuple(
            name if level is None else f"{name}={level}" for name, level in self._encoded()
        )

    @property
    def width(self) -> int:
        """Return the number of columns of numbers."""
        return len(self._encoded())

    def units(self, measured: Units) -> Units:
        """Return measured units, but centre 0 and scale 1 for what stands for a category."""
        categorical = np.array([level is not None for _, level in self._encoded()], bool)
        center = jnp.where(categorical, 0.0, measured.center)
        return Units(center, jnp.where(categorical, 1.0, measured.scale))

    def rows(self, value: Numbers, argument: str) -> FloatArray:
        """Return rows as numbers, (n, width).

        Raises
        ------
        ValueError
            If a number is expected and none is got, or a category is not among those declared, or
            the names of a table are not those of the columns.
        """
        value = self._by_name(value, argument)
        if not any(self.levels):
            return as_rows(value, argument, self.width)
        columns = _split(value, argument, len(self.names))
        return self._encode(columns, argument)

    def row(self, value: Numbers, argument: str) -> FloatArray:
        """Return one row as numbers, (width,); a mapping or a named Series is matched by name."""
        value = self._by_name(value, argument)
        if not any(self.levels):
            return as_vector(value, argument, self.width)
        columns = _split(value, argument, len(self.names))
        if len(columns[0]) != 1:
            raise ValueError(f"{argument}: expected one row, got {len(columns[0])}")
        encoded: FloatArray = self._encode(columns, argument)[0]
        return encoded

    def restore(self, rows: FloatArray) -> dict[str, npt.NDArray[Any]]:
        """Return the user's columns (n,), by name, of rows of numbers (n, width)."""
        restored: dict[str, npt.NDArray[Any]] = {}
        start = 0
        for name, levels in zip(self.names, self.levels, strict=True):
            if levels is None:
                restored[name] = rows[:, start]
                start += 1
                continue
            known = np.empty(len(levels), object)
            known[:] = levels
            index = rows[:, start : start + len(levels)].argmax(axis=1)
            restored[name] = np.array(known[index])
            start += len(levels)
        return restored

    def restore_rows(self, rows: FloatArray) -> npt.NDArray[Any]:
        """Return rows of the user's values, (n, columns): numbers, or objects with categories."""
        if not any(self.levels):
            return rows
        return np.column_stack([column.astype(object) for column in self.restore(rows).values()])

    def _encoded(self) -> list[tuple[str, Any]]:
        return [
            (name, level)
            for name, levels in zip(self.names, self.levels, strict=True)
            for level in (levels or (None,))
        ]

    def _by_name(self, value: Numbers, argument: str) -> Numbers:
        labels: Iterable[object]
        if isinstance(value, Mapping):
            labels = value
        elif is_table(value):
            labels = value.columns
        elif hasattr(value, "iloc"):  # a Series
            labels = value.index
        else:
            return value
        if not self.named or not _are_names(labels):
            return value
        got = list(labels)
        missing = [name for name in self.names if name not in got]
        extra = [str(name) for name in got if name not in self.names or got.count(name) > 1]
        if missing or extra:
            problems = [f"without {', '.join(missing)}"] * bool(missing)
            problems += [f"with the unknown {', '.join(extra)}"] * bool(extra)
            raise ValueError(
                f"{argument}: expected the columns {', '.join(self.names)}, got them "
                f"{' and '.join(problems)}"
            )
        if isinstance(value, Mapping):
            return [[value[name] for name in self.names]]
        return value[list(self.names)]

    def _encode(self, columns: list[Any], argument: str) -> FloatArray:
        encoded = []
        for name, levels, column in zip(self.names, self.levels, columns, strict=True):
            where = f"{argument}: column {name!r}"
            if levels is None:
                encoded.append(as_column(column, where)[:, None])
                continue
            index = {level: i for i, level in enumerate(levels)}
            hot = np.zeros((len(column), len(levels)))
            for i, value in enumerate(column):
                try:
                    hot[i, index[value]] = 1.0
                except (KeyError, TypeError):
                    listed = ", ".join(map(repr, levels))
                    raise ValueError(
                        f"{where}: expected one of {listed}, got {value!r} at row {i}"
                    ) from None
            encoded.append(hot)
        return np.concatenate(encoded, axis=1)


def measure(
    ledger: Ledger,
    contexts: Columns,
    actions: Columns,
    offered: FloatArray,
    context_sample: FloatArray | None,
) -> Scales:
    """Return the units of the rows at hand (see `Ledger.measure`), those of categories fixed."""
    scales = ledger.measure(offered, context_sample)
    return scales._replace(
        context=contexts.units(scales.context), action=actions.units(scales.action)
    )


def is_table(value: object) -> bool:
    """Return whether a value is a DataFrame."""
    return hasattr(value, "columns") and hasattr(value, "iloc")


def _are_names(labels: Iterable[object]) -> bool:
    return all(isinstance(label, str) for label in labels)


def _holds_categories(value: Numbers) -> bool:
    if hasattr(getattr(value, "dtype", None), "categories"):
        return True
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        return False
    if array.dtype.kind in "bU":
        return True
    return array.dtype.kind == "O" and any(isinstance(x, str | bool) for x in array.ravel())


def _split(value: Numbers, argument: str, size: int | None) -> list[Any]:
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


def _levels(column: Any, where: str) -> tuple[Any, ...] | None:
    """Return the categories of a column; None if it is one of numbers."""
    declared = getattr(column.dtype, "categories", None)
    if declared is not None:
        return _distinct(declared, where)
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
    return _distinct(sorted(set(values)), where)


def _distinct(levels: Sequence[Any], where: str) -> tuple[Any, ...]:
    if isinstance(levels, str) or not isinstance(levels, Iterable):
        raise ValueError(f"{where}: expected a list of categories, got {levels!r}")
    given = [level.item() if isinstance(level, np.generic) else level for level in levels]
    allowed = all(isinstance(level, str | bool | int | float) for level in given)
    if not given or not allowed or len(set(given)) < len(given):
        raise ValueError(
            f"{where}: expected distinct strings, bools or numbers as categories, got {given!r}"
        )
    return tuple(str(level) if isinstance(level, str) else level for level in given)
