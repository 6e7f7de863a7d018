r"""The Bayesian conditional mean embedding, ``mu ~ GP(0, k_x (x) T)`` on ``x = (s, a)``.

``C = k_x(X, X) + lambda I``. The hyperparameters of ``k_x`` and ``lambda`` are scored with the
Gram matrix ``K_rr`` of the intermediates at a *reference* lengthscale, so that their posterior
depends on the transitions alone.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpyro
from jaxtyping import Array, Bool, Float

from bayes_cmab.data import Rewards, Transitions
from bayes_cmab.kernels import (
    KernelName,
    Measure,
    factors,
    power_gram,
    rbf,
    squared_distance,
    trace_of_square,
)
from bayes_cmab.linalg import (
    factorise,
    gaussian_log_density,
    log_determinant,
    trace_log_density,
)
from bayes_cmab.models.hyperparameters import EmbeddingHyperparameters
from bayes_cmab.models.priors import EmbeddingPriors, Sites
from bayes_cmab.validate import instance_of, one_of

type Rows = Float[Array, "n k"]

LIKELIHOODS = ("composite", "matrix_normal")


class Features(NamedTuple):
    """What the likelihoods need to know of the intermediates.

    Attributes
    ----------
    gram : (N, N) ``K_rr`` at the reference lengthscale, zero in the padding.
    nuclear : (N, N) ``R_rr`` with the raw ``T``, zero in the padding.
    weight : ``w = 1 / Tr(T^2)``, the composite likelihood's weight.
    """

    gram: Float[Array, "N N"]
    nuclear: Float[Array, "N N"]
    weight: Float[Array, ""]


def reference_lengthscale(
    intermediates: Float[Array, "N d"], mask: Bool[Array, " N"]
) -> Float[Array, ""]:
    """Return the median distance of the distinct intermediates over ``sqrt(2)``.

    While there are fewer than five distinct rows it is ``sqrt(d)``.
    """
    n, d = intermediates.shape
    squared = squared_distance(intermediates, intermediates, jnp.ones(d))
    earlier = jnp.tril(jnp.ones((n, n), bool), -1)
    distinct = mask & ~jnp.any(earlier & (squared == 0.0) & mask[None, :], axis=1)
    pairs = earlier & distinct[:, None] & distinct[None, :]
    ordered = jnp.sort(jnp.where(pairs, squared, jnp.inf).ravel())
    count = jnp.sum(pairs)
    low, high = ordered[jnp.maximum(count - 1, 0) // 2], ordered[count // 2]
    median = 0.5 * (jnp.sqrt(low) + jnp.sqrt(high))
    return jnp.where(jnp.sum(distinct) >= 5, median / jnp.sqrt(2.0), jnp.sqrt(1.0 * d))


def reference_features(
    transitions: Transitions,
    lengthscale: Float[Array, " d"] | None = None,
    composite_scale: Float[Array, " d"] | None = None,
    measure: Measure | None = None,
) -> Features:
    """Return the Gram matrices of the intermediates at a reference lengthscale.

    Parameters
    ----------
    lengthscale : (d,); by default `reference_lengthscale` of the data, in every dimension.
    composite_scale : (d,) ``eta`` in the composite weight; by default 1, the data's own spread.
    measure : of ``R_rr``; by default ``N(0, 4 I)``.
    """
    r, mask = transitions.intermediates, transitions.mask
    one = jnp.ones(r.shape[1])
    if lengthscale is None:
        lengthscale = reference_lengthscale(r, mask) * one
    if measure is None:
        measure = Measure(0.0 * one, 2.0 * one)
    scale = one if composite_scale is None else composite_scale
    both = mask[:, None] & mask[None, :]
    return Features(
        gram=jnp.where(both, rbf(r, r, lengthscale), 0.0),
        nuclear=jnp.where(both, power_gram(1, r, r, lengthscale, measure), 0.0),
        weight=1.0 / trace_of_square(lengthscale, scale),
    )


def log_likelihood_composite(
    covariance: Float[Array, "N N"], features: Features, mask: Bool[Array, " N"]
) -> Float[Array, ""]:
    r"""Return ``-1/2 w [log det C + tr(C^-1 K_rr)]``.

    The Mercer-weighted sum of the Gaussian log likelihoods of all feature functions, scaled to
    their effective number ``w = 1 / Tr(T^2)``.
    """
    return features.weight * trace_log_density(covariance, features.gram, mask)


def log_likelihood_matrix_normal(
    covariance: Float[Array, "N N"], features: Features, mask: Bool[Array, " N"]
) -> Float[Array, ""]:
    r"""Return ``log MN(K_rr; 0, C, R_rr)``, equation 13 of BayesIMP.

    ``-1/2 [n^2 log 2 pi + n log det C + n log det R_rr + tr(R_rr^-1 K_rr C^-1 K_rr)]``. It
    depends on the jitter of ``R_rr`` and is far too confident about the hyperparameters; it is
    here because the papers refer to it.
    """
    n = jnp.sum(mask)
    columns = factorise(features.nuclear, mask)
    rotated = columns.inverse @ features.gram
    moments = rotated.T @ rotated / jnp.maximum(n, 1)
    constant = n * jnp.log(2.0 * jnp.pi) + log_determinant(columns)
    return n * (trace_log_density(covariance, moments, mask) - 0.5 * constant)


@dataclass(frozen=True)
class EmbeddingModel:
    """A NumPyro program for the embedding, and the functions that it is made of.

    An instance is callable with ``(transitions, features)``; its sites are
    ``embedding_lengthscale_s`` (p,), ``embedding_lengthscale_a`` (q,), ``embedding_scale``,
    ``embedding_noise_scale``; the variances appear as deterministic sites.

    Attributes
    ----------
    kernel : ``"rbf"``, ``"matern52"`` or ``"matern32"``, of the context and of the action, or a
        pair of them.
    unit_variance : fix ``s_mu^2 = 1`` instead of inferring it.
    likelihood : ``"composite"`` or ``"matrix_normal"``.
    priors : see `EmbeddingPriors`.
    """

    kernel: KernelName | tuple[KernelName, KernelName] = "rbf"
    unit_variance: bool = False
    likelihood: Literal["composite", "matrix_normal"] = "composite"
    priors: EmbeddingPriors = EmbeddingPriors()

    def __post_init__(self) -> None:
        factors(self.kernel)
        one_of(self.likelihood, "likelihood", LIKELIHOODS)
        instance_of(self.priors, "priors", EmbeddingPriors)

    def __call__(self, transitions: Transitions, features: Features | None = None) -> None:
        """Sample the hyperparameters and score the transitions."""
        hyper = self.sample(transitions.contexts.shape[1], transitions.actions.shape[1])
        features = reference_features(transitions) if features is None else features
        numpyro.factor(
            "embedding_log_likelihood", self.log_likelihood(hyper, transitions, features)
        )

    def sample(self, p: int, q: int) -> EmbeddingHyperparameters:
        """Sample the sites from their priors (inside a NumPyro program)."""
        priors = self.priors
        sites: Sites = {}
        for label, width in (("s", p), ("a", q)):
            name = f"embedding_lengthscale_{label}"
            if width:
                with numpyro.plate(f"{label}_dim", width):
                    sites[name] = numpyro.sample(name, priors.lengthscale.distribution())
            else:
                sites[name] = jnp.zeros(0)
        if not self.unit_variance:
            sites["embedding_scale"] = numpyro.sample(
                "embedding_scale", priors.scale.distribution()
            )
        sites["embedding_noise_scale"] = numpyro.sample(
            "embedding_noise_scale", priors.noise_scale.distribution()
        )
        hyper = self.hyperparameters(sites)
        numpyro.deterministic("embedding_variance", hyper.embedding_variance)
        numpyro.deterministic("embedding_noise", hyper.embedding_noise)
        return hyper

    def hyperparameters(self, sites: Sites) -> EmbeddingHyperparameters:
        """Return the hyperparameters that the program's sites stand for."""
        noise_scale = sites["embedding_noise_scale"]
        nothing = jnp.zeros((*jnp.shape(noise_scale), 0))
        scale = jnp.ones_like(noise_scale) if self.unit_variance else sites["embedding_scale"]
        return EmbeddingHyperparameters(
            lengthscale_s=sites.get("embedding_lengthscale_s", nothing),
            lengthscale_a=sites["embedding_lengthscale_a"],
            embedding_variance=scale**2,
            embedding_noise=noise_scale**2 + self.priors.noise_floor**2,
        )

    def default_sites(self, p: int, q: int) -> Sites:
        """Return the medians of the priors, by site: the fixed agent's hyperparameters."""
        priors = self.priors
        sites = {
            "embedding_lengthscale_a": jnp.full(q, priors.lengthscale.median, float),
            "embedding_noise_scale": jnp.array(priors.noise_scale.median, float),
        }
        if p:
            sites["embedding_lengthscale_s"] = jnp.full(p, priors.lengthscale.median, float)
        if not self.unit_variance:
            sites["embedding_scale"] = jnp.array(priors.scale.median, float)
        return sites

    def prior_variance(self, hyper: EmbeddingHyperparameters) -> Float[Array, ""]:
        """Return ``k_x(x, x)``."""
        return hyper.embedding_variance

    def gram(
        self,
        hyper: EmbeddingHyperparameters,
        contexts: Rows,
        actions: Rows,
        other_contexts: Rows,
        other_actions: Rows,
    ) -> Float[Array, "n m"]:
        """Return ``k_x = s_mu^2 k_s k_a`` between two sets of rows."""
        of_context, of_action = factors(self.kernel)
        return (
            hyper.embedding_variance
            * of_context(contexts, other_contexts, hyper.lengthscale_s)
            * of_action(actions, other_actions, hyper.lengthscale_a)
        )

    def covariance(
        self, hyper: EmbeddingHyperparameters, contexts: Rows, actions: Rows
    ) -> Float[Array, "N N"]:
        """Return ``C = k_x(X, X) + lambda I``."""
        noise = hyper.embedding_noise * jnp.eye(contexts.shape[0])
        return self.gram(hyper, contexts, actions, contexts, actions) + noise

    def log_likelihood(
        self, hyper: EmbeddingHyperparameters, transitions: Transitions, features: Features
    ) -> Float[Array, ""]:
        """Return the chosen likelihood of the hyperparameters."""
        mask = transitions.mask
        covariance = self.covariance(hyper, transitions.contexts, transitions.actions)
        if self.likelihood == "composite":
            return log_likelihood_composite(covariance, features, mask)
        return log_likelihood_matrix_normal(covariance, features, mask)


@dataclass(frozen=True)
class DirectRewardModel:
    """A Gaussian process on ``(s, a) -> y`` with the embedding's kernel and priors.

    The model of contextual GP-UCB, which ignores the intermediate: callable with ``(rewards)``.
    The mean of the outcomes at hand is subtracted.

    Attributes
    ----------
    embedding : whose kernel, priors and sites it shares.
    """

    embedding: EmbeddingModel = EmbeddingModel()

    def __call__(self, rewards: Rewards) -> None:
        """Sample the hyperparameters and score the outcomes."""
        hyper = self.embedding.sample(rewards.contexts.shape[1], rewards.actions.shape[1])
        numpyro.factor("direct_log_likelihood", self.log_likelihood(hyper, rewards))

    def log_likelihood(self, hyper: EmbeddingHyperparameters, rewards: Rewards) -> Float[Array, ""]:
        """Return ``log N(y - mean(y); 0, k_x + lambda I)``."""
        mask = rewards.mask
        centred = rewards.outcomes - jnp.sum(rewards.outcomes) / jnp.maximum(rewards.size, 1)
        covariance = self.embedding.covariance(hyper, rewards.contexts, rewards.actions)
        return gaussian_log_density(jnp.where(mask, centred, 0.0), covariance, mask)
