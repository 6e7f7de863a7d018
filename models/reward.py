r"""The reward model: a Gaussian process on ``f`` with an integrated constant mean.

``y = b + f(r) + noise``, ``f ~ GP(0, s_f^2 r~)`` with the normalised nuclear dominant kernel
``r~(r, r') = <phi(r), T phi(r')> / <phi(c), T phi(c)>`` and ``b ~ N(0, mean_variance)``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpyro
from jaxtyping import Array, Float

from bayes_cmab.data import Outcomes
from bayes_cmab.kernels import (
    expected_power_gram,
    power_coefficients,
    power_gram,
    smoothed_power_gram,
    trace_of_square,
)
from bayes_cmab.linalg import gaussian_log_density
from bayes_cmab.models.hyperparameters import RewardHyperparameters
from bayes_cmab.models.priors import RewardPriors, Sites
from bayes_cmab.validate import instance_of, number_within


class Interaction(NamedTuple):
    """Two components of ``f`` that vary together with r.

    Attributes
    ----------
    one, other : their places among the components.
    times : how often their covariance counts in the variance of ``f``.
    dimension : of r, if they have one alone in common.
    """

    one: int
    other: int
    times: float
    dimension: int | None


@dataclass(frozen=True)
class RewardModel:
    """A NumPyro program for the reward, and the functions that it is made of.

    An instance is callable: ``MCMC(NUTS(RewardModel()), ...).run(key, outcomes)``. Its sites are
    ``reward_lengthscale`` (d,), ``reward_scale``, ``reward_noise_scale``; the variances appear as
    the deterministic sites ``reward_variance`` and ``reward_noise``.

    Attributes
    ----------
    power : 1 is the nuclear dominant kernel, 0 the RBF kernel (CME-UCB and its kin).
    unit_variance : fix ``s_f^2 = 1`` instead of inferring it.
    integrated_mean : integrate a constant mean out; otherwise the mean of the outcomes at hand
        is subtracted.
    measure_scale : ``eta`` in standardised units of r.
    priors : see `RewardPriors`.
    """

    power: int = 1
    unit_variance: bool = False
    integrated_mean: bool = True
    measure_scale: float = 2.0
    priors: RewardPriors = RewardPriors()

    def __post_init__(self) -> None:
        if isinstance(self.power, bool) or self.power not in (0, 1):
            raise ValueError(f"power: expected 0 or 1, got {self.power!r}")
        number_within(self.measure_scale, "measure_scale", 0.0, math.inf)
        instance_of(self.priors, "priors", RewardPriors)

    def __call__(self, outcomes: Outcomes) -> None:
        """Sample the hyperparameters and score the outcomes."""
        d = outcomes.intermediates.shape[1]
        priors = self.priors
        sites: Sites = {}
        with numpyro.plate("r_dim", d):
            sites["reward_lengthscale"] = numpyro.sample(
                "reward_lengthscale", priors.lengthscale.scaled(d**0.25).distribution()
            )
        if not self.unit_variance:
            sites["reward_scale"] = numpyro.sample("reward_scale", priors.scale.distribution())
        sites["reward_noise_scale"] = numpyro.sample(
            "reward_noise_scale", priors.noise_scale.distribution()
        )
        hyper = self.hyperparameters(sites)
        numpyro.deterministic("reward_variance", hyper.reward_variance)
        numpyro.deterministic("reward_noise", hyper.reward_noise)
        numpyro.factor("reward_log_likelihood", self.log_likelihood(hyper, outcomes))

    def hyperparameters(self, sites: Sites) -> RewardHyperparameters:
        """Return the hyperparameters that the program's sites stand for."""
        lengthscale = sites["reward_lengthscale"]
        one = jnp.ones_like(lengthscale)
        scale = one[..., 0] if self.unit_variance else sites["reward_scale"]
        mean_variance = self.priors.mean_variance if self.integrated_mean else 0.0
        return RewardHyperparameters(
            lengthscale_r=lengthscale,
            reward_variance=scale**2,
            reward_noise=sites["reward_noise_scale"] ** 2 + self.priors.noise_floor**2,
            mean_variance=mean_variance * one[..., 0],
            measure_mean=0.0 * one,
            measure_scale=self.measure_scale * one,
        )

    def default_sites(self, d: int) -> Sites:
        """Return the medians of the priors, by site: the fixed agent's hyperparameters."""
        priors = self.priors
        sites = {
            "reward_lengthscale": jnp.full(d, priors.lengthscale.scaled(d**0.25).median, float),
            "reward_noise_scale": jnp.array(priors.noise_scale.median, float),
        }
        if not self.unit_variance:
            sites["reward_scale"] = jnp.array(priors.scale.median, float)
        return sites

    def summed(
        self, function: Callable[[RewardHyperparameters], Array], hyper: RewardHyperparameters
    ) -> Array:
        """Return the sum of a function over the components of ``f``: here there is one."""
        return function(hyper)

    def components(self, hyper: RewardHyperparameters) -> list[RewardHyperparameters]:
        """Return the hyperparameters of each component of ``f``."""
        return [hyper]

    def interactions(self, d: int) -> list[Interaction]:
        """Return the pairs of components that vary together with r in ``d`` dimensions."""
        return [Interaction(0, 0, 1.0, 0 if d == 1 else None)]

    def gram(
        self, hyper: RewardHyperparameters, x: Float[Array, "n d"], y: Float[Array, "m d"]
    ) -> Float[Array, "n m"]:
        """Return the prior covariance of ``f``, ``s_f^2 r~(x, y)``."""

        def one(h: RewardHyperparameters) -> Array:
            kernel = (self.power, x, y, h.lengthscale_r, h.measure)
            return h.reward_variance * power_gram(*kernel, normalised=True)

        return self.summed(one, hyper)

    def smoothed_gram(
        self,
        hyper: RewardHyperparameters,
        x: Float[Array, "n d"],
        mean: Float[Array, "m d"],
        variance: Float[Array, "m d"],
    ) -> Float[Array, "n m"]:
        """Return the prior covariance of ``f(x)`` and ``E f(R)``, ``R ~ N(mean, variance)``."""

        def one(h: RewardHyperparameters) -> Array:
            kernel = (self.power, x, mean, variance, h.lengthscale_r, h.measure)
            return h.reward_variance * smoothed_power_gram(*kernel, normalised=True)

        return self.summed(one, hyper)

    def expected_gram(
        self,
        hyper: RewardHyperparameters,
        x_mean: Float[Array, "n d"],
        x_variance: Float[Array, "n d"],
        y_mean: Float[Array, "m d"],
        y_variance: Float[Array, "m d"],
    ) -> Float[Array, "n m"]:
        """Return the prior covariance of ``E f(X)`` and ``E f(Y)`` for normal ``X`` and ``Y``."""

        def one(h: RewardHyperparameters) -> Array:
            normals = (x_mean, x_variance, y_mean, y_variance)
            kernel = (h.lengthscale_r, h.measure)
            gram = expected_power_gram(self.power, *normals, *kernel, normalised=True)
            return h.reward_variance * gram

        return self.summed(one, hyper)

    def third_gram(
        self, hyper: RewardHyperparameters, x: Float[Array, "n d"], y: Float[Array, "m d"]
    ) -> Float[Array, "n m"]:
        """Return ``integral of Cov(f(x), f(u)) Cov(f(u), f(y)) nu(du)``, ``q^2 R3``.

        Here ``q = s_f^2 / <phi(c), T phi(c)>``; the inner product is over each component alone.
        """

        def one(h: RewardHyperparameters) -> Array:
            q = h.reward_variance / jnp.prod(power_coefficients(1, h.lengthscale_r, h.measure).C)
            return q**2 * power_gram(3, x, y, h.lengthscale_r, h.measure)

        return self.summed(one, hyper)

    def mean_square(self, hyper: RewardHyperparameters) -> Float[Array, ""]:
        """Return the prior's ``integral of Var f(u) nu(du)``, ``q Tr(T^2)``."""

        def one(h: RewardHyperparameters) -> Array:
            centre = jnp.prod(power_coefficients(1, h.lengthscale_r, h.measure).C)
            trace = trace_of_square(h.lengthscale_r, h.measure_scale)
            return h.reward_variance / centre * trace

        return self.summed(one, hyper)

    def covariance(
        self, hyper: RewardHyperparameters, points: Float[Array, "M d"]
    ) -> Float[Array, "M M"]:
        """Return the covariance of the outcomes, ``A = R + mean_variance 11' + noise I``."""
        noise = hyper.reward_noise * jnp.eye(points.shape[0])
        return self.gram(hyper, points, points) + hyper.mean_variance + noise

    def log_likelihood(self, hyper: RewardHyperparameters, outcomes: Outcomes) -> Float[Array, ""]:
        """Return ``log N(y; 0, A)``, with ``y`` centred if there is no integrated mean."""
        mask = outcomes.mask
        y = outcomes.outcomes
        if not self.integrated_mean:
            y = y - jnp.sum(y) / jnp.maximum(outcomes.size, 1)
        residual = jnp.where(mask, y, 0.0)
        covariance = self.covariance(hyper, outcomes.intermediates)
        return gaussian_log_density(residual, covariance, mask)
