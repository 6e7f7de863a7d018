"""The command line: what it prints and writes, where, and how it fails."""

import csv
import json
import math
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from oracles import load
from typer.testing import CliRunner

from bayes_cmab.cli import app
from bayes_cmab.registry import agent_names
from bayes_cmab.storage import load_options, load_sweep
from bayes_cmab.summary import summarise
from bayes_cmab.sweep import Sweep

TINY = ["--agents", "random,oracle", "--trials", "2", "--rounds", "6", "--chunk", "1"]
PRODUCTS = ["summary.csv", "differences.csv", "cumulative.png", "quantile.png", "regret.png"]


@pytest.fixture(scope="session")
def cache_home(tmp_path_factory):
    """Return a cache folder for all tests, in the place of the user's."""
    return tmp_path_factory.getbasetemp() / "cache-home"


@pytest.fixture(autouse=True)
def _cache(monkeypatch, cache_home):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_home))
    monkeypatch.setenv("COLUMNS", "80")


def call(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def compared(tmp_path_factory, cache_home):
    """Return the folder and the document of a tiny comparison."""
    folder = tmp_path_factory.mktemp("compare")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache_home))
        result = call("compare", *TINY, "--offline", "0", "--workers", 1, "--out", folder, "--json")
    return folder, json.loads(result.stdout)


STUDY = """
differences = [["oracle", "random"]]
figure = ["random", "oracle"]

[shared]
settings = ["C"]
offline = [0]
rounds = 6
chunk = 1

[sweeps.both]
agents = ["random", "oracle"]
"""


@pytest.mark.slow
def test_reproduce_runs_a_study_and_goes_on_from_its_tables(tmp_path):
    study, folder = tmp_path / "study.toml", tmp_path / "out"
    study.write_text(STUDY, encoding="utf-8")
    options = [study, "--trials", 2, "--workers", 1, "--out", folder, "--json"]
    document = json.loads(call("reproduce", *options).stdout)
    assert [(row["agent"], row["trials"]) for row in document["summary"]] == [
        ("random", 2),
        ("oracle", 2),
    ]
    assert document["missing"] == []
    assert document["failed"] == {}
    files = ["summary.csv", "differences.csv", "mean.png", "quantile.png"]
    assert document["files"] == [str(folder / name) for name in files]
    assert (folder / "both-trials.csv.gz").exists()
    shutil.rmtree(folder / "cells")
    assert json.loads(call("reproduce", *options).stdout) == document
    assert not (folder / "cells").exists()  # nothing was run
    text = call("reproduce", study, "--tables-only", "--out", folder).stdout
    assert "2 cells of the study are not in the tables" in text  # they have 2 trials of 30
    assert all(name in text for name in files)


def test_reproduce_says_what_is_wrong(tmp_path):
    study = tmp_path / "study.toml"
    assert "expected a study" in call("reproduce", study, code=1).stderr
    study.write_text(STUDY, encoding="utf-8")
    wrong = call("reproduce", study, "--only", "none", code=1).stderr
    assert "sweep: expected one of 'both', got 'none'" in wrong
    empty = call("reproduce", study, "--tables-only", "--out", tmp_path / "new", code=1).stderr
    assert "expected tables of trials, got none" in empty
    assert not (tmp_path / "new").exists()


def test_compare_prints_one_document(compared):
    folder, document = compared
    assert set(document) == {"sweep", "summary", "differences", "files"}
    assert [row["agent"] for row in document["summary"]] == ["random", "oracle"]
    assert document["summary"][1]["regret_mean"] == pytest.approx(0.0, abs=1e-9)
    assert document["summary"][0]["trials"] == 2
    assert document["summary"][0]["seconds_per_round"] > 0.0
    (difference,) = document["differences"]
    assert (difference["agent"], difference["reference"]) == ("oracle", "random")
    assert difference["mean_reward_difference"] > 0.0
    assert document["files"] == [str(folder / name) for name in [*PRODUCTS, "sweep.json"]]


def test_compare_writes_what_it_printed(compared):
    folder, document = compared
    assert sorted(path.name for path in folder.iterdir() if path.is_file()) == sorted(
        [*PRODUCTS, "sweep.json"]
    )
    for name in ("summary", "differences"):
        with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as handle:
            rows = list(csv.DictReader(handle))
        assert rows == [
            {k: "" if v is None else str(v) for k, v in row.items()} for row in document[name]
        ]
    sweep = load_options(folder)
    expected = Sweep(("C",), ("random", "oracle"), (0,), trials=2, rounds=6, chunk=1, coverage=True)
    assert sweep == expected
    frame = summarise(load_sweep(sweep, folder))
    assert frame.outcome_mean.tolist() == [row["outcome_mean"] for row in document["summary"]]


@pytest.mark.slow
def test_compare_resumes_after_a_chunk_is_lost(compared):
    folder, document = compared
    before = {path: path.read_bytes() for path in folder.glob("*/*.nc")}
    times = {path: path.stat().st_mtime_ns for path in before}
    lost = sorted(before)[0]
    lost.unlink()
    options = [*TINY, "--offline", "0", "--workers", 1, "--out", folder, "--json"]
    again = json.loads(call("compare", *options).stdout)
    assert {path: path.read_bytes() for path in folder.glob("*/*.nc")} == before
    changed = [path for path in times if path.stat().st_mtime_ns != times[path]]
    assert changed == [lost]
    assert again["differences"] == document["differences"]


