"""Agents that do not look at the intermediate: contextual GP-UCB, random, oracle."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayes_cmab import baselines, posteriors
from bayes_cmab.data import Data
from bayes_cmab.models import DirectRewardModel
from bayes_cmab.models.priors import Sites
from bayes_cmab.moments import Moments, assemble_moments
from bayes_cmab.policies.base import Policy
from bayes_cmab.posteriors import EmbeddingPosterior
from bayes_cmab.scaling import Scales


class DirectState(NamedTuple):
    """State of a `DirectPolicy`."""

    posterior: EmbeddingPosterior
    outcomes: Float[Array, " N"]


@dataclass(frozen=True)
class DirectPolicy(Policy[DirectState]):
    """Contextual GP-UCB on (s, a) -> y, which ignores the intermediate and unmatched outcomes."""

    model: DirectRewardModel = DirectRewardModel()

    def default_sites(self, p: int, q: int, d: int) -> Sites:
        """Return the medians of the priors."""
        del d
        return self.model.embedding.default_sites(p, q)

    def models(self) -> dict[str, Callable[..., None]]:
        """Return the one program."""
        return {"direct": self.model}

    def arguments(self, data: Data, sites: Sites) -> dict[str, tuple[Any, ...]]:
        """Return the matched rows."""
        del sites
        return {"direct": (data.rewards,)}

    def condition(self, sites: Sites, data: Data, scales: Scales) -> DirectState:
        """Condition the GP."""
        del scales
        rows, embedding = data.rewards, self.model.embedding
        hyper = embedding.hyperparameters(sites)
        posterior = posteriors.condition_embedding(
            embedding, hyper, rows.contexts, rows.actions, rows.size
        )
        return DirectState(posterior, rows.outcomes)

    def observe_reward(
        self, state: DirectState, context: Array, action: Array, y: Array
    ) -> DirectState:
        """Add a row."""
        i = state.posterior.size
        posterior = posteriors.append_embedding(
            self.model.embedding, state.posterior, context, action
        )
        return DirectState(posterior, state.outcomes.at[i].set(y))

    def moments(self, state: DirectState, context: Array, actions: Array) -> Moments:
        """Return the GP's moments."""
        return baselines.gp_ucb_moments(self.model.embedding, *state, context, actions)


def no_preference(context: Array, action: Array) -> Array:
    """Return zero, whatever the context and the action."""
    del context, action
    return jnp.zeros(())


@dataclass(frozen=True)
class FunctionPolicy(Policy[Scales]):
    """Score by a function of context and action in the user's units; learn nothing.

    The oracle scores by the true mean reward; the random policy by a constant, so that the
    random breaking of ties decides.
    """

    function: Callable[[Array, Array], Array] = no_preference

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(f"function: expected a function, got {self.function!r}")

    def condition(self, sites: Sites, data: Data, scales: Scales) -> Scales:
        """Keep the units."""
        del sites, data
        return scales

    def moments(self, state: Scales, context: Array, actions: Array) -> Moments:
        """Return the function's values, without uncertainty."""
        s = state.context.restore(context)
        value = jax.vmap(lambda a: self.function(s, a))(state.action.restore(actions))
        nothing = jnp.zeros(actions.shape[0])
        mean = state.outcome.standardise(value)
        return assemble_moments(mean, nothing, nothing, nothing, jnp.zeros(()), jnp.ones(()))
