"""Experiments: agents x settings x offline sizes x trials, stored as they are made.

A sweep is pure data. Its work is cut into *chunks* of trials, one netCDF file each, written
atomically; a killed run resumes with the chunks that are missing and ends with the same bytes. The
partition into chunks belongs to the sweep, never to the number of workers, because a program
compiled for another batch size may round differently.
"""

import json
import os
import time
import warnings
from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import closing
from functools import partial
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path

import xarray as xr

from bayes_cmab.environments import get_environment
from bayes_cmab.files import write_atomically
from bayes_cmab.registry import make_agent
from bayes_cmab.simulation import play
from bayes_cmab.storage import (
    CHECKPOINTS,
    MADE_WITH,
    label,
    load_chunk,
    write_json,
    write_netcdf,
)
from bayes_cmab.sweep import Chunk, Sweep
from bayes_cmab.validate import require_x64
from bayes_cmab.workers import check_worker, start_worker, surroundings, worker_environment


def run_chunk(chunk: Chunk) -> xr.Dataset:
    """Play one chunk and return its results, labelled."""
    sweep, cell = chunk.sweep, chunk.cell
    environment = get_environment(cell.setting)
    record = play(
        make_agent(cell.agent, environment, cell.beta, sweep.refit_every),
        environment,
        rounds=sweep.rounds,
        offline=cell.offline,
        seed=sweep.seed,
        trials=chunk.trials,
        checkpoints=(*CHECKPOINTS, sweep.rounds) if sweep.coverage else (),
    )
    return label(record, chunk)


def _timed(chunk: Chunk) -> tuple[xr.Dataset, float]:
    start = time.process_time()
    data = run_chunk(chunk)
    return data, time.process_time() - start


def _write(chunk: Chunk, folder: Path, data: xr.Dataset, seconds: float) -> None:
    path = chunk.path(folder)
    write_atomically(path, partial(write_netcdf, data=data))
    spent = {"cpu_seconds": seconds, "trials": len(chunk.trials)}
    write_atomically(path.with_suffix(".time.json"), partial(write_json, content=spent))


def _store(task: list[Chunk], folder: Path) -> int:
    """Run the chunks of a task, in a worker of our own; return how many."""
    for chunk in task:
        _write(chunk, folder, *_timed(chunk))
    return len(task)


def _fetch(chunk: Chunk, expected: dict[str, str]) -> tuple[xr.Dataset, float]:
    """Run a chunk, in a worker of somebody else's, whose disk may be another one."""
    check_worker(expected)
    return _timed(chunk)


def run_sweep(
    sweep: Sweep,
    folder: Path,
    *,
    workers: int | None = None,
    cache: Path | None = None,
    executor: Executor | None = None,
    report: Callable[[int, int], None] | None = None,
) -> None:
    """Run the chunks of a sweep that its folder does not hold yet.

    Parameters
    ----------
    sweep : what to run.
    folder : of the results.
    workers : processes, by default the number of cores; the results do not depend on it.
    cache : folder of JAX's compiled programs, if they are to be kept.
    executor : that plays the chunks, in place of processes of our own; it brings its own
        ``workers`` and ``cache``. Its workers need no access to ``folder``, but must be started
        with `workers.WORKER_ENVIRONMENT`; that it starts while it is handed its tasks are.
    report : called with the number of chunks done and in all, at the start and after each task.

    Raises
    ------
    ValueError
        If the folder holds results of other options, before anything is run.
    RuntimeError
        If JAX is not set to float64, or a worker of ``executor`` could give other results than one
        of our own: by its environment, its versions, or JAX's backend. Processors are not compared.

    Warns
    -----
    UserWarning
        If results that the folder holds were made with other versions than those to come.
    """
    require_x64()
    if workers is not None and workers < 1:
        raise ValueError(f"workers: expected at least 1, got {workers}")
    if executor is not None and not (workers is None and cache is None):
        raise ValueError("executor: expected neither workers nor cache beside it, got one")
    every = [Chunk(sweep, cell, trials) for cell in sweep.cells() for trials in sweep.chunks()]
    here = json.dumps(surroundings(), sort_keys=True)
    missing, made_with = [], set[str]()
    for chunk in every:
        path = chunk.path(folder)
        if path.exists():
            made_with |= {load_chunk(path, chunk).attrs.get(MADE_WITH, here)}
        else:
            missing.append(chunk)
    done = len(every) - len(missing)
    if report is not None:
        report(done, len(every))
    if not missing:
        return
    for other in sorted(made_with - {here}):
        warnings.warn(
            f"{folder}: goes on with results that were made with other versions, {other}, where "
            f"here are {here}; choose another folder if all are to be of one kind",
            stacklevel=2,
        )
    if executor is None:
        played = _in_processes(missing, folder, workers or os.cpu_count() or 1, cache)
    else:
        played = _elsewhere(missing, folder, executor, surroundings())
    with worker_environment(), closing(played):
        for count in played:
            done += count
            if report is not None:
                report(done, len(every))


def _in_processes(
    chunks: list[Chunk], folder: Path, workers: int, cache: Path | None
) -> Generator[int]:
    """Play chunks in processes that store them; yield their numbers as they are done."""
    tasks = _tasks(chunks, workers)
    with ProcessPoolExecutor(
        min(workers, len(tasks)),
        mp_context=get_context("spawn"),
        initializer=start_worker,
        initargs=(cache,),
    ) as pool:
        futures: list[Future[int]] = [pool.submit(_store, task, folder) for task in tasks]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _elsewhere(
    chunks: list[Chunk], folder: Path, executor: Executor, expected: dict[str, str]
) -> Generator[int]:
    """Play chunks in an executor and store them here; yield their numbers as they are done."""
    futures = {executor.submit(_fetch, chunk, expected): chunk for chunk in chunks}
    try:
        for future in as_completed(futures):
            _write(futures.pop(future), folder, *future.result())
            yield 1
    finally:
        for future in futures:
            future.cancel()


def _tasks(chunks: list[Chunk], workers: int) -> list[list[Chunk]]:
    """Group chunks that share compiled programs, unless that would leave workers idle."""
    grouped = [
        list(group)
        for _, group in groupby(chunks, lambda c: (c.cell.setting, c.cell.offline, c.cell.agent))
    ]
    return grouped if len(grouped) >= 2 * workers else [[chunk] for chunk in chunks]
