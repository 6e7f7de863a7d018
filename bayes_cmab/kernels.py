r"""Kernels, and the powers of the kernel integral operator.

``T`` is the integral operator of the RBF kernel ``k_r`` with respect to the Gaussian measure
``nu = N(c, diag(eta^2))``; the p-fold integral ``<phi(r), T^p phi(r')>`` is again an exponential
of a quadratic form, known in closed form (p = 0 is ``k_r`` itself, p = 1 the nuclear dominant
kernel of the paper's section 2).
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

type Kernel = Callable[
    [Float[Array, "n d"], Float[Array, "m d"], Float[Array, " d"]], Float[Array, "n m"]
]


class Measure(NamedTuple):
    """Gaussian measure ``nu = N(mean, diag(scale^2))`` on the intermediate reward.

    Attributes
    ----------
    mean : (d,) centre ``c``.
    scale : (d,) standard deviations ``eta``.
    """

    mean: Float[Array, " d"]
    scale: Float[Array, " d"]


class PowerCoefficients(NamedTuple):
    """``<phi(u), T^p phi(v)> = prod C exp(-(A u^2 + A v^2 - 2 B u v) / 2)``, each of shape (d,)."""

    C: Float[Array, " d"]
    A: Float[Array, " d"]
    B: Float[Array, " d"]


def squared_distance(
    x: Float[Array, "n d"], y: Float[Array, "m d"], lengthscale: Float[Array, " d"]
) -> Float[Array, "n m"]:
    """Return ``sum_j ((x_j - y_j) / l_j)^2``; zero when there are no columns."""
    difference = (x[:, None, :] - y[None, :, :]) / lengthscale[None, None, :]
    return jnp.sum(difference**2, axis=-1)


def rbf(
    x: Float[Array, "n d"], y: Float[Array, "m d"], lengthscale: Float[Array, " d"]
) -> Float[Array, "n m"]:
    r"""Return the Gram matrix of the RBF kernel, ``exp(-1/2 sum_j ((x_j - y_j)/l_j)^2)``.

    Parameters
    ----------
    x : (n, d). y : (m, d).
    lengthscale : (d,), one per column (automatic relevance determination).
    """
    return jnp.exp(-0.5 * squared_distance(x, y, lengthscale))


def matern52(
    x: Float[Array, "n d"], y: Float[Array, "m d"], lengthscale: Float[Array, " d"]
) -> Float[Array, "n m"]:
    r"""Return the Gram matrix of the Matern-5/2 kernel, ``(1 + t + t^2/3) exp(-t)``.

    Here ``t = sqrt(5) dist`` with the ARD distance of `rbf`. The square root is taken of a
    distance that is replaced by one where it is zero, because its derivative at zero is infinite.
    """
    squared = 5.0 * squared_distance(x, y, lengthscale)
    positive = squared > 0.0
    t = jnp.where(positive, jnp.sqrt(jnp.where(positive, squared, 1.0)), 0.0)
    return (1.0 + t + squared / 3.0) * jnp.exp(-t)


def matern32(
    x: Float[Array, "n d"], y: Float[Array, "m d"], lengthscale: Float[Array, " d"]
) -> Float[Array, "n m"]:
    r"""Return the Gram matrix of the Matern-3/2 kernel, ``(1 + t) exp(-t)``.

    Here ``t = sqrt(3) dist``, as in `matern52`.
    """
    squared = 3.0 * squared_distance(x, y, lengthscale)
    positive = squared > 0.0
    t = jnp.where(positive, jnp.sqrt(jnp.where(positive, squared, 1.0)), 0.0)
    return (1.0 + t) * jnp.exp(-t)


type KernelName = Literal["rbf", "matern52", "matern32"]
"""A key of ``KERNELS``."""

KERNELS: dict[str, Kernel] = {"rbf": rbf, "matern52": matern52, "matern32": matern32}
"""Stationary kernels by name."""


def factors(kernel: KernelName | tuple[KernelName, KernelName]) -> tuple[Kernel, Kernel]:
    """Return the kernels of the context and of the action.

    Parameters
    ----------
    kernel : name of both, or of each.

    Raises
    ------
    ValueError
        If a name is unknown.
    """
    names = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    if len(names) != 2 or not all(isinstance(name, str) and name in KERNELS for name in names):
        listed = ", ".join(map(repr, KERNELS))
        raise ValueError(f"kernel: expected one of {listed}, or a pair of them, got {kernel!r}")
    return KERNELS[names[0]], KERNELS[names[1]]


def power_coefficients(
    power: int, lengthscale: Float[Array, " d"], measure: Measure
) -> PowerCoefficients:
    r"""Return the coefficients of ``<phi, T^p phi'>`` in coordinates centred on the measure.

    Starting from ``C = 1, A = B = k`` with ``k = 1/l^2``, each integration sets
    ``S = A + k + 1/eta^2``, ``C <- C / (eta sqrt S)``, ``A <- k - k^2/S``, ``B <- B k / S``.
    ``A`` is computed as ``k (S - k) / S``, which does not cancel.
    """
    k = lengthscale**-2
    C, A, B = jnp.ones_like(k), k, k
    for _ in range(power):
        rest = A + measure.scale**-2
        S = rest + k
        C, A, B = C / (measure.scale * jnp.sqrt(S)), k * rest / S, B * k / S
    return PowerCoefficients(C, A, B)


def power_gram(
    power: int,
    x: Float[Array, "n d"],
    y: Float[Array, "m d"],
    lengthscale: Float[Array, " d"],
    measure: Measure,
    *,
    normalised: bool = False,
) -> Float[Array, "n m"]:
    r"""Return the Gram matrix of ``<phi(x), T^p phi(y)>``.

    Parameters
    ----------
    power : p; 0 is the RBF kernel, 1 the nuclear dominant kernel.
    x : (n, d). y : (m, d).
    lengthscale : (d,) of ``k_r``.
    normalised : divide by the value at the measure's centre, ``<phi(c), T^p phi(c)> = prod C``.
    """
    C, A, B = power_coefficients(power, lengthscale, measure)
    u, v = x - measure.mean[None, :], y - measure.mean[None, :]
    exponent = (u * B[None, :]) @ v.T - 0.5 * ((u**2 @ A)[:, None] + (v**2 @ A)[None, :])
    gram = jnp.exp(exponent)
    return gram if normalised else jnp.prod(C) * gram


def nuclear_dominant_kernel(
    x: Float[Array, "n d"],
    y: Float[Array, "m d"],
    lengthscale: Float[Array, " d"],
    measure: Measure,
) -> Float[Array, "n m"]:
    r"""Return ``integral of k_r(x, u) k_r(u, y) nu(du)``, the paper's kernel of ``f``."""
    return power_gram(1, x, y, lengthscale, measure)


