"""Summaries against closed forms on arrays small enough to do by hand."""

import json
import math

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from bayes_cmab.summary import (
    cumulative_mean_reward,
    cumulative_outcome,
    cumulative_pseudo_regret,
    half_width,
    paired_differences,
    seconds_per_round,
    standard_error,
    summarise,
    tail_interval,
)
from bayes_cmab.sweep import Cell, Chunk, Sweep

BASE = Cell("C", 0, "cbmp-fixed", 0.25)
OTHER = Cell("C", 0, "gp-fixed", 0.25)


def dataset(outcome, mean_reward=None, best=2.0, coverage=None, trials=None):
    outcome = np.asarray(outcome, float)
    mean_reward = outcome if mean_reward is None else np.asarray(mean_reward, float)
    axes = ("trial", "round")
    variables = {
        "outcome": (axes, outcome),
        "mean_reward": (axes, mean_reward),
        "best_mean_reward": (axes, np.full(outcome.shape, best)),
        "fits": (axes, np.tile([2] + [0] * (outcome.shape[1] - 1), (len(outcome), 1))),
        "failures": (axes, np.zeros(outcome.shape, int)),
    }
    coords = {"trial": np.arange(len(outcome)) if trials is None else trials}
    if coverage is not None:
        variables["coverage"] = (("trial", "checkpoint", "level"), np.asarray(coverage, float))
        coords |= {"checkpoint": [1, 2], "level": [0.5, 0.95]}
    return xr.Dataset(variables, coords=coords)


def test_cumulative_sums_run_over_the_rounds():
    data = dataset([[1.0, 2.0, 4.0], [0.0, -1.0, 3.0]], [[1.0, 1.5, 2.0], [0.0, 2.0, 1.0]])
    np.testing.assert_array_equal(cumulative_outcome(data), [[1.0, 3.0, 7.0], [0.0, -1.0, 2.0]])
    np.testing.assert_array_equal(cumulative_mean_reward(data), [[1.0, 2.5, 4.5], [0.0, 2.0, 3.0]])
    np.testing.assert_array_equal(
        cumulative_pseudo_regret(data), [[1.0, 1.5, 1.5], [2.0, 2.0, 3.0]]
    )


def test_cumulative_sums_do_not_depend_on_the_order_of_the_dimensions():
    data = dataset([[1.0, 2.0, 4.0], [0.0, -1.0, 3.0]])
    np.testing.assert_array_equal(cumulative_outcome(data.transpose()), cumulative_outcome(data))


def test_standard_error_and_interval_of_three_values():
    values = np.array([1.0, 2.0, 6.0])  # mean 3, squared deviations 4 + 1 + 9
    assert standard_error(values) == pytest.approx(math.sqrt(14 / 2 / 3))
    low, high = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert half_width(values) == pytest.approx(0.5 * (high - low))


def test_a_single_trial_has_no_standard_error():
    assert np.isnan(standard_error(np.array([3.0])))
    row = summarise({BASE: dataset([[1.0, 2.0]])}).iloc[0]
    assert row.outcome_mean == 3.0
    assert np.isnan(row.outcome_se)


def test_summary_of_two_trials():
    frame = summarise({BASE: dataset([[1.0, 2.0], [3.0, 4.0]], [[1.0, 1.0], [2.0, 1.0]])})
    assert len(frame) == 1
    row = frame.iloc[0]
    assert (row.setting, row.offline, row.agent, row.beta) == ("C", 0, "cbmp-fixed", 0.25)
    assert (row.trials, row.rounds) == (2, 2)
    assert row.outcome_mean == 5.0  # of 3 and 7
    assert row.outcome_se == 2.0
    assert row.outcome_q05 == pytest.approx(3.2)
    assert row.regret_mean == 1.5  # of 2 and 1
    assert row.regret_se == 0.5
    assert (row.refits, row.failed_fits) == (1.0, 0.0)
    assert "coverage_50" not in frame
    assert "seconds_per_round" not in frame


def test_coverage_is_that_of_the_last_checkpoint():
    coverage = [[[0.1, 0.2], [0.5, 0.9]], [[0.1, 0.2], [0.7, 1.0]]]
    row = summarise({BASE: dataset([[1.0, 2.0], [3.0, 4.0]], coverage=coverage)}).iloc[0]
    assert row.coverage_50 == pytest.approx(0.6)
    assert row.coverage_95 == pytest.approx(0.95)


def test_an_agent_that_predicts_nothing_has_no_coverage():
    oracle = Cell("C", 0, "oracle", 0.25)
    frame = summarise({oracle: dataset([[1.0, 2.0]], coverage=np.ones((1, 2, 2)))})
    assert np.isnan(frame.coverage_95[0])


def test_seconds_are_joined_by_cell():
    data = dataset([[1.0, 2.0]])
    frame = summarise({BASE: data, OTHER: data}, {OTHER: 0.5})
    assert np.isnan(frame.seconds_per_round[0])
    assert frame.seconds_per_round[1] == 0.5


def test_seconds_are_the_smallest_over_chunks_and_skip_what_cannot_be_read(tmp_path):
    sweep = Sweep(
        ("C",), ("gp-fixed", "random", "oracle"), offline=(0,), trials=4, rounds=5, chunk=2
    )
    gp, random, _ = sweep.cells()
    for cell, trials, text in (
        (gp, range(2), json.dumps({"cpu_seconds": 50.0, "trials": 2})),
        (gp, range(2, 4), json.dumps({"cpu_seconds": 1.0, "trials": 2})),
        (random, range(2), "{"),
        (random, range(2, 4), "[]"),
    ):
        path = Chunk(sweep, cell, trials).path(tmp_path).with_suffix(".time.json")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert seconds_per_round(sweep, tmp_path) == {gp: pytest.approx(0.1)}


