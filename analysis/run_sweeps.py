"""Run the sweeps of `sweeps.py` and keep their small tables in `analysis/results`.

    python analysis/run_sweeps.py            # all
    python analysis/run_sweeps.py fixed map --workers 2
    python analysis/run_sweeps.py --collect  # run nothing, take in what results/agents holds

The results themselves (netCDF) stay in `results/agents`, which is not committed. The sums of each
trial are kept in `<sweep>-trials.csv.gz` as the cells complete, and the cumulative outcome by round
in `<sweep>-curves.csv.gz`; cells that are in the first are not run again, and the tables are made
from them.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import jax
import numpy as np
import pandas as pd
import tables
import typer
import xarray as xr
from platformdirs import user_cache_path
from sweeps import SWEEPS

from bayes_cmab.experiment import run_sweep
from bayes_cmab.storage import load_sweep
from bayes_cmab.summary import seconds_per_round
from bayes_cmab.sweep import Chunk, Sweep


def parts(sweep: Sweep) -> list[Sweep]:
    """Return a sweep cell by cell, those with most unmatched outcomes first."""
    cells = sorted(sweep.cells(), key=lambda cell: -cell.offline)
    return [
        replace(
            sweep,
            settings=(cell.setting,),
            agents=(cell.agent,),
            offline=(cell.offline,),
            betas=(cell.beta,),
        )
        for cell in cells
    ]


def take_in(name: str, part: Sweep, folder: Path) -> None:
    """Add a cell's trials to the sweep's table of trials."""
    ((cell, data),) = load_sweep(part, folder).items()
    best = data["best_mean_reward"] - data["mean_reward"]
    sums = pd.DataFrame(
        {
            "setting": cell.setting,
            "offline": cell.offline,
            "agent": cell.agent,
            "beta": cell.beta,
            "trial": data["trial"].values,
            "outcome": data["outcome"].sum("round").values,
            "mean_reward": data["mean_reward"].sum("round").values,
            "regret": best.sum("round").values,
            "refits": (data["fits"] > 0).sum("round").values,
            "failed_fits": data["failures"].sum("round").values,
            **coverage_columns(data),
            "seconds_per_round": seconds_per_round(part, folder).get(cell, float("nan")),
        }
    )
    tables.add_trials(name, sums)
    tables.add_curve(name, cell, data["outcome"].transpose("trial", "round").values)


def coverage_columns(data: xr.Dataset) -> dict[str, np.ndarray]:
    """Return the coverage of ``g`` by round and level, where it was measured."""
    if "coverage" not in data:
        return {}
    return {
        f"coverage_{100 * float(level):.0f}_after_{int(checkpoint)}": data["coverage"]
        .sel(checkpoint=checkpoint, level=level)
        .values
        for checkpoint in data["checkpoint"].values
        for level in data["level"].values
    }


def main(
    names: Annotated[
        list[str] | None, typer.Argument(help="Sweeps to run; all by default.")
    ] = None,
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/agents"),
    workers: Annotated[int, typer.Option(help="Processes.")] = 2,
    collect: Annotated[bool, typer.Option(help="Run nothing.")] = False,
) -> None:
    """Run sweeps and write their tables."""
    jax.config.update("jax_enable_x64", True)
    for name in names or list(SWEEPS):
        for part in parts(SWEEPS[name]):
            (cell,) = part.cells()
            stored = all(Chunk(part, cell, t).path(results).exists() for t in part.chunks())
            known = tables.holds(name, cell, part.trials)
            if known and not (stored and not tables.has_curve(name, cell)):
                continue
            if not collect:
                try:
                    run_sweep(part, results, workers=workers, cache=user_cache_path("bayes_cmab"))
                except FloatingPointError as error:  # the cell has no result, and says why
                    typer.echo(f"{name}: {cell.label}: {error}")
                    continue
            elif not stored:
                continue
            take_in(name, part, results)
            typer.echo(f"{name}: {cell.label}")


if __name__ == "__main__":
    typer.run(main)
