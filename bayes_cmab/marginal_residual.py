r"""Moments of ``g`` with a transition prior, averaged over draws of the hyperparameters.

The atoms of `residual` depend on the transition's draw and the Gram matrices between them on the
reward's as well, so that all pairs of draws would cost ``T J`` times one agent. ``count``
draws of each program stand for all (`representatives`), equally weighted:

- the mean, and its spread over the hyperparameters, come from all ``count^2`` pairs of a reward
  draw t and a draw j of the transition and the residual;
- the three parts of the variance given hyperparameters are averaged over the ``count`` pairs
  ``(i, i)``. The chains of the programs are independent, so the pairing is arbitrary.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bayes_cmab.linalg import row_mask
from bayes_cmab.models import EmbeddingModel, RewardModel, TransitionModel
from bayes_cmab.moments import Mixture, Moments
from bayes_cmab.posteriors import (
    Predicted,
    ResidualDraws,
    RewardPosterior,
    TransitionPosterior,
    embedding_weights,
    fitted_transition,
    predict_transition,
    residual_log_weights,
    reward_alpha,
    reward_offset,
    transition_covariance,
)
from bayes_cmab.posteriors.marginal import EMBEDDING_AXES, REWARD_AXES, pick
from bayes_cmab.posteriors.marginal_residual import TRANSITION_AXES, representatives
from bayes_cmab.residual import mean_over_atoms, residual_gram, residual_moments, sample_residual


class AtDraw(NamedTuple):
    """What one draw of the transition says; ``there`` at the transitions, ``here`` at actions."""

    there: Predicted
    here: Predicted


def predict_draw(
    model: TransitionModel,
    transition: TransitionPosterior,
    intermediates: Float[Array, "N d"],
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
) -> AtDraw:
    """Return ``h`` of one draw and its noise at the transitions and at the actions."""
    return AtDraw(
        fitted_transition(model, transition, intermediates),
        predict_transition(model, transition, context, actions),
    )


def means_of_pairs(
    reward_model: RewardModel,
    reward: RewardPosterior,
    weights: Float[Array, "count k N"],
    intermediates: Float[Array, "N d"],
    predicted: AtDraw,
) -> Float[Array, "count k"]:
    """Return the means of ``g`` under one draw of the reward, ``m_b + w' m_f(atoms)``.

    Parameters
    ----------
    weights, predicted : of each draw of the transition and the residual.
    """
    hyper, data = reward.hyper, reward.points
    known = row_mask(reward.size, data.shape[0])
    alpha = jnp.where(known, reward_alpha(reward_model, reward), 0.0)
    constant = reward_offset(reward_model, reward) + hyper.mean_variance * jnp.sum(alpha)
    seen = reward_model.gram(hyper, intermediates, data) @ alpha

    def one(pair: tuple[Array, AtDraw]) -> Array:
        there, here = (mean_over_atoms(reward_model, reward, at.atoms) for at in pair[1])
        return constant + pair[0] @ (seen - there) + here

    means: Array = lax.map(one, (weights, predicted))
    return means


class Averages(NamedTuple):
    """Moments under the pairs ``(i, i)``, and the means under all pairs (t, j) with (j, j)."""

    paired: Moments
    means: Float[Array, "count count k"]


def averages(
    reward_model: RewardModel,
    transition_model: TransitionModel,
    embedding_model: EmbeddingModel,
    state: ResidualDraws,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
    count: int,
    *,
    crossed: bool = True,
) -> Averages:
    """Evaluate the draws that stand for all; with ``crossed`` false the means of pairs only."""
    weights = residual_log_weights(reward_model, state)
    t, j, i = (representatives(weights[n], count) for n in ("reward", "transition", "embedding"))
    used = row_mask(state.embedding.size, state.intermediates.shape[0])

    def prepared(index: tuple[Array, Array]) -> tuple[AtDraw, Array]:
        transition = pick(state.transition, TRANSITION_AXES, index[0])
        embedding = pick(state.embedding, EMBEDDING_AXES, index[1])
        e = embedding_weights(embedding_model, embedding, context, actions)
        predicted = predict_draw(
            transition_model, transition, state.intermediates, context, actions
        )
        return predicted, jnp.where(used[None, :], e.weights, 0.0)

    predicted, vectors = lax.map(prepared, (j, i))

    def one(inputs: tuple[Array, Array, AtDraw]) -> Moments:
        own = inputs[2]
        return residual_moments(
            reward_model,
            embedding_model,
            pick(state.reward, REWARD_AXES, inputs[0]),
            pick(state.embedding, EMBEDDING_AXES, inputs[1]),
            state.intermediates,
            *(own.there, own.here, context, actions),
        )

    paired = lax.map(one, (t, i, predicted))

    def row(index: Array) -> Array:
        reward = pick(state.reward, REWARD_AXES, index)
        return means_of_pairs(reward_model, reward, vectors, state.intermediates, predicted)

    means = lax.map(row, t) if crossed else paired.mean[:, None]
    return Averages(paired, means)


def marginal_residual_moments(
    reward_model: RewardModel,
    transition_model: TransitionModel,
    embedding_model: EmbeddingModel,
    state: ResidualDraws,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
    count: int,
) -> Moments:
    """Return the matched moments, with the five parts of the variance.

    ``variance_embedding_hyperparameters`` has those of the transition in it.

    Parameters
    ----------
    count : of the draws of each program that stand for all.
    """
    paired, means = averages(
        *(reward_model, transition_model, embedding_model, state, context, actions, count)
    )
    over_reward = jnp.mean(means, axis=0)  # (j, k)
    mean = jnp.mean(over_reward, axis=0)
    reward_hyper = jnp.mean(jnp.var(means, axis=0), axis=0)
    embedding_hyper = jnp.var(over_reward, axis=0)
    average: Moments = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), paired)
    return average._replace(
        mean=mean,
        variance=average.variance + reward_hyper + embedding_hyper,
        variance_reward_hyperparameters=reward_hyper,
        variance_embedding_hyperparameters=embedding_hyper,
        negativity=jnp.max(paired.negativity),
    )


def residual_mixture(
    reward_model: RewardModel,
    transition_model: TransitionModel,
    embedding_model: EmbeddingModel,
    state: ResidualDraws,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
    count: int,
) -> Mixture:
    """Return the distribution of ``g`` under the ``count`` pairs of draws."""
    paired, _ = averages(
        *(reward_model, transition_model, embedding_model, state, context, actions, count),
        crossed=False,
    )
    return Mixture(paired.mean, paired.variance, jnp.full(count, 1.0 / count))


def sample_residual_joint(
    reward_model: RewardModel,
    transition_model: TransitionModel,
    embedding_model: EmbeddingModel,
    state: ResidualDraws,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
    key: PRNGKeyArray,
) -> Float[Array, " k"]:
    """Draw ``g`` at all actions jointly: a draw of each program by weight, then `sample_residual`.

    Any of the draws may be chosen, not only those that stand for all in the moments.
    """
    weights = residual_log_weights(reward_model, state)
    *keys, key = jax.random.split(key, 4)
    names = ("reward", "transition", "embedding")
    t, j, i = (jax.random.categorical(k, weights[n]) for k, n in zip(keys, names, strict=True))
    transition = pick(state.transition, TRANSITION_AXES, j)
    at = predict_draw(transition_model, transition, state.intermediates, context, actions)
    covariance = transition_covariance(transition_model, transition, context, actions)
    return sample_residual(
        reward_model,
        embedding_model,
        pick(state.reward, REWARD_AXES, t),
        pick(state.embedding, EMBEDDING_AXES, i),
        *(state.intermediates, at.there, at.here, covariance),
        *(context, actions, key),
    )


def mean_residual_gram(
    model: TransitionModel,
    transition: TransitionPosterior,
    log_weight: Float[Array, " J"],
    intermediates: Float[Array, "N d"],
    lengthscale: Float[Array, " d"],
    mask: Bool[Array, " N"],
    count: int,
) -> Float[Array, "N N"]:
    """Return the residual's Gram matrix averaged over draws of the transition.

    The composite log likelihood is linear in it: this is its average over those draws.
    """

    def one(index: Array) -> Array:
        own = pick(transition, TRANSITION_AXES, index)
        fitted = fitted_transition(model, own, intermediates)
        return residual_gram(intermediates, fitted.atoms, lengthscale, mask)

    return jnp.mean(lax.map(one, representatives(log_weight, count)), axis=0)
