r"""Both models conditioned under many draws of their hyperparameters, and the draws' weights.

Between two fits the draws are reweighted by how well they predict the rows that have come since:
``w_t`` is proportional to ``p(D now | theta_t) / p(D at the fit | theta_t)``, whose logarithm the
appended rows of the factors yield for free. The weights depend on the rows and not on the order
in which they came. What all draws share (points, sizes) is kept once.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from bayes_cmab.data import Data
from bayes_cmab.kernels import rbf
from bayes_cmab.linalg import log_determinant, row_mask, trace_solve
from bayes_cmab.models import EmbeddingModel, RewardModel
from bayes_cmab.models.embedding import reference_features
from bayes_cmab.models.priors import Sites
from bayes_cmab.posteriors.embedding import (
    EmbeddingPosterior,
    append_embedding,
    condition_embedding,
)
from bayes_cmab.posteriors.reward import (
    RewardPosterior,
    Targets,
    append_outcome,
    append_target,
    condition_reward,
    condition_targets,
    reward_offset,
)

# Axes in the place of the arrays, as jax.vmap wants them: hence the silenced types.
REWARD_AXES = RewardPosterior(0, None, 0, 0, 0, 0, None, None)  # type: ignore[arg-type]
TARGET_AXES = Targets(None, 0, 0, 0, None)  # type: ignore[arg-type]
EMBEDDING_AXES = EmbeddingPosterior(0, None, None, 0, None)  # type: ignore[arg-type]
"""Which fields lead with the draws; a shared size lets a row be written in place."""


class WeightedDraws(NamedTuple):
    """Draws of one program's hyperparameters.

    Attributes
    ----------
    sites : each (draws, ...).
    at_fit : (draws,) the log likelihood with which each was drawn: its weight is what it has
        gained since.
    """

    sites: Sites
    at_fit: Float[Array, " draws"]


class MarginalPosterior(NamedTuple):
    """Posteriors under every draw.

    Attributes
    ----------
    reward, targets : under the reward model's draws t, see ``REWARD_AXES`` and ``TARGET_AXES``.
    embedding : under the embedding's draws j, see ``EMBEDDING_AXES``.
    trace : (J,) ``tr(C_j^-1 K_rr)`` at the reference lengthscale.
    gram : (N, N) ``K_rr`` there. weight : of the composite likelihood.
    lengthscale : (d,) the reference, of the last fit of the embedding.
    reward_at_fit, embedding_at_fit : see `WeightedDraws`.
    """

    reward: RewardPosterior
    targets: Targets
    embedding: EmbeddingPosterior
    trace: Float[Array, " J"]
    gram: Float[Array, "N N"]
    weight: Float[Array, ""]
    lengthscale: Float[Array, " d"]
    reward_at_fit: Float[Array, " T"]
    embedding_at_fit: Float[Array, " J"]


def condition_marginal(
    reward_model: RewardModel,
    embedding_model: EmbeddingModel,
    reward: WeightedDraws,
    embedding: WeightedDraws,
    data: Data,
    lengthscale: Float[Array, " d"],
) -> MarginalPosterior:
    """Condition every draw on all data; ``O((T + J) N^3)``.

    Parameters
    ----------
    reward, embedding : draws of both programs.
    lengthscale : (d,) reference of the composite likelihood.
    """
    t = data.transitions
    features = reference_features(t, lengthscale)

    def one_reward(sites: Sites) -> tuple[RewardPosterior, Targets]:
        hyper = reward_model.hyperparameters(sites)
        posterior = condition_reward(reward_model, hyper, data.outcomes)
        return posterior, condition_targets(reward_model, posterior, t.intermediates, t.size)

    def one_embedding(sites: Sites) -> tuple[EmbeddingPosterior, Array]:
        hyper = embedding_model.hyperparameters(sites)
        posterior = condition_embedding(embedding_model, hyper, t.contexts, t.actions, t.size)
        return posterior, trace_solve(posterior.factor, features.gram)

    rewards, targets = jax.vmap(one_reward, out_axes=(REWARD_AXES, TARGET_AXES))(reward.sites)
    embeddings, trace = jax.vmap(one_embedding, out_axes=(EMBEDDING_AXES, 0))(embedding.sites)
    return MarginalPosterior(
        rewards,
        targets,
        embeddings,
        trace,
        features.gram,
        features.weight,
        lengthscale,
        reward.at_fit,
        embedding.at_fit,
    )


def reward_log_likelihood(model: RewardModel, rewards: RewardPosterior) -> Float[Array, " T"]:
    """Return ``log N(y; 0, A)`` under each draw (without its constant), from the factors."""

    def one(reward: RewardPosterior) -> Array:
        residual = reward.whitened[:, 0] - reward_offset(model, reward) * reward.whitened[:, 1]
        return -0.5 * (residual @ residual + log_determinant(reward.factor))

    return jax.vmap(one, in_axes=(REWARD_AXES,))(rewards)


def embedding_log_likelihood(state: MarginalPosterior) -> Float[Array, " J"]:
    """Return the composite log likelihood under each draw, from the factors."""
    determinant = jax.vmap(log_determinant)(state.embedding.factor)
    return -0.5 * state.weight * (determinant + state.trace)


def log_weights(
    model: RewardModel, state: MarginalPosterior
) -> tuple[Float[Array, " T"], Float[Array, " J"]]:
    """Return the normalised log weights of the draws of both programs."""
    reward = reward_log_likelihood(model, state.reward) - state.reward_at_fit
    embedding = embedding_log_likelihood(state) - state.embedding_at_fit
    return reward - logsumexp(reward), embedding - logsumexp(embedding)


# Any named tuple of arrays: its element types differ, so there is no type argument to give.
def pick[Tree: tuple](tree: Tree, axes: Tree, index: Array) -> Tree:  # type: ignore[type-arg]
    """Return one draw of a posterior whose other fields are shared."""
    fields = [
        value if axis is None else jax.tree.map(lambda leaf: leaf[index], value)
        for value, axis in zip(tree, axes, strict=True)
    ]
    return type(tree)(*fields)


def effective_sample_size(log_weight: Float[Array, " n"]) -> Float[Array, ""]:
    """Return ``1 / sum w^2`` of normalised weights."""
    return jnp.exp(-logsumexp(2.0 * log_weight))


def append_marginal_transition(
    reward_model: RewardModel,
    embedding_model: EmbeddingModel,
    state: MarginalPosterior,
    context: Float[Array, " p"],
    action: Float[Array, " q"],
    intermediate: Float[Array, " d"],
) -> MarginalPosterior:
    """Add a row of D1 to every draw; ``O((T + J) N^2)``."""
    i = state.embedding.size
    points = state.targets.points.at[i].set(intermediate)
    column = rbf(intermediate[None, :], points, state.lengthscale)[0]
    column = jnp.where(row_mask(i + 1, points.shape[0]), column, 0.0)
    gram = state.gram.at[i].set(column).at[:, i].set(column)

    def one_embedding(posterior: EmbeddingPosterior) -> tuple[EmbeddingPosterior, Array]:
        posterior = append_embedding(embedding_model, posterior, context, action)
        row = posterior.factor.inverse[i]
        return posterior, row @ gram @ row

    def one_target(reward: RewardPosterior, targets: Targets) -> Targets:
        return append_target(reward_model, reward, targets, intermediate)

    embedding, increment = jax.vmap(
        one_embedding, in_axes=(EMBEDDING_AXES,), out_axes=(EMBEDDING_AXES, 0)
    )(state.embedding)
    targets = jax.vmap(one_target, in_axes=(REWARD_AXES, TARGET_AXES), out_axes=TARGET_AXES)(
        state.reward, state.targets
    )
    return state._replace(
        targets=targets, embedding=embedding, trace=state.trace + increment, gram=gram
    )


def append_marginal_outcome(
    model: RewardModel,
    state: MarginalPosterior,
    intermediate: Float[Array, " d"],
    outcome: Float[Array, ""],
) -> MarginalPosterior:
    """Add a row of D2 to every draw; ``O(T N^2)``."""
    draws = (state.reward, state.targets)
    reward, targets = append_outcome_to_draws(model, *draws, intermediate, outcome)
    return state._replace(reward=reward, targets=targets)


def append_outcome_to_draws(
    model: RewardModel,
    rewards: RewardPosterior,
    targets: Targets,
    intermediate: Float[Array, " d"],
    outcome: Float[Array, ""],
) -> tuple[RewardPosterior, Targets]:
    """Condition the reward GP and the targets of every draw on one more outcome."""

    def one(reward: RewardPosterior, targets: Targets) -> tuple[RewardPosterior, Targets]:
        return append_outcome(model, reward, targets, intermediate, outcome)

    axes = (REWARD_AXES, TARGET_AXES)
    appended: tuple[RewardPosterior, Targets]
    appended = jax.vmap(one, in_axes=axes, out_axes=axes)(rewards, targets)
    return appended
