"""Workers of somebody else's give the same bits, or an error that says what to change."""

import os

import jax
import pytest

from bayes_cmab import workers
from bayes_cmab.workers import WORKER_ENVIRONMENT, check_worker, surroundings, worker_environment


def test_the_environment_is_set_meanwhile_and_put_back(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    before = dict(os.environ)
    with worker_environment():
        assert {name: os.environ[name] for name in WORKER_ENVIRONMENT} == WORKER_ENVIRONMENT
    assert dict(os.environ) == before


@pytest.mark.parametrize("found", [None, "", "--xla_cpu_multi_thread_eigen=false"])
def test_a_worker_that_started_with_other_flags_is_refused(monkeypatch, found):
    monkeypatch.setattr(workers, "FOUND", WORKER_ENVIRONMENT | {"XLA_FLAGS": found})
    message = rf"got XLA_FLAGS={found!r}; set them before Python starts"
    with pytest.raises(RuntimeError, match=message):
        check_worker(surroundings())


def test_a_worker_of_other_versions_is_refused(monkeypatch):
    monkeypatch.setattr(workers, "FOUND", WORKER_ENVIRONMENT)
    expected = surroundings() | {"jax": "0.1", "JAX backend": "tpu"}
    message = "with jax='0.1', JAX backend='tpu', got jax='.*', JAX backend='.*'"
    with pytest.raises(RuntimeError, match=message):
        check_worker(expected)


def test_a_worker_that_fits_is_set_to_float64(monkeypatch):
    monkeypatch.setattr(workers, "FOUND", WORKER_ENVIRONMENT)
    jax.config.update("jax_enable_x64", False)
    try:
        check_worker(surroundings())
        assert jax.config.jax_enable_x64
    finally:
        jax.config.update("jax_enable_x64", True)
