"""Sweeps: what they run, what they store, and that a killed one ends with the same bytes."""

import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray as xr

from bayes_cmab.experiment import _tasks, run_chunk, run_sweep
from bayes_cmab.files import write_atomically
from bayes_cmab.storage import load_chunk, load_options, load_sweep, save_options, write_netcdf
from bayes_cmab.sweep import Cell, Chunk, Sweep
from bayes_cmab.workers import WORKER_ENVIRONMENT, use_compilation_cache

SWEEP = Sweep(
    ("C",), ("random", "gp-fixed", "oracle"), offline=(0,), trials=4, rounds=6, seed=3, chunk=1
)


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """Return one folder of compiled programs for all tests."""
    folder = tmp_path_factory.getbasetemp() / "jax-cache"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory, cache):
    """Return the folder of a sweep that two workers ran without interruption."""
    folder = tmp_path_factory.mktemp("finished")
    reports = []
    run_sweep(SWEEP, folder, workers=2, cache=cache, report=lambda *r: reports.append(r))
    assert reports == [(done, 12) for done in range(13)]
    return folder


@pytest.fixture(scope="module")
def data(finished):
    """Return the results of that sweep by agent."""
    return {cell.agent: data for cell, data in load_sweep(SWEEP, finished).items()}


def stored(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("*/*.nc")}


def first_chunk() -> Chunk:
    return Chunk(SWEEP, SWEEP.cells()[0], SWEEP.chunks()[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": ()}, "settings: expected at least one, got none"),
        ({"agents": ("random", "random")}, "agents: expected no repetition"),
        ({"settings": ("C", "G")}, "setting: expected one of 'A', .*got 'G'"),
        ({"agents": ("cbmp",)}, "agent: expected one of .*got 'cbmp'"),
        ({"offline": (-1,)}, "offline: expected a whole number of at least 0, got -1"),
        ({"betas": (-0.5,)}, "beta: expected non-negative numbers, got -0.5"),
        ({"betas": (float("nan"),)}, "beta: expected finite numbers, got nan"),
        ({"betas": (0.1, 0.1 + 1e-9)}, "betas: expected six digits to tell them apart"),
        ({"offline": (1.5,)}, "offline: expected a whole number of at least 0, got 1.5"),
        ({"offline": (2**63,)}, "offline: expected a whole number of at least 0, got 92"),
        ({"trials": True}, "trials: expected a whole number of at least 1, got True"),
        ({"trials": 0}, "trials: expected a whole number of at least 1, got 0"),
        ({"rounds": 2.5}, "rounds: expected a whole number of at least 1, got 2.5"),
        ({"chunk": 0}, "chunk: expected a whole number"),
        ({"refit_every": 0}, "refit_every: expected a whole number"),
        ({"seed": -1}, "seed: expected a whole number of at least 0, got -1"),
        ({"seed": 2**64}, "seed: expected a whole number"),
    ],
)
def test_a_sweep_is_validated(change, message):
    with pytest.raises(ValueError, match=message):
        replace(SWEEP, **change)


def test_cells_are_all_combinations_but_agents_that_do_not_explore_have_one_weight():
    sweep = replace(SWEEP, settings=("A", "C"), offline=(0, 50), betas=(0.25, 1.0))
    cells = sweep.cells()
    assert len(cells) == 2 * 2 * (1 + 2 + 1)
    assert cells[:4] == [
        Cell("A", 0, "random", 0.25),
        Cell("A", 0, "gp-fixed", 0.25),
        Cell("A", 0, "gp-fixed", 1.0),
        Cell("A", 0, "oracle", 0.25),
    ]
    assert len({cell.label for cell in cells}) == len(cells)


def test_chunks_partition_the_trials():
    assert replace(SWEEP, trials=7, chunk=3).chunks() == [range(3), range(3, 6), range(6, 7)]


def test_tasks_share_compiled_programs_unless_workers_would_be_idle():
    sweep = replace(SWEEP, betas=(0.25, 1.0), chunk=2)
    chunks = [Chunk(sweep, cell, trials) for cell in sweep.cells() for trials in sweep.chunks()]
    assert [len(task) for task in _tasks(chunks, 1)] == [2, 4, 2]
    assert [len(task) for task in _tasks(chunks, 2)] == [1] * 8
    for workers in (1, 2):
        assert [chunk for task in _tasks(chunks, workers) for chunk in task] == chunks


