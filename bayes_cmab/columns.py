"""How a user's columns of contexts or of actions become columns of numbers, and back.

A column of strings, of bools or of a pandas category is *categorical*: it becomes one column of
zeros and ones for each of its categories, which are declared once. These have centre 0 and scale 1
whatever the data, so that two categories are at squared distance 2 before lengthscales, as two rows
of a standardised column are on average; a category that is rare, or the only one, is no different.

A column with a `Period` becomes a point of the unit circle.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bayes_cmab.categories import (
    Categories,
    Period,
    are_names,
    distinct,
    holds_categories,
    is_table,
    levels_of,
    split,
)
from bayes_cmab.scaling import Units
from bayes_cmab.validate import (
    FloatArray,
    Numbers,
    as_column,
    as_positive,
    as_rows,
    as_vector,
)


class Columns(NamedTuple):
    """The columns of contexts or of actions.

    Attributes
    ----------
    names : of the user's columns.
    levels : the categories of each or its `Period`, None where it is numeric.
    named : whether tables are matched by name; by position otherwise.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[Any, ...] | Period | None, ...]
    named: bool = False

    @classmethod
    def numeric(cls, size: int, prefix: str) -> Self:
        """Return columns of numbers, called ``prefix_0``, ``prefix_1``, ..."""
        return cls(tuple(f"{prefix}_{j}" for j in range(size)), (None,) * size)

    @classmethod
    def of(cls, value: Numbers, argument: str, prefix: str, size: int | None = None) -> Self:
        """Return the columns of a table of rows; ``size`` of them, if it is given."""
        if not is_table(value) and not holds_categories(value):
            return cls.numeric(as_rows(value, argument, size).shape[1], prefix)
        columns = split(value, argument, size)
        names = cls.numeric(len(columns), prefix).names
        if is_table(value):
            names = tuple(str(name) for name in value.columns)
        for j, name in enumerate(names):
            if name in names[:j]:
                raise ValueError(f"{argument}: expected distinct column names, got {name!r} twice")
        levels = tuple(
            levels_of(column, f"{argument}: column {name!r}")
            for name, column in zip(names, columns, strict=True)
        )
        return cls(names, levels, is_table(value) and are_names(value.columns))

    def declare(self, categories: Categories) -> Self:
        """Return the columns with the given categories of those that are named."""
        levels = list(self.levels)
        for j, name in enumerate(self.names):
            if name in categories:
                given, where = categories[name], f"categories[{name!r}]"
                if isinstance(given, Period):
                    length = as_vector(given.length, f"{where}: Period", 1)
                    levels[j] = Period(float(as_positive(length, f"{where}: Period")[0]))
                else:
                    levels[j] = distinct(given, where)
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
        """Return measured units, but centre 0 and scale 1 for a category or an angle."""
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
        columns = split(value, argument, len(self.names))
        return self._encode(columns, argument)

    def row(self, value: Numbers, argument: str) -> FloatArray:
        """Return one row as numbers, (width,); a mapping or a named Series is matched by name."""
        value = self._by_name(value, argument)
        if not any(self.levels):
            return as_vector(value, argument, self.width)
        columns = split(value, argument, len(self.names))
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
            if isinstance(levels, Period):
                restored[name] = levels.restore(rows[:, start], rows[:, start + 1])
                start += 2
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
            for level in (("cos", "sin") if isinstance(levels, Period) else levels or (None,))
        ]

    def _by_name(self, value: Numbers, argument: str) -> Numbers:
        labels: Iterable[Any]
        if isinstance(value, Mapping):
            labels = value
        elif is_table(value):
            labels = value.columns
        elif hasattr(value, "iloc"):  # a Series
            labels = value.index
        else:
            return value
        if not self.named or not are_names(labels):
            return value
        got = list(labels)
        if sorted(got) != sorted(self.names):
            extra, missing = set(got) - set(self.names), set(self.names) - set(got)
            problems = [
                f"{word} {', '.join(sorted(names))}"
                for word, names in (("extra", extra), ("missing", missing))
                if names
            ]
            raise ValueError(
                f"{argument}: expected the columns {', '.join(self.names)}; got "
                f"{' and '.join(problems) or 'one twice'}"
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
            if isinstance(levels, Period):
                angle = 2.0 * np.pi * as_column(column, where)[:, None] / levels.length
                encoded += [np.cos(angle), np.sin(angle)]
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