def test_paired_difference_against_scipy():
    rng = np.random.default_rng(0)
    base, other = rng.normal(size=(2, 8, 5))
    means = rng.normal(size=(2, 8, 5))
    frame = paired_differences(
        {BASE: dataset(base, means[0]), OTHER: dataset(other, means[1])}, "cbmp-fixed"
    )
    assert len(frame) == 1
    row = frame.iloc[0]
    assert (row.agent, row.reference, row.trials) == ("gp-fixed", "cbmp-fixed", 8)
    for name, first, second in (("outcome", base, other), ("mean_reward", *means)):
        test = stats.ttest_rel(second.sum(axis=1), first.sum(axis=1))
        low, high = test.confidence_interval(0.95)
        assert row[f"{name}_difference"] == pytest.approx((second - first).sum(axis=1).mean())
        assert row[f"{name}_low"] == pytest.approx(low)
        assert row[f"{name}_high"] == pytest.approx(high)


def test_a_noise_that_all_agents_share_leaves_no_width():
    noise = np.random.default_rng(1).normal(size=(6, 4))
    frame = paired_differences({BASE: dataset(noise), OTHER: dataset(noise + 0.5)}, "cbmp-fixed")
    assert frame.outcome_low[0] == pytest.approx(2.0)
    assert frame.outcome_high[0] == pytest.approx(2.0)


def test_each_agent_is_compared_at_the_same_exploration_weight():
    values = {0.25: 1.0, 4.0: 10.0}
    results = {
        Cell("C", 0, agent, beta): dataset(np.full((2, 3), shift * value))
        for agent, shift in (("cbmp-fixed", 1.0), ("gp-fixed", 2.0))
        for beta, value in values.items()
    }
    results[Cell("C", 0, "random", 0.25)] = dataset(np.zeros((2, 3)))
    frame = paired_differences(results, "cbmp-fixed").set_index(["agent", "beta"])
    expected = {("gp-fixed", b): 3 * v for b, v in values.items()}
    expected |= {("random", b): -3 * v for b, v in values.items()}  # its one cell, at every weight
    assert frame.outcome_difference.to_dict() == expected


def test_a_reference_that_does_not_explore_serves_every_weight():
    results = {
        Cell("C", 0, "gp-fixed", 0.25): dataset(np.full((2, 3), 1.0)),
        Cell("C", 0, "gp-fixed", 4.0): dataset(np.full((2, 3), 2.0)),
        Cell("C", 0, "random", 0.25): dataset(np.zeros((2, 3))),
        Cell("C", 0, "oracle", 0.25): dataset(np.full((2, 3), 3.0)),
    }
    frame = paired_differences(results, "random")
    assert list(zip(frame.agent, frame.beta, frame.outcome_difference, strict=True)) == [
        ("gp-fixed", 0.25, 3.0),
        ("gp-fixed", 4.0, 6.0),
        ("oracle", 0.25, 9.0),
    ]


def test_settings_and_offline_sizes_are_not_mixed():
    results = {
        Cell(setting, offline, agent, 0.25): dataset(np.full((2, 2), value + 10 * offline))
        for setting, offline, shift in (("A", 0, 0.0), ("C", 0, 5.0), ("C", 1, 7.0))
        for agent, value in (("cbmp-fixed", 1.0), ("gp-fixed", 2.0 + shift))
    }
    frame = paired_differences(results, "cbmp-fixed")
    assert list(zip(frame.setting, frame.offline, frame.outcome_difference, strict=True)) == [
        ("A", 0, 2.0),
        ("C", 0, 12.0),
        ("C", 1, 16.0),
    ]


def test_the_reference_alone_gives_an_empty_table_with_its_columns():
    frame = paired_differences({BASE: dataset([[1.0]])}, "cbmp-fixed")
    assert frame.empty
    assert "outcome_low" in frame


def test_unknown_reference():
    with pytest.raises(ValueError, match="reference: expected one of 'cbmp-fixed', got 'random'"):
        paired_differences({BASE: dataset([[1.0]])}, "random")


def test_a_reference_that_is_missing_in_one_setting():
    results = {BASE: dataset([[1.0]]), Cell("A", 0, "gp-fixed", 0.25): dataset([[1.0]])}
    with pytest.raises(ValueError, match="reference: expected results in every setting"):
        paired_differences(results, "cbmp-fixed")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (dataset([[1.0], [2.0]], trials=[2, 3]), r"the same trials .* got \[2, 3\] and"),
        (dataset([[1.0]]), "the same trials"),
        (dataset([[1.0, 2.0], [2.0, 3.0]]), "as many rounds .* got 2 and 1"),
    ],
)
def test_differences_need_the_same_trials_and_rounds(other, message):
    with pytest.raises(ValueError, match=message):
        paired_differences({BASE: dataset([[1.0], [2.0]]), OTHER: other}, "cbmp-fixed")


def test_the_interval_of_the_quantile_is_the_asymptotic_one_for_many_trials():
    values = np.random.default_rng(0).normal(size=4000)
    low, high = tail_interval(values)
    assert low < np.quantile(values, 0.05) < high
    deviation = math.sqrt(0.05 * 0.95 / 4000) / stats.norm.pdf(stats.norm.ppf(0.05))
    assert high - low == pytest.approx(2.0 * 1.96 * deviation, rel=0.15)


def test_the_interval_of_the_quantile_of_few_trials_stays_among_them():
    values = np.array([3.0, 1.0, 2.0, 5.0])
    assert tail_interval(values)[0] == 1.0
    assert 1.0 < tail_interval(values)[1] < 5.0
    assert tail_interval(np.full(4, 2.0)) == (2.0, 2.0)
