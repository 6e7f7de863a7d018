"""The starting dose of warfarin: patients, doses, INR and harm, as a bandit with an intermediate.

A clinic gives a patient s a weekly dose a and sees the INR within days. Strokes and bleeds y are
too rare to learn from locally, so the curve f from INR to harm comes from other people's
registries. It demonstrates a method, it is no medical advice.

ln kappa = eta(s) + residual (`warfarin_patients`), and the INR depends on the dose by dose / kappa:
g(s, a) = E[y | s, a] is a function of ln a - eta(s) alone.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special, stats
from scipy.interpolate import CubicSpline
from warfarin_patients import Floats, Regression, steady_inr

LOG_DOSES = np.linspace(math.log(10.0), math.log(70.0), 61)
DOSE_RANGE = (5.0, 105.0)  # mg a week, of `mean_reward`
INR_RANGE = (1.0, 8.0)
INR_NOISE = 0.0325  # sd of the measured ln INR
PATIENT_YEARS, CELL_YEARS = 0.015, 6.0  # expected events are L times these

# Between these INRs every function whose mean is taken is smooth: the ends of the range, and the
# kinks of the harm index.
_KINKS = np.array([1.0, 2.0, 3.5, 5.0, 8.0])


class Clinic(NamedTuple):
    """What a trial is drawn from.

    Attributes
    ----------
    contexts : n rows of vkorc1 (G alleles), cyp2c9, age, log_weight (kg), amiodarone.
    eta : (n,) E[ln kappa | s].
    residuals : (n,) of ln kappa, drawn with equal probability whatever s.
    reward : from ln a - eta(s) to g(s, a).
    """

    contexts: pd.DataFrame
    eta: Floats
    residuals: Floats
    reward: CubicSpline


class Visits(NamedTuple):
    """All that is random in T rounds, whatever the doses: fields of shape (T,).

    Attributes
    ----------
    patient : row of the context.
    residual : of ln kappa. noise : standard normal, of ln INR. event : uniform, of the outcome.
    """

    patient: npt.NDArray[np.int64]
    residual: Floats
    noise: Floats
    event: Floats


def harm(inr: npt.ArrayLike) -> Floats:
    """Return L = exp(2.4 (2 - INR)+) + 0.5 exp(2.3 min((INR - 3.5)+, 1.5)): strokes, bleeds.

    The slopes follow published odds ratios; the weight and the cap are modelling choices.
    """
    inr = np.asarray(inr)
    strokes = np.exp(2.4 * np.maximum(2.0 - inr, 0.0))
    return strokes + 0.5 * np.exp(2.3 * np.clip(inr - 3.5, 0.0, 1.5))


def make_clinic(patients: pd.DataFrame, fit: Regression) -> Clinic:
    """Return the clinic whose patients and residuals are those of the data."""
    reward = expectation(lambda inr: -harm(inr), fit.fitted, fit.residuals)
    contexts = patients.drop(columns=["dose", "inr"])
    return Clinic(contexts, fit.fitted, fit.residuals, reward)


def offered_doses() -> pd.DataFrame:
    """Return the 61 doses of 10 to 70 mg a week as one column, their logarithm."""
    return pd.DataFrame({"log_dose": LOG_DOSES})


def draw_visits(clinic: Clinic, rng: np.random.Generator, rounds: int) -> Visits:
    """Draw T rounds; the first of them do not depend on how many follow."""
    u = rng.random((rounds, 4))
    patient, residual = (len(clinic.eta) * u[:, :2].T).astype(int)
    return Visits(patient, clinic.residuals[residual], special.ndtri(u[:, 2]), u[:, 3])


def answer(clinic: Clinic, visits: Visits, log_dose: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return r = ln INR and y = -Poisson(0.015 L) / 0.015 of doses that broadcast with (T,).

    More harm is never fewer events: y is a quantile, and two doses in a round share its `event`.
    """
    steady = steady_inr(np.asarray(log_dose) - clinic.eta[visits.patient] - visits.residual)
    inr = np.clip(steady * np.exp(INR_NOISE * visits.noise), *INR_RANGE)
    events = stats.poisson.ppf(visits.event, PATIENT_YEARS * harm(inr))
    return np.log(inr), 0.0 - np.maximum(events, 0.0) / PATIENT_YEARS  # the quantile of 0 is -1


def draw_registry(rng: np.random.Generator, cells: int) -> tuple[Floats, Floats]:
    """Draw D2: r = ln INR of cells about an INR of 2.4, and y = -Poisson(6 L) / 6, both (m,)."""
    inr = np.clip(np.exp(math.log(2.4) + 0.35 * rng.standard_normal(cells)), *INR_RANGE)
    return np.log(inr), -rng.poisson(CELL_YEARS * harm(inr)) / CELL_YEARS


def expectation(value: Callable[[Floats], Floats], eta: Floats, residuals: Floats) -> CubicSpline:
    """Return ln a - eta(s) to E[value(INR) | s, a], over the residuals and the noise.

    Two cubic splines: the mean over the noise at a step of 0.004, that over the residuals at 0.005.
    The error is below 1e-6 of the range of `value`, whose kinks must be among those of `harm`.
    """
    low, high = np.log(DOSE_RANGE)
    u = np.arange(low - eta.max() - 0.01, high - eta.min() + 0.01, 0.005)
    v = np.arange(u[0] - residuals.max() - 0.01, u[-1] - residuals.min() + 0.01, 0.004)
    smooth = CubicSpline(v, _over_noise(value, v), extrapolate=False)
    return CubicSpline(u, [smooth(one - residuals).mean() for one in u], extrapolate=False)


def _over_noise(value: Callable[[Floats], Floats], log_ratios: Floats) -> Floats:
    """Return E value(INR) over the noise: Gauss-Legendre rules between the kinks."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    steady = steady_inr(log_ratios)[:, None]
    ends = np.full_like(steady, 8.5)
    kinks = np.clip(np.log(_KINKS / steady) / INR_NOISE, -ends, ends)
    edges = np.concatenate([-ends, kinks, ends], axis=1)
    half = np.diff(edges)[:, :, None] / 2.0
    z = edges[:, :-1, None] + half * (1.0 + nodes)
    inr = np.clip(steady[:, :, None] * np.exp(INR_NOISE * z), *INR_RANGE)
    return np.sum(value(inr) * stats.norm.pdf(z) * half * weights, axis=(1, 2))


def mean_reward(clinic: Clinic, log_doses: Floats) -> Floats:
    """Return g(s, a) of every patient and each of (k,) log doses; shape (n, k)."""
    doses = np.exp(log_doses)
    if not np.all((doses >= DOSE_RANGE[0] - 1e-9) & (doses <= DOSE_RANGE[1] + 1e-9)):
        raise ValueError(
            f"log_doses: expected doses of {DOSE_RANGE[0]:g} to {DOSE_RANGE[1]:g} mg a week, "
            f"got {doses.min():g} to {doses.max():g}"
        )
    table: Floats = clinic.reward(log_doses - clinic.eta[:, None])
    return table
