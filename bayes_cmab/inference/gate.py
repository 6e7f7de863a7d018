"""Whether a fit of the hyperparameters can be relied on: the convergence gate.

ArviZ computes the statistics; what counts as a failure is decided here. A statistic that cannot be
computed is never taken for a good one: it is *not assessable* (a single chain has no R-hat), or it
*failed* (chains that do not move, values that are not finite).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from bayes_cmab.inference.fit import Fit
from bayes_cmab.validate import FloatArray, number_within

FEWEST_RATIOS = 25
"""Importance ratios that it takes to estimate Pareto k."""

type Verdict = Literal["ok", "failed", "not assessable"]


class Check(NamedTuple):
    """One statistic of one program's fit, at its worst site.

    Attributes
    ----------
    program, criterion : what was checked.
    site : where it is worst, with its index; empty for statistics of the sampler.
    value, limit : of the statistic.
    verdict : of this statistic.
    """

    program: str
    criterion: str
    site: str
    value: float
    limit: float
    verdict: Verdict


@dataclass(frozen=True)
class Gate:
    """Limits of the statistics of a fit.

    The defaults are for decisions: of 300 fits with four chains of 32 independent draws at most
    one fails (a test), and 20 effective draws put the Monte Carlo error of a posterior mean at
    0.22 standard deviations. For reporting a posterior take more steps and
    ``Gate(rhat=1.01, ess=400)``.

    Attributes
    ----------
    rhat : largest rank-normalised split R-hat.
    ess : smallest bulk and tail effective sample size.
    divergent : largest share of divergent transitions.
    bfmi : smallest Bayesian fraction of missing information of a chain.
    pareto_k : largest Pareto k of the importance ratios of a variational guide, or of one of its
        elements where the posterior is a product of theirs. Above 0.7 its draws could not be
        corrected by importance weights; above one, the default, it misses so much of the
        posterior's tails that the ratios have no mean.
    elbo_drift : largest change, in nats, of the mean lower bound between the third and the last
        quarter of the optimisation, beyond four standard errors.
    """

    rhat: float = 1.2
    ess: float = 20.0
    divergent: float = 0.05
    bfmi: float = 0.3
    pareto_k: float = 1.0
    elbo_drift: float = 1.0

    def __post_init__(self) -> None:
        for name in ("rhat", "ess", "divergent", "bfmi", "pareto_k", "elbo_drift"):
            number_within(getattr(self, name), name, 0.0, math.inf, ends=True)

    def check(self, program: str, fit: Fit) -> list[Check]:
        """Return the checks of a fit (as NumPy arrays)."""
        if "log_q" in fit.stats:
            return self._check_guide(program, fit)
        return self._check_chains(program, fit)

    def _check_chains(self, program: str, fit: Fit) -> list[Check]:
        from arviz_stats.base import array_stats  # slow to import

        stats = {name: np.asarray(value) for name, value in fit.stats.items()}
        columns = _columns(fit)
        still = [name for name, x in columns.items() if np.any(np.ptp(x, axis=1) == 0.0)]
        # A deterministic site may be a constant; chains that stand still do so at different places.
        constant = [name for name in still if np.ptp(columns[name]) == 0.0]
        frozen = still if len(still) == len(columns) else sorted(set(still) - set(constant))
        columns = {name: x for name, x in columns.items() if name not in constant}
        finite = all(np.all(np.isfinite(x)) for x in columns.values())
        checks = [
            _limit(program, "finite", "", 0.0 if finite else 1.0, above=0.0),
            _limit(program, "frozen chains", ", ".join(frozen[:1]), float(len(frozen)), above=0.0),
            _limit(
                program, "divergent", "", float(stats["diverging"].mean()), above=self.divergent
            ),
        ]
        chains, steps = stats["energy"].shape
        if frozen or not finite or steps < 4:
            verdict: Verdict = "failed" if frozen or not finite else "not assessable"
            names = ("rhat", "ess_bulk", "ess_tail", "bfmi")
            limits = (self.rhat, self.ess, self.ess, self.bfmi)
            return checks + [
                Check(program, name, "", np.nan, limit, verdict)
                for name, limit in zip(names, limits, strict=True)
            ]

        def rhat(x: FloatArray) -> float:
            return float(array_stats.rhat(x, chain_axis=0, draw_axis=1))

        def bulk(x: FloatArray) -> float:
            return float(array_stats.ess(x, chain_axis=0, draw_axis=1, method="bulk"))

        def tail(x: FloatArray) -> float:
            levels = (0.05, 0.95)
            return float(array_stats.ess(x, 0, 1, method="tail", prob=levels))

        if chains < 2:
            checks.append(Check(program, "rhat", "", np.nan, self.rhat, "not assessable"))
        else:
            site, worst = max(((n, rhat(x)) for n, x in columns.items()), key=_bad_if_high)
            checks.append(_limit(program, "rhat", site, worst, above=self.rhat))
        for name, statistic in (("ess_bulk", bulk), ("ess_tail", tail)):
            site, worst = min(((n, statistic(x)) for n, x in columns.items()), key=_bad_if_low)
            checks.append(_limit(program, name, site, worst, below=self.ess))
        bfmi = np.min(array_stats.bfmi(stats["energy"], chain_axis=0, draw_axis=1))
        return [*checks, _limit(program, "bfmi", "", float(bfmi), below=self.bfmi)]

    def _check_guide(self, program: str, fit: Fit) -> list[Check]:
        stats = {name: np.asarray(value) for name, value in fit.stats.items()}
        ratio = stats["log_p"] - stats["log_q"]
        ratio = ratio.reshape(ratio.shape[0] * ratio.shape[1], -1)  # a column for each element
        finite = bool(np.all(np.isfinite(ratio)))
        if finite and len(ratio) < FEWEST_RATIOS:
            pareto = Check(program, "pareto_k", "", np.nan, self.pareto_k, "not assessable")
        else:
            ks = [_pareto_k(column) for column in ratio.T] if finite else [np.nan]
            worst = int(np.argmax(ks))
            element = f"element {worst}" if len(ks) > 1 else ""
            pareto = _limit(program, "pareto_k", element, ks[worst], above=self.pareto_k)
        elbo = stats["elbo"]
        quarter = len(elbo) // 4
        if quarter < 4:
            drift = Check(program, "elbo_drift", "", np.nan, self.elbo_drift, "not assessable")
        else:
            last, before = elbo[-quarter:], elbo[-2 * quarter : -quarter]
            error = np.sqrt((last.var(ddof=1) + before.var(ddof=1)) / quarter)
            change = max(abs(float(last.mean() - before.mean())) - 4.0 * float(error), 0.0)
            drift = _limit(program, "elbo_drift", "", change, above=self.elbo_drift)
        return [
            _limit(program, "finite", "", 0.0 if finite else 1.0, above=0.0),
            pareto,
            drift,
        ]


def overall(checks: Iterable[Check]) -> Verdict:
    """Return the worst verdict: failed, then not assessable, then ok."""
    verdicts = {check.verdict for check in checks}
    if "failed" in verdicts:
        return "failed"
    return "not assessable" if "not assessable" in verdicts or not verdicts else "ok"


def _columns(fit: Fit) -> dict[str, FloatArray]:
    """Return every scalar of the trace, (chains, steps), by name and index."""
    columns = {}
    for name, value in fit.trace.items():
        draws = np.asarray(value, np.float64)
        flat = draws.reshape(*draws.shape[:2], -1)
        for i in range(flat.shape[2]):
            columns[name if draws.ndim == 2 else f"{name}[{i}]"] = flat[:, :, i]
    return columns


def _pareto_k(ratio: FloatArray) -> float:
    """Return Pareto k of logarithms of importance ratios; minus infinity if they are all equal."""
    from arviz_stats.base import array_stats  # slow to import

    if np.ptp(ratio) == 0.0:
        return -np.inf
    return float(array_stats.psislw(ratio)[1])


def _limit(
    program: str,
    criterion: str,
    site: str,
    value: float,
    *,
    above: float = np.inf,
    below: float = -np.inf,
) -> Check:
    """Return a check that fails above or below a limit, and where the value is not a number."""
    limit = above if np.isfinite(above) else below
    verdict: Verdict = "ok" if below <= value <= above else "failed"
    return Check(program, criterion, site, value, limit, verdict)


def _bad_if_high(pair: tuple[str, float]) -> float:
    return np.inf if np.isnan(pair[1]) else pair[1]


def _bad_if_low(pair: tuple[str, float]) -> float:
    return -np.inf if np.isnan(pair[1]) else pair[1]
