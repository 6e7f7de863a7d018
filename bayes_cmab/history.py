"""What happened to a live agent, as a table: fits of its hyperparameters, and decisions."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayes_cmab.decision import FIGURES
from bayes_cmab.inference.gate import Check, overall
from bayes_cmab.validate import FloatArray

if TYPE_CHECKING:
    import pandas as pd


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
    accepted : whether its result is in use; if not, the draws before it are, reweighted.
    weights : (draws,) of the draws in use, at the fit; None without draws.
    """

    round: int
    program: str
    reason: str
    checks: tuple[Check, ...] = ()
    continued: bool = False
    accepted: bool = True
    weights: FloatArray | None = None

    @property
    def verdict(self) -> str:
        """Return the gate's verdict; empty where nothing was checked."""
        return overall(self.checks) if self.checks else ""

    def message(self) -> str:
        """Return what a user must know of a fit that failed."""
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


class Ask(NamedTuple):
    """What was believed at one decision.

    Attributes
    ----------
    round : of the decision.
    weights : (draws,) of each program, normalised; empty without draws.
    figures : of the chosen action, by the names in ``FIGURES``, in the units of the outcome.
    """

    round: int
    weights: dict[str, FloatArray]
    figures: dict[str, float]


def table(events: list[Refit | Ask]) -> "pd.DataFrame":
    """Return one row per event.

    Columns: ``round``, ``event`` (``refit`` or ``ask``), ``program``, ``reason``, ``verdict``,
    ``continued``, ``accepted``, ``effective_sample_size`` and ``weights``, and ``FIGURES``: what
    was believed of the chosen action. An ask has a row for each program with draws.
    """
    import pandas as pd  # slow to import

    rows: list[dict[str, Any]] = []
    for event in events:
        if isinstance(event, Refit):
            rows.append(
                {
                    "round": event.round,
                    "event": "refit",
                    "program": event.program,
                    "reason": event.reason,
                    "verdict": event.verdict,
                    "continued": event.continued,
                    "accepted": event.accepted,
                    **_of_weights(event.weights),
                }
            )
            continue
        for program, weights in event.weights.items() or [("", None)]:
            rows.append(
                {
                    "round": event.round,
                    "event": "ask",
                    "program": program,
                    **_of_weights(weights),
                    **event.figures,
                }
            )
    columns = ["round", "event", "program", "reason", "verdict", "continued", "accepted"]
    return pd.DataFrame(rows, columns=[*columns, "effective_sample_size", "weights", *FIGURES])


def _of_weights(weights: FloatArray | None) -> dict[str, Any]:
    if weights is None:
        return {"effective_sample_size": np.nan, "weights": None}
    return {"effective_sample_size": float(1.0 / np.sum(weights**2)), "weights": weights}
