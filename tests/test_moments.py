"""The moments of g against draws of f and mu, against each other, and as a budget."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from scipy import stats

from bayes_cmab import moments, posteriors
from bayes_cmab.data import Outcomes, Transitions
from bayes_cmab.models import (
    EmbeddingHyperparameters,
    EmbeddingModel,
    RewardHyperparameters,
    RewardModel,
)
from bayes_cmab.moments import Moments

REWARD, EMBEDDING = RewardModel(), EmbeddingModel()
CAPACITY = 32  # of all problems but the largest, so that they share compiled functions
ACTIONS = jnp.linspace(-2.0, 2.5, 12)[:, None]

# Over a fresh seed, the whole Monte Carlo test would fail correct moments with at most this
# probability (Bonferroni over the comparisons it makes).
FALSE_ALARM_RATE = 1e-4
N_DRAWS = 40_000


class Problem(NamedTuple):
    """Hyperparameters, data and a query."""

    reward: RewardHyperparameters
    embedding: EmbeddingHyperparameters
    transitions: Transitions
    outcomes: Outcomes
    context: jax.Array
    actions: jax.Array


def condition(problem: Problem) -> tuple[Any, ...]:
    """Return the arguments of the moment functions."""
    reward = posteriors.condition_reward(REWARD, problem.reward, problem.outcomes)
    t = problem.transitions
    targets = posteriors.condition_targets(REWARD, reward, t.intermediates, t.size)
    embedding = posteriors.condition_embedding(
        EMBEDDING, problem.embedding, t.contexts, t.actions, t.size
    )
    return REWARD, EMBEDDING, reward, targets, embedding, problem.context, problem.actions


class Results(NamedTuple):
    """Everything computed of a problem, in one compiled function."""

    operator: Moments
    covariance: jax.Array
    proposition: Moments


@jax.jit
def compute(problem: Problem) -> Results:
    arguments = condition(problem)
    return Results(
        moments.operator_moments(*arguments),
        moments.operator_covariance(*arguments),
        moments.proposition_moments(*arguments),
    )


def one_dimensional(
    r: np.ndarray,
    r_outcomes: np.ndarray,
    seed: int,
    mean_variance: float = 0.0,
    lengthscale: float = 0.8,
) -> Problem:
    """Return a problem with the given intermediates; eta is 2."""
    rng = np.random.default_rng(seed)
    y = np.sin(1.5 * r_outcomes) + 0.7 + 0.3 * rng.normal(size=len(r_outcomes))
    s, a = rng.uniform(-1.0, 1.0, size=(2, len(r)))
    return Problem(
        RewardHyperparameters(
            lengthscale_r=jnp.array([lengthscale]),
            reward_variance=jnp.float64(1.3),
            reward_noise=jnp.float64(0.1),
            mean_variance=jnp.float64(mean_variance),
            measure_mean=jnp.array([0.1]),
            measure_scale=jnp.array([2.0]),
        ),
        EmbeddingHyperparameters(
            lengthscale_s=jnp.array([0.7]),
            lengthscale_a=jnp.array([0.8]),
            embedding_variance=jnp.float64(0.9),
            embedding_noise=jnp.float64(0.2),
        ),
        Transitions.create(s, a, r, capacity=max(CAPACITY, len(r))),
        Outcomes.create(r_outcomes, y, capacity=max(CAPACITY, len(y))),
        jnp.array([0.1]),
        ACTIONS,
    )


SMALL = one_dimensional(
    np.array([-1.9, -0.6, 0.1, 0.3, 1.4]), np.array([-2.5, -1.0, 0.2, 0.9, 1.4, 2.8]), 0, 2.0
)


def draws_of_mean_reward(
    problem: Problem, actions: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw g of each action (N_DRAWS, k), and the part of it that mu does not change.

    With nodes u and weights w of a rule for nu, T is the sum of w_k phi(u_k) (x) phi(u_k). So
    b + f is a linear model with weights z ~ N(0, I), here sampled from its posterior in weight
    space; and mu(x) = sum_k sqrt(w_k) c_k(x) phi(u_k) with independent c_k ~ GP(0, k_x), sampled
    a priori together with the noise functions, and moved to the posterior by the residual
    phi(r_i) - mu(x_i) - noise_i (Matheron's rule). No formula of the package is used.
    """
    rng = np.random.default_rng(seed)
    h, e = problem.reward, problem.embedding
    lengthscale, centre = float(h.lengthscale_r[0]), float(h.measure_mean[0])
    nodes = np.linspace(-6.0, 6.0, 48)
    w = stats.norm.pdf(nodes) * (nodes[1] - nodes[0])
    u = centre + float(h.measure_scale[0]) * nodes

    def k(x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * ((x[:, None] - z[None, :]) / lengthscale) ** 2)

    # f and b, given the outcomes.
    q = float(h.reward_variance) / (w @ k(np.array([centre]), u)[0] ** 2)
    r_outcomes, y = (np.asarray(x)[problem.outcomes.mask] for x in problem.outcomes[:2])
    r_outcomes = r_outcomes[:, 0]

    def features(x: np.ndarray) -> np.ndarray:
        f = np.sqrt(q * w)[None, :] * k(x, u)
        return np.column_stack([f, np.full(len(x), np.sqrt(float(h.mean_variance)))])

    design = features(r_outcomes)
    precision = design.T @ design / float(h.reward_noise) + np.eye(len(w) + 1)
    covariance = np.linalg.inv(precision)
    mean = covariance @ design.T @ y / float(h.reward_noise)
    z = rng.multivariate_normal(mean, covariance, size=N_DRAWS, method="eigh")
    b = z[:, -1] * np.sqrt(float(h.mean_variance))
    s, a, r = (np.asarray(x)[problem.transitions.mask] for x in problem.transitions[:3])
    r = r[:, 0]
    f_at_r, f_at_nodes = (z[:, :-1] @ features(x)[:, :-1].T for x in (r, u))

    # mu, given the transitions.
    x_seen = np.column_stack([s, a])
    x_asked = np.column_stack([np.tile(problem.context, (len(actions), 1)), actions])
    x = np.concatenate([x_seen, x_asked]) / np.array([e.lengthscale_s[0], e.lengthscale_a[0]])
    gram = float(e.embedding_variance) * np.exp(
        -0.5 * np.sum((x[:, None] - x[None, :]) ** 2, axis=-1)
    )
    n = len(r)
    noise = float(e.embedding_noise)
    E = gram[n:, :n] @ np.linalg.inv(gram[:n, :n] + noise * np.eye(n))
    root = np.linalg.cholesky(gram + 1e-10 * np.eye(len(x)))
    coefficients = rng.normal(size=(N_DRAWS, len(w), len(x))) @ root.T
    observed = coefficients[:, :, :n] + np.sqrt(noise) * rng.normal(size=(N_DRAWS, len(w), n))
    moved = coefficients[:, :, n:] - observed @ E.T
    known = b[:, None] + f_at_r @ E.T
    return known + np.einsum("tk,tka->ta", f_at_nodes * np.sqrt(w)[None, :], moved), known


