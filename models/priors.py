"""Priors on the hyperparameters, in standardised units (each number and its reason beside it).

Each positive quantity has a log-normal prior, given by its median and the standard deviation of
its logarithm: it avoids both zero and infinity, and in logarithmic coordinates, which both the
optimiser and the samplers use, it is a plain normal density.
"""

import math
from dataclasses import dataclass

import numpyro.distributions as dist
from jaxtyping import Array
from numpyro.distributions import Distribution

from bayes_cmab.validate import number_within


@dataclass(frozen=True)
class LogNormal:
    """A log-normal prior: ``log x ~ N(log median, spread^2)``."""

    median: float
    spread: float

    def __post_init__(self) -> None:
        for name in ("median", "spread"):
            number_within(getattr(self, name), name, 0.0, math.inf)

    def distribution(self) -> Distribution:
        """Return it as a NumPyro distribution."""
        return dist.LogNormal(math.log(self.median), self.spread)

    def scaled(self, factor: float) -> "LogNormal":
        """Return the prior of ``factor * x``."""
        return LogNormal(self.median * factor, self.spread)

    def root(self) -> "LogNormal":
        """Return the prior of ``sqrt(x)``: of the scale whose variance has this prior."""
        return LogNormal(math.sqrt(self.median), self.spread / 2.0)


@dataclass(frozen=True)
class RewardPriors:
    """Priors of the reward Gaussian process.

    Attributes
    ----------
    lengthscale : per dimension of r; its median grows as ``d^(1/4)``, because distances do.
    scale : standard deviation of ``f`` at the centre of the measure.
    noise_scale : standard deviation of the outcome noise; wide, since an outcome may be nearly
        exact or mostly noise.
    noise_floor : smallest standard deviation of the noise, added in squares.
    mean_variance : prior variance of the constant mean (nine: three standard deviations of y).
    """

    lengthscale: LogNormal = LogNormal(1.0, 0.7)
    scale: LogNormal = LogNormal(1.0, 0.7)
    noise_scale: LogNormal = LogNormal(0.3, 1.2)
    noise_floor: float = 1e-3
    mean_variance: float = 9.0


@dataclass(frozen=True)
class AdditivePriors(RewardPriors):
    """Priors of a reward model with main effects; ``scale`` is used where d = 1 alone.

    Attributes
    ----------
    weight : variance of each component, 95% of it in [0.03, 3.2]. A component that the data do
        not need falls to a fifth of the others'; with a wider spread it all but vanishes, and
        ``f`` is predicted no better (by 1.4% in a test of ours).
    """

    weight: LogNormal = LogNormal(0.3, 1.2)


@dataclass(frozen=True)
class EmbeddingPriors:
    """Priors of the conditional mean embedding, and of a GP on (context, action).

    Attributes
    ----------
    lengthscale : per column of s and a.
    scale : ``s_mu``; its square has log standard deviation 0.5.
    noise_scale : square root of ``lambda``, whose median is 0.2 with log standard deviation 1.
    noise_floor : smallest square root of ``lambda``, added in squares.
    """

    lengthscale: LogNormal = LogNormal(0.6, 0.6)
    scale: LogNormal = LogNormal(1.0, 0.25)
    noise_scale: LogNormal = LogNormal(math.sqrt(0.2), 0.5)
    noise_floor: float = 1e-3


@dataclass(frozen=True)
class AnovaPriors:
    """Priors of an embedding with an ANOVA kernel, also of that of the residual.

    Attributes
    ----------
    weight : of each component of the kernel.
    lengthscale : per column of s and a.
    noise_scale : square root of ``lambda``, whose median is 0.2 with log standard deviation 1.
    noise_floor : smallest square root of ``lambda``, added in squares.
    """

    weight: LogNormal = LogNormal(0.1, 0.8)
    lengthscale: LogNormal = LogNormal(0.6, 0.6)
    noise_scale: LogNormal = LogNormal(math.sqrt(0.2), 0.5)
    noise_floor: float = 1e-3


@dataclass(frozen=True)
class TransitionPriors:
    """Priors of the transition GPs.

    Attributes
    ----------
    weight : of each component of the ANOVA kernel but the constant.
    weight_constant : fixed variance of the constant component.
    lengthscale : per column of s and a, and dimension of r.
    noise_scale : standard deviation of r given (s, a), per dimension.
    noise_floor : smallest standard deviation, added in squares.
    """

    weight: LogNormal = LogNormal(0.3, 1.2)
    weight_constant: float = 0.25
    lengthscale: LogNormal = LogNormal(0.6, 0.6)
    noise_scale: LogNormal = LogNormal(0.3, 0.7)
    noise_floor: float = 1e-3


type Sites = dict[str, Array]
"""Values of the sites of a NumPyro program, by name."""
