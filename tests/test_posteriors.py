"""Rows that arrive one by one, padding, and no rows at all, against conditioning from scratch."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bayes_cmab import moments, posteriors
from bayes_cmab.data import Outcomes, Transitions
from bayes_cmab.models import (
    EmbeddingHyperparameters,
    EmbeddingModel,
    RewardHyperparameters,
    RewardModel,
    TransitionHyperparameters,
    TransitionModel,
)
from bayes_cmab.posteriors import EmbeddingPosterior, RewardPosterior, Targets, TransitionPosterior

ROWS = 5
CAPACITY = 6
EMBEDDING = EmbeddingModel()
TRANSITION = TransitionModel()
REWARDS = {1: RewardModel(), 0: RewardModel(power=0, integrated_mean=False)}
both_powers = pytest.mark.parametrize("power", REWARDS)


def reward_hyper(power: int) -> RewardHyperparameters:
    return RewardHyperparameters(
        lengthscale_r=jnp.array([0.8, 1.1]),
        reward_variance=jnp.array(1.7),
        reward_noise=jnp.array(0.2),
        mean_variance=jnp.array(4.0 if power else 0.0),
        measure_mean=jnp.array([0.2, -0.1]),
        measure_scale=jnp.array([2.0, 1.5]),
    )


EMBEDDING_HYPER = EmbeddingHyperparameters(
    lengthscale_s=jnp.array([0.9]),
    lengthscale_a=jnp.array([0.6]),
    embedding_variance=jnp.array(0.8),
    embedding_noise=jnp.array(0.15),
)
TRANSITION_HYPER = TransitionHyperparameters(
    weight_constant=jnp.array([0.25, 0.3]),
    weight_s=jnp.array([0.5, 0.2]),
    weight_a=jnp.array([0.3, 0.9]),
    weight_sa=jnp.array([0.4, 0.1]),
    lengthscale_s=jnp.array([[0.9], [0.5]]),
    lengthscale_a=jnp.array([[0.7], [1.2]]),
    transition_noise=jnp.array([0.1, 0.2]),
)


class State(NamedTuple):
    """All posteriors of one agent."""

    reward: RewardPosterior
    targets: Targets
    embedding: EmbeddingPosterior
    transition: TransitionPosterior


def rows(seed: int) -> tuple[Transitions, Outcomes]:
    """Return ROWS transitions and as many unmatched outcomes, padded to CAPACITY."""
    rng = np.random.default_rng(seed)
    s, a, r, r_other = (rng.normal(size=(ROWS, k)) for k in (1, 1, 2, 2))
    return (
        Transitions.create(s, a, r, capacity=CAPACITY),
        Outcomes.create(r_other, 3.0 + rng.normal(size=ROWS), capacity=CAPACITY),
    )


@jax.jit(static_argnums=0)
def condition(power: int, transitions: Transitions, outcomes: Outcomes) -> State:
    reward = posteriors.condition_reward(REWARDS[power], reward_hyper(power), outcomes)
    r, count = transitions.intermediates, transitions.size
    return State(
        reward,
        posteriors.condition_targets(REWARDS[power], reward, r, count),
        posteriors.condition_embedding(
            EMBEDDING, EMBEDDING_HYPER, transitions.contexts, transitions.actions, count
        ),
        posteriors.condition_transition(TRANSITION, TRANSITION_HYPER, transitions),
    )


@jax.jit(static_argnums=0)
def with_outcome(power: int, state: State, outcomes: Outcomes, i: jax.Array) -> State:
    reward, targets = posteriors.append_outcome(
        REWARDS[power],
        state.reward,
        state.targets,
        outcomes.intermediates[i],
        outcomes.outcomes[i],
    )
    return state._replace(reward=reward, targets=targets)


@jax.jit(static_argnums=0)
def with_transition(power: int, state: State, transitions: Transitions, i: jax.Array) -> State:
    s, a, r = (column[i] for column in transitions[:3])
    return State(
        state.reward,
        posteriors.append_target(REWARDS[power], state.reward, state.targets, r),
        posteriors.append_embedding(EMBEDDING, state.embedding, s, a),
        posteriors.append_transition(TRANSITION, state.transition, s, a, r),
    )


CONTEXT, ACTIONS = jnp.array([0.3]), jnp.array([[-0.5], [0.1], [1.9]])


@jax.jit(static_argnums=0)
def consequences(power: int, state: State) -> dict[str, Any]:
    """Return everything that is computed from the posteriors."""
    model, reward = REWARDS[power], state.reward
    result = {
        "alpha": posteriors.reward_alpha(model, reward),
        "offset": posteriors.reward_offset(model, reward),
        "target mean": posteriors.target_mean(model, reward, state.targets),
        "weights": posteriors.embedding_weights(EMBEDDING, state.embedding, CONTEXT, ACTIONS),
        "covariance": posteriors.embedding_covariance(EMBEDDING, state.embedding, CONTEXT, ACTIONS),
        "transition": posteriors.predict_transition(TRANSITION, state.transition, CONTEXT, ACTIONS),
    }
    if power == 1:
        result["moments"] = moments.operator_moments(
            model, EMBEDDING, reward, state.targets, state.embedding, CONTEXT, ACTIONS
        )
    return result


def assert_close(got: Any, expected: Any, tolerance: float) -> None:
    """Compare two pytrees leaf by leaf."""
    leaves = jax.tree.leaves_with_path(got)
    assert len(leaves) == len(jax.tree.leaves(expected))
    for (path, leaf), wanted in zip(leaves, jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(
            leaf, wanted, rtol=tolerance, atol=tolerance, err_msg=jax.tree_util.keystr(path)
        )


def first(rows: Any, count: int) -> Any:
    """Return the first rows; the others are zero, as in the padding."""

    def keep(column: jax.Array) -> jax.Array:
        mask = np.arange(CAPACITY) < count
        return jnp.where(mask.reshape(-1, *[1] * (column.ndim - 1)), column, 0.0)

    return type(rows)(*(keep(column) for column in rows[:-1]), jnp.asarray(count))


@both_powers
@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    arrivals=st.permutations(["outcome", "transition"] * ROWS),
    head_start=st.integers(0, 4),
    seed=st.integers(0, 10**6),
)
def test_arrivals_in_any_order_equal_conditioning_from_scratch(
    power: int, arrivals: list[str], head_start: int, seed: int
) -> None:
    transitions, outcomes = rows(seed)
    counts = {kind: arrivals[:head_start].count(kind) for kind in ("outcome", "transition")}
    state = condition(
        power, first(transitions, counts["transition"]), first(outcomes, counts["outcome"])
    )
    for kind in arrivals[head_start:]:
        i = jnp.asarray(counts[kind])
        if kind == "outcome":
            state = with_outcome(power, state, outcomes, i)
        else:
            state = with_transition(power, state, transitions, i)
        counts[kind] += 1
    scratch = condition(power, transitions, outcomes)
    assert (state.reward.size, state.targets.size) == (ROWS, ROWS)
    assert (state.embedding.size, state.transition.size) == (ROWS, ROWS)
    assert_close(state, scratch, 1e-10)
    assert_close(consequences(power, state), consequences(power, scratch), 1e-10)


@both_powers
def test_appending_never_recompiles(power: int) -> None:
    transitions, outcomes = rows(0)
    state = condition(power, first(transitions, 0), first(outcomes, 0))
    sizes = None
    for i in range(3):
        state = with_outcome(power, state, outcomes, jnp.asarray(i))
        state = with_transition(power, state, transitions, jnp.asarray(i))
        consequences(power, state)
        now = [f._cache_size() for f in (with_outcome, with_transition, consequences)]
        assert sizes in (None, now)
        sizes = now


@both_powers
def test_padding_changes_no_posterior_and_no_consequence(power: int) -> None:
    transitions, outcomes = rows(1)
    exact = condition(
        power,
        Transitions(*(column[:ROWS] for column in transitions[:3]), transitions.size),
        Outcomes(*(column[:ROWS] for column in outcomes[:2]), outcomes.size),
    )
    padded = condition(power, transitions, outcomes)
    got, expected = consequences(power, padded), consequences(power, exact)
    assert not np.any(got["alpha"][ROWS:])
    assert not np.any(got["target mean"][1 + ROWS :])
    assert not np.any(got["weights"].weights[:, ROWS:])
    got["alpha"] = got["alpha"][:ROWS]
    got["target mean"] = got["target mean"][: 1 + ROWS]
    got["weights"] = got["weights"]._replace(weights=got["weights"].weights[:, :ROWS])
    assert_close(got, expected, 1e-8)
    covariance = np.asarray(padded.targets.covariance)
    np.testing.assert_allclose(
        covariance[: 1 + ROWS, : 1 + ROWS], exact.targets.covariance, atol=1e-8
    )
    assert not np.any(covariance[1 + ROWS :])
    assert not np.any(covariance[:, 1 + ROWS :])


@both_powers
def test_what_stands_in_the_padding_has_no_influence(power: int) -> None:
    transitions, outcomes = rows(2)
    garbage = [
        type(data)(*(column.at[-1].set(7.7) for column in data[:-1]), data.size)
        for data in (transitions, outcomes)
    ]
    expected = consequences(power, condition(power, transitions, outcomes))
    got = consequences(power, condition(power, *garbage))
    assert_close(got, expected, 1e-12)


def prior_second_moment() -> float:
    """Return the integral of the prior variance of f, ``s_f^2 r~(u, u)``, by a product rule."""
    hyper = reward_hyper(1)
    u = np.linspace(-9.0, 9.0, 400)
    weights = stats.norm.pdf(u) * (u[1] - u[0])
    total = float(hyper.reward_variance)
    for lengthscale, scale in zip(hyper.lengthscale_r, hyper.measure_scale, strict=True):
        k = np.exp(-0.5 * (scale * (u[:, None] - u[None, :]) / lengthscale) ** 2)
        nuclear = (k * weights[None, :]) @ k  # at pairs of nodes, centred on the measure
        zero = np.exp(-0.5 * (scale * u / lengthscale) ** 2)
        total *= weights @ np.diag(nuclear) / (weights @ zero**2)
    return total


def test_without_any_rows_the_mean_is_zero_and_the_variance_is_the_prior() -> None:
    transitions, outcomes = (first(data, 0) for data in rows(3))
    got = consequences(1, condition(1, transitions, outcomes))["moments"]
    F, hyper = EMBEDDING_HYPER.embedding_variance, reward_hyper(1)
    np.testing.assert_array_equal(got.mean, np.zeros(3))
    np.testing.assert_allclose(got.second_moment, prior_second_moment(), rtol=1e-8)
    np.testing.assert_allclose(got.variance_reward, hyper.mean_variance, rtol=1e-12)
    np.testing.assert_allclose(got.variance_embedding, F * prior_second_moment(), rtol=1e-8)
    np.testing.assert_allclose(
        got.variance, hyper.mean_variance + F * prior_second_moment(), rtol=1e-8
    )


def test_without_transitions_only_the_constant_mean_is_learnt_about() -> None:
    transitions, outcomes = rows(4)
    state = condition(1, first(transitions, 0), outcomes)
    got, hyper = consequences(1, state)["moments"], reward_hyper(1)
    y = np.asarray(outcomes.outcomes)[:ROWS]
    A = np.asarray(REWARDS[1].covariance(hyper, outcomes.intermediates))[:ROWS, :ROWS]
    v = float(hyper.mean_variance)
    np.testing.assert_allclose(got.mean, v * np.sum(np.linalg.solve(A, y)), rtol=1e-10)
    np.testing.assert_allclose(got.variance_reward, v - v**2 * np.linalg.inv(A).sum(), rtol=1e-10)
    np.testing.assert_allclose(
        got.variance_embedding, EMBEDDING_HYPER.embedding_variance * got.second_moment, rtol=1e-12
    )


def test_without_outcomes_the_targets_keep_their_prior() -> None:
    transitions, outcomes = rows(5)
    state = condition(1, transitions, first(outcomes, 0))
    got, hyper = consequences(1, state), reward_hyper(1)
    np.testing.assert_array_equal(got["target mean"], np.zeros(1 + CAPACITY))
    r = transitions.intermediates
    gram = np.asarray(REWARDS[1].gram(hyper, r, r))[:ROWS, :ROWS]
    covariance = np.asarray(state.targets.covariance)[: 1 + ROWS, : 1 + ROWS]
    np.testing.assert_allclose(covariance[1:, 1:], gram, rtol=1e-12)
    np.testing.assert_array_equal(covariance[0], [hyper.mean_variance, *np.zeros(ROWS)])
    E = np.asarray(got["weights"].weights)[:, :ROWS]
    prior = np.einsum("ki,ij,kj->k", E, gram, E) + hyper.mean_variance
    np.testing.assert_allclose(got["moments"].variance_reward, prior, rtol=1e-10)
    np.testing.assert_allclose(got["moments"].second_moment, prior_second_moment(), rtol=1e-8)


def test_without_rows_the_transition_gp_predicts_its_prior() -> None:
    transitions, outcomes = (first(data, 0) for data in rows(6))
    mean, variance, _ = consequences(1, condition(1, transitions, outcomes))["transition"]
    np.testing.assert_array_equal(mean, np.zeros((3, 2)))
    total = sum(np.asarray(weight) for weight in TRANSITION_HYPER[:4])
    np.testing.assert_allclose(variance, np.tile(total, (3, 1)), rtol=1e-12)


@both_powers
def test_shifting_the_outcomes_shifts_the_subtracted_mean_alone(power: int) -> None:
    model = RewardModel(power=power, integrated_mean=False)
    hyper = reward_hyper(power)._replace(mean_variance=jnp.zeros(()))
    transitions, outcomes = rows(7)

    @jax.jit
    def mean(shift: float) -> jax.Array:
        moved = outcomes._replace(outcomes=outcomes.outcomes + shift * outcomes.mask)
        reward = posteriors.condition_reward(model, hyper, moved)
        targets = posteriors.condition_targets(
            model, reward, transitions.intermediates, transitions.size
        )
        return posteriors.target_mean(model, reward, targets)

    before, after = np.asarray(mean(0.0)), np.asarray(mean(100.0))
    np.testing.assert_allclose(before[0], np.mean(outcomes.outcomes[:ROWS]), rtol=1e-12)
    np.testing.assert_allclose(after[0], before[0] + 100.0, rtol=1e-12)
    np.testing.assert_allclose(after[1:], before[1:], atol=1e-11)


def test_second_moment_is_the_integral_of_the_squared_posterior() -> None:
    """In one dimension, with the posterior of f computed densely at the nodes of a rule."""
    hyper = reward_hyper(1)._replace(
        lengthscale_r=jnp.array([0.8]),
        measure_mean=jnp.array([0.2]),
        measure_scale=jnp.array([2.0]),
    )
    rng = np.random.default_rng(8)
    r, y = rng.normal(size=(ROWS, 1)), rng.normal(size=ROWS)
    outcomes = Outcomes.create(r, y, capacity=CAPACITY)
    reward = jax.jit(posteriors.condition_reward, static_argnums=0)(REWARDS[1], hyper, outcomes)
    u = np.linspace(-9.0, 9.0, 300)
    weights = stats.norm.pdf(u) * (u[1] - u[0])
    nodes = 0.2 + 2.0 * u[:, None]

    def gram(x: np.ndarray, z: np.ndarray) -> np.ndarray:
        def k(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return np.exp(-0.5 * ((a - b.T) / 0.8) ** 2)

        centre = np.array([[0.2]])
        value = (k(x, nodes) * weights[None, :]) @ k(nodes, z)
        normal = (k(centre, nodes) * weights[None, :]) @ k(nodes, centre)
        return 1.7 * value / normal

    A = gram(r, r) + 4.0 + 0.2 * np.eye(ROWS)
    cross = gram(nodes, r)
    mean = cross @ np.linalg.solve(A, y)
    variance = np.diag(gram(nodes, nodes)) - np.sum(cross * np.linalg.solve(A, cross.T).T, axis=1)
    np.testing.assert_allclose(
        posteriors.second_moment(REWARDS[1], reward), weights @ (mean**2 + variance), rtol=1e-8
    )