@pytest.mark.slow
def test_operator_moments_equal_those_of_draws_of_f_and_mu() -> None:
    asked = np.array([1, 6, 11])
    everything = compute(SMALL)
    got = Moments(*(part[asked] if part.ndim else part for part in everything.operator))
    covariance = everything.covariance[np.ix_(asked, asked)]
    g, known = draws_of_mean_reward(SMALL, np.asarray(ACTIONS)[asked], 1)

    def z_of_mean(draws: np.ndarray, expected: Any) -> np.ndarray:
        return (draws.mean(0) - np.asarray(expected)) / (draws.std(0) / np.sqrt(N_DRAWS))

    def products(x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(0)
        return (centred[:, :, None] * centred[:, None, :]).reshape(N_DRAWS, -1)

    pairs = np.flatnonzero(np.triu(np.ones((3, 3))).ravel())
    rest = g - known  # mu's deviation from its posterior mean, applied to f: mean zero
    z = np.concatenate(
        [
            z_of_mean(g, got.mean),
            z_of_mean(products(g)[:, pairs], covariance.ravel()[pairs]),
            z_of_mean((known - known.mean(0)) ** 2, got.variance_reward),
            z_of_mean(rest**2, got.variance_embedding),
        ]
    )
    assert z.shape == (15,)
    np.testing.assert_array_less(np.abs(z), stats.norm.isf(FALSE_ALARM_RATE / 2.0 / len(z)))


@pytest.mark.parametrize("shape", ["uniform", "normal"])
def test_with_400_points_the_proposition_is_the_operator_form(shape: str) -> None:
    """Half of them transitions, half outcomes, over the support of the measure."""
    grid = (np.arange(400) + 0.5) / 400
    points = 12.0 * grid - 6.0 if shape == "uniform" else 2.0 * stats.norm.ppf(grid)
    points = np.random.default_rng(2).permutation(points)
    problem = one_dimensional(points[:200], points[200:], 3)
    exact, _, projected = compute(problem)
    for field in ("variance", "variance_reward", "variance_embedding"):
        # Seen: 1e-4 or less. With a first jitter of 1e-13 it was 0.5.
        np.testing.assert_allclose(
            getattr(projected, field), getattr(exact, field), rtol=1e-3, err_msg=field
        )
    error = np.abs(projected.mean - exact.mean) / np.sqrt(exact.variance)
    np.testing.assert_array_less(error, 1e-6)
    np.testing.assert_allclose(projected.second_moment, exact.second_moment, rtol=1e-3)


def test_numerically_singular_points_do_not_spoil_the_proposition() -> None:
    """64 points whose Gram matrix passes a factorisation with pivots that are rounding errors."""
    points = np.random.default_rng(0).permutation(np.linspace(-5.0, 5.0, 64))
    problem = one_dimensional(points[:32], points[32:], 0, lengthscale=0.5)
    exact, _, projected = compute(problem)
    np.testing.assert_allclose(projected.variance, exact.variance, rtol=0.03)


def matched(reverse: bool) -> Problem:
    """Return a problem whose outcomes are at the transitions' intermediates, some of them twice."""
    r = np.array([-1.9, -0.6, 0.1, 1.4])
    problem = one_dimensional(r, np.concatenate([r, r[:2]]), 4)
    if not reverse:
        return problem

    def reversed_rows(rows: Any) -> Any:
        n, order = int(rows.size), np.arange(CAPACITY)
        order[:n] = order[:n][::-1]
        return type(rows)(*(column[order] for column in rows[:-1]), rows.size)

    return problem._replace(
        transitions=reversed_rows(problem.transitions), outcomes=reversed_rows(problem.outcomes)
    )


def test_the_proposition_of_matched_data_does_not_depend_on_the_order_of_rows() -> None:
    forward, backward = (compute(matched(flag)).proposition for flag in (False, True))
    for field in ("mean", "variance", "variance_reward", "variance_embedding"):
        got, expected = getattr(backward, field), getattr(forward, field)
        assert np.isfinite(expected).all()
        np.testing.assert_allclose(got, expected, rtol=1e-9, err_msg=field)


def test_the_proposition_of_a_matched_oracle_case_in_another_order_equals_the_oracle() -> None:
    case = next(
        case
        for case in oracles.load("moments.json")["cases"]
        if "proposition" in case["expected"] and len(case["contexts"]) == len(case["outcome"])
    )
    r, r_outcomes = (np.asarray(case[f"{k}intermediate"]) for k in ("", "outcome_"))
    np.testing.assert_array_equal(r, r_outcomes)  # every row is matched
    h = {name: jnp.asarray(value, float) for name, value in case["hyperparameters"].items()}
    h["measure_scale"] = jnp.full(r.shape[1], h["measure_scale"])
    order, other = np.array([2, 0, 3, 1]), np.array([1, 3, 2, 0])
    problem = Problem(
        RewardHyperparameters(*(h[name] for name in RewardHyperparameters._fields)),
        EmbeddingHyperparameters(*(h[name] for name in EmbeddingHyperparameters._fields)),
        Transitions.create(
            *(np.asarray(case[k])[order] for k in ("contexts", "actions", "intermediate")),
            capacity=CAPACITY,
        ),
        Outcomes.create(r_outcomes[other], np.asarray(case["outcome"])[other], capacity=CAPACITY),
        jnp.asarray(case["query_context"]),
        jnp.resize(jnp.asarray(case["query_actions"]), ACTIONS.shape),
    )
    got, expected = compute(problem).proposition, case["expected"]["proposition"]
    for field in ("mean", "variance"):
        wanted = np.resize(expected[field], len(ACTIONS))
        np.testing.assert_allclose(getattr(got, field), wanted, rtol=1e-10, err_msg=field)


@pytest.mark.parametrize("name", ["operator", "proposition"])
def test_the_parts_are_non_negative_and_sum_to_the_variance(name: str) -> None:
    got = getattr(compute(matched(False)), name)
    parts = [got.variance_reward, got.variance_embedding, got.variance_transition]
    assert np.min(parts) >= 0.0
    np.testing.assert_allclose(got.variance, np.sum(parts, axis=0), rtol=1e-14)
    assert 0.0 <= got.negativity < 1e-10


def test_a_negative_part_is_set_to_zero_and_counted_relative_to_the_scale() -> None:
    got = moments.assemble_moments(
        mean=jnp.zeros(2),
        reward=jnp.array([1.0, -0.02]),
        embedding=jnp.array([-0.05, 3.0]),
        transition=jnp.array([0.0, 0.5]),
        moment=jnp.array(1.0),
        scale=jnp.array(10.0),
    )
    np.testing.assert_array_equal(got.variance, [1.0, 3.5])
    np.testing.assert_array_equal(got.variance_embedding, [0.0, 3.0])
    np.testing.assert_allclose(got.negativity, 0.005)


def test_the_covariance_of_many_actions_is_positive_semi_definite_with_the_variance_on_it() -> None:
    got, covariance, _ = compute(SMALL)
    np.testing.assert_allclose(np.diag(covariance), got.variance, rtol=1e-10)
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-12)
    assert np.linalg.eigvalsh(covariance).min() > -1e-12 * np.max(got.variance)


def test_more_outcomes_shrink_what_is_unknown_of_f_and_more_transitions_what_is_of_mu() -> None:
    many = one_dimensional(*np.random.default_rng(5).normal(size=(2, 30)), 6)
    few_outcomes = many._replace(outcomes=many.outcomes._replace(size=jnp.asarray(4)))
    few_transitions = many._replace(transitions=many.transitions._replace(size=jnp.asarray(4)))
    all_rows, fewer_outcomes, fewer_transitions = (
        compute(problem).operator for problem in (many, few_outcomes, few_transitions)
    )
    assert np.all(all_rows.variance_reward < fewer_outcomes.variance_reward)
    assert np.all(all_rows.variance_embedding < fewer_transitions.variance_embedding)
