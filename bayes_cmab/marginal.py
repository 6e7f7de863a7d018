r"""Moments of ``g`` averaged over draws of the hyperparameters.

The posterior of the hyperparameters factorises into that of the reward model (draws t, weights
``w_t``) and that of the embedding (draws j, weights ``w_j``), so all pairs are averaged exactly in
one pass. With the joint posterior mean ``m_t`` and covariance ``K_t`` of the targets
``(b, f(r_1), ..., f(r_n))`` and ``v_j = (1, E_j)``:

- ``mbar = sum_t w_t m_t``, ``Kbar = sum_t w_t (K_t + (m_t - mbar)(m_t - mbar)')``
- ``mean = sum_j w_j v_j mbar``
- ``variance = sum_j w_j v_j Kbar v_j' + (sum_j w_j (F_j - G_j)) (sum_t w_t second_moment_t)
  + sum_j w_j (v_j mbar - mean)^2``.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from bayes_cmab.models import EmbeddingModel, RewardModel
from bayes_cmab.moments import (
    Mixture,
    Moments,
    assemble_moments,
    operator_covariance,
    sample_normal,
)
from bayes_cmab.posteriors import (
    EmbeddingPosterior,
    MarginalPosterior,
    RewardPosterior,
    Targets,
    embedding_weights,
    log_weights,
    second_moment,
    target_mean,
)
from bayes_cmab.posteriors.marginal import EMBEDDING_AXES, REWARD_AXES, TARGET_AXES, pick


class EmbeddingDraws(NamedTuple):
    """``v_j = (1, E_j)`` (J, k, 1 + N) and the unexplained part of each draw (J, k)."""

    vectors: Float[Array, "J k N1"]
    unexplained: Float[Array, "J k"]


def embedding_draws(
    model: EmbeddingModel,
    state: MarginalPosterior,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
    *,
    operator: bool,
) -> EmbeddingDraws:
    """Evaluate the embedding of every draw for a set of actions; ``O(J k N^2)``.

    The unexplained part is ``F - G``; in CME-UCB's form ``(1 - G) / embedding_noise``.
    """

    def one(posterior: EmbeddingPosterior) -> EmbeddingDraws:
        e = embedding_weights(model, posterior, context, actions)
        vectors = jnp.concatenate([jnp.ones((actions.shape[0], 1)), e.weights], axis=1)
        rest = e.prior - e.explained
        return EmbeddingDraws(vectors, rest if operator else rest / posterior.hyper.embedding_noise)

    return jax.vmap(one, in_axes=(EMBEDDING_AXES,))(state.embedding)


def target_means(model: RewardModel, state: MarginalPosterior) -> Float[Array, "T N1"]:
    """Return the posterior mean of the targets under each draw."""

    def one(reward: RewardPosterior, targets: Targets) -> Array:
        return target_mean(model, reward, targets)

    return jax.vmap(one, in_axes=(REWARD_AXES, TARGET_AXES))(state.reward, state.targets)


def second_moments(
    model: RewardModel, state: MarginalPosterior, *, operator: bool
) -> Float[Array, " T"]:
    """Return the average squared size of ``f`` under each draw; one in CME-UCB's form."""
    if not operator:
        return jnp.ones(state.reward.trace.shape[0])
    return jax.vmap(lambda reward: second_moment(model, reward), in_axes=(REWARD_AXES,))(
        state.reward
    )


