"""Running a study: what is run, what is kept, and that nothing is run twice."""

import json
import shutil

import numpy as np
import pytest
import xarray as xr

from bayes_cmab import reproduction
from bayes_cmab.experiment import _write
from bayes_cmab.ledger import Ledger
from bayes_cmab.reproduction import CELLS, differences, figures, missing_cells, run_study
from bayes_cmab.study import Study
from bayes_cmab.sweep import Cell, Chunk, Sweep

FIRST = Sweep(("C",), ("random",), offline=(0, 50), trials=3, rounds=6, chunk=2)
SECOND = Sweep(("C",), ("oracle", "random"), offline=(50,), trials=4, rounds=6, chunk=2)
STUDY = Study({"first": FIRST, "second": SECOND}, (("oracle", "random"),), ("oracle", "random"))


def made_up(chunk):
    """Return results of a chunk that depend on the cell and the trial alone, as real ones do."""
    axes = ("trial", "round")
    shape = (len(chunk.trials), chunk.sweep.rounds)
    drawn = np.stack([np.random.default_rng(t).normal(size=shape[1]) for t in chunk.trials])
    mean_reward = drawn + (chunk.cell.agent == "oracle")
    return xr.Dataset(
        {
            "outcome": (axes, mean_reward + 0.1),
            "mean_reward": (axes, mean_reward),
            "best_mean_reward": (axes, drawn + 1.0),
            "fits": (axes, np.zeros(shape, int)),
            "failures": (axes, np.zeros(shape, int)),
        },
        coords={"trial": np.asarray(chunk.trials)},
        attrs={"identity": json.dumps(chunk.identity, sort_keys=True)},
    )


@pytest.fixture
def ran(monkeypatch):
    """Make results up instead of playing; return the cells that are run."""
    cells = []

    def run_sweep(sweep, folder, *, report, **_):
        cells.extend((cell.label, sweep.trials) for cell in sweep.cells())
        chunks = [Chunk(sweep, cell, trials) for cell in sweep.cells() for trials in sweep.chunks()]
        report(0, len(chunks))
        if sweep.agents == ("oracle",) and "fails" in str(folder):
            raise FloatingPointError("a variance is negative")
        for done, chunk in enumerate(chunks):
            if not chunk.path(folder).exists():
                _write(chunk, folder, made_up(chunk), 0.5)
            report(done + 1, len(chunks))

    monkeypatch.setattr(reproduction, "run_sweep", run_sweep)
    return cells


def test_a_cell_in_two_sweeps_is_asked_for_once_with_most_trials(tmp_path):
    parts = missing_cells(STUDY, Ledger(tmp_path))
    assert [(name, *part.cells(), part.trials) for name, part in parts] == [
        ("second", Cell("C", 50, "random", 0.25), 4),
        ("first", Cell("C", 0, "random", 0.25), 3),
        ("second", Cell("C", 50, "oracle", 0.25), 4),
    ]


def test_nothing_is_run_twice_even_without_the_results(ran, tmp_path):
    reports = []
    assert run_study(STUDY, tmp_path, report=lambda *r: reports.append(r)) == {}
    assert len(ran) == 3
    assert reports[0] == (0, 6, "C-m50-random-beta0.25")
    assert reports[-1] == (6, 6, "C-m50-oracle-beta0.25")
    assert [done for done, *_ in reports] == [0, 1, 2, 2, 3, 4, 4, 5, 6]
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.gz")}
    assert len(before) == 4
    shutil.rmtree(tmp_path / CELLS)
    run_study(STUDY, tmp_path)
    assert len(ran) == 3
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.gz")} == before


@pytest.mark.usefixtures("ran")
def test_more_trials_extend_a_cell(tmp_path):
    run_study(STUDY.limited(("second",), 2), tmp_path)
    assert Ledger(tmp_path).held() == dict.fromkeys(SECOND.cells(), 2)
    small = Ledger(tmp_path).trials().drop(columns="seconds_per_round")
    run_study(STUDY.limited(("second",)), tmp_path)
    assert Ledger(tmp_path).held() == dict.fromkeys(SECOND.cells(), 4)
    large = Ledger(tmp_path).trials().drop(columns="seconds_per_round")
    kept = large[large["trial"] < 2].reset_index(drop=True)
    assert kept.equals(small.reset_index(drop=True))


@pytest.mark.usefixtures("ran")
def test_a_cell_that_fails_says_why_and_does_not_stop_the_others(tmp_path):
    folder = tmp_path / "fails"
    study = Study({"second": SECOND})
    failed = run_study(study, folder)
    assert failed == {Cell("C", 50, "oracle", 0.25): "a variance is negative"}
    assert list(Ledger(folder).held()) == [Cell("C", 50, "random", 0.25)]
    assert len(missing_cells(study, Ledger(folder))) == 1


@pytest.mark.usefixtures("ran")
def test_what_is_shown_of_a_study(tmp_path):
    run_study(STUDY, tmp_path)
    ledger = Ledger(tmp_path)
    (row,) = differences(STUDY, ledger.trials()).to_dict("records")
    assert (row["agent"], row["reference"], row["trials"]) == ("oracle", "random", 4)
    assert row["difference"] > 0.0
    drawn = figures(STUDY, ledger.curves(), ledger.trials())
    assert list(drawn) == ["mean", "quantile"]
    titles = [axis.get_title(loc="left") for axis in drawn["mean"].axes]
    assert titles == ["Setting C, $m$ = 0", "Setting C, $m$ = 50"]
    last = [[line.get_label() for line in axis.lines] for axis in drawn["mean"].axes]
    named = [[label for label in labels if not label.startswith("_")] for labels in last]
    assert named == [["Random"], ["Oracle", "Random"]]
    legend = [text.get_text() for text in drawn["mean"].legends[0].get_texts()]
    assert legend == ["Oracle", "Random"]  # though the first panel has none of the first
    bars = [len(axis.collections) for axis in drawn["quantile"].axes]
    assert bars == [1, 2]  # from the sums of the trials


def test_a_study_may_show_nothing(tmp_path):
    study = Study({"first": FIRST})
    ledger = Ledger(tmp_path)
    assert differences(study, ledger.trials()).empty
    assert figures(study, ledger.curves(), ledger.trials()) == {}
