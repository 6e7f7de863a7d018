"""The agent whose life is tested: its units, what it is told, and its tables compared."""

import jax.numpy as jnp
import numpy as np
from live_agents import paper_agent

from bayes_cmab import Scales, Units

ACTIONS = np.linspace(-2.0, 2.0, 5)
UNITS = Scales(
    *(
        Units.create([c] * k, [z] * k, "x", k)
        for c, z, k in ((0.3, 2.0, 1), (0.0, 1.5, 1), (0.1, 1.2, 2))
    ),
    Units(jnp.array(1.0), jnp.array(2.0)),
)


def make(**options):
    return paper_agent(options.pop("actions", ACTIONS), **{"dim_intermediate": 2} | options)


def respond(rng, context, action):
    r = np.array([np.sin(np.sum(context)), np.cos(np.sum(action))]) + 0.25 * rng.normal(size=2)
    return r, 1.0 + 1.5 * np.sin(np.pi * r).sum() + rng.normal()


def run(agent, rounds, rng, *, first=0):
    """Ask and tell; return the decisions."""
    decisions = []
    for _ in range(first, first + rounds):
        s = rng.uniform(-3.0, 3.0)
        decisions.append(agent.ask(s))
        r, y = respond(rng, s, decisions[-1].action)
        agent.tell(decisions[-1].ticket, intermediate=r, outcome=y)
    return decisions


def history(rng, n):
    """Return contexts, actions, intermediates and outcomes of n rows."""
    s, a = rng.uniform(-3.0, 3.0, n), rng.choice(ACTIONS, n)
    rows = [respond(rng, *pair) for pair in zip(s, a, strict=True)]
    return s, a, np.array([r for r, _ in rows]), np.array([y for _, y in rows])


def assert_same_table(one, other, tolerance=1e-10):
    np.testing.assert_allclose(one.to_numpy(), other.to_numpy(), rtol=0.0, atol=tolerance)


def price(r):
    return 3.0 + 2.0 * r[0] - r[1] ** 2
