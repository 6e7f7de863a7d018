"""Infer the hyperparameters of a `DrawsPolicy`: fit, check, fall back, keep for the next time.

The fallback of the convergence gate, in this order: a fit that fails is continued by one more
pass; if that fails too, the last draws that passed stay, reweighted, and the failure is reported.
A program that has no such draws yet is left with the failed ones, which is reported too.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bayes_cmab.data import Data
from bayes_cmab.inference.fit import Fit, Sampler
from bayes_cmab.inference.gate import Check, Gate, overall
from bayes_cmab.inference.refit import Never
from bayes_cmab.policies.draws import DrawsPolicy, HyperparameterDraws
from bayes_cmab.posteriors import WeightedDraws
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
    policy: DrawsPolicy[Any],
    sampler: Sampler,
    gate: Gate,
    data: Data,
    key: PRNGKeyArray,
    previous: Inferred | None = None,
    names: tuple[str, ...] | None = None,
) -> tuple[Inferred, Any, dict[str, Attempt]]:
    """Fit programs and condition on the data.

    Parameters
    ----------
    policy, sampler, gate : what is inferred, how, and what passes.
    data : all rows.
    key : of this fit.
    previous : the last inference; None at the first, which fits all programs.
    names : programs to fit, with those that they are `DrawsPolicy.joined` with; all by default.

    Returns
    -------
    The inference, the policy's state, and what became of each fit.
    """
    everything = policy.names
    names = everything if names is None or previous is None else policy.joined(names)
    sampler = without_refits(sampler)
    draws = {} if previous is None else dict(previous.draws.programs)
    fresh = dict.fromkeys(everything, False)
    fits = {} if previous is None else dict(previous.fits)
    following = {} if previous is None else dict(previous.following)
    passed = {} if previous is None else dict(previous.passed)
    attempts = {}
    for name in names:
        index = everything.index(name)
        start = following.get(name)
        before = {earlier: draws[earlier] for earlier in everything[:index]}
        drawn = {earlier: np.asarray(fresh[earlier]) for earlier in before}
        arguments = _given(policy, name, data, before, drawn)
        own = (policy.models()[name], sampler, arguments, jax.random.fold_in(key, index))
        fit, attempts[name] = attempt_fit(*own, gate, name, start, keep=passed.get(name, False))
        following[name] = fit.following
        if attempts[name].accepted:
            fits[name], passed[name] = fit, overall(attempts[name].checks) != "failed"
            draws[name] = WeightedDraws(fit.sites, -fit.log_weight)
            fresh[name] = True
    width = data.outcomes.intermediates.shape[1]
    lengthscale = jnp.ones(width) if previous is None else previous.draws.lengthscale
    chosen = HyperparameterDraws(draws, lengthscale)
    settled, state = settle(policy, chosen, data, np.array([fresh[n] for n in everything]))
    return Inferred(settled, fits, following, passed), state, attempts


def without_refits(sampler: Sampler) -> Sampler:
    """Return a sampler that compiles to the same programs whatever its refit policy is."""
    # A protocol cannot say that its classes are dataclasses.
    plain: Sampler = replace(sampler, refit=Never())  # type: ignore[type-var]
    return plain


def attempt_fit(
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


@partial(jax.jit, static_argnums=(0, 1))
def _given(
    policy: DrawsPolicy[Any],
    name: str,
    data: Data,
    draws: Mapping[str, WeightedDraws],
    fresh: Mapping[str, Bool[Array, ""]],
) -> tuple[Any, ...]:
    return policy.given(name, data, draws, fresh)


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
    policy: DrawsPolicy[Any],
    draws: HyperparameterDraws,
    data: Data,
    fresh: Bool[Array, " programs"],
) -> tuple[HyperparameterDraws, Any]:
    """Condition on the data; see `DrawsPolicy.refitted`."""
    return policy.refitted(draws, data, fresh)


@partial(jax.jit, static_argnums=0)
def log_weights(policy: DrawsPolicy[Any], posterior: Any) -> dict[str, Array]:
    """Return the normalised log weights of the draws of each program."""
    return policy.log_weights(posterior)


@partial(jax.jit, static_argnums=0)
def effective_shares(policy: DrawsPolicy[Any], posterior: Any) -> Float[Array, " programs"]:
    """Return the effective sample size over the number of draws, by program."""
    return policy.effective_shares(posterior)
