"""The border of the agent: its options become what the inner modules rely on, or an error."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bayes_cmab.acquisition import Acquisition, BetaSchedule, ConstantBeta, Thompson
from bayes_cmab.categories import Categories, is_table
from bayes_cmab.columns import Columns
from bayes_cmab.inference import MAP, NUTS, SVI, Fixed, Sampler
from bayes_cmab.inference.gate import Gate
from bayes_cmab.models import (
    AdditiveRewardModel,
    AnovaEmbeddingModel,
    HeteroscedasticTransitionModel,
)
from bayes_cmab.models.priors import Sites
from bayes_cmab.policies import (
    DrawsPolicy,
    EmbeddingPolicy,
    KnownRewardPolicy,
    Policy,
    ResidualPolicy,
    averaged,
)
from bayes_cmab.scaling import Scales, Units
from bayes_cmab.validate import (
    FloatArray,
    Numbers,
    as_positive,
    as_vector,
    one_of,
    whole_number,
)

EMBEDDINGS: dict[str, Policy[Any]] = {
    "paper": EmbeddingPolicy(),
    "anova": EmbeddingPolicy(embedding=AnovaEmbeddingModel()),
    "transition": ResidualPolicy(AdditiveRewardModel(), HeteroscedasticTransitionModel()),
}
"""Policies by the name of their model of ``P(r | s, a)``; the last has main effects in ``f``."""

DEFAULT_EMBEDDING = "transition"
KNOWN_REWARD_EMBEDDING = "paper"
"""Where ``f`` is known: the transition prior needs a Gaussian process on it."""


def context_columns(
    sample: Numbers | None, dim_context: int | None, categories: Categories
) -> tuple[FloatArray | None, Columns]:
    """Return a sample of contexts as numbers, if it has rows, and the columns of contexts."""
    if sample is not None and dim_context is None and is_table(sample):
        dim_context = len(sample.columns)
    p = 1 if dim_context is None else whole_number(dim_context, "dim_context", least=0)
    if sample is None:
        return None, Columns.numeric(p, "context").declare(categories)
    columns = Columns.of(sample, "context_sample", "context", p).declare(categories)
    rows = columns.rows(sample, "context_sample")
    return (rows.copy() if len(rows) else None), columns


def known_categories(categories: Categories | None) -> Categories:
    """Return given categories, none for None."""
    if categories is not None and not isinstance(categories, Mapping):
        raise ValueError(f"categories: expected a dict, got {type(categories).__name__}")
    return categories or {}


def check_categories(categories: Categories, contexts: Columns, actions: Columns) -> None:
    """Refuse categories of a column that is not there, or that is there twice."""
    for name in categories:
        homes = (name in contexts.names) + (name in actions.names)
        if homes != 1:
            listed = ", ".join([*contexts.names, *actions.names])
            found = "twice" if homes else "not at all"
            raise ValueError(f"categories: expected columns of {listed}; {name!r} is {found} there")


def context_of(context: Numbers | None, columns: Columns) -> FloatArray:
    """Return one context (p,); there is none where p = 0."""
    if context is None and (size := len(columns.names)) > 0:
        raise ValueError(f"context: expected {size} number{'s' * (size != 1)}, got None")
    return columns.row(context, "context")


def contexts_of(contexts: Numbers | None, size: int, columns: Columns) -> FloatArray:
    """Return contexts (n, p); with p = 0, ``size`` rows without columns for None."""
    if contexts is None and (width := len(columns.names)) > 0:
        raise ValueError(f"contexts: expected {width} column{'s' * (width != 1)}, got None")
    return columns.rows(np.zeros((size, 0)) if contexts is None else contexts, "contexts")


def chosen_policy(
    policy: Policy[Any] | None, embedding: str | None, *, known_reward: bool
) -> Policy[Any]:
    """Return the given policy, or the one with an embedding of this name."""
    if policy is None:
        default = KNOWN_REWARD_EMBEDDING if known_reward else DEFAULT_EMBEDDING
        name = default if embedding is None else embedding
        return EMBEDDINGS[one_of(name, "embedding", list(EMBEDDINGS))]
    if embedding is not None:
        raise ValueError(
            f"embedding: expected None beside a policy, which has its own, got {embedding!r}"
        )
    return policy


def chosen_inference(
    inference: Fixed | MAP | Sampler | None, policy: Policy[Any], *, kept: bool
) -> Fixed | MAP | Sampler:
    """Return the given inference, or the default: fit what there is to fit and was not given."""
    if inference is not None:
        return inference
    unknown = isinstance(policy, Policy) and policy.models() and not kept
    return MAP() if unknown else Fixed()


def policy_of(
    policy: Policy[Any], reward_function: Callable[[Array], Array] | None, d: int
) -> Policy[Any]:
    """Return the policy, with the embedding of the given one if the reward function is known."""
    if not isinstance(policy, Policy):
        raise ValueError(f"policy: expected a Policy, got {policy!r}")
    if reward_function is None:
        return policy
    if not isinstance(policy, EmbeddingPolicy) or policy.moments_form != "operator":
        raise ValueError(
            "policy: expected an EmbeddingPolicy in operator form with a known reward_function, "
            f"got {policy!r}"
        )
    if not callable(reward_function):
        raise ValueError(f"reward_function: expected a function, got {reward_function!r}")
    try:
        value = jax.eval_shape(reward_function, jax.ShapeDtypeStruct((d,), float))
    except Exception as error:
        raise ValueError(
            f"reward_function: expected a function of an intermediate of shape ({d},) made of JAX "
            f"operations, got one that raised {type(error).__name__}: {error}"
        ) from error
    if getattr(value, "shape", None) != () or jnp.issubdtype(value.dtype, jnp.complexfloating):
        raise ValueError(f"reward_function: expected a real scalar array, got {value}")
    for name in ("reward_program", "embedding_program"):
        if getattr(policy, name) is not None:
            raise ValueError(
                f"policy: expected no {name} beside a known reward_function, got "
                f"{getattr(policy, name)!r}"
            )
    return KnownRewardPolicy(reward_function, policy.embedding, policy.reward.measure_scale)


def inferred_policy(policy: Policy[Any], inference: Fixed | MAP | Sampler) -> Policy[Any]:
    """Return the policy that goes with an inference: averaged over draws with a sampler's."""
    if isinstance(inference, Fixed | MAP):
        if isinstance(policy, DrawsPolicy):
            raise ValueError(
                f"policy: expected its base with {type(inference).__name__}, which makes no draws "
                f"to average over, got {policy!r}"
            )
        return policy
    if not isinstance(inference, NUTS | SVI):
        raise ValueError(f"inference: expected Fixed, MAP, NUTS or SVI, got {inference!r}")
    return averaged(policy)


