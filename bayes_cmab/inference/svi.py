r"""Draws of hyperparameters from a normal distribution fitted by variational inference.

The guide is a multivariate normal in unconstrained coordinates, so it carries correlation; where
all sites of a program are in one plate, as those of the transition models are (dimensions of r),
its elements are independent, in the posterior as in the guide. The gradient of the lower bound
leaves out the score of the guide, whose mean is zero ("sticking the landing", Roeder, Wu and
Duvenaud, 2017): its noise vanishes as the guide nears a posterior that is normal. As with NUTS, one
jitted pass per capacity: the first fit is several passes, a later one starts from the last guide.
How well the guide does is seen from the trace of the evidence lower bound and from the Pareto k of
the importance ratios ``log p - log q`` of its draws.
"""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import lax
from jaxtyping import Array, PRNGKeyArray
from numpyro import handlers, infer
from numpyro.distributions import constraints
from numpyro.optim import Adam

from bayes_cmab.inference.fit import Fit
from bayes_cmab.inference.refit import EffectiveSampleSize, RefitPolicy, check_refit
from bayes_cmab.models.priors import Sites
from bayes_cmab.programs import Program, coordinates
from bayes_cmab.validate import number_within, whole_number


@dataclass(frozen=True)
class SVI:
    """Fit a multivariate normal to the posterior of the hyperparameters; average over its draws.

    Attributes
    ----------
    draws : of each program that the agent averages over.
    steps : of the optimiser (Adam) in a pass.
    passes : of the first fit; a later fit is one pass.
    particles : draws of the guide for one gradient.
    learning_rate : at the beginning of a pass; it decays to a hundredth of that.
    diagnostic_draws : of the guide, from which Pareto k is estimated.
    refit : when the hyperparameters are inferred again.
    """

    draws: int = 64
    steps: int = 80
    passes: int = 4
    particles: int = 4
    learning_rate: float = 0.05
    diagnostic_draws: int = 256
    refit: RefitPolicy = EffectiveSampleSize()

    def __post_init__(self) -> None:
        for name in ("draws", "steps", "passes", "particles", "diagnostic_draws"):
            whole_number(getattr(self, name), name, least=1)
        number_within(self.learning_rate, "learning_rate", 0.0, math.inf)
        check_refit(self.refit)
        if self.diagnostic_draws < self.draws:
            raise ValueError(
                f"diagnostic_draws: expected at least the {self.draws} draws, "
                f"got {self.diagnostic_draws}"
            )

    def begin(self, program: Program, key: PRNGKeyArray) -> Sites:
        """Return a guide around the prior medians."""
        del key
        medians = coordinates(program).medians
        return {"auto_loc": medians, "auto_scale_tril": 0.3 * jnp.eye(medians.shape[0])}

    def fit(self, program: Program, key: PRNGKeyArray, start: Sites) -> Fit:
        """Optimise the guide and draw from it; pure, and meant to be jitted.

        Returns
        -------
        Fit
            Its ``stats`` are ``elbo`` (steps,), ``log_p`` and ``log_q`` (1, diagnostic_draws,
            elements), of each element of the program's plate; of all sites without one.
            Its ``trace`` has a single chain: the draws are independent.
        """
        space = coordinates(program)
        init_key, draw_key = jax.random.split(key)

        def rate(step: Array) -> Array:
            return self.learning_rate * 0.01 ** (step / self.steps)

        def flat() -> None:  # the program in its unconstrained coordinates, as one site
            real = dist.ImproperUniform(constraints.real, (), space.medians.shape)
            z = numpyro.sample("z", real)
            with handlers.block():
                energy = space.potential(z)
            numpyro.factor("log_density", -energy)

        together = space.element[:, None] == space.element[None, :]

        def guide() -> None:
            loc = numpyro.param("auto_loc", start["auto_loc"])
            tril = numpyro.param(
                "auto_scale_tril",
                start["auto_scale_tril"],
                constraint=constraints.scaled_unit_lower_cholesky,
            )
            tril = jnp.where(together, tril, 0.0)
            z = loc + tril @ jax.random.normal(numpyro.prng_key(), loc.shape)
            fixed = dist.MultivariateNormal(
                lax.stop_gradient(loc), scale_tril=lax.stop_gradient(tril)
            )
            numpyro.sample("z", dist.Delta(z, fixed.log_prob(z), event_dim=1))

        svi = infer.SVI(flat, guide, Adam(rate), infer.Trace_ELBO(self.particles))
        state = svi.init(init_key)

        def step(state: Any, _: None) -> tuple[Any, Array]:
            state, loss = svi.stable_update(state)
            return state, -loss

        state, elbo = lax.scan(step, state, None, length=self.steps)
        params = svi.get_params(state)
        loc, tril = params["auto_loc"], jnp.where(together, params["auto_scale_tril"], 0.0)
        noise = jax.random.normal(draw_key, (self.diagnostic_draws, loc.shape[0]))
        positions = loc[None, :] + noise @ tril.T
        log_p = lax.map(space.densities, positions)
        each = -0.5 * (noise**2 + jnp.log(2.0 * jnp.pi)) - jnp.log(jnp.diagonal(tril))[None, :]
        log_q = each @ (space.element[:, None] == jnp.arange(log_p.shape[1])[None, :])
        draws = jax.vmap(space.constrain)(positions)
        return Fit(
            sites=jax.tree.map(lambda leaf: leaf[: self.draws], draws),
            log_weight=jnp.zeros(self.draws),
            trace=jax.tree.map(lambda leaf: leaf[None], draws),
            stats={"elbo": elbo, "log_p": log_p[None], "log_q": log_q[None]},
            following={"auto_loc": loc, "auto_scale_tril": tril},
        )
