"""The NumPy reference of the benchmarks plays the package's trials, action by action."""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from bayes_cmab.environments import SETTINGS
from bayes_cmab.registry import make_agent
from bayes_cmab.simulation import play

FOLDER = Path(__file__).parent.parent / "analysis" / "benchmarks"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cbmp-fixed", "cme-fixed"])
def test_the_reference_takes_the_same_actions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    handover, reference = import_module("handover"), import_module("numpy_reference")
    environment = SETTINGS["C"]
    options = {"rounds": 20, "offline": 5, "seed": 3}
    agent = make_agent(name, environment)
    record = play(agent, environment, trials=range(2), **options)
    scorer = reference.AGENTS[name](handover.fixed_hyperparameters(agent, environment))
    inputs = handover.draw_inputs(environment, trials=range(2), **options)
    for trial, given in enumerate(inputs):
        played = reference.play_trial(reference.SETTINGS["C"], scorer, given, 0.25)
        np.testing.assert_array_equal(played.action_index, record.rounds.action_index[trial])
