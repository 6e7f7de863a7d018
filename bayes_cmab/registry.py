"""Agents by name: ``<policy>-<inference>``, such as ``cbmp-map``."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from bayes_cmab.acquisition import BetaSchedule, ConstantBeta
from bayes_cmab.environments import SETTINGS, Environment
from bayes_cmab.inference import MAP, NUTS, SVI, Fixed
from bayes_cmab.models import (
    AdditiveRewardModel,
    EmbeddingModel,
    HeteroscedasticTransitionModel,
    RewardModel,
)
from bayes_cmab.options import EMBEDDINGS
from bayes_cmab.policies import (
    DirectPolicy,
    DrawsPolicy,
    EmbeddingPolicy,
    FunctionPolicy,
    Policy,
    ResidualPolicy,
    TransitionPolicy,
    averaged,
)
from bayes_cmab.rounds import AgentSpec
from bayes_cmab.validate import one_of

CME_REWARD = RewardModel(power=0, unit_variance=True, integrated_mean=False)
CME_EMBEDDING = EmbeddingModel(kernel="matern52", unit_variance=True)
"""CME-UCB's models as printed: RBF on r, Matern-5/2 on s and a, unit variances."""


@dataclass(frozen=True)
class TrueMeanReward:
    """An environment's mean reward on its grid, looked up in its table."""

    environment: Environment

    def __call__(self, context: Array, action: Array) -> Array:
        """Return ``g(s, a)`` at the nearest point of the grid."""
        row = jnp.argmin(jnp.abs(self.environment.contexts[:, 0] - context[0]))
        column = jnp.argmin(jnp.abs(self.environment.actions[:, 0] - action[0]))
        return self.environment.mean_reward_table()[row, column]


@dataclass(frozen=True)
class Entry:
    """A policy of the registry.

    Attributes
    ----------
    policy : of an environment (only the oracle looks at it).
    title : for tables and figures.
    description : one line.
    learns : whether it has hyperparameters.
    """

    policy: Callable[[Environment], Policy[Any]]
    title: str
    description: str
    learns: bool = True


POLICIES: dict[str, Entry] = {
    "cbmp": Entry(
        lambda _: EMBEDDINGS["paper"],
        "CBMP-UCB",
        "Gaussian process on f, Bayesian conditional mean embedding, exact moments",
    ),
    "proposition": Entry(
        lambda _: EmbeddingPolicy("proposition", reward=RewardModel(integrated_mean=False)),
        "CBMP-UCB (Proposition)",
        "the same with the paper's projected moments and without an integrated mean",
    ),
    "residual": Entry(
        lambda _: ResidualPolicy(),
        "CBMP-UCB (transition prior)",
        "the embedding corrects Gaussian processes for r; ANOVA kernels",
    ),
    "varying": Entry(
        lambda _: ResidualPolicy(transition=HeteroscedasticTransitionModel()),
        "CBMP-UCB (transition prior, varying noise)",
        "the same, with a noise of r that depends on context and action",
    ),
    "additive": Entry(
        lambda _: ResidualPolicy(reward=AdditiveRewardModel()),
        "CBMP-UCB (transition prior, additive f)",
        "as residual, with main effects of the dimensions of r in f",
    ),
    "sharp": Entry(
        lambda _: EMBEDDINGS["transition"],
        "CBMP-UCB (sharp)",
        "the default: as residual, with a varying noise of r and main effects in f",
    ),
    "anova": Entry(
        lambda _: EMBEDDINGS["anova"],
        "CBMP-UCB (ANOVA)",
        "CBMP-UCB with an ANOVA kernel on (s, a)",
    ),
    "cme": Entry(
        lambda _: EmbeddingPolicy("cme_ucb", CME_REWARD, CME_EMBEDDING),
        "CME-UCB",
        "conditional mean embedding as printed; f's uncertainty is ignored",
    ),
    "icme": Entry(
        lambda _: EmbeddingPolicy("improved_cme_ucb", CME_REWARD, CME_EMBEDDING),
        "I-CME-UCB",
        "CME-UCB with the standard deviation of f added",
    ),
    "gp": Entry(
        lambda _: DirectPolicy(),
        "GP-UCB",
        "Gaussian process on (context, action) -> outcome; ignores r and unmatched outcomes",
    ),
    "gaussian": Entry(
        lambda _: TransitionPolicy(),
        "Gaussian transition",
        "Gaussian processes for r and for f, integrated over a normal r",
    ),
    "plugin": Entry(
        lambda _: TransitionPolicy(plug_in=True),
        "Plug-in f(E[r])",
        "the same, but f is evaluated at the mean of r",
    ),
    "random": Entry(lambda _: FunctionPolicy(), "Random", "a uniform action", learns=False),
    "oracle": Entry(
        lambda environment: FunctionPolicy(TrueMeanReward(environment)),
        "Oracle",
        "the best action in each context, from the true mean reward",
        learns=False,
    ),
}

INFERENCES = ("fixed", "map", "map1", "svi", "nuts")
"""``map1`` fits from one start, the last result; it keeps poor modes, and is there to show it."""

AVERAGED = ("cbmp", "residual", "varying", "additive", "sharp", "anova", "cme")
"""Policies that can be averaged over draws of their hyperparameters."""


def agent_names() -> list[str]:
    """Return every name that `make_agent` takes."""
    return [
        f"{name}-{inference}" if inference else name
        for name, entry in POLICIES.items()
        for inference in _inferences(name, entry)
    ]


def _inferences(name: str, entry: Entry) -> tuple[str, ...]:
    if not entry.learns:
        return ("",)
    return INFERENCES if name in AVERAGED else INFERENCES[:3]


def split_name(name: str) -> tuple[str, str]:
    """Return the policy and the inference of an agent's name."""
    one_of(name, "agent", agent_names())
    policy, _, inference = name.partition("-")
    return policy, inference or "fixed"


def draws_programs(name: str) -> tuple[str, ...]:
    """Return the programs of an agent that averages over draws; none if it does not."""
    _, inference = split_name(name)
    if inference not in ("svi", "nuts"):
        return ()
    spec = make_agent(name, SETTINGS["A"])
    assert isinstance(spec.policy, DrawsPolicy)
    return spec.policy.names


def agent_title(name: str) -> str:
    """Return the name of an agent for tables and figures."""
    policy, inference = split_name(name)
    entry = POLICIES[policy]
    return f"{entry.title}, {inference}" if entry.learns else entry.title


def make_agent(
    name: str,
    environment: Environment,
    beta: float | BetaSchedule = 0.25,
    refit_every: int = 5,
) -> AgentSpec:
    """Return an agent by its name.

    Parameters
    ----------
    name : one of `agent_names`.
    environment : where it will play.
    beta : exploration weight, a number or a schedule.
    refit_every : rounds between two fits by type-II maximum a posteriori.

    Raises
    ------
    ValueError
        If the name is unknown, ``beta`` is negative or ``refit_every`` below one.
    """
    policy_name, inference = split_name(name)
    policy = POLICIES[policy_name].policy(environment)
    schedule = ConstantBeta(beta) if isinstance(beta, int | float) else beta
    if inference in ("svi", "nuts"):
        sampler = NUTS() if inference == "nuts" else SVI()
        return AgentSpec(averaged(policy), sampler, schedule)
    if inference == "fixed":
        return AgentSpec(policy, Fixed(), schedule)
    fitted = MAP(refit_every, starts=1) if inference == "map1" else MAP(refit_every)
    return AgentSpec(policy, fitted, schedule)
