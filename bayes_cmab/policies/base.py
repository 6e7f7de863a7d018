r"""The agents' models behind one interface: condition on data, observe rows, score actions.

A policy is a frozen dataclass (hashable, hence a static argument of ``jax.jit``) whose methods
are pure functions of an immutable state. It works in standardised units. Its hyperparameters are
the values of the sites of its NumPyro programs, one flat dictionary; each program has a data set
of its own, so their posteriors are independent.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from jaxtyping import Array, Float

from bayes_cmab.data import Data
from bayes_cmab.models.priors import Sites
from bayes_cmab.moments import Moments
from bayes_cmab.scaling import Scales


class Program(NamedTuple):
    """A NumPyro program and the arguments that it is called with."""

    model: Callable[..., None]
    arguments: tuple[Any, ...]


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

    def programs(self, data: Data) -> dict[str, Program]:
        """Return the NumPyro programs whose sites are this policy's hyperparameters."""
        del data
        return {}

    @abstractmethod
    def condition(self, sites: Sites, data: Data, scales: Scales) -> State:
        """Return the state given all data, in standardised units; ``O(N^3)``."""

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
