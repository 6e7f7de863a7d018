"""A live loop of 50 rounds that saves after every call, and goes on where it was when it is run.

    python live_loop.py FILE

It prints a line after every save.
"""

import os
import sys

os.environ["OPENBLAS_NUM_THREADS"] = "1"

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpyro

numpyro.enable_x64()  # before the first array is made

from live_agents import Clock, make  # noqa: E402

from bayes_cmab import Agent  # noqa: E402

ROUNDS, DELAY = 50, 3


def world(ticket: int, action: float) -> tuple[float, float, float]:
    """Return the context of a decision, and what comes of an action."""
    rng = np.random.default_rng(ticket)
    s = rng.uniform(-1.0, 1.0)
    r = np.sin(2.0 * action) + 0.3 * s + 0.2 * rng.normal()
    return s, r, 1.5 * np.sin(r) + 0.2 * rng.normal()


def run(agent: Agent, saved: Callable[[], None]) -> None:
    """Do what was not done yet: ask, tell the intermediate, tell an outcome three rounds late."""
    history = agent.history()
    tells = history[history["event"] == "tell"]
    seen = set(tells["ticket"][tells["intermediate"].notna()])
    done = set(tells["ticket"][tells["outcome"].notna()])
    asks = history[history["event"] == "ask"].set_index("ticket")
    actions = {int(ticket): float(row["action"][0]) for ticket, row in asks.iterrows()}
    for t in range(ROUNDS):
        if t not in actions:
            actions[t] = float(agent.ask(world(t, 0.0)[0]).action[0])
            saved()
        if t not in seen:
            agent.tell(t, intermediate=world(t, actions[t])[1])
            saved()
        late = t - DELAY
        if late >= 0 and late not in done:
            agent.tell(late, outcome=world(late, actions[late])[2])
            saved()


def new() -> Agent:
    """Return the agent of the first round."""
    return make(scales=None, context_sample=[-1.0, 1.0], clock=Clock().constant, seed=1)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    agent = Agent.load(path, clock=Clock().constant) if path.exists() else new()

    def saved() -> None:
        agent.save(path)
        print(len(agent.history()), flush=True)  # noqa: T201

    run(agent, saved)
