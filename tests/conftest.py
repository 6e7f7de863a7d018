"""Test configuration: float64, broadcasting that must be written out, few compiled programs."""

import os
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # idle BLAS threads slow small matrices down

# Most of the time goes into compiling. What one process has compiled, the others, those that tests
# start, and the next run of the tests take from here; all of them inherit the variables.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR",
    str(Path(__file__).resolve().parents[1] / ".pytest_cache" / "d" / "jax"),
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")

import jax
import numpyro
import pytest

numpyro.enable_x64()
jax.config.update("jax_numpy_rank_promotion", "raise")

MAPS = Path("/proc/self/maps")
MOST_MAPS = 25_000
"""Linux gives a process 65,530 memory maps, XLA takes several for each program, and crashes."""


@pytest.fixture(scope="module", autouse=True)
def few_programs() -> Iterator[None]:
    """Forget the compiled programs between modules, once there are very many."""
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
