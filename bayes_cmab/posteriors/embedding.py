"""The conditional mean embedding given the transitions, and its weights in a context."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bayes_cmab.linalg import Factor, append_row, factorise, row_mask
from bayes_cmab.models import (
    EmbeddingHyperparameters,
    EmbeddingModel,
)


class EmbeddingPosterior(NamedTuple):
    """The conditional mean embedding given the transitions: ``C`` and its points."""

    hyper: EmbeddingHyperparameters
    contexts: Float[Array, "N p"]
    actions: Float[Array, "N q"]
    factor: Factor
    size: Int[Array, ""]


class EmbeddingWeights(NamedTuple):
    """What the embedding says of a set of actions in one context.

    Attributes
    ----------
    weights : (k, N) ``E = k_x(x, X) C^-1``.
    prior : (k,) ``F = k_x(x, x)``.
    explained : (k,) ``G = k_x(x, X) C^-1 k_x(X, x)``.
    """

    weights: Float[Array, "k N"]
    prior: Float[Array, " k"]
    explained: Float[Array, " k"]


def condition_embedding(
    model: EmbeddingModel,
    hyper: EmbeddingHyperparameters,
    contexts: Float[Array, "N p"],
    actions: Float[Array, "N q"],
    size: Int[Array, ""],
) -> EmbeddingPosterior:
    """Condition the embedding on transitions; ``O(N^3)``."""
    mask = row_mask(size, contexts.shape[0])
    factor = factorise(model.covariance(hyper, contexts, actions), mask)
    return EmbeddingPosterior(hyper, contexts, actions, factor, size)


def append_embedding(
    model: EmbeddingModel,
    posterior: EmbeddingPosterior,
    context: Float[Array, " p"],
    action: Float[Array, " q"],
) -> EmbeddingPosterior:
    """Condition the embedding on one more transition; ``O(N^2)``."""
    i, hyper = posterior.size, posterior.hyper
    s, a = context[None, :], action[None, :]
    gram = model.gram(hyper, s, a, posterior.contexts, posterior.actions)[0]
    seen = row_mask(i, gram.shape[0])
    own = model.gram(hyper, s, a, s, a)[0, 0] + hyper.embedding_noise
    factor, _, _ = append_row(posterior.factor, jnp.where(seen, gram, 0.0), own, i)
    return EmbeddingPosterior(
        hyper,
        posterior.contexts.at[i].set(context),
        posterior.actions.at[i].set(action),
        factor,
        i + 1,
    )


def _whitened_query(
    model: EmbeddingModel,
    posterior: EmbeddingPosterior,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
) -> tuple[Float[Array, "k p"], Float[Array, "k N"]]:
    contexts = jnp.broadcast_to(context[None, :], (actions.shape[0], context.shape[0]))
    gram = model.gram(posterior.hyper, contexts, actions, posterior.contexts, posterior.actions)
    used = row_mask(posterior.size, posterior.contexts.shape[0])
    return contexts, jnp.where(used[None, :], gram, 0.0) @ posterior.factor.inverse.T


def embedding_weights(
    model: EmbeddingModel,
    posterior: EmbeddingPosterior,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
) -> EmbeddingWeights:
    """Return ``E``, ``F`` and ``G`` for a set of actions in one context; ``O(k N^2)``."""
    contexts, whitened = _whitened_query(model, posterior, context, actions)

    def own(s: Array, a: Array) -> Array:
        s, a = s[None, :], a[None, :]
        return model.gram(posterior.hyper, s, a, s, a)[0, 0]

    return EmbeddingWeights(
        weights=whitened @ posterior.factor.inverse,
        prior=jax.vmap(own)(contexts, actions),
        explained=jnp.sum(whitened**2, axis=1),
    )


def embedding_covariance(
    model: EmbeddingModel,
    posterior: EmbeddingPosterior,
    context: Float[Array, " p"],
    actions: Float[Array, "k q"],
) -> Float[Array, "k k"]:
    """Return ``k_x(a, a') - k_x(a, X) C^-1 k_x(X, a')`` between the actions."""
    contexts, whitened = _whitened_query(model, posterior, context, actions)
    prior = model.gram(posterior.hyper, contexts, actions, contexts, actions)
    return prior - whitened @ whitened.T