def test_compare_prints_tables_that_fit_a_terminal(compared):
    folder, document = compared
    result = call("compare", *TINY, "--offline", "0", "--out", folder, "--reference", "oracle")
    assert "Setting C, 0 offline outcomes" in result.stdout
    mean, error = (document["summary"][0][f"outcome_{name}"] for name in ("mean", "se"))
    assert f"{mean:.1f} ± {error:.1f}" in result.stdout
    assert "Minus oracle, in the same trials." in result.stdout
    assert "…" not in result.stdout
    tables = result.stdout.split("Written to")[0]
    assert max(map(len, tables.splitlines())) <= 80
    assert all(name in result.stdout for name in PRODUCTS)
    assert result.stderr == ""  # no progress bar: this is no terminal


def test_results_of_other_options_are_refused_and_nothing_is_written(compared):
    folder, _ = compared
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    options = [*TINY, "--offline", "0", "--seed", 1, "--out", folder, "--json"]
    result = call("compare", *options, code=1)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert "seed differ" in result.stderr
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_plot_draws_the_stored_results_again(compared):
    folder, _ = compared
    before = (folder / "regret.png").read_bytes()
    (folder / "regret.png").unlink()
    result = call("plot", folder)
    assert (folder / "regret.png").read_bytes() == before
    assert str(folder / "regret.png") in result.stdout.replace("\n", "")
    call("plot", folder, "--format", "svg")
    assert (folder / "quantile.svg").exists()
    for path in folder.glob("*.svg"):
        path.unlink()


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "got no such file"), ('{"schema": 2, "sw', "expected the options of a sweep, got")],
)
def test_plot_needs_the_options_of_a_sweep(tmp_path, content, message):
    if content is not None:
        (tmp_path / "sweep.json").write_text(content, encoding="utf-8")
    result = call("plot", tmp_path, code=1)
    assert result.stderr.startswith("error: ")
    assert "sweep.json" in result.stderr
    assert message in result.stderr


def test_plot_needs_the_results_of_its_sweep(compared, tmp_path):
    folder, _ = compared
    (tmp_path / "sweep.json").write_bytes((folder / "sweep.json").read_bytes())
    assert "expected a results file, got none" in call("plot", tmp_path, code=1).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.json"]


@pytest.mark.slow
def test_run_prints_one_cell(tmp_path):
    options = ["--agent", "random", "--offline", 0, "--trials", 1, "--rounds", 4, "--coverage"]
    result = call("run", *options, "--workers", 1, "--out", tmp_path, "--json")
    document = json.loads(result.stdout)
    (row,) = document["summary"]
    assert (row["setting"], row["agent"], row["offline"]) == ("C", "random", 0)
    assert math.isfinite(row["outcome_mean"])
    assert row["outcome_se"] is None  # of one trial; JSON has no NaN
    assert row["coverage_95"] is None  # of an agent that predicts nothing
    table = call("run", *options, "--out", tmp_path).stdout
    assert f"{row['outcome_mean']:.1f}" in table
    assert "nan" not in table


@pytest.mark.parametrize(
    ("options", "code", "named"),
    [
        (["--setting", "Z"], 1, "setting: expected one of 'A'"),
        (["--agents", "cbmp-fixed,nobody"], 1, "agent: expected one of"),
        (["--agents", ","], 1, "agents: expected at least one"),
        (["--agents", "random,random"], 1, "agents: expected no repetition"),
        (["--reference", "gp-map", "--agents", "random"], 1, "reference: expected one of"),
        (["--beta", "-1"], 1, "beta: expected non-negative"),
        (["--offline", "-5"], 1, "offline: expected a whole number"),
        (["--offline", "0,many"], 2, "--offline"),
        (["--beta", "0.25;1"], 2, "--beta"),
        (["--trials", "0"], 2, "--trials"),
        (["--workers", "0"], 2, "--workers"),
        (["--seed", "-1"], 2, "--seed"),
        (["--no-such-option"], 2, "--no-such-option"),
    ],
)
def test_bad_options_name_the_argument_and_leave_no_folder(tmp_path, options, code, named):
    folder = tmp_path / "out"
    result = call("compare", "--out", folder, *options, code=code)
    assert named in result.stderr
    assert result.stdout == ""
    if code == 1:
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
    assert not folder.exists()


def test_out_must_be_a_folder(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine", encoding="utf-8")
    assert "--out" in call("compare", "--out", file, code=2).stderr
    assert file.read_text(encoding="utf-8") == "mine"


def test_settings_are_those_of_the_oracle_file():
    rows = {row.pop("setting"): row for row in json.loads(call("settings", "--json").stdout)}
    assert list(rows) == ["A", "B", "C", "D", "E", "F"]
    for name, row in rows.items():
        expected = load("settings.json")[name]
        assert row["oracle"] == pytest.approx(expected["oracle"], rel=1e-9)
        assert row["best_fixed"] == pytest.approx(expected["best_fixed_action"], rel=1e-9)
        assert row["random"] == pytest.approx(expected["random"], rel=1e-9)
    table = call("settings").stdout
    assert all(row["description"] in table for row in rows.values())  # none is wrapped
    assert "2.788" in table


def test_agents_are_those_of_the_registry():
    rows = json.loads(call("agents", "--json").stdout)
    assert [row["agent"] for row in rows] == agent_names()
    assert all(row["description"] for row in rows)
    table = call("agents").stdout
    assert all(name in table for name in agent_names())


@pytest.mark.parametrize("command", ["compare", "run", "plot", "settings", "agents"])
def test_help_fits_a_terminal(command):
    text = call(command, "--help").stdout
    assert f"{command} [OPTIONS]" in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    if command in ("compare", "run", "plot"):
        assert f"bayes-cmab {command} " in text


def test_version():
    assert call("--version").stdout == f"bayes-cmab {version('bayes-cmab')}\n"


def test_the_entry_point_is_installed():
    script = Path(sys.executable).with_name("bayes-cmab")
    shown = subprocess.run([script, "--help"], check=True, capture_output=True, text=True)
    assert "compare" in shown.stdout
