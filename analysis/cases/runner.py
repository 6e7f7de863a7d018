"""Run the trials of a case that its table does not hold yet, one row of numbers a trial.

A trial is a function of its `Task` alone, on one thread, so the rows depend neither on the number
of workers nor on what ran before. A worker keeps what it compiled: it takes the trials of one
policy after the other.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from bayes_cmab.files import write_atomically
from bayes_cmab.workers import start_worker, worker_environment

RESULTS = Path(__file__).parents[1] / "results"
GROUP = 10  # trials of a policy that a worker takes at once


class Task(NamedTuple):
    """A trial; the fields are the first columns of its row.

    Attributes
    ----------
    policy : its name. data : what it learns ``f`` from.
    seed, trial : of all that is random. rounds : patients.
    """

    policy: str
    data: str
    seed: int
    trial: int
    rounds: int


type Row = dict[str, Any]


def read(path: Path) -> pd.DataFrame:
    """Return the table of trials; empty if there is none."""
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=list(Task._fields))


def missing(path: Path, tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks whose row is not in the table."""
    held = set(read(path)[list(Task._fields)].itertuples(index=False, name=None))
    return [task for task in tasks if tuple(task) not in held]


def add(path: Path, task: Task, row: Row) -> None:
    """Put a row into the table, which is replaced as a whole and stays sorted."""
    one = pd.DataFrame([task._asdict() | row])
    table = read(path)
    table = pd.concat([table, one], ignore_index=True) if len(table) else one
    table = table.sort_values(list(Task._fields)).round(4)
    write_atomically(path, lambda temporary: table.to_csv(temporary, index=False))


def run(
    path: Path,
    tasks: Iterable[Task],
    play: Callable[[Task], Row],
    workers: int = 2,
    cache: Path | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Play what is missing and add it to the table, trial by trial.

    Parameters
    ----------
    play : of a module, since worker processes import it.
    cache : folder of JAX's compiled programs, if they are to be kept.
    say : is told of each trial that is done.
    """
    todo = missing(path, tasks)
    groups = deque(
        part[start : start + GROUP]
        for _, one in groupby(todo, key=lambda task: (task.policy, task.data))
        for part in [list(one)]
        for start in range(0, len(part), GROUP)
    )
    lock = threading.Lock()

    def serve() -> None:
        with ProcessPoolExecutor(1, get_context("spawn"), start_worker, (cache,)) as pool:
            while groups:
                try:
                    group = groups.popleft()
                except IndexError:  # another worker was faster
                    return
                for task in group:
                    row = pool.submit(play, task).result()
                    with lock:
                        add(path, task, row)
                        say(" ".join(map(str, task)))

    with worker_environment(), ThreadPoolExecutor(workers) as threads:
        for future in [threads.submit(serve) for _ in range(min(workers, len(groups)))]:
            future.result()
