"""The small tables of a study: the sums of every trial and the curves of every cell.

They are all that the summaries and figures need, and small enough to be kept under version control;
a cell that they hold is not run again. The results themselves may be thrown away.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import xarray as xr

from bayes_cmab.curves import CURVE_COLUMNS, curve
from bayes_cmab.files import write_atomically
from bayes_cmab.storage import write_json
from bayes_cmab.summary import TAIL, half_width, standard_error
from bayes_cmab.sweep import Cell, cell_key

KEY = ["setting", "offline", "agent", "beta"]
SUMS = ("outcome", "mean_reward", "regret", "refits", "failed_fits")
SECONDS = "seconds_per_round"
SIZE = "size"
IDENTITY_FILE = "ledger.json"


class Ledger:
    """The tables of a study in a folder, two a sweep.

    Parameters
    ----------
    folder : with ``<sweep>-trials.csv.gz`` and ``<sweep>-curves.csv.gz``.
    identity : of the study, if it is to be checked; written with the first cell.

    Raises
    ------
    ValueError
        If the folder holds the tables of a study with another identity.
    """

    def __init__(self, folder: Path, identity: dict[str, int] | None = None) -> None:
        self.folder, self.identity = folder, identity
        path = folder / IDENTITY_FILE
        if identity is None or not path.exists():
            return
        found = json.loads(path.read_text(encoding="utf-8"))
        if found != identity:
            raise ValueError(
                f"{path}: expected tables of {identity}, got those of {found}; choose another "
                "folder"
            )

    def trials(self, *names: str) -> pd.DataFrame:
        """Return the trials of the named sweeps, or of all; of a cell in several, of the longest.

        Returns
        -------
        pandas.DataFrame
            One row a trial: `KEY` and ``trial``; the sums over the rounds of ``outcome``,
            ``mean_reward`` and pseudo-``regret``; ``refits``, rounds before which hyperparameters
            were fitted, and ``failed_fits`` at the gate; ``coverage_95_after_20`` and so on, where
            it was measured; ``seconds_per_round`` of its cell.
        """
        columns = [*KEY, "trial", *SUMS, SECONDS]
        frame = self._read("trials", names, [*columns, SIZE], sizes=True)
        order = frame.sort_values(SIZE, ascending=False, kind="stable").index
        kept = frame.loc[order].drop_duplicates([*KEY, "trial"]).sort_index()
        return kept.drop(columns=SIZE)

    def curves(self, *names: str) -> pd.DataFrame:
        """Return the curves of the named sweeps, or of all; see `curves.curve`.

        Of a cell in several, those of the most trials.
        """
        frame = self._read("curves", names, list(CURVE_COLUMNS))
        order = frame.sort_values("trials", ascending=False, kind="stable").index
        return frame.loc[order].drop_duplicates([*KEY, "round"]).sort_index()

    def held(self) -> dict[Cell, int]:
        """Return how many trials of each cell are there, up to the first that is missing."""
        found = {}
        for key, own in self.trials().groupby(KEY)["trial"]:
            setting, offline, agent, beta = cast(tuple[str, int, str, float], key)
            numbers = set(own)
            first = next(n for n in range(len(numbers) + 1) if n not in numbers)
            found[Cell(setting, int(offline), agent, float(beta))] = first
        return found

    def add(self, name: str, cell: Cell, data: xr.Dataset, seconds: float) -> None:
        """Put the results of a cell into a sweep's tables, in the place of what they have of it."""
        sums = pd.DataFrame(
            {
                **cell_key(cell),
                "trial": data["trial"].values,
                "outcome": data["outcome"].sum("round").values,
                "mean_reward": data["mean_reward"].sum("round").values,
                "regret": (data["best_mean_reward"] - data["mean_reward"]).sum("round").values,
                "refits": (data["fits"] > 0).sum("round").values,
                "failed_fits": data["failures"].sum("round").values,
                **_coverage(data),
                SECONDS: seconds,
            }
        )
        if self.identity is not None:
            path = self.folder / IDENTITY_FILE
            write_atomically(path, partial(write_json, content=self.identity))
        for kind, rows in (("curves", curve(cell, data)), ("trials", sums)):
            frame = self._read(kind, (name,), list(rows.columns))
            others = frame[~_of_cell(frame, cell)]
            joined = pd.concat([others, rows], ignore_index=True) if len(others) else rows
            write_atomically(self.folder / f"{name}-{kind}.csv.gz", partial(_write, joined))

    def _read(
        self, kind: str, names: tuple[str, ...], columns: list[str], *, sizes: bool = False
    ) -> pd.DataFrame:
        """Return the tables of a kind as one, with how many rows a cell has in its table."""
        ending = f"-{kind}.csv.gz"
        paths = (
            [self.folder / f"{name}{ending}" for name in names]
            if names
            else sorted(self.folder.glob(f"*{ending}"))
        )
        frames = [pd.read_csv(path) for path in paths if path.exists()]
        if sizes:
            frames = [f.assign(**{SIZE: f.groupby(KEY)["trial"].transform("size")}) for f in frames]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)


