r"""What the reward model predicts of outcomes, under given hyperparameters.

Everything is in standardised units and padded: entries beyond ``outcomes.size`` mean nothing.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bayes_cmab.data import Outcomes
from bayes_cmab.linalg import cholesky, factorise, mask_gram
from bayes_cmab.models import RewardHyperparameters, RewardModel
from bayes_cmab.models.priors import Sites


class LeaveOneOut(NamedTuple):
    """Each outcome given all others, (M,).

    Attributes
    ----------
    mean, variance : of the predictive distribution.
    log_density : of the outcome under it.
    """

    mean: Float[Array, " M"]
    variance: Float[Array, " M"]
    log_density: Float[Array, " M"]


def outcome_offset(model: RewardModel, outcomes: Outcomes) -> Float[Array, ""]:
    """Return what the model subtracts from the outcomes: nothing if a mean is integrated out."""
    if model.integrated_mean:
        return jnp.zeros(())
    total = jnp.sum(jnp.where(outcomes.mask, outcomes.outcomes, 0.0))
    return total / jnp.maximum(outcomes.size, 1)


def leave_one_out(
    model: RewardModel, hyper: RewardHyperparameters, outcomes: Outcomes
) -> LeaveOneOut:
    r"""Return the leave-one-out predictive distribution of every outcome; ``O(M^3)``.

    With ``g = A^-1 y``: ``mean_i = y_i - g_i / (A^-1)_ii`` and ``variance_i = 1 / (A^-1)_ii``
    (Sundararajan and Keerthi 2001). A centred mean (``integrated_mean=False``) is not taken out.
    """
    mask = outcomes.mask
    offset = outcome_offset(model, outcomes)
    y = jnp.where(mask, outcomes.outcomes - offset, 0.0)
    factor = factorise(model.covariance(hyper, outcomes.intermediates), mask)
    precision = jnp.sum(factor.inverse**2, axis=0)
    pulled = factor.inverse.T @ (factor.inverse @ y)
    error = pulled / precision
    log_density = 0.5 * (jnp.log(precision) - pulled * error - jnp.log(2.0 * jnp.pi))
    return LeaveOneOut(offset + y - error, 1.0 / precision, log_density)


def replicate(
    model: RewardModel, hyper: RewardHyperparameters, outcomes: Outcomes, key: PRNGKeyArray
) -> Float[Array, " M"]:
    """Draw new outcomes at the same intermediates, from the posterior predictive distribution.

    ``y' = f + noise`` with ``f`` given the outcomes: by Matheron's rule from a joint prior draw of
    ``f`` and of the outcomes, which needs no factor of the posterior covariance.
    """
    mask, points = outcomes.mask, outcomes.intermediates
    signal = model.gram(hyper, points, points) + hyper.mean_variance
    lower, _ = cholesky(mask_gram(signal, mask), mask)
    keys = jax.random.split(key, 3)
    f, noise, again = (jax.random.normal(k, mask.shape) for k in keys)
    f = lower @ f
    deviation = jnp.sqrt(hyper.reward_noise)
    factor = factorise(model.covariance(hyper, points), mask)
    offset = outcome_offset(model, outcomes)
    residual = jnp.where(mask, outcomes.outcomes - offset - f - deviation * noise, 0.0)
    used = jnp.where(mask[None, :], signal, 0.0)
    update = used @ (factor.inverse.T @ (factor.inverse @ residual))
    return offset + f + update + deviation * again


def prior_predictive(
    model: RewardModel, hyper: RewardHyperparameters, outcomes: Outcomes, key: PRNGKeyArray
) -> Float[Array, " M"]:
    """Draw outcomes at the same intermediates as the prior predicts them."""
    mask, points = outcomes.mask, outcomes.intermediates
    lower, _ = cholesky(mask_gram(model.covariance(hyper, points), mask), mask)
    return outcome_offset(model, outcomes) + lower @ jax.random.normal(key, mask.shape)


def pointwise_log_likelihood(model: RewardModel, outcomes: Outcomes, traces: Sites) -> Array:
    """Return the log density of each outcome given all others, (chains, draws, M).

    Parameters
    ----------
    traces : of the reward model's sites, each (chains, draws, ...).
    """
    density: Array = over_draws(_log_density, model, outcomes, traces, jax.random.key(0))
    return density


def _log_density(model: RewardModel, hyper: Any, outcomes: Outcomes, key: PRNGKeyArray) -> Array:
    del key
    return leave_one_out(model, hyper, outcomes).log_density


@partial(jax.jit, static_argnums=(0, 1))
def over_draws(
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
