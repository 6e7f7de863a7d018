"""The committed sums of every trial, and the tables made from them."""

from pathlib import Path

import numpy as np
import pandas as pd

from bayes_cmab.summary import half_width, standard_error
from bayes_cmab.sweep import Cell

FOLDER = Path(__file__).parent / "results"
KEY = ["setting", "offline", "agent", "beta"]


def trials(name: str) -> pd.DataFrame:
    """Return the sums of the trials of a sweep, of the cells that are complete."""
    path = FOLDER / f"{name}-trials.csv.gz"
    if not path.exists():
        return pd.DataFrame(columns=[*KEY, "trial", "outcome", "mean_reward", "regret"])
    return pd.read_csv(path)


def holds(name: str, cell: Cell, count: int) -> bool:
    """Return whether the table of trials has all trials of a cell."""
    frame = trials(name)
    return int(_of_cell(frame, cell).sum()) == count


def _of_cell(frame: pd.DataFrame, cell: Cell) -> pd.Series:
    key = [cell.setting, cell.offline, cell.agent, cell.beta]
    rows: pd.Series = (frame[KEY] == key).all(axis=1)
    return rows


def _write(frame: pd.DataFrame, name: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    compression = {"method": "gzip", "mtime": 0}  # the same bytes from the same numbers
    frame.round(6).to_csv(FOLDER / f"{name}.csv.gz", index=False, compression=compression)


def add_trials(name: str, sums: pd.DataFrame) -> None:
    """Add the trials of a cell to a sweep's table, unless they are there."""
    frame = trials(name)
    merged = pd.concat([frame, sums], ignore_index=True) if len(frame) else sums
    _write(merged.drop_duplicates([*KEY, "trial"]), f"{name}-trials")


def curves(name: str) -> pd.DataFrame:
    """Return the cumulative outcome of the cells of a sweep by round, of those that have it."""
    path = FOLDER / f"{name}-curves.csv.gz"
    columns = [*KEY, "trials", "round", "mean", "se", "q05"]
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=columns)


def has_curve(name: str, cell: Cell) -> bool:
    """Return whether the table of curves has a cell."""
    return bool(_of_cell(curves(name), cell).any())


def add_curve(name: str, cell: Cell, outcomes: np.ndarray) -> None:
    """Add mean, standard error and 0.05 quantile of a cell's outcomes (trials, rounds), summed."""
    cumulative = np.cumsum(outcomes, axis=1)
    rows = pd.DataFrame(
        {
            **dict(zip(KEY, (cell.setting, cell.offline, cell.agent, cell.beta), strict=True)),
            "trials": len(outcomes),
            "round": np.arange(1, outcomes.shape[1] + 1),
            "mean": cumulative.mean(axis=0),
            "se": standard_error(cumulative),
            "q05": np.quantile(cumulative, 0.05, axis=0),
        }
    )
    frame = curves(name)
    frame = frame[~_of_cell(frame, cell)]
    _write(pd.concat([frame, rows], ignore_index=True) if len(frame) else rows, f"{name}-curves")


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Return mean and standard error of the cumulative outcome and pseudo-regret, by cell."""
    rows = []
    for key, group in frame.groupby(KEY):
        outcome, regret = group["outcome"].to_numpy(), group["regret"].to_numpy()
        rows.append(
            [
                *(*key, len(group), outcome.mean(), float(standard_error(outcome))),
                *(np.quantile(outcome, 0.05), regret.mean(), float(standard_error(regret))),
                group["seconds_per_round"].iloc[0],
            ]
        )
    columns = ["trials", "outcome_mean", "outcome_se", "outcome_q05", "regret_mean", "regret_se"]
    return pd.DataFrame(rows, columns=[*KEY, *columns, "seconds_per_round"])


def difference(frame: pd.DataFrame, agent: str, other: str) -> dict[tuple[str, int, float], str]:
    """Return agent minus other in mean reward over paired trials, with 95% intervals, as text."""
    result = {}
    for (setting, offline, beta), group in frame.groupby(["setting", "offline", "beta"]):
        own, base = (
            group[group.agent == one].set_index("trial")["mean_reward"] for one in (agent, other)
        )
        paired = (own - base).dropna().to_numpy()
        if len(paired) < 2:
            continue
        mean, half = float(paired.mean()), float(half_width(paired))
        strong = "**" if abs(mean) > half else ""
        text = f"{strong}{mean:+.1f}{strong} [{mean - half:+.1f}, {mean + half:+.1f}]"
        result[(setting, offline, beta)] = text
    return result
