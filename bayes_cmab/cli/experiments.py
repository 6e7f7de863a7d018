"""Commands that run agents: compare, run, plot."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from bayes_cmab.cli.base import app, command, progress_bar
from bayes_cmab.cli.options import (
    AGENTS_HELP,
    BETA_HELP,
    OFFLINE_HELP,
    OUTPUT,
    SETTINGS_HELP,
    ChunkSize,
    Coverage,
    Json,
    NoCache,
    RefitEvery,
    Rounds,
    Seed,
    Trials,
    Workers,
    option,
)
from bayes_cmab.tables import (
    difference_row,
    print_json,
    print_tables,
    records,
    summary_row,
    write_csv,
)

if TYPE_CHECKING:
    from bayes_cmab.summary import Results
    from bayes_cmab.sweep import Sweep

SUMMARY_NOTE = """Sums over the rounds: outcome and pseudo-regret with standard errors, and the
0.05 quantile of the outcome. Covered: percent of the grid whose mean reward is
in its 50, 80 and 95% interval, at the end. Refits: rounds before which
hyperparameters were fitted (fits that failed at the gate). CPU time: of a round
in one trial, least of the chunks, as the first one of a cell may compile."""
DIFFERENCE_NOTE = "[95% interval], * where it excludes zero."

DEFAULT_SETTINGS = ["C"]
DEFAULT_AGENTS = [
    *("cbmp-fixed", "cbmp-map", "cbmp-nuts", "cme-fixed", "cme-map", "cme-nuts"),
    *("sharp-map", "random", "oracle"),
]
DEFAULT_OFFLINE = ["50"]
DEFAULT_BETAS = ["0.25"]


@app.command()
def compare(
    setting: Annotated[list[str], option(SETTINGS_HELP, metavar="NAMES")] = DEFAULT_SETTINGS,
    agents: Annotated[list[str], option(AGENTS_HELP, metavar="NAMES")] = DEFAULT_AGENTS,
    offline: Annotated[list[str], option(OFFLINE_HELP, metavar="NUMBERS")] = DEFAULT_OFFLINE,
    beta: Annotated[list[str], option(BETA_HELP, metavar="NUMBERS")] = DEFAULT_BETAS,
    trials: Trials = 6,
    rounds: Rounds = 100,
    seed: Seed = 0,
    refit_every: RefitEvery = 5,
    coverage: Coverage = True,
    chunk: ChunkSize = 3,
    workers: Workers = None,
    no_cache: NoCache = False,
    reference: Annotated[
        str | None, option("Agent to compare with; by default the first.", panel=OUTPUT)
    ] = None,
    out: Annotated[Path, option("Folder of the results.", panel=OUTPUT, file_okay=False)] = Path(
        "results/compare"
    ),
    as_json: Json = False,
) -> None:
    """Compare agents in the same trials.

    Prints and writes a summary, paired differences with 95% intervals, and
    figures. --setting, --agents, --offline and --beta take several values, with
    commas or repeated. The same command again goes on where it was stopped.

    [bold]Examples[/bold]

    bayes-cmab compare --setting B --offline 0,50 --trials 100
    bayes-cmab compare --agents cbmp-map,gp-map --beta 0.25,1 --out results/beta
    """
    with command():
        from bayes_cmab.plots import save_figures
        from bayes_cmab.storage import save_options
        from bayes_cmab.summary import paired_differences, seconds_per_round, summarise
        from bayes_cmab.sweep import Sweep
        from bayes_cmab.validate import one_of

        sweep = Sweep(
            _split(setting, str, "--setting"),
            _split(agents, str, "--agents"),
            _split(offline, int, "--offline"),
            _split(beta, float, "--beta"),
            *(trials, rounds, seed, refit_every, coverage, chunk),
        )
        base = one_of(
            sweep.agents[0] if reference is None else reference, "reference", sweep.agents
        )
        results = _run(sweep, out, workers, no_cache)
        summary = summarise(results, seconds_per_round(sweep, out))
        differences = paired_differences(results, base)
        files = [
            write_csv(summary, out / "summary.csv"),
            write_csv(differences, out / "differences.csv"),
            *save_figures(results, out),
            save_options(sweep, out),
        ]
        if as_json:
            print_json(
                sweep=asdict(sweep),
                summary=records(summary),
                differences=records(differences),
                files=[str(path) for path in files],
            )
            return
        print_tables(summary, summary_row)
        typer.echo(SUMMARY_NOTE)
        print_tables(differences, difference_row)
        typer.echo(f"Minus {base}, in the same trials. {DIFFERENCE_NOTE}")
        typer.echo(f"\nWritten to {out}: {', '.join(path.name for path in files)}")


@app.command()
def run(
    setting: Annotated[str, option(SETTINGS_HELP, metavar="NAME")] = "C",
    agent: Annotated[str, option(AGENTS_HELP, metavar="NAME")] = "cbmp-map",
    offline: Annotated[int, option(OFFLINE_HELP, min=0, metavar="N")] = 50,
    beta: Annotated[float, option(BETA_HELP, min=0.0, metavar="NUMBER")] = 0.25,
    trials: Trials = 20,
    rounds: Rounds = 100,
    seed: Seed = 0,
    refit_every: RefitEvery = 5,
    coverage: Coverage = False,
    chunk: ChunkSize = 10,
    workers: Workers = None,
    no_cache: NoCache = False,
    out: Annotated[
        Path | None, option("Folder to keep the results in.", panel=OUTPUT, file_okay=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Run one agent in one setting and print its summary.

    [bold]Examples[/bold]

    bayes-cmab run --setting E --agent cbmp-map --coverage
    bayes-cmab run --agent gp-fixed --beta 1 --trials 100 --json
    """
    with command(), TemporaryDirectory() as temporary:
        from bayes_cmab.summary import seconds_per_round, summarise
        from bayes_cmab.sweep import Sweep

        common = (trials, rounds, seed, refit_every, coverage, chunk)
        sweep = Sweep((setting,), (agent,), (offline,), (beta,), *common)
        folder = out or Path(temporary)
        results = _run(sweep, folder, workers, no_cache)
        summary = summarise(results, seconds_per_round(sweep, folder))
        if as_json:
            print_json(sweep=asdict(sweep), summary=records(summary))
        else:
            print_tables(summary, summary_row)
            typer.echo(SUMMARY_NOTE)