def marginal_moments(
    reward_model: RewardModel,
    embedding_model: EmbeddingModel,
    state: MarginalPosterior,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
    *,
    operator: bool = True,
) -> Moments:
    """Return the matched moments over all pairs of draws, with the five parts of the variance.

    ``O((T + J k) N^2)``. With ``operator`` false in CME-UCB's form, whose variance says nothing
    about ``f`` given its hyperparameters; the spread of the means over the draws is added to it.
    """
    log_t, log_j = log_weights(reward_model, state)
    w_t, w_j = jnp.exp(log_t), jnp.exp(log_j)
    e = embedding_draws(embedding_model, state, context, actions, operator=operator)
    means = target_means(reward_model, state)
    mbar = w_t @ means
    deviation = (means - mbar[None, :]) * jnp.sqrt(w_t)[:, None]
    mean_j = e.vectors @ mbar
    mean = w_j @ mean_j
    moment = w_t @ second_moments(reward_model, state, operator=operator)
    # The factor of sum_t w_t (m_t - mbar)(m_t - mbar)' is thin: no matrix for it.
    reward_hyper = w_j @ jnp.sum(jnp.einsum("jkn,tn->jkt", e.vectors, deviation) ** 2, axis=2)
    if operator:
        inside = jnp.einsum("t,tnm->nm", w_t, state.targets.covariance)
        about_f = jnp.sum((e.vectors @ inside) * e.vectors, axis=2)
    else:
        about_f = jnp.zeros_like(mean_j)
    hyper = state.reward.hyper
    prior = jnp.max(jnp.maximum(hyper.reward_variance, hyper.mean_variance))
    scale = jnp.maximum(prior, moment)
    moments = assemble_moments(
        mean=mean,
        reward=w_j @ about_f,
        embedding=(w_j @ e.unexplained) * moment,
        transition=jnp.zeros_like(mean),
        moment=moment,
        scale=scale,
    )
    # Of each draw: what rounding made negative in one must not be hidden by the others.
    below = w_j @ jnp.maximum(-jnp.minimum(about_f, e.unexplained * moment), 0.0)
    embedding_hyper = w_j @ (mean_j - mean[None, :]) ** 2
    return moments._replace(
        variance=moments.variance + reward_hyper + embedding_hyper,
        variance_reward_hyperparameters=reward_hyper,
        variance_embedding_hyperparameters=embedding_hyper,
        negativity=jnp.max(below) / scale,
    )


def pairwise_mixture(
    reward_model: RewardModel,
    embedding_model: EmbeddingModel,
    state: MarginalPosterior,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
    *,
    operator: bool = True,
) -> Mixture:
    """Return the moments of ``g`` under every pair of draws (t, j); ``O(T J k N^2)``."""
    e = embedding_draws(embedding_model, state, context, actions, operator=operator)
    means = target_means(reward_model, state)
    moments = second_moments(reward_model, state, operator=operator)

    def one(inputs: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        mean, covariance, moment = inputs
        variance = jnp.maximum(e.unexplained, 0.0) * moment
        if operator:
            about_f = jnp.sum((e.vectors @ covariance) * e.vectors, axis=2)
            variance = variance + jnp.maximum(about_f, 0.0)
        return e.vectors @ mean, variance

    mean, variance = lax.map(one, (means, state.targets.covariance, moments))
    log_t, log_j = log_weights(reward_model, state)
    k = actions.shape[0]
    return Mixture(
        mean.reshape(-1, k),
        variance.reshape(-1, k),
        jnp.exp(log_t[:, None] + log_j[None, :]).ravel(),
    )


def sample_joint(
    reward_model: RewardModel,
    embedding_model: EmbeddingModel,
    state: MarginalPosterior,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
    key: PRNGKeyArray,
) -> Float[Array, " k"]:
    """Draw ``g`` at all actions jointly: a pair of draws by weight, then a normal given the pair.

    The normal has the covariance of `moments.operator_covariance`.
    """
    log_t, log_j = log_weights(reward_model, state)
    reward_key, embedding_key, key = jax.random.split(key, 3)
    t = jax.random.categorical(reward_key, log_t)
    j = jax.random.categorical(embedding_key, log_j)
    reward = pick(state.reward, REWARD_AXES, t)
    targets = pick(state.targets, TARGET_AXES, t)
    embedding = pick(state.embedding, EMBEDDING_AXES, j)
    e = embedding_weights(embedding_model, embedding, context, actions)
    mean_of_targets = target_mean(reward_model, reward, targets)
    mean = mean_of_targets[0] + e.weights @ mean_of_targets[1:]
    models = (reward_model, embedding_model)
    covariance = operator_covariance(*models, reward, targets, embedding, context, actions)
    return sample_normal(key, mean, covariance)
