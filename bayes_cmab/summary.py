"""Summaries of a sweep: pure functions of its results, one data set a cell.

Outcomes carry noise that no agent can do anything about; pseudo-regret does not, and differences
between agents in the same trials (same contexts, same noise) carry less of it again.
"""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats
from scipy.special import stdtrit

from bayes_cmab.sweep import Cell, Chunk, Sweep, cell_key, explores
from bayes_cmab.validate import FloatArray, one_of

type Results = Mapping[Cell, xr.Dataset]
"""What `load_sweep` returns."""

TAIL = 0.05
"""Level of the lower quantile of the cumulative outcome."""

CONFIDENCE = 0.95
"""Level of every interval."""

RESAMPLES = 4000
"""Of a bootstrap."""

DIFFERENCE_COLUMNS = (
    *("setting", "offline", "agent", "beta", "reference", "trials"),
    *("mean_reward_difference", "mean_reward_low", "mean_reward_high"),
    *("outcome_difference", "outcome_low", "outcome_high"),
)


def cumulative_outcome(data: xr.Dataset) -> FloatArray:
    """Return the sum of the outcomes up to each round, shape (trials, rounds)."""
    return _rounds(data, "outcome").cumsum(axis=1)


def cumulative_mean_reward(data: xr.Dataset) -> FloatArray:
    """Return the sum of the mean rewards up to each round, shape (trials, rounds)."""
    return _rounds(data, "mean_reward").cumsum(axis=1)


def cumulative_pseudo_regret(data: xr.Dataset) -> FloatArray:
    """Return the sum of ``max_a g(s, a) - g(s, a_t)`` up to each round, shape (trials, rounds)."""
    regret = _rounds(data, "best_mean_reward") - _rounds(data, "mean_reward")
    return regret.cumsum(axis=1)


def _rounds(data: xr.Dataset, name: str) -> FloatArray:
    return np.asarray(data[name].transpose("trial", "round").values, np.float64)


def standard_error(values: FloatArray) -> FloatArray:
    """Return the standard error of the mean over the first axis; NaN for a single trial."""
    trials = len(values)
    if trials < 2:
        return np.full(values.shape[1:], np.nan)
    return np.asarray(values.std(axis=0, ddof=1) / math.sqrt(trials), np.float64)


def half_width(values: FloatArray) -> FloatArray:
    """Return half the width of the 95% t-interval of the mean over the first axis."""
    return np.asarray(interval_factor(len(values)) * standard_error(values), np.float64)


