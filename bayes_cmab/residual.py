r"""Moments of ``g`` when the embedding corrects a transition GP: ``mu ~ GP(mu_0, k_x (x) T)``.

The prior mean ``mu_0(x) = E phi(R)``, ``R ~ N(m(x), V(x) + S)``, comes from a GP on each dimension
of r (its posterior mean ``m``, variance ``V``, noise variances ``S``); the embedding learns the
residual ``phi(r_i) - mu_0(x_i)``. Given the transition GPs' predictions, the posterior mean of the
embedding at ``x`` is a weighted sum of *atoms*: the points ``r_i`` with weights ``E_x``, the normal
distributions ``N_i = N(m(x_i), V(x_i) + S)`` with weights ``-E_x``, and ``N_* = N(m(x), V(x) + S)``
with weight one.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bayes_cmab.kernels import Measure, expected_power_gram, rbf, smoothed_power_gram
from bayes_cmab.linalg import row_mask
from bayes_cmab.models import EmbeddingModel, RewardModel
from bayes_cmab.moments import Moments, assemble_moments, sample_normal
from bayes_cmab.posteriors import (
    Atoms,
    EmbeddingPosterior,
    Predicted,
    RewardPosterior,
    embedding_covariance,
    embedding_weights,
    reward_alpha,
    reward_offset,
    second_moment,
)
from bayes_cmab.smoothing import variance_of_smoothed_mean


def residual_gram(
    intermediates: Float[Array, "N d"],
    predicted: Atoms,
    lengthscale: Float[Array, " d"],
    mask: Bool[Array, " N"],
) -> Float[Array, "N N"]:
    """Return ``<phi(r_i) - mu_0(x_i), phi(r_j) - mu_0(x_j)>``, zero in the padding.

    Parameters
    ----------
    intermediates : (N, d).
    predicted : the atoms ``N_i``, with the noise in their variance.
    lengthscale : (d,) of ``k_r``.
    mask : (N,) rows in use.
    """
    measure = Measure(jnp.zeros_like(lengthscale), jnp.ones_like(lengthscale))  # p = 0: not used

    cross = smoothed_power_gram(0, intermediates, *predicted, lengthscale, measure)
    own = expected_power_gram(0, *predicted, *predicted, lengthscale, measure)
    residual = rbf(intermediates, intermediates, lengthscale) - cross - cross.T + own
    return jnp.where(mask[:, None] & mask[None, :], residual, 0.0)


class _Parts(NamedTuple):
    """What the mean and the covariance of ``w' f(atoms) + b`` are made of.

    Attributes
    ----------
    mean : (k,).
    prior : (k, k) prior covariance, or (k,) its diagonal.
    whitened : (k, M) ``L^-1`` times the prior covariance with the outcomes.
    """

    mean: Float[Array, " k"]
    prior: Array
    whitened: Float[Array, "k M"]


def _about_f(
    model: RewardModel,
    reward: RewardPosterior,
    weights: Float[Array, "k N"],
    used: Bool[Array, " N"],
    intermediates: Float[Array, "N d"],
    there: Atoms,
    here: Atoms,
    *,
    jointly: bool,
) -> _Parts:
    """Return mean and prior covariance of the inner product with ``f``, given the atoms' weights.

    Parameters
    ----------
    weights, used : of the transitions, and which of them there are.
    there, here : atoms at the transitions and at the actions.
    jointly : whether the covariance between the actions is wanted.
    """
    hyper = reward.hyper
    weights = jnp.where(used[None, :], weights, 0.0)

    def gram(x: Atoms, y: Atoms) -> Array:
        return model.expected_gram(hyper, *x, *y)

    def at_points(x: Array, y: Atoms) -> Array:
        return model.smoothed_gram(hyper, x, *y)

    def own(mean: Array, variance: Array) -> Array:
        one = Atoms(mean[None], variance[None])
        return gram(one, one)[0, 0]

    crossed = at_points(intermediates, there)
    plain = model.gram(hyper, intermediates, intermediates)
    residual = plain - crossed - crossed.T + gram(there, there)
    to_here = at_points(intermediates, here) - gram(there, here)
    if jointly:
        between = weights @ to_here
        prior = weights @ residual @ weights.T + between + between.T + gram(here, here)
    else:
        prior = jnp.sum((weights @ residual) * weights, axis=1)
        prior = prior + 2.0 * jnp.sum(weights * to_here.T, axis=1) + jax.vmap(own)(*here)
    of_there = at_points(reward.points, there).T
    to_data = weights @ (model.gram(hyper, intermediates, reward.points) - of_there)
    to_data = to_data + at_points(reward.points, here).T + hyper.mean_variance
    known = row_mask(reward.size, reward.points.shape[0])
    to_data = jnp.where(known[None, :], to_data, 0.0)
    return _Parts(
        mean=reward_offset(model, reward) + to_data @ reward_alpha(model, reward),
        prior=prior + hyper.mean_variance,
        whitened=to_data @ reward.factor.inverse.T,
    )


def residual_moments(
    reward_model: RewardModel,
    embedding_model: EmbeddingModel,
    reward: RewardPosterior,
    embedding: EmbeddingPosterior,
    intermediates: Float[Array, "N d"],
    there: Predicted,
    here: Predicted,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
) -> Moments:
    r"""Return the moments of ``g``; ``O(k N M + N^2 d)`` and more, no factorisation.

    With the weights ``w`` of the atoms: ``mean = m_b + w' m_f(atoms)``, ``variance_reward = w'
    kappa_f w + 2 w' Cov(f, b) + Var b``, ``variance_embedding = (F - G) second_moment`` and
    ``variance_transition = Var_h[m_f(N(h, S))]`` for ``h ~ N(m(x), V(x))``.

    Parameters
    ----------
    reward, embedding : posteriors; the embedding's is that of the residual.
    intermediates : (N, d) of the transitions.
    there, here : ``h`` and the noise variances ``S`` at the transitions and at the actions.
    context : (p,). actions : (k, q).
    """
    used = row_mask(embedding.size, intermediates.shape[0])
    e = embedding_weights(embedding_model, embedding, context, actions)
    parts = _about_f(
        *(reward_model, reward, e.weights, used, intermediates, there.atoms, here.atoms),
        jointly=False,
    )
    moment = second_moment(reward_model, reward)

    largest = jnp.maximum(reward.hyper.reward_variance, reward.hyper.mean_variance)
    return assemble_moments(
        mean=parts.mean,
        reward=parts.prior - jnp.sum(parts.whitened**2, axis=1),
        embedding=(e.prior - e.explained) * moment,
        transition=variance_of_smoothed_mean(reward_model, reward, *here),
        moment=moment,
        scale=jnp.maximum(largest, moment * jnp.max(e.prior)),
    )


def sample_residual(
    reward_model: RewardModel,
    embedding_model: EmbeddingModel,
    reward: RewardPosterior,
    embedding: EmbeddingPosterior,
    intermediates: Float[Array, "N d"],
    there: Predicted,
    here: Predicted,
    covariance: Float[Array, "d k k"],
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
    key: PRNGKeyArray,
) -> Float[Array, " k"]:
    r"""Draw ``g`` at all actions jointly, with the moments of `residual_moments`.

    ``h`` is drawn jointly from the transition GPs; with it the mean moves by ``m_f(N(h, S)) -
    m_f(N(m, V + S))``. What is unknown about ``f`` and the residual is a normal around it, whose
    covariance is ``w_a' kappa_f w_a' + (k_x(a, a') - k_x(a, X) C^-1 k_x(X, a')) second_moment``.

    Parameters
    ----------
    covariance : (d, k, k) of ``h`` between the actions; the others as in `residual_moments`.
    """
    used = row_mask(embedding.size, intermediates.shape[0])
    e = embedding_weights(embedding_model, embedding, context, actions)
    parts = _about_f(
        *(reward_model, reward, e.weights, used, intermediates, there.atoms, here.atoms),
        jointly=True,
    )
    moment = second_moment(reward_model, reward)
    rest = embedding_covariance(embedding_model, embedding, context, actions)
    about_f = parts.prior - parts.whitened @ parts.whitened.T
    transition_key, key = jax.random.split(key)
    keys = jax.random.split(transition_key, covariance.shape[0])
    h = jax.vmap(sample_normal)(keys, here.mean.T, covariance).T
    given_h, averaged = (
        mean_over_atoms(reward_model, reward, atoms) for atoms in (Atoms(h, here.noise), here.atoms)
    )
    mean = parts.mean + given_h - averaged
    return sample_normal(key, mean, about_f + rest * moment)


def mean_over_atoms(
    model: RewardModel, reward: RewardPosterior, atoms: Atoms
) -> Float[Array, " n"]:
    """Return ``m_f`` averaged over each atom, without the constant mean."""
    known = row_mask(reward.size, reward.points.shape[0])
    alpha = jnp.where(known, reward_alpha(model, reward), 0.0)
    return alpha @ model.smoothed_gram(reward.hyper, reward.points, *atoms)