def test_results_are_labelled(data):
    for agent in SWEEP.agents:
        assert dict(data[agent].sizes) == {"trial": 4, "round": 6, "checkpoint": 1, "level": 3}
        np.testing.assert_array_equal(data[agent]["trial"], range(4))
        assert set(data[agent].data_vars) == {
            *("action_index", "outcome", "mean_reward", "best_mean_reward"),
            *("predicted_mean", "predicted_variance", "fits", "failures"),
        }


def test_agents_meet_the_same_contexts_and_noise(data):
    # best_mean_reward is a function of the context, and the agents differ in what they do.
    best = data["oracle"]["best_mean_reward"]
    for agent in ("random", "gp-fixed"):
        np.testing.assert_array_equal(data[agent]["best_mean_reward"], best)
        assert not np.array_equal(data[agent]["mean_reward"], data["oracle"]["mean_reward"])
    # Where two agents choose the same action, they earn the same, to the last bit but rounding.
    same = data["gp-fixed"]["action_index"].values == data["random"]["action_index"].values
    same |= data["gp-fixed"]["action_index"].values == data["oracle"]["action_index"].values
    other = np.where(
        data["gp-fixed"]["action_index"] == data["random"]["action_index"],
        data["random"]["outcome"],
        data["oracle"]["outcome"],
    )
    np.testing.assert_allclose(data["gp-fixed"]["outcome"].values[same], other[same], atol=1e-12)


def test_the_oracle_has_no_regret(data):
    oracle = data["oracle"]
    np.testing.assert_allclose(oracle["mean_reward"], oracle["best_mean_reward"], atol=1e-12)


@pytest.mark.parametrize("rounds", [30, 120])
def test_coverage_is_measured_at_the_last_round_too(rounds):
    sweep = Sweep(("C",), ("gp-fixed",), offline=(0,), trials=1, rounds=rounds, coverage=True)
    data = run_chunk(Chunk(sweep, sweep.cells()[0], range(1)))
    expected = [c for c in (20, 50, 100) if c < rounds] + [rounds]
    assert data["checkpoint"].values.tolist() == expected
    assert data["coverage"].shape == (1, len(expected), len(data["level"]))


def test_trials_differ(data):
    assert len(np.unique(data["oracle"]["outcome"].values)) == 24


def test_results_do_not_depend_on_the_number_of_workers(finished, cache, tmp_path):
    run_sweep(replace(SWEEP, agents=("gp-fixed",)), tmp_path, workers=1, cache=cache)
    one = stored(tmp_path)
    assert one == {name: stored(finished)[name] for name in one}
    assert len(one) == 4


def test_an_executor_of_ones_own_gives_the_same_bytes(finished, cache, tmp_path):
    reports = []
    spawn = get_context("spawn")
    with ProcessPoolExecutor(1, spawn, use_compilation_cache, (cache,)) as pool:
        run_sweep(
            replace(SWEEP, agents=("gp-fixed",)),
            tmp_path,
            executor=pool,
            report=lambda *r: reports.append(r),
        )
    got = stored(tmp_path)
    assert got == {name: stored(finished)[name] for name in got}
    assert reports == [(done, 4) for done in range(5)]
    assert len(list(tmp_path.glob("*/*.time.json"))) == 4


def test_an_executor_in_a_process_that_runs_already_is_refused(tmp_path):
    # This process had its threads before; the environment of the sweep comes too late for it.
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(RuntimeError, match=r"expected workers that were started with .*XLA_FLAGS"),
    ):
        run_sweep(SWEEP, tmp_path, executor=pool)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_cluster_of_dask_gives_the_same_bytes(finished, tmp_path):
    from distributed import Client, LocalCluster

    sweep = replace(SWEEP, agents=("random", "gp-fixed"))
    with (
        LocalCluster(2, threads_per_worker=1, env=WORKER_ENVIRONMENT, dashboard_address=None) as c,
        Client(c) as client,
    ):
        run_sweep(sweep, tmp_path / "results", executor=client.get_executor())
    got = stored(tmp_path / "results")
    assert len(got) == 8
    assert got == {name: stored(finished)[name] for name in got}


