"""Policies that average over draws of their hyperparameters, behind one interface."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from bayes_cmab.data import Data
from bayes_cmab.models import RewardModel
from bayes_cmab.models.priors import Sites
from bayes_cmab.policies.base import Policy
from bayes_cmab.posteriors import WeightedDraws, effective_sample_size


class HyperparameterDraws(NamedTuple):
    """What a `DrawsPolicy` takes as hyperparameters.

    Attributes
    ----------
    programs : draws of each program.
    lengthscale : (d,) reference of the embedding's likelihood when its draws were made.
    """

    programs: dict[str, WeightedDraws]
    lengthscale: Float[Array, " d"]


class DrawsPolicy[State](Policy[State]):
    """A policy averaged over draws of the hyperparameters of another, its base.

    Between two fits the draws are reweighted by how well they predict the rows that have come
    since.

    Attributes
    ----------
    base : the policy that is averaged.
    """

    base: Any

    @property
    def names(self) -> tuple[str, ...]:
        """The programs, in the order in which they are fitted."""
        return tuple(self.models())

    @property
    def reward(self) -> RewardModel:
        """The reward model."""
        model: RewardModel = self.base.reward
        return model

    def default_sites(self, p: int, q: int, d: int) -> Sites:
        """Return the medians of the priors; `HyperparameterDraws` come from the inference."""
        sites: Sites = self.base.default_sites(p, q, d)
        return sites

    def models(self) -> dict[str, Callable[..., None]]:
        """Return the programs of the base."""
        models: dict[str, Callable[..., None]] = self.base.models()
        return models

    def arguments(self, data: Data, sites: Sites) -> dict[str, tuple[Any, ...]]:
        """Return the arguments of the base."""
        arguments: dict[str, tuple[Any, ...]] = self.base.arguments(data, sites)
        return arguments

    def joined(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the programs that must be fitted if some are, in order."""
        return tuple(name for name in self.names if name in names)

    @abstractmethod
    def given(
        self,
        name: str,
        data: Data,
        draws: Mapping[str, WeightedDraws],
        fresh: Mapping[str, Bool[Array, ""]],
    ) -> tuple[Any, ...]:
        """Return what a program is called with, given draws of those before it.

        Parameters
        ----------
        draws : of the programs before; ``at_fit`` as in `refitted`.
        fresh : whether these were made with the data at hand.
        """

    @abstractmethod
    def refitted(
        self, draws: HyperparameterDraws, data: Data, fresh: Bool[Array, " programs"]
    ) -> tuple[HyperparameterDraws, State]:
        """Condition every draw, and take note of the likelihood that fresh ones were drawn with.

        Parameters
        ----------
        draws : of all programs; what a fresh one has as ``at_fit`` is minus the logarithm of its
            importance weight (zero for a sampler).
        data : all rows.
        fresh : whether the draws of each of ``names`` were made with these data.
        """

    @abstractmethod
    def log_weights(self, state: State) -> dict[str, Float[Array, " draws"]]:
        """Return the normalised log weights of the draws of each program."""

    def effective_shares(self, state: State) -> Float[Array, " programs"]:
        """Return the effective sample size over the number of draws, for ``names``."""
        weights = self.log_weights(state)
        sizes = [effective_sample_size(weights[n]) / weights[n].shape[0] for n in self.names]
        return jnp.stack(sizes)


def noted(draws: WeightedDraws, likelihood: Array, fresh: Array) -> WeightedDraws:
    """Return fresh draws with the likelihood that they were drawn with, others as they are."""
    return draws._replace(at_fit=jnp.where(fresh, draws.at_fit + likelihood, draws.at_fit))
