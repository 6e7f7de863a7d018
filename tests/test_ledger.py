"""The tables of a study, against sums done by hand; and the committed ones against each other."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

from bayes_cmab.curves import curves, interval
from bayes_cmab.ledger import KEY, Ledger, difference, summarise_trials
from bayes_cmab.study import read_study
from bayes_cmab.summary import half_width
from bayes_cmab.sweep import Cell

ANALYSIS = Path(__file__).parent.parent / "analysis"
CELL = Cell("C", 50, "cbmp-map", 0.25)
OTHER = Cell("C", 50, "gp-map", 0.25)


def results(trials=3, shift=0.0, seed=0):
    rng = np.random.default_rng(seed)
    axes = ("trial", "round")
    mean_reward = rng.normal(size=(5, 4))[:trials] + shift
    return xr.Dataset(
        {
            "outcome": (axes, mean_reward + rng.normal(size=(5, 4))[:trials]),
            "mean_reward": (axes, mean_reward),
            "best_mean_reward": (axes, np.full((trials, 4), 3.0)),
            "fits": (axes, np.tile([2, 0, 1, 0], (trials, 1))),
            "failures": (axes, np.tile([1, 0, 0, 0], (trials, 1))),
            "coverage": (("trial", "checkpoint", "level"), rng.uniform(size=(5, 2, 1))[:trials]),
        },
        coords={"trial": np.arange(trials), "checkpoint": [2, 4], "level": [0.95]},
    )


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path, {"seed": 1})


def test_the_sums_of_every_trial_are_kept(ledger):
    data = results()
    ledger.add("some", CELL, data, 0.5)
    rows = ledger.trials()
    assert rows["trial"].tolist() == [0, 1, 2]
    assert rows[KEY].iloc[0].tolist() == ["C", 50, "cbmp-map", 0.25]
    sums = data.sum("round")
    for name in ("outcome", "mean_reward"):
        np.testing.assert_allclose(rows[name], sums[name], atol=1e-6)
    np.testing.assert_allclose(rows["regret"], 12.0 - sums["mean_reward"], atol=1e-6)
    assert rows["refits"].tolist() == [2] * 3
    assert rows["failed_fits"].tolist() == [1] * 3
    np.testing.assert_allclose(rows["coverage_95_after_4"], data["coverage"][:, 1, 0], atol=1e-6)
    assert rows["seconds_per_round"].tolist() == [0.5] * 3


def test_the_curves_of_every_cell_are_kept(ledger):
    data = results()
    ledger.add("some", CELL, data, 0.5)
    pd.testing.assert_frame_equal(ledger.curves(), curves({CELL: data}).round(6), atol=1e-6)


def test_curves_are_those_of_the_data_with_their_interval():
    data = results()
    own = curves({CELL: data})
    total = np.cumsum(data["outcome"].values, axis=1)
    np.testing.assert_allclose(own["outcome_mean"], total.mean(axis=0))
    np.testing.assert_allclose(own["outcome_q05"], np.quantile(total, 0.05, axis=0))
    low, high = interval(own, "outcome")
    np.testing.assert_allclose(high - low, 2.0 * half_width(total))
    with pytest.raises(ValueError, match="results: expected at least one cell"):
        curves({})


def test_a_cell_takes_the_place_of_its_earlier_trials(ledger):
    ledger.add("some", OTHER, results(2), 0.1)
    ledger.add("some", CELL, results(2), 0.1)
    ledger.add("some", CELL, results(4), 0.2)
    assert ledger.held() == {OTHER: 2, CELL: 4}
    assert len(ledger.trials()) == 6
    assert ledger.curves().groupby("agent")["trials"].first().to_dict() == {
        "cbmp-map": 4,
        "gp-map": 2,
    }


def test_a_cell_of_two_sweeps_counts_once_with_most_trials(ledger):
    ledger.add("first", CELL, results(2), 0.1)
    ledger.add("second", CELL, results(5), 0.1)
    assert len(ledger.trials()) == 5
    assert len(ledger.trials("first")) == 2
    assert ledger.curves()["trials"].tolist() == [5] * 4
    assert ledger.curves("first")["trials"].tolist() == [2] * 4


def test_trials_count_up_to_the_first_that_is_missing(ledger):
    ledger.add("some", CELL, results(5).isel(trial=[0, 1, 3]), 0.1)
    assert ledger.held() == {CELL: 2}


def test_a_weight_that_is_no_short_decimal_is_found_again(ledger):
    cell = replace(CELL, beta=1 / 3)
    for _ in range(2):
        ledger.add("some", cell, results(), 0.5)
    assert ledger.held() == {cell: 3}
    assert len(ledger.trials()) == 3
    assert len(ledger.curves()) == 4


def test_tables_are_the_same_bytes_each_time(ledger, tmp_path):
    ledger.add("some", CELL, results(), 0.5)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == {"ledger.json", "some-trials.csv.gz", "some-curves.csv.gz"}
    ledger.add("some", CELL, results(), 0.5)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_tables_of_another_study_are_refused(tmp_path):
    Ledger(tmp_path, {"seed": 1}).add("some", CELL, results(2), 0.1)
    with pytest.raises(ValueError, match=r"ledger\.json: expected tables of .*2.*got .*1"):
        Ledger(tmp_path, {"seed": 2})


def test_an_empty_folder_has_empty_tables(tmp_path):
    empty = Ledger(tmp_path)
    assert empty.trials().empty
    assert empty.curves().empty
    assert empty.held() == {}
    assert not list(tmp_path.iterdir())


def test_summary_of_a_cell(ledger):
    data = results()
    ledger.add("some", CELL, data, 0.5)
    (row,) = summarise_trials(ledger.trials()).to_dict("records")
    outcome = data["outcome"].sum("round").values
    assert row["trials"] == 3
    assert row["outcome_mean"] == pytest.approx(outcome.mean(), abs=1e-6)
    assert row["outcome_se"] == pytest.approx(stats.sem(outcome), abs=1e-6)
    assert row["outcome_q05"] == pytest.approx(np.quantile(outcome, 0.05), abs=1e-6)
    assert row["refits"] == 2.0
    assert row["coverage_95_after_2"] == pytest.approx(
        float(data["coverage"][:, 0, 0].mean()), abs=1e-6
    )


def test_differences_are_paired_over_the_trials_that_both_have(ledger):
    own, base = results(5), results(3, shift=1.0, seed=1)
    ledger.add("some", CELL, own, 0.5)
    ledger.add("some", OTHER, base, 0.5)
    (row,) = difference(ledger.trials(), "cbmp-map", "gp-map").to_dict("records")
    paired = (own["mean_reward"][:3].values - base["mean_reward"].values).sum(axis=1)
    low, high = stats.t.interval(0.95, 2, paired.mean(), stats.sem(paired))
    assert row["trials"] == 3
    np.testing.assert_allclose(
        [row["difference"], row["low"], row["high"]], [paired.mean(), low, high], atol=1e-5
    )
    assert difference(ledger.trials(), "cbmp-map", "cme-map").empty


@pytest.mark.parametrize("name", ["study", "fixed", "fresh"])
def test_the_committed_tables_are_of_the_committed_study(name):
    study = read_study(ANALYSIS / f"{name}.toml")
    ledger = Ledger(ANALYSIS / "results" / name, study.identity)
    asked: dict[Cell, int] = {}
    for sweep in study.sweeps.values():
        for cell in sweep.cells():
            asked[cell] = max(asked.get(cell, 0), sweep.trials)
    rows = ledger.trials()
    for cell, count in ledger.held().items():
        assert count <= asked[cell], cell
    assert sum(ledger.held().values()) == len(rows)
    numbers = rows[["outcome", "mean_reward", "regret"]].to_numpy()
    assert np.isfinite(numbers).all()
    assert (rows["regret"] > -1e-6).all()
    best = (rows["mean_reward"] + rows["regret"]).groupby([rows[k] for k in ("setting", "trial")])
    assert (best.max() - best.min() < 1e-4).all()  # all agents play the same contexts
    final = ledger.curves()
    if final.empty:  # the first tables of the project have none
        assert name == "fixed"
        return
    final = final[final["round"] == study.identity["rounds"]].set_index(KEY)
    table = summarise_trials(rows).set_index(KEY)
    table = table.loc[final.index][table.loc[final.index, "trials"] == final["trials"]]
    np.testing.assert_allclose(
        table["outcome_mean"], final.loc[table.index, "outcome_mean"], atol=1e-5
    )
