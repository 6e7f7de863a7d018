"""What an agent was told, in the user's units: tickets, and rows that come without one.

Rows arrive late and in any order. A *ticket* is a decision that waits for its intermediate and its
outcome; the *ledger* holds all tickets and the rows from elsewhere, and turns them into units and
into padded, standardised `Data`. Both are immutable, and copies: what fails half-way changes
nothing, and neither does a user who changes an array later.
"""

from typing import Any, NamedTuple, Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bayes_cmab.data import Data, Outcomes, Rewards, Transitions, capacity_for
from bayes_cmab.scaling import Scales, Units
from bayes_cmab.validate import FloatArray


class Ticket(NamedTuple):
    """A decision, and what is known of its consequences.

    Attributes
    ----------
    context : (p,). action : (q,).
    intermediate : (d,), or None while it is unknown.
    outcome : or None while it is unknown. It may be known before the intermediate.
    abandoned : whether what is unknown will never be told.
    """

    context: FloatArray
    action: FloatArray
    intermediate: FloatArray | None = None
    outcome: float | None = None
    abandoned: bool = False

    @property
    def complete(self) -> bool:
        """Whether both its intermediate and its outcome are known."""
        return self.intermediate is not None and self.outcome is not None


class Ledger(NamedTuple):
    """All that an agent was told.

    Attributes
    ----------
    tickets : in the order of the decisions; a ticket's number is its position.
    contexts, actions, intermediates : (n, p), (n, q), (n, d), transitions from elsewhere.
    unmatched : (m, d), intermediates of the outcomes from elsewhere.
    outcomes : (m,), those outcomes.
    """

    tickets: tuple[Ticket, ...]
    contexts: FloatArray
    actions: FloatArray
    intermediates: FloatArray
    unmatched: FloatArray
    outcomes: FloatArray

    @classmethod
    def empty(cls, p: int, q: int, d: int) -> Self:
        """Return a ledger without entries."""
        s, a, r, unmatched = (np.zeros((0, k)) for k in (p, q, d, d))
        return cls((), s, a, r, unmatched, np.zeros(0))

    def issue(self, context: FloatArray, action: FloatArray) -> Self:
        """Add a ticket, whose number is the number of tickets before."""
        return self._replace(tickets=(*self.tickets, Ticket(np.array(context), action)))

    def settle(self, number: int, intermediate: FloatArray | None, outcome: float | None) -> Self:
        """Write an intermediate, an outcome, or both on a ticket.

        Raises
        ------
        ValueError
            If there is no such ticket, if it was abandoned, if nothing is given, or if it was
            given before.
        """
        ticket = self._ticket(number)
        if intermediate is None and outcome is None:
            raise ValueError(
                f"tell: expected an intermediate, an outcome or both, got neither (ticket {number})"
            )
        if ticket.abandoned:
            raise ValueError(f"ticket: expected one that waits, got {number}, which was abandoned")
        for name, new in (("intermediate", intermediate), ("outcome", outcome)):
            if new is not None and getattr(ticket, name) is not None:
                raise ValueError(f"{name}: expected one a ticket, got a second for ticket {number}")
        if intermediate is not None:
            ticket = ticket._replace(intermediate=np.array(intermediate))
        if outcome is not None:
            ticket = ticket._replace(outcome=outcome)
        return self._with(number, ticket)

    def abandon(self, number: int) -> Self:
        """Note that a ticket will be told nothing more.

        Raises
        ------
        ValueError
            If there is no such ticket, if it was abandoned before, or if it waits for nothing.
        """
        ticket = self._ticket(number)
        if ticket.abandoned or ticket.complete:
            why = "was abandoned before" if ticket.abandoned else "has its intermediate and outcome"
            raise ValueError(f"ticket: expected one that waits, got {number}, which {why}")
        return self._with(number, ticket._replace(abandoned=True))

    def forget(self, number: int, *, intermediate: bool, outcome: bool) -> Self:
        """Take an intermediate, an outcome or both back off a ticket, which waits again."""
        ticket = self.tickets[number]._replace(abandoned=False)
        if intermediate:
            ticket = ticket._replace(intermediate=None)
        if outcome:
            ticket = ticket._replace(outcome=None)
        return self._with(number, ticket)

    def waiting(self) -> tuple[int, ...]:
        """Return the tickets that are neither complete nor abandoned."""
        return tuple(
            number
            for number, ticket in enumerate(self.tickets)
            if not (ticket.complete or ticket.abandoned)
        )

    def _ticket(self, number: int) -> Ticket:
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise ValueError(f"ticket: expected a decision's ticket, got {number!r}")
        if not 0 <= number < len(self.tickets):
            size = len(self.tickets)
            raise ValueError(f"ticket: expected one of the {size} issued so far, got {number}")
        return self.tickets[number]

    def _with(self, number: int, ticket: Ticket) -> Self:
        return self._replace(tickets=(*self.tickets[:number], ticket, *self.tickets[number + 1 :]))

    def add_transitions(self, s: FloatArray, a: FloatArray, r: FloatArray) -> Self:
        """Add transitions from elsewhere."""
        return self._replace(
            contexts=np.concatenate([self.contexts, s]),
            actions=np.concatenate([self.actions, a]),
            intermediates=np.concatenate([self.intermediates, r]),
        )

    def add_outcomes(self, r: FloatArray, y: FloatArray) -> Self:
        """Add outcomes from elsewhere."""
        return self._replace(
            unmatched=np.concatenate([self.unmatched, r]),
            outcomes=np.concatenate([self.outcomes, y]),
        )

    def transitions(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return D1: (n, p), (n, q), (n, d), the rows from elsewhere first."""
        rows = [t for t in self.tickets if t.intermediate is not None]
        return (
            _stack(self.contexts, [t.context for t in rows]),
            _stack(self.actions, [t.action for t in rows]),
            _stack(self.intermediates, [t.intermediate for t in rows]),
        )

    def matched_and_unmatched(self) -> tuple[FloatArray, FloatArray]:
        """Return D2: (m, d), (m,), the rows from elsewhere first; a ticket needs both its parts."""
        rows = [t for t in self.tickets if t.intermediate is not None and t.outcome is not None]
        return (
            _stack(self.unmatched, [t.intermediate for t in rows]),
            _stack(self.outcomes, [t.outcome for t in rows]),
        )

    def rewards(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the tickets with an outcome: (n, p), (n, q), (n,)."""
        rows = [t for t in self.tickets if t.outcome is not None]
        return (
            _stack(self.contexts[:0], [t.context for t in rows]),
            _stack(self.actions[:0], [t.action for t in rows]),
            _stack(self.outcomes[:0], [t.outcome for t in rows]),
        )

    def fits(self, data: Data) -> bool:
        """Return whether padded data have room for all rows."""
        capacities = (
            data.transitions.intermediates.shape[0],
            data.outcomes.outcomes.shape[0],
            data.rewards.outcomes.shape[0],
        )
        return all(n <= capacity for n, capacity in zip(self.sizes(), capacities, strict=True))

    def sizes(self) -> tuple[int, int, int]:
        """Return the numbers of rows of D1, of D2, and of the rewards."""
        seen = [(t.intermediate is not None, t.outcome is not None) for t in self.tickets]
        return (
            len(self.contexts) + sum(r for r, _ in seen),
            len(self.outcomes) + sum(r and y for r, y in seen),
            sum(y for _, y in seen),
        )

    def measure(self, offered: FloatArray, context_sample: FloatArray | None) -> Scales:
        """Return the units of the rows at hand.

        Those of the action are the offered actions'; of the context the sample's, or else of all
        contexts seen; an intermediate or an outcome that is in several data sets counts once.
        """
        seen = _stack(self.contexts, [t.context for t in self.tickets])
        return Scales(
            context=Units.measured(seen if context_sample is None else context_sample),
            action=Units.measured(offered),
            intermediate=Units.measured(np.concatenate([self.transitions()[2], self.unmatched])),
            outcome=Units.measured(np.concatenate([self.outcomes, self.rewards()[2]])),
        )

    def data(self, scales: Scales) -> Data:
        """Return all rows in standardised units, padded to the capacity that they need."""
        s, a, r, y = scales
        return Data(
            Transitions(*_columns(self.transitions(), (s, a, r))),
            Outcomes(*_columns(self.matched_and_unmatched(), (r, y))),
            Rewards(*_columns(self.rewards(), (s, a, y))),
        )


def _stack(first: FloatArray, rows: list[Any]) -> FloatArray:
    shape = (len(rows), *first.shape[1:])
    return np.concatenate([first, np.array(rows, np.float64).reshape(shape)])


def _columns(rows: tuple[FloatArray, ...], units: tuple[Units, ...]) -> list[Array]:
    # NumPy, because every number of rows would be a new program to compile.
    size = len(rows[0])
    columns = []
    for values, unit in zip(rows, units, strict=True):
        padded = np.zeros((capacity_for(size), *values.shape[1:]))
        padded[:size] = (values - np.asarray(unit.center)) / np.asarray(unit.scale)
        columns.append(jnp.asarray(padded))
    return [*columns, jnp.asarray(np.int64(size))]
