"""The actions of one call: the offered set, some of it, or actions that were never offered."""

from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from bayes_cmab.data import capacity_for
from bayes_cmab.decision import FIGURES
from bayes_cmab.validate import FloatArray, Numbers, as_rows


class Offer(NamedTuple):
    """Actions to evaluate, of which a caller's are some.

    Attributes
    ----------
    actions : (K, q) to evaluate.
    allowed : (K,) which of them may be chosen.
    rows : (k,) the caller's, as positions among them.
    """

    actions: FloatArray
    allowed: npt.NDArray[np.bool_]
    rows: npt.NDArray[np.intp]

    @classmethod
    def whole(cls, offered: FloatArray) -> Self:
        """Offer the whole set."""
        size = len(offered)
        return cls(offered, np.ones(size, bool), np.arange(size))

    @classmethod
    def of(cls, given: FloatArray, offered: FloatArray) -> Self:
        """Offer some actions (k, q).

        A part of the offered set is evaluated with the whole of it, so that a joint draw of ``g``
        is the same one. Other actions are padded to a power of two, so that a new number of them
        is rarely a new program to compile.
        """
        # Adding zero makes -0.0 and 0.0 the same bytes.
        position = {row.tobytes(): i for i, row in reversed(list(enumerate(offered + 0.0)))}
        found = [position.get(row.tobytes(), -1) for row in given + 0.0]
        if min(found) >= 0:
            rows = np.array(found)
            allowed = np.zeros(len(offered), bool)
            allowed[rows] = True
            return cls(offered, allowed, rows)
        size, capacity = len(given), capacity_for(len(given))
        padded = np.concatenate([given, np.repeat(given[:1], capacity - size, axis=0)])
        return cls(padded, np.arange(capacity) < size, np.arange(size))


def offered_actions(actions: Numbers) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the offered set (k, q) and the names of its columns."""
    rows = np.array(as_rows(actions, "actions"))
    _require_some(rows)
    columns = names_of(actions) or tuple(f"action_{j}" for j in range(rows.shape[1]))
    taken = [name for j, name in enumerate(columns) if name in (*FIGURES, *columns[:j])]
    if taken:
        reserved = ", ".join(FIGURES)
        raise ValueError(
            f"actions: expected distinct column names other than {reserved}, got {taken[0]!r}"
        )
    rows.setflags(write=False)
    return rows, columns


def call_actions(actions: Numbers, offered: FloatArray, names: tuple[str, ...]) -> Offer:
    """Return the offer of one call.

    Parameters
    ----------
    actions : (k, q), or None for the offered set.
    offered : (K, q).
    names : of its columns, if the user named them: those of a DataFrame are matched by name.
    """
    if actions is None:
        return Offer.whole(offered)
    rows = as_rows(by_name(actions, "actions", names), "actions", offered.shape[1])
    _require_some(rows)
    return Offer.of(rows, offered)


def names_of(table: Numbers) -> tuple[str, ...]:
    """Return the names of the columns of a DataFrame; none of anything else."""
    return tuple(str(name) for name in getattr(table, "columns", ()))


def by_name(table: Numbers, name: str, columns: tuple[str, ...]) -> Any:
    """Return a DataFrame with its columns in the order of ``columns``; anything else as it is.

    Raises
    ------
    ValueError
        If it has other columns.
    """
    got = names_of(table)
    if not (columns and got) or got == columns:
        return table
    if sorted(got) != sorted(columns):
        listed = ", ".join(columns)
        extra, missing = set(got) - set(columns), set(columns) - set(got)
        problems = [
            f"{word} {', '.join(sorted(names))}"
            for word, names in (("extra", extra), ("missing", missing))
            if names
        ]
        raise ValueError(
            f"{name}: expected the columns {listed}; got {' and '.join(problems) or 'one twice'}"
        )
    return table.iloc[:, [got.index(column) for column in columns]]


def _require_some(rows: FloatArray) -> None:
    if not rows.size:
        raise ValueError(f"actions: expected at least one row and one column, got {rows.shape}")
