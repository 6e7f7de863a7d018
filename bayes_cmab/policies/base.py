r"""The agents' models behind one interface: condition on data, observe rows, score actions.

A policy is a frozen dataclass (hashable, hence a static argument of ``jax.jit``) whose methods
are pure functions of an immutable state. It works in standardised units. Its hyperparameters are
the values of the sites of its NumPyro programs, one flat dictionary. The posterior of a program is
given its data set and, where its arguments depend on them, the sites of those before it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bayes_cmab.data import Data
from bayes_cmab.models.priors import Sites
from bayes_cmab.moments import Mixture, Moments
from bayes_cmab.programs import Program
from bayes_cmab.scaling import Scales


class Policy[State](ABC):
    """What every agent can do; by default it has no hyperparameters and ignores every row.

    Attributes
    ----------
    one_trial_at_a_time : whether a simulation should play its trials one after the other instead
        of vmapped, because a round's intermediate results are large.
    """

    one_trial_at_a_time: ClassVar[bool] = False

    def default_sites(self, p: int, q: int, d: int) -> Sites:
        """Return the hyperparameters of the fixed agent: the medians of the priors."""
        del p, q, d
        return {}

    def models(self) -> dict[str, Callable[..., None]]:
        """Return the NumPyro programs whose sites are this policy's hyperparameters."""
        return {}

    def arguments(self, data: Data, sites: Sites) -> dict[str, tuple[Any, ...]]:
        """Return what each program is called with; this may depend on the sites of others."""
        del data, sites
        return {}

    def programs(self, data: Data, sites: Sites) -> dict[str, Program]:
        """Return the programs with their arguments."""
        arguments = self.arguments(data, sites)
        return {name: Program(model, arguments[name]) for name, model in self.models().items()}

    @abstractmethod
    def condition(self, sites: Any, data: Data, scales: Scales) -> State:
        """Return the state given all data, in standardised units; ``O(N^3)``.

        Parameters
        ----------
        sites : hyperparameters; a `DrawsPolicy` takes draws of them.
        data, scales : all rows, and their units.
        """

    def observe_transition(
        self,
        state: State,
        context: Float[Array, " p"],
        action: Float[Array, " q"],
        intermediate: Float[Array, " d"],
    ) -> State:
        """Add a row of D1; ``O(N^2)``."""
        del context, action, intermediate
        return state

    def observe_outcome(
        self, state: State, intermediate: Float[Array, " d"], outcome: Float[Array, ""]
    ) -> State:
        """Add a row of D2; ``O(N^2)``."""
        del intermediate, outcome
        return state

    def observe_reward(
        self,
        state: State,
        context: Float[Array, " p"],
        action: Float[Array, " q"],
        outcome: Float[Array, ""],
    ) -> State:
        """Add a matched row (s, a, y); most agents have it already, in its two parts."""
        del context, action, outcome
        return state

    @abstractmethod
    def moments(
        self, state: State, context: Float[Array, " p"], actions: Float[Array, "k q"]
    ) -> Moments:
        """Return the moments of ``g`` for a set of actions."""

    def mixture(
        self, state: State, context: Float[Array, " p"], actions: Float[Array, "k q"]
    ) -> Mixture:
        """Return the distribution of ``g`` given each set of hyperparameters: here there is one."""
        m = self.moments(state, context, actions)
        return Mixture(m.mean[None], m.variance[None], jnp.ones(1))

    @property
    def draws_jointly(self) -> bool:
        """Whether `sample` is there: Thompson sampling needs it."""
        return False

    def sample(
        self,
        state: State,
        context: Float[Array, " p"],
        actions: Float[Array, "k q"],
        key: PRNGKeyArray,
    ) -> Float[Array, " k"]:
        """Draw ``g`` at all actions jointly."""
        del state, context, actions, key
        raise NotImplementedError(f"{type(self).__name__} has no joint distribution of g")
