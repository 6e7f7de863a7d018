r"""How much the average of ``f`` over a normal r varies with that normal's uncertain mean.

For ``h ~ N(m, V)`` and noise variances S, ``F(h) = m_f(N(h, S))`` is a sum of M terms
``c_j exp(-(A/D) h^2 / 2 + (B/D) h rho_j)`` with ``D = 1 + A S`` and ``c_j = s_f^2 alpha_j D^(-1/2)
exp(-((A + delta S)/D) rho_j^2 / 2)`` (products over the dimensions). Its variance has two forms:

- *pairs*: the product of terms j and k has a Gaussian expectation. With ``P = 2 A / D`` and ``Q = B
  (rho_j + rho_k) / D`` it is ``(1 + P V)^(-1/2) exp((-P m^2/2 + Q m + Q^2 V/2) / (1 + P V))``;
  ``M^2`` exponentials for an action, and the square of the mean is subtracted;
- *series*, where h has one dimension: in the Hermite polynomials of ``(h - m)/sqrt(V)``, ``Var F =
  sum_(n >= 1) V^n (E F^(n))^2 / n!``, whose n-th term falls as ``t^n``, ``t = (A/D) V /
  (1 + (A/D) V)``: a few sums over M, and nothing is subtracted.

Where ``f`` is a sum of components, the same holds for a term of one and a term of another, and what
two of them have in common is often one dimension: the others are averaged over first.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from bayes_cmab.kernels import power_coefficients
from bayes_cmab.linalg import row_mask
from bayes_cmab.models import RewardHyperparameters, RewardModel
from bayes_cmab.posteriors import RewardPosterior, reward_alpha

TERMS = 40
"""Number of terms of the series."""

SLOWEST_RATIO = 0.45
"""Largest ratio of two terms of the series for which it is used.

