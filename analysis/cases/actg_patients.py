"""The patients of the ACTG 175 case: a randomised trial of four treatments of HIV.

The table is not shipped: it stands in the R package speff2trial, which is GPL-2, and the copy in
the UCI repository lacks the CD4 count at week 96. `data/README.md` says how to make the file.
"""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import typer

VARIABLE = "BAYES_CMAB_ACTG"  # of the environment: the path of the table
ARMS = ("zidovudine", "zidovudine+didanosine", "zidovudine+zalcitabine", "didanosine")
CONTEXT = ("cd40", "cd80", "age", "karnof", "symptom")
INTERMEDIATE = ("cd420", "cd820")
OUTCOME = "cd496"
COLUMNS = (*CONTEXT, *INTERMEDIATE, OUTCOME, "arms", "str2")


class Patients(NamedTuple):
    """Patients by their history.

    Attributes
    ----------
    naive : of antiretroviral drugs: those of the trial that is replayed.
    experienced : whose outcome is known: those of D2.
    """

    naive: pd.DataFrame
    experienced: pd.DataFrame


def find(path: Path | None) -> Path:
    """Return the path of the table, given or in the environment.

    Raises
    ------
    typer.BadParameter
        If there is neither.
    """
    path = path or Path(os.environ.get(VARIABLE, ""))
    if not path.is_file():
        raise typer.BadParameter(
            f"expected the table of ACTG 175 at --data or ${VARIABLE}, got {path}; "
            "analysis/cases/data/README.md says how to make it"
        )
    return path


def read_patients(path: Path) -> Patients:
    """Return the patients; ``cd496`` is missing where it was not observed.

    Raises
    ------
    ValueError
        If a column is missing, or a value other than ``cd496``.
    """
    table = pd.read_csv(path)
    if absent := set(COLUMNS) - set(table.columns):
        raise ValueError(f"{path.name}: expected the columns {COLUMNS}, got none of {absent}")
    rows = table[list(COLUMNS)].astype(float)
    if rows.drop(columns=OUTCOME).isna().any(axis=None):
        raise ValueError(f"{path.name}: expected values everywhere but in {OUTCOME}")
    rows["arm"] = pd.Categorical.from_codes(rows.pop("arms").astype(int), ARMS)
    rows["symptom"] = rows.symptom == 1
    experienced = rows.pop("str2") == 1
    known = rows[OUTCOME].notna()
    return Patients(
        rows[~experienced].reset_index(drop=True),
        rows[experienced & known].reset_index(drop=True),
    )


def made_up(rng: np.random.Generator, count: int) -> pd.DataFrame:
    """Return a table of the same columns whose numbers mean nothing, for tests."""
    arms = rng.integers(0, 4, count)
    cd40, cd80 = rng.normal(350.0, 100.0, count), rng.normal(980.0, 300.0, count)
    cd420 = 100.0 + 0.7 * cd40 + 30.0 * (arms == 1) + rng.normal(0.0, 60.0, count)
    cd496 = 0.9 * cd420 + 20.0 * (arms == 2) + rng.normal(0.0, 90.0, count)
    return pd.DataFrame(
        {
            "cd40": cd40,
            "cd80": cd80,
            "age": rng.integers(20, 60, count),
            "karnof": rng.choice([90, 100], count),
            "symptom": rng.integers(0, 2, count),
            "cd420": cd420,
            "cd820": cd80 + rng.normal(0.0, 100.0, count),
            "cd496": np.where(rng.random(count) < 0.37, np.nan, cd496),
            "arms": arms,
            "str2": rng.integers(0, 2, count),
        }
    )
