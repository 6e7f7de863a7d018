"""Agents that are saved: compared to the last bit, with categories, and files rewritten."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from live_agents import paper_agent

from bayes_cmab import Agent

ADVERTS = pd.DataFrame(
    {"colour": ["red", "blue", "red"], "price": [1.0, 2.0, 3.0], "new": [True, False, True]}
)
VISITORS = pd.DataFrame({"age": [20.0, 40.0], "device": ["phone", "tablet"]})


def assert_same(one, other):
    """Compare all that can be seen of two agents, to the last bit."""
    pd.testing.assert_frame_equal(one.score(0.3), other.score(0.3), check_exact=True)
    pd.testing.assert_frame_equal(one.history(), other.history(), check_exact=True)
    assert one.waiting == other.waiting
    for mine, theirs in zip(one.data, other.data, strict=True):
        for column, same in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(column, same)
    assert {k: np.asarray(v).tolist() for k, v in one.sites.items()} == {
        k: np.asarray(v).tolist() for k, v in other.sites.items()
    }


def offering_adverts(**options) -> Agent:
    """Return an agent with categories that are strings, bools and numbers."""
    return paper_agent(
        ADVERTS,
        context_sample=VISITORS,
        categories={"device": ["phone", "tablet", "other"], "price": [1, 2, 3, 4.5]},
        **options,
    )


def show_adverts(agent: Agent, rounds: int, seed: int) -> list[tuple[object, ...]]:
    """Ask by name and by position, with actions of the call now and then; return all decisions."""
    rng = np.random.default_rng(seed)
    decided = []
    for i in range(rounds):
        age, device = rng.uniform(18.0, 80.0), ["phone", "tablet", "other"][i % 3]
        context = {"device": device, "age": age} if i % 2 else [age, device]
        actions = [["blue", 4.5, True], ["red", 1, False]] if i % 4 == 3 else None
        d = agent.ask(context, actions)
        decided.append((d.index, d.mean, d.standard_deviation, *d.action))
        agent.tell(d.ticket, intermediate=rng.normal())
        if i % 3:
            agent.tell(d.ticket, outcome=rng.normal())
    return decided


def rewrite(path: Path, change) -> None:
    """Change the document in a file."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members["agent.json"])
    change(document)
    members["agent.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
