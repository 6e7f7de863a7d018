"""The command line: run and compare agents in the settings A to F.

Heavy modules are imported by the commands that need them, so that ``--help`` answers at once.
Results go to files and standard output, progress and errors to standard error.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bayes_cmab.tables import (
    difference_row,
    print_json,
    print_rows,
    print_tables,
    records,
    summary_row,
    write_csv,
)

if TYPE_CHECKING:
    from bayes_cmab.summary import Results
    from bayes_cmab.sweep import Sweep

app = typer.Typer(
    help="Bayesian contextual bandits whose actions work through an intermediate reward.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

SWEEP, RUNNING, OUTPUT = "What is run", "How it is run", "Output"
LIMITS = "Limits of the gate"


def _option(text: str, *names: str, panel: str = SWEEP, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


Trials = Annotated[int, _option("Trials of each agent.", min=1, metavar="N")]
Rounds = Annotated[int, _option("Rounds of a trial.", min=1, metavar="N")]
Seed = Annotated[
    int, _option("Of contexts and noise, the same for all agents.", min=0, metavar="N")
]
RefitEvery = Annotated[
    int, _option("Rounds between two fits of hyperparameters.", min=1, metavar="N")
]
Coverage = Annotated[
    bool,
    _option(
        "Measure the coverage of the intervals of the mean reward.", "--coverage/--no-coverage"
    ),
]
ChunkSize = Annotated[int, _option("Trials in a file of results.", "--chunk", min=1, metavar="N")]
Workers = Annotated[
    int | None, _option("Processes; by default one a core.", panel=RUNNING, min=1, metavar="N")
]
NoCache = Annotated[
    bool, _option("Compile everything anew.", "--no-compilation-cache", panel=RUNNING)
]
Json = Annotated[bool, _option("Print one JSON document.", "--json", panel=OUTPUT)]

SETTINGS_HELP = "A to F, see 'bayes-cmab settings'."
AGENTS_HELP = "See 'bayes-cmab agents'."
OFFLINE_HELP = "Unmatched outcomes known in advance."
BETA_HELP = "Score: mean + sqrt(beta * variance)."

SUMMARY_NOTE = """Sums over the rounds: outcome and pseudo-regret with standard errors, and the
0.05 quantile of the outcome. Covered: percent of the grid whose mean reward is
in its 50, 80 and 95% interval, at the end. Refits: rounds before which
hyperparameters were fitted (fits that failed at the gate). CPU time: of a round
in one trial, least of the chunks, as the first one of a cell may compile."""
DIFFERENCE_NOTE = "[95% interval], * where it excludes zero."

AGAIN = "the same command with the same folder goes on from here"

DEFAULT_SETTINGS = ["C"]
DEFAULT_AGENTS = [
    *("cbmp-fixed", "cbmp-map", "cbmp-nuts", "cme-fixed", "cme-map", "cme-nuts"),
    *("random", "oracle"),
]
DEFAULT_OFFLINE = ["50"]
DEFAULT_BETAS = ["0.25"]


def main() -> None:
    """Run the command line."""
    app()


@contextmanager
def _command() -> Iterator[None]:
    """Set JAX up for a command, and turn its failures into one line and exit code 1."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import jax

    jax.config.update("jax_enable_x64", True)
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise  # these are RuntimeErrors
    except KeyboardInterrupt:
        typer.echo(f"interrupted; {AGAIN}", err=True)
        raise typer.Exit(130) from None
    except (ValueError, FloatingPointError, RuntimeError, OSError) as error:
        message = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, BrokenExecutor):
            message = f"a worker was killed (out of memory?); {AGAIN}"
        typer.echo(f"error: {message}", err=True)
        raise typer.Exit(1) from error


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"bayes-cmab {version('bayes-cmab')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Declare the options before the command."""


