"""The command that runs a study and writes its tables and figures."""

from pathlib import Path
from typing import Annotated

import typer

from bayes_cmab.cli.base import app, command, progress_bar
from bayes_cmab.cli.options import OUTPUT, RUNNING, Json, NoCache, Workers, option
from bayes_cmab.tables import print_json, print_rows, records, write_csv

STUDY_HELP = "TOML file of named sweeps, such as analysis/study.toml."


@app.command()
def reproduce(
    study: Annotated[Path, typer.Argument(dir_okay=False, help=STUDY_HELP)] = Path(
        "analysis/study.toml"
    ),
    only: Annotated[
        list[str] | None, option("Sweep to run; may be repeated. All by default.", metavar="NAME")
    ] = None,
    trials: Annotated[
        int | None,
        option("At most so many trials of each cell; by default the study's.", min=1, metavar="N"),
    ] = None,
    tables_only: Annotated[
        bool,
        option("Run nothing; summarise what the tables hold.", "--tables-only", panel=RUNNING),
    ] = False,
    workers: Workers = None,
    no_cache: NoCache = False,
    out: Annotated[
        Path | None,
        option("Folder; by default results/ and the study's name.", panel=OUTPUT, file_okay=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a study: the experiments of the paper at full size, or a small part.

    Keeps the sums of every trial and the curves of every cell in small tables,
    and writes a summary, paired differences with 95% intervals and the paper's
    two figures from them. Cells that the tables hold are not run again: the
    same command goes on where it was stopped, and with --out
    analysis/results/study it starts from the tables of the repository.

    [bold]Examples[/bold]

    bayes-cmab reproduce --trials 5 --only fixed --out results/small
    bayes-cmab reproduce --tables-only --out analysis/results/study
    """
    with command():
        from platformdirs import user_cache_path

        from bayes_cmab.ledger import Ledger, summarise_trials
        from bayes_cmab.plots import save
        from bayes_cmab.reproduction import differences, figures, missing_cells, run_study
        from bayes_cmab.study import read_study

        wanted = read_study(study).limited(tuple(only or ()), trials)
        folder = out or Path("results") / study.stem
        failed = {}
        if not tables_only:
            cache = None if no_cache else user_cache_path("bayes_cmab") / "jax"
            with progress_bar() as tell:
                failed = run_study(wanted, folder, workers=workers, cache=cache, report=tell)
        ledger = Ledger(folder, wanted.identity)
        rows = ledger.trials()
        if rows.empty:
            raise ValueError(f"{folder}: expected tables of trials, got none")
        summary = summarise_trials(rows)
        files = [
            write_csv(summary, folder / "summary.csv"),
            write_csv(differences(wanted, rows), folder / "differences.csv"),
            *save(figures(wanted, ledger.curves(), ledger.trials()), folder),
        ]
        missing = [part.cells()[0].label for _, part in missing_cells(wanted, ledger)]
        if as_json:
            print_json(
                summary=records(summary),
                missing=missing,
                failed={cell.label: reason for cell, reason in failed.items()},
                files=[str(path) for path in files],
            )
            return
        counts = summary.groupby(["setting", "offline"]).agg(
            agents=("agent", "size"), fewest_trials=("trials", "min"), most_trials=("trials", "max")
        )
        print_rows(records(counts.reset_index()), as_json=False)
        for cell, reason in failed.items():
            typer.echo(f"no result of {cell.label}: {reason}")
        if missing:
            typer.echo(f"{len(missing)} cells of the study are not in the tables")
        typer.echo(f"\nWritten to {folder}: {', '.join(path.name for path in files)}")
