"""The curves of a sweep: cumulative sums by round, over the trials, as one small table.

What figures are drawn from, and all that has to be kept of a cell to draw it again.
"""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_cmab.summary import (
    TAIL,
    Results,
    cumulative_outcome,
    cumulative_pseudo_regret,
    interval_factor,
    standard_error,
)
from bayes_cmab.sweep import Cell, cell_key
from bayes_cmab.validate import FloatArray

CURVE_COLUMNS = (
    *("setting", "offline", "agent", "beta", "trials", "round"),
    *("outcome_mean", "outcome_se", "outcome_q05", "regret_mean", "regret_se"),
)


def curve(cell: Cell, data: xr.Dataset) -> pd.DataFrame:
    """Return the curves of one cell: a row a round, with `CURVE_COLUMNS`.

    ``outcome_mean``, ``outcome_se`` and ``outcome_q05`` are the mean, its standard error (NaN for a
    single trial) and the 0.05 quantile over trials of the sum of the outcomes up to and including
    the round, counted from 1; ``regret_mean`` and ``regret_se`` those of the pseudo-regret.
    """
    outcome, regret = cumulative_outcome(data), cumulative_pseudo_regret(data)
    columns: dict[str, Any] = {
        **cell_key(cell),
        "trials": len(outcome),
        "round": np.arange(1, outcome.shape[1] + 1),
        "outcome_mean": outcome.mean(axis=0),
        "outcome_se": standard_error(outcome),
        "outcome_q05": np.quantile(outcome, TAIL, axis=0),
        "regret_mean": regret.mean(axis=0),
        "regret_se": standard_error(regret),
    }
    return pd.DataFrame(columns)[list(CURVE_COLUMNS)]


def curves(results: Results) -> pd.DataFrame:
    """Return the curves of every cell, one below the other.

    Raises
    ------
    ValueError
        If there are no results.
    """
    if not results:
        raise ValueError("results: expected at least one cell, got none")
    return pd.concat([curve(cell, data) for cell, data in results.items()], ignore_index=True)


def sums_of(results: Results) -> pd.DataFrame:
    """Return the cumulative outcome of every trial: a row a trial, with its cell."""
    return pd.concat(
        [
            pd.DataFrame({**cell_key(cell), "outcome": cumulative_outcome(data)[:, -1]})
            for cell, data in results.items()
        ],
        ignore_index=True,
    )


def interval(own: pd.DataFrame, name: str) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of the 95% t-interval of a mean of one cell's curves, by round."""
    centre = own[f"{name}_mean"].to_numpy(np.float64)
    half = interval_factor(int(own["trials"].iloc[0])) * own[f"{name}_se"].to_numpy(np.float64)
    return centre - half, centre + half
