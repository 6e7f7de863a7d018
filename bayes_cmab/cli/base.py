"""The application, and what every command does before and after its work."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from typing import Annotated

import typer

app = typer.Typer(
    help="Bayesian contextual bandits whose actions work through an intermediate reward.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

AGAIN = "the same command with the same folder goes on from here"


@contextmanager
def command() -> Iterator[None]:
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


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int, str], None]]:
    """Show a bar on standard error, quiet without a terminal: tell it done, in all, and what."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("")
        yield lambda done, total, what: progress.update(
            task, completed=done, total=total, description=what
        )


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
