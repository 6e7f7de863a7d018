"""The actions of one call: the offered set, some of it, actions that were never offered, a box."""

from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from bayes_cmab.boxes import Box
from bayes_cmab.categories import Categories
from bayes_cmab.columns import Columns
from bayes_cmab.data import capacity_for
from bayes_cmab.decision import FIGURES
from bayes_cmab.validate import FloatArray, Numbers


class Offer(NamedTuple):
    """Actions to evaluate, as numbers, of which a caller's are some.

    Attributes
    ----------
    actions : (K, q) to evaluate.
    allowed : (K,) which of them may be chosen.
    rows : (k,) the caller's, as positions among them.
    box : whose candidates they are, from which to climb; None for the actions alone.
    """

    actions: FloatArray
    allowed: npt.NDArray[np.bool_]
    rows: npt.NDArray[np.intp]
    box: Box | None = None

    @property
    def given(self) -> FloatArray:
        """The caller's actions, (k, q), a copy."""
        return self.actions[self.rows]

    @classmethod
    def whole(cls, offered: FloatArray, box: Box | None = None) -> Self:
        """Offer the whole set, or the box whose candidates it is."""
        size = len(offered)
        return cls(offered, np.ones(size, bool), np.arange(size), box)

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


def offered_actions(actions: Numbers | Box, categories: Categories) -> tuple[FloatArray, Columns]:
    """Return the offered set as numbers (k, q), and its columns; the candidates of a box."""
    if isinstance(actions, Box):
        rows, default = actions.cover(), Columns.numeric(len(actions.low), "action")
        own = actions.columns != default.names
        if given := [name for name in actions.columns if name in categories]:
            raise ValueError(
                f"categories: expected none of a Box, whose columns are numbers, got {given[0]!r}"
            )
        columns = default._replace(names=actions.columns, named=own)
    else:
        columns = Columns.of(actions, "actions", "action").declare(categories)
        rows = np.array(columns.rows(actions, "actions"))
    _require_some(rows)
    taken = [n for j, n in enumerate(columns.names) if n in (*FIGURES, *columns.names[:j])]
    if taken:
        reserved = ", ".join(FIGURES)
        raise ValueError(
            f"actions: expected distinct column names other than {reserved}, got {taken[0]!r}"
        )
    rows.setflags(write=False)
    return rows, columns


def call_actions(
    actions: Numbers, offered: FloatArray, columns: Columns, box: Box | None = None
) -> Offer:
    """Return the offer of one call.

    Parameters
    ----------
    actions : (k, columns), or None for the offered set or the box.
    offered : (K, q), as numbers. columns : those of the actions.
    box : that is offered; actions of the call take its place.
    """
    if actions is None:
        return Offer.whole(offered, box)
    rows = columns.rows(actions, "actions")
    _require_some(rows)
    return Offer.of(rows, offered)


def _require_some(rows: FloatArray) -> None:
    if not rows.size:
        raise ValueError(f"actions: expected at least one row and one column, got {rows.shape}")
