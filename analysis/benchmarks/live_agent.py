"""Time the calls of a live agent, and what it takes in memory and programs over 1,000 rounds.

Setting C (d = 2), 61 actions, one thread, each number after compilation:

- `ask` at 200 transitions and 200 outcomes with 64 NUTS draws a model, in the paper's form (the
  operator form, RBF embedding), with the Matern-5/2 embedding and with fixed hyperparameters;
- `tell` of an intermediate or an outcome without a refit: until the call returns, and until the
  posterior is computed, for which the next call waits;
- `save` and `load` of an agent with 64 draws after 1,000 rounds;
- the import of the package in a fresh process;
- resident memory and compilations of an agent with fixed hyperparameters over 1,000 rounds.

The draws are of a short NUTS run whose convergence does not matter here, and are never refitted.

    .venv/bin/python analysis/benchmarks/live_agent.py [--json] [--repeats 200] [--rounds 1000]
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import numpy as np
import numpyro

from bayes_cmab import NUTS, Agent, EmbeddingModel, EmbeddingPolicy, Fixed, Gate, Never
from bayes_cmab.environments import SETTINGS
from bayes_cmab.worlds import declared_scales

ENVIRONMENT = SETTINGS["C"]
ACTIONS = np.asarray(ENVIRONMENT.actions)
SAMPLER = NUTS(warmup=8, passes=1, refit=Never())
ANY = Gate(rhat=np.inf, ess=0.0, divergent=1.0, bfmi=0.0)
AGENTS: dict[str, dict[str, Any]] = {
    "64 draws": {"inference": SAMPLER},
    "64 draws, Matern-5/2": {
        "inference": SAMPLER,
        "policy": EmbeddingPolicy(embedding=EmbeddingModel("matern52")),
    },
    "fixed": {"inference": Fixed()},
}


def respond(rng: np.random.Generator, s: Any, a: Any) -> tuple[Any, Any]:
    """Return intermediates (n, 2) and outcomes (n,) of setting C."""
    r = np.stack([np.sin(s), np.cos(a)], axis=-1) + 0.25 * rng.normal(size=(len(s), 2))
    return r, 1.5 * np.sin(np.pi * r).sum(axis=1) + 1.0 + rng.normal(size=len(s))


def agent_with(rows: int, **options: Any) -> Agent:
    """Return an agent whose draws, if any, were made from 30 rows, and which then has more."""
    options = {"policy": EmbeddingPolicy()} | options
    scales = declared_scales(ENVIRONMENT)
    agent = Agent(ACTIONS, dim_intermediate=2, scales=scales, gate=ANY, **options)
    rng = np.random.default_rng(0)
    for size in (30, rows - 30)[: 1 + (rows > 30)]:
        s, a = rng.uniform(-3.0, 3.0, size), rng.choice(ACTIONS.ravel(), size)
        r, y = respond(rng, s, a)
        agent.add_transitions(s, a, r)
        agent.add_outcomes(r, y)
        agent.ask(0.0)
    return agent


def timed(run: Callable[[], Any]) -> tuple[float, float]:
    """Return wall time and CPU time in milliseconds."""
    start, cpu = time.perf_counter(), time.process_time()
    run()
    return 1e3 * (time.perf_counter() - start), 1e3 * (time.process_time() - cpu)


def calls(options: dict[str, Any], repeats: int) -> dict[str, list[tuple[float, float]]]:
    """Time asks at 200 rows, and the tells of the tickets, which make them at most 256."""
    agent = agent_with(200, **options)
    rng = np.random.default_rng(1)
    contexts = rng.uniform(-3.0, 3.0, repeats + 3)
    asks = [timed(lambda s=s: agent.ask(s)) for s in contexts]
    tickets = agent.waiting[-50:]
    r, y = respond(rng, np.zeros(50), np.zeros(50))

    returned, computed = [], []
    for row, ticket in enumerate(tickets):
        for told in ({"intermediate": r[row]}, {"outcome": y[row]}):
            first = timed(lambda t=ticket, news=told: agent.tell(t, **news))
            rest = timed(lambda: jax.block_until_ready(agent._session.state))
            returned.append(first)
            computed.append((first[0] + rest[0], first[1] + rest[1]))
    return {"ask": asks[3:], "tell": returned[6:], "tell, computed": computed[6:]}


def summary(times: list[tuple[float, float]]) -> dict[str, float]:
    """Return the median and the 99th percentile of wall time, and the median of CPU time."""
    wall, cpu = np.array(times).T
    return {
        "median_ms": float(np.median(wall)),
        "p99_ms": float(np.quantile(wall, 0.99)),
        "cpu_ms": float(np.median(cpu)),
    }


def save_and_load(repeats: int) -> dict[str, Any]:
    """Time `save` and `load` after 1,000 rounds with 64 draws, all told at the end.

    Factors are no part of a file, so there is no need to compute them here; a load that follows an
    ask takes the time to condition on the rows in addition.
    """
    agent = agent_with(30, **AGENTS["64 draws"])
    rng = np.random.default_rng(2)
    for ticket in [agent.ask(rng.uniform(-3.0, 3.0)).ticket for _ in range(1000)]:
        r, y = respond(rng, np.zeros(1), np.zeros(1))
        agent.tell(ticket, intermediate=r[0], outcome=y[0])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent"
        saves = [timed(lambda: agent.save(path)) for _ in range(repeats)]
        loads = [timed(lambda: Agent.load(path)) for _ in range(3)]
        return {
            "rows": int(agent.data.transitions.size),
            "save": summary(saves),
            "load": summary(loads),
            "file_mib": path.stat().st_size / 2**20,
        }


def imports(repeats: int) -> dict[str, float]:
    """Time the import of `Agent`, and all that it needs, in fresh processes."""
    code = (
        "import time; t, c = time.perf_counter(), time.process_time(); "
        "from bayes_cmab import Agent; "
        "print(1e3 * (time.perf_counter() - t), 1e3 * (time.process_time() - c))"
    )
    command = [sys.executable, "-c", code]
    runs = [subprocess.run(command, capture_output=True, text=True) for _ in range(repeats)]
    return summary([tuple(map(float, run.stdout.split())) for run in runs])


def resident_mib() -> float:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Compilations(logging.Handler):
    """Counts what JAX compiles."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Look at a message."""
        self.count += record.getMessage().startswith("Compiling ")


