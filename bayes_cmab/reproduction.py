"""Running a study: cell by cell, each taken into the ledger when it is complete."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from bayes_cmab.experiment import run_sweep
from bayes_cmab.ledger import Ledger, difference
from bayes_cmab.plots import plot_curves
from bayes_cmab.storage import load_sweep
from bayes_cmab.study import Study
from bayes_cmab.summary import seconds_per_round
from bayes_cmab.sweep import Cell, Sweep

CELLS = "cells"
"""Folder of the results themselves; what the tables hold of them stays if it is deleted."""


def missing_cells(study: Study, ledger: Ledger) -> list[tuple[str, Sweep]]:
    """Return the cells that a ledger lacks, as a sweep of one cell each, with its sweep's name.

    Of each sweep, those with most unmatched outcomes come first.
    """
    held = ledger.held()
    parts: dict[Cell, tuple[str, Sweep]] = {}
    for name, sweep in study.sweeps.items():
        for cell in sorted(sweep.cells(), key=lambda cell: -cell.offline):
            enough = cell in parts and parts[cell][1].trials >= sweep.trials
            if not enough and held.get(cell, 0) < sweep.trials:
                parts[cell] = (name, _alone(sweep, cell))
    return list(parts.values())


def _alone(sweep: Sweep, cell: Cell) -> Sweep:
    return replace(
        sweep,
        settings=(cell.setting,),
        agents=(cell.agent,),
        offline=(cell.offline,),
        betas=(cell.beta,),
    )


def run_study(
    study: Study,
    folder: Path,
    *,
    workers: int | None = None,
    cache: Path | None = None,
    report: Callable[[int, int, str], None] | None = None,
) -> dict[Cell, str]:
    """Run the cells of a study that the ledger in its folder lacks.

    Parameters
    ----------
    study : what to run.
    folder : of the tables; the results themselves go to ``cells`` in it.
    workers, cache : as in `run_sweep`.
    report : called with the chunks done, those in all, and the cell that is run.

    Returns
    -------
    dict
        Why a cell has no result, of those that raise `FloatingPointError`.

    Raises
    ------
    ValueError
        If the folder holds another study's tables.
    """
    ledger = Ledger(folder, study.identity)
    parts = missing_cells(study, ledger)
    total = sum(len(part.chunks()) for _, part in parts)
    done, failed = 0, {}
    for name, part in parts:
        (cell,) = part.cells()

        def tell(count: int, _: int, before: int = done, label: str = cell.label) -> None:
            if report is not None:
                report(before + count, total, label)

        try:
            run_sweep(part, folder / CELLS, workers=workers, cache=cache, report=tell)
        except FloatingPointError as error:
            failed[cell] = str(error)
        else:
            ((_, data),) = load_sweep(part, folder / CELLS).items()
            seconds = seconds_per_round(part, folder / CELLS)
            ledger.add(name, cell, data, seconds.get(cell, float("nan")))
        done += len(part.chunks())
    return failed


def differences(study: Study, trials: pd.DataFrame) -> pd.DataFrame:
    """Return the paired differences that a study asks for, of a ledger's trials."""
    pairs = [difference(trials, *pair) for pair in study.differences]
    filled = [pair for pair in pairs if len(pair)]
    return pd.concat(filled or pairs[:1] or [difference(trials, "", "")], ignore_index=True)


def figures(study: Study, curves: pd.DataFrame, trials: pd.DataFrame) -> dict[str, Figure]:
    """Return the figures of a study, as in the paper: mean and 0.05 quantile by round.

    Parameters
    ----------
    curves, trials : of a `Ledger`.
    """
    agents = list(study.figure)
    rows = curves[curves["agent"].isin(agents) & (curves["beta"] == study.beta)]
    if rows.empty:
        return {}
    rows = rows.assign(place=rows["agent"].map(agents.index))
    rows = rows.sort_values(["setting", "offline", "place", "round"])
    return {
        "mean": plot_curves(rows, "mean", agents=agents),
        "quantile": plot_curves(rows, "quantile", trials, agents=agents),
    }
