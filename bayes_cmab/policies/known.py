"""CBMP-UCB with a known reward function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayes_cmab import posteriors
from bayes_cmab.data import Data
from bayes_cmab.models import EmbeddingModel
from bayes_cmab.models.embedding import reference_features
from bayes_cmab.models.priors import Sites
from bayes_cmab.moments import Moments, assemble_moments
from bayes_cmab.policies.base import Policy
from bayes_cmab.posteriors import EmbeddingPosterior
from bayes_cmab.scaling import Scales
from bayes_cmab.validate import FloatArray


class KnownRewardState(NamedTuple):
    """State of a `KnownRewardPolicy`: the embedding, ``f(r_i)`` and the mean square of ``f``."""

    embedding: EmbeddingPosterior
    values: Float[Array, " N"]
    second_moment: Float[Array, ""]
    scales: Scales


@dataclass(frozen=True)
class KnownRewardPolicy(Policy[KnownRewardState]):
    """CBMP-UCB with a known reward function: a price list, a risk measure.

    The special case ``m_f = f``, ``kappa_f = 0``: ``mean = E_x f(r)`` and
    ``variance = (F - G) * integral of f^2 d nu``, the integral by quadrature.

    Attributes
    ----------
    reward_function : from an intermediate (d,) to a scalar, in the user's units, made of JAX
        operations.
    embedding : the model.
    measure_scale : ``eta`` in standardised units of r.
    """

    reward_function: Callable[[Array], Array]
    embedding: EmbeddingModel = EmbeddingModel()
    measure_scale: float = 2.0

    def default_sites(self, p: int, q: int, d: int) -> Sites:
        """Return the medians of the priors."""
        del d
        return self.embedding.default_sites(p, q)

    def models(self) -> dict[str, Callable[..., None]]:
        """Return the embedding program."""
        return {"embedding": self.embedding}

    def arguments(self, data: Data, sites: Sites) -> dict[str, tuple[Any, ...]]:
        """Return D1 and its features."""
        del sites
        return {"embedding": (data.transitions, reference_features(data.transitions))}

    def evaluate(self, scales: Scales, r: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Return the standardised reward at standardised intermediates."""
        values = jax.vmap(self.reward_function)(scales.intermediate.restore(r))
        return scales.outcome.standardise(values)

    def condition(self, sites: Sites, data: Data, scales: Scales) -> KnownRewardState:
        """Condition the embedding, and evaluate ``f`` where it is needed."""
        t = data.transitions
        hyper = self.embedding.hyperparameters(sites)
        nodes, weights = gaussian_quadrature(t.intermediates.shape[1])
        at_nodes = self.evaluate(scales, self.measure_scale * jnp.asarray(nodes))
        return KnownRewardState(
            posteriors.condition_embedding(self.embedding, hyper, t.contexts, t.actions, t.size),
            jnp.where(t.mask, self.evaluate(scales, t.intermediates), 0.0),
            jnp.asarray(weights) @ at_nodes**2,
            scales,
        )

    def observe_transition(
        self, state: KnownRewardState, context: Array, action: Array, intermediate: Array
    ) -> KnownRewardState:
        """Add a row of the embedding and the reward there."""
        i = state.embedding.size
        value = self.evaluate(state.scales, intermediate[None, :])[0]
        return state._replace(
            embedding=posteriors.append_embedding(self.embedding, state.embedding, context, action),
            values=state.values.at[i].set(value),
        )

    def moments(self, state: KnownRewardState, context: Array, actions: Array) -> Moments:
        """Return the moments of ``g``, of which only the embedding is uncertain."""
        e = posteriors.embedding_weights(self.embedding, state.embedding, context, actions)
        nothing = jnp.zeros(actions.shape[0])
        return assemble_moments(
            mean=e.weights @ state.values,
            reward=nothing,
            embedding=(e.prior - e.explained) * state.second_moment,
            transition=nothing,
            moment=state.second_moment,
            scale=state.second_moment * jnp.max(e.prior),
        )


def gaussian_quadrature(d: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes (n, d) and weights (n,) that integrate against a standard normal.

    A Gauss-Hermite product rule of 64 nodes a dimension up to two dimensions, else 8,192 points
    of a Sobol sequence.
    """
    from scipy.special import roots_hermitenorm  # slow to import, and needed here alone
    from scipy.stats import norm, qmc

    if d > 2:
        points = qmc.Sobol(d, scramble=True, rng=0).random(8192)
        return norm.ppf(points), np.full(8192, 1.0 / 8192)
    x, w = roots_hermitenorm(64)
    w = w / w.sum()
    nodes = np.stack([axis.ravel() for axis in np.meshgrid(*[x] * d, indexing="ij")], axis=1)
    weights = np.prod([axis.ravel() for axis in np.meshgrid(*[w] * d, indexing="ij")], axis=0)
    return nodes, weights
