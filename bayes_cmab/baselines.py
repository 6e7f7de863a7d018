r"""Moments of the agents that CBMP-UCB is compared with, from the same data and posteriors."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayes_cmab.linalg import row_mask
from bayes_cmab.models import (
    EmbeddingModel,
    RewardModel,
    TransitionModel,
)
from bayes_cmab.moments import Moments, assemble_moments
from bayes_cmab.posteriors import (
    EmbeddingPosterior,
    RewardPosterior,
    Targets,
    TransitionPosterior,
    embedding_weights,
    predict_transition,
    reward_alpha,
    reward_offset,
    target_mean,
)
from bayes_cmab.smoothing import variance_of_smoothed_mean


def cme_ucb_moments(
    reward_model: RewardModel,
    embedding_model: EmbeddingModel,
    reward: RewardPosterior,
    targets: Targets,
    embedding: EmbeddingPosterior,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
) -> Moments:
    r"""Return CME-UCB's mean and variance as printed (Ray Chowdhury et al., UAI 2020).

    ``mean = E K_{r r~} (K_{r~r~} + reward_noise I)^-1 y`` with the RBF kernel on r, and
    ``variance = (1 - G) / embedding_noise``, in which ``f`` does not appear. The models must have
    unit variances and no integrated mean.
    """
    e = embedding_weights(embedding_model, embedding, context, actions)
    mean = target_mean(reward_model, reward, targets)
    nothing = jnp.zeros(actions.shape[0])
    return assemble_moments(
        mean=mean[0] + e.weights @ mean[1:],
        reward=nothing,
        embedding=(e.prior - e.explained) / embedding.hyper.embedding_noise,
        transition=nothing,
        moment=jnp.ones(()),
        scale=1.0 / embedding.hyper.embedding_noise,
    )


def improved_cme_ucb_moments(
    reward_model: RewardModel,
    embedding_model: EmbeddingModel,
    reward: RewardPosterior,
    targets: Targets,
    embedding: EmbeddingPosterior,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
) -> Moments:
    r"""Return I-CME-UCB's mean, and as variance the square of its sum of standard deviations.

    ``sqrt(variance) = sqrt((1 - G) / embedding_noise) + sqrt(E Sigma_f E')`` with the posterior
    covariance ``Sigma_f`` of ``f`` at the transitions' intermediates. The two parts are reported
    as ``variance_embedding`` and ``variance_reward``; the variance exceeds their sum.
    """
    e = embedding_weights(embedding_model, embedding, context, actions)
    printed = cme_ucb_moments(
        reward_model, embedding_model, reward, targets, embedding, context, actions
    )
    about_f = jnp.sum((e.weights @ targets.covariance[1:, 1:]) * e.weights, axis=1)
    positive = jnp.maximum(about_f, 0.0)
    return printed._replace(
        variance=(jnp.sqrt(printed.variance_embedding) + jnp.sqrt(positive)) ** 2,
        variance_reward=positive,
        negativity=jnp.maximum(printed.negativity, jnp.max(-jnp.minimum(about_f, 0.0))),
    )


def gp_ucb_moments(
    embedding_model: EmbeddingModel,
    posterior: EmbeddingPosterior,
    outcomes: Float[Array, " N"],
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
) -> Moments:
    r"""Return the moments of a GP on ``(s, a) -> y`` (contextual GP-UCB, Krause & Ong 2011).

    ``mean = ybar + E (y - ybar)``, ``variance = F - G``.
    """
    e = embedding_weights(embedding_model, posterior, context, actions)
    used = row_mask(posterior.size, outcomes.shape[0])
    offset = jnp.sum(jnp.where(used, outcomes, 0.0)) / jnp.maximum(posterior.size, 1)
    nothing = jnp.zeros(actions.shape[0])
    return assemble_moments(
        mean=offset + e.weights @ jnp.where(used, outcomes - offset, 0.0),
        reward=e.prior - e.explained,
        embedding=nothing,
        transition=nothing,
        moment=jnp.ones(()),
        scale=embedding_model.prior_variance(posterior.hyper),
    )


def gaussian_transition_moments(
    reward_model: RewardModel,
    transition_model: TransitionModel,
    reward: RewardPosterior,
    transition: TransitionPosterior,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
) -> Moments:
    r"""Return the moments of ``g`` when ``R | s, a ~ N(h(s, a), S)`` with a GP on each ``h_j``.

    With ``h ~ N(m, V)`` and the atom ``N = N(m, V + S)``: ``mean = m_b + m_f(N)``,
    ``variance_reward = kappa_f(N, N) + 2 Cov(f(N), b) + Var b`` and
    ``variance_transition = Var_h[m_f(N(h, S))]``, all in closed form.
    """
    at = predict_transition(transition_model, transition, context, actions)
    mean, variance_reward = atom_moments(reward_model, reward, *at.atoms)

    return assemble_moments(
        mean=mean,
        reward=variance_reward,
        embedding=jnp.zeros(actions.shape[0]),
        transition=variance_of_smoothed_mean(reward_model, reward, *at),
        moment=jnp.zeros(()),
        scale=jnp.maximum(reward.hyper.reward_variance, reward.hyper.mean_variance),
    )


def plug_in_moments(
    reward_model: RewardModel,
    transition_model: TransitionModel,
    reward: RewardPosterior,
    transition: TransitionPosterior,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
) -> Moments:
    """Return the reward GP's moments at ``m(s, a)``, as if r were its own mean: ``f(E[r])``."""
    m = predict_transition(transition_model, transition, context, actions).mean
    mean, variance = atom_moments(reward_model, reward, m, jnp.zeros_like(m))
    nothing = jnp.zeros(actions.shape[0])
    return assemble_moments(
        mean, variance, nothing, nothing, jnp.zeros(()), reward.hyper.reward_variance
    )


def atom_moments(
    model: RewardModel,
    reward: RewardPosterior,
    mean: Float[Array, "k d"],
    variance: Float[Array, "k d"],
) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Return mean and variance of ``b + E f(R)``, ``R ~ N(mean, variance)``, about ``f``."""
    hyper = reward.hyper
    seen = row_mask(reward.size, reward.points.shape[0])

    def with_itself(m: Array, v: Array) -> Array:
        return model.expected_gram(hyper, m[None], v[None], m[None], v[None])[0, 0]

    cross = model.smoothed_gram(hyper, reward.points, mean, variance).T
    cross = jnp.where(seen[None, :], cross + hyper.mean_variance, 0.0)
    own = jax.vmap(with_itself)(mean, variance)
    whitened = cross @ reward.factor.inverse.T
    response = reward_offset(model, reward) + cross @ reward_alpha(model, reward)
    return response, own + hyper.mean_variance - jnp.sum(whitened**2, axis=1)
