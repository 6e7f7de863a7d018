"""Play the case studies; the trials are kept in `analysis/results/case-*.csv`.

    python analysis/cases/play.py warfarin
    python analysis/cases/play.py warfarin cbmp-nuts:registry --trials 10
    python analysis/cases/play.py actg --data actg175.csv

Without names, all of the case. A trial that its table holds is not played again: the same command
with more trials adds them.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import actg_play
import typer
import warfarin_play
from actg_patients import ARMS, VARIABLE, find
from platformdirs import user_cache_path
from runner import RESULTS, Row, Task, run

SEED = 5  # seed 0 was used while developing
REFERENCE = "none"  # the data of a policy that learns nothing

WARFARIN = {
    **{f"{name}:{REFERENCE}": 20 for name in (*warfarin_play.REFERENCES, "random")},
    **{f"{name}-fixed:{data}": 20 for name in ("cbmp", "cme") for data in ("registry", "own")},
    **{f"{name}-map:{data}": 20 for name in ("cbmp", "cme") for data in ("registry", "own")},
    "residual-map:registry": 20,
    "gaussian-map:registry": 20,
    "plugin-map:registry": 20,
    "gp-fixed:own": 20,
    "gp-map:own": 20,
    "cbmp-map:both": 20,
    "sharp-map:registry": 20,
    "cbmp-nuts:registry": 20,
    "cbmp-nuts:own": 14,
}
"""Policies with their data, and how many trials they have by default."""

ACTG = {
    **{f"{name}:{REFERENCE}": 20 for name in (*ARMS, "best arm", "random", actg_play.THUMB)},
    "cbmp-map:m=50": 20,
    "gp-map:own": 20,
    "cbmp-map:own": 20,
    "residual-map:m=50": 20,
    "cbmp-fixed:m=50": 20,
    "cme-map:m=50": 20,
    "cme-fixed:m=50": 20,
    "cbmp-fixed:own": 20,
    "cbmp-map:m=300": 20,
    "residual-map:m=300": 20,
    "cbmp-fixed:m=300": 20,
    "sharp-map:m=50": 20,
    "cbmp-nuts:m=50": 20,
    "cbmp-nuts:own": 20,
}

app = typer.Typer(add_completion=False, help="Play the case studies.")


def tasks(
    players: dict[str, int], names: list[str] | None, trials: int | None, rounds: int, seed: int
) -> list[Task]:
    """Return the trials of the named policies.

    Raises
    ------
    typer.BadParameter
        If a name is not among the players.
    """
    chosen = names or list(players)
    for name in chosen:
        if name not in players:
            raise typer.BadParameter(f"expected one of {', '.join(players)}, got {name}")
    return [
        Task(*name.split(":"), seed, trial, rounds)
        for name in chosen
        for trial in range(players[name] if trials is None else trials)
    ]


def _run(case: str, todo: list[Task], play: Callable[[Task], Row], workers: int) -> None:
    path = RESULTS / f"case-{case}.csv"
    run(path, todo, play, workers, user_cache_path("bayes_cmab"), typer.echo)


Names = Annotated[list[str] | None, typer.Argument(help="Policy and data; all by default.")]
Trials = Annotated[int | None, typer.Option(help="Of each; by default as in the docs.")]
Workers = Annotated[int, typer.Option(help="Processes.")]


@app.command()
def warfarin(
    names: Names = None,
    trials: Trials = None,
    rounds: Annotated[int, typer.Option(help="Patients.")] = warfarin_play.ROUNDS,
    seed: int = SEED,
    workers: Workers = 2,
) -> None:
    """Play the starting dose of warfarin."""
    _run("warfarin", tasks(WARFARIN, names, trials, rounds, seed), warfarin_play.play, workers)


@app.command()
def actg(
    names: Names = None,
    data: Annotated[Path | None, typer.Option(help=f"The table; by default ${VARIABLE}.")] = None,
    trials: Trials = None,
    rounds: Annotated[int, typer.Option(help="Patients.")] = actg_play.ROUNDS,
    seed: int = SEED,
    workers: Workers = 2,
) -> None:
    """Replay ACTG 175."""
    os.environ[VARIABLE] = str(find(data))  # of the workers too
    _run("actg", tasks(ACTG, names, trials, rounds, seed), actg_play.play, workers)


if __name__ == "__main__":
    app()
