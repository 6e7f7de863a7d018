"""Hyperparameters of the three models, as pytrees of arrays.

A field may carry leading axes (posterior draws) where a function is vmapped over them.
"""

from typing import NamedTuple

from jaxtyping import Array, Float

from bayes_cmab.kernels import Measure


class RewardHyperparameters(NamedTuple):
    """Of the reward Gaussian process, ``y = b + f(r) + noise``.

    Attributes
    ----------
    lengthscale_r : (d,) of ``k_r``.
    reward_variance : ``s_f^2``, the prior variance of ``f`` at the measure's centre.
    reward_noise : variance of the outcome noise (the paper's ``lambda_f``).
    mean_variance : prior variance of the constant mean ``b``; zero means no constant.
    measure_mean, measure_scale : (d,) of ``nu``.
    """

    lengthscale_r: Float[Array, " d"]
    reward_variance: Float[Array, ""]
    reward_noise: Float[Array, ""]
    mean_variance: Float[Array, ""]
    measure_mean: Float[Array, " d"]
    measure_scale: Float[Array, " d"]

    @property
    def measure(self) -> Measure:
        """The measure ``nu``."""
        return Measure(self.measure_mean, self.measure_scale)


class EmbeddingHyperparameters(NamedTuple):
    """Of the Bayesian conditional mean embedding, and of any GP on (context, action).

    Attributes
    ----------
    lengthscale_s : (p,). lengthscale_a : (q,).
    embedding_variance : ``s_mu^2``.
    embedding_noise : ``lambda``, a variance.
    """

    lengthscale_s: Float[Array, " p"]
    lengthscale_a: Float[Array, " q"]
    embedding_variance: Float[Array, ""]
    embedding_noise: Float[Array, ""]


class TransitionHyperparameters(NamedTuple):
    """Of the transition GPs, one per dimension of r, with an ANOVA kernel.

    Attributes
    ----------
    weight_constant, weight_s, weight_a, weight_sa : (d,) variances of the components.
    lengthscale_s : (d, p). lengthscale_a : (d, q).
    transition_noise : (d,) variances.
    noise_factor_s, noise_factor_a : (d, p, knots) and (d, q, knots) of a noise that varies, see
        `HeteroscedasticTransitionModel`; None if it does not.
    """

    weight_constant: Float[Array, " d"]
    weight_s: Float[Array, " d"]
    weight_a: Float[Array, " d"]
    weight_sa: Float[Array, " d"]
    lengthscale_s: Float[Array, "d p"]
    lengthscale_a: Float[Array, "d q"]
    transition_noise: Float[Array, " d"]
    noise_factor_s: Float[Array, "d p knots"] | None = None
    noise_factor_a: Float[Array, "d q knots"] | None = None
