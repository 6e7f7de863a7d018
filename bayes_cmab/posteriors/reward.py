r"""The reward GP given the outcomes, and its joint posterior over the *targets*.

What the moments need of the reward GP is its joint posterior over ``(b, f(r_1), ..., f(r_n))`` at
the transitions' intermediates, kept up to date on both sides: a transition adds a target, an
outcome conditions all of them.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bayes_cmab.data import Outcomes
from bayes_cmab.linalg import Factor, append_row, factorise, row_mask, trace_solve
from bayes_cmab.models import (
    RewardHyperparameters,
    RewardModel,
)


class RewardPosterior(NamedTuple):
    """The reward GP given the outcomes.

    Attributes
    ----------
    hyper : hyperparameters.
    points : (M, d) intermediates of the outcomes.
    factor : of ``A``.
    whitened : (M, 2) ``W [y, 1]``.
    third : (M, M) ``q^2 R3``, see `RewardModel.third_gram`, zero in the padding; (0, 0) for the
        RBF kernel.
    trace : ``tr(A^-1 q^2 R3)``.
    total : sum of the outcomes.
    size : rows in use.
    """

    hyper: RewardHyperparameters
    points: Float[Array, "M d"]
    factor: Factor
    whitened: Float[Array, "M 2"]
    third: Float[Array, "M M"]
    trace: Float[Array, ""]
    total: Float[Array, ""]
    size: Int[Array, ""]


class Targets(NamedTuple):
    """Joint posterior of ``(b, f(r_1), ..., f(r_n))``.

    Attributes
    ----------
    points : (N, d) intermediates of the transitions.
    cross : (M, 1 + N) ``W`` times the prior covariance of the outcomes and the targets.
    response : (1 + N, 2) regression of the targets on ``y`` and on a constant.
    covariance : (1 + N, 1 + N).
    size : transitions in use.
    """

    points: Float[Array, "N d"]
    cross: Float[Array, "M N1"]
    response: Float[Array, "N1 2"]
    covariance: Float[Array, "N1 N1"]
    size: Int[Array, ""]


def condition_reward(
    model: RewardModel, hyper: RewardHyperparameters, outcomes: Outcomes
) -> RewardPosterior:
    """Condition the reward GP on outcomes; ``O(M^3)``."""
    points, mask = outcomes.intermediates, outcomes.mask
    factor = factorise(model.covariance(hyper, points), mask)
    both = mask[:, None] & mask[None, :]
    third, trace = jnp.zeros((0, 0)), jnp.zeros(())
    if model.power == 1:
        third = jnp.where(both, model.third_gram(hyper, points, points), 0.0)
        trace = trace_solve(factor, third)
    y = jnp.where(mask, outcomes.outcomes, 0.0)
    responses = jnp.stack([y, 1.0 * mask], axis=1)
    return RewardPosterior(
        hyper=hyper,
        points=points,
        factor=factor,
        whitened=factor.inverse @ responses,
        third=third,
        trace=trace,
        total=jnp.sum(y),
        size=outcomes.size,
    )


def reward_offset(model: RewardModel, reward: RewardPosterior) -> Float[Array, ""]:
    """Return what is subtracted from the outcomes: nothing if a mean is integrated out."""
    if model.integrated_mean:
        return jnp.zeros(())
    return reward.total / jnp.maximum(reward.size, 1)


def reward_alpha(model: RewardModel, reward: RewardPosterior) -> Float[Array, " M"]:
    """Return ``alpha = A^-1 (y - offset)``."""
    offset = reward_offset(model, reward)
    return (reward.whitened[:, 0] - offset * reward.whitened[:, 1]) @ reward.factor.inverse


def second_moment(model: RewardModel, reward: RewardPosterior) -> Float[Array, ""]:
    r"""Return ``integral of (m_f(u)^2 + kappa_f(u, u)) nu(du)``.

    ``q^2 alpha' R3 alpha + q Tr(T^2) - q^2 tr(A^-1 R3)`` with ``q = s_f^2 / <phi(c), T phi(c)>``.
    """
    alpha = reward_alpha(model, reward)
    return alpha @ reward.third @ alpha + model.mean_square(reward.hyper) - reward.trace


def condition_targets(
    model: RewardModel,
    reward: RewardPosterior,
    intermediates: Float[Array, "N d"],
    size: Int[Array, ""],
) -> Targets:
    """Return the posterior of the constant and of ``f`` at the transitions' intermediates."""
    hyper = reward.hyper
    used = row_mask(size, intermediates.shape[0])
    seen = row_mask(reward.size, reward.points.shape[0])
    gram = model.gram(hyper, reward.points, intermediates)
    constant = jnp.where(seen, hyper.mean_variance, 0.0)
    prior_cross = jnp.concatenate(
        [constant[:, None], jnp.where(seen[:, None] & used[None, :], gram, 0.0)], axis=1
    )
    cross = reward.factor.inverse @ prior_cross
    prior = jnp.where(
        used[:, None] & used[None, :], model.gram(hyper, intermediates, intermediates), 0.0
    )
    prior = jnp.pad(prior, ((1, 0), (1, 0))).at[0, 0].set(hyper.mean_variance)
    return Targets(
        points=intermediates,
        cross=cross,
        response=cross.T @ reward.whitened,
        covariance=prior - cross.T @ cross,
        size=size,
    )


