"""The processes that play trials: what they need, so that all of them give the same bits."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process
from pathlib import Path

import jax

from bayes_cmab.files import versions

WORKER_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""One thread a worker: faster on small matrices, and the same rounding whatever the machine."""

FOUND = {name: os.environ.get(name) for name in WORKER_ENVIRONMENT}
"""What this process had at its first import of this module: OpenBLAS and XLA read the variables
once, when they start, so that later changes say nothing of them."""


@contextmanager
def worker_environment() -> Iterator[None]:
    """Set `WORKER_ENVIRONMENT` for the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in WORKER_ENVIRONMENT}
    os.environ.update(WORKER_ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def start_worker(cache: Path | None) -> None:
    """Make a process that was started for it a worker, which ends with its parent.

    Parameters
    ----------
    cache : folder of JAX's compiled programs, if they are to be kept.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it: no file is ever half written
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    jax.config.update("jax_enable_x64", True)
    if cache is not None:
        use_compilation_cache(cache)


def _exit_with_parent() -> None:
    """End a worker whose parent was killed: it would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def use_compilation_cache(folder: Path) -> None:
    """Keep JAX's compiled programs in a folder, across processes."""
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


def surroundings() -> dict[str, str]:
    """Return what results depend on besides the sweep and the processor: versions and backend."""
    packages = ("bayes-cmab", "jax", "jaxlib", "numpy", "numpyro", "optimistix", "scipy")
    return {**versions(*packages), "JAX backend": jax.default_backend()}


def check_worker(expected: dict[str, str]) -> None:
    """Turn on float64 in a worker that somebody else has started, if it can give the same bits.

    Parameters
    ----------
    expected : the `surroundings` of the process that collects the results.

    Raises
    ------
    RuntimeError
        If the worker started with another environment, or has other versions or another backend.
    """
    if wrong := {k: FOUND[k] for k, value in WORKER_ENVIRONMENT.items() if FOUND[k] != value}:
        raise RuntimeError(
            f"executor: expected workers that were started with {_listed(WORKER_ENVIRONMENT)}, "
            f"got {_listed(wrong)}; set them before Python starts there, or the results "
            "would depend on the number of threads"
        )
    found = surroundings()
    if wrong := {k: found.get(k) for k, value in expected.items() if found.get(k) != value}:
        wanted = {name: expected[name] for name in wrong}
        raise RuntimeError(
            f"executor: expected workers with {_listed(wanted)}, got {_listed(wrong)}"
        )
    jax.config.update("jax_enable_x64", True)


def _listed(values: dict[str, str] | dict[str, str | None]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
