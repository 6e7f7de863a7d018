"""Infer the hyperparameters of a `MarginalPolicy`: fit, check, fall back, keep for the next time.

The fallback of the convergence gate, in this order: a fit that fails is continued by one more
pass; if that fails too, the last draws that passed stay, reweighted, and the failure is reported.
A program that has no such draws yet is left with the failed ones, which is reported too.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bayes_cmab import posteriors
from bayes_cmab.data import Data
from bayes_cmab.inference.fit import Fit, Sampler
from bayes_cmab.inference.gate import Check, Gate, overall
from bayes_cmab.inference.refit import Never
from bayes_cmab.policies.marginal import PROGRAMS, HyperparameterDraws, MarginalPolicy
from bayes_cmab.posteriors import MarginalPosterior, WeightedDraws
from bayes_cmab.programs import Program


class Inferred(NamedTuple):
    """The inference between two fits.

    Attributes
    ----------
    draws : in use.
    fits : from which the draws in use came, by program.
    following : where the next pass starts, by program.
    passed : whether the draws in use passed the gate, by program.
    """

    draws: HyperparameterDraws
    fits: dict[str, Fit]
    following: dict[str, Any]
    passed: dict[str, bool]


class Attempt(NamedTuple):
    """What became of one program's fit.

    Attributes
    ----------
    checks : of the last pass.
    continued : whether a second pass was needed.
    accepted : whether its draws are in use now.
    """

    checks: tuple[Check, ...]
    continued: bool
    accepted: bool


def infer(
    policy: MarginalPolicy,
    sampler: Sampler,
    gate: Gate,
    data: Data,
    key: PRNGKeyArray,
    previous: Inferred | None = None,
    names: tuple[str, ...] = PROGRAMS,
) -> tuple[Inferred, MarginalPosterior, dict[str, Attempt]]:
    """Fit programs and condition on the data.

    Parameters
    ----------
    policy, sampler, gate : what is inferred, how, and what passes.
    data : all rows.
    key : of this fit.
    previous : the last inference; None at the first, which fits all programs.
    names : programs to fit.
    """
    names = PROGRAMS if previous is None else names
    sampler = without_refits(sampler)
    arguments = _arguments(policy, data)
    fits = {} if previous is None else dict(previous.fits)
    following = {} if previous is None else dict(previous.following)
    passed = {} if previous is None else dict(previous.passed)
    attempts = {}
    for name in names:
        index = PROGRAMS.index(name)
        start = following.get(name)
        own = (policy.models()[name], sampler, arguments[name], jax.random.fold_in(key, index))
        fit, attempts[name] = _attempt(*own, gate, name, start, keep=passed.get(name, False))
        following[name] = fit.following
        if attempts[name].accepted:
            fits[name], passed[name] = fit, overall(attempts[name].checks) != "failed"
    fresh = np.array([name in names and attempts[name].accepted for name in PROGRAMS])
    chosen = HyperparameterDraws(
        reward=_weighted(fits["reward"]),
        embedding=_weighted(fits["embedding"]),
        lengthscale=jnp.ones(data.outcomes.intermediates.shape[1]),
    )
    if previous is not None:
        kept = previous.draws
        chosen = HyperparameterDraws(
            reward=chosen.reward if fresh[0] else kept.reward,
            embedding=chosen.embedding if fresh[1] else kept.embedding,
            lengthscale=kept.lengthscale,
        )
    draws, state = settle(policy, chosen, data, fresh)
    return Inferred(draws, fits, following, passed), state, attempts


def without_refits(sampler: Sampler) -> Sampler:
    """Return a sampler that compiles to the same programs whatever its refit policy is."""
    # A protocol cannot say that its classes are dataclasses.
    plain: Sampler = replace(sampler, refit=Never())  # type: ignore[type-var]
    return plain


def _weighted(fit: Fit) -> WeightedDraws:
    return WeightedDraws(fit.sites, -fit.log_weight)


def _attempt(
    model: Callable[..., None],
    sampler: Sampler,
    arguments: tuple[Any, ...],
    key: PRNGKeyArray,
    gate: Gate,
    name: str,
    start: Any,
    *,
    keep: bool,
) -> tuple[Fit, Attempt]:
    """Run the passes of a fit, with one more if the gate fails.

    Parameters
    ----------
    start : where the last pass ended; None at the first fit.
    keep : whether there are draws that passed, to stay if this fit fails.
    """
    passes = 1
    if start is None:
        start, passes = begin(model, sampler, arguments, key), sampler.passes
    for number in range(passes + 1):
        fit = run_pass(model, sampler, arguments, jax.random.fold_in(key, number), start)
        start = fit.following
        if number >= passes - 1:
            checks = tuple(gate.check(name, jax.device_get(fit)))
            if overall(checks) != "failed":
                break
    accepted = overall(checks) != "failed" or not keep
    return fit, Attempt(checks, number >= passes, accepted)


@partial(jax.jit, static_argnums=0)
def _arguments(policy: MarginalPolicy, data: Data) -> dict[str, tuple[Any, ...]]:
    return policy.arguments(data, {})


@partial(jax.jit, static_argnums=(0, 1))
def begin(
    model: Callable[..., None], sampler: Sampler, arguments: tuple[Any, ...], key: PRNGKeyArray
) -> Any:
    """Return where the first pass starts."""
    return sampler.begin(Program(model, arguments), key)


@partial(jax.jit, static_argnums=(0, 1))
def run_pass(
    model: Callable[..., None],
    sampler: Sampler,
    arguments: tuple[Any, ...],
    key: PRNGKeyArray,
    start: Any,
) -> Fit:
    """Run one pass; compiled once per capacity of the arguments."""
    return sampler.fit(Program(model, arguments), key, start)


@partial(jax.jit, static_argnums=0)
def settle(
    policy: MarginalPolicy, draws: HyperparameterDraws, data: Data, fresh: Bool[Array, " 2"]
) -> tuple[HyperparameterDraws, MarginalPosterior]:
    """Condition on the data; see `MarginalPolicy.refitted`."""
    return policy.refitted(draws, data, fresh)


@partial(jax.jit, static_argnums=0)
def log_weights(policy: MarginalPolicy, posterior: Any) -> tuple[Array, Array]:
    """Return the normalised log weights of the draws of both programs."""
    return posteriors.log_weights(policy.base.reward, posterior)


@partial(jax.jit, static_argnums=0)
def effective_shares(policy: MarginalPolicy, posterior: Any) -> Float[Array, " 2"]:
    """Return the effective sample size over the number of draws, for both programs."""
    return policy.effective_shares(posterior)
