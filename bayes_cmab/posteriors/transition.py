"""The transition GPs given the transitions."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bayes_cmab.data import Transitions
from bayes_cmab.linalg import Factor, append_row, factorise, row_mask
from bayes_cmab.models import (
    TransitionHyperparameters,
    TransitionModel,
)


class TransitionPosterior(NamedTuple):
    """The transition GPs given the transitions; ``factors`` and ``whitened`` lead with d."""

    hyper: TransitionHyperparameters
    contexts: Float[Array, "N p"]
    actions: Float[Array, "N q"]
    factors: Factor
    whitened: Float[Array, "d N"]
    size: Int[Array, ""]


class Atoms(NamedTuple):
    """Normal distributions of r with independent dimensions.

    Attributes
    ----------
    mean, variance : (n, d).
    """

    mean: Float[Array, "n d"]
    variance: Float[Array, "n d"]


class Predicted(NamedTuple):
    """What the transition GPs say at rows: ``r = h + noise``, normal, dimensions independent.

    Attributes
    ----------
    mean, variance : (n, d) of ``h``.
    noise : (n, d) variances.
    """

    mean: Float[Array, "n d"]
    variance: Float[Array, "n d"]
    noise: Float[Array, "n d"]

    @property
    def atoms(self) -> Atoms:
        """The distributions of ``r``."""
        return Atoms(self.mean, self.variance + self.noise)


def condition_transition(
    model: TransitionModel, hyper: TransitionHyperparameters, transitions: Transitions
) -> TransitionPosterior:
    """Condition the transition GPs on transitions; ``O(d N^3)``."""
    covariance = model.covariance(hyper, transitions.contexts, transitions.actions)
    factors = jax.vmap(factorise, in_axes=(0, None))(covariance, transitions.mask)
    return TransitionPosterior(
        hyper=hyper,
        contexts=transitions.contexts,
        actions=transitions.actions,
        factors=factors,
        whitened=jnp.einsum("jnm,mj->jn", factors.inverse, transitions.intermediates),
        size=transitions.size,
    )


def append_transition(
    model: TransitionModel,
    posterior: TransitionPosterior,
    context: Float[Array, " p"],
    action: Float[Array, " q"],
    intermediate: Float[Array, " d"],
) -> TransitionPosterior:
    """Condition the transition GPs on one more transition; ``O(d N^2)``."""
    i, hyper = posterior.size, posterior.hyper
    s, a = context[None, :], action[None, :]
    gram = model.gram(hyper, s, a, posterior.contexts, posterior.actions)[:, 0, :]
    seen = row_mask(i, gram.shape[1])
    own = model.prior_variance(hyper) + model.noise(hyper, s, a)[0]
    append = jax.vmap(append_row, in_axes=(0, 0, 0, None))
    factors, v, pivot = append(posterior.factors, jnp.where(seen[None, :], gram, 0.0), own, i)
    row = (intermediate - jnp.sum(v * posterior.whitened, axis=1)) / pivot
    return TransitionPosterior(
        hyper=hyper,
        contexts=posterior.contexts.at[i].set(context),
        actions=posterior.actions.at[i].set(action),
        factors=factors,
        whitened=posterior.whitened.at[:, i].set(row),
        size=i + 1,
    )


def predict_transition(
    model: TransitionModel,
    posterior: TransitionPosterior,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
) -> Predicted:
    """Return the posterior of ``h(s, a)`` for a set of actions."""
    contexts, whitened = _whitened_query(model, posterior, context, actions)
    mean = jnp.einsum("jkm,jm->kj", whitened, posterior.whitened)
    variance = model.prior_variance(posterior.hyper)[None, :] - jnp.sum(whitened**2, axis=2).T
    noise = model.noise(posterior.hyper, contexts, actions)
    return Predicted(mean, jnp.maximum(variance, 0.0), noise)


def transition_covariance(
    model: TransitionModel,
    posterior: TransitionPosterior,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
) -> Float[Array, "d k k"]:
    """Return the posterior covariance of ``h`` between the actions, by dimension of r."""
    contexts, whitened = _whitened_query(model, posterior, context, actions)
    prior = model.gram(posterior.hyper, contexts, actions, contexts, actions)
    return prior - whitened @ whitened.transpose(0, 2, 1)


def _whitened_query(
    model: TransitionModel,
    posterior: TransitionPosterior,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
) -> tuple[Float[Array, "k p"], Float[Array, "d k N"]]:
    """Return the context repeated, and ``L^-1 k(X, (s, a))`` by dimension of r."""
    contexts = jnp.broadcast_to(context[None, :], (actions.shape[0], context.shape[0]))
    gram = model.gram(posterior.hyper, contexts, actions, posterior.contexts, posterior.actions)
    used = row_mask(posterior.size, gram.shape[2])
    gram = jnp.where(used[None, None, :], gram, 0.0)
    return contexts, jnp.einsum("jkn,jmn->jkm", gram, posterior.factors.inverse)


def fitted_transition(
    model: TransitionModel, posterior: TransitionPosterior, intermediates: Float[Array, "N d"]
) -> Predicted:
    r"""Return the posterior of ``h`` at the transitions themselves; ``O(d N^2)``.

    With ``A = K + S``, ``S`` diagonal: ``K A^-1 r = r - S A^-1 r`` and ``diag(K - K A^-1 K) = S -
    S^2 diag(A^-1)``. What stands in the padding means nothing.

    Parameters
    ----------
    intermediates : (N, d) those that the GPs were conditioned on.
    """
    noise = model.noise(posterior.hyper, posterior.contexts, posterior.actions)
    inverse = posterior.factors.inverse
    pulled = jnp.einsum("jnm,jn->mj", inverse, posterior.whitened)
    precision = jnp.sum(inverse**2, axis=1).T
    variance = jnp.maximum(noise - noise**2 * precision, 0.0)
    return Predicted(intermediates - noise * pulled, variance, noise)
