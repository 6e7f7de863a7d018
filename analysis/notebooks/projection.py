"""The computations behind `moments`: operator form and Proposition on the same data."""

import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from figures import Floats
from jax.scipy.linalg import cho_factor, cho_solve

from bayes_cmab.comparison import explored
from bayes_cmab.data import Outcomes, Transitions
from bayes_cmab.environments import Environment
from bayes_cmab.kernels import power_gram, rbf
from bayes_cmab.models import EmbeddingModel, RewardModel
from bayes_cmab.moments import Moments, operator_moments, proposition_moments
from bayes_cmab.posteriors import (
    condition_embedding,
    condition_reward,
    condition_targets,
    embedding_weights,
    target_mean,
)
from bayes_cmab.worlds import declared_scales

REWARD, EMBEDDING = RewardModel(integrated_mean=False), EmbeddingModel()
"""The Proposition has no constant mean: the mean of the outcomes is subtracted in both forms."""

FORMS = {"operator": operator_moments, "proposition": proposition_moments}


class Rows(NamedTuple):
    """Transitions and outcomes, of which the first ones may be in use."""

    transitions: Transitions
    outcomes: Outcomes

    def first(self, size: int, offline: int) -> "Rows":
        """Return the first transitions with their outcomes, and the unmatched outcomes."""
        t, o = self.transitions, self.outcomes
        return Rows(
            t._replace(size=jnp.asarray(size)), o._replace(size=jnp.asarray(offline + size))
        )

    def unmatched(self, offline: int) -> "Rows":
        """Return the transitions, and the unmatched outcomes alone."""
        o = self.outcomes
        return self._replace(
            outcomes=Outcomes(o.intermediates[:offline], o.outcomes[:offline], jnp.asarray(offline))
        )


def rows_of(environment: Environment, size: int, offline: int, seed: int) -> Rows:
    """Return rows of uniform contexts and actions, in the setting's units."""
    return Rows(*explored(environment, size, offline, jax.random.key(seed)))


@partial(jax.jit, static_argnums=0)
def _condition(d: int, rows: Rows) -> tuple[Any, ...]:
    """Condition both models at the medians of their priors."""
    t = rows.transitions
    sites = REWARD.default_sites(d) | EMBEDDING.default_sites(1, 1)
    reward = condition_reward(REWARD, REWARD.hyperparameters(sites), rows.outcomes)
    targets = condition_targets(REWARD, reward, t.intermediates, t.size)
    hyper = EMBEDDING.hyperparameters(sites)
    embedding = condition_embedding(EMBEDDING, hyper, t.contexts, t.actions, t.size)
    return reward, targets, embedding


@partial(jax.jit, static_argnums=0)
def _moments(form: str, known: tuple[Any, ...], context: jax.Array, actions: jax.Array) -> Moments:
    return FORMS[form](REWARD, EMBEDDING, *known, context, actions)


def moments_of(
    form: str, environment: Environment, rows: Rows, context: float, every: int = 1
) -> Moments:
    """Return the moments of g at every so many of the grid's actions, in one context."""
    scales = declared_scales(environment)
    s = scales.context.standardise(jnp.asarray([context]))
    a = scales.action.standardise(environment.actions[::every])
    found: Moments = jax.device_get(
        _moments(form, _condition(environment.dim_intermediate, rows), s, a)
    )
    return found