def target_mean(
    model: RewardModel, reward: RewardPosterior, targets: Targets
) -> Float[Array, " N1"]:
    """Return the posterior mean of ``(b, f(r_1), ..., f(r_n))``, an offset counting as ``b``."""
    offset = reward_offset(model, reward)
    mean = targets.response[:, 0] - offset * targets.response[:, 1]
    return mean.at[0].add(offset)


def append_outcome(
    model: RewardModel,
    reward: RewardPosterior,
    targets: Targets,
    intermediate: Float[Array, " d"],
    outcome: Float[Array, ""],
) -> tuple[RewardPosterior, Targets]:
    """Condition the reward GP and the targets on one more outcome; ``O(M^2 + M N + N^2)``."""
    hyper, i, point = reward.hyper, reward.size, intermediate[None, :]
    seen = row_mask(i, reward.points.shape[0])
    used = row_mask(targets.size, targets.points.shape[0])
    gram = model.gram(hyper, point, reward.points)[0]
    own = model.gram(hyper, point, point)[0, 0]
    factor, v, pivot = append_row(
        reward.factor,
        jnp.where(seen, gram + hyper.mean_variance, 0.0),
        own + hyper.mean_variance + hyper.reward_noise,
        i,
    )
    whitened_row = (jnp.stack([outcome, jnp.ones(())]) - v @ reward.whitened) / pivot
    prior = jnp.where(used, model.gram(hyper, point, targets.points)[0], 0.0)
    prior = jnp.concatenate([hyper.mean_variance[None], prior])
    cross_row = (prior - v @ targets.cross) / pivot
    third, trace = reward.third, reward.trace
    if model.power == 1:
        points = reward.points.at[i].set(intermediate)
        column = model.third_gram(hyper, point, points)[0]
        column = jnp.where(row_mask(i + 1, points.shape[0]), column, 0.0)
        third = third.at[i].set(column).at[:, i].set(column)
        row = factor.inverse[i]
        trace = trace + row @ third @ row
    reward = reward._replace(
        points=reward.points.at[i].set(intermediate),
        factor=factor,
        whitened=reward.whitened.at[i].set(whitened_row),
        third=third,
        trace=trace,
        total=reward.total + outcome,
        size=i + 1,
    )
    targets = targets._replace(
        cross=targets.cross.at[i].set(cross_row),
        response=targets.response + cross_row[:, None] * whitened_row[None, :],
        covariance=targets.covariance - cross_row[:, None] * cross_row[None, :],
    )
    return reward, targets


def append_target(
    model: RewardModel,
    reward: RewardPosterior,
    targets: Targets,
    intermediate: Float[Array, " d"],
) -> Targets:
    """Add ``f(r)`` at one more transition to the targets; ``O(M^2 + M N)``."""
    hyper, j, point = reward.hyper, targets.size, intermediate[None, :]
    seen = row_mask(reward.size, reward.points.shape[0])
    used = row_mask(j, targets.points.shape[0])
    gram = jnp.where(seen, model.gram(hyper, reward.points, point)[:, 0], 0.0)
    column = reward.factor.inverse @ gram
    prior = jnp.where(used, model.gram(hyper, point, targets.points)[0], 0.0)
    covariance = jnp.concatenate([jnp.zeros(1), prior]) - column @ targets.cross
    own = model.gram(hyper, point, point)[0, 0] - column @ column
    covariance = covariance.at[j + 1].set(own)
    return Targets(
        points=targets.points.at[j].set(intermediate),
        cross=targets.cross.at[:, j + 1].set(column),
        response=targets.response.at[j + 1].set(column @ reward.whitened),
        covariance=targets.covariance.at[j + 1].set(covariance).at[:, j + 1].set(covariance),
        size=j + 1,
    )