def tail_interval(values: FloatArray) -> tuple[float, float]:
    """Return the bounds of a 95% bootstrap interval of the 0.05 quantile (percentiles).

    Of few trials it is a rough one, as it cannot reach below the worst.
    """
    found = stats.bootstrap(
        (values,),
        lambda drawn, axis: np.quantile(drawn, TAIL, axis=axis),
        n_resamples=RESAMPLES,
        method="percentile",
        confidence_level=CONFIDENCE,
        rng=np.random.default_rng(0),
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def interval_factor(trials: int) -> float:
    """Return half the width of a mean's 95% t-interval over its standard error."""
    return float(stdtrit(max(trials - 1, 1), 0.5 + 0.5 * CONFIDENCE))


def summarise(results: Results, seconds: Mapping[Cell, float] | None = None) -> pd.DataFrame:
    """Return one row for each cell.

    Parameters
    ----------
    results : of `load_sweep`.
    seconds : of `seconds_per_round`, where times are known.

    Returns
    -------
    pandas.DataFrame
        ``setting, offline, agent, beta`` of the cell; ``trials, rounds``; ``outcome_mean`` and
        ``outcome_se``, the mean of the cumulative outcome and its standard error (NaN for a
        single trial); ``outcome_q05``, its 0.05 quantile over trials; ``regret_mean`` and
        ``regret_se`` of the cumulative pseudo-regret. Where it was measured, ``coverage_50`` and
        so on: the share of the grid whose mean reward lies in the central interval of that
        level, at the last checkpoint (NaN for agents that predict nothing). ``refits``, the mean
        number of rounds of a trial before which hyperparameters were fitted, and
        ``failed_fits``, the mean number of fits that failed at the convergence gate. With
        ``seconds``, ``seconds_per_round``.
    """
    rows = []
    for cell, data in results.items():
        outcome = cumulative_outcome(data)[:, -1]
        regret = cumulative_pseudo_regret(data)[:, -1]
        row: dict[str, Any] = {
            **cell_key(cell),
            "trials": data.sizes["trial"],
            "rounds": data.sizes["round"],
            "outcome_mean": float(outcome.mean()),
            "outcome_se": float(standard_error(outcome)),
            f"outcome_q{100 * TAIL:02.0f}": float(np.quantile(outcome, TAIL)),
            "regret_mean": float(regret.mean()),
            "regret_se": float(standard_error(regret)),
            **_coverage(cell, data),
            "refits": float((data["fits"] > 0).sum("round").mean()),
            "failed_fits": float(data["failures"].sum("round").mean()),
        }
        if seconds is not None:
            row["seconds_per_round"] = seconds.get(cell, math.nan)
        rows.append(row)
    return pd.DataFrame(rows)


def _coverage(cell: Cell, data: xr.Dataset) -> dict[str, float]:
    if "coverage" not in data:
        return {}
    last = data["coverage"].isel(checkpoint=-1).mean("trial")
    return {
        f"coverage_{100 * level:.0f}": float(share) if explores(cell.agent) else math.nan
        for level, share in zip(last["level"].values, last.values, strict=True)
    }


def paired_differences(results: Results, reference: str) -> pd.DataFrame:
    """Compare each agent with a reference in the same trials.

    Parameters
    ----------
    results : of `load_sweep`.
    reference : name of an agent among the results.

    Returns
    -------
    pandas.DataFrame
        One row for each setting, offline size, exploration weight and agent but the reference:
        ``setting, offline, agent, beta, reference, trials``, and agent minus reference in the
        sum of the mean rewards (``mean_reward_difference``; minus the difference of the
        pseudo-regrets) and of the outcomes (``outcome_difference``), with ``..._low`` and
        ``..._high`` of the 95% t-interval over paired trials (NaN for a single trial). The
        intervals are not corrected for the number of comparisons. An agent that does not explore
        has one cell, which serves at every exploration weight.

    Raises
    ------
    ValueError
        If the reference is not among the agents, or two cells have different trials.
    """
    one_of(reference, "reference", list(dict.fromkeys(cell.agent for cell in results)))
    rows = []
    for cell, base in _pairs(results, reference):
        mean_reward = _difference(results, cell, base, cumulative_mean_reward)
        outcome = _difference(results, cell, base, cumulative_outcome)
        beta = float(cell.beta if explores(cell.agent) else base.beta)
        trials = results[cell].sizes["trial"]
        rows.append(
            (
                cell.setting,
                cell.offline,
                cell.agent,
                beta,
                reference,
                trials,
                *mean_reward,
                *outcome,
            )
        )
    return pd.DataFrame(rows, columns=list(DIFFERENCE_COLUMNS))


def _difference(
    results: Results, cell: Cell, base: Cell, total: Callable[[xr.Dataset], FloatArray]
) -> tuple[float, float, float]:
    """Return the mean of a paired difference, and the bounds of its interval."""
    data, other = results[cell], results[base]
    if not np.array_equal(data["trial"], other["trial"]):
        raise ValueError(
            f"results: expected the same trials in {cell.label} and {base.label}, got "
            f"{data['trial'].values.tolist()} and {other['trial'].values.tolist()}"
        )
    if data.sizes["round"] != other.sizes["round"]:
        raise ValueError(
            f"results: expected as many rounds in {cell.label} as in {base.label}, got "
            f"{data.sizes['round']} and {other.sizes['round']}"
        )
    values = total(data)[:, -1] - total(other)[:, -1]
    mean, half = float(values.mean()), float(half_width(values))
    return mean, mean - half, mean + half


def _pairs(results: Results, reference: str) -> list[tuple[Cell, Cell]]:
    """Return the cells to compare, each with the reference's of the same exploration weight."""
    scenes: dict[tuple[str, int], list[Cell]] = {}
    for cell in results:
        scenes.setdefault((cell.setting, cell.offline), []).append(cell)
    pairs = []
    for scene, cells in scenes.items():
        references = [cell for cell in cells if cell.agent == reference]
        if not references:
            raise ValueError(f"reference: expected results in every setting, got none in {scene}")
        for base in references:
            for cell in cells:
                same = cell.beta == base.beta or not (explores(cell.agent) and explores(reference))
                if cell.agent != reference and same:
                    pairs.append((cell, base))
    return pairs


def seconds_per_round(sweep: Sweep, folder: Path) -> dict[Cell, float]:
    """Return the CPU seconds of a round in one trial, by cell, from the times beside the results.

    The first chunk of a cell includes the compilation of its programs: the smallest value over
    its chunks is returned, so that with a single chunk the compilation is counted. Cells
    without a readable time are left out.
    """
    seconds = {}
    for cell in sweep.cells():
        times = []
        for trials in sweep.chunks():
            path = Chunk(sweep, cell, trials).path(folder).with_suffix(".time.json")
            try:
                spent = json.loads(path.read_text(encoding="utf-8"))
                times.append(spent["cpu_seconds"] / (spent["trials"] * sweep.rounds))
            except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
                continue
        if times:
            seconds[cell] = min(times)
    return seconds
