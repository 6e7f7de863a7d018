"""What is known of the warfarin case before any agent plays it, beside what was stated of it.

python analysis/cases/warfarin.py
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from warfarin_clinic import LOG_DOSES, Clinic, expectation, harm, make_clinic, mean_reward
from warfarin_patients import ALLELES, Floats, Regression, read_patients, regress

LINEAR = np.log(np.arange(5.0, 106.0))  # every mg of 5 to 105 a week

# As the case was proposed; rewards and doses on a linear grid of 5 to 105 mg. The regression is
# reproduced. Rewards and doses are not: they are as far off as a few hundred residuals would be.
STATED = {
    "patients": 3122,
    "R^2": 0.233,
    "residual sd": 0.481,
    "intercept": -1.0801,
    "A/G": 0.180,
    "G/G": 0.412,
    "*1/*2": -0.219,
    "*1/*3": -0.315,
    "*2/*2": -0.419,
    "*2/*3": -0.743,
    "*3/*3": -1.042,
    "age": -0.0069,
    "log_weight": 0.270,
    "amiodarone": -0.282,
}
STATED_REWARDS = {
    "oracle": -1.86,
    "best single dose": -2.05,
    "f(E[INR]), lowest": -2.22,
    "random": -4.94,
}
STATED_DOSES = {"A/A": 27.0, "A/G": 32.0, "G/G": 42.0}


def references_by_patient(clinic: Clinic, log_doses: Floats) -> dict[str, Floats]:
    """Return the log doses (n,) of policies that know the law, on (k,) log doses.

    Where f is flat, an INR of 2 to 3.5, f(E[r]) has ties: the lowest dose or the middle one.
    """
    table = mean_reward(clinic, log_doses)
    chosen = {
        "oracle": log_doses[table.argmax(axis=1)],
        "best single dose": np.full(len(table), log_doses[table.mean(axis=0).argmax()]),
        "35 mg": np.full(len(table), math.log(35.0)),
    }
    for name, of_inr, to_inr in (("INR", np.positive, np.positive), ("ln INR", np.log, np.exp)):
        mean = expectation(of_inr, clinic.eta, clinic.residuals)
        plugged = -harm(to_inr(mean(log_doses - clinic.eta[:, None])))
        ties = plugged == plugged.max(axis=1, keepdims=True)
        lowest, count = ties.argmax(axis=1), ties.sum(axis=1)  # in a row, as E[r] grows with a
        chosen[f"f(E[{name}]), lowest"] = log_doses[lowest]
        chosen[f"f(E[{name}]), middle"] = log_doses[lowest + (count - 1) // 2]
    return chosen


def references(clinic: Clinic, log_doses: Floats) -> pd.DataFrame:
    """Return reward and mean dose (mg) of those policies, and of a random dose."""
    rows = {
        name: (float(clinic.reward(own - clinic.eta).mean()), float(np.exp(own).mean()))
        for name, own in references_by_patient(clinic, log_doses).items()
    }
    table = mean_reward(clinic, log_doses)
    rows["random"] = (float(table.mean()), float(np.exp(log_doses).mean()))
    return pd.DataFrame.from_dict(rows, orient="index", columns=["reward", "dose"])


def best_doses(clinic: Clinic, log_doses: Floats) -> pd.Series:
    """Return the median of the best doses (mg) by VKORC1."""
    best = pd.Series(np.exp(log_doses[mean_reward(clinic, log_doses).argmax(axis=1)]))
    return best.groupby(clinic.contexts.vkorc1.to_numpy()).median().set_axis(list(ALLELES))


def regression_rows(patients: pd.DataFrame, fit: Regression) -> Iterable[tuple[str, ...]]:
    """Return name, value here and value stated, of the regression."""
    here = {"patients": len(patients), "R^2": fit.r_squared, "residual sd": fit.sd}
    for name, value in {**here, **fit.coefficients}.items():
        yield str(name), f"{value:.5g}", f"{STATED[str(name)]:g}"


def reward_rows(linear: pd.DataFrame, log: pd.DataFrame) -> Iterable[tuple[str, ...]]:
    """Return policy, reward and mean dose on both grids, and the reward stated."""
    for name, values in zip(linear.index, np.hstack([linear, log]), strict=True):
        texts = (format(x, form) for x, form in zip(values, 2 * (".3f", ".1f"), strict=True))
        yield name, *texts, f"{STATED_REWARDS[name]:g}" if name in STATED_REWARDS else ""


def dose_rows(linear: pd.Series, log: pd.Series) -> Iterable[tuple[str, ...]]:
    """Return genotype, median best dose on both grids, and the one stated."""
    for name, stated in STATED_DOSES.items():
        yield name, f"{linear[name]:.1f}", f"{log[name]:.1f}", f"{stated:g}"


def print_table(title: str, header: Sequence[str], rows: Iterable[tuple[str, ...]]) -> None:
    """Print a table of texts, all but the first column to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for j, name in enumerate(header):
        table.add_column(name, justify="right" if j else "left", no_wrap=not j)
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)


def main() -> None:
    """Print the facts of the case: patients, regression, reference policies, best doses."""
    patients = read_patients()
    fit = regress(patients)
    clinic = make_clinic(patients, fit)
    rewards = [references(clinic, doses) for doses in (LINEAR, LOG_DOSES)]
    doses = [best_doses(clinic, doses) for doses in (LINEAR, LOG_DOSES)]
    grids = ("5 to 105", "10 to 70")
    print_table("Regression of ln kappa", ("", "here", "stated"), regression_rows(patients, fit))
    print_table(
        "Mean reward and dose, by the offered doses (mg a week)",
        ("policy", grids[0], "dose", grids[1], "dose", "stated"),
        reward_rows(*rewards),
    )
    print_table(
        "Median best dose, by the offered doses",
        ("VKORC1", *grids, "stated"),
        dose_rows(*doses),
    )


if __name__ == "__main__":
    typer.run(main)
