"""The patients of the warfarin case: doses, the INR on them, and the regression of sensitivity.

Steady state (Hamberg et al.): INR = 1 + 20 (1 - A^2)^3.61 with A = 1 / (1 + c) and
c = (0.45 dose / 168 / kappa)^0.424, dose in mg a week. kappa (mg/h) is the sensitivity of a
patient; it follows from the real dose and INR, and is regressed on the context s.
"""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

type Floats = npt.NDArray[np.float64]

PATIENTS = Path(__file__).parent / "data" / "iwpc_warfarin_subset.csv"
GENOTYPES = ("*1/*1", "*1/*2", "*1/*3", "*2/*2", "*2/*3", "*3/*3")
ALLELES = {"A/A": 0, "A/G": 1, "G/G": 2}  # of VKORC1, by the number of G


class Regression(NamedTuple):
    """Least squares of ln kappa.

    Attributes
    ----------
    coefficients : by name.
    fitted, residuals : (n,), whose sum is ln kappa.
    r_squared, sd : of the fit, and of the residuals.
    """

    coefficients: pd.Series
    fitted: Floats
    residuals: Floats
    r_squared: float
    sd: float


def read_patients(path: Path = PATIENTS) -> pd.DataFrame:
    """Return the 3,122 patients with a stable dose and complete rows: contexts, dose and inr.

    An age is the middle of its decade. Amiodarone is taken as False where it is not known.
    """
    rows = pd.read_csv(path)
    complete = rows[["age_dec", "weight_kg"]].notna().all(axis=1) & rows.vkorc1.isin(ALLELES)
    in_range = (rows.inr > 1.2) & (rows.inr <= 6.0) & (rows.dose_mg_wk < 150.0)
    rows = rows[complete & rows.cyp2c9.isin(GENOTYPES) & (rows.stable == 1) & in_range]
    columns = {
        "vkorc1": rows.vkorc1.map(ALLELES).astype(int),
        "cyp2c9": pd.Categorical(rows.cyp2c9, GENOTYPES),
        "age": 10.0 * rows.age_dec + 5.0,
        "log_weight": np.log(rows.weight_kg),
        "amiodarone": rows.amiodarone == 1,
        "dose": rows.dose_mg_wk.astype(float),
        "inr": rows.inr,
    }
    return pd.DataFrame(columns).reset_index(drop=True)


def steady_inr(log_dose_ratio: npt.ArrayLike) -> Floats:
    """Return the INR at ln(dose / kappa), of any shape."""
    c = np.exp(0.424 * (np.asarray(log_dose_ratio) + math.log(0.45 / 168.0)))
    return 1.0 + 20.0 * (1.0 - (1.0 + c) ** -2.0) ** 3.61


def log_ratio(inr: npt.ArrayLike) -> Floats:
    """Return the ln(dose / kappa) of a steady INR between 1 and 21, both excluded."""
    inr = np.asarray(inr, float)
    if not np.all((inr > 1.0) & (inr < 21.0)):
        raise ValueError(f"inr: expected values between 1 and 21, got {inr.min()} to {inr.max()}")
    c = (1.0 - ((inr - 1.0) / 20.0) ** (1.0 / 3.61)) ** -0.5 - 1.0
    return np.log(c) / 0.424 - math.log(0.45 / 168.0)


def regress(patients: pd.DataFrame) -> Regression:
    """Return the regression of ln kappa = ln dose - log_ratio(inr) on the contexts."""
    design = pd.DataFrame({"intercept": np.ones(len(patients))})
    for name, count in list(ALLELES.items())[1:]:
        design[name] = patients.vkorc1 == count
    for name in GENOTYPES[1:]:
        design[name] = patients.cyp2c9 == name
    design = design.join(patients[["age", "log_weight", "amiodarone"]])
    X = design.to_numpy(float)
    log_kappa = np.log(patients.dose.to_numpy()) - log_ratio(patients.inr)
    beta = np.linalg.lstsq(X, log_kappa)[0]
    fitted = X @ beta
    residuals = log_kappa - fitted
    share = 1.0 - float(residuals.var() / log_kappa.var())
    return Regression(
        pd.Series(beta, design.columns), fitted, residuals, share, float(residuals.std())
    )
