r"""A transition model whose noise depends on the context and the action.

``r_j = h_j(s, a) + e``, ``e ~ N(0, S_j(s, a))``, with ``h_j`` as in `TransitionModel`. The standard
deviation of ``e`` is a product over the columns of ``s`` and ``a``: ``log sd_j(x) = log sd_j +
sum_c sum_m u_m(x_c) log factor_jcm`` with a factor at each knot m of each column c, between which
the weights ``u`` (nonnegative, with sum one) go smoothly; beyond the last knots they stay.
"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpyro
from jaxtyping import Array, Float

from bayes_cmab.models.hyperparameters import TransitionHyperparameters
from bayes_cmab.models.priors import LogNormal, Sites
from bayes_cmab.models.transition import Rows, TransitionModel
from bayes_cmab.validate import number_within

FACTOR = LogNormal(1.0, 0.7)


@dataclass(frozen=True)
class HeteroscedasticTransitionModel(TransitionModel):
    """A `TransitionModel` with a noise that varies with the columns of ``s`` and ``a``.

    Its sites are those of the base, and ``transition_noise_factor_s`` (d, p, knots) and
    ``transition_noise_factor_a`` (d, q, knots). At their medians, one, it is the base.

    Attributes
    ----------
    noise_factor : prior of each factor.
    knots : in standardised units, the same for all columns.
    width : of the steps between knots.
    """

    noise_factor: LogNormal = FACTOR
    knots: tuple[float, ...] = (-1.6, -0.8, 0.0, 0.8, 1.6)
    width: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.knots:
            raise ValueError("knots: expected at least one, got none")
        number_within(self.width, "width", 0.0, math.inf)

    def noise_factors(self, p: int, q: int) -> Sites:
        """Sample the factors, inside the program's plate over the dimensions of r."""
        prior = self.noise_factor.distribution()
        return {
            name: numpyro.sample(name, prior.expand([width, len(self.knots)]).to_event(2))
            for name, width in (("transition_noise_factor_s", p), ("transition_noise_factor_a", q))
            if width
        }

    def hyperparameters(self, sites: Sites) -> TransitionHyperparameters:
        """Return the hyperparameters that the program's sites stand for."""
        return (
            super()
            .hyperparameters(sites)
            ._replace(
                noise_factor_s=sites.get("transition_noise_factor_s"),
                noise_factor_a=sites["transition_noise_factor_a"],
            )
        )

    def default_sites(self, p: int, q: int, d: int) -> Sites:
        """Return the medians of the priors, by site: the fixed agent's hyperparameters."""
        sites = super().default_sites(p, q, d)
        for name, width in (("transition_noise_factor_s", p), ("transition_noise_factor_a", q)):
            if width:
                shape = (d, width, len(self.knots))
                sites[name] = jnp.full(shape, self.noise_factor.median, float)
        return sites

    def noise(
        self, hyper: TransitionHyperparameters, contexts: Rows, actions: Rows
    ) -> Float[Array, "n d"]:
        """Return the variance of the noise at rows, at least that of the floor."""
        log_factor = jnp.zeros(())
        for factor, rows in ((hyper.noise_factor_s, contexts), (hyper.noise_factor_a, actions)):
            if factor is not None:
                log_factor = log_factor + jnp.einsum("nck,jck->nj", self._u(rows), jnp.log(factor))
        noise = hyper.transition_noise[None, :] * jnp.exp(2.0 * log_factor)
        return jnp.maximum(noise, self.priors.noise_floor**2)

    def _u(self, rows: Rows) -> Float[Array, "n k knots"]:
        """Return the weights of the knots."""
        apart = (rows[:, :, None] - jnp.asarray(self.knots)[None, None, :]) / self.width
        return jax.nn.softmax(-0.5 * apart**2, axis=-1)
