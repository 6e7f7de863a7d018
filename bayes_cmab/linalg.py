"""Linear algebra of padded, positive definite matrices.

Every matrix has a fixed capacity ``N`` of which the first ``count`` rows are in use; the rest is
an identity block. A factor therefore never changes its shape while rows arrive, and nothing is
compiled again. The factor is kept as the *inverse* Cholesky factor ``W = L^-1`` (so that
``W A W' = I``): a new row costs ``O(N^2)``, and every solve is a matrix product.

This is the only module that adds jitter or calls a Cholesky factorisation.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float, Int

FIRST_JITTER = 1e-10
"""First jitter tried, relative to the mean diagonal, after a factorisation without any failed."""

LARGEST_JITTER = 1e-5
"""Last jitter tried; beyond it the factor is NaN and the caller must report the matrix."""

SMALLEST_PIVOT = 0.5 * FIRST_JITTER
"""Smallest pivot ``L_ii^2`` accepted, relative to the diagonal entry: below it, rounding decides.

A singular matrix may pass a Cholesky factorisation with pivots that are rounding errors; with
them the paper's Proposition, which multiplies by two inverses, was wrong by a factor of 1e5.
"""


class Factor(NamedTuple):
    """Inverse Cholesky factor of a padded matrix.

    Attributes
    ----------
    inverse : (N, N) lower triangular ``W`` with ``W A W' = I``; identity on the padding.
    jitter : scalar, the largest amount added to a diagonal so far, relative to it (0 if none).
    """

    inverse: Float[Array, "N N"]
    jitter: Float[Array, ""]


def row_mask(count: Int[Array, ""] | int, capacity: int) -> Bool[Array, " N"]:
    """Return which of ``capacity`` rows are in use, shape (N,)."""
    return jnp.arange(capacity) < count


def mask_gram(gram: Float[Array, "N N"], mask: Bool[Array, " N"]) -> Float[Array, "N N"]:
    """Replace the padding of a Gram matrix by an identity block."""
    return jnp.where(mask[:, None] & mask[None, :], gram, jnp.eye(gram.shape[0]))


def cholesky(
    matrix: Float[Array, "N N"], mask: Bool[Array, " N"]
) -> tuple[Float[Array, "N N"], Float[Array, ""]]:
    """Factorise ``A + jitter * mean(diag A) * I = L L'`` with the smallest jitter that works.

    The first attempt adds nothing; then ``FIRST_JITTER`` and ten times more each time, up to
    ``LARGEST_JITTER``. A matrix that still fails gives a factor of NaN.

    Parameters
    ----------
    matrix : (N, N), an identity block in the padding.
    mask : (N,) rows in use: the mean and the jitter are theirs alone.

    Returns
    -------
    (N, N) lower triangular ``L`` and the relative jitter that was added.
    """
    used, diagonal = jnp.where(mask, 1.0, 0.0), jnp.diagonal(matrix)
    scale = used @ diagonal / jnp.maximum(jnp.sum(used), 1.0)
    last = 0.5 * LARGEST_JITTER  # half: rounding in the powers of ten must not allow one more

    def failed(state: tuple[Array, Array]) -> Bool[Array, ""]:
        lower, jitter = state
        healthy = jnp.diagonal(lower) ** 2 >= SMALLEST_PIVOT * diagonal  # false for NaN
        return ~jnp.all(healthy) & (jitter < last)

    def escalate(state: tuple[Array, Array]) -> tuple[Array, Array]:
        jitter = jnp.maximum(10.0 * state[1], FIRST_JITTER)
        return jnp.linalg.cholesky(matrix + jnp.diag(jitter * scale * used)), jitter

    return lax.while_loop(failed, escalate, (jnp.linalg.cholesky(matrix), jnp.zeros(())))


def factorise(gram: Float[Array, "N N"], mask: Bool[Array, " N"]) -> Factor:
    """Factorise a padded Gram matrix; ``O(N^3)``.

    Parameters
    ----------
    gram : (N, N) symmetric; what stands in the padding does not matter.
    mask : (N,) rows in use.
    """
    lower, jitter = cholesky(mask_gram(gram, mask), mask)
    return Factor(solve_triangular(lower, jnp.eye(gram.shape[0]), lower=True), jitter)


def append_row(
    factor: Factor,
    column: Float[Array, " N"],
    diagonal: Float[Array, ""],
    index: Int[Array, ""] | int,
) -> tuple[Factor, Float[Array, " N"], Float[Array, ""]]:
    r"""Append one row to a factor in ``O(N^2)``.

    With ``v = W a`` and the pivot ``d^2 = A_nn - v'v``, the new row of ``W`` is
    ``(-v'W, 1) / d``.

    Parameters
    ----------
    column : (N,) covariance of the new row with the rows in use, zero elsewhere.
    diagonal : scalar ``A_nn``.
    index : position of the new row, the number of rows in use before.

    Returns
    -------
    The new factor, ``v`` (N,) and ``d``; NaN where more than ``LARGEST_JITTER`` would be needed.
    """
    v = factor.inverse @ column
    exact = diagonal - v @ v
    pivot = jnp.maximum(exact, SMALLEST_PIVOT * diagonal)
    added = (pivot - exact) / diagonal
    pivot = jnp.where(added > LARGEST_JITTER, jnp.nan, pivot)
    root = jnp.sqrt(pivot)
    row = (-(v @ factor.inverse) / root).at[index].set(1.0 / root)
    jitter = jnp.maximum(factor.jitter, added)
    return Factor(factor.inverse.at[index].set(row), jitter), v, root


def log_determinant(factor: Factor) -> Float[Array, ""]:
    """Return ``log det A``; the padding contributes nothing."""
    return -2.0 * jnp.sum(jnp.log(jnp.diagonal(factor.inverse)))


def solve(factor: Factor, right: Float[Array, "N *k"]) -> Float[Array, "N *k"]:
    """Return ``A^-1 right``."""
    return factor.inverse.T @ (factor.inverse @ right)


def trace_solve(factor: Factor, matrix: Float[Array, "N N"]) -> Float[Array, ""]:
    """Return ``tr(A^-1 M)`` for a symmetric ``M`` that is zero in the padding."""
    return jnp.sum((factor.inverse @ matrix) * factor.inverse)


@jax.custom_vjp
def gaussian_log_density(
    residual: Float[Array, " N"], covariance: Float[Array, "N N"], mask: Bool[Array, " N"]
) -> Float[Array, ""]:
    r"""Return ``log N(residual; 0, A)`` over the rows in use, with an analytic gradient.

    The derivative with respect to ``A`` is ``1/2 (alpha alpha' - A^-1)`` with
    ``alpha = A^-1 residual``: cheaper than differentiating the factorisation, and free of its
    jitter loop.

    Parameters
    ----------
    residual : (N,) zero in the padding.
    covariance : (N, N).
    mask : (N,) rows in use.
    """
    return _gaussian_forward(residual, covariance, mask)[0]


def _gaussian_forward(
    residual: Array, covariance: Array, mask: Array
) -> tuple[Array, tuple[Array, Array, Array]]:
    factor = factorise(covariance, mask)
    alpha = solve(factor, residual)
    value = -0.5 * (
        residual @ alpha + log_determinant(factor) + jnp.sum(mask) * jnp.log(2.0 * jnp.pi)
    )
    return value, (alpha, factor.inverse, mask)


def _gaussian_backward(
    saved: tuple[Array, Array, Array], cotangent: Array
) -> tuple[Array, Array, None]:
    alpha, inverse, mask = saved
    precision = jnp.where(mask[:, None] & mask[None, :], inverse.T @ inverse, 0.0)
    gradient = 0.5 * (alpha[:, None] * alpha[None, :] - precision)
    return -cotangent * alpha, cotangent * gradient, None


gaussian_log_density.defvjp(_gaussian_forward, _gaussian_backward)


@jax.custom_vjp
def trace_log_density(
    covariance: Float[Array, "N N"], gram: Float[Array, "N N"], mask: Bool[Array, " N"]
) -> Float[Array, ""]:
    r"""Return ``-1/2 [log det C + tr(C^-1 K)]`` over the rows in use, with an analytic gradient.

    The sum of zero-mean Gaussian log densities (without their constants) of features whose
    second moments form ``K``; the derivative with respect to ``C`` is
    ``1/2 (C^-1 K C^-1 - C^-1)``.

    Parameters
    ----------
    covariance : (N, N) ``C``.
    gram : (N, N) ``K``, zero in the padding; held constant under differentiation.
    mask : (N,) rows in use.
    """
    return _trace_forward(covariance, gram, mask)[0]


def _trace_forward(
    covariance: Array, gram: Array, mask: Array
) -> tuple[Array, tuple[Array, Array, Array]]:
    factor = factorise(covariance, mask)
    value = -0.5 * (log_determinant(factor) + trace_solve(factor, gram))
    return value, (factor.inverse, gram, mask)


def _trace_backward(
    saved: tuple[Array, Array, Array], cotangent: Array
) -> tuple[Array, Array, None]:
    inverse, gram, mask = saved
    precision = jnp.where(mask[:, None] & mask[None, :], inverse.T @ inverse, 0.0)
    gradient = 0.5 * (precision @ gram @ precision - precision)
    return cotangent * gradient, jnp.zeros_like(gram), None


trace_log_density.defvjp(_trace_forward, _trace_backward)