def expected_power_gram(
    power: int,
    x_mean: Float[Array, "n d"],
    x_variance: Float[Array, "n d"],
    y_mean: Float[Array, "m d"],
    y_variance: Float[Array, "m d"],
    lengthscale: Float[Array, " d"],
    measure: Measure,
    *,
    normalised: bool = False,
) -> Float[Array, "n m"]:
    r"""Return ``E <phi(X), T^p phi(Y)>`` for independent Gaussian ``X`` and ``Y``.

    Per dimension, in coordinates centred on the measure, with ``X ~ N(m, v)``, ``Y ~ N(m', v')``,
    ``delta = A^2 - B^2`` and ``D = 1 + A (v + v') + delta v v'``:
    ``C D^(-1/2) exp(-[(A + delta v') m^2 + (A + delta v) m'^2 - 2 B m m'] / (2 D))``.
    A variance of zero is a point.

    Parameters
    ----------
    power, lengthscale, measure, normalised : as in `power_gram`.
    x_mean, x_variance : (n, d). y_mean, y_variance : (m, d).
    """
    C, A, B = power_coefficients(power, lengthscale, measure)
    A, B = A[None, None, :], B[None, None, :]
    delta = (A - B) * (A + B)
    m = (x_mean - measure.mean[None, :])[:, None, :]
    n = (y_mean - measure.mean[None, :])[None, :, :]
    v, w = x_variance[:, None, :], y_variance[None, :, :]
    D = 1.0 + A * (v + w) + delta * v * w
    quadratic = ((A + delta * w) * m**2 + (A + delta * v) * n**2 - 2.0 * B * m * n) / D
    gram = jnp.exp(-0.5 * jnp.sum(quadratic, axis=-1)) / jnp.sqrt(jnp.prod(D, axis=-1))
    return gram if normalised else jnp.prod(C) * gram


def smoothed_power_gram(
    power: int,
    x: Float[Array, "n d"],
    y_mean: Float[Array, "m d"],
    y_variance: Float[Array, "m d"],
    lengthscale: Float[Array, " d"],
    measure: Measure,
    *,
    normalised: bool = False,
) -> Float[Array, "n m"]:
    r"""Return ``E <phi(x), T^p phi(Y)>`` for points x and Gaussian ``Y``.

    It is `expected_power_gram` with no variance on the left, where ``D = 1 + A v'`` belongs to
    the column alone: two matrix products and one exponential per entry.

    Parameters
    ----------
    power, lengthscale, measure, normalised : as in `power_gram`.
    x : (n, d). y_mean, y_variance : (m, d).
    """
    C, A, B = power_coefficients(power, lengthscale, measure)
    A, B = A[None, :], B[None, :]
    delta = (A - B) * (A + B)
    u, n = x - measure.mean[None, :], y_mean - measure.mean[None, :]
    D = 1.0 + A * y_variance
    own = jnp.sum(A * n**2 / D + jnp.log(D), axis=1)
    exponent = u @ (B * n / D).T - 0.5 * (u**2 @ ((A + delta * y_variance) / D).T + own[None, :])
    gram = jnp.exp(exponent)
    return gram if normalised else jnp.prod(C) * gram


def trace_of_square(lengthscale: Float[Array, " d"], scale: Float[Array, " d"]) -> Float[Array, ""]:
    r"""Return ``Tr(T^2) = prod_j (1 + 4 eta_j^2 / l_j^2)^(-1/2)``."""
    return jnp.prod((1.0 + 4.0 * (scale / lengthscale) ** 2) ** -0.5)
