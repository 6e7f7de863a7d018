"""What happened to a live agent, as a table."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayes_cmab.decision import FIGURES, Decision
from bayes_cmab.inference.gate import Check, overall
from bayes_cmab.tickets import Ledger
from bayes_cmab.validate import FloatArray

if TYPE_CHECKING:
    import pandas as pd

BEGINNING = datetime.fromtimestamp(0, UTC)
"""Time stamp of what has not been stamped yet."""

COLUMNS = (
    *("time", "round", "event", "ticket", "context", "action", "intermediate", "outcome", "rows"),
    *("exploit", *FIGURES, "program", "reason", "verdict", "continued", "accepted"),
    *("effective_sample_size", "weights"),
)


class ConvergenceWarning(UserWarning):
    """A fit of the hyperparameters failed at the convergence gate; the message says what then."""


class Refit(NamedTuple):
    """One fit of one program.

    Attributes
    ----------
    round : before which it was made.
    program : whose hyperparameters were fitted.
    reason : why.
    checks : of the convergence gate, of a sampler's fit.
    continued : whether the first pass failed, so that another followed.
    accepted : whether its result is in use; if not, the draws before it are, reweighted, or, of
        `MAP`, the hyperparameters before it.
    weights : (draws,) of the draws in use, at the fit; None without draws.
    time : of the fit.
    """

    round: int
    program: str
    reason: str
    checks: tuple[Check, ...] = ()
    continued: bool = False
    accepted: bool = True
    weights: FloatArray | None = None
    time: datetime = BEGINNING

    @property
    def verdict(self) -> str:
        """Return the gate's verdict; without one, of `MAP`, failed or nothing."""
        if self.checks:
            return overall(self.checks)
        return "" if self.accepted else "failed"

    def message(self) -> str:
        """Return what a user must know of a fit that failed."""
        if not self.checks:
            return (
                f"round {self.round}: no better hyperparameters of the {self.program} program were "
                "found, of finite posterior density; those before stay"
            )
        failed = [
            f"{c.criterion} {c.value:.3g} (limit {c.limit:.3g}){f' at {c.site}' * bool(c.site)}"
            for c in self.checks
            if c.verdict == "failed"
        ]
        then = "its draws are used all the same" if self.accepted else "the draws before it stay"
        return (
            f"round {self.round}: the fit of the {self.program} program did not converge, also "
            f"when continued: {', '.join(failed)}; {then}"
        )

    def rows(self, ledger: Ledger) -> list[dict[str, Any]]:
        """Return its row."""
        del ledger
        names = ("program", "reason", "verdict", "continued", "accepted")
        values = {name: getattr(self, name) for name in names}
        return [{"event": "refit", **values, **_of_weights(self.weights)}]


class Ask(NamedTuple):
    """A decision, and the draws of hyperparameters at it.

    Attributes
    ----------
    time, round : of the decision. ticket : its number.
    exploit : whether it was the action with the highest mean.
    figures : of the action, by the names in ``FIGURES``.
    weights : (draws,) of each program, normalised; empty without draws.
    """

    time: datetime
    round: int
    ticket: int
    exploit: bool
    figures: dict[str, float]
    weights: dict[str, FloatArray]

    @classmethod
    def of(
        cls, decision: Decision, exploit: bool, weights: dict[str, FloatArray], time: datetime
    ) -> "Ask":
        """Return the event of a decision."""
        figures = {name: float(getattr(decision, name)) for name in FIGURES}
        return cls(time, decision.ticket, decision.ticket, exploit, figures, weights)

    def rows(self, ledger: Ledger) -> list[dict[str, Any]]:
        """Return a row for each program with draws; one without."""
        ticket = ledger.tickets[self.ticket]
        own = {
            "event": "ask",
            "ticket": self.ticket,
            "context": ticket.context,
            "action": ticket.action,
            "exploit": self.exploit,
            **self.figures,
        }
        weights: list[tuple[str, FloatArray | None]] = [*self.weights.items()] or [("", None)]
        return [{**own, "program": program, **_of_weights(w)} for program, w in weights]


class Tell(NamedTuple):
    """What was told of a ticket.

    Attributes
    ----------
    time : of the call. round : number of decisions so far.
    ticket : of the decision.
    intermediate, outcome : whether it was told.
    """

    time: datetime
    round: int
    ticket: int
    intermediate: bool
    outcome: bool

    def rows(self, ledger: Ledger) -> list[dict[str, Any]]:
        """Return its row."""
        ticket = ledger.tickets[self.ticket]
        return [
            {
                "event": "tell",
                "ticket": self.ticket,
                "intermediate": ticket.intermediate if self.intermediate else None,
                "outcome": ticket.outcome if self.outcome else np.nan,
            }
        ]


class Abandon(NamedTuple):
    """A ticket that will be told nothing more.

    Attributes
    ----------
    time : of the call. round : number of decisions so far.
    ticket : of the decision.
    """

    time: datetime
    round: int
    ticket: int

    def rows(self, ledger: Ledger) -> list[dict[str, Any]]:
        """Return its row."""
        del ledger
        return [{"event": "abandon", "ticket": self.ticket}]


class Addition(NamedTuple):
    """Rows from elsewhere.

    Attributes
    ----------
    time : of the call. round : number of decisions so far.
    kind : ``add_outcomes`` or ``add_transitions``. size : number of rows.
    """

    time: datetime
    round: int
    kind: str
    size: int

    def rows(self, ledger: Ledger) -> list[dict[str, Any]]:
        """Return its row."""
        del ledger
        return [{"event": self.kind, "rows": self.size}]


type Event = Refit | Ask | Tell | Abandon | Addition


def table(events: Iterable[Event], ledger: Ledger) -> "pd.DataFrame":
    """Return one row per event, in the order in which they happened.

    Returns
    -------
    Columns, empty where an event has nothing to say:

    ``time`` (UTC, never an input to anything), ``round`` (decisions before it), ``event``: ``ask``,
    ``tell``, ``abandon``, ``add_outcomes``, ``add_transitions`` or ``refit``;
    ``ticket``; ``context`` (p,), ``action`` (q,), ``exploit`` and the figures of the action (see
    `Decision`) of an ask, which has a row for each program with draws;
    ``intermediate`` (d,) and ``outcome`` of a tell; ``rows``, how many were added;
    ``program``, ``reason``, ``verdict`` (of the gate), ``continued`` and ``accepted`` of a refit;
    ``effective_sample_size`` and ``weights`` (draws,) of asks and refits.
    """
    import pandas as pd  # slow to import

    rows = [
        {"time": event.time, "round": event.round, **{k: _own(v) for k, v in row.items()}}
        for event in events
        for row in event.rows(ledger)
    ]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.astype({"time": "datetime64[us, UTC]", "ticket": "Int64", "rows": "Int64"})


def _own(value: Any) -> Any:
    """Return a copy of an array: who changes the table changes no data of the agent."""
    return value.copy() if isinstance(value, np.ndarray) else value


def _of_weights(weights: FloatArray | None) -> dict[str, Any]:
    if weights is None:
        return {"effective_sample_size": np.nan, "weights": None}
    return {"effective_sample_size": float(1.0 / np.sum(weights**2)), "weights": weights}
