"""Time the package's trials against the NumPy reference: setting C, m = 50, 100 rounds.

The package plays a batch of 100 trials, at once or in four chunks of 25; its time a trial is the
batch's over 100, after compilation. The reference plays single trials of the same batch. Both run
on one core, in one process, in turn: what else the machine does hits both. The time to compile is
beside it.

    .venv/bin/python analysis/benchmarks/trial_speed.py [--json] [--repeats 7] [--trials 100]
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


import numpy as np
import numpyro
from handover import draw_inputs, fixed_hyperparameters
from numpy_reference import AGENTS, SETTINGS, play_trial

from bayes_cmab.environments import get_environment
from bayes_cmab.registry import make_agent
from bayes_cmab.rounds import AgentSpec
from bayes_cmab.simulation import play

SETTING, OFFLINE, ROUNDS, SEED, BETA = "C", 50, 100, 0, 0.25
CHUNK = 25
TARGETS = {"cbmp-fixed": 0.25, "cme-fixed": 0.5}
"""Largest share of the reference's time that the package may take."""

REFERENCE_TRIALS = 5
"""Trials of the reference in one repeat, of which the median counts."""

type Times = tuple[float, float]


def timed(function: Callable[[], object]) -> Times:
    """Return the wall time and the CPU time of a call, in seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - wall, time.process_time() - cpu


def package(agent: AgentSpec, trials: int, chunk: int) -> None:
    """Play a batch of trials in chunks."""
    for start in range(0, trials, chunk):
        play(
            agent,
            get_environment(SETTING),
            rounds=ROUNDS,
            offline=OFFLINE,
            seed=SEED,
            trials=range(start, min(start + chunk, trials)),
        )


def measure(name: str, trials: int, repeats: int) -> dict[str, object]:
    """Return the times of one agent.

    Each entry of ``milliseconds_a_trial`` and ``compile_seconds`` is a pair (wall, CPU).
    """
    environment = get_environment(SETTING)
    environment.mean_reward_table()
    agent = make_agent(name, environment, BETA)
    scorer = AGENTS[name](fixed_hyperparameters(agent, environment))
    inputs = draw_inputs(
        environment, rounds=ROUNDS, offline=OFFLINE, seed=SEED, trials=range(REFERENCE_TRIALS)
    )
    batches = {f"chunks of {CHUNK}": min(CHUNK, trials), f"{trials} at once": trials}
    once = timed(lambda: play_trial(SETTINGS[SETTING], scorer, inputs[0], BETA))
    first = {label: timed(lambda c=c: package(agent, c, c)) for label, c in batches.items()}
    runs: dict[str, list[Times]] = {label: [] for label in (*batches, "NumPy")}
    for _ in range(repeats):
        for label, chunk in batches.items():
            wall, cpu = timed(lambda c=chunk: package(agent, trials, c))
            runs[label].append((wall / trials, cpu / trials))
        single = [timed(lambda i=i: play_trial(SETTINGS[SETTING], scorer, i, BETA)) for i in inputs]
        runs["NumPy"].append(tuple(np.median(single, axis=0).tolist()))
    reference = np.array(runs["NumPy"])
    ratios = {label: np.array(runs[label]) / reference for label in batches}
    return {
        "milliseconds_a_trial": {
            label: (1e3 * np.median(values, axis=0)).tolist() for label, values in runs.items()
        },
        "compile_seconds": {
            label: (np.array(values) - np.median(runs[label], axis=0) * batches[label]).tolist()
            for label, values in first.items()
        },
        "first_numpy_trial_milliseconds": [1e3 * value for value in once],
        "ratio": {
            label: {
                clock: np.quantile(ratio[:, column], [0.5, 0.0, 1.0]).tolist()
                for column, clock in enumerate(("wall", "cpu"))
            }
            for label, ratio in ratios.items()
        },
        "target": TARGETS[name],
        "load": os.getloadavg()[0],
    }


def report(name: str, result: dict[str, object]) -> str:
    """Return a table of one agent's times."""
    lines = [f"{name}, target {result['target']}, load {result['load']:.1f}"]
    lines.append(
        f"{'':16}{'ms a trial, wall (CPU)':>26}{'ratio, wall [spread]':>26}"
        f"{'ratio, CPU [spread]':>26}{'compile s, wall (CPU)':>24}"
    )
    for label, (wall, cpu) in result["milliseconds_a_trial"].items():
        line = f"{label:16}{f'{wall:.1f} ({cpu:.1f})':>26}"
        if label in result["ratio"]:
            for clock in ("wall", "cpu"):
                middle, low, high = result["ratio"][label][clock]
                line += f"{f'{middle:.3f} [{low:.3f}, {high:.3f}]':>26}"
            wall, cpu = result["compile_seconds"][label]
            line += f"{f'{wall:.1f} ({cpu:.1f})':>24}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure both agents and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    arguments = parser.parse_args()
    numpyro.enable_x64()
    results = {}
    for name in TARGETS:
        results[name] = measure(name, arguments.trials, arguments.repeats)
        if not arguments.json:
            sys.stdout.write(report(name, results[name]) + "\n")
    if arguments.json:
        sys.stdout.write(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
