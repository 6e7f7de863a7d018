r"""Mean and variance of ``g(s, a) = <f, mu_{R|s,a}>`` for a set of actions in one context.

``f`` and ``mu`` are independent Gaussian processes given the data, so both moments of their
inner product are known in closed form. `operator_moments` is exact and inverts no Gram matrix of
the intermediates; `proposition_moments` is the paper's Proposition, which projects on the
observed points.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bayes_cmab.kernels import power_gram, rbf, squared_distance
from bayes_cmab.linalg import cholesky, factorise, row_mask, solve
from bayes_cmab.models import EmbeddingModel, RewardModel
from bayes_cmab.posteriors import (
    EmbeddingPosterior,
    RewardPosterior,
    Targets,
    condition_targets,
    embedding_covariance,
    embedding_weights,
    second_moment,
    target_mean,
)

NEGATIVITY_TOLERANCE = 1e-6
"""Largest relative negative variance that counts as rounding."""


class Moments(NamedTuple):
    """Posterior moments of ``g`` for ``k`` actions.

    Attributes
    ----------
    mean, variance : (k,).
    variance_reward : (k,) what is unknown about ``f``.
    variance_embedding : (k,) what is unknown about ``P(r | s, a)`` as a distribution.
    variance_transition : (k,) what is unknown about the transition GP's mean.
    variance_reward_hyperparameters, variance_embedding_hyperparameters : (k,) what the
        hyperparameters of either model leave open; zero where they are given.
    second_moment : scalar, the average squared size of ``f``.
    negativity : scalar, the largest amount by which rounding made a variance negative, relative
        to a prior variance; such variances are set to zero.
    """

    mean: Float[Array, " k"]
    variance: Float[Array, " k"]
    variance_reward: Float[Array, " k"]
    variance_embedding: Float[Array, " k"]
    variance_transition: Float[Array, " k"]
    variance_reward_hyperparameters: Float[Array, " k"]
    variance_embedding_hyperparameters: Float[Array, " k"]
    second_moment: Float[Array, ""]
    negativity: Float[Array, ""]


class Mixture(NamedTuple):
    """A mixture of normal distributions of ``g``: one component per set of hyperparameters.

    Attributes
    ----------
    mean, variance : (P, k). weight : (P,), with sum one.
    """

    mean: Float[Array, "P k"]
    variance: Float[Array, "P k"]
    weight: Float[Array, " P"]


def assemble_moments(
    mean: Float[Array, " k"],
    reward: Float[Array, " k"],
    embedding: Float[Array, " k"],
    transition: Float[Array, " k"],
    moment: Float[Array, ""],
    scale: Float[Array, ""],
) -> Moments:
    """Add the parts of the variance, and set those to zero that rounding made negative.

    Parameters
    ----------
    scale : a prior variance, to which a negative part is compared in ``negativity``.
    """
    parts = jnp.stack([reward, embedding, transition])
    positive = jnp.maximum(parts, 0.0)
    nothing = jnp.zeros_like(mean)
    return Moments(
        mean=mean,
        variance=jnp.sum(positive, axis=0),
        variance_reward=positive[0],
        variance_embedding=positive[1],
        variance_transition=positive[2],
        variance_reward_hyperparameters=nothing,
        variance_embedding_hyperparameters=nothing,
        second_moment=moment,
        negativity=jnp.max(-jnp.minimum(parts, 0.0)) / scale,
    )


def operator_moments(
    reward_model: RewardModel,
    embedding_model: EmbeddingModel,
    reward: RewardPosterior,
    targets: Targets,
    embedding: EmbeddingPosterior,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
) -> Moments:
    r"""Return the exact moments of ``g``.

    With ``w = (1, E_x)`` on the targets ``(b, f(r_1), ..., f(r_n))``: ``mean = w m``,
    ``variance_reward = w K w'`` (which is ``E kappa E' + 2 E Cov(f, b) + Var b``), and
    ``variance_embedding = (F - G) second_moment``.

    Parameters
    ----------
    reward_model, embedding_model : static configuration.
    reward, targets, embedding : posteriors.
    context : (p,). actions : (k, q).
    """
    e = embedding_weights(embedding_model, embedding, context, actions)
    w = jnp.concatenate([jnp.ones((actions.shape[0], 1)), e.weights], axis=1)
    moment = second_moment(reward_model, reward)
    return assemble_moments(
        mean=w @ target_mean(reward_model, reward, targets),
        reward=jnp.sum((w @ targets.covariance) * w, axis=1),
        embedding=(e.prior - e.explained) * moment,
        transition=jnp.zeros(actions.shape[0]),
        moment=moment,
        scale=_prior_scale(reward, moment, e.prior),
    )


def operator_covariance(
    reward_model: RewardModel,
    embedding_model: EmbeddingModel,
    reward: RewardPosterior,
    targets: Targets,
    embedding: EmbeddingPosterior,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
) -> Float[Array, "k k"]:
    r"""Return the posterior covariance of ``g`` between the actions (Thompson, batches).

    ``w_a K w_a'' + (k_x(a, a') - k_x(a, X) C^-1 k_x(X, a')) second_moment``.
    """
    e = embedding_weights(embedding_model, embedding, context, actions)
    w = jnp.concatenate([jnp.ones((actions.shape[0], 1)), e.weights], axis=1)
    rest = embedding_covariance(embedding_model, embedding, context, actions)
    return w @ targets.covariance @ w.T + rest * second_moment(reward_model, reward)


def proposition_moments(
    reward_model: RewardModel,
    embedding_model: EmbeddingModel,
    reward: RewardPosterior,
    targets: Targets,
    embedding: EmbeddingPosterior,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
) -> Moments:
    r"""Return the moments of the paper's Proposition, corrected.

    ``f`` and ``mu`` are projected on the distinct points ``rhat`` of ``(r, r~)``. With
    ``K = K_{rhat,rhat}``, raw-``T`` Gram matrices ``R`` and
    ``Q = R_{rhat,r} R_rr^-1 R_{r,rhat}``:
    ``Theta_1 = K^-1 R_{rhat,r} R_rr^-1 K_rr``, ``Theta_4 = K^-1 m_f(rhat)``,
    ``mean = E K_{r,rhat} Theta_4``, ``variance_reward = E Theta_1' Rbar Theta_1 E'`` and
    ``variance_embedding = F (Theta_4' R Theta_4 + tr(K^-1 Rbar K^-1 R))
    - G (Theta_4' Q Theta_4 + tr(K^-1 Rbar K^-1 Q))``. It loses variance with few points and
    depends on the jitter of ``K``; it approaches `operator_moments` as points fill the space.
    There is no constant mean in it: the reward model must have ``mean_variance = 0``.
    """
    hyper = reward.hyper
    lengthscale, measure = hyper.lengthscale_r, hyper.measure
    r = targets.points
    used = row_mask(targets.size, r.shape[0])
    points = jnp.concatenate([r, reward.points])
    in_use = jnp.concatenate([used, row_mask(reward.size, reward.points.shape[0])])
    same = squared_distance(points, points, jnp.ones_like(lengthscale)) == 0.0
    earlier = jnp.tril(jnp.ones_like(same), -1) & in_use[None, :]
    distinct = in_use & ~jnp.any(same & earlier, axis=1)

    def masked(matrix: Array, rows: Array, columns: Array) -> Array:
        return jnp.where(rows[:, None] & columns[None, :], matrix, 0.0)

    def nuclear(x: Array, y: Array) -> Array:
        return power_gram(1, x, y, lengthscale, measure)

    at_points = condition_targets(
        reward_model, reward, points, jnp.asarray(points.shape[0], targets.size.dtype)
    )
    offset = target_mean(reward_model, reward, at_points)[0]
    mean_f = jnp.where(distinct, target_mean(reward_model, reward, at_points)[1:], 0.0)
    cov_f = masked(at_points.covariance[1:, 1:], distinct, distinct)

    K = factorise(rbf(points, points, lengthscale), distinct)
    R_rr = factorise(nuclear(r, r), used)
    R_points_r = masked(nuclear(points, r), distinct, used)
    R_points = masked(nuclear(points, points), distinct, distinct)
    K_rr = masked(rbf(r, r, lengthscale), used, used)
    theta_1 = solve(K, R_points_r @ solve(R_rr, K_rr))
    theta_4 = solve(K, mean_f)
    Q = R_points_r @ solve(R_rr, R_points_r.T)
    spread = solve(K, solve(K, cov_f).T)

    e = embedding_weights(embedding_model, embedding, context, actions)
    whole = theta_4 @ R_points @ theta_4 + jnp.sum(spread * R_points)
    seen = theta_4 @ Q @ theta_4 + jnp.sum(spread * Q)
    projected = e.weights @ theta_1.T
    return assemble_moments(
        mean=offset + e.weights @ (masked(rbf(r, points, lengthscale), used, distinct) @ theta_4),
        reward=jnp.sum((projected @ cov_f) * projected, axis=1),
        embedding=e.prior * whole - e.explained * seen,
        transition=jnp.zeros(actions.shape[0]),
        moment=whole,
        scale=_prior_scale(reward, whole, e.prior),
    )


def _prior_scale(
    reward: RewardPosterior, moment: Float[Array, ""], prior: Float[Array, " k"]
) -> Float[Array, ""]:
    largest = jnp.maximum(reward.hyper.reward_variance, reward.hyper.mean_variance)
    return jnp.maximum(largest, moment * jnp.max(prior))


def sample_normal(
    key: PRNGKeyArray, mean: Float[Array, " k"], covariance: Float[Array, "k k"]
) -> Float[Array, " k"]:
    """Draw from a normal whose covariance may be singular: then the smallest jitter is added."""
    factor, _ = cholesky(covariance, jnp.ones(mean.shape[0], bool))
    return mean + factor @ jax.random.normal(key, mean.shape)
