"""Time two agents with fixed hyperparameters in eight cells, from nothing, on two workers.

Settings A to D with m = 0 and m = 50 offline rows, 100 trials of 100 rounds, CBMP-UCB and
CME-UCB: what somebody waits for who runs the paper's comparison for the first time. Nothing is
compiled beforehand. Prints the wall time, the processor time and the peak resident memory.

    .venv/bin/python analysis/benchmarks/eight_cells.py [--json] [--chunk 25] [--trials 100]
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpyro

from bayes_cmab.experiment import run_sweep
from bayes_cmab.sweep import Sweep

TARGET_SECONDS = 180.0
AGENTS = ("cbmp-fixed", "cme-fixed")


@dataclass
class Memory:
    """Peak resident memory of this process's children, sampled from /proc.

    Attributes
    ----------
    interval : seconds between samples.
    total : largest sum of resident sizes, in bytes; pages that are shared count once a process.
    each : largest resident size of one process, in bytes, by process.
    """

    interval: float = 0.2
    total: int = 0
    each: dict[int, int] = field(default_factory=dict)

    def watch(self, stop: threading.Event) -> None:
        """Sample until told to stop."""
        while not stop.wait(self.interval):
            sizes = {pid: _resident(pid) for pid in _children()}
            self.total = max(self.total, sum(sizes.values()))
            for pid, size in sizes.items():
                self.each[pid] = max(self.each.get(pid, 0), size)


def _children() -> list[int]:
    threads = Path("/proc/self/task").iterdir()
    return [int(pid) for t in threads for pid in (t / "children").read_text().split()]


def _resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError, IndexError):  # it has just ended
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure(trials: int, chunk: int, workers: int) -> dict[str, float]:
    """Run the eight cells in a fresh folder and return what it took."""
    sweep = Sweep(
        settings=("A", "B", "C", "D"), agents=AGENTS, offline=(0, 50), trials=trials, chunk=chunk
    )
    memory, stop = Memory(), threading.Event()
    watcher = threading.Thread(target=memory.watch, args=(stop,), daemon=True)
    load, before = os.getloadavg()[0], resource.getrusage(resource.RUSAGE_CHILDREN)
    watcher.start()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        run_sweep(sweep, Path(folder) / "results", workers=workers, cache=Path(folder) / "cache")
        wall = time.perf_counter() - start
        spent = [json.loads(p.read_text()) for p in Path(folder).rglob("*.time.json")]
    stop.set()
    watcher.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall_seconds": wall,
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "cpu_seconds_in_chunks": sum(s["cpu_seconds"] for s in spent),
        "peak_mib_all_workers": memory.total / 2**20,
        "peak_mib_one_worker": max(memory.each.values(), default=0) / 2**20,
        "load_before": load,
        "trials": trials,
        "chunk": chunk,
        "workers": workers,
    }


def main() -> None:
    """Measure once and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--chunk", type=int, default=25)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    arguments = parser.parse_args()
    numpyro.enable_x64()
    result = measure(arguments.trials, arguments.chunk, arguments.workers)
    if arguments.json:
        sys.stdout.write(json.dumps(result) + "\n")
        return
    sys.stdout.write(
        f"8 cells x 2 agents x {arguments.trials} trials, chunks of {arguments.chunk}, "
        f"{arguments.workers} workers, load {result['load_before']:.1f} before\n"
        f"wall time    {result['wall_seconds']:7.1f} s (target {TARGET_SECONDS:.0f} s)\n"
        f"CPU time     {result['cpu_seconds']:7.1f} s, "
        f"{result['cpu_seconds_in_chunks']:.1f} s of it in the chunks\n"
        f"peak memory  {result['peak_mib_all_workers']:7.0f} MiB over all workers, "
        f"{result['peak_mib_one_worker']:.0f} MiB in the largest\n"
    )


if __name__ == "__main__":
    main()
