r"""Reward, transition and residual embedding conditioned under draws of their hyperparameters.

The draws of the reward and of the transition are reweighted between fits, like those of
`MarginalPosterior`. The residual's are not: its Gram matrix changes everywhere when a row moves
the transition GPs, so a weight would cost ``O(N^3)`` a draw and row. They keep the weights of
their fit, and are drawn anew whenever the transition's are.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int

from bayes_cmab.data import Data
from bayes_cmab.linalg import log_determinant
from bayes_cmab.models import EmbeddingModel, RewardModel, TransitionModel
from bayes_cmab.models.priors import Sites
from bayes_cmab.posteriors.embedding import (
    EmbeddingPosterior,
    append_embedding,
    condition_embedding,
)
from bayes_cmab.posteriors.marginal import (
    EMBEDDING_AXES,
    REWARD_AXES,
    TARGET_AXES,
    WeightedDraws,
    append_outcome_to_draws,
    reward_log_likelihood,
)
from bayes_cmab.posteriors.reward import (
    RewardPosterior,
    Targets,
    condition_reward,
    condition_targets,
)
from bayes_cmab.posteriors.transition import (
    TransitionPosterior,
    append_transition,
    condition_transition,
)

# Axes in the place of the arrays, as jax.vmap wants them: hence the silenced types.
TRANSITION_AXES = TransitionPosterior(0, None, None, 0, 0, None)  # type: ignore[arg-type]
"""Which fields of a `TransitionPosterior` lead with the draws."""

OFFSET = (3.0 - 5.0**0.5) / 2.0
"""Of the levels of `representatives`: the golden section, 0.382."""


class ResidualDraws(NamedTuple):
    """Posteriors under every draw.

    Attributes
    ----------
    reward, targets : under the reward model's draws; there are no targets.
    transition : under the transition's draws, see ``TRANSITION_AXES``.
    embedding : of the residual, under its draws.
    intermediates : (N, d) of the transitions.
    reward_at_fit, transition_at_fit, embedding_at_fit : see `WeightedDraws`; the embedding's is
        minus the logarithm of its weight.
    """

    reward: RewardPosterior
    targets: Targets
    transition: TransitionPosterior
    embedding: EmbeddingPosterior
    intermediates: Float[Array, "N d"]
    reward_at_fit: Float[Array, " T"]
    transition_at_fit: Float[Array, " J"]
    embedding_at_fit: Float[Array, " I"]


def condition_transition_draws(
    model: TransitionModel, sites: Sites, data: Data
) -> TransitionPosterior:
    """Condition the transition GPs of every draw; ``O(J d N^3)``."""

    def one(own: Sites) -> TransitionPosterior:
        return condition_transition(model, model.hyperparameters(own), data.transitions)

    posterior: TransitionPosterior = jax.vmap(one, out_axes=TRANSITION_AXES)(sites)
    return posterior


def transition_log_likelihood(transition: TransitionPosterior) -> Float[Array, " J"]:
    """Return ``sum_j log N(r_j; 0, covariance_j)`` under each draw, without its constant."""
    determinant = jax.vmap(jax.vmap(log_determinant))(transition.factors)
    return -0.5 * jnp.sum(jnp.sum(transition.whitened**2, axis=2) + determinant, axis=1)


def condition_residual_draws(
    reward_model: RewardModel,
    transition_model: TransitionModel,
    embedding_model: EmbeddingModel,
    draws: dict[str, WeightedDraws],
    data: Data,
) -> ResidualDraws:
    """Condition every draw on all data; ``O((T + J d + I) N^3)``.

    Parameters
    ----------
    draws : of the programs ``reward``, ``transition`` and ``embedding``.
    """
    t = data.transitions
    nowhere = jnp.zeros((0, t.intermediates.shape[1]))

    def one_reward(sites: Sites) -> tuple[RewardPosterior, Targets]:
        posterior = condition_reward(
            reward_model, reward_model.hyperparameters(sites), data.outcomes
        )
        none = condition_targets(reward_model, posterior, nowhere, jnp.asarray(0))
        return posterior, none

    def one_embedding(sites: Sites) -> EmbeddingPosterior:
        hyper = embedding_model.hyperparameters(sites)
        return condition_embedding(embedding_model, hyper, t.contexts, t.actions, t.size)

    reward, targets = jax.vmap(one_reward, out_axes=(REWARD_AXES, TARGET_AXES))(
        draws["reward"].sites
    )
    embedding = jax.vmap(one_embedding, out_axes=EMBEDDING_AXES)(draws["embedding"].sites)
    return ResidualDraws(
        reward,
        targets,
        condition_transition_draws(transition_model, draws["transition"].sites, data),
        embedding,
        t.intermediates,
        *(draws[name].at_fit for name in ("reward", "transition", "embedding")),
    )


def residual_log_weights(
    model: RewardModel, state: ResidualDraws
) -> dict[str, Float[Array, " draws"]]:
    """Return the normalised log weights of the draws of each program."""
    weights = {
        "reward": reward_log_likelihood(model, state.reward) - state.reward_at_fit,
        "transition": transition_log_likelihood(state.transition) - state.transition_at_fit,
        "embedding": -state.embedding_at_fit,
    }
    return {name: weight - logsumexp(weight) for name, weight in weights.items()}


def representatives(log_weight: Float[Array, " draws"], count: int) -> Int[Array, " count"]:
    """Return indices of draws that stand for all of them, each with the same weight.

    Systematic: the draws at the levels ``(i + u) / count`` of the cumulative weights. The offset
    ``u`` is irrational, so that no level of equal weights lies on the border of two draws, where
    rounding would choose between them.
    """
    levels = (jnp.arange(count) + OFFSET) / count
    cumulative = jnp.cumsum(jnp.exp(log_weight))
    found = jnp.searchsorted(cumulative / cumulative[-1], levels)
    return jnp.minimum(found, log_weight.shape[0] - 1)


def append_residual_transition(
    transition_model: TransitionModel,
    embedding_model: EmbeddingModel,
    state: ResidualDraws,
    context: Float[Array, " p"],
    action: Float[Array, " q"],
    intermediate: Float[Array, " d"],
) -> ResidualDraws:
    """Add a row of D1 to every draw; ``O((J d + I) N^2)``."""

    def one_transition(posterior: TransitionPosterior) -> TransitionPosterior:
        return append_transition(transition_model, posterior, context, action, intermediate)

    def one_embedding(posterior: EmbeddingPosterior) -> EmbeddingPosterior:
        return append_embedding(embedding_model, posterior, context, action)

    i = state.embedding.size
    transition = jax.vmap(one_transition, in_axes=(TRANSITION_AXES,), out_axes=TRANSITION_AXES)
    embedding = jax.vmap(one_embedding, in_axes=(EMBEDDING_AXES,), out_axes=EMBEDDING_AXES)
    return state._replace(
        transition=transition(state.transition),
        embedding=embedding(state.embedding),
        intermediates=state.intermediates.at[i].set(intermediate),
    )


def append_residual_outcome(
    model: RewardModel,
    state: ResidualDraws,
    intermediate: Float[Array, " d"],
    outcome: Float[Array, ""],
) -> ResidualDraws:
    """Add a row of D2 to every draw; ``O(T N^2)``."""
    draws = (state.reward, state.targets)
    reward, targets = append_outcome_to_draws(model, *draws, intermediate, outcome)
    return state._replace(reward=reward, targets=targets)
