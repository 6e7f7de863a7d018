"""Which kernels the data support: for ``f`` by PSIS-LOO, for ``P(r | s, a)`` by the kernel score.

Both compare predictions of each row from all others, so a model with more parameters is not
favoured by its fit.
"""

import json
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, PRNGKeyArray

from bayes_cmab.data import Data, Outcomes, Transitions
from bayes_cmab.diagnostics import ATTRIBUTE
from bayes_cmab.environments import Environment
from bayes_cmab.inference import MAP, NUTS, maximise_program
from bayes_cmab.inference.gate import Gate, overall
from bayes_cmab.inference.marginal import attempt_fit
from bayes_cmab.models import (
    AdditiveRewardModel,
    AnovaEmbeddingModel,
    EmbeddingModel,
    HeteroscedasticTransitionModel,
    RewardModel,
    TransitionModel,
)
from bayes_cmab.models.priors import Sites
from bayes_cmab.policies import EmbeddingPolicy, Policy, ResidualPolicy
from bayes_cmab.programs import sample_sites
from bayes_cmab.scaling import Units
from bayes_cmab.scores import embedding_scores, residual_scores, transition_scores
from bayes_cmab.validate import FloatArray
from bayes_cmab.worlds import declared_scales

if TYPE_CHECKING:
    import pandas as pd

SAMPLER = NUTS(draws=256, thinning=1)
GATE = Gate()
FIT = MAP(max_steps=200)

REWARD_MODELS: dict[str, RewardModel] = {
    "nuclear": RewardModel(),
    "rbf": RewardModel(power=0),
    "additive": AdditiveRewardModel(),
}
"""Candidates for ``f``: the nuclear dominant kernel, an RBF kernel, and main effects beside it."""


class Candidate(NamedTuple):
    """A model of ``P(r | s, a)``.

    Attributes
    ----------
    policy : whose programs, except the reward's, are fitted.
    score : from its sites and the transitions to the scores (N,).
    """

    policy: Policy[Any]
    score: Callable[[Sites, Transitions], Array]


TRANSITION_MODELS: dict[str, Candidate] = {
    "product": Candidate(EmbeddingPolicy(), partial(embedding_scores, EmbeddingModel())),
    "anova": Candidate(
        EmbeddingPolicy(embedding=AnovaEmbeddingModel()),
        partial(embedding_scores, AnovaEmbeddingModel()),
    ),
    "gaussian": Candidate(ResidualPolicy(), partial(transition_scores, TransitionModel())),
    "residual": Candidate(
        ResidualPolicy(), partial(residual_scores, TransitionModel(), AnovaEmbeddingModel())
    ),
    "varying": Candidate(
        ResidualPolicy(transition=HeteroscedasticTransitionModel()),
        partial(residual_scores, HeteroscedasticTransitionModel(), AnovaEmbeddingModel()),
    ),
}
"""Candidates: embeddings with a product or an ANOVA kernel, normal transition GPs, the two
together, and these with a noise of ``r`` that varies."""


class Comparison(NamedTuple):
    """What came of a comparison.

    Attributes
    ----------
    table : one row per model, the best first.
    pointwise : (n,) of each model, ``elpd`` or minus the score.
    """

    table: "pd.DataFrame"
    pointwise: dict[str, FloatArray]


def compare_rewards(outcomes: Outcomes, key: PRNGKeyArray) -> Comparison:
    """Rank `REWARD_MODELS` by PSIS-LOO.

    The importance ratios are ``1 / p(y_i | y_{-i}, theta)``, as a Gaussian process's outcomes are
    not independent given its hyperparameters (Buerkner, Gabry and Vehtari 2020).

    Parameters
    ----------
    outcomes : in standardised units.
    key : for NUTS.

    Returns
    -------
    Comparison
        Columns ``model``, ``elpd`` (expected log predictive density, with its standard error
        ``se``), ``difference`` to the best (with ``se_difference``), ``weight`` (stacking),
        ``largest_pareto_k`` with ``pareto_k_limit``, above which the row's leave-one-out density
        is not to be trusted, and ``verdict`` of the convergence gate.
    """
    import arviz_base
    import arviz_stats
    import pandas as pd

    from bayes_cmab.predictive import pointwise_log_likelihood

    size = int(outcomes.size)
    loos, rows, pointwise = {}, {}, {}
    for index, (name, model) in enumerate(REWARD_MODELS.items()):
        own = jax.random.fold_in(key, index)
        fit, tried = attempt_fit(model, SAMPLER, (outcomes,), own, GATE, name, None, keep=False)
        density = np.asarray(pointwise_log_likelihood(model, outcomes, fit.trace))[..., :size]
        tree = arviz_base.from_dict(
            {"posterior": jax.device_get(fit.trace), "log_likelihood": {"outcome": density}}
        )
        with warnings.catch_warnings():  # of the Pareto k: it is in the table
            warnings.simplefilter("ignore", UserWarning)
            loo = arviz_stats.loo(tree, pointwise=True)
        pointwise[name] = np.asarray(loo.elpd_i)
        rows[name] = {
            "elpd": float(loo.elpd),
            "se": float(loo.se),
            "largest_pareto_k": float(np.max(loo.pareto_k)),
            "pareto_k_limit": float(loo.good_k),
            "verdict": overall(tried.checks),
        }
        loos[name] = loo
    compared = arviz_stats.compare(loos, method="stacking")
    weights = {str(name): float(compared.loc[name, "weight"]) for name in compared.index}
    table = pd.DataFrame.from_dict(rows, orient="index").assign(weight=pd.Series(weights))
    return Comparison(_ranked(table, pointwise, "elpd"), pointwise)