@app.command()
def compare(
    setting: Annotated[list[str], _option(SETTINGS_HELP, metavar="NAMES")] = DEFAULT_SETTINGS,
    agents: Annotated[list[str], _option(AGENTS_HELP, metavar="NAMES")] = DEFAULT_AGENTS,
    offline: Annotated[list[str], _option(OFFLINE_HELP, metavar="NUMBERS")] = DEFAULT_OFFLINE,
    beta: Annotated[list[str], _option(BETA_HELP, metavar="NUMBERS")] = DEFAULT_BETAS,
    trials: Trials = 6,
    rounds: Rounds = 100,
    seed: Seed = 0,
    refit_every: RefitEvery = 5,
    coverage: Coverage = True,
    chunk: ChunkSize = 3,
    workers: Workers = None,
    no_cache: NoCache = False,
    reference: Annotated[
        str | None, _option("Agent to compare with; by default the first.", panel=OUTPUT)
    ] = None,
    out: Annotated[Path, _option("Folder of the results.", panel=OUTPUT, file_okay=False)] = Path(
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
    with _command():
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
        base = one_of(reference or sweep.agents[0], "reference", sweep.agents)
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
    setting: Annotated[str, _option(SETTINGS_HELP, metavar="NAME")] = "C",
    agent: Annotated[str, _option(AGENTS_HELP, metavar="NAME")] = "cbmp-map",
    offline: Annotated[int, _option(OFFLINE_HELP, min=0, metavar="N")] = 50,
    beta: Annotated[float, _option(BETA_HELP, min=0.0, metavar="NUMBER")] = 0.25,
    trials: Trials = 20,
    rounds: Rounds = 100,
    seed: Seed = 0,
    refit_every: RefitEvery = 5,
    coverage: Coverage = False,
    chunk: ChunkSize = 10,
    workers: Workers = None,
    no_cache: NoCache = False,
    out: Annotated[
        Path | None, _option("Folder to keep the results in.", panel=OUTPUT, file_okay=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Run one agent in one setting and print its summary.

    [bold]Examples[/bold]

    bayes-cmab run --setting E --agent cbmp-map --coverage
    bayes-cmab run --agent gp-fixed --beta 1 --trials 100 --json
    """
    with _command(), TemporaryDirectory() as temporary:
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
    with _command():
        from bayes_cmab.plots import save_figures
        from bayes_cmab.storage import load_options, load_sweep

        results = load_sweep(load_options(folder), folder)
        for path in save_figures(results, folder, kind):
            typer.echo(path)


@app.command()
def diagnose(
    file: Annotated[Path, typer.Argument(help="A stored posterior.")],
    rhat: Annotated[
        float | None, _option("Largest split R-hat.", panel=LIMITS, metavar="NUMBER")
    ] = None,
    ess: Annotated[
        float | None, _option("Smallest effective sample size.", panel=LIMITS, metavar="NUMBER")
    ] = None,
    out: Annotated[
        Path | None,
        _option("Folder of the pictures; by default FILE's name.", panel=OUTPUT, file_okay=False),
    ] = None,
    pictures: Annotated[
        bool, _option("Write the pictures.", "--pictures/--no-pictures", panel=OUTPUT)
    ] = True,
    as_json: Json = False,
) -> None:
    """Check a stored posterior of hyperparameters, and draw its diagnostics.

    FILE is what Agent.posterior().to_netcdf(FILE) has written. The exit code is 1
    if the convergence gate fails. Limits that are not given are those of an agent.

    [bold]Examples[/bold]

    bayes-cmab diagnose posterior.nc
    bayes-cmab diagnose posterior.nc --rhat 1.01 --ess 400 --no-pictures
    """
    with _command():
        import matplotlib as mpl

        from bayes_cmab.diagnose import check_table, load_posterior, save_pictures
        from bayes_cmab.diagnostics import gate_checks
        from bayes_cmab.inference.gate import Gate, overall

        mpl.use("agg")
        tree = load_posterior(file)
        limits = {"rhat": rhat, "ess": ess}
        gate = Gate(**{name: value for name, value in limits.items() if value is not None})
        checks = gate_checks(tree, gate)
        table, verdict = check_table(checks), overall(checks)
        folder = file.with_suffix("") if out is None else out
        files = save_pictures(tree, folder) if pictures else []
        if as_json:
            print_json(verdict=verdict, checks=records(table), files=[str(path) for path in files])
        else:
            print_rows(records(table), as_json=False)
            typer.echo(f"verdict: {verdict}")
            if files:
                typer.echo(f"Written to {folder}: {', '.join(path.name for path in files)}")
        if verdict == "failed":
            raise typer.Exit(1)


@app.command()
def settings(as_json: Json = False) -> None:
    """List the settings and what three policies earn per round.

    The oracle takes the best action in each context, the fixed one the action
    that is best on average, the random one any action.
    """
    with _command():
        from bayes_cmab.environments import SETTINGS

        rows = [
            {
                "setting": name,
                "description": environment.description,
                "dimension": environment.dim_intermediate,
                "oracle": environment.oracle_value(),
                "best_fixed": environment.best_fixed_action()[1],
                "random": environment.random_value(),
            }
            for name, environment in SETTINGS.items()
        ]
        print_rows(rows, as_json)


@app.command()
def agents(as_json: Json = False) -> None:
    """List the agents: a policy, and the inference of its hyperparameters."""
    with _command():
        from bayes_cmab.registry import POLICIES, agent_names, split_name

        rows = [
            {"agent": name, "description": POLICIES[split_name(name)[0]].description}
            for name in agent_names()
        ]
        print_rows(rows, as_json)


def _split[T](values: list[str], kind: Callable[[str], T], option: str) -> tuple[T, ...]:
    """Return the items of an option that is repeated, separated by commas, or both."""
    items = [item.strip() for value in values for item in value.split(",")]
    try:
        return tuple(kind(item) for item in items if item)
    except ValueError:
        wanted = {int: "integers", float: "numbers"}[kind]  # type: ignore[index]
        raise typer.BadParameter(
            f"expected {wanted} separated by commas, got {','.join(values)!r}",
            param_hint=f"'{option}'",
        ) from None


def _run(sweep: "Sweep", folder: Path, workers: int | None, no_cache: bool) -> "Results":
    """Run what a folder lacks of a sweep, with a progress bar, and load its results."""
    from platformdirs import user_cache_path
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from bayes_cmab.experiment import run_sweep
    from bayes_cmab.storage import load_sweep

    console = Console(stderr=True)
    columns = (TextColumn("chunks of trials"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("")
        run_sweep(
            sweep,
            folder,
            workers=workers,
            cache=None if no_cache else user_cache_path("bayes_cmab") / "jax",
            report=lambda done, total: progress.update(task, completed=done, total=total),
        )
    return load_sweep(sweep, folder)


if __name__ == "__main__":
    main()
