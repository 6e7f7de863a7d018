"""The posterior of the hyperparameters for ArviZ: one DataTree in its conventions.

Every group but the predictions concerns the hyperparameters or the reward model. The embedding's
likelihood is composite, so it gives hyperparameters but no pointwise log likelihood of its own.
"""

import json
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, PRNGKeyArray

from bayes_cmab.data import Outcomes
from bayes_cmab.inference.fit import Fit
from bayes_cmab.inference.gate import Check, Gate
from bayes_cmab.inference.marginal import Inferred
from bayes_cmab.models import RewardModel
from bayes_cmab.models.priors import Sites
from bayes_cmab.policies import MarginalPolicy
from bayes_cmab.policies.marginal import PROGRAMS
from bayes_cmab.predictive import leave_one_out, prior_predictive, replicate
from bayes_cmab.programs import prior_draws, prior_log_density, sample_sites
from bayes_cmab.steps import AgentState
from bayes_cmab.validate import FloatArray

ATTRIBUTE = "bayes_cmab"
"""Name of the JSON attribute of a posterior's DataTree."""

PRIOR_DRAWS = 500

DIMS = {
    "reward_lengthscale": ["r_dim"],
    "embedding_lengthscale_s": ["s_dim"],
    "embedding_lengthscale_a": ["a_dim"],
    "outcome": ["obs_id"],
    "intermediate": ["obs_id", "r_dim"],
    "transition_context": ["transition_id", "s_dim"],
    "transition_action": ["transition_id", "a_dim"],
    "transition_intermediate": ["transition_id", "r_dim"],
    "offered_action": ["action", "a_dim"],
}
"""Dimensions of the variables, beyond chain and draw."""


def posterior_tree(
    policy: MarginalPolicy,
    state: AgentState,
    offered: FloatArray,
    labels: dict[str, tuple[str, ...]],
    predictions: dict[str, FloatArray],
    key: PRNGKeyArray,
    information: dict[str, Any],
) -> xr.DataTree:
    """Return the posterior as a DataTree; see `Agent.posterior`.

    Parameters
    ----------
    policy, state : of the agent, after a fit.
    offered : the actions (k, q).
    labels : of the columns of contexts and actions, by the name of their dimension.
    predictions : figures of each action, (k,) each; empty if there is no context yet.
    key : for the draws of the prior and of the predictive distributions.
    information : for the JSON attribute.
    """
    import arviz_base

    inferred = state.inferred
    assert inferred is not None
    data, units = state.data, state.scales
    traces: Sites = {name: v for p in PROGRAMS for name, v in inferred.fits[p].trace.items()}
    keys = jax.random.split(key, 3)
    log_prior = _log_prior(policy, data, traces)
    prior = _jitted_prior(policy, keys[0], data)
    model = policy.base.reward
    size = int(data.outcomes.size)

    def outcomes(values: Array) -> FloatArray:
        return np.asarray(units.outcome.restore(values))[..., :size]

    groups: dict[str, dict[str, Any]] = {
        "posterior": traces,
        "prior": jax.tree.map(lambda leaf: leaf[None], prior),
        "sample_stats": sample_stats(inferred),
        "log_prior": {name: value for own in log_prior.values() for name, value in own.items()},
        "observed_data": {"outcome": outcomes(data.outcomes.outcomes)},
        "constant_data": {
            "intermediate": np.asarray(units.intermediate.restore(data.outcomes.intermediates))[
                :size
            ],
            **_transitions(state),
            "offered_action": offered,
        },
    }
    if size:
        log_density = _over_draws(_log_density, model, data.outcomes, traces, keys[1])
        shift = float(np.log(units.outcome.scale))
        groups |= {
            "log_likelihood": {"outcome": np.asarray(log_density)[..., :size] - shift},
            "posterior_predictive": {
                "outcome": outcomes(_over_draws(replicate, model, data.outcomes, traces, keys[1]))
            },
            "prior_predictive": {
                "outcome": outcomes(
                    _over_draws(prior_predictive, model, data.outcomes, groups["prior"], keys[2])
                )
            },
        }
    d = data.outcomes.intermediates.shape[1]
    coords: dict[str, Any] = {
        "r_dim": [f"intermediate_{i}" for i in range(d)],
        **{dim: list(names) for dim, names in labels.items()},
        "obs_id": np.arange(size),
        "transition_id": np.arange(int(data.transitions.size)),
        "action": np.arange(len(offered)),
    }
    used = {name: DIMS[name] for group in groups.values() for name in group if name in DIMS}
    tree = arviz_base.from_dict(
        jax.device_get(groups), coords=coords, dims=used, check_conventions=False
    )
    elbos = {
        f"{p}_elbo": ("step", np.asarray(inferred.fits[p].stats["elbo"]))
        for p in PROGRAMS
        if "elbo" in inferred.fits[p].stats
    }
    if elbos:
        tree["optimisation"] = xr.DataTree(xr.Dataset(elbos))
    if predictions:
        figures = {name: ("action", np.asarray(value)) for name, value in predictions.items()}
        tree["predictions"] = xr.DataTree(
            xr.Dataset(figures, coords={"action": np.arange(len(offered))})
        )
    names = {program: sorted(own) for program, own in log_prior.items()}
    tree.attrs[ATTRIBUTE] = json.dumps(information | {"programs": names}, sort_keys=True)
    return tree


