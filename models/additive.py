r"""A reward model whose ``f`` is a sum of main effects and a function of all intermediates.

``f(r) = f_0(r) + sum_j f_j(r_j)``, independent Gaussian processes, each with the normalised nuclear
dominant kernel of its own dimensions. The RKHS is the direct sum, so ``T`` is block-diagonal: Gram
matrices add, and so does the second moment. A component that ignores a dimension has an infinite
lengthscale there: its factor is one in every formula.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpyro
from jaxtyping import Array, Float

from bayes_cmab.data import Outcomes
from bayes_cmab.kernels import Measure
from bayes_cmab.models.hyperparameters import RewardHyperparameters
from bayes_cmab.models.priors import AdditivePriors, LogNormal, Sites
from bayes_cmab.models.reward import Interaction, RewardModel

# Axes in the place of the arrays, as jax.vmap wants them: hence the silenced types.
COMPONENT_AXES = RewardHyperparameters(0, 0, None, None, None, None)  # type: ignore[arg-type]


class AdditiveHyperparameters(NamedTuple):
    """Of a reward model with ``c`` components: all dimensions together, then each by itself.

    Attributes
    ----------
    lengthscale_r : (c, d), infinite where a component ignores a dimension.
    component_variance : (c,) prior variance of each component at the measure's centre.
    reward_noise, mean_variance, measure_mean, measure_scale : see `RewardHyperparameters`.
    """

    lengthscale_r: Float[Array, "c d"]
    component_variance: Float[Array, " c"]
    reward_noise: Float[Array, ""]
    mean_variance: Float[Array, ""]
    measure_mean: Float[Array, " d"]
    measure_scale: Float[Array, " d"]

    @property
    def reward_variance(self) -> Array:
        """The prior variance of ``f`` at the measure's centre."""
        return jnp.sum(self.component_variance, axis=-1)

    @property
    def measure(self) -> Measure:
        """The measure ``nu``."""
        return Measure(self.measure_mean, self.measure_scale)

    @property
    def components(self) -> RewardHyperparameters:
        """The components, each as a reward model of its own; see ``COMPONENT_AXES``."""
        rest = (self.reward_noise, self.mean_variance, self.measure_mean, self.measure_scale)
        return RewardHyperparameters(self.lengthscale_r, self.component_variance, *rest)


@dataclass(frozen=True)
class AdditiveRewardModel(RewardModel):
    """A `RewardModel` with main effects beside the function of all intermediates.

    Its methods take `AdditiveHyperparameters` where the base takes its own: each model is only
    ever given the hyperparameters that it made, which the types cannot say. Its sites are those of
    the base, and for d > 1 ``reward_main_lengthscale`` (d,) and ``reward_main_scale`` (d,),
    standard deviations. With d = 1 there is nothing to add: it is the base, with the base's priors.

    Attributes
    ----------
    priors : see `AdditivePriors`.
    """

    priors: AdditivePriors = AdditivePriors()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.power != 1 or self.unit_variance:
            raise ValueError(
                "AdditiveRewardModel: expected power 1 and unit_variance False, got "
                f"{self.power} and {self.unit_variance}"
            )
        if not isinstance(self.priors, AdditivePriors):
            raise ValueError(
                "AdditiveRewardModel: expected AdditivePriors, which weigh the main effects, got "
                f"{self.priors!r}"
            )

    def __call__(self, outcomes: Outcomes) -> None:
        """Sample the hyperparameters and score the outcomes."""
        d, priors = outcomes.intermediates.shape[1], self.priors
        weight = self._weight(d)
        wanted: list[tuple[str, LogNormal, bool]] = [
            ("reward_lengthscale", priors.lengthscale.scaled(d**0.25), True),
            ("reward_scale", weight, False),
            ("reward_noise_scale", priors.noise_scale, False),
        ]
        if d > 1:
            wanted += [
                ("reward_main_lengthscale", priors.lengthscale, True),
                ("reward_main_scale", weight, True),
            ]
        sites: Sites = {}
        for name, prior, each in wanted:
            if each:
                with numpyro.plate("r_dim", d):
                    sites[name] = numpyro.sample(name, prior.distribution())
            else:
                sites[name] = numpyro.sample(name, prior.distribution())
        hyper = self.hyperparameters(sites)
        numpyro.deterministic("reward_variance", hyper.reward_variance)
        numpyro.deterministic("reward_noise", hyper.reward_noise)
        density = self.log_likelihood(hyper, outcomes)  # type: ignore[arg-type]
        numpyro.factor("reward_log_likelihood", density)

    def hyperparameters(self, sites: Sites) -> AdditiveHyperparameters:  # type: ignore[override]
        """Return the hyperparameters that the program's sites stand for."""
        plain = super().hyperparameters(sites)
        lengthscale, variance = plain.lengthscale_r[..., None, :], plain.reward_variance[..., None]
        if "reward_main_scale" in sites:
            main = sites["reward_main_lengthscale"][..., None, :]
            own = jnp.eye(main.shape[-1], dtype=bool)
            alone = jnp.where(jnp.broadcast_to(own, (*main.shape[:-2], *own.shape)), main, jnp.inf)
            lengthscale = jnp.concatenate([lengthscale, alone], axis=-2)
            variance = jnp.concatenate([variance, sites["reward_main_scale"] ** 2], axis=-1)
        rest = (plain.reward_noise, plain.mean_variance, plain.measure_mean, plain.measure_scale)
        return AdditiveHyperparameters(lengthscale, variance, *rest)

    def _weight(self, d: int) -> LogNormal:
        """Return the prior of each component's standard deviation."""
        return self.priors.weight.root() if d > 1 else self.priors.scale

    def default_sites(self, d: int) -> Sites:
        """Return the medians of the priors, by site: the fixed agent's hyperparameters."""
        scale = self._weight(d).median
        sites = super().default_sites(d) | {"reward_scale": jnp.array(scale, float)}
        if d > 1:
            sites["reward_main_lengthscale"] = jnp.full(d, self.priors.lengthscale.median, float)
            sites["reward_main_scale"] = jnp.full(d, scale, float)
        return sites

    def summed(  # type: ignore[override]
        self, function: Callable[[RewardHyperparameters], Array], hyper: AdditiveHyperparameters
    ) -> Array:
        """Return the sum of a function over the components of ``f``."""
        return jnp.sum(jax.vmap(function, in_axes=(COMPONENT_AXES,))(hyper.components), axis=0)

    def components(  # type: ignore[override]
        self, hyper: AdditiveHyperparameters
    ) -> list[RewardHyperparameters]:
        """Return the hyperparameters of each component of ``f``, that of all dimensions first."""
        lengthscale, variance, *rest = hyper.components
        return [
            RewardHyperparameters(lengthscale[c], variance[c], *rest)
            for c in range(lengthscale.shape[0])
        ]

    def interactions(self, d: int) -> list[Interaction]:
        """Return the pairs of components that vary together with r.

        Main effects of different dimensions do not: these are independent given (s, a).
        """
        if d == 1:
            return super().interactions(d)
        own = [Interaction(j + 1, j + 1, 1.0, j) for j in range(d)]
        with_all = [Interaction(0, j + 1, 2.0, j) for j in range(d)]
        return [Interaction(0, 0, 1.0, None), *own, *with_all]
