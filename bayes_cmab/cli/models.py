"""The command that compares kernels: compare-models."""

from pathlib import Path
from typing import Annotated

import typer

from bayes_cmab.cli.base import app, command
from bayes_cmab.cli.options import OUTPUT, RUNNING, Json, option
from bayes_cmab.tables import print_json, print_rows, records, write_csv

NOTE = """Sums over the rows, each predicted from all others; difference: to the best, with its
standard error. Weight: of a predictive average (stacking). Where the largest Pareto k
exceeds its limit, the reward's figures are not to be trusted."""


@app.command("compare-models")
def compare_models(
    file: Annotated[
        Path | None, typer.Argument(help="A stored posterior; without it, data of a setting.")
    ] = None,
    setting: Annotated[
        str | None, option("A to F, see 'bayes-cmab settings'; by default D.", metavar="NAME")
    ] = None,
    rows: Annotated[
        int | None,
        option("Rounds with uniform contexts and actions; by default 100.", min=3, metavar="N"),
    ] = None,
    offline: Annotated[
        int | None, option("Unmatched outcomes; by default 50.", min=0, metavar="N")
    ] = None,
    seed: Annotated[
        int, option("Of the data and of the sampler.", panel=RUNNING, min=0, metavar="N")
    ] = 0,
    out: Annotated[
        Path | None, option("Folder for the tables, as CSV.", panel=OUTPUT, file_okay=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Rank the kernels of the reward model and of P(r | s, a) on one data set.

    Reward kernels are ranked by PSIS-LOO (hyperparameters drawn by NUTS), models of
    P(r | s, a) by the leave-one-out kernel score of r (hyperparameters at their mode).
    FILE is what Agent.posterior().to_netcdf(FILE) has written.

    [bold]Examples[/bold]

    bayes-cmab compare-models --setting E --rows 100
    bayes-cmab compare-models posterior.nc --out results/models
    """
    with command():
        import jax
        from rich.console import Console

        from bayes_cmab.comparison import compare_rewards, compare_transitions, explored, stored
        from bayes_cmab.diagnose import load_posterior
        from bayes_cmab.environments import SETTINGS
        from bayes_cmab.validate import one_of

        key = jax.random.key(seed)
        sampler_key = jax.random.fold_in(key, 4)  # the data are of the first four
        given = {"--setting": setting, "--rows": rows, "--offline": offline}
        if file is not None and (extra := [k for k, v in given.items() if v is not None]):
            raise ValueError(f"{extra[0]}: expected no such option beside a file, which has data")
        with Console(stderr=True).status("fitting the models"):
            if file is None:
                name = "D" if setting is None else setting
                environment = SETTINGS[one_of(name, "setting", list(SETTINGS))]
                sizes = (100 if rows is None else rows, 50 if offline is None else offline)
                transitions, outcomes = explored(environment, *sizes, key)
            else:
                transitions, outcomes = stored(load_posterior(file))
            tables = {
                "transition": compare_transitions(transitions).table,
                "reward": compare_rewards(outcomes, sampler_key).table,
            }
        files = []
        if out is not None:
            files = [write_csv(table, out / f"{name}.csv") for name, table in tables.items()]
        if as_json:
            print_json(
                **{name: records(table) for name, table in tables.items()},
                files=[str(path) for path in files],
            )
            return
        for name, title in (("transition", "P(r | s, a)"), ("reward", "f")):
            typer.echo(f"Models of {title}, the best first")
            print_rows(records(tables[name]), as_json=False)
        typer.echo(NOTE)
        if files:
            typer.echo(f"Written to {out}: {', '.join(path.name for path in files)}")
