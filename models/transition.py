r"""The transition model: one Gaussian process per dimension of the intermediate.

``r_j = h_j(s, a) + noise`` with the ANOVA kernel ``w_0 + w_s k_s + w_a k_a + w_sa k_s k_a``.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpyro
from jaxtyping import Array, Float

from bayes_cmab.data import Transitions
from bayes_cmab.kernels import KernelName, factors
from bayes_cmab.linalg import gaussian_log_density
from bayes_cmab.models.hyperparameters import TransitionHyperparameters
from bayes_cmab.models.priors import Sites, TransitionPriors

type Rows = Float[Array, "n k"]


@dataclass(frozen=True)
class TransitionModel:
    """A NumPyro program for the transition GPs, and the functions that it is made of.

    An instance is callable with ``(transitions)``; its sites are ``transition_scale_s``,
    ``transition_scale_a``, ``transition_scale_sa`` and ``transition_noise_scale`` (d,), and
    ``transition_lengthscale_s`` (d, p), ``transition_lengthscale_a`` (d, q).

    Attributes
    ----------
    priors : see `TransitionPriors`.
    kernel : as in `EmbeddingModel`.
    """

    priors: TransitionPriors = TransitionPriors()
    kernel: KernelName | tuple[KernelName, KernelName] = "rbf"

    def __post_init__(self) -> None:
        factors(self.kernel)

    def __call__(self, transitions: Transitions) -> None:
        """Sample the hyperparameters and score the transitions."""
        p, q = transitions.contexts.shape[1], transitions.actions.shape[1]
        priors = self.priors
        scale = priors.weight.root()
        components = ("s", "a", "sa") if p else ("a",)
        sites: Sites = {}
        with numpyro.plate("r_dim", transitions.intermediates.shape[1], dim=-1):
            for label in components:
                name = f"transition_scale_{label}"
                sites[name] = numpyro.sample(name, scale.distribution())
            sites["transition_noise_scale"] = numpyro.sample(
                "transition_noise_scale", priors.noise_scale.distribution()
            )
            for label, width in (("s", p), ("a", q)):
                if width:
                    name = f"transition_lengthscale_{label}"
                    prior = priors.lengthscale.distribution()
                    sites[name] = numpyro.sample(name, prior.expand([width]).to_event(1))
            sites |= self.noise_factors(p, q)
            hyper = self.hyperparameters(sites)
            numpyro.deterministic("transition_noise", hyper.transition_noise)
            numpyro.factor("transition_log_likelihood", self.log_likelihoods(hyper, transitions))

    def noise_factors(self, p: int, q: int) -> Sites:
        """Sample what the noise has besides its scale: here nothing."""
        del p, q
        return {}

    def hyperparameters(self, sites: Sites) -> TransitionHyperparameters:
        """Return the hyperparameters that the program's sites stand for."""
        noise_scale = sites["transition_noise_scale"]
        zero = jnp.zeros_like(noise_scale)
        nothing = jnp.zeros((*noise_scale.shape, 0))
        return TransitionHyperparameters(
            weight_constant=zero + self.priors.weight_constant,
            weight_s=sites.get("transition_scale_s", zero) ** 2,
            weight_a=sites["transition_scale_a"] ** 2,
            weight_sa=sites.get("transition_scale_sa", zero) ** 2,
            lengthscale_s=sites.get("transition_lengthscale_s", nothing),
            lengthscale_a=sites["transition_lengthscale_a"],
            transition_noise=noise_scale**2 + self.priors.noise_floor**2,
        )

    def default_sites(self, p: int, q: int, d: int) -> Sites:
        """Return the medians of the priors, by site: the fixed agent's hyperparameters."""
        priors = self.priors
        scale = jnp.full(d, priors.weight.root().median, float)
        sites = {
            "transition_scale_a": scale,
            "transition_noise_scale": jnp.full(d, priors.noise_scale.median, float),
            "transition_lengthscale_a": jnp.full((d, q), priors.lengthscale.median, float),
        }
        if p:
            sites["transition_scale_s"] = sites["transition_scale_sa"] = scale
            sites["transition_lengthscale_s"] = jnp.full((d, p), priors.lengthscale.median, float)
        return sites

    def gram(
        self,
        hyper: TransitionHyperparameters,
        contexts: Rows,
        actions: Rows,
        other_contexts: Rows,
        other_actions: Rows,
    ) -> Float[Array, "d n m"]:
        """Return the ANOVA kernel of each dimension of r between two sets of rows."""
        of_context, of_action = factors(self.kernel)

        def one(h: TransitionHyperparameters) -> Array:
            k_s = of_context(contexts, other_contexts, h.lengthscale_s)
            k_a = of_action(actions, other_actions, h.lengthscale_a)
            return h.weight_constant + h.weight_s * k_s + h.weight_a * k_a + h.weight_sa * k_s * k_a

        return jax.vmap(one)(hyper)

    def prior_variance(self, hyper: TransitionHyperparameters) -> Float[Array, " d"]:
        """Return the variance of ``h_j`` before any data."""
        return hyper.weight_constant + hyper.weight_s + hyper.weight_a + hyper.weight_sa

    def covariance(
        self, hyper: TransitionHyperparameters, contexts: Rows, actions: Rows
    ) -> Float[Array, "d N N"]:
        """Return the covariance of the observed intermediates, per dimension."""
        noise = self.noise(hyper, contexts, actions).T
        diagonal = noise[:, :, None] * jnp.eye(contexts.shape[0])[None]
        return self.gram(hyper, contexts, actions, contexts, actions) + diagonal

    def noise(
        self, hyper: TransitionHyperparameters, contexts: Rows, actions: Rows
    ) -> Float[Array, "n d"]:
        """Return the variance of the noise at rows: here it is the same everywhere."""
        del actions
        return jnp.broadcast_to(
            hyper.transition_noise[None, :], (contexts.shape[0], *hyper.transition_noise.shape)
        )

    def log_likelihood(
        self, hyper: TransitionHyperparameters, transitions: Transitions
    ) -> Float[Array, ""]:
        """Return ``sum_j log N(r_j; 0, covariance_j)``."""
        return jnp.sum(self.log_likelihoods(hyper, transitions))

    def log_likelihoods(
        self, hyper: TransitionHyperparameters, transitions: Transitions
    ) -> Float[Array, " d"]:
        """Return ``log N(r_j; 0, covariance_j)`` of each dimension."""
        covariance = self.covariance(hyper, transitions.contexts, transitions.actions)
        density: Array = jax.vmap(gaussian_log_density, in_axes=(1, 0, None))(
            transitions.intermediates, covariance, transitions.mask
        )
        return density