def versions() -> dict[str, str]:
    """Return the versions of what computed a posterior."""
    packages = ("bayes-cmab", "jax", "numpyro", "arviz", "numpy", "xarray")
    return {name: version(name) for name in packages}


def sample_stats(inferred: Inferred) -> dict[str, FloatArray]:
    """Return the sampler's statistics: of both programs by name, and of both together.

    The chains of the two programs are independent: together their energies and log densities add
    up, and a step diverges if either does.
    """
    each = {p: jax.device_get(inferred.fits[p].stats) for p in PROGRAMS}
    stats = {
        f"{program}_{name}": np.asarray(value)
        for program, own in each.items()
        for name, value in own.items()
        if name != "elbo"
    }
    together: dict[str, Callable[[Any], Any]] = {
        "lp": partial(np.sum, axis=0),
        "energy": partial(np.sum, axis=0),
        "n_steps": partial(np.sum, axis=0),
        "tree_depth": partial(np.max, axis=0),
        "acceptance_rate": partial(np.mean, axis=0),
        "step_size": partial(np.min, axis=0),
        "diverging": partial(np.any, axis=0),
    }
    for name, combine in together.items():
        if all(name in own for own in each.values()):
            stats[name] = combine([each[p][name] for p in PROGRAMS])
    return stats


def gate_checks(tree: xr.DataTree, gate: Gate) -> list[Check]:
    """Return the checks of a stored posterior, program by program.

    Raises
    ------
    ValueError
        If the tree is not one of `Agent.posterior`.
    """
    try:
        information = json.loads(tree.attrs[ATTRIBUTE])
        checks = []
        for program, sites in information["programs"].items():
            trace: dict[str, Any] = {site: tree["posterior"][site].values for site in sites}
            prefix = f"{program}_"
            stats: dict[str, Any] = {
                str(name).removeprefix(prefix): value.values
                for group in ("sample_stats", "optimisation")
                if group in tree.children
                for name, value in tree[group].data_vars.items()
                if str(name).startswith(prefix)
            }
            checks += gate.check(program, Fit({}, jnp.zeros(1), trace, stats, None))
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"posterior: expected a file of Agent.posterior(), got: {error}"
        ) from error
    return checks


def _transitions(state: AgentState) -> dict[str, FloatArray]:
    t, units = state.data.transitions, state.scales
    size = int(t.size)
    return {
        "transition_context": np.asarray(units.context.restore(t.contexts))[:size],
        "transition_action": np.asarray(units.action.restore(t.actions))[:size],
        "transition_intermediate": np.asarray(units.intermediate.restore(t.intermediates))[:size],
    }


@partial(jax.jit, static_argnums=0)
def _jitted_prior(policy: MarginalPolicy, key: PRNGKeyArray, data: Any) -> Sites:
    sites: Sites = {}
    for index, program in enumerate(policy.programs(data, {}).values()):
        sites |= prior_draws(program, jax.random.fold_in(key, index), PRIOR_DRAWS)
    return sites


@partial(jax.jit, static_argnums=0)
def _log_prior(policy: MarginalPolicy, data: Any, traces: Sites) -> dict[str, Sites]:
    """Return the log prior density of the sample sites, program by program."""
    densities = {}
    for name, program in policy.programs(data, {}).items():
        own = {site: traces[site] for site in sample_sites(program)}
        densities[name] = jax.vmap(jax.vmap(partial(prior_log_density, program)))(own)
    return densities


def _log_density(model: RewardModel, hyper: Any, outcomes: Outcomes, key: PRNGKeyArray) -> Array:
    del key
    return leave_one_out(model, hyper, outcomes).log_density


@partial(jax.jit, static_argnums=(0, 1))
def _over_draws(
    function: Callable[..., Array],
    model: RewardModel,
    outcomes: Outcomes,
    sites: Sites,
    key: PRNGKeyArray,
) -> Array:
    """Evaluate a function of the reward model's hyperparameters at every draw, one by one."""
    names = model.default_sites(outcomes.intermediates.shape[1])
    own = {name: sites[name] for name in names}
    chains, draws = next(iter(own.values())).shape[:2]
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), own)
    keys = jax.random.split(key, chains * draws)

    def one(inputs: tuple[Sites, PRNGKeyArray]) -> Array:
        return function(model, model.hyperparameters(inputs[0]), outcomes, inputs[1])

    values: Array = jax.lax.map(one, (flat, keys))
    return jnp.reshape(values, (chains, draws, *values.shape[1:]))
