"""How often fits of the reward model fail at the gate in setting D, by the length of their chains.

    python analysis/gate_failures.py

A fit is four chains whose last pass counts. Of each data set (uniform contexts and actions, 50
unmatched outcomes) seven passes run one from the end of another, as in an agent that fits again and
again, and the last four are checked; then four long chains start there, whose R-hat tells modes
that the chains do not leave from chains that are slow. The table is
`analysis/results/gate_failures.csv`.
"""

import os
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import jax
import numpy as np
import pandas as pd
import tables
import typer

from bayes_cmab.comparison import explored
from bayes_cmab.environments import SETTINGS
from bayes_cmab.inference import NUTS
from bayes_cmab.inference.gate import Check, Gate, overall
from bayes_cmab.inference.marginal import begin, run_pass
from bayes_cmab.models import RewardModel

MODEL, OFFLINE, ROUNDS, SEEDS, THINNINGS, PASSES, CHECKED = (
    *(RewardModel(), 50, (30, 80), range(10, 16), (2, 4, 8), 7, 4),
)
LONG = NUTS(draws=2000, thinning=1, warmup=100)


def worst(checks: list[Check], criterion: str) -> float:
    """Return the value of a criterion."""
    return next(check.value for check in checks if check.criterion == criterion)


def rows_of(rounds: int, seed: int) -> list[dict[str, float]]:
    """Return a row for each length of the chains on one data set."""
    _, outcomes = explored(SETTINGS["D"], rounds, OFFLINE, jax.random.key(seed))
    rows = []
    for thinning in THINNINGS:
        sampler = NUTS(thinning=thinning)
        start = begin(MODEL, sampler, (outcomes,), jax.random.key(1))
        failed, seconds = [], []
        for number in range(PASSES):
            key, began = jax.random.fold_in(jax.random.key(2), number), time.process_time()
            fit = jax.block_until_ready(run_pass(MODEL, sampler, (outcomes,), key, start))
            start = fit.following
            if number >= PASSES - CHECKED:
                seconds.append(time.process_time() - began)
                failed.append(overall(Gate().check("reward", jax.device_get(fit))) == "failed")
        row = {"rounds": rounds, "seed": seed, "thinning": thinning}
        rows.append(row | {"failed": np.mean(failed), "seconds": np.median(seconds)})
    fit = run_pass(MODEL, LONG, (outcomes,), jax.random.key(9), start)
    checks = Gate().check("reward", jax.device_get(fit))
    long = {"long_rhat": worst(checks, "rhat"), "long_ess": worst(checks, "ess_bulk")}
    return [row | long for row in rows]


def main() -> None:
    """Write the table and print its means."""
    jax.config.update("jax_enable_x64", True)
    frame = pd.DataFrame([row for n in ROUNDS for seed in SEEDS for row in rows_of(n, seed)])
    frame.round(3).to_csv(tables.FOLDER / "gate_failures.csv", index=False)
    typer.echo(frame.groupby(["rounds", "thinning"])[["failed", "seconds"]].mean().round(2))
    typer.echo(
        frame.groupby("rounds")[["long_rhat", "long_ess"]].agg(["median", "max", "min"]).round(2)
    )


if __name__ == "__main__":
    main()
