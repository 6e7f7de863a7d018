"""Where reward is lost: in learning `f`, or in learning `P(r | s, a)`.

    python analysis/ceilings.py [--trials 30] [--settings BC]

Settings A to D, 50 unmatched outcomes, hyperparameters fitted every 5 rounds (`MAP()`), the same
trials for everyone. The agent `known-transition` has the environment's own P(r | s, a), so that
only f is left to learn; what it loses to the oracle is lost in f, and what `cbmp` (the paper's
embedding) and `residual` (transition prior) lose to it is lost in P(r | s, a).
`known-transition-additive` has main effects in f besides, as the default has. Results are added
cell by cell to `analysis/results/ceilings.csv`; cells that are there are not run again. Seed 2.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import typer
from jaxtyping import Array

from bayes_cmab import posteriors
from bayes_cmab.acquisition import ConstantBeta
from bayes_cmab.baselines import atom_moments
from bayes_cmab.data import Data
from bayes_cmab.environments import SETTINGS, Environment
from bayes_cmab.inference import MAP
from bayes_cmab.models import AdditiveRewardModel, RewardModel
from bayes_cmab.models.priors import Sites
from bayes_cmab.moments import Moments, assemble_moments
from bayes_cmab.policies import EmbeddingPolicy, Policy, ResidualPolicy
from bayes_cmab.posteriors import RewardPosterior, Targets
from bayes_cmab.rounds import AgentSpec
from bayes_cmab.scaling import Scales
from bayes_cmab.simulation import play

FILE = Path(__file__).parent / "results" / "ceilings.csv"
ROUNDS, OFFLINE, SEED, EARLY = 100, 50, 2, 20


class KnownState(NamedTuple):
    """What the agent with the environment's own transition knows."""

    reward: RewardPosterior
    targets: Targets
    scales: Scales


@dataclass(frozen=True)
class KnownTransitionPolicy(Policy[KnownState]):
    """A reward GP integrated over the environment's own normal r given (s, a)."""

    one_trial_at_a_time: ClassVar[bool] = True

    environment: Environment
    reward: RewardModel = RewardModel()

    def default_sites(self, p: int, q: int, d: int) -> Sites:
        """Return the medians of the priors."""
        del p, q
        return self.reward.default_sites(d)

    def models(self) -> dict[str, Callable[..., None]]:
        """Return the reward program."""
        return {"reward": self.reward}

    def arguments(self, data: Data, sites: Sites) -> dict[str, tuple[Any, ...]]:
        """Return D2."""
        del sites
        return {"reward": (data.outcomes,)}

    def condition(self, sites: Sites, data: Data, scales: Scales) -> KnownState:
        """Condition the reward GP."""
        hyper = self.reward.hyperparameters(sites)
        reward = posteriors.condition_reward(self.reward, hyper, data.outcomes)
        nowhere = jnp.zeros((0, reward.points.shape[1]))
        targets = posteriors.condition_targets(self.reward, reward, nowhere, jnp.asarray(0))
        return KnownState(reward, targets, scales)

    def observe_outcome(self, state: KnownState, intermediate: Array, outcome: Array) -> KnownState:
        """Condition the reward GP."""
        reward, targets = posteriors.append_outcome(
            self.reward, state.reward, state.targets, intermediate, outcome
        )
        return state._replace(reward=reward, targets=targets)

    def moments(self, state: KnownState, context: Array, actions: Array) -> Moments:
        """Return the moments of ``g`` about ``f``; there is nothing else to learn."""
        s, a = state.scales.context.restore(context), state.scales.action.restore(actions)
        means = jax.vmap(lambda u: self.environment.intermediate_means(s[0], u)[0])(a[:, 0])
        units = state.scales.intermediate
        variances = (self.environment.intermediate_noise / units.scale) ** 2
        mean, variance = atom_moments(
            self.reward,
            state.reward,
            units.standardise(means),
            jnp.broadcast_to(variances, means.shape),
        )
        nothing, hyper = jnp.zeros(len(a)), state.reward.hyper
        scale = jnp.maximum(hyper.reward_variance, hyper.mean_variance)
        return assemble_moments(mean, variance, nothing, nothing, jnp.ones(()), scale)


POLICIES: dict[str, Callable[[Environment], Policy[Any]]] = {
    "known-transition": KnownTransitionPolicy,
    "known-transition-additive": lambda world: KnownTransitionPolicy(world, AdditiveRewardModel()),
    "residual": lambda _: ResidualPolicy(),
    "cbmp": lambda _: EmbeddingPolicy(),
}


def run_cell(setting: str, name: str, trials: int) -> pd.DataFrame:
    """Return pseudo-regret in the first EARLY rounds and after them, a row a trial."""
    environment = SETTINGS[setting]
    agent = AgentSpec(POLICIES[name](environment), MAP(), ConstantBeta(0.25))
    options = {"rounds": ROUNDS, "offline": OFFLINE, "seed": SEED, "trials": range(trials)}
    rounds = play(agent, environment, **options).rounds
    regret = np.asarray(rounds.best_mean_reward - rounds.mean_reward)
    return pd.DataFrame(
        {
            "setting": setting,
            "agent": name,
            "trial": range(trials),
            "oracle": np.asarray(rounds.best_mean_reward).sum(axis=1).round(4),
            "regret_early": regret[:, :EARLY].sum(axis=1).round(4),
            "regret_late": regret[:, EARLY:].sum(axis=1).round(4),
        }
    )


def main(
    trials: Annotated[int, typer.Option(help="Of each cell.")] = 30,
    settings: Annotated[str, typer.Option(help="Letters.")] = "BC",
) -> None:
    """Run the cells that are missing."""
    jax.config.update("jax_enable_x64", True)
    done = pd.read_csv(FILE) if FILE.exists() else pd.DataFrame(columns=["setting", "agent"])
    for setting in settings:
        for name in POLICIES:
            if (done[["setting", "agent"]] == [setting, name]).all(axis=1).any():
                continue
            frame = run_cell(setting, name, trials)
            frame.to_csv(FILE, mode="a", header=not FILE.exists(), index=False)
            typer.echo(f"{setting} {name}: {frame.regret_early.mean() + frame.regret_late.mean()}")


if __name__ == "__main__":
    typer.run(main)
