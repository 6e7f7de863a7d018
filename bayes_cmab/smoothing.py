r"""How much the average of ``f`` over a normal r varies with that normal's uncertain mean.

For ``h ~ N(m, V)`` and noise variances S, ``F(h) = m_f(N(h, S))`` is a sum of M terms
``c_j exp(-(A/D) h^2 / 2 + (B/D) h rho_j)`` with ``D = 1 + A S`` and ``c_j = s_f^2 alpha_j D^(-1/2)
exp(-((A + delta S)/D) rho_j^2 / 2)`` (products over the dimensions). Its variance has two forms:

- *pairs*: the covariance of terms j and k is the product of their means times ``e^x - 1``, ``x =
  (z_j z_k - t (z_j^2 + z_k^2)/2) / (1 - t^2) - log(1 - t^2)/2`` (Mehler's formula; sums over the
  dimensions), with ``t = (A/D) V / (1 + (A/D) V)`` and ``z_j = sqrt(V) ((A/D) m - (B/D) rho_j) /
  (1 + (A/D) V)``: ``M^2`` exponentials for an action;
- *series*, where h has one dimension: in the Hermite polynomials of ``(h - m)/sqrt(V)``, ``Var F =
  sum_(n >= 1) V^n (E F^(n))^2 / n!``, whose n-th term falls as ``t^n``: a few sums
  over M.

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

    def averaged(at: _At) -> list[_Terms]:
        return [_averaged(model.power, h, alpha, rho, at) for h in components]

    def by_series(at: _At) -> tuple[list[Array], list[Array]]:
        terms = averaged(at)
        wanted = {(i, pair.dimension) for pair in quick for i in (pair.one, pair.other)}
        found: dict[tuple[int, int | None], Array] = {
            (i, j): _series(terms[i], j) for i, j in wanted if j is not None
        }
        values, ratios = [], []
        for pair in quick:
            x, y = (found[i, pair.dimension] for i in (pair.one, pair.other))
            values.append(jnp.sum(x * y))
            p, q = (terms[i].ratio[pair.dimension] for i in (pair.one, pair.other))
            ratios.append(jnp.sqrt(p * q))
        return values, ratios

    def total(inputs: tuple[_At, list[Array], list[Bool[Array, ""]]]) -> Array:
        at, values, sound = inputs
        terms, known = averaged(at), iter(zip(values, sound, strict=True))
        result = jnp.zeros(())
        for pair in interactions:
            by_pairs = partial(_pairs, terms[pair.one], terms[pair.other])
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


class _Terms(NamedTuple):
    """The terms of a component, averaged over h.

    With ``x = (h - m)/sqrt(V)``, ``E[F_j e^(t x - t^2/2)] = first_j e^(-z_j t - ratio t^2/2)``; in
    several dimensions a product.
    """

    first: Float[Array, " M"]
    z: Float[Array, "M d"]
    ratio: Float[Array, " d"]


def _averaged(
    power: int,
    hyper: RewardHyperparameters,
    alpha: Float[Array, " M"],
    rho: Float[Array, "M d"],
    at: _At,
) -> _Terms:
    _, A, B = power_coefficients(power, hyper.lengthscale_r, hyper.measure)
    delta = (A - B) * (A + B)
    D = 1.0 + A * at.noise
    level = -0.5 * (rho**2 @ ((A + delta * at.noise) / D)) - 0.5 * jnp.sum(jnp.log(D))
    curvature, slope = A / D, (B / D)[None, :] * rho
    shrink = 1.0 + curvature * at.variance
    own = slope @ (at.mean / shrink) + 0.5 * (slope**2 @ (at.variance / shrink))
    constant = -0.5 * jnp.sum(curvature * at.mean**2 / shrink + jnp.log(shrink))
    # No gradient reaches a variance of exactly zero through its root; rows of data keep it above.
    positive = at.variance > 0.0
    root = jnp.where(positive, jnp.sqrt(jnp.where(positive, at.variance, 1.0)), 0.0)
    return _Terms(
        first=hyper.reward_variance * alpha * jnp.exp(level + own + constant),
        z=(root / shrink)[None, :] * ((curvature * at.mean)[None, :] - slope),
        ratio=curvature * at.variance / shrink,
    )


def _pairs(x: _Terms, y: _Terms) -> Float[Array, ""]:
    """Return the covariance by Mehler's formula, which is small where the variance of h is."""
    both = x.ratio * y.ratio
    rest = 1.0 - both
    left = -0.5 * (x.z**2 @ (y.ratio / rest)) - 0.5 * jnp.sum(jnp.log1p(-both))
    right = -0.5 * (y.z**2 @ (x.ratio / rest))
    exponent = (x.z / rest[None, :]) @ y.z.T + left[:, None] + right[None, :]
    # Beyond the bound the two terms are below exp(-300), whatever stands here.
    return x.first @ jnp.expm1(jnp.minimum(exponent, 300.0)) @ y.first


def _series(x: _Terms, dimension: int) -> Float[Array, " n"]:
    """Return ``E[F(h) He_n(x)] / sqrt(n!)`` in one dimension, for n = 1, 2, ..., `TERMS`."""
    z, ratio = x.z[:, dimension], x.ratio[dimension]

    def step(carry: tuple[Array, Array], n: Array) -> tuple[tuple[Array, Array], Array]:
        before, now = carry
        after = (z * now - ratio * jnp.sqrt(n) * before) / jnp.sqrt(n + 1.0)
        return (now, after), jnp.sum(after)

    start = (jnp.zeros_like(x.first), x.first)
    _, coefficients = lax.scan(step, start, jnp.arange(TERMS, dtype=x.first.dtype))
    return coefficients
