"""What a live agent believes: looking at it changes no decision."""

import warnings
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from bayes_cmab import options, session
from bayes_cmab.decision import Evaluation
from bayes_cmab.history import ConvergenceWarning
from bayes_cmab.inference import MAP, Fixed
from bayes_cmab.memory import Memory
from bayes_cmab.offers import Offer, call_actions
from bayes_cmab.session import Session
from bayes_cmab.validate import FloatArray, Numbers

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


class Views(Memory):
    """The part of an `Agent` that says what the next ask would see."""

    def score(
        self,
        context: Numbers | None = None,
        actions: Numbers | None = None,
        *,
        exploit: bool = False,
    ) -> "pd.DataFrame":
        """Return a table of the actions, as the next ask would see them; it changes no decision.

        Parameters
        ----------
        context, actions, exploit : as in `ask`. Some of the offered actions have the scores that
            they have among all; so have others, but for rounding, unless they are drawn jointly.

        Returns
        -------
        One row per action: its columns, ``mean``, ``standard_deviation``, ``score`` (the mean, to
        exploit), and the five parts of the variance (see `Decision`). Of a `Box`: its candidates,
        and then the tops of the climbs.

        Raises
        ------
        FloatingPointError
            As in `ask`.
        """
        s, offer = self._question(context, actions)
        with self._lock:
            now, question = self._prepare(None), (s, offer, self._key(None))
            found = session.evaluate(self._core, self._settings, now, *question, exploit)
        offer, evaluation = found
        return evaluation.table(offer, self._settings.columns)

    def posterior(self, context: Numbers | None = None) -> "xr.DataTree":
        """Return the posterior of the hyperparameters for ArviZ, as the next ask would see it.

        Parameters
        ----------
        context : (p,) of the predictions; by default the last one asked about.

        Returns
        -------
        See `bayes_cmab.diagnostics.posterior_tree`.

        Raises
        ------
        ValueError
            If the inference is not `NUTS` or `SVI`: there are no draws then.
        """
        from bayes_cmab.diagnostics import posterior_tree  # ArviZ is slow to import

        with self._lock:
            options.require_draws(self._core.inference)
            now, key = self._prepare(None), self._key(None)
            offered, predictions = self._settings.actions, dict[str, FloatArray]()
            if (s := self._context(context)) is not None:
                offer, evaluation = self._evaluate(now, s)
                offered, predictions = offer.given, evaluation.figures(offer)
            return posterior_tree(self._settings, now, offered, predictions, key)

    def report(self, path: str | PathLike[str], context: Numbers | None = None) -> Path:
        """Write one self-contained HTML page about the agent, as the next ask would see it.

        Data and their units, outcomes and expectations over the rounds, the uncertainty budget of
        every decision, the scores of the actions, the hyperparameters (with pictures of their
        draws, if there are any), the fits and the gate's verdicts, settings and versions. Like
        `score` it may fit hyperparameters, and changes no decision. Where scores are not finite
        the page says so instead of showing them.

        Parameters
        ----------
        path : of the file, written atomically.
        context : (p,) of the scores; by default the last one asked about.

        Returns
        -------
        The path.
        """
        from bayes_cmab.report import Subject, write_report  # Matplotlib is slow to import

        scores, tree, problem = None, None, "There was no context yet: give one to see the scores."
        with self._lock:
            s, now = self._context(context), self._prepare(None)
            try:
                if s is not None:
                    offer, evaluation = self._evaluate(now, s)
                    scores, problem = evaluation.table(offer, self._settings.columns), ""
                if not isinstance(self._core.inference, Fixed | MAP):
                    tree = self.posterior(context)
            except FloatingPointError as error:
                problem = str(error)
            subject = Subject(self._settings, now, s, scores, tree, problem)
            return write_report(subject, Path(path))

    def _evaluate(self, now: Session, context: FloatArray) -> tuple[Offer, Evaluation]:
        known = self._settings
        offer = call_actions(None, known.actions, known.columns, known.box)
        return session.evaluate(self._core, known, now, context, offer, self._key(None))

    def _context(self, context: Numbers | None) -> FloatArray | None:
        """Return a context as numbers; the last one asked about, if there is one, for None."""
        columns, tickets = self._settings.contexts, self._session.ledger.tickets
        if context is None and (tickets or not columns.names):
            return tickets[-1].context if tickets else np.zeros(0)
        return None if context is None else options.context_of(context, columns)

    def _question(
        self, context: Numbers | None, actions: Numbers | None
    ) -> tuple[FloatArray, Offer]:
        known = self._settings
        s = options.context_of(context, known.contexts)
        return s, call_actions(actions, known.actions, known.columns, known.box)

    def _key(self, key: PRNGKeyArray | None) -> PRNGKeyArray:
        if key is not None:
            kind = getattr(key, "dtype", None)
            if kind is None or not jnp.issubdtype(kind, jax.dtypes.prng_key) or jnp.shape(key):
                raise ValueError(f"key: expected a key of jax.random.key(), got {key!r}")
            return key
        seed = jax.random.key(self._settings.seed)
        return jax.random.fold_in(seed, self.round)

    def _prepare(self, key: PRNGKeyArray | None) -> Session:
        # Kept apart until an ask commits it, so that looking at scores changes no decision.
        now = self._usable()
        if self._prepared is not None and key is None:
            return self._prepared
        own = jax.random.fold_in(self._key(key), 2)
        prepared = session.prepare(self._core, now, own, self._now())
        if key is None:
            self._prepared = prepared  # with a key of the caller's, it is for that ask alone
        for refit in prepared.fits[len(now.fits) :]:
            if refit.verdict == "failed":
                warnings.warn(refit.message(), ConvergenceWarning, stacklevel=3)
        return prepared
