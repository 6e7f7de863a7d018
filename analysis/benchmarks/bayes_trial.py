"""Time full-Bayes trials, and watch the memory: setting C, m = 50, 100 rounds, 64 draws a model.

Refits by effective sample size, as `bayes-cmab compare --agents cbmp-nuts` plays them. The first
trial compiles; the CPU time of a trial is the median of the others. Resident memory is read after
each trial: over 300 rounds and more it should stay flat.

    .venv/bin/python analysis/benchmarks/bayes_trial.py [--agent cbmp-nuts] [--trials 5] [--json]
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import numpy as np
import numpyro

from bayes_cmab.environments import SETTINGS
from bayes_cmab.registry import make_agent
from bayes_cmab.simulation import play

TARGET_SECONDS = 40.0


def resident() -> float:
    """Return the resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(agent: str, trials: int) -> dict[str, object]:
    """Play trials one by one."""
    environment = SETTINGS["C"]
    spec = make_agent(agent, environment)
    seconds, memory, refits = [], [], []
    for trial in range(trials):
        start = time.process_time()
        record = play(
            spec, environment, rounds=100, offline=50, seed=4, trials=range(trial, trial + 1)
        )
        seconds.append(time.process_time() - start)
        memory.append(resident())
        refits.append(int((record.fits > 0).sum()))
    median = float(np.median(seconds[1:]))
    return {
        "cpu_seconds_a_trial": median,
        "spread": [min(seconds[1:]), max(seconds[1:])],
        "compile_cpu_seconds": seconds[0] - median,
        "resident_mib": memory,
        "rounds_with_refits": refits,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="cbmp-nuts")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    arguments = parser.parse_args()
    numpyro.enable_x64()
    result = measure(arguments.agent, arguments.trials)
    if arguments.json:
        sys.stdout.write(json.dumps(result) + "\n")
        return
    low, high = result["spread"]
    sys.stdout.write(
        f"{arguments.agent}, {arguments.trials} trials, load {os.getloadavg()[0]:.1f}\n"
        f"CPU a trial  {result['cpu_seconds_a_trial']:.1f} s [{low:.1f}, {high:.1f}] "
        f"(target {TARGET_SECONDS:.0f} s), compiled before in "
        f"{result['compile_cpu_seconds']:.1f} s\n"
        f"rounds with refits  {result['rounds_with_refits']}\n"
        f"resident memory after each trial, MiB  "
        f"{', '.join(f'{x:.0f}' for x in result['resident_mib'])}\n"
    )


if __name__ == "__main__":
    main()
