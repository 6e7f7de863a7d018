"""The life of a live agent so far, immutable, and what each call makes of it."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from bayes_cmab import options, steps
from bayes_cmab.acquisition import Acquisition, MatchedMomentsUCB
from bayes_cmab.appends import Gained, Row, append, is_spent
from bayes_cmab.decision import Evaluation
from bayes_cmab.history import Abandon, Addition, Ask, Event, Refit, Tell
from bayes_cmab.offers import Offer
from bayes_cmab.settings import Settings
from bayes_cmab.steps import AgentState, Core
from bayes_cmab.tickets import Ledger
from bayes_cmab.validate import FloatArray, Numbers


class Session(NamedTuple):
    """All that changes during an agent's life.

    Attributes
    ----------
    ledger : what was told.
    state : what is known.
    events : what happened, oldest first.
    appended : what was told since the posterior was conditioned afresh, oldest first. With the
        ledger it says in which order rows came, and so to the last bit what the posterior is.
    """

    ledger: Ledger
    state: AgentState
    events: tuple[Event, ...] = ()
    appended: tuple[Tell, ...] = ()

    @property
    def round(self) -> int:
        """The number of decisions so far."""
        return len(self.ledger.tickets)

    @property
    def fits(self) -> list[Refit]:
        """The fits of hyperparameters."""
        return [event for event in self.events if isinstance(event, Refit)]


def start(settings: Settings, hyperparameters: Mapping[str, Numbers] | None) -> Session:
    """Return the session of an agent that was told nothing yet."""
    p, q, d = settings.contexts.width, settings.columns.width, settings.dim_intermediate
    default = settings.base.default_sites(p, q, d)
    sites = options.sites_of(hyperparameters, default, settings.inference)
    ledger = Ledger.empty(p, q, d)
    units = settings.units(ledger)
    return Session(ledger, AgentState(None, ledger.data(units), sites, units))


def prepare(core: Core, session: Session, key: PRNGKeyArray, time: datetime) -> Session:
    """Refit, or condition afresh, where that is due before the next decision."""
    before = session.state
    state, refits = steps.prepare(core, session.round, session.ledger, before, key)
    return session._replace(
        state=state,
        events=(*session.events, *(refit._replace(time=time) for refit in refits)),
        appended=session.appended if state.posterior is before.posterior else (),
    )


def evaluate(
    core: Core,
    settings: Settings,
    session: Session,
    context: FloatArray,
    offer: Offer,
    key: PRNGKeyArray,
    exploit: bool = False,
) -> tuple[Offer, Evaluation]:
    """Score the actions of a call in a context (p,), in a session that is prepared.

    Returns
    -------
    What was evaluated: the offer, but of a box its candidates and the tops of the climbs.

    Raises
    ------
    FloatingPointError
        If a score is not finite, or a variance is negative beyond rounding.
    """
    # Without its bonus, the score of MatchedMomentsUCB is the mean.
    acquisition: Acquisition = MatchedMomentsUCB()
    beta = np.zeros(())
    if not exploit:
        acquisition, beta = core.acquisition, settings.exploration(session.round)
    known = (core.policy, acquisition, session.state, context, offer.actions)
    if offer.box is None:
        found = steps.evaluate(*known, offer.allowed, beta, key)
        evaluation: Evaluation = jax.device_get(found)
    else:
        points, evaluation = offer.box.evaluate(*known, beta, key)
        offer = Offer.whole(points)
    evaluation.check(session.round)
    return offer, evaluation


def ask(session: Session, context: FloatArray, action: FloatArray, event: Ask) -> Session:
    """Issue the ticket of a decision, (p,) and (q,) as numbers."""
    ledger = session.ledger.issue(context, action)
    return session._replace(ledger=ledger, events=(*session.events, event))


def tell(
    core: Core,
    session: Session,
    ticket: int,
    intermediate: FloatArray | None,
    outcome: float | None,
    time: datetime,
) -> Session:
    """Settle a ticket, and append what became complete to the posterior, if there is room.

    The given session must not be used afterwards, but for `mended`.
    """
    ledger = session.ledger.settle(ticket, intermediate, outcome)
    told = (intermediate is not None, outcome is not None)
    event = Tell(time, session.round, int(ticket), *told)
    session = session._replace(events=(*session.events, event))
    if session.state.posterior is None or not ledger.fits(session.state.data):
        return outgrow(session, ledger)
    state = observe(core, session.state, ledger, event)
    return session._replace(ledger=ledger, state=state, appended=(*session.appended, event))


def observe(core: Core, state: AgentState, ledger: Ledger, event: Tell) -> AgentState:
    """Append what a ticket gained when it was told; the ledger is the one after."""
    s, a, r, y, _ = ledger.tickets[event.ticket]
    matched = r is not None and y is not None
    gained = Gained(event.intermediate, matched, event.outcome)
    return append(core.policy, state, Row(s, a, r, y), gained)


def mended(core: Core, session: Session) -> Session:
    """Return a session that can be used, also where a tell was interrupted."""
    if not is_spent(session.state):
        return session
    bare = outgrow(session, session.ledger)._replace(appended=session.appended)
    return restore(core, bare)


def abandon(session: Session, ticket: int, time: datetime) -> Session:
    """Note that a ticket will be told nothing more."""
    ledger = session.ledger.abandon(ticket)
    event = Abandon(time, session.round, int(ticket))
    return session._replace(ledger=ledger, events=(*session.events, event))


def add(session: Session, ledger: Ledger, kind: str, size: int, time: datetime) -> Session:
    """Take rows from elsewhere, which are in the ledger."""
    event = Addition(time, session.round, kind, size)
    return outgrow(session._replace(events=(*session.events, event)), ledger)


def outgrow(session: Session, ledger: Ledger) -> Session:
    """Take a ledger whose rows must be conditioned on afresh."""
    data = ledger.data(session.state.scales)
    state = session.state._replace(posterior=None, data=data)
    return session._replace(ledger=ledger, state=state, appended=())


def restore(core: Core, session: Session) -> Session:
    """Return a session with the posterior that it had, from one without.

    Rows are conditioned on, and appended, as they were in its life, by the same programs: the
    result is the same to the last bit.
    """
    ledger, state = session.ledger, session.state
    for event in session.appended:
        ledger = ledger.forget(event.ticket, intermediate=event.intermediate, outcome=event.outcome)
    state = steps.condition_afresh(core, state._replace(data=ledger.data(state.scales)))
    for event in session.appended:
        told = session.ledger.tickets[event.ticket]
        r = told.intermediate if event.intermediate else None
        ledger = ledger.settle(event.ticket, r, told.outcome if event.outcome else None)
        state = observe(core, state, ledger, event)
    return session._replace(state=state)
