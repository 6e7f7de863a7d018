"""Test configuration: float64, broadcasting that must be written out, few compiled programs."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # idle BLAS threads slow small matrices down

from collections.abc import Iterator
from pathlib import Path

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
