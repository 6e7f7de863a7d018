"""Coverage of the intervals of g when P(r | s, a) is known exactly: only f has to be learned.

    python analysis/calibration.py [--trials 30] [--settings ABCD]

In settings A to D r is normal given (s, a), so mean and variance of `g = E[f(R) | s, a]` under the
reward model's posterior are known in closed form, for given hyperparameters and over draws of them.
A trial has 50 unmatched outcomes and then one outcome a round, whose context and action are uniform
on the grid. Coverage is the share of the 61 x 61 grid whose exact `g` lies in the central interval.
Results are added trial by trial to `analysis/results/calibration.csv`; a trial that is there is not
run again. Seed 3.
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

from bayes_cmab.baselines import atom_moments
from bayes_cmab.data import Outcomes
from bayes_cmab.environments import SETTINGS, Environment
from bayes_cmab.inference import MAP, NUTS, SVI, maximise_program
from bayes_cmab.inference.marginal import begin, run_pass
from bayes_cmab.models import RewardModel
from bayes_cmab.models.priors import Sites
from bayes_cmab.posteriors import condition_reward
from bayes_cmab.programs import Program
from bayes_cmab.rounds import LEVELS

FILE = Path(__file__).parent / "results" / "calibration.csv"
OFFLINE, CHECKPOINTS, SEED = 50, (20, 50, 100), 3
MODEL = RewardModel()
SAMPLERS = {"svi": SVI(), "nuts": NUTS()}


@partial(jax.jit, static_argnums=0)
def draw_outcomes(environment: Environment, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return OFFLINE unmatched rows, then rows of uniform contexts and actions."""
    keys = jax.random.split(key, 4)
    known_r, known_y = environment.sample_offline(keys[0], OFFLINE)
    rounds = jnp.arange(CHECKPOINTS[-1])
    noise = jax.vmap(lambda t: environment.draw(keys[1], t))(rounds)
    s = jax.random.choice(keys[2], environment.contexts, (len(rounds),))
    a = jax.random.choice(keys[3], environment.actions, (len(rounds),))
    r, y = jax.vmap(environment.answer)(noise, s, a)
    return jnp.concatenate([known_r, r]), jnp.concatenate([known_y, y])


@partial(jax.jit, static_argnums=0)
def covered(environment: Environment, sites: Sites, outcomes: Outcomes) -> jax.Array:
    """Return the coverage at LEVELS, averaged over draws of the sites (draws, ...)."""
    s, a = environment.contexts[:, 0], environment.actions[:, 0]
    grid = jax.vmap(lambda x: jax.vmap(lambda u: environment.intermediate_means(x, u))(a))(s)
    means = grid[:, :, 0].reshape(len(s) * len(a), -1)
    variances = jnp.full_like(means, environment.intermediate_noise**2)

    def one(own: Sites) -> tuple[jax.Array, jax.Array]:
        reward = condition_reward(MODEL, MODEL.hyperparameters(own), outcomes)
        return atom_moments(MODEL, reward, means, variances)

    each, inner = jax.lax.map(one, sites)
    mean = jnp.mean(each, axis=0)
    deviation = jnp.sqrt(jnp.mean(inner, axis=0) + jnp.var(each, axis=0))
    error = jnp.abs(environment.mean_reward_table().ravel() - mean)
    widths = jax.scipy.stats.norm.ppf(0.5 + 0.5 * jnp.asarray(LEVELS))
    return jnp.mean(1.0 * (error[:, None] <= widths[None, :] * deviation[:, None]), axis=0)


@partial(jax.jit, static_argnums=1)
def fit_map(outcomes: Outcomes, settings: MAP, start: Sites) -> Sites:
    """Return the mode of the reward model's hyperparameters."""
    found, _ = maximise_program(Program(MODEL, (outcomes,)), start, settings)
    return {name: found[name] for name in start}


def run_trial(setting: str, trial: int) -> list[dict[str, float | int | str]]:
    """Return the coverage of every inference at every checkpoint."""
    environment = SETTINGS[setting]
    key = jax.random.fold_in(jax.random.key(SEED), trial)
    r, y = draw_outcomes(environment, key)
    default = MODEL.default_sites(environment.dim_intermediate)
    found, following, rows = default, {}, []
    for checkpoint in CHECKPOINTS:
        size = OFFLINE + checkpoint
        outcomes = Outcomes.create(r[:size], y[:size], capacity=size)
        found = fit_map(outcomes, MAP(), found)
        sites = {
            name: jax.tree.map(lambda x: x[None], s)
            for name, s in (("fixed", default), ("map", found))
        }
        for name, sampler in SAMPLERS.items():
            passes = 2 if name in following else sampler.passes + 1
            if name not in following:
                following[name] = begin(MODEL, sampler, (outcomes,), key)
            for number in range(passes):
                own = jax.random.fold_in(key, 1000 * checkpoint + number)
                fit = run_pass(MODEL, sampler, (outcomes,), own, following[name])
                following[name] = fit.following
            sites[name] = {site: fit.sites[site] for site in default}
        for name, own in sites.items():
            share = np.asarray(covered(environment, own, outcomes))
            labels = {"setting": setting, "trial": trial, "rounds": checkpoint, "inference": name}
            pairs = zip(LEVELS, share, strict=True)
            rows.append(labels | {f"{100 * level:.0f}": round(float(x), 6) for level, x in pairs})
    return rows


def main(
    trials: Annotated[int, typer.Option(help="Of each setting.")] = 30,
    settings: Annotated[str, typer.Option(help="Letters.")] = "ABCD",
) -> None:
    """Run the trials that are missing."""
    jax.config.update("jax_enable_x64", True)
    done = pd.read_csv(FILE) if FILE.exists() else pd.DataFrame(columns=["setting", "trial"])
    for trial in range(trials):
        for setting in settings:
            if ((done["setting"] == setting) & (done["trial"] == trial)).any():
                continue
            rows = pd.DataFrame(run_trial(setting, trial))
            rows.to_csv(FILE, mode="a", header=not FILE.exists(), index=False)
            typer.echo(f"{setting} {trial}")


if __name__ == "__main__":
    typer.run(main)
