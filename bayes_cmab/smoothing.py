r"""How much the average of ``f`` over a normal r varies with that normal's uncertain mean."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from bayes_cmab.kernels import power_coefficients
from bayes_cmab.linalg import row_mask
from bayes_cmab.models import RewardHyperparameters, RewardModel
from bayes_cmab.posteriors import RewardPosterior, reward_alpha


def variance_of_smoothed_mean(
    model: RewardModel,
    reward: RewardPosterior,
    m: Float[Array, " d"],
    V: Float[Array, " d"],
    S: Float[Array, " d"],
) -> Float[Array, ""]:
    r"""Return ``Var_h[m_f(N(h, S))]`` for ``h ~ N(m, V)``.

    ``m_f(N(h, S)) = sum_j c_j exp(-(A/D) h^2 / 2 + (B/D) h rho_j)`` with ``D = 1 + A S`` and
    ``c_j = s_f^2 alpha_j D^(-1/2) exp(-((A + delta S)/D) rho_j^2 / 2)`` (products over the
    dimensions), so the product of terms j and k has a Gaussian expectation over h: with
    ``P = 2 A / D`` and ``Q = B (rho_j + rho_k) / D`` it is
    ``(1 + P V)^(-1/2) exp((-P m^2/2 + Q m + Q^2 V/2) / (1 + P V))``. Where ``f`` is a sum, the
    same holds for a term of one component and a term of another, whose ``A / D`` and ``B / D``
    take the place of half of ``P`` and of ``Q``.
    """
    rho = reward.points - reward.hyper.measure_mean[None, :]
    centred = m - reward.hyper.measure_mean
    seen = row_mask(reward.size, rho.shape[0])
    alpha = jnp.where(seen, reward_alpha(model, reward), 0.0)
    total = jnp.zeros(())
    for one, other, count in model.interactions(reward.hyper):
        x, y = (_smooth(model.power, h, rho, S) for h in (one, other))
        covariance = _product(x, y, alpha, centred, V) - (
            _mean(x, alpha, centred, V) * _mean(y, alpha, centred, V)
        )
        total = total + count * covariance
    return total


class _Smooth(NamedTuple):
    """Terms ``exp(level_j - curvature h^2 / 2 + slope_j h)`` of a component, per dimension of h."""

    level: Float[Array, " M"]
    curvature: Float[Array, " d"]
    slope: Float[Array, "M d"]
    variance: Float[Array, ""]


def _smooth(
    power: int, hyper: RewardHyperparameters, rho: Float[Array, "M d"], S: Float[Array, " d"]
) -> _Smooth:
    _, A, B = power_coefficients(power, hyper.lengthscale_r, hyper.measure)
    delta = (A - B) * (A + B)
    D = 1.0 + A * S
    level = -0.5 * (rho**2 @ ((A + delta * S) / D)) - 0.5 * jnp.sum(jnp.log(D))
    return _Smooth(level, A / D, (B / D)[None, :] * rho, hyper.reward_variance)


def _mean(
    x: _Smooth, alpha: Float[Array, " M"], m: Float[Array, " d"], V: Float[Array, " d"]
) -> Float[Array, ""]:
    shrink = 1.0 + x.curvature * V
    constant = -0.5 * jnp.sum(x.curvature * m**2 / shrink + jnp.log(shrink))
    own = x.slope @ (m / shrink) + 0.5 * (x.slope**2 @ (V / shrink))
    return x.variance * (alpha @ jnp.exp(x.level + own + constant))


def _product(
    x: _Smooth,
    y: _Smooth,
    alpha: Float[Array, " M"],
    m: Float[Array, " d"],
    V: Float[Array, " d"],
) -> Float[Array, ""]:
    P = x.curvature + y.curvature
    shrink = 1.0 + P * V
    constant = -0.5 * jnp.sum(P * m**2 / shrink + jnp.log(shrink))

    def own(z: _Smooth) -> Array:
        return z.level + z.slope @ (m / shrink) + 0.5 * (z.slope**2 @ (V / shrink))

    left, right = own(x) + 0.5 * constant, own(y) + 0.5 * constant
    coupling = (x.slope * (V / shrink)[None, :]) @ y.slope.T
    pairs = jnp.exp(left[:, None] + right[None, :] + coupling)
    return x.variance * y.variance * jnp.sum(alpha[:, None] * alpha[None, :] * pairs)