@pytest.mark.slow
def test_workers_of_dask_with_other_flags_are_refused(tmp_path):
    from distributed import Client, LocalCluster

    with (
        LocalCluster(1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        pytest.raises(RuntimeError, match="got XLA_FLAGS=None; set them before Python starts"),
    ):
        run_sweep(SWEEP, tmp_path, executor=client.get_executor())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", [{"workers": 2}, {"cache": Path("cache")}])
def test_an_executor_brings_its_own_workers_and_cache(tmp_path, option):
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(ValueError, match="executor: expected neither workers nor cache"),
    ):
        run_sweep(SWEEP, tmp_path, executor=pool, **option)


KILLED = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
import numpyro
numpyro.enable_x64()
from bayes_cmab.sweep import (Sweep)
from bayes_cmab.experiment import (run_sweep)

def kill(done, total):
    if done > 0:
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    sweep = Sweep(**eval(sys.argv[1]))
    run_sweep(sweep, Path(sys.argv[2]), workers=1, cache=Path(sys.argv[3]), report=kill)
"""


@pytest.mark.slow
def test_a_killed_sweep_resumes_and_ends_with_the_same_bytes(finished, cache, tmp_path):
    script, folder = tmp_path / "killed.py", tmp_path / "results"
    script.write_text(KILLED, encoding="utf-8")
    options = repr({field: getattr(SWEEP, field) for field in SWEEP.__dataclass_fields__})
    killed = subprocess.run(
        [sys.executable, str(script), options, str(folder), str(cache)], check=False, timeout=300
    )
    assert killed.returncode == -signal.SIGKILL
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/*.nc")}
    assert 0 < len(before) < 12
    with pytest.raises(ValueError, match="expected a results file, got none; run the sweep again"):
        load_sweep(SWEEP, folder)

    reports = []
    run_sweep(SWEEP, folder, workers=1, cache=cache, report=lambda *r: reports.append(r))
    assert reports[0][1] == 12
    assert 0 < reports[0][0] < 12
    assert {path: path.stat().st_mtime_ns for path in before} == before  # they were not run again
    assert stored(folder) == stored(finished)
    for cell, whole in load_sweep(SWEEP, finished).items():
        xr.testing.assert_identical(load_sweep(SWEEP, folder)[cell], whole)


@pytest.mark.slow
def test_a_failure_in_a_worker_is_raised_and_cancels_what_is_left(cache, tmp_path):
    sweep = replace(SWEEP, agents=("random", "oracle"), trials=20)
    random, oracle = (tmp_path / cell.label for cell in sweep.cells())
    random.write_text("in the way of the results", encoding="utf-8")
    with pytest.raises(OSError, match=random.name):
        run_sweep(sweep, tmp_path, workers=2, cache=cache)  # two workers: each chunk is a task
    assert not oracle.exists()  # random's 20 chunks would come first


def test_to_go_on_with_results_of_other_versions_warns(finished, cache, tmp_path):
    folder = tmp_path / "results"
    shutil.copytree(finished, folder)
    kept = first_chunk().path(folder)
    data = load_chunk(kept, first_chunk())
    made_with = json.loads(data.attrs["made_with"]) | {"jax": "0.0.1"}
    write_netcdf(kept, data.assign_attrs(made_with=json.dumps(made_with, sort_keys=True)))
    run_sweep(SWEEP, folder, workers=1, cache=cache)  # complete: nothing is mixed by this call
    Chunk(SWEEP, SWEEP.cells()[0], SWEEP.chunks()[1]).path(folder).unlink()
    with pytest.warns(UserWarning, match=r"made with other versions, .*\"jax\": \"0.0.1\""):
        run_sweep(SWEEP, folder, workers=1, cache=cache)


def test_nothing_is_run_when_nothing_is_missing(finished):
    before, reports = stored(finished), []
    run_sweep(SWEEP, finished, report=lambda *r: reports.append(r))
    assert reports == [(12, 12)]
    assert stored(finished) == before


@pytest.mark.parametrize("kept", [0, 7, 0.5, -1])
def test_a_truncated_file_is_an_error_and_left_alone(finished, tmp_path, kept):
    chunk = first_chunk()
    content = chunk.path(finished).read_bytes()
    content = content[: int(kept * len(content)) if isinstance(kept, float) else kept]
    path = chunk.path(tmp_path)
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"trials-0000-0000.nc: expected a results file, got"):
        run_sweep(SWEEP, tmp_path)
    assert path.read_bytes() == content
    assert [p.name for p in tmp_path.glob("*/*")] == [path.name]  # nothing was run


@pytest.mark.parametrize(
    "attributes", [{}, {"identity": "{"}, {"identity": "[1]"}, {"identity": 3}]
)
def test_a_foreign_file_is_an_error_and_left_alone(tmp_path, attributes):
    chunk = first_chunk()
    path = chunk.path(tmp_path)
    path.parent.mkdir()
    xr.Dataset({"x": ("i", [1.0])}, attrs=attributes).to_netcdf(path, engine="h5netcdf")
    content = path.read_bytes()
    with pytest.raises(ValueError, match="expected a results file, got"):
        run_sweep(SWEEP, tmp_path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("change", "differ"),
    [({"seed": 4}, "seed"), ({"rounds": 7, "coverage": True}, "coverage, rounds")],
)
def test_results_of_other_options_are_an_error(finished, change, differ):
    before = stored(finished)
    message = rf"holds results of other options \({differ} differ\); choose another folder"
    with pytest.raises(ValueError, match=message):
        run_sweep(replace(SWEEP, **change), finished)
    assert stored(finished) == before


def test_a_file_in_the_place_of_another_chunk_is_an_error(finished, tmp_path):
    chunk = first_chunk()
    other = Chunk(SWEEP, chunk.cell, SWEEP.chunks()[1])
    path = tmp_path / "moved.nc"
    path.write_bytes(other.path(finished).read_bytes())
    with pytest.raises(ValueError, match=r"\(trials differ\)"):
        load_chunk(path, chunk)


def test_options_are_stored_and_read_again(tmp_path):
    path = save_options(SWEEP, tmp_path / "new")
    assert path.name == "sweep.json"
    assert load_options(tmp_path / "new") == SWEEP


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "got no such file"),
        ("", "got: Expecting value"),
        ('{"schema": 2, "swe', "got: "),
        ("[]", "got: "),
        ("{}", "'schema'"),
        (json.dumps({"schema": 99, "sweep": {}}), "schema 99 where this version reads 2"),
        (json.dumps({"schema": 2, "sweep": 3}), "got: "),
        (json.dumps({"schema": 2, "sweep": {"agents": ["random"]}}), "settings"),
        (json.dumps({"schema": 2, "sweep": {"unknown": 1}}), "unknown"),
        (
            json.dumps({"schema": 2, "sweep": {"settings": ["Z"], "agents": ["random"]}}),
            "setting: expected one of",
        ),
        (
            json.dumps({"schema": 2, "sweep": {"settings": 3, "agents": ["random"]}}),
            "got: ",
        ),
    ],
)
def test_missing_or_damaged_options_are_an_error(tmp_path, text, message):
    if text is not None:
        (tmp_path / "sweep.json").write_text(text, encoding="utf-8")
    with pytest.raises(
        ValueError, match=rf"sweep.json: expected the options of a sweep.*{message}"
    ):
        load_options(tmp_path)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old", encoding="utf-8")

    def fail(temporary):
        temporary.write_text("half", encoding="utf-8")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, fail)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_text(encoding="utf-8") == "old"


def test_workers_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match="workers: expected at least 1, got 0"):
        run_sweep(SWEEP, tmp_path, workers=0)


def test_float32_is_refused(tmp_path):
    with jax.enable_x64(False), pytest.raises(RuntimeError, match=r"numpyro\.enable_x64"):
        run_sweep(SWEEP, tmp_path)


def test_the_environment_of_this_process_is_left_alone(finished):
    assert finished.exists()
    assert "intra_op_parallelism_threads" not in os.environ.get("XLA_FLAGS", "")
