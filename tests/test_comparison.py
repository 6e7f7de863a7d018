"""Comparison of kernels: it finds what the data were made with."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

from bayes_cmab import comparison
from bayes_cmab.cli import app
from bayes_cmab.comparison import compare_rewards, compare_transitions, explored, stored
from bayes_cmab.data import Outcomes, Transitions
from bayes_cmab.diagnostics import ATTRIBUTE
from bayes_cmab.environments import SETTINGS
from bayes_cmab.inference import NUTS
from bayes_cmab.models import RewardModel

RBF = RewardModel(power=0)


@pytest.mark.slow
def test_the_residual_is_needed_where_r_is_bimodal() -> None:
    rng = np.random.default_rng(0)
    s, a = rng.uniform(-1.5, 1.5, (2, 60, 1))
    r = (
        np.sin(s)
        + np.where(rng.uniform(size=(60, 1)) < 0.5, -1.0, 1.0)
        + 0.1 * rng.normal(size=(60, 1))
    )
    t = Transitions.create(s, a, r, capacity=60)
    table, pointwise = compare_transitions(t)
    table = table.set_index("model")
    assert table.index[-1] == "gaussian"
    gain = pointwise["residual"] - pointwise["gaussian"]
    assert gain.sum() > 2.0 * np.sqrt(len(gain)) * gain.std(ddof=1)
    behind = pointwise["gaussian"] - pointwise[table.index[0]]
    np.testing.assert_allclose(table.loc["gaussian", "difference"], behind.sum())
    error = np.sqrt(len(behind)) * behind.std(ddof=1)
    np.testing.assert_allclose(table.loc["gaussian", "se_difference"], error)


@pytest.mark.slow
def test_main_effects_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "SAMPLER", NUTS(draws=64, passes=3))
    rng = np.random.default_rng(1)
    r = rng.uniform(-2, 2, (60, 4))
    y = np.sum(np.sin(2 * r), axis=1) + 0.2 * rng.normal(size=60)
    outcomes = Outcomes.create(r, y, capacity=60)
    table = compare_rewards(outcomes, jax.random.key(0)).table.set_index("model")
    assert table.index[0] == "additive"
    others = table.loc[["nuclear", "rbf"]]
    assert (others["difference"] < -2 * others["se_difference"]).all()
    assert table.loc["additive", "weight"] > 0.8
    assert jnp.isclose(table["weight"].sum(), 1.0)


def test_data_of_a_setting_and_of_a_stored_posterior() -> None:
    transitions, outcomes = explored(SETTINGS["D"], 4, 3, jax.random.key(0))
    assert (int(transitions.size), int(outcomes.size)) == (4, 7)
    np.testing.assert_array_equal(outcomes.intermediates[3:7], transitions.intermediates[:4])
    rng = np.random.default_rng(0)
    s, a, r = (rng.normal(3.0, 2.0, (5, k)) for k in (1, 1, 2))
    groups = {
        "constant_data": {
            "transition_context": (("transition_id", "s_dim"), s),
            "transition_action": (("transition_id", "a_dim"), a),
            "transition_intermediate": (("transition_id", "r_dim"), r),
            "intermediate": (("obs_id", "r_dim"), r[:4]),
        },
        "observed_data": {"outcome": ("obs_id", r[:4, 0])},
    }
    units = {
        "context": {"center": [3.0], "scale": [2.0]},
        "action": {"center": [0.0], "scale": [1.0]},  # as of a category: not the data's
        "intermediate": {"center": [3.0, 1.0], "scale": [2.0, 4.0]},
        "outcome": {"center": [1.0], "scale": [0.5]},
    }
    tree = xr.DataTree.from_dict({name: xr.Dataset(own) for name, own in groups.items()})
    with pytest.raises(ValueError, match="expected the units of its agent"):
        stored(tree)
    tree.attrs[ATTRIBUTE] = json.dumps({"units": units})
    transitions, outcomes = stored(tree)
    np.testing.assert_allclose(transitions.contexts[:5], (s - 3.0) / 2.0)
    np.testing.assert_allclose(transitions.actions[:5], a)
    np.testing.assert_allclose(transitions.intermediates[:5], (r - [3.0, 1.0]) / [2.0, 4.0])
    np.testing.assert_allclose(outcomes.outcomes[:4], (r[:4, 0] - 1.0) / 0.5)
    np.testing.assert_allclose(outcomes.intermediates[:4], transitions.intermediates[:4])
    short = tree.isel(transition_id=slice(2), missing_dims="ignore")
    with pytest.raises(ValueError, match="expected at least 3 transitions and 3 outcomes, got 2"):
        stored(short)


@pytest.mark.slow
def test_the_command_prints_and_writes_both_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "SAMPLER", NUTS(draws=16, chains=2, warmup=5, passes=1))
    monkeypatch.setattr(comparison, "REWARD_MODELS", {"nuclear": RewardModel(), "rbf": RBF})
    chosen = {name: comparison.TRANSITION_MODELS[name] for name in ("product", "anova")}
    monkeypatch.setattr(comparison, "TRANSITION_MODELS", chosen)
    arguments = ["compare-models", "--setting", "A", "--rows", "8", "--offline", "4", "--json"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert {row["model"] for row in printed["transition"]} == {"product", "anova"}
    assert {row["model"] for row in printed["reward"]} == {"nuclear", "rbf"}
    assert [Path(file).name for file in printed["files"]] == ["transition.csv", "reward.csv"]
    assert CliRunner().invoke(app, ["compare-models", "--setting", "Z"]).exit_code == 1