def require_draws(inference: Fixed | MAP | Sampler) -> None:
    """Refuse an inference without draws of the hyperparameters."""
    if isinstance(inference, Fixed | MAP):
        raise ValueError(f"posterior: expected an agent with NUTS or SVI, got {inference!r}")


def check_acquisition(acquisition: Acquisition, policy: Policy[Any]) -> None:
    """Refuse an acquisition that the policy does not support."""
    if isinstance(acquisition, type) or not callable(acquisition):
        raise ValueError(f"acquisition: expected an acquisition, got {acquisition!r}")
    if isinstance(acquisition, Thompson) and not policy.draws_jointly:
        raise ValueError(
            "acquisition: expected a policy with a joint distribution of g for Thompson sampling, "
            f"got {policy!r}"
        )


def gate_of(gate: Gate) -> Gate:
    """Return a gate."""
    if not isinstance(gate, Gate):
        raise ValueError(f"gate: expected a Gate, got {gate!r}")
    return gate


def beta_schedule(beta: float | BetaSchedule) -> BetaSchedule:
    """Return a number as a constant schedule."""
    if callable(beta):
        return beta
    return ConstantBeta(float(as_vector(beta, "beta", 1)[0]))


def sites_of(
    given: Mapping[str, Numbers] | None, default: Sites, inference: Fixed | MAP | Sampler
) -> Sites:
    """Return given hyperparameters: positive, with the names and shapes of the default ones."""
    if given is None:
        return default
    if not isinstance(inference, Fixed | MAP):
        raise ValueError(
            f"hyperparameters: expected None with {type(inference).__name__}, which draws them"
        )
    if not isinstance(given, Mapping):
        raise ValueError(f"hyperparameters: expected a dict, got {type(given).__name__}")
    listed = ", ".join(sorted(default)) or "none"
    for problem, names in (
        ("the unknown", set(given) - set(default)),
        ("none named", set(default) - set(given)),
    ):
        if names:
            raise ValueError(
                f"hyperparameters: expected {listed}; got {problem} "
                f"{', '.join(sorted(map(str, names)))}"
            )
    sites = {}
    for name, like in default.items():
        value = as_positive(given[name], f"hyperparameters[{name!r}]")
        if value.shape != like.shape:
            raise ValueError(
                f"hyperparameters[{name!r}]: expected shape {like.shape}, got {value.shape}"
            )
        sites[name] = jnp.array(value)
    return sites


def scales_of(scales: Scales, p: int, q: int, d: int) -> Scales:
    """Return given units, of the agent's numbers of columns."""
    if not isinstance(scales, Scales):
        raise ValueError(f"scales: expected a Scales, got {type(scales).__name__}")
    widths = {"context": p, "action": q, "intermediate": d, "outcome": 1}
    s, a, r, y = (
        Units.create(np.array(center), np.array(scale), f"scales: {name}", width)
        for (name, width), (center, scale) in zip(widths.items(), scales, strict=True)
    )
    return Scales(s, a, r, Units(y.center[0], y.scale[0]))