def compare_transitions(transitions: Transitions) -> Comparison:
    """Rank `TRANSITION_MODELS` by the leave-one-out kernel score, hyperparameters at their mode.

    Parameters
    ----------
    transitions : in standardised units.

    Returns
    -------
    Comparison
        Columns ``model``, ``score`` (the sum of minus the kernel scores: larger is better, with its
        standard error ``se``), ``difference`` to the best (with ``se_difference``).
    """
    import pandas as pd

    t = transitions
    p, q, d = t.contexts.shape[1], t.actions.shape[1], t.intermediates.shape[1]
    data = Data.empty(p, q, d)._replace(transitions=t)
    rows, pointwise = {}, {}
    fitted: dict[Policy[Any], Sites] = {}  # two candidates share one
    for name, (policy, score) in TRANSITION_MODELS.items():
        if policy not in fitted:
            fitted[policy] = _fit(policy, data, policy.default_sites(p, q, d))
        pointwise[name] = -np.asarray(jax.jit(score)(fitted[policy], t))[: int(t.size)]
        rows[name] = {"score": pointwise[name].sum(), "se": _standard_error(pointwise[name])}
    table = pd.DataFrame.from_dict(rows, orient="index")
    return Comparison(_ranked(table, pointwise, "score"), pointwise)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _explored(
    environment: Environment, rows: int, offline: int, key: PRNGKeyArray
) -> tuple[Array, Array, Array, Array]:
    keys = jax.random.split(key, 4)
    s = jax.random.choice(keys[0], environment.contexts, (rows,))
    a = jax.random.choice(keys[1], environment.actions, (rows,))
    noise = jax.vmap(lambda t: environment.draw(keys[2], t))(jnp.arange(rows))
    r, y = jax.vmap(environment.answer)(noise, s, a)
    known_r, known_y = environment.sample_offline(keys[3], offline)
    return s, a, jnp.concatenate([known_r, r]), jnp.concatenate([known_y, y])


def explored(
    environment: Environment, rows: int, offline: int, key: PRNGKeyArray
) -> tuple[Transitions, Outcomes]:
    """Return what uniform contexts and actions yield in a setting, in its units.

    Parameters
    ----------
    rows : transitions with their outcomes. offline : outcomes without a transition.
    """
    s, a, r, y = _explored(environment, rows, offline, key)
    scales = declared_scales(environment)
    r, y = scales.intermediate.standardise(r), scales.outcome.standardise(y)
    s, a = scales.context.standardise(s), scales.action.standardise(a)
    return (
        Transitions.create(s, a, r[offline:], capacity=rows),
        Outcomes.create(r, y, capacity=rows + offline),
    )


def stored(tree: xr.DataTree) -> tuple[Transitions, Outcomes]:
    """Return the data of a stored posterior (`Agent.posterior`), in the agent's units.

    Raises
    ------
    ValueError
        If there are fewer than three transitions or outcomes.
    """
    constant, observed = tree["constant_data"], tree["observed_data"]
    names = ("transition_context", "transition_action", "transition_intermediate", "intermediate")
    s, a, seen, r = (np.asarray(constant[name].values, float) for name in names)
    y = np.asarray(observed["outcome"].values, float)
    if min(len(s), len(y)) < 3:
        raise ValueError(
            f"posterior: expected at least 3 transitions and 3 outcomes, got {len(s)} and {len(y)}"
        )
    units = _stored_units(tree)
    s, a, r, seen, y = (
        np.asarray(units[name].standardise(jnp.asarray(rows)))
        for name, rows in (
            *(("context", s), ("action", a)),
            *(("intermediate", r), ("intermediate", seen), ("outcome", y[:, None])),
        )
    )
    return Transitions.create(s, a, seen), Outcomes.create(r, y[:, 0])


def _stored_units(tree: xr.DataTree) -> dict[str, Units]:
    try:
        units = json.loads(tree.attrs[ATTRIBUTE])["units"]
        return {
            name: Units(jnp.asarray(own["center"]), jnp.asarray(own["scale"]))
            for name, own in units.items()
        }
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"posterior: expected the units of its agent, which this version writes, got: {error!r}"
        ) from error


@partial(jax.jit, static_argnums=0)
def _fit(policy: Policy[Any], data: Data, start: Sites) -> Sites:
    """Return the mode of all programs but the reward's."""
    sites = dict(start)
    for name in policy.models():
        if name == "reward":
            continue
        program = policy.programs(data, sites)[name]
        own = {site: start[site] for site in sample_sites(program)}
        found, _ = maximise_program(program, own, FIT)
        sites |= {site: found[site] for site in own}
    return sites


def _standard_error(values: FloatArray) -> float:
    return float(np.sqrt(len(values)) * np.std(values, ddof=1))


def _ranked(table: "pd.DataFrame", pointwise: dict[str, FloatArray], figure: str) -> "pd.DataFrame":
    """Sort by a figure, and add the differences to the best."""
    table = table.sort_values(figure, ascending=False)
    best = pointwise[str(table.index[0])]
    gaps = {name: values - best for name, values in pointwise.items()}
    table.insert(2, "difference", [float(gaps[str(name)].sum()) for name in table.index])
    errors = [_standard_error(gaps[str(name)]) for name in table.index]
    table.insert(3, "se_difference", errors)
    return table.rename_axis("model").reset_index()
