"""The data sets an agent learns from, padded to a capacity.

D1, ``Transitions``: rows (context, action, intermediate). D2, ``Outcomes``: rows (intermediate,
outcome), which need not match any transition. ``Rewards`` holds rows (context, action, outcome):
what an agent sees that ignores the intermediate. All are pytrees of arrays with a fixed capacity,
of which the first ``size`` rows are in use and the rest is zero, so that a growing data set does
not change any shape until it outgrows its capacity.
"""

from typing import NamedTuple, Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from bayes_cmab.linalg import row_mask
from bayes_cmab.validate import Numbers, as_column, as_rows, require_x64, same_length

SMALLEST_CAPACITY = 32
"""Capacity of an empty data set; capacities double from here."""


def capacity_for(count: int) -> int:
    """Return the smallest capacity, a power of two times `SMALLEST_CAPACITY`, that holds it."""
    capacity = SMALLEST_CAPACITY
    while capacity < count:
        capacity *= 2
    return capacity


def pad_rows(array: Float[Array, "n *k"], capacity: int) -> Float[Array, "N *k"]:
    """Append zero rows up to ``capacity``."""
    return jnp.pad(array, [(0, capacity - array.shape[0])] + [(0, 0)] * (array.ndim - 1))


class Transitions(NamedTuple):
    """D1: rows (s, a, r).

    Attributes
    ----------
    contexts : (N, p). actions : (N, q). intermediates : (N, d).
    size : rows in use.
    """

    contexts: Float[Array, "N p"]
    actions: Float[Array, "N q"]
    intermediates: Float[Array, "N d"]
    size: Int[Array, ""]

    @classmethod
    def create(
        cls,
        contexts: Numbers,
        actions: Numbers,
        intermediates: Numbers,
        *,
        capacity: int | None = None,
    ) -> Self:
        """Validate rows and pad them; ``contexts=None`` means that there are none (p = 0).

        Raises
        ------
        ValueError
            If an entry is not a finite number, lengths differ, or the capacity is too small.
        """
        require_x64()
        a, r = as_rows(actions, "actions"), as_rows(intermediates, "intermediates")
        s = np.zeros((len(a), 0)) if contexts is None else as_rows(contexts, "contexts")
        count = same_length(contexts=s, actions=a, intermediates=r)
        size = _capacity(count, capacity)
        return cls._make([*(pad_rows(jnp.asarray(x), size) for x in (s, a, r)), jnp.asarray(count)])

    @classmethod
    def empty(cls, p: int, q: int, d: int, capacity: int = SMALLEST_CAPACITY) -> Self:
        """Return no rows with the given numbers of columns."""
        blank = [jnp.zeros((capacity, width)) for width in (p, q, d)]
        return cls._make([*blank, jnp.asarray(0)])

    @property
    def mask(self) -> Bool[Array, " N"]:
        """Rows in use, (N,)."""
        return row_mask(self.size, self.contexts.shape[0])

    def append(
        self, context: Float[Array, " p"], action: Float[Array, " q"], intermediate: Array
    ) -> Self:
        """Return the data with one more row; the capacity must allow it."""
        i = self.size
        return self._replace(
            contexts=self.contexts.at[i].set(context),
            actions=self.actions.at[i].set(action),
            intermediates=self.intermediates.at[i].set(intermediate),
            size=i + 1,
        )


class Outcomes(NamedTuple):
    """D2: rows (r, y), matched with transitions or not.

    Attributes
    ----------
    intermediates : (M, d). outcomes : (M,).
    size : rows in use.
    """

    intermediates: Float[Array, "M d"]
    outcomes: Float[Array, " M"]
    size: Int[Array, ""]

    @classmethod
    def create(
        cls, intermediates: Numbers, outcomes: Numbers, *, capacity: int | None = None
    ) -> Self:
        """Validate rows and pad them.

        Raises
        ------
        ValueError
            If an entry is not a finite number, lengths differ, or the capacity is too small.
        """
        require_x64()
        r, y = as_rows(intermediates, "intermediates"), as_column(outcomes, "outcomes")
        count = same_length(intermediates=r, outcomes=y)
        size = _capacity(count, capacity)
        return cls(
            pad_rows(jnp.asarray(r), size), pad_rows(jnp.asarray(y), size), jnp.asarray(count)
        )

    @classmethod
    def empty(cls, d: int, capacity: int = SMALLEST_CAPACITY) -> Self:
        """Return no rows with the given number of columns."""
        return cls(jnp.zeros((capacity, d)), jnp.zeros(capacity), jnp.asarray(0))

    @property
    def mask(self) -> Bool[Array, " M"]:
        """Rows in use, (M,)."""
        return row_mask(self.size, self.outcomes.shape[0])

    def append(self, intermediate: Float[Array, " d"], outcome: Float[Array, ""]) -> Self:
        """Return the data with one more row; the capacity must allow it."""
        i = self.size
        return self._replace(
            intermediates=self.intermediates.at[i].set(intermediate),
            outcomes=self.outcomes.at[i].set(outcome),
            size=i + 1,
        )


class Rewards(NamedTuple):
    """Rows (s, a, y): what an agent that ignores the intermediate learns from.

    Attributes
    ----------
    contexts : (N, p). actions : (N, q). outcomes : (N,).
    size : rows in use.
    """

    contexts: Float[Array, "N p"]
    actions: Float[Array, "N q"]
    outcomes: Float[Array, " N"]
    size: Int[Array, ""]

    @classmethod
    def empty(cls, p: int, q: int, capacity: int = SMALLEST_CAPACITY) -> Self:
        """Return no rows with the given numbers of columns."""
        return cls(
            jnp.zeros((capacity, p)), jnp.zeros((capacity, q)), jnp.zeros(capacity), jnp.asarray(0)
        )

    @property
    def mask(self) -> Bool[Array, " N"]:
        """Rows in use, (N,)."""
        return row_mask(self.size, self.outcomes.shape[0])

    def append(
        self, context: Float[Array, " p"], action: Float[Array, " q"], outcome: Float[Array, ""]
    ) -> Self:
        """Return the data with one more row; the capacity must allow it."""
        i = self.size
        return self._replace(
            contexts=self.contexts.at[i].set(context),
            actions=self.actions.at[i].set(action),
            outcomes=self.outcomes.at[i].set(outcome),
            size=i + 1,
        )


class Data(NamedTuple):
    """Everything an agent may learn from."""

    transitions: Transitions
    outcomes: Outcomes
    rewards: Rewards

    @classmethod
    def empty(cls, p: int, q: int, d: int, capacity: int = SMALLEST_CAPACITY) -> Self:
        """Return no rows at all."""
        return cls(
            Transitions.empty(p, q, d, capacity),
            Outcomes.empty(d, capacity),
            Rewards.empty(p, q, capacity),
        )


def with_capacity[Rows: (Transitions, Outcomes, Rewards)](rows: Rows, capacity: int) -> Rows:
    """Return the same rows padded to a larger capacity."""
    *columns, count = rows
    return type(rows)._make([*(pad_rows(column, capacity) for column in columns), count])


def _capacity(count: int, capacity: int | None) -> int:
    if capacity is None:
        return capacity_for(count)
    if capacity < count:
        raise ValueError(f"capacity: expected at least the number of rows, {count}, got {capacity}")
    return capacity
