"""Studies: what a TOML file may hold, and what is said of one that holds something else."""

from pathlib import Path

import pytest

from bayes_cmab.study import Study, read_study
from bayes_cmab.sweep import Sweep

ROOT = Path(__file__).parent.parent
TEXT = """
differences = [["oracle", "random"]]
figure = ["oracle", "random"]

[shared]
settings = ["C"]
seed = 3
trials = 4

[sweeps.one]
agents = ["random"]

[sweeps.two]
agents = ["oracle"]
trials = 9
betas = [1.0]
"""


def read(text: str, folder: Path) -> Study:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return read_study(path)


def test_sweeps_take_what_is_shared_unless_they_say_otherwise(tmp_path):
    study = read(TEXT, tmp_path)
    assert study.sweeps == {
        "one": Sweep(("C",), ("random",), trials=4, seed=3),
        "two": Sweep(("C",), ("oracle",), trials=9, seed=3, betas=(1.0,)),
    }
    assert study.differences == (("oracle", "random"),)
    assert study.figure == ("oracle", "random")
    assert study.identity == {"rounds": 100, "seed": 3, "refit_every": 5}
    assert study.beta == 0.25  # of the first sweep


def test_a_study_can_be_limited(tmp_path):
    study = read(TEXT, tmp_path)
    assert {n: s.trials for n, s in study.limited(trials=6).sweeps.items()} == {"one": 4, "two": 6}
    assert list(study.limited(("two",)).sweeps) == ["two"]
    with pytest.raises(ValueError, match="sweep: expected one of 'one', 'two', got 'three'"):
        study.limited(("three",))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('[["oracle", "random"]]', "5"), "differences: expected a list, got 5"),
        (('figure = ["oracle", "random"]', "figure = true"), "figure: expected a list, got True"),
        (("[shared]", "[share]"), r"key: expected one of 'shared', .*, got 'share'"),
        (("seed = 3", "sede = 3"), r"shared: expected one of 'settings', .*, got 'sede'"),
        (('["random"]\n', '["ran"]\n'), r"sweeps\.one: agent: expected one of"),
        (("trials = 9", "seed = 4"), r"sweeps\.two\.seed: expected 3 as in one, got 4"),
        (('agents = ["oracle"]', ""), r"sweeps\.two: .*'agents'"),
        (('[["oracle", "random"]]', '["oracle"]'), "differences: expected pairs of agents"),
        (('["oracle", "random"]\n\n', '["sibyl"]\n\n'), "agent: expected one of"),
        (("seed = 3", "seed = "), "Invalid value"),
        (("trials = 9", "trials = 0"), r"sweeps\.two: trials: expected a whole number"),
    ],
)
def test_errors_say_where(change, message, tmp_path):
    assert change[0] in TEXT
    with pytest.raises(ValueError, match=rf"study\.toml: expected a study, got: .*{message}"):
        read(TEXT.replace(*change, 1), tmp_path)


def test_a_study_needs_sweeps_and_a_file(tmp_path):
    with pytest.raises(ValueError, match="sweeps: expected at least one, got none"):
        read("", tmp_path)
    with pytest.raises(ValueError, match=r"nowhere\.toml: expected a study, got: .*No such file"):
        read_study(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("name", ["study", "fixed"])
def test_the_projects_studies_can_be_read(name):
    assert len(read_study(ROOT / "analysis" / f"{name}.toml").sweeps) > 3
