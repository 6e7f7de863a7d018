"""One self-contained HTML page on a live agent: what it saw, what it believes, whether to trust it.

The page asks for nothing outside itself: figures are inline SVG.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayes_cmab import report_figures as figures
from bayes_cmab import report_page as html
from bayes_cmab.decision import PARTS
from bayes_cmab.files import versions, write_atomically
from bayes_cmab.history import Ask
from bayes_cmab.report_posterior import hyperparameters
from bayes_cmab.report_style import short
from bayes_cmab.session import Session
from bayes_cmab.settings import Settings
from bayes_cmab.validate import FloatArray

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

MOST_ROWS = 15


class Subject(NamedTuple):
    """What a report is about.

    Attributes
    ----------
    settings, session : of the agent, prepared for the next ask.
    context : (p,) of the scores, as numbers; None if there is none yet.
    scores : the table of `Agent.score`; None if there is no context yet, or if it failed.
    posterior : the tree of `Agent.posterior`, with draws.
    problem : why there are no scores, or no posterior; else empty.
    """

    settings: Settings
    session: Session
    context: FloatArray | None
    scores: "pd.DataFrame | None"
    posterior: "xr.DataTree | None"
    problem: str


def write_report(subject: Subject, path: Path) -> Path:
    """Write the page, atomically; return where."""
    state = subject.session.state
    sites = state.sites if state.inferred is None else {}  # with draws, no fixed ones are in use
    sections = {
        "Data so far": _data(subject),
        "Outcomes over the rounds": _rounds(subject),
        "Uncertainty budget": _budget(subject),
        "Scores": _scores(subject),
        "Hyperparameters": hyperparameters(sites, subject.posterior),
        "Refits and the gate": _refits(subject),
        "Settings and versions": _settings(subject.settings),
    }
    written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    subtitle = f"{type(subject.settings.policy).__name__}, written {written}"
    text = html.page("Report of a bandit agent", subtitle, _tiles(subject), sections)
    write_atomically(path, lambda p: _write(p, text))
    return path


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _tiles(subject: Subject) -> list[str]:
    ledger = subject.session.ledger
    transitions, outcomes, rewards = ledger.sizes()
    mean = float(np.mean(ledger.rewards()[2])) if rewards else "none"
    return [
        html.tile(len(ledger.tickets), "decisions"),
        html.tile(transitions, "transitions (s, a, r)"),
        html.tile(outcomes, "outcomes (r, y)"),
        html.tile(len(ledger.waiting()), "tickets waiting for r or y"),
        html.tile(mean, "mean outcome of the decisions"),
    ]


def _data(subject: Subject) -> str:
    ledger = subject.session.ledger
    r, y = ledger.matched_and_unmatched()
    elsewhere = len(ledger.outcomes)
    s, a, intermediates = ledger.transitions()
    if not len(intermediates) and not len(y) and not ledger.tickets:
        return html.paragraph("Nothing yet: no decision, no transition, no outcome.")
    tickets = ledger.tickets
    waiting = [tickets[number] for number in ledger.waiting()]
    counts = [
        ("transitions from decisions", len(intermediates) - len(ledger.intermediates)),
        ("transitions from elsewhere", len(ledger.intermediates)),
        ("outcomes from decisions", len(y) - elsewhere),
        ("outcomes from elsewhere", elsewhere),
        ("tickets that wait for an intermediate", sum(t.intermediate is None for t in waiting)),
        ("tickets that wait for an outcome", sum(t.outcome is None for t in waiting)),
        (
            "outcomes that wait for their intermediate",
            sum(t.outcome is not None for t in waiting if t.intermediate is None),
        ),
        ("abandoned tickets", sum(t.abandoned for t in tickets)),
    ]
    every_r = np.concatenate([intermediates, ledger.unmatched])
    every_y = np.concatenate([ledger.outcomes, ledger.rewards()[2]])
    columns = []
    d = every_r.shape[1]
    names = ["intermediate"] if d == 1 else [f"intermediate {j}" for j in range(d)]
    for labels, rows, units in (
        (subject.settings.contexts.labels, s, subject.session.state.scales.context),
        (subject.settings.columns.labels, a, subject.session.state.scales.action),
        (names, every_r, subject.session.state.scales.intermediate),
        (["outcome"], every_y[:, None], subject.session.state.scales.outcome),
    ):
        center, scale = np.atleast_1d(units.center), np.atleast_1d(units.scale)
        for j, label in enumerate(labels):
            ends = (rows[:, j].min(), rows[:, j].max()) if len(rows) else ("none", "none")
            middle = float(center[j]) if abs(center[j]) > 1e-12 * scale[j] else 0.0
            columns.append((label, middle, float(scale[j]), *map(_float, ends)))
    drawn = ""
    if len(every_r):
        drawn = html.drawing(
            figures.draw_data(
                (r[elsewhere:], y[elsewhere:]), (r[:elsewhere], y[:elsewhere]), intermediates
            ),
            "Scatter plot of outcomes over intermediates",
            "What f is learned from. Ticks at the foot are intermediates of transitions: where "
            "they lie away from all outcomes, f is extrapolated.",
        )
    header = ("column", "unit: centre", "unit: scale", "smallest", "largest")
    return (
        html.table(("rows", "number"), counts)
        + drawn
        + "<h3>Columns and their units</h3>"
        + html.table(header, columns)
    )


def _asks(subject: Subject) -> list[Ask]:
    return [event for event in subject.session.events if isinstance(event, Ask)]


def _rounds(subject: Subject) -> str:
    asks = _asks(subject)
    if not asks:
        return html.paragraph("No decision yet.")
    outcomes = np.array(
        [np.nan if t.outcome is None else t.outcome for t in subject.session.ledger.tickets]
    )
    means, deviations = (
        np.array([ask.figures[name] for ask in asks]) for name in ("mean", "standard_deviation")
    )
    chosen = np.array([ticket.action for ticket in subject.session.ledger.tickets])
    return html.drawing(
        figures.draw_rounds(outcomes, means, deviations, subject.settings.columns.restore(chosen)),
        "Outcomes, expectations and chosen actions over the rounds",
        "Dots: the outcomes that have arrived, at the round of their decision. Line and band: what "
        "the agent expected when it decided; the band is of the mean g and has no outcome noise in "
        "it. Below: the actions chosen.",
    )


def _budget(subject: Subject) -> str:
    asks = _asks(subject)
    if not asks:
        return html.paragraph("No decision yet.")
    parts = {name: np.array([ask.figures[name] for ask in asks]) for name in PARTS}
    last = {name: float(values[-1]) for name, values in parts.items()}
    return _budget_in_words(last) + html.drawing(
        figures.draw_budget(parts),
        "Standard deviation of the chosen action's mean reward, and its parts, over the rounds",
        "What is unknown of the chosen action. Blue parts shrink with outcomes (r, y), the "
        "others with transitions (s, a, r).",
    )


def _budget_in_words(last: dict[str, float]) -> str:
    """Say what would help to know, from the parts of the variance of a decision."""
    total = sum(last.values())
    if not total > 0.0:
        return html.paragraph("At the last decision nothing was uncertain.")
    reward = sum(value for name, value in last.items() if "reward" in name) / total
    more = "outcomes (r, y)" if reward > 0.5 else "transitions (s, a, r)"
    return html.paragraph(
        f"At the last decision {100 * reward:.0f}% of the variance was about f and "
        f"{100 * (1 - reward):.0f}% about P(r | s, a): more {more} would help most."
    )


def _scores(subject: Subject) -> str:
    if subject.scores is None:
        kind = "" if subject.context is None else "warning"
        return html.paragraph(subject.problem, kind)
    columns = list(subject.settings.columns.names)
    shown = [*columns, "mean", "standard_deviation", "score"]
    top = figures.best_first(subject.scores, subject.settings.columns.names).head(MOST_ROWS)
    rows = [[_float(value) for value in row] for row in top[shown].itertuples(index=False)]
    where = _context_in_words(subject)
    drawn = html.drawing(
        figures.draw_scores(subject.scores, subject.settings.columns.names),
        "Mean, interval and score of the actions",
        f"What the next decision{where} would see, in the units of the outcome.",
    )
    return drawn + f"<h3>The {len(rows)} highest scores</h3>" + html.table(shown, rows)


def _context_in_words(subject: Subject) -> str:
    if subject.context is None or not len(subject.context):
        return ""
    values = subject.settings.contexts.restore(subject.context[None, :])
    listed = (f"{name} = {short(value[0])}" for name, value in values.items())
    return f" with {', '.join(listed)}"


def _refits(subject: Subject) -> str:
    fits = subject.session.fits
    if not fits:
        return html.paragraph("No fit of the hyperparameters yet.")
    rows = [
        (
            *(fit.round, fit.program, fit.reason, fit.verdict or "not checked"),
            "yes" if fit.continued else "no",
            "in use" if fit.accepted else "not in use",
        )
        for fit in reversed(fits)
    ]
    header = ("before round", "program", "reason", "verdict", "continued", "result")
    text = html.table(header, rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        text += html.paragraph(f"The last {MOST_ROWS} of {len(rows)} fits.", "soft")
    checks = {fit.program: fit for fit in fits if fit.checks}
    listed = [(fit.round, *check) for fit in checks.values() for check in fit.checks]
    if listed:
        names = ("round", "program", "criterion", "worst at", "value", "limit", "verdict")
        text += "<h3>Checks of the last fit of each program</h3>" + html.table(names, listed)
    return text


def _settings(settings: Settings) -> str:
    names = ("policy", "reward_function", "inference", "acquisition", "gate", "beta", "box", "seed")
    given = {name: getattr(settings, name) for name in names}
    rows = {name: repr(value) for name, value in given.items() if value is not None}
    packages = ("bayes-cmab", "jax", "numpyro", "arviz", "numpy", "xarray")
    return html.table(("", ""), (rows | versions(*packages)).items())


def _float(value: object) -> object:
    return float(value) if isinstance(value, np.floating | np.integer) else value
