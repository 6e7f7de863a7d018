"""Small live agents that share one policy and few shapes, so that little is compiled."""

from datetime import UTC, datetime, timedelta

import numpy as np

from bayes_cmab import NUTS, Agent, Fixed, Gate, Scales

ACTIONS = np.array([-1.0, 0.0, 0.5, 2.0])
UNITS = Scales.identity(1, 1, 1)
SAMPLER = NUTS(draws=8, chains=2, warmup=8, passes=1)
LENIENT = Gate(rhat=np.inf, ess=0.0, divergent=1.0, bfmi=0.0)


class Clock:
    """A second later every time."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.time += timedelta(seconds=1)
        return self.time

    def constant(self) -> datetime:
        return self.time


def paper_agent(actions, **options) -> Agent:
    """Return an agent that compiles fast: the paper's form, fixed, where nothing else is given."""
    form = {} if "policy" in options else {"embedding": "paper"}
    return Agent(actions, **(form | {"inference": Fixed()} | options))


def make(**options) -> Agent:
    actions = options.pop("actions", ACTIONS)
    return paper_agent(actions, **({"scales": UNITS} | options))


def respond(rng, context, action):
    r = np.sin(2.0 * action[0]) + 0.3 * context + 0.2 * rng.normal()
    return r, 1.5 * np.sin(r) + 0.2 * rng.normal()


def play(agent: Agent, rounds: int, seed: int, **call) -> list[tuple[float, ...]]:
    """Ask, and tell half of the outcomes a round late; return all that was decided."""
    rng = np.random.default_rng(seed)
    late, decided = None, []
    for _ in range(rounds):
        s = rng.uniform(-1.0, 1.0)
        d = agent.ask(s, **call)
        decided.append((d.index, d.mean, d.standard_deviation, d.score, *d.action))
        r, y = respond(rng, s, d.action)
        if late is not None:
            agent.tell(late[0], outcome=late[1])
            late = None
        if d.ticket % 2:
            agent.tell(d.ticket, intermediate=r)
            late = d.ticket, y
        else:
            agent.tell(d.ticket, intermediate=r, outcome=y)
    return decided
