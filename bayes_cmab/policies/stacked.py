"""A predictive average of several policies: where no single model is to be relied on."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray
from numpyro import handlers

from bayes_cmab.data import Data
from bayes_cmab.models.priors import Sites
from bayes_cmab.moments import Mixture, Moments
from bayes_cmab.policies.base import Policy
from bayes_cmab.policies.draws import DrawsPolicy
from bayes_cmab.scaling import Scales
from bayes_cmab.validate import number_within

type States = tuple[Any, ...]


@dataclass(frozen=True)
class StackedPolicy(Policy[States]):
    """Average policies with given weights, such as the stacking weights of a comparison.

    ``g`` is a mixture of what the policies say of it. Its variance has the averages of their parts,
    and the spread of their means: that is counted as ``variance_reward_hyperparameters`` where the
    policies have different models of ``f``, else as ``variance_embedding_hyperparameters``.

    A site of policy i has the name ``model<i>/<site>``; no hyperparameters are shared.

    Attributes
    ----------
    policies : that are averaged.
    weights : of each, with sum one.
    """

    one_trial_at_a_time: ClassVar[bool] = True

    policies: tuple[Policy[Any], ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        sound = isinstance(self.policies, tuple) and self.policies
        if not (sound and all(isinstance(p, Policy) for p in self.policies)):
            raise ValueError(f"policies: expected a tuple of policies, got {self.policies!r}")
        if any(isinstance(p, DrawsPolicy) for p in self.policies):
            raise ValueError(
                f"policies: expected none that is averaged over draws, got {self.policies!r}"
            )
        size = len(self.policies)
        if not isinstance(self.weights, tuple) or len(self.weights) != size:
            raise ValueError(
                f"weights: expected a tuple of {size} numbers, one a policy, got {self.weights!r}"
            )
        for i, weight in enumerate(self.weights):
            number_within(weight, f"weights[{i}]", 0.0, 1.0, ends=True)
        if not math.isclose(sum(self.weights), 1.0, abs_tol=1e-6):
            raise ValueError(f"weights: expected a sum of 1, got {sum(self.weights)!r}")

    def _named(self) -> list[tuple[str, Policy[Any]]]:
        return [(f"model{i}", policy) for i, policy in enumerate(self.policies)]

    def _each(self, sites: Sites) -> list[Sites]:
        """Return the sites of each policy, without the prefix."""
        return [
            {
                name.removeprefix(f"{prefix}/"): value
                for name, value in sites.items()
                if name.startswith(f"{prefix}/")
            }
            for prefix, _ in self._named()
        ]

    def default_sites(self, p: int, q: int, d: int) -> Sites:
        """Return the medians of the priors of all policies."""
        return {
            f"{prefix}/{name}": value
            for prefix, policy in self._named()
            for name, value in policy.default_sites(p, q, d).items()
        }

    def models(self) -> dict[str, Callable[..., None]]:
        """Return the programs of all policies, their sites prefixed."""
        return {
            f"{prefix}/{name}": handlers.scope(model, prefix=prefix)
            for prefix, policy in self._named()
            for name, model in policy.models().items()
        }

    def arguments(self, data: Data, sites: Sites) -> dict[str, tuple[Any, ...]]:
        """Return the arguments of all programs."""
        return {
            f"{prefix}/{name}": arguments
            for (prefix, policy), own in zip(self._named(), self._each(sites), strict=True)
            for name, arguments in policy.arguments(data, own).items()
        }

    def condition(self, sites: Any, data: Data, scales: Scales) -> States:
        """Condition every policy."""
        pairs = zip(self.policies, self._each(sites), strict=True)
        return tuple(policy.condition(own, data, scales) for policy, own in pairs)

    def _map(self, state: States, change: Callable[[Policy[Any], Any], Any]) -> States:
        return tuple(change(p, own) for p, own in zip(self.policies, state, strict=True))

    def observe_transition(
        self, state: States, context: Array, action: Array, intermediate: Array
    ) -> States:
        """Add a row of D1 to every policy."""
        row = (context, action, intermediate)
        return self._map(state, lambda policy, own: policy.observe_transition(own, *row))

    def observe_outcome(self, state: States, intermediate: Array, outcome: Array) -> States:
        """Add a row of D2 to every policy."""
        row = (intermediate, outcome)
        return self._map(state, lambda policy, own: policy.observe_outcome(own, *row))

    def observe_reward(
        self, state: States, context: Array, action: Array, outcome: Array
    ) -> States:
        """Add a matched row (s, a, y) to every policy."""
        row = (context, action, outcome)
        return self._map(state, lambda policy, own: policy.observe_reward(own, *row))

    def moments(self, state: States, context: Array, actions: Array) -> Moments:
        """Return the moments of the mixture."""
        each = [p.moments(own, context, actions) for p, own in self._pairs(state)]
        average: Moments = jax.tree.map(
            lambda *leaves: sum(w * leaf for w, leaf in zip(self.weights, leaves, strict=True)),
            *each,
        )
        means = jnp.stack([m.mean for m in each])
        weights = jnp.asarray(self.weights)
        spread = weights @ (means - average.mean[None, :]) ** 2
        rewards = [getattr(policy, "reward", None) for policy in self.policies]
        same = all(reward == rewards[0] for reward in rewards)
        part = f"variance_{'embedding' if same else 'reward'}_hyperparameters"
        return average._replace(
            variance=average.variance + spread,
            negativity=jnp.max(jnp.stack([m.negativity for m in each])),
            **{part: getattr(average, part) + spread},
        )

    def mixture(self, state: States, context: Array, actions: Array) -> Mixture:
        """Return the distributions of ``g`` under all policies."""
        each = [p.mixture(own, context, actions) for p, own in self._pairs(state)]
        weights = [w * m.weight for w, m in zip(self.weights, each, strict=True)]
        return Mixture(
            jnp.concatenate([m.mean for m in each]),
            jnp.concatenate([m.variance for m in each]),
            jnp.concatenate(weights),
        )

    @property
    def draws_jointly(self) -> bool:
        """Whether `sample` is there."""
        return all(policy.draws_jointly for policy in self.policies)

    def sample(self, state: States, context: Array, actions: Array, key: PRNGKeyArray) -> Array:
        """Draw ``g`` at all actions jointly, under a policy chosen by its weight."""
        chosen, key = jax.random.split(key)
        samples = [p.sample(own, context, actions, key) for p, own in self._pairs(state)]
        index = jax.random.categorical(chosen, jnp.log(jnp.asarray(self.weights)))
        return jnp.stack(samples)[index]

    def _pairs(self, state: States) -> list[tuple[Policy[Any], Any]]:
        return list(zip(self.policies, state, strict=True))