@app.command()
def plot(
    folder: Annotated[Path, typer.Argument(file_okay=False, help="Of a comparison's results.")],
    kind: Annotated[str, typer.Option("--format", help="png, pdf or svg.")] = "png",
) -> None:
    """Draw the figures of a comparison again.

    [bold]Example[/bold]

    bayes-cmab plot results/compare --format pdf
    """
    with command():
        from bayes_cmab.plots import save_figures
        from bayes_cmab.storage import load_options, load_sweep

        results = load_sweep(load_options(folder), folder)
        for path in save_figures(results, folder, kind):
            typer.echo(path)


def _split[T](values: list[str], kind: Callable[[str], T], option: str) -> tuple[T, ...]:
    """Return the items of an option that is repeated, separated by commas, or both."""
    items = [item.strip() for value in values for item in value.split(",")]
    try:
        return tuple(kind(item) for item in items if item)
    except ValueError:
        wanted = "integers" if kind is int else "numbers"
        raise typer.BadParameter(
            f"expected {wanted} separated by commas, got {','.join(values)!r}",
            param_hint=f"'{option}'",
        ) from None


def _run(sweep: "Sweep", folder: Path, workers: int | None, no_cache: bool) -> "Results":
    """Run what a folder lacks of a sweep, with a progress bar, and load its results."""
    from platformdirs import user_cache_path

    from bayes_cmab.experiment import run_sweep
    from bayes_cmab.storage import load_sweep

    with progress_bar() as tell:
        run_sweep(
            sweep,
            folder,
            workers=workers,
            cache=None if no_cache else user_cache_path("bayes_cmab") / "jax",
            report=lambda done, total: tell(done, total, "chunks of trials"),
        )
    return load_sweep(sweep, folder)