What 40 terms leave out is then about 1e-14 of the squared sum of ``abs(c_j)``: it is positive, so
that the variance errs downward, and as large as that only where the c_j cancel.
"""


def variance_of_smoothed_mean(
    model: RewardModel,
    reward: RewardPosterior,
    m: Float[Array, "k d"],
    V: Float[Array, "k d"],
    S: Float[Array, "k d"],
) -> Float[Array, " k"]:
    r"""Return ``Var_h[m_f(N(h, S))]`` for ``h ~ N(m, V)``, for each of ``k`` normal distributions.

    By the series where it converges, action by action, by pairs elsewhere.
    """
    hyper = reward.hyper
    rho = reward.points - hyper.measure_mean[None, :]
    seen = row_mask(reward.size, rho.shape[0])
    alpha = jnp.where(seen, reward_alpha(model, reward), 0.0)
    components = model.components(hyper)
    interactions = model.interactions(rho.shape[1])
    quick = [pair for pair in interactions if pair.dimension is not None]

    def smoothed(at: _At) -> list[_Smooth]:
        return [_smooth(model.power, h, alpha, rho, at.noise) for h in components]

    def by_series(at: _At) -> tuple[list[Array], list[Array]]:
        terms = smoothed(at)
        wanted = {(i, pair.dimension) for pair in quick for i in (pair.one, pair.other)}
        found = {key: _series(terms[key[0]], key[1], at) for key in wanted if key[1] is not None}
        values, ratios = [], []
        for pair in quick:
            x, y = (found[i, pair.dimension] for i in (pair.one, pair.other))
            values.append(jnp.sum(x.coefficients * y.coefficients))
            ratios.append(jnp.sqrt(x.ratio * y.ratio))
        return values, ratios

    def total(inputs: tuple[_At, list[Array], list[Bool[Array, ""]]]) -> Array:
        at, values, sound = inputs
        terms, known = smoothed(at), iter(zip(values, sound, strict=True))
        result = jnp.zeros(())
        for pair in interactions:
            by_pairs = partial(_pairs, terms[pair.one], terms[pair.other], at)
            if pair.dimension is None:
                covariance = by_pairs()
            else:
                value, converges = next(known)
                covariance = lax.cond(converges, lambda value=value: value, by_pairs)
            result = result + pair.times * covariance
        return result

    at = _At(m - hyper.measure_mean[None, :], V, S)
    values, ratios = jax.vmap(by_series)(at)
    sound = [ratio <= SLOWEST_RATIO for ratio in ratios]
    result: Array = lax.map(total, (at, values, sound))  # a matrix of pairs each: one at a time
    return result


class _At(NamedTuple):
    """Mean (centred on the measure) and variance of h, and the noise variances, each (d,)."""

    mean: Float[Array, " d"]
    variance: Float[Array, " d"]
    noise: Float[Array, " d"]


class _Smooth(NamedTuple):
    """Terms ``weight_j exp(level_j - curvature h^2 / 2 + slope_j h)`` of a component."""

    weight: Float[Array, " M"]
    level: Float[Array, " M"]
    curvature: Float[Array, " d"]
    slope: Float[Array, "M d"]


class _Series(NamedTuple):
    """``E[F(h) He_n] / sqrt(n!)`` for n = 1, 2, ..., and the ratio of the squares of two."""

    coefficients: Float[Array, " n"]
    ratio: Float[Array, ""]


def _smooth(
    power: int,
    hyper: RewardHyperparameters,
    alpha: Float[Array, " M"],
    rho: Float[Array, "M d"],
    noise: Float[Array, " d"],
) -> _Smooth:
    _, A, B = power_coefficients(power, hyper.lengthscale_r, hyper.measure)
    delta = (A - B) * (A + B)
    D = 1.0 + A * noise
    level = -0.5 * (rho**2 @ ((A + delta * noise) / D)) - 0.5 * jnp.sum(jnp.log(D))
    return _Smooth(hyper.reward_variance * alpha, level, A / D, (B / D)[None, :] * rho)


def _averaged(x: _Smooth, curvature: Float[Array, " d"], at: _At) -> Float[Array, " M"]:
    """Return the exponents of the average of the terms over h, where a factor adds curvature."""
    shrink = 1.0 + curvature * at.variance
    own = x.slope @ (at.mean / shrink) + 0.5 * (x.slope**2 @ (at.variance / shrink))
    return x.level + own


def _constant(curvature: Float[Array, " d"], at: _At) -> Float[Array, ""]:
    shrink = 1.0 + curvature * at.variance
    return -0.5 * jnp.sum(curvature * at.mean**2 / shrink + jnp.log(shrink))


def _mean(x: _Smooth, at: _At) -> Float[Array, ""]:
    exponent = _averaged(x, x.curvature, at) + _constant(x.curvature, at)
    return x.weight @ jnp.exp(exponent)


def _pairs(x: _Smooth, y: _Smooth, at: _At) -> Float[Array, ""]:
    P = x.curvature + y.curvature
    half = 0.5 * _constant(P, at)
    left, right = _averaged(x, P, at) + half, _averaged(y, P, at) + half
    coupling = (x.slope * (at.variance / (1.0 + P * at.variance))[None, :]) @ y.slope.T
    pairs = jnp.exp(left[:, None] + right[None, :] + coupling)
    product = jnp.sum(x.weight[:, None] * y.weight[None, :] * pairs)
    return product - _mean(x, at) * _mean(y, at)


def _series(x: _Smooth, dimension: int, at: _At) -> _Series:
    """Average over all dimensions, and expand in one of them."""
    mean, variance, curvature = (v[dimension] for v in (at.mean, at.variance, x.curvature))
    shrink = 1.0 + curvature * variance
    ratio = curvature * variance / shrink
    # No gradient reaches a variance of exactly zero through its root; rows of data keep it above.
    root = jnp.where(variance > 0.0, jnp.sqrt(jnp.where(variance > 0.0, variance, 1.0)), 0.0)
    z = root * (curvature * mean - x.slope[:, dimension]) / shrink
    exponent = _averaged(x, x.curvature, at) + _constant(x.curvature, at)
    first = x.weight * jnp.exp(exponent)

    def step(carry: tuple[Array, Array], n: Array) -> tuple[tuple[Array, Array], Array]:
        before, now = carry
        after = (z * now - ratio * jnp.sqrt(n) * before) / jnp.sqrt(n + 1.0)
        return (now, after), jnp.sum(after)

    start = (jnp.zeros_like(first), first)
    _, coefficients = lax.scan(step, start, jnp.arange(TERMS, dtype=first.dtype))
    return _Series(coefficients, ratio)
