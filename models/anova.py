r"""Embeddings whose kernel on ``(s, a)`` is a sum of main effects and their product."""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpyro
from jaxtyping import Array, Float

from bayes_cmab.kernels import factors
from bayes_cmab.models.embedding import EmbeddingModel, Rows
from bayes_cmab.models.priors import AnovaPriors, EmbeddingPriors, Sites


class AnovaHyperparameters(NamedTuple):
    """Of an embedding with an ANOVA kernel.

    Attributes
    ----------
    lengthscale_s : (p,). lengthscale_a : (q,).
    weight_constant, weight_s, weight_a, weight_sa : variances of the components.
    embedding_noise : ``lambda``, a variance.
    """

    lengthscale_s: Float[Array, " p"]
    lengthscale_a: Float[Array, " q"]
    weight_constant: Float[Array, ""]
    weight_s: Float[Array, ""]
    weight_a: Float[Array, ""]
    weight_sa: Float[Array, ""]
    embedding_noise: Float[Array, ""]


@dataclass(frozen=True)
class AnovaEmbeddingModel(EmbeddingModel):
    """An `EmbeddingModel` with ``k_x = w_0 + w_s k_s + w_a k_a + w_sa k_s k_a``, weights inferred.

    Its methods take `AnovaHyperparameters` where the base takes its own: each model is only ever
    given the hyperparameters that it made, which the types cannot say.

    Its sites are ``embedding_lengthscale_s`` (p,), ``embedding_lengthscale_a`` (q,),
    ``embedding_scale_constant``, ``embedding_scale_s``, ``embedding_scale_a``,
    ``embedding_scale_sa`` (square roots of the weights) and ``embedding_noise_scale``. Without
    contexts there is only ``w_0 + w_a k_a``.

    Attributes
    ----------
    anova_priors : take the place of ``priors`` and of ``unit_variance``, which must be left alone.
    """

    anova_priors: AnovaPriors = AnovaPriors()

    def _components(self, p: int) -> tuple[str, ...]:
        return ("constant", "s", "a", "sa") if p else ("constant", "a")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unit_variance or self.priors != EmbeddingPriors():
            raise ValueError(
                "AnovaEmbeddingModel: expected anova_priors alone, which hold the weights, got "
                f"unit_variance={self.unit_variance} and priors={self.priors}"
            )

    def sample(self, p: int, q: int) -> AnovaHyperparameters:  # type: ignore[override]
        """Sample the sites from their priors (inside a NumPyro program)."""
        priors, sites = self.anova_priors, {}
        for label, width in (("s", p), ("a", q)):
            if width:
                name = f"embedding_lengthscale_{label}"
                with numpyro.plate(f"{label}_dim", width):
                    sites[name] = numpyro.sample(name, priors.lengthscale.distribution())
        for component in self._components(p):
            name = f"embedding_scale_{component}"
            sites[name] = numpyro.sample(name, priors.weight.root().distribution())
        name = "embedding_noise_scale"
        sites[name] = numpyro.sample(name, priors.noise_scale.distribution())
        hyper = self.hyperparameters(sites)
        numpyro.deterministic("embedding_noise", hyper.embedding_noise)
        return hyper

    def hyperparameters(self, sites: Sites) -> AnovaHyperparameters:  # type: ignore[override]
        """Return the hyperparameters that the program's sites stand for."""
        noise_scale = sites["embedding_noise_scale"]
        zero = jnp.zeros_like(noise_scale)
        nothing = jnp.zeros((*jnp.shape(noise_scale), 0))
        weights = {
            component: sites.get(f"embedding_scale_{component}", zero) ** 2
            for component in self._components(1)
        }
        return AnovaHyperparameters(
            lengthscale_s=sites.get("embedding_lengthscale_s", nothing),
            lengthscale_a=sites["embedding_lengthscale_a"],
            weight_constant=weights["constant"],
            weight_s=weights["s"],
            weight_a=weights["a"],
            weight_sa=weights["sa"],
            embedding_noise=noise_scale**2 + self.anova_priors.noise_floor**2,
        )

    def default_sites(self, p: int, q: int) -> Sites:
        """Return the medians of the priors, by site: the fixed agent's hyperparameters."""
        priors = self.anova_priors
        sites = {
            "embedding_lengthscale_a": jnp.full(q, priors.lengthscale.median, float),
            "embedding_noise_scale": jnp.array(priors.noise_scale.median, float),
        }
        if p:
            sites["embedding_lengthscale_s"] = jnp.full(p, priors.lengthscale.median, float)
        for component in self._components(p):
            median = priors.weight.root().median
            sites[f"embedding_scale_{component}"] = jnp.array(median, float)
        return sites

    def prior_variance(  # type: ignore[override]
        self, hyper: AnovaHyperparameters
    ) -> Float[Array, ""]:
        """Return ``k_x(x, x)``, the sum of the weights."""
        return hyper.weight_constant + hyper.weight_s + hyper.weight_a + hyper.weight_sa

    def gram(  # type: ignore[override]
        self,
        hyper: AnovaHyperparameters,
        contexts: Rows,
        actions: Rows,
        other_contexts: Rows,
        other_actions: Rows,
    ) -> Float[Array, "n m"]:
        """Return the ANOVA kernel between two sets of rows."""
        of_context, of_action = factors(self.kernel)
        k_s = of_context(contexts, other_contexts, hyper.lengthscale_s)
        k_a = of_action(actions, other_actions, hyper.lengthscale_a)
        return (
            hyper.weight_constant
            + hyper.weight_s * k_s
            + hyper.weight_a * k_a
            + hyper.weight_sa * k_s * k_a
        )
