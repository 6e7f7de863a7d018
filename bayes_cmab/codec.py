"""Values of this package as JSON and arrays, and back: by an explicit list of classes, no pickle.

JSON has no arrays, tuples, times or classes, so these are objects with one key that starts with a
dollar. Arrays of the same type and shape are stacked, because a file of few large arrays is much
faster to write and to read than one of thousands. Floats come back to the last bit.
"""

import dataclasses
from collections.abc import Callable
from datetime import datetime
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayes_cmab import acquisition, history, inference, models, policies, scaling, session, tickets
from bayes_cmab.boxes import Box
from bayes_cmab.categories import Period
from bayes_cmab.columns import Columns
from bayes_cmab.inference import gate, marginal
from bayes_cmab.models import priors
from bayes_cmab.policies.direct import no_preference
from bayes_cmab.posteriors import WeightedDraws
from bayes_cmab.steps import AgentState

type Json = Any
type Arrays = dict[str, np.ndarray[Any, Any]]

CLASSES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        *(acquisition.ConstantBeta, acquisition.LogarithmicBeta),
        *(acquisition.MatchedMomentsUCB, acquisition.MeanUCB, acquisition.MixtureQuantile),
        acquisition.Thompson,
        *(gate.Check, gate.Gate),
        *(history.Abandon, history.Addition, history.Ask, history.Refit, history.Tell),
        *(inference.EffectiveSampleSize, inference.EveryRounds, inference.Never),
        *(inference.Fit, inference.Fixed, inference.MAP, inference.NUTS, inference.SVI),
        *(inference.WarmStart, marginal.Inferred),
        *(models.AdditiveRewardModel, models.AnovaEmbeddingModel, models.DirectRewardModel),
        *(models.EmbeddingModel, models.HeteroscedasticTransitionModel),
        *(models.RewardModel, models.TransitionModel),
        *(policies.DirectPolicy, policies.EmbeddingPolicy, policies.FunctionPolicy),
        *(policies.HyperparameterDraws, policies.KnownRewardPolicy, policies.MarginalPolicy),
        *(policies.MarginalResidualPolicy, policies.ResidualPolicy, policies.StackedPolicy),
        policies.TransitionPolicy,
        *(
            priors.AdditivePriors,
            priors.AnovaPriors,
            priors.EmbeddingPriors,
            priors.LogNormal,
            priors.RewardPriors,
        ),
        priors.TransitionPriors,
        *(scaling.Scales, scaling.Units),
        *(session.Session, tickets.Ledger, tickets.Ticket),
        *(AgentState, Box, Columns, Period, WeightedDraws),
    )
}
"""Frozen dataclasses and named tuples that a file may hold."""

FUNCTIONS: dict[str, Callable[..., Any]] = {"no_preference": no_preference}


class UnwritableError(ValueError):
    """A value, such as a user's function, that cannot be written down."""


class Writer:
    """Turns values into JSON, and collects their arrays.

    Attributes
    ----------
    stacks : arrays by type and shape.
    """

    def __init__(self) -> None:
        self.stacks: dict[str, list[np.ndarray[Any, Any]]] = {}
        self._encoders: dict[type, Callable[[Any], Json]] = {
            bool: lambda value: value,
            int: lambda value: value,
            str: lambda value: value,
            type(None): lambda value: value,
            float: lambda value: value if np.isfinite(value) else {"$float": repr(value)},
            list: lambda value: [self.encode(item) for item in value],
            tuple: lambda value: {"$tuple": [self.encode(item) for item in value]},
            dict: lambda value: {"$dict": {key: self.encode(item) for key, item in value.items()}},
            datetime: lambda value: {"$time": value.isoformat()},
            np.ndarray: lambda value: {"$array": self._stack(value)},
        }

    def encode(self, value: Any) -> Json:
        """Return a value as JSON.

        Raises
        ------
        UnwritableError
            If it is, or holds, something of the user's own.
        """
        own = type(value)
        if own in self._encoders:
            return self._encoders[own](value)
        if own.__name__ in CLASSES and CLASSES[own.__name__] is own:
            fields = {name: self.encode(getattr(value, name)) for name in _fields(own)}
            return {"$class": own.__name__, "fields": fields}
        if isinstance(value, jax.Array):
            return {"$jax": self._stack(np.asarray(value))}
        if isinstance(value, np.generic):
            return self.encode(value.item())
        for name, function in FUNCTIONS.items():
            if value is function:
                return {"$function": name}
        raise UnwritableError(f"expected something of this package, got {value!r}")

    def arrays(self) -> Arrays:
        """Return the arrays, each stacked with its like, (count, ...)."""
        return {name: np.stack(stack) for name, stack in self.stacks.items()}

    def _stack(self, array: np.ndarray[Any, Any]) -> list[Any]:
        if array.dtype.kind not in "biuf":
            raise UnwritableError(f"expected an array of numbers, got one of {array.dtype}")
        name = "-".join([array.dtype.name, *map(str, array.shape)])
        stack = self.stacks.setdefault(name, [])
        stack.append(array)
        return [name, len(stack) - 1]


def decode(value: Json, arrays: Arrays) -> Any:
    """Return what a `Writer` wrote.

    A field that the JSON of a class lacks has its default.

    Raises
    ------
    KeyError, TypeError, ValueError
        If the JSON is not a writer's.
    """
    if isinstance(value, list):
        return [decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    tag, content = next(iter(value.items()))
    match tag:
        case "$float":
            return float(content)
        case "$tuple":
            return tuple(decode(item, arrays) for item in content)
        case "$dict":
            return {key: decode(item, arrays) for key, item in content.items()}
        case "$time":
            return datetime.fromisoformat(content)
        case "$array":
            return np.asarray(arrays[content[0]][content[1]])
        case "$jax":
            return jnp.asarray(arrays[content[0]][content[1]])
        case "$function":
            return FUNCTIONS[content]
        case "$class":
            fields = {name: decode(item, arrays) for name, item in value["fields"].items()}
            return CLASSES[content](**fields)
    raise ValueError(f"expected a value with a known tag, got {tag!r}")


def _fields(cls: type) -> tuple[str, ...]:
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    # The other classes are named tuples, for which there is no type.
    names: tuple[str, ...] = cls._fields  # type: ignore[attr-defined]
    return names
