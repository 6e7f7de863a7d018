"""CPU time of a score with ``Var_h[m_f(N(h, S))]`` as a series, over that by pairs of rows.

The default model, fitted, in settings A to F: 61 actions, 100 transitions and 100 outcomes of a
random policy, 50 more outcomes from elsewhere. The two alternate in one process; also the largest
relative difference between their ``variance_transition``.
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import numpyro
from box_gap import rows

from bayes_cmab import smoothing
from bayes_cmab.data import Data, Outcomes, Transitions
from bayes_cmab.environments import SETTINGS
from bayes_cmab.inference import MAP, maximise
from bayes_cmab.registry import make_agent
from bayes_cmab.worlds import declared_scales, environment_dims

EVERY = 3
"""Of the grid of 61 contexts, those that are scored."""


def measure(setting: str, repeats: int, seed: int) -> None:
    """Print a line for one setting."""
    environment = SETTINGS[setting]
    policy, scales = make_agent("sharp-map", environment).policy, declared_scales(environment)
    s, a, r, y, *elsewhere = rows(environment, seed)
    s, a = scales.context.standardise(s), scales.action.standardise(a)
    p, q, d = environment_dims(environment)
    more = [np.concatenate(pair) for pair in zip((r, y), elsewhere, strict=True)]
    data = Data.empty(p, q, d, 1)._replace(
        transitions=Transitions.create(s, a, r, capacity=len(r)),
        outcomes=Outcomes.create(*more, capacity=len(more[0])),
    )
    actions = scales.action.standardise(environment.actions)
    contexts = scales.context.standardise(environment.contexts)[::EVERY]

    @jax.jit
    def fitted(known: Data) -> Any:
        sites, _ = maximise(policy, known, policy.default_sites(p, q, d), MAP())
        return policy.condition(sites, known, scales)

    state = fitted(data)

    def form(slowest: float) -> Callable[..., tuple[jax.Array, jax.Array]]:
        @jax.jit
        def run(state: object) -> tuple[jax.Array, jax.Array]:
            smoothing.SLOWEST_RATIO = slowest  # read when traced, now
            found = jax.lax.map(lambda x: policy.moments(state, x, actions), contexts)
            return found.variance_transition, found.variance

        return run

    forms = {"series": form(smoothing.SLOWEST_RATIO), "pairs": form(-1.0)}
    found = {name: np.asarray(run(state)[0]) for name, run in forms.items()}
    spent: dict[str, list[float]] = {name: [] for name in forms}
    for _ in range(repeats):
        for name, run in forms.items():
            start = time.process_time()
            jax.block_until_ready(run(state))
            spent[name].append(1e3 * (time.process_time() - start) / len(contexts))
    series, pairs = (np.array(spent[name]) for name in forms)
    ratios = series / pairs
    line = (
        f"{setting}: series {np.median(series):.2f} ms a score, pairs {np.median(pairs):.2f}, "
        f"ratio {np.median(ratios):.2f} [{ratios.min():.2f}, {ratios.max():.2f}]; largest relative "
        f"difference {np.max(np.abs(found['series'] / found['pairs'] - 1.0)):.0e}\n"
    )
    sys.stdout.write(line)
    sys.stdout.flush()


def main() -> None:
    """Print a line for each setting."""
    numpyro.enable_x64()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    slowest = smoothing.SLOWEST_RATIO
    for setting in options.settings:
        measure(setting, options.repeats, options.seed)
        smoothing.SLOWEST_RATIO = slowest


if __name__ == "__main__":
    main()