def long_life(rounds: int) -> list[dict[str, float]]:
    """Play rounds with fixed hyperparameters; return memory and compilations on the way."""
    form = {"policy": EmbeddingPolicy(), "inference": Fixed()}
    agent = Agent(ACTIONS, dim_intermediate=2, scales=declared_scales(ENVIRONMENT), **form)
    rng, counter, marks = np.random.default_rng(3), Compilations(), []
    loggers = [logging.getLogger(f"jax._src.{n}") for n in ("interpreters.pxla", "dispatch")]
    for logger in loggers:
        logger.addHandler(counter)
        logger.propagate = False  # messages are counted, not printed
    with jax.log_compiles():
        for t in range(1, rounds + 1):
            decision = agent.ask(rng.uniform(-3.0, 3.0))
            r, y = respond(rng, np.zeros(1), decision.action)
            agent.tell(decision.ticket, intermediate=r[0], outcome=y[0])
            if t % (rounds // 5) == 0:
                marks.append({"round": t, "rss_mib": resident_mib(), "compilations": counter.count})
    for logger in loggers:
        logger.removeHandler(counter)
    return marks


def measure(repeats: int, rounds: int) -> dict[str, Any]:
    """Return all numbers."""
    numpyro.enable_x64()
    life = long_life(rounds)  # first, while the memory is its own
    times = {
        f"{call}, {name}": summary(values)
        for name, options in AGENTS.items()
        for call, values in calls(options, repeats).items()
    }
    file = save_and_load(10)
    times["save after 1,000 rounds"], times["load, unconditioned"] = file["save"], file["load"]
    times["import"] = imports(5)
    return {"times": times, "file_mib": file["file_mib"], "life": life}


def report(result: dict[str, Any]) -> str:
    """Return the numbers as a small table."""
    lines = [f"{'call':<36}{'median, ms':>12}{'99%, ms':>12}{'CPU, ms':>12}"]
    lines += [
        f"{name:<36}" + "".join(f"{value:>12.1f}" for value in values.values())
        for name, values in result["times"].items()
    ]
    lines.append(f"file: {result['file_mib']:.2f} MiB")
    lines += [
        f"round {mark['round']}: {mark['rss_mib']:.0f} MiB resident, "
        f"{mark['compilations']} compilations"
        for mark in result["life"]
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print all numbers")
    parser.add_argument("--repeats", type=int, default=200, help="asks to time")
    parser.add_argument("--rounds", type=int, default=1000, help="of the long life")
    arguments = parser.parse_args()
    result = measure(arguments.repeats, arguments.rounds)
    sys.stdout.write((json.dumps(result) if arguments.json else report(result)) + "\n")


if __name__ == "__main__":
    main()
