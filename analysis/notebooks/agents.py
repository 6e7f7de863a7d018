"""Agents that were told a data set, and what they believe of g on the whole grid."""

from typing import Any, NamedTuple

import jax
import numpy as np
from figures import Floats

import bayes_cmab as bc
from bayes_cmab.comparison import explored
from bayes_cmab.environments import Environment
from bayes_cmab.worlds import declared_scales


def informed(
    environment: Environment, size: int, offline: int, seed: int, **options: Any
) -> bc.Agent:
    """Return an agent in the setting's units that was told what uniform actions yield.

    Parameters
    ----------
    size : transitions with their outcomes. offline : outcomes without a transition.
    seed : of the rows. options : of the `Agent`; the paper's form without a policy.
    """
    named = {} if "policy" in options else {"embedding": "paper"}
    scales = declared_scales(environment)
    t, outcomes = explored(environment, size, offline, jax.random.key(seed))
    agent = bc.Agent(
        environment.actions,
        scales=scales,
        dim_intermediate=environment.dim_intermediate,
        **(named | options),
    )
    restore = scales.intermediate.restore
    agent.add_transitions(
        np.asarray(scales.context.restore(t.contexts)),
        np.asarray(scales.action.restore(t.actions)),
        np.asarray(restore(t.intermediates)),
    )
    agent.add_outcomes(
        np.asarray(restore(outcomes.intermediates)),
        np.asarray(scales.outcome.restore(outcomes.outcomes)),
    )
    return agent


class Beliefs(NamedTuple):
    """What an agent believes of g, and the truth, (contexts, actions) each."""

    mean: Floats
    deviation: Floats
    score: Floats
    truth: Floats

    def coverage(self, levels: Floats) -> Floats:
        """Return the share of the grid whose g lies in its central interval, by level."""
        from scipy.stats import norm

        standardised = np.abs(self.truth - self.mean) / self.deviation
        return (standardised[..., None] <= norm.ppf(0.5 + 0.5 * levels)).mean(axis=(0, 1))

    def loss(self) -> float:
        """Return how much worse than the best the action with the highest mean is on average."""
        chosen = np.take_along_axis(self.truth, self.mean.argmax(axis=1)[:, None], axis=1)[:, 0]
        return float((self.truth.max(axis=1) - chosen).mean())


def beliefs(agent: bc.Agent, environment: Environment, every: int = 1) -> Beliefs:
    """Return the beliefs about all actions in every so many of the grid's contexts."""
    contexts = np.asarray(environment.contexts)[::every, 0]
    tables = [agent.score(context) for context in contexts]
    figures = (
        np.stack([table[name].to_numpy() for table in tables])
        for name in ("mean", "standard_deviation", "score")
    )
    return Beliefs(*figures, np.asarray(environment.mean_reward_table())[::every])
