"""How often type-II fitting keeps a poor mode of the reward model, and what that costs.

    python analysis/traps.py [--trials 50] [--settings C]

CBMP-UCB with 50 unmatched outcomes, fitted every 5 rounds from one start (the last result), two
(the medians of the prior as well) or four, in the same trials. Along each trial the fits of the
reward model are made again; at `CHECKED` rounds the mode in use is compared with the best of
`SEARCHES` starts on the same data. NUTS is run on the data of `SAMPLED` rounds of the agent with
one start, to see how many of its draws lie at long lengthscales. Results are added ten trials at a
time to `analysis/results/traps.csv`; trials that are there are not run again. Seed 2, so that the
first 30 trials are those of the sweep `bayes`.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

from functools import partial
from pathlib import Path
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import typer
from jax import lax
from jaxtyping import Array

from bayes_cmab.acquisition import ConstantBeta
from bayes_cmab.data import Outcomes
from bayes_cmab.environments import SETTINGS, Environment
from bayes_cmab.inference import MAP, NUTS
from bayes_cmab.inference import marginal as infer_marginal
from bayes_cmab.inference.optimise import maximise_program
from bayes_cmab.models import RewardModel
from bayes_cmab.models.priors import Sites
from bayes_cmab.policies import EmbeddingPolicy
from bayes_cmab.programs import Program
from bayes_cmab.rounds import AgentSpec, Scene
from bayes_cmab.simulation import begin, play

FILE = Path(__file__).parent / "results" / "traps.csv"
ROUNDS, OFFLINE, SEED, BATCH = 100, 50, 2, 10
STARTS, SEARCHES = (1, 2, 4), 8
CHECKED, SAMPLED = (25, 50, 95), 50
LONG = 1.0
"""Between the longest lengthscales of the poor modes and of the better one in C."""
MODEL = RewardModel()
COLUMNS = [
    *("setting", "trial", "starts", "mean_reward"),
    *(f"gap_{t}" for t in CHECKED),
    *(f"longest_{t}" for t in CHECKED),
    "long_draws",
]


@partial(jax.jit, static_argnums=0)
def follow(settings: MAP, r: Array, y: Array) -> tuple[Array, Sites]:
    """Return how far the agent's fits are below the best mode (nats), and its sites, at `CHECKED`.

    Parameters
    ----------
    r, y : (OFFLINE + ROUNDS, ...) all outcomes of a trial in their order, standardised.
    """
    search = MAP(starts=SEARCHES)

    def refit(sites: Sites, t: Array) -> tuple[Sites, tuple[Array, Sites]]:
        program = Program(MODEL, (Outcomes(r, y, OFFLINE + t),))
        found, own = maximise_program(program, sites, settings)
        kept = {name: found[name] for name in sites}

        def compare() -> Array:
            _, best = maximise_program(program, kept, search)
            return own.potential - best.potential

        checked = jnp.any(t == jnp.asarray(CHECKED))
        return kept, (lax.cond(checked, compare, lambda: jnp.zeros(())), kept)

    fits = jnp.arange(0, ROUNDS, settings.every)
    _, (gaps, sites) = lax.scan(refit, MODEL.default_sites(r.shape[1]), fits)
    at = jnp.searchsorted(fits, jnp.asarray(CHECKED))
    return gaps[at], jax.tree.map(lambda leaf: leaf[at], sites)


def share_of_long_draws(r: Array, y: Array, key: Array) -> float:
    """Return the share of NUTS draws whose longest lengthscale is above `LONG`, after `SAMPLED`."""
    size = OFFLINE + SAMPLED
    arguments = (Outcomes.create(r[:size], y[:size], capacity=size),)
    sampler = NUTS()
    following = infer_marginal.begin(MODEL, sampler, arguments, key)
    for number in range(sampler.passes + 1):
        own = jax.random.fold_in(key, number)
        fit = infer_marginal.run_pass(MODEL, sampler, arguments, own, following)
        following = fit.following
    longest = jnp.max(fit.sites["reward_lengthscale"], axis=1)
    return float(jnp.mean(longest > LONG))


def told(scene: Scene, chosen: np.ndarray) -> tuple[Array, Array]:
    """Return the outcomes (r, y) of a batch of trials in their order, standardised."""
    at = jnp.asarray(chosen)[..., None]
    r = jnp.take_along_axis(scene.world.intermediates, at[..., None], axis=2)[:, :, 0]
    y = jnp.take_along_axis(scene.world.outcomes, at, axis=2)[..., 0]
    known = scene.data.outcomes
    r, y = scene.scales.intermediate.standardise(r), scene.scales.outcome.standardise(y)
    return (
        jnp.concatenate([known.intermediates, r], axis=1),
        jnp.concatenate([known.outcomes, y], axis=1),
    )


def run_batch(environment: Environment, starts: int, trials: range) -> list[dict[str, float]]:
    """Return a row a trial: reward, and gap and largest lengthscale at `CHECKED`."""
    agent = AgentSpec(EmbeddingPolicy(), MAP(starts=starts), ConstantBeta(0.25))
    options = {"rounds": ROUNDS, "offline": OFFLINE, "seed": SEED, "trials": trials}
    rounds = play(agent, environment, **options).rounds
    r, y = told(begin(agent, environment, **options), rounds.action_index)
    rows = []
    for i, trial in enumerate(trials):
        gaps, sites = follow(agent.inference, r[i], y[i])
        longest = jnp.max(sites["reward_lengthscale"], axis=1)
        sampled = {}
        if starts == 1:
            key = jax.random.fold_in(jax.random.key(SEED), trial)
            sampled = {"long_draws": round(share_of_long_draws(r[i], y[i], key), 4)}
        rows.append(
            {"trial": trial, "starts": starts}
            | {"mean_reward": round(float(rounds.mean_reward[i].sum()), 4)}
            | {f"gap_{t}": round(float(x), 4) for t, x in zip(CHECKED, gaps, strict=True)}
            | {f"longest_{t}": round(float(x), 4) for t, x in zip(CHECKED, longest, strict=True)}
            | sampled
        )
    return rows


def main(
    trials: Annotated[int, typer.Option(help="Of each setting, a multiple of ten.")] = 50,
    settings: Annotated[str, typer.Option(help="Letters.")] = "C",
) -> None:
    """Run the trials that are missing."""
    jax.config.update("jax_enable_x64", True)
    keys = ["setting", "starts", "trial"]
    done = pd.read_csv(FILE) if FILE.exists() else pd.DataFrame(columns=keys)
    for setting in settings:
        for first in range(0, trials, BATCH):
            for starts in STARTS:
                if (done[keys] == [setting, starts, first]).all(axis=1).any():
                    continue
                rows = run_batch(SETTINGS[setting], starts, range(first, first + BATCH))
                frame = pd.DataFrame([{"setting": setting} | row for row in rows], columns=COLUMNS)
                frame.to_csv(FILE, mode="a", header=not FILE.exists(), index=False)
                typer.echo(f"{setting} {first} {starts}")


if __name__ == "__main__":
    typer.run(main)