def _of_cell(frame: pd.DataFrame, cell: Cell) -> "pd.Series[bool]":
    rows: pd.Series[bool] = (frame[KEY] == list(cell_key(cell).values())).all(axis=1)
    return rows


def _write(frame: pd.DataFrame, path: Path) -> None:
    compression: dict[str, Any] = {"method": "gzip", "mtime": 0}  # the same bytes each time
    figures = {name: 6 for name in frame.columns if name not in KEY}
    frame.round(figures).to_csv(path, index=False, compression=compression)


def _coverage(data: xr.Dataset) -> dict[str, np.ndarray]:
    if "coverage" not in data:
        return {}
    return {
        f"coverage_{100 * float(level):.0f}_after_{int(rounds)}": data["coverage"]
        .sel(checkpoint=rounds, level=level)
        .values
        for rounds in data["checkpoint"].values
        for level in data["level"].values
    }


def summarise_trials(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each cell of a table of trials.

    Returns
    -------
    pandas.DataFrame
        `KEY`, ``trials``; ``outcome_mean`` with its standard error ``outcome_se`` and the 0.05
        quantile ``outcome_q05``; ``regret_mean`` and ``regret_se``; the means of ``refits``,
        ``failed_fits`` and the coverage; ``seconds_per_round``.
    """
    names = [str(name) for name in frame]
    averaged = [n for n in names if n.startswith(("refits", "failed_fits", "coverage_"))]
    rows = []
    for _, own in frame.groupby(KEY, sort=False):
        outcome, regret = own["outcome"].to_numpy(), own["regret"].to_numpy()
        rows.append(
            {
                **own[KEY].iloc[0].to_dict(),
                "trials": len(own),
                "outcome_mean": outcome.mean(),
                "outcome_se": float(standard_error(outcome)),
                "outcome_q05": float(np.quantile(outcome, TAIL)),
                "regret_mean": regret.mean(),
                "regret_se": float(standard_error(regret)),
                **own[averaged].mean().to_dict(),
                SECONDS: own[SECONDS].iloc[0],
            }
        )
    return pd.DataFrame(rows)


def difference(frame: pd.DataFrame, agent: str, reference: str) -> pd.DataFrame:
    """Compare two agents in the trials that both have.

    Parameters
    ----------
    frame : of `Ledger.trials`.

    Returns
    -------
    pandas.DataFrame
        One row for each setting, offline size and exploration weight: ``agent`` minus
        ``reference`` in the sum of the mean rewards, ``difference``, with ``low`` and ``high`` of
        its 95% t-interval over ``trials`` pairs; scenes with fewer than two are left out.
    """
    rows = []
    for (setting, offline, beta), scene in frame.groupby(["setting", "offline", "beta"]):
        own, base = (
            scene[scene["agent"] == name].set_index("trial")["mean_reward"]
            for name in (agent, reference)
        )
        paired = (own - base).dropna().to_numpy()
        if len(paired) < 2:
            continue
        mean, half = float(paired.mean()), float(half_width(paired))
        where = {"setting": setting, "offline": offline, "beta": beta}
        names = {"agent": agent, "reference": reference, "trials": len(paired)}
        rows.append(where | names | {"difference": mean, "low": mean - half, "high": mean + half})
    columns = ["setting", "offline", "beta", "agent", "reference", "trials"]
    return pd.DataFrame(rows, columns=[*columns, "difference", "low", "high"])