def simulated(
    environment: Environment, rows: Rows, context: float, draws: int, seed: int, every: int = 1
) -> Floats:
    """Draw g at the grid's actions by its definition, (draws, actions).

    Given the data, ``mu = sum_i E_i phi(r_i) + sqrt(F - G) int phi(u) dW(u)`` with white noise W of
    intensity nu, so ``<f, mu> = sum_i E_i f(r_i) + sqrt(F - G) sum_k sqrt(w_k) z_k f(u_k)`` on a
    grid of nodes u with the weights w of nu. Neither moment formula is used.
    """
    d = environment.dim_intermediate
    reward, targets, embedding = _condition(d, rows)
    axis = jnp.linspace(-8.5, 8.5, 29)  # nu has standard deviation 2, f has lengthscale 1.2
    nodes = jnp.stack(jnp.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    weights = jnp.exp(-0.5 * jnp.sum((nodes / 2.0) ** 2, axis=1))
    weights = weights / jnp.sum(weights)
    n = targets.points.shape[0]
    points = jnp.concatenate([targets.points, nodes])
    joint = condition_targets(REWARD, reward, points, jnp.asarray(len(points)))
    mean, covariance = target_mean(REWARD, reward, joint), joint.covariance[1:, 1:]
    values, vectors = jnp.linalg.eigh(covariance)
    root = vectors * jnp.sqrt(jnp.maximum(values, 0.0))
    keys = jax.random.split(jax.random.key(seed))
    f = mean[1:] + jax.random.normal(keys[0], (draws, len(points))) @ root.T
    noise = jax.random.normal(keys[1], (draws, len(nodes))) * jnp.sqrt(weights)
    scales = declared_scales(environment)
    s = scales.context.standardise(jnp.asarray([context]))
    e = embedding_weights(
        EMBEDDING, embedding, s, scales.action.standardise(environment.actions[::every])
    )
    rest = jnp.sum(noise * f[:, n:], axis=1)[:, None] * jnp.sqrt(e.prior - e.explained)[None, :]
    return np.asarray(mean[0] + f[:, :n] @ e.weights.T + rest)


@partial(jax.jit, static_argnums=0)
def dense_proposition(
    d: int, rows: Rows, context: jax.Array, actions: jax.Array, jitter: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return mean and variance of the Proposition with a given jitter, term by term.

    The jitter is relative to the diagonals of ``K`` and ``R_rr``; where it is too small for a
    Cholesky factorisation the result is NaN. All rows must be in use, with no outcome matched to a
    transition, so that all points are distinct.
    """
    reward, targets, embedding = _condition(d, rows)
    r, points = targets.points, jnp.concatenate([targets.points, reward.points])
    lengthscale, measure = reward.hyper.lengthscale_r, reward.hyper.measure

    def nuclear(x: jax.Array, y: jax.Array) -> jax.Array:
        return power_gram(1, x, y, lengthscale, measure)

    def inverse(matrix: jax.Array) -> jax.Array:
        size = matrix.shape[0]
        stable = matrix + jitter * jnp.trace(matrix) / size * jnp.eye(size)
        return cho_solve(cho_factor(stable, lower=True), jnp.eye(size))

    joint = condition_targets(REWARD, reward, points, jnp.asarray(len(points)))
    mean, cov_f = target_mean(REWARD, reward, joint), joint.covariance[1:, 1:]
    K, R = rbf(points, points, lengthscale), nuclear(points, points)
    K_inverse, R_rr_inverse = inverse(K), inverse(nuclear(r, r))
    R_points_r = nuclear(points, r)
    theta_1 = K_inverse @ R_points_r @ R_rr_inverse @ rbf(r, r, lengthscale)
    theta_4 = K_inverse @ mean[1:]
    Q = R_points_r @ R_rr_inverse @ R_points_r.T
    spread = K_inverse @ cov_f @ K_inverse
    e = embedding_weights(EMBEDDING, embedding, context, actions)
    projected = e.weights @ theta_1.T
    whole = theta_4 @ R @ theta_4 + jnp.sum(spread * R)
    seen = theta_4 @ Q @ theta_4 + jnp.sum(spread * Q)
    variance = jnp.sum((projected @ cov_f) * projected, axis=1)
    variance = variance + e.prior * whole - e.explained * seen
    return mean[0] + e.weights @ rbf(r, points, lengthscale) @ theta_4, variance


def timings(
    environment: Environment, sizes: list[int], repeats: int, seed: int
) -> dict[str, list[float]]:
    """Return the least CPU seconds in which a conditioned agent scores one context, by form.

    The forms take turns, so that what else the machine does meets both.
    """
    found: dict[str, list[float]] = {form: [] for form in FORMS}
    context, actions = jnp.zeros(1), environment.actions
    for size in sizes:
        rows = rows_of(environment, size, size, seed)
        known = _condition(environment.dim_intermediate, rows)
        best = dict.fromkeys(FORMS, np.inf)
        for _ in range(repeats + 1):  # the first compiles
            for form in FORMS:
                begin = time.process_time()
                jax.block_until_ready(_moments(form, known, context, actions))
                best[form] = min(best[form], time.process_time() - begin)
        for form, seconds in best.items():
            found[form].append(seconds)
    return found
