"""Agents with a reward GP on top of Gaussian transition models."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from bayes_cmab import baselines, posteriors
from bayes_cmab.data import Data
from bayes_cmab.models import RewardModel, TransitionModel
from bayes_cmab.models.priors import Sites
from bayes_cmab.moments import Moments
from bayes_cmab.policies.base import Policy
from bayes_cmab.posteriors import RewardPosterior, Targets, TransitionPosterior
from bayes_cmab.scaling import Scales


class TransitionState(NamedTuple):
    """State of a `TransitionPolicy`."""

    reward: RewardPosterior
    targets: Targets
    transition: TransitionPosterior


@dataclass(frozen=True)
class TransitionPolicy(Policy[TransitionState]):
    """A reward GP on top of Gaussian transition models.

    Attributes
    ----------
    plug_in : score ``f`` at the mean of r instead of integrating over its distribution.
    reward, transition : the models.
    """

    one_trial_at_a_time: ClassVar[bool] = True

    plug_in: bool = False
    reward: RewardModel = RewardModel()
    transition: TransitionModel = TransitionModel()

    def default_sites(self, p: int, q: int, d: int) -> Sites:
        """Return the medians of the priors."""
        return self.reward.default_sites(d) | self.transition.default_sites(p, q, d)

    def models(self) -> dict[str, Callable[..., None]]:
        """Return the reward program and the transition program."""
        return {"reward": self.reward, "transition": self.transition}

    def arguments(self, data: Data, sites: Sites) -> dict[str, tuple[Any, ...]]:
        """Return D2 and D1."""
        del sites
        return {"reward": (data.outcomes,), "transition": (data.transitions,)}

    def condition(self, sites: Sites, data: Data, scales: Scales) -> TransitionState:
        """Condition both models; the targets are the constant mean alone."""
        del scales
        reward = posteriors.condition_reward(
            self.reward, self.reward.hyperparameters(sites), data.outcomes
        )
        nowhere = jnp.zeros((0, reward.points.shape[1]))
        return TransitionState(
            reward,
            posteriors.condition_targets(self.reward, reward, nowhere, jnp.asarray(0)),
            posteriors.condition_transition(
                self.transition, self.transition.hyperparameters(sites), data.transitions
            ),
        )

    def observe_transition(
        self, state: TransitionState, context: Array, action: Array, intermediate: Array
    ) -> TransitionState:
        """Condition the transition GPs."""
        transition = posteriors.append_transition(
            self.transition, state.transition, context, action, intermediate
        )
        return state._replace(transition=transition)

    def observe_outcome(
        self, state: TransitionState, intermediate: Array, y: Array
    ) -> TransitionState:
        """Condition the reward GP."""
        reward, targets = posteriors.append_outcome(
            self.reward, state.reward, state.targets, intermediate, y
        )
        return state._replace(reward=reward, targets=targets)

    def moments(self, state: TransitionState, context: Array, actions: Array) -> Moments:
        """Return the moments of ``g`` under a Gaussian transition."""
        form = baselines.plug_in_moments if self.plug_in else baselines.gaussian_transition_moments
        models = (self.reward, self.transition)
        return form(*models, state.reward, state.transition, context, actions)
