"""The posterior of the hyperparameters for ArviZ: one DataTree in its conventions.

Every group but the predictions concerns the hyperparameters or the reward model. The embedding's
likelihood is composite, so it gives hyperparameters but no pointwise log likelihood of its own.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, PRNGKeyArray

from bayes_cmab.data import Data
from bayes_cmab.files import versions
from bayes_cmab.inference.fit import Fit
from bayes_cmab.inference.gate import Check, Gate
from bayes_cmab.inference.marginal import Inferred
from bayes_cmab.models.priors import Sites
from bayes_cmab.policies import DrawsPolicy
from bayes_cmab.predictive import (
    over_draws,
    pointwise_log_likelihood,
    prior_predictive,
    replicate,
)
from bayes_cmab.programs import prior_draws, prior_log_density, sample_sites
from bayes_cmab.session import Session
from bayes_cmab.settings import Settings
from bayes_cmab.steps import AgentState
from bayes_cmab.validate import FloatArray

ATTRIBUTE = "bayes_cmab"
"""Name of the JSON attribute of a posterior's DataTree."""

PRIOR_DRAWS = 500

DIMS = {
    "reward_lengthscale": ["r_dim"],
    "reward_main_lengthscale": ["r_dim"],
    "reward_main_scale": ["r_dim"],
    "embedding_lengthscale_s": ["s_dim"],
    "embedding_lengthscale_a": ["a_dim"],
    "transition_lengthscale_s": ["r_dim", "s_dim"],
    "transition_lengthscale_a": ["r_dim", "a_dim"],
    "transition_scale_s": ["r_dim"],
    "transition_scale_a": ["r_dim"],
    "transition_scale_sa": ["r_dim"],
    "transition_noise_scale": ["r_dim"],
    "transition_noise": ["r_dim"],
    "transition_noise_factor_s": ["r_dim", "s_dim", "knot"],
    "transition_noise_factor_a": ["r_dim", "a_dim", "knot"],
    "outcome": ["obs_id"],
    "intermediate": ["obs_id", "r_dim"],
    "transition_context": ["transition_id", "s_dim"],
    "transition_action": ["transition_id", "a_dim"],
    "transition_intermediate": ["transition_id", "r_dim"],
    "offered_action": ["action", "a_dim"],
}
"""Dimensions of the variables, beyond chain and draw."""


