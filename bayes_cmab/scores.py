r"""How well a model of ``P(r | s, a)`` predicts each transition from all others.

The kernel score ``1/2 ||phi(r) - mu||^2`` in the RKHS of an RBF kernel is proper (its expectation
is least for the true distribution's embedding ``mu``), and it judges a conditional mean embedding
and a density alike (Gneiting and Raftery 2007, section 5.1). All three are exact for given
hyperparameters: nothing is fitted again. Smaller is better; entries in the padding mean nothing.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from bayes_cmab.data import Transitions
from bayes_cmab.kernels import Measure, expected_power_gram, rbf, smoothed_power_gram
from bayes_cmab.linalg import factorise
from bayes_cmab.models import EmbeddingModel, TransitionModel
from bayes_cmab.models.embedding import reference_lengthscale
from bayes_cmab.models.priors import Sites
from bayes_cmab.posteriors import Atoms, condition_transition
from bayes_cmab.residual import residual_gram


def score_lengthscale(transitions: Transitions) -> Float[Array, " d"]:
    """Return the lengthscale of the score: the reference of the embedding's likelihood."""
    r = transitions.intermediates
    return jnp.broadcast_to(reference_lengthscale(r, transitions.mask), (r.shape[1],))


def _precision(
    model: EmbeddingModel, sites: Sites, transitions: Transitions
) -> Float[Array, "N N"]:
    hyper = model.hyperparameters(sites)
    covariance = model.covariance(hyper, transitions.contexts, transitions.actions)
    factor = factorise(covariance, transitions.mask)
    precision: Array = factor.inverse.T @ factor.inverse
    return precision


def embedding_scores(
    model: EmbeddingModel, sites: Sites, transitions: Transitions
) -> Float[Array, " N"]:
    r"""Return the scores of a conditional mean embedding; ``O(N^3)``.

    ``phi(r_i) - mu_{-i}(x_i) = sum_j (C^-1)_ij phi(r_j) / (C^-1)_ii``.
    """
    mask, r = transitions.mask, transitions.intermediates
    gram = rbf(r, r, score_lengthscale(transitions))
    gram = jnp.where(mask[:, None] & mask[None, :], gram, 0.0)
    precision = _precision(model, sites, transitions)
    squares = jnp.sum((precision @ gram) * precision, axis=1)
    scores: Array = 0.5 * squares / jnp.diagonal(precision) ** 2
    return scores


def leave_one_out_transition(
    model: TransitionModel, sites: Sites, transitions: Transitions
) -> tuple[Float[Array, "N N d"], Float[Array, "N N d"]]:
    r"""Return mean and variance of ``h(x_j)`` given all transitions but i, (i, j, d).

    With the posterior covariance ``V = K - K A^-1 K`` at the transitions: to leave i out is to see
    it with infinite noise, so ``m_{-i}(x_j) = m_j - V_ji (r_i - m_i) / (S - V_ii)`` and
    ``V_{-i}(x_j) = V_j + V_ji^2 / (S - V_ii)``.
    """
    hyper = model.hyperparameters(sites)
    posterior = condition_transition(model, hyper, transitions)
    mask = transitions.mask

    def one(inverse: Array, whitened: Array, r: Array, noise: Array) -> tuple[Array, Array]:
        precision = inverse.T @ inverse
        pulled = noise * (inverse.T @ whitened)  # r - m
        both = mask[:, None] & mask[None, :]
        covariance = jnp.diag(noise) - noise[:, None] * precision * noise[None, :]
        covariance = jnp.where(both, covariance, 0.0)
        left = jnp.where(mask, noise**2 * jnp.diagonal(precision), 1.0)  # S - V_ii
        mean = (r - pulled)[None, :] - covariance * (pulled / left)[:, None]
        variance = jnp.diagonal(covariance)[None, :] + covariance**2 / left[:, None]
        return mean, variance

    columns = transitions.intermediates.T
    noise = model.noise(hyper, transitions.contexts, transitions.actions).T
    mean, variance = jax.vmap(one, out_axes=-1)(
        posterior.factors.inverse, posterior.whitened, columns, noise
    )
    return mean, variance


def transition_scores(
    model: TransitionModel, sites: Sites, transitions: Transitions
) -> Float[Array, " N"]:
    r"""Return the scores of normal predictions by the transition GPs; ``O(d N^3)``.

    ``1/2 (1 - 2 E k(r, R) + E k(R, R'))``, ``R, R' ~ N(m_{-i}, V_{-i} + S)``.
    """
    mean, variance = leave_one_out_transition(model, sites, transitions)
    noise = model.noise(model.hyperparameters(sites), transitions.contexts, transitions.actions)
    lengthscale = score_lengthscale(transitions)
    measure = Measure(jnp.zeros_like(lengthscale), jnp.ones_like(lengthscale))  # p = 0: not used

    def one(r: Array, m: Array, v: Array) -> Array:
        atom = (m[None], v[None])
        cross = smoothed_power_gram(0, r[None], *atom, lengthscale, measure)[0, 0]
        own = expected_power_gram(0, *atom, *atom, lengthscale, measure)[0, 0]
        return 0.5 * (1.0 - 2.0 * cross + own)

    index = jnp.arange(mean.shape[0])
    left_out = mean[index, index], variance[index, index] + noise
    return jax.vmap(one)(transitions.intermediates, *left_out)


def residual_scores(
    transition_model: TransitionModel,
    model: EmbeddingModel,
    sites: Sites,
    transitions: Transitions,
) -> Float[Array, " N"]:
    r"""Return the scores of the embedding that corrects the transition GPs; ``O(d N^3)``.

    With ``mu_0^{-i}`` from the transition GPs without i, ``phi(r_i) - mu_{-i}(x_i) =
    sum_j (C^-1)_ij (phi(r_j) - mu_0^{-i}(x_j)) / (C^-1)_ii``.
    """
    mean, variance = leave_one_out_transition(transition_model, sites, transitions)
    hyper = transition_model.hyperparameters(sites)
    noise = transition_model.noise(hyper, transitions.contexts, transitions.actions)
    precision = _precision(model, sites, transitions)
    weights = precision / jnp.diagonal(precision)[:, None]
    lengthscale = score_lengthscale(transitions)

    def one(inputs: tuple[Array, Array, Array]) -> Array:
        w, m, v = inputs
        predicted = Atoms(m, v + noise)
        gram = residual_gram(transitions.intermediates, predicted, lengthscale, transitions.mask)
        return 0.5 * (w @ gram @ w)

    scores: Array = lax.map(one, (weights, mean, variance))
    return scores
