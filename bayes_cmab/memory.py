"""What an agent is told, in the user's units, in any order and from any thread; its file."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bayes_cmab import history, options, session
from bayes_cmab.data import Data
from bayes_cmab.models.priors import Sites
from bayes_cmab.scaling import Scales
from bayes_cmab.session import Session
from bayes_cmab.settings import Settings
from bayes_cmab.validate import Numbers, as_column, as_rows, as_vector, require_x64, same_length

if TYPE_CHECKING:
    import pandas as pd

type Clock = Callable[[], datetime]
"""Returns the time, with its zone; nothing but the time stamps depends on it."""


def utc_now() -> datetime:
    """Return the time of the machine."""
    return datetime.now(UTC)


class Memory:
    """The part of an `Agent` that is told things and says what it was told.

    Every call sees and changes the agent as a whole: a second thread waits for the first. A call
    that raises changes nothing.
    """

    def __init__(self, settings: Settings, start: Session, clock: Clock) -> None:
        if not callable(clock):
            raise ValueError(f"clock: expected a function, got {clock!r}")
        self._lock = threading.RLock()
        self._settings, self._core, self._clock = settings, settings.core(), clock
        self._session = start
        self._prepared: Session | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the lock, so that agents can be copied and pickled."""
        with self._lock:
            return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take everything, with a lock of its own."""
        vars(self).update(state, _lock=threading.RLock())

    @property
    def sites(self) -> Sites:
        """The hyperparameters of the last ask, in standardised units; (draws, ...) of a sampler."""
        state = self._session.state
        if state.inferred is None:
            return dict(state.sites)
        programs = state.inferred.draws.programs.values()
        return {name: site for draws in programs for name, site in draws.sites.items()}

    @property
    def scales(self) -> Scales:
        """The units of the last ask."""
        return self._session.state.scales

    @property
    def data(self) -> Data:
        """All complete rows, in those units, padded."""
        return self._session.state.data

    @property
    def round(self) -> int:
        """The number of decisions so far."""
        return self._session.round

    @property
    def waiting(self) -> tuple[int, ...]:
        """The tickets that wait for an intermediate or an outcome, and were not abandoned."""
        return self._session.ledger.waiting()

    def history(self) -> "pd.DataFrame":
        """Return what happened: asks, tells, abandoned tickets, rows from elsewhere, refits.

        Returns
        -------
        One row per event, with its time, see `bayes_cmab.history.table`.
        """
        now = self._session
        return history.table(now.events, self._settings.shown(now.ledger))

    def tell(
        self, ticket: int, *, intermediate: Numbers | None = None, outcome: Numbers | None = None
    ) -> None:
        """Tell what came of a decision: its intermediate, its outcome, or both.

        An outcome may come before its intermediate: it is kept, and joins the outcomes when the
        intermediate arrives. An agent that ignores intermediates learns from it at once.

        Parameters
        ----------
        ticket : of the decision; not an abandoned one.
        intermediate : (d,). outcome : a number.
        """
        d = self._settings.dim_intermediate
        r = None if intermediate is None else as_vector(intermediate, "intermediate", d)
        y = None if outcome is None else float(as_vector(outcome, "outcome", 1)[0])
        with self._lock:
            told = (ticket, r, y, self._now())
            self._commit(session.tell(self._core, self._usable(), *told))

    def abandon(self, ticket: int) -> None:
        """Say that nothing more will come of a decision; what was told of it stays in use.

        Parameters
        ----------
        ticket : of a decision whose intermediate or outcome is unknown.
        """
        with self._lock:
            self._commit(session.abandon(self._session, ticket, self._now()))

    def add_outcomes(self, intermediates: Numbers, outcomes: Numbers) -> None:
        """Add rows (r, y) that belong to no decision; the next ask conditions on all at once.

        Parameters
        ----------
        intermediates : (m, d). outcomes : (m,).
        """
        r = as_rows(intermediates, "intermediates", self._settings.dim_intermediate)
        y = as_column(outcomes, "outcomes")
        size = same_length(intermediates=r, outcomes=y)
        with self._lock:
            ledger = self._session.ledger.add_outcomes(r, y)
            added = ("add_outcomes", size, self._now())
            self._commit(session.add(self._session, ledger, *added))

    def add_transitions(
        self, contexts: Numbers | None, actions: Numbers, intermediates: Numbers
    ) -> None:
        """Add rows (s, a, r) that belong to no decision; the next ask conditions on all at once.

        Parameters
        ----------
        contexts : (n, p); None if there are no contexts.
        actions : (n, q), any; if the offered set was a DataFrame, one is matched by name.
            Categorical columns must have known categories.
        intermediates : (n, d).
        """
        known = self._settings
        a = known.columns.rows(actions, "actions")
        r = as_rows(intermediates, "intermediates", known.dim_intermediate)
        s = options.contexts_of(contexts, len(a), known.contexts)
        size = same_length(contexts=s, actions=a, intermediates=r)
        with self._lock:
            ledger = self._session.ledger.add_transitions(s, a, r)
            added = ("add_transitions", size, self._now())
            self._commit(session.add(self._session, ledger, *added))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the agent to one file, at any moment of its life.

        The file is replaced as a whole: after a crash it is the old one or the new one. It holds
        no code: what you wrote yourself (a policy, a program, a schedule of ``beta``, a
        ``reward_function``) is named in it, and handed to `load` again.

        Parameters
        ----------
        path : of the file; its folder is made if need be.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        from bayes_cmab import persistence

        with self._lock:
            persistence.save(Path(path), self._settings, self._session)

    @classmethod
    def load(cls, path: str | PathLike[str], *, clock: Clock = utc_now, **given: Any) -> Self:
        """Return the agent in a file: its next decisions are those of the agent that was saved.

        Parameters
        ----------
        path : of the file.
        clock : as in the constructor.
        given : the options ``policy``, ``inference``, ``acquisition``, ``gate``, ``beta`` and
            ``reward_function``, those and only those that were, or held, code of your own.

        Raises
        ------
        ValueError
            If the file is missing, truncated, foreign or of a newer version, or ``given`` lacks
            something or has too much.
        RuntimeError
            If JAX is not set to float64.
        """
        from bayes_cmab import persistence

        require_x64()
        agent = cls.__new__(cls)
        Memory.__init__(agent, *persistence.load(Path(path), given), clock)
        return agent

    def _commit(self, new: Session) -> None:
        self._session, self._prepared = new, None

    def _usable(self) -> Session:
        # A tell that was interrupted has destroyed the posterior, also of a session prepared on it.
        mended = session.mended(self._core, self._session)
        if mended is not self._session:
            self._commit(mended)
        return mended

    def _now(self) -> datetime:
        time = self._clock()
        if not isinstance(time, datetime) or time.tzinfo is None:
            raise ValueError(f"clock: expected a datetime with a time zone, got {time!r}")
        utc = time.astimezone(UTC)
        return datetime.combine(utc.date(), utc.time(), UTC)  # not a subclass, such as pandas'