def posterior_tree(
    settings: Settings,
    session: Session,
    offered: FloatArray,
    predictions: dict[str, FloatArray],
    key: PRNGKeyArray,
) -> xr.DataTree:
    """Return the posterior of an agent's hyperparameters as a DataTree.

    The draws are those of the last fit, before they were reweighted by the rows that have come
    since (`Agent.history` has the weights); everything else is computed with all rows at hand.

    Parameters
    ----------
    settings, session : of the agent, whose inference draws, after a fit.
    offered : (k, q), the actions of the predictions, as numbers.
    predictions : figures of each of them, (k,) each; empty if there is no context yet.
    key : of the round; the draws of the prior and of the predictive distributions come from it.

    Returns
    -------
    xarray.DataTree
        ``posterior``, ``prior``, ``sample_stats``, ``log_prior`` of the sites of all programs, in
        standardised units; ``observed_data``, ``constant_data``, ``posterior_predictive``,
        ``prior_predictive`` in the user's units; ``log_likelihood``, of each outcome given all
        others (the leave-one-out conditional of the Gaussian process); ``predictions``, the
        figures of each action (see `Agent.score`); with `SVI`, ``optimisation``, the trace of the
        evidence lower bound. The JSON attribute ``bayes_cmab`` has the versions, the seed, the
        round, the inference, the gate's verdicts, the programs' sites, and the units (centre and
        scale) that these are in.
    """
    import arviz_base

    state, policy = session.state, settings.core().policy
    inferred = state.inferred
    assert isinstance(policy, DrawsPolicy)
    assert inferred is not None
    data, units = state.data, state.scales
    programs = policy.names
    traces: Sites = {name: v for p in programs for name, v in inferred.fits[p].trace.items()}
    keys = jax.random.split(jax.random.fold_in(key, 3), 3)
    defaults = _default_sites(policy, data)
    log_prior = _log_prior(policy, data, traces, defaults)
    prior = _jitted_prior(policy, keys[0], data, defaults)
    model = policy.reward
    size = int(data.outcomes.size)

    def outcomes(values: Array) -> FloatArray:
        return np.asarray(units.outcome.restore(values))[..., :size]

    groups: dict[str, dict[str, Any]] = {
        "posterior": traces,
        "prior": jax.tree.map(lambda leaf: leaf[None], prior),
        "sample_stats": sample_stats(inferred),
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
        log_density = pointwise_log_likelihood(model, data.outcomes, traces)
        shift = float(np.log(units.outcome.scale))
        groups |= {
            "log_likelihood": {"outcome": np.asarray(log_density)[..., :size] - shift},
            "posterior_predictive": {
                "outcome": outcomes(over_draws(replicate, model, data.outcomes, traces, keys[1]))
            },
            "prior_predictive": {
                "outcome": outcomes(
                    over_draws(prior_predictive, model, data.outcomes, groups["prior"], keys[2])
                )
            },
        }
    d = data.outcomes.intermediates.shape[1]
    coords: dict[str, Any] = {
        "r_dim": [f"intermediate_{i}" for i in range(d)],
        "s_dim": list(settings.contexts.labels),
        "a_dim": list(settings.columns.labels),
        "obs_id": np.arange(size),
        "transition_id": np.arange(int(data.transitions.size)),
        "action": np.arange(len(offered)),
    }
    used = {name: DIMS[name] for group in groups.values() for name in group if name in DIMS}
    tree = arviz_base.from_dict(
        jax.device_get(groups), coords=coords, dims=used, check_conventions=False
    )
    densities = {name: v for own in log_prior.values() for name, v in jax.device_get(own).items()}
    tree["log_prior"] = xr.DataTree(
        arviz_base.dict_to_dataset(
            densities,
            coords=coords,
            # A site's density is one number where its values are one event, such as a vector.
            dims={name: DIMS[name][: v.ndim - 2] for name, v in densities.items() if name in DIMS},
            check_conventions=False,
        )
    )
    elbos = {
        f"{p}_elbo": ("step", np.asarray(inferred.fits[p].stats["elbo"]))
        for p in programs
        if "elbo" in inferred.fits[p].stats
    }
    if elbos:
        tree["optimisation"] = xr.DataTree(xr.Dataset(elbos))
    if predictions:
        figures = {name: ("action", np.asarray(value)) for name, value in predictions.items()}
        tree["predictions"] = xr.DataTree(
            xr.Dataset(figures, coords={"action": np.arange(len(offered))})
        )
    information = {
        "versions": versions("bayes-cmab", "jax", "numpyro", "arviz", "numpy", "xarray"),
        "seed": settings.seed,
        "round": session.round,
        "inference": repr(settings.inference),
        "gate": [[fit.round, fit.program, fit.reason, fit.verdict] for fit in session.fits],
        "programs": {program: sorted(own) for program, own in log_prior.items()},
        "units": {
            name: {"center": np.ravel(u.center).tolist(), "scale": np.ravel(u.scale).tolist()}
            for name, u in units._asdict().items()
        },
    }
    tree.attrs[ATTRIBUTE] = json.dumps(information, sort_keys=True)
    return tree


def sample_stats(inferred: Inferred) -> dict[str, FloatArray]:
    """Return the sampler's statistics: of each program by name, and of all together.

    The chains of the programs are independent: together their energies and log densities add up,
    and a step diverges if any does.
    """
    each = {p: jax.device_get(fit.stats) for p, fit in inferred.fits.items()}
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
            stats[name] = combine([own[name] for own in each.values()])
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


def _default_sites(policy: DrawsPolicy[Any], data: Data) -> Sites:
    """Return sites for the programs' arguments, of which only the likelihoods depend on them.

    Outside of compiled functions: a user's program is checked here, by its numbers.
    """
    t = data.transitions
    widths = (rows.shape[1] for rows in (t.contexts, t.actions, t.intermediates))
    return policy.default_sites(*widths)


@partial(jax.jit, static_argnums=0)
def _jitted_prior(
    policy: DrawsPolicy[Any], key: PRNGKeyArray, data: Data, defaults: Sites
) -> Sites:
    sites: Sites = {}
    for index, program in enumerate(policy.programs(data, defaults).values()):
        sites |= prior_draws(program, jax.random.fold_in(key, index), PRIOR_DRAWS)
    return sites


@partial(jax.jit, static_argnums=0)
def _log_prior(
    policy: DrawsPolicy[Any], data: Data, traces: Sites, defaults: Sites
) -> dict[str, Sites]:
    """Return the log prior density of the sample sites, program by program."""
    densities = {}
    for name, program in policy.programs(data, defaults).items():
        own = {site: traces[site] for site in sample_sites(program)}
        densities[name] = jax.vmap(jax.vmap(partial(prior_log_density, program)))(own)
    return densities
