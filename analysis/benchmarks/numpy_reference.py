r"""A fixed-hyperparameter trial of CBMP-UCB and of CME-UCB, written with NumPy and SciPy alone.

What one writes who reads the papers and opens an editor: in every round the Gram matrices of all
rows so far are built and factorised, all actions are scored at once, the best one is played. It
uses the numerical libraries well (vectorised over the rows and the actions, Cholesky solves, one
solve for all actions, constants computed once a trial); what it does not do is carry a
factorisation from one round to the next. `trial_speed.py` measures the package against it, and
`tests/test_benchmarks.py` checks that both play the same actions.

Everything is in the agent's units (standardised), apart from what the environment computes.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.spatial.distance import cdist

type Floats = NDArray[np.float64]


class Setting(NamedTuple):
    """A setting of the paper's simulations.

    Attributes
    ----------
    mean : (s, a), two numbers, to the mean (d,) of r.
    reward : f, of r (d,).
    outcome_noise : standard deviation of y given r; that of r is 0.25 in each dimension.
    """

    mean: Callable[[float, float], Floats]
    reward: Callable[[Floats], float]
    outcome_noise: float


INTERMEDIATE_NOISE = 0.25


def _mean_d(s: float, a: float) -> Floats:
    return np.array([np.sin(s), np.cos(a), np.sin(a), np.cos(s), np.sin(s) + np.cos(s)])


def _sines(r: Floats) -> float:
    return 1.5 * np.sin(np.pi * r).sum() + 1.0


SETTINGS = {
    "A": Setting(
        lambda s, a: np.array([np.sin(np.pi * s) + np.cos(np.pi * a)]),
        lambda r: 1.5 * np.sin(r[0]) + 1.0,
        0.05,
    ),
    "B": Setting(
        lambda s, a: np.array([np.sin(s + a), np.sin(s - a)]),
        lambda r: 1.5 * (np.tanh(5.0 * np.pi * r[0]) + np.cos(np.pi * r[0])) + 1.0,
        1.0,
    ),
    "C": Setting(lambda s, a: np.array([np.sin(s), np.cos(a)]), _sines, 1.0),
    "D": Setting(_mean_d, _sines, 1.0),
}


class Hyperparameters(NamedTuple):
    """The hyperparameters of both agents (CME-UCB ignores the variances and the measure).

    Attributes
    ----------
    lengthscale_r : (d,). lengthscale_s : (p,). lengthscale_a : (q,).
    reward_variance, reward_noise, mean_variance : of the reward GP.
    measure_mean, measure_scale : (d,) of the measure nu.
    embedding_variance, embedding_noise : of the embedding.
    """

    lengthscale_r: Floats
    reward_variance: float
    reward_noise: float
    mean_variance: float
    measure_mean: Floats
    measure_scale: Floats
    lengthscale_s: Floats
    lengthscale_a: Floats
    embedding_variance: float
    embedding_noise: float


class Inputs(NamedTuple):
    """Everything random of a trial, and the grid.

    Attributes
    ----------
    actions : (k, q) offered in every round, in the environment's units.
    center, scale : (1,) of the grid, for contexts and actions alike.
    mean_reward : (k, k) the environment's mean reward by context (rows) and action.
    contexts : (rounds,) row of the grid of each round's context.
    intermediate_noise : (rounds, d) standard normals. outcome_noise : (rounds,).
    ties : (rounds, k) uniform draws that break ties.
    offline_intermediates : (m, d). offline_outcomes : (m,).
    """

    actions: Floats
    center: Floats
    scale: Floats
    mean_reward: Floats
    contexts: NDArray[np.int64]
    intermediate_noise: Floats
    outcome_noise: Floats
    ties: Floats
    offline_intermediates: Floats
    offline_outcomes: Floats


class Data(NamedTuple):
    """The rows so far: (s, a, r) of D1, and (r, y) of D2."""

    contexts: Floats
    actions: Floats
    intermediates: Floats
    points: Floats
    outcomes: Floats


class Played(NamedTuple):
    """What is recorded of a trial, each of shape (rounds,).

    Attributes
    ----------
    action_index, outcome, mean_reward, best_mean_reward : what happened.
    predicted_mean, predicted_variance : of the chosen action.
    margin : by which its score exceeds the best different score.
    """

    action_index: NDArray[np.int64]
    outcome: Floats
    mean_reward: Floats
    best_mean_reward: Floats
    predicted_mean: Floats
    predicted_variance: Floats
    margin: Floats


type Scorer = Callable[[Data, Floats, Floats], tuple[Floats, Floats]]


def rbf(x: Floats, y: Floats, lengthscale: Floats) -> Floats:
    """Return the Gram matrix of the RBF kernel."""
    return np.exp(-0.5 * cdist(x / lengthscale, y / lengthscale, "sqeuclidean"))


def matern52(x: Floats, y: Floats, lengthscale: Floats) -> Floats:
    """Return the Gram matrix of the Matern-5/2 kernel."""
    t = np.sqrt(5.0) * cdist(x / lengthscale, y / lengthscale)
    return (1.0 + t + t**2 / 3.0) * np.exp(-t)


def power_kernel(
    power: int, lengthscale: Floats, measure_mean: Floats, measure_scale: Floats
) -> tuple[float, Callable[[Floats, Floats], Floats]]:
    r"""Return ``<phi(c), T^p phi(c)>`` and the kernel ``<phi(x), T^p phi(y)>`` divided by it."""
    k = lengthscale**-2
    C, A, B = np.ones_like(k), k, k
    for _ in range(power):
        S = A + k + measure_scale**-2
        C, A, B = C / (measure_scale * np.sqrt(S)), k - k**2 / S, B * k / S

    def gram(x: Floats, y: Floats) -> Floats:
        u, v = x - measure_mean, y - measure_mean
        squares = (u**2 @ A)[:, None] + v**2 @ A
        return np.exp((u * B) @ v.T - 0.5 * squares)

    return float(np.prod(C)), gram


def cbmp_ucb(hyper: Hyperparameters) -> Scorer:
    r"""Return the moments of CBMP-UCB in operator form, as a function of the data.

    ``mean = m_b + E m_f``; ``variance = E kappa_f E' + 2 E Cov(f, b) + Var b
    + (F - G) second_moment``.
    """
    measure = hyper.measure_mean, hyper.measure_scale
    centre, nuclear = power_kernel(1, hyper.lengthscale_r, *measure)
    third_centre, third = power_kernel(3, hyper.lengthscale_r, *measure)
    q = hyper.reward_variance / centre
    trace = float(np.prod((1.0 + 4.0 * (hyper.measure_scale / hyper.lengthscale_r) ** 2) ** -0.5))
    mean_variance = hyper.mean_variance

    def score(data: Data, context: Floats, actions: Floats) -> tuple[Floats, Floats]:
        E, explained = _embedding(rbf, hyper, hyper.embedding_variance, data, context, actions)

        # The reward GP: A = R + mean_variance 11' + reward_noise I.
        n_outcomes = len(data.outcomes)
        if n_outcomes == 0:
            m_b, var_b, squared = 0.0, mean_variance, 0.0
            lower, fixed = np.zeros((0, 0)), np.zeros((0, 2))
            spread = q * trace
        else:
            A = hyper.reward_variance * nuclear(data.points, data.points) + mean_variance
            A[np.diag_indices(n_outcomes)] += hyper.reward_noise
            factor = cho_factor(A, lower=True, overwrite_a=True, check_finite=False)
            lower = factor[0]
            right = np.column_stack([data.outcomes, np.ones(n_outcomes)])
            fixed = cho_solve(factor, right, check_finite=False)
            m_b = mean_variance * fixed[:, 0].sum()
            var_b = mean_variance - mean_variance**2 * fixed[:, 1].sum()
            R3 = third_centre * third(data.points, data.points)
            squared = q**2 * (fixed[:, 0] @ R3 @ fixed[:, 0])
            inverse_R3 = cho_solve(factor, R3, check_finite=False)
            spread = q * trace - q**2 * np.trace(inverse_R3)
        second_moment = squared + spread

        # E kappa_f E' = E R E' - |L^-1 (E R(r, r~))'|^2, one triangular solve for all actions.
        r = data.intermediates
        projected = E @ (hyper.reward_variance * nuclear(r, data.points))
        prior = E @ (hyper.reward_variance * nuclear(r, r))
        whitened = solve_triangular(lower, projected.T, lower=True, check_finite=False)
        about_f = np.sum(prior * E, axis=1) - np.sum(whitened**2, axis=0)
        moved = projected @ fixed
        mean = m_b + moved[:, 0]
        about_reward = about_f - 2.0 * mean_variance * moved[:, 1] + var_b
        about_embedding = (hyper.embedding_variance - explained) * second_moment
        return mean, np.maximum(about_reward, 0.0) + np.maximum(about_embedding, 0.0)

    return score


def cme_ucb(hyper: Hyperparameters) -> Scorer:
    r"""Return the moments of CME-UCB as printed, as a function of the data.

    ``mean = ybar + E K_{r r~} (K_{r~r~} + reward_noise I)^-1 (y - ybar)``;
    ``variance = (1 - G) / embedding_noise``. Matern-5/2 on s and a, RBF on r, unit variances.
    """

    def score(data: Data, context: Floats, actions: Floats) -> tuple[Floats, Floats]:
        E, explained = _embedding(matern52, hyper, 1.0, data, context, actions)
        variance = np.maximum(1.0 - explained, 0.0) / hyper.embedding_noise
        n_outcomes = len(data.outcomes)
        if n_outcomes == 0:
            return np.zeros(len(actions)), variance
        K = rbf(data.points, data.points, hyper.lengthscale_r)
        K[np.diag_indices(n_outcomes)] += hyper.reward_noise
        factor = cho_factor(K, lower=True, overwrite_a=True, check_finite=False)
        offset = data.outcomes.mean()
        alpha = cho_solve(factor, data.outcomes - offset, check_finite=False)
        m_f = rbf(data.intermediates, data.points, hyper.lengthscale_r) @ alpha
        return offset + E @ m_f, variance

    return score


def _embedding(
    kernel: Callable[[Floats, Floats, Floats], Floats],
    hyper: Hyperparameters,
    variance: float,
    data: Data,
    context: Floats,
    actions: Floats,
) -> tuple[Floats, Floats]:
    """Return ``E = k_x(x, X) C^-1`` (k, n) and ``G = k_x(x, X) C^-1 k_x(X, x)`` (k,)."""
    n = len(data.contexts)
    if n == 0:
        return np.zeros((len(actions), 0)), np.zeros(len(actions))
    s, a = hyper.lengthscale_s, hyper.lengthscale_a
    C = kernel(data.contexts, data.contexts, s) * kernel(data.actions, data.actions, a)
    C *= variance
    C[np.diag_indices(n)] += hyper.embedding_noise
    # All actions share the context: one row of k_s.
    cross = variance * kernel(context[None], data.contexts, s) * kernel(actions, data.actions, a)
    factor = cho_factor(C, lower=True, overwrite_a=True, check_finite=False)
    weights = cho_solve(factor, cross.T, check_finite=False).T
    return weights, np.sum(weights * cross, axis=1)


AGENTS: dict[str, Callable[[Hyperparameters], Scorer]] = {
    "cbmp-fixed": cbmp_ucb,
    "cme-fixed": cme_ucb,
}
"""The reference of each agent of the registry."""


def play_trial(
    setting: Setting, scorer: Scorer, inputs: Inputs, beta: float, *, margins: bool = False
) -> Played:
    """Play one trial.

    Parameters
    ----------
    setting : the environment.
    scorer : of `cbmp_ucb` or `cme_ucb`.
    inputs : everything random.
    beta : the exploration weight; score = mean + sqrt(beta * variance).
    margins : whether to record by how much the best score exceeds the others.
    """
    rounds, d = inputs.intermediate_noise.shape
    offline = len(inputs.offline_outcomes)
    grid = (inputs.actions - inputs.center) / inputs.scale
    s, a = np.empty((rounds, 1)), np.empty((rounds, grid.shape[1]))
    points = np.concatenate([inputs.offline_intermediates, np.empty((rounds, d))])
    outcomes = np.concatenate([inputs.offline_outcomes, np.empty(rounds)])
    chosen = np.empty(rounds, int)
    predicted, margin = np.empty((rounds, 2)), np.full(rounds, np.nan)
    for t in range(rounds):
        row = inputs.contexts[t]
        seen = offline + t
        data = Data(s[:t], a[:t], points[offline:seen], points[:seen], outcomes[:seen])
        mean, variance = scorer(data, grid[row], grid)
        score = mean + np.sqrt(beta * variance)
        best = score == score.max()
        index = int(np.argmax(np.where(best, inputs.ties[t], -1.0)))
        if margins and not best.all():
            margin[t] = score[index] - score[~best].max()
        action = float(inputs.actions[index, 0])
        r = setting.mean(float(inputs.actions[row, 0]), action)
        r = r + INTERMEDIATE_NOISE * inputs.intermediate_noise[t]
        s[t], a[t] = grid[row], grid[index]
        points[seen] = r
        outcomes[seen] = setting.reward(r) + setting.outcome_noise * inputs.outcome_noise[t]
        chosen[t], predicted[t] = index, (mean[index], variance[index])
    table = inputs.mean_reward
    return Played(
        action_index=chosen,
        outcome=outcomes[offline:],
        mean_reward=table[inputs.contexts, chosen],
        best_mean_reward=table.max(axis=1)[inputs.contexts],
        predicted_mean=predicted[:, 0],
        predicted_variance=predicted[:, 1],
        margin=margin,
    )
