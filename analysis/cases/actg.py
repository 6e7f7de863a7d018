"""What is known of the ACTG 175 case before any agent plays it, beside what was stated of it.

python analysis/cases/actg.py --data actg175.csv
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import typer
from actg_patients import ARMS, INTERMEDIATE, OUTCOME, Patients, find, read_patients
from warfarin import print_table

type Floats = npt.NDArray[np.float64]

# As the case was proposed. The model of f behind the transfer is not known: see `facts`.
STATED = {
    "naive, with an outcome": 557,
    "experienced, with an outcome": 785,
    "sd of y, naive": 173,
    "R^2 of y on r, all": 0.46,
    "transfer of f to naive, bias": 0.4,
    "transfer of f to naive, RMSE": 129,
    "direct effect of arm 2 given cd420, all": 39,
}


class Fit(NamedTuple):
    """Least squares: coefficients and their standard errors, (k,), and R^2."""

    coefficients: Floats
    errors: Floats
    r_squared: float


def least_squares(X: Floats, y: Floats) -> Fit:
    """Return the least squares of y on the columns of X."""
    beta = np.linalg.lstsq(X, y)[0]
    residuals = y - X @ beta
    variance = residuals @ residuals / (len(y) - X.shape[1])
    errors = np.sqrt(variance * np.diag(np.linalg.inv(X.T @ X)))
    return Fit(beta, errors, 1.0 - residuals.var() / y.var())


def quadratic(rows: pd.DataFrame) -> Floats:
    """Return the columns 1, r, r^2 and the product of the two r."""
    r = rows[list(INTERMEDIATE)].to_numpy() / 1000.0
    return np.column_stack([np.ones(len(r)), r, r**2, r.prod(axis=1)])


def arm_columns(rows: pd.DataFrame) -> Floats:
    """Return the indicators of arms 1, 2, 3."""
    codes = rows.arm.cat.codes.to_numpy()
    return (codes[:, None] == np.arange(1, len(ARMS))).astype(float)


def facts(patients: Patients) -> dict[str, float]:
    """Return what is known; f is quadratic in r, fitted to the experienced."""
    naive, experienced = patients.naive.dropna(), patients.experienced
    both = pd.concat([naive, experienced])
    f = least_squares(quadratic(experienced), experienced[OUTCOME].to_numpy())
    gap = naive[OUTCOME].to_numpy() - quadratic(naive) @ f.coefficients
    found = {
        "naive": len(patients.naive),
        "naive, with an outcome": len(naive),
        "experienced, with an outcome": len(experienced),
        "sd of y, naive": naive[OUTCOME].std(),
        "R^2 of y on r, all": least_squares(quadratic(both), both[OUTCOME].to_numpy()).r_squared,
        "transfer of f to naive, bias": gap.mean(),
        "transfer of f to naive, standard error of the bias": gap.std() / np.sqrt(len(gap)),
        "transfer of f to naive, RMSE": np.sqrt(np.mean(gap**2)),
    }
    for name, rows in (("all", both), ("naive", naive)):
        X = np.column_stack([np.ones(len(rows)), rows.cd420, arm_columns(rows)])
        direct = least_squares(X, rows[OUTCOME].to_numpy())
        for arm in (1, 2, 3):
            key = f"direct effect of arm {arm} given cd420, {name}"
            found[key] = direct.coefficients[1 + arm]
            found[f"{key}, standard error"] = direct.errors[1 + arm]
    return found


def arms(naive: pd.DataFrame) -> pd.DataFrame:
    """Return by arm: naive patients, outcomes, means of cd420 and cd496 with standard error."""
    groups = naive.groupby("arm", observed=False)
    return pd.DataFrame(
        {
            "patients": groups.size(),
            "outcomes": groups[OUTCOME].count(),
            "cd420": groups.cd420.mean(),
            "cd496": groups[OUTCOME].mean(),
            "error": groups[OUTCOME].sem(),
        }
    )


def rows_of(found: dict[str, float]) -> Iterable[tuple[str, ...]]:
    """Return name, value here and value stated."""
    for name, value in found.items():
        yield name, f"{value:.4g}", f"{STATED[name]:g}" if name in STATED else ""


def arm_rows(table: pd.DataFrame) -> Iterable[tuple[str, ...]]:
    """Return the rows of `arms` as text."""
    for name, row in table.iterrows():
        counts = (f"{row[key]:.0f}" for key in ("patients", "outcomes"))
        means = (f"{row[key]:.1f}" for key in ("cd420", "cd496", "error"))
        yield str(name), *counts, *means


def main(
    data: Annotated[
        Path | None, typer.Option(help="The table; by default $BAYES_CMAB_ACTG.")
    ] = None,
) -> None:
    """Print the facts of the case: patients, transfer of f, direct effects, arms."""
    patients = read_patients(find(data))
    header: Sequence[str] = ("", "here", "stated")
    print_table("ACTG 175", header, rows_of(facts(patients)))
    header = ("arm", "patients", "with y", "mean cd420", "mean cd496", "its error")
    print_table("Naive patients by arm", header, arm_rows(arms(patients.naive)))


if __name__ == "__main__":
    typer.run(main)
