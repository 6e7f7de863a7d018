"""Run the sweeps of `sweeps.py`, with resume, and keep their small tables in `analysis/results`.

    python analysis/run_sweeps.py            # all
    python analysis/run_sweeps.py fixed map --workers 2
    python analysis/run_sweeps.py --tables-only

The results themselves (netCDF) stay in `results/agents`, which is not committed. The tables are
written from the cells that are complete: when a sweep ends, and with `--tables-only` at any time.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: threads slow small matrices

from pathlib import Path
from typing import Annotated

import jax
import typer
from platformdirs import user_cache_path
from sweeps import SWEEPS

from bayes_cmab.experiment import run_sweep
from bayes_cmab.storage import load_sweep
from bayes_cmab.summary import paired_differences, seconds_per_round, summarise
from bayes_cmab.sweep import Chunk, Sweep

ROOT = Path(__file__).parent
REFERENCES = {"fixed": "cbmp-fixed", "map": "cbmp-map"}


def complete(sweep: Sweep, folder: Path) -> dict[str, Sweep]:
    """Return the parts of a sweep, by setting and offline size and agent, that are all there."""
    parts = {}
    for cell in sweep.cells():
        part = Sweep(
            (cell.setting,),
            (cell.agent,),
            (cell.offline,),
            (cell.beta,),
            **{
                name: getattr(sweep, name)
                for name in ("trials", "rounds", "seed", "refit_every", "coverage", "chunk")
            },
        )
        if all(Chunk(part, cell, trials).path(folder).exists() for trials in part.chunks()):
            parts[cell.label] = part
    return parts


def write_tables(name: str, folder: Path) -> None:
    """Write the summary of a sweep's complete cells, and the paired differences."""
    results, seconds = {}, {}
    for part in complete(SWEEPS[name], folder).values():
        results |= load_sweep(part, folder)
        seconds |= seconds_per_round(part, folder)
    if not results:
        return
    (ROOT / "results").mkdir(exist_ok=True)
    summary = summarise(results, seconds).sort_values(["setting", "offline", "beta", "agent"])
    summary.round(4).to_csv(ROOT / "results" / f"{name}.csv", index=False)
    reference = REFERENCES.get(name)
    if reference is None:
        return
    scenes = {(c.setting, c.offline) for c in results if c.agent == reference}
    comparable = {c: d for c, d in results.items() if (c.setting, c.offline) in scenes}
    if comparable:
        differences = paired_differences(comparable, reference)
        ordered = differences.sort_values(["setting", "offline", "beta", "agent"])
        ordered.round(4).to_csv(ROOT / "results" / f"{name}-differences.csv", index=False)


def main(
    names: Annotated[
        list[str] | None, typer.Argument(help="Sweeps to run; all by default.")
    ] = None,
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/agents"),
    workers: Annotated[int, typer.Option(help="Processes.")] = 2,
    tables_only: Annotated[bool, typer.Option(help="Run nothing.")] = False,
) -> None:
    """Run sweeps and write their tables."""
    jax.config.update("jax_enable_x64", True)
    for name in names or list(SWEEPS):
        if not tables_only:
            run_sweep(
                SWEEPS[name],
                results,
                workers=workers,
                cache=user_cache_path("bayes_cmab"),
                report=lambda done, total, name=name: typer.echo(f"{name}: {done}/{total}"),
            )
        write_tables(name, results)


if __name__ == "__main__":
    typer.run(main)
