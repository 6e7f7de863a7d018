"""Gap in score between a box's best action and the best of a grid of 2,001, in settings A to F.

A positive gap is what the box missed. 100 transitions and 100 outcomes of a random policy, 50 more
outcomes from elsewhere; hyperparameters fixed, fitted, and fixed with all lengthscales of the
embedding a tenth of that, where the score has many more peaks. Target: below 1e-3 everywhere.
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import time

import jax
import numpy as np
import numpyro

from bayes_cmab import MAP, Agent, Box, EmbeddingPolicy, Fixed, ResidualPolicy
from bayes_cmab.environments import SETTINGS, Environment, get_environment
from bayes_cmab.policies import Policy
from bayes_cmab.worlds import declared_scales

GRID = 2001
ROWS, UNMATCHED = 100, 50


def rows(environment: Environment, seed: int) -> tuple[np.ndarray, ...]:
    """Return s, a, r, y of a random policy, and r, y from elsewhere."""
    keys = jax.random.split(jax.random.key(seed), 5)
    s = jax.random.choice(keys[0], environment.contexts, (ROWS,))
    a = jax.random.choice(keys[1], environment.actions, (ROWS,))
    r = jax.vmap(environment.sample_intermediate)(jax.random.split(keys[2], ROWS), s, a)
    y = jax.vmap(environment.sample_outcome)(jax.random.split(keys[3], ROWS), r)
    return tuple(map(np.asarray, (s, a, r, y, *environment.sample_offline(keys[4], UNMATCHED))))


def gaps(
    environment: Environment, policy: Policy, kind: str, contexts: int, seed: int, **options: int
) -> tuple[np.ndarray, float]:
    """Return the gap in each context, and the milliseconds of an evaluation of the box."""
    low, high = (float(end) for end in np.asarray(environment.actions)[[0, -1], 0])
    settings = {
        "policy": policy,
        "dim_intermediate": environment.dim_intermediate,
        "scales": declared_scales(environment),
        "inference": MAP() if kind == "fitted" else Fixed(),
    }
    if kind == "short":
        sites = policy.default_sites(1, 1, environment.dim_intermediate)
        settings["hyperparameters"] = {
            k: v * (0.1 if k.startswith("embedding_lengthscale") else 1.0) for k, v in sites.items()
        }
    s, a, r, y, *elsewhere = rows(environment, seed)
    agents = [
        Agent(actions, **settings)
        for actions in (Box(low, high, **options), np.linspace(low, high, GRID))
    ]
    for agent in agents:
        agent.add_transitions(s, a, r)
        agent.add_outcomes(r, y)
        agent.add_outcomes(*elsewhere)
    found, spent = [], []
    for context in np.linspace(low, high, contexts):
        start = time.perf_counter()
        box = agents[0].score(context)
        spent.append(time.perf_counter() - start)
        found.append(agents[1].score(context)["score"].max() - box["score"].max())
    return np.array(found), 1e3 * float(np.median(spent))


def main() -> None:
    """Print a line for each setting, policy and kind of hyperparameters."""
    numpyro.enable_x64()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", type=int, default=31)
    parser.add_argument("--residual-contexts", type=int, default=0, help="slow: 2,001 actions")
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS))
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    worst = -np.inf
    sys.stdout.write(f"{'':32s} {'largest gap':>12s} {'smallest':>12s} {'ms a score':>11s}\n")
    for setting in chosen.settings:
        environment = get_environment(setting)
        for policy, kind, contexts in (
            (EmbeddingPolicy(), "fixed", chosen.contexts),
            (EmbeddingPolicy(), "fitted", chosen.contexts),
            (EmbeddingPolicy(), "short", chosen.contexts),
            (ResidualPolicy(), "fixed", chosen.residual_contexts),
        ):
            if not contexts:
                continue
            gap, spent = gaps(environment, policy, kind, contexts, chosen.seed)
            worst = max(worst, gap.max())
            name = f"{setting} {type(policy).__name__} {kind}"
            figures = f"{gap.max():12.2e} {gap.min():12.2e} {spent:11.1f}"
            sys.stdout.write(f"{name:32s} {figures}\n")
            sys.stdout.flush()
    sys.stdout.write(f"largest gap {worst:.2e} (target 1e-3)\n")


if __name__ == "__main__":
    main()
