"""Commands that look at something: settings, agents, diagnose."""

from pathlib import Path
from typing import Annotated

import typer

from bayes_cmab.cli.base import app, command
from bayes_cmab.cli.options import (
    LIMITS,
    OUTPUT,
    Json,
    option,
)
from bayes_cmab.tables import print_json, print_rows, records


@app.command()
def settings(as_json: Json = False) -> None:
    """List the settings and what three policies earn per round.

    The oracle takes the best action in each context, the fixed one the action
    that is best on average, the random one any action.
    """
    with command():
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
    with command():
        from bayes_cmab.registry import POLICIES, agent_names, split_name

        rows = [
            {"agent": name, "description": POLICIES[split_name(name)[0]].description}
            for name in agent_names()
        ]
        print_rows(rows, as_json)


@app.command()
def diagnose(
    file: Annotated[Path, typer.Argument(help="A stored posterior.")],
    rhat: Annotated[
        float | None, option("Largest split R-hat.", panel=LIMITS, metavar="NUMBER")
    ] = None,
    ess: Annotated[
        float | None, option("Smallest effective sample size.", panel=LIMITS, metavar="NUMBER")
    ] = None,
    out: Annotated[
        Path | None,
        option("Folder of the pictures; by default FILE's name.", panel=OUTPUT, file_okay=False),
    ] = None,
    pictures: Annotated[
        bool, option("Write the pictures.", "--pictures/--no-pictures", panel=OUTPUT)
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
    with command():
        import matplotlib as mpl

        from bayes_cmab.diagnose import check_table, load_posterior, save_pictures
        from bayes_cmab.diagnostics import gate_checks
        from bayes_cmab.inference.gate import Gate, overall

        mpl.use("agg")
        if out is not None and not pictures:
            raise ValueError("--out: expected no folder with --no-pictures, got one")
        tree = load_posterior(file)
        if "optimisation" in tree.children and not (rhat is None and ess is None):
            raise ValueError("--rhat, --ess: expected neither of a posterior by SVI, got one")
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
