"""Moments averaged over draws: against brute force over all pairs, and against the fixed agent."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax

from bayes_cmab import marginal
from bayes_cmab.data import Data, Outcomes, Rewards, Transitions
from bayes_cmab.models.embedding import reference_features, reference_lengthscale
from bayes_cmab.models.priors import Sites
from bayes_cmab.policies import EmbeddingPolicy
from bayes_cmab.registry import CME_EMBEDDING, CME_REWARD
from bayes_cmab.scaling import Scales

POLICIES = {
    "operator": EmbeddingPolicy(),
    "cme_ucb": EmbeddingPolicy("cme_ucb", CME_REWARD, CME_EMBEDDING),
}
SCALES = Scales.identity(1, 1, 2)
CONTEXT, ACTIONS = jnp.array([0.3]), jnp.linspace(-1.5, 1.5, 5)[:, None]
CAPACITY = 12
RNG = np.random.default_rng(7)
S, A = RNG.uniform(-1.5, 1.5, (2, 9, 1))
R = np.concatenate([np.sin(2 * S), np.cos(A)], axis=1) + 0.2 * RNG.standard_normal((9, 2))
Y = np.sin(2 * R[:, 0]) + 0.3 * RNG.standard_normal(9)


def make_data(n: int, m: int) -> Data:
    transitions = Transitions.create(S[:n], A[:n], R[:n], capacity=CAPACITY)
    outcomes = Outcomes.create(R[:m], Y[:m], capacity=CAPACITY)
    return Data(transitions, outcomes, Rewards.empty(1, 1, CAPACITY))


def make_draws(sites: Sites, n: int, seed: int) -> Sites:
    keys = jax.random.split(jax.random.key(seed), len(sites))
    return {
        name: value[None] * jnp.exp(0.4 * jax.random.normal(key, (n, *value.shape)))
        for key, (name, value) in zip(keys, sites.items(), strict=True)
    }


@partial(jax.jit, static_argnums=0)
def condition(
    policy: EmbeddingPolicy, reward: Sites, embedding: Sites, data: Data, reference: jax.Array
) -> marginal.MarginalState:
    features = reference_features(data.transitions, reference)
    return marginal.condition(policy, reward, embedding, data, features, reference)


def reference(data: Data) -> jax.Array:
    t = data.transitions
    return jnp.broadcast_to(reference_lengthscale(t.intermediates, t.mask), (2,))


def make_state(
    policy: EmbeddingPolicy, n: int, m: int, draws: tuple[int, int]
) -> tuple[marginal.MarginalState, Sites, Sites, Data]:
    data = make_data(n, m)
    reward = make_draws(policy.reward.default_sites(2), draws[0], 1)
    embedding = make_draws(policy.embedding.default_sites(1, 1), draws[1], 2)
    return condition(policy, reward, embedding, data, reference(data)), reward, embedding, data


MOMENTS = jax.jit(marginal.marginal_moments, static_argnums=0)
PAIRS = jax.jit(marginal.pairwise_moments, static_argnums=0)
WEIGHTS = jax.jit(marginal.log_weights, static_argnums=0)
TRANSITION = jax.jit(marginal.observe_transition, static_argnums=0)
OUTCOME = jax.jit(marginal.observe_outcome, static_argnums=0)


def fixed(policy: EmbeddingPolicy, sites: Sites, data: Data) -> tuple[np.ndarray, np.ndarray]:
    @partial(jax.jit, static_argnums=0)
    def compute(policy: EmbeddingPolicy, sites: Sites, data: Data) -> tuple[jax.Array, jax.Array]:
        moments = policy.moments(policy.condition(sites, data, SCALES), CONTEXT, ACTIONS)
        return moments.mean, moments.variance

    mean, variance = compute(policy, sites, data)
    return np.asarray(mean), np.asarray(variance)


def grow(policy: EmbeddingPolicy, state: marginal.MarginalState) -> marginal.MarginalState:
    for i in (6, 7):
        state = TRANSITION(policy, state, jnp.asarray(S[i]), jnp.asarray(A[i]), jnp.asarray(R[i]))
        state = OUTCOME(policy, state, jnp.asarray(R[i]), jnp.asarray(Y[i]))
    return state


@pytest.mark.parametrize("form", list(POLICIES))
def test_matched_moments_equal_brute_force_over_all_pairs(form: str) -> None:
    policy = POLICIES[form]
    state, reward, embedding, _ = make_state(policy, 6, 6, (3, 2))
    state = grow(policy, state)
    w_t, w_j = (np.exp(w) for w in WEIGHTS(policy, state))
    weights = w_t[:, None] * w_j[None, :]
    pairs = [
        fixed(
            policy,
            {k: v[t] for k, v in reward.items()} | {k: v[j] for k, v in embedding.items()},
            make_data(8, 8),
        )
        for t in range(3)
        for j in range(2)
    ]
    means = np.stack([p[0] for p in pairs]).reshape(3, 2, -1)
    variances = np.stack([p[1] for p in pairs]).reshape(3, 2, -1)
    mean = np.einsum("tj,tjk->k", weights, means)
    variance = np.einsum("tj,tjk->k", weights, variances + (means - mean) ** 2)
    moments, budget = MOMENTS(policy, state, CONTEXT, ACTIONS)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(moments.variance, variance, rtol=1e-9)
    np.testing.assert_allclose(sum(budget), moments.variance, rtol=1e-12)
    assert all(np.all(np.asarray(part) >= 0.0) for part in budget)
    pair_means, pair_variances = PAIRS(policy, state, CONTEXT, ACTIONS)
    np.testing.assert_allclose(pair_means, means, rtol=1e-9)
    np.testing.assert_allclose(pair_variances, variances, rtol=1e-8)


@pytest.mark.parametrize("form", list(POLICIES))
def test_one_draw_equals_the_fixed_agent(form: str) -> None:
    policy = POLICIES[form]
    state, reward, embedding, data = make_state(policy, 6, 6, (1, 1))
    sites = {k: v[0] for k, v in (reward | embedding).items()}
    mean, variance = fixed(policy, sites, data)
    moments, budget = MOMENTS(policy, state, CONTEXT, ACTIONS)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-10)
    np.testing.assert_allclose(moments.variance, variance, rtol=1e-10)
    np.testing.assert_allclose(budget.variance_reward_hyperparameters, 0.0, atol=1e-20)
    np.testing.assert_allclose(budget.variance_embedding_hyperparameters, 0.0, atol=1e-20)


@pytest.mark.parametrize("form", list(POLICIES))
def test_draws_are_reweighted_by_the_change_of_their_log_likelihoods(form: str) -> None:
    policy = POLICIES[form]
    state, reward, embedding, before = make_state(policy, 6, 6, (3, 2))
    equal = WEIGHTS(policy, state)
    np.testing.assert_allclose(np.exp(equal[0]), 1 / 3, rtol=1e-12)
    np.testing.assert_allclose(np.exp(equal[1]), 1 / 2, rtol=1e-12)
    lengthscale = reference(before)

    @jax.jit
    def log_likelihoods(data: Data) -> tuple[jax.Array, jax.Array]:
        features = reference_features(data.transitions, lengthscale)
        r, e = policy.reward, policy.embedding
        return (
            jax.vmap(lambda s: r.log_likelihood(r.hyperparameters(s), data.outcomes))(reward),
            jax.vmap(lambda s: e.log_likelihood(e.hyperparameters(s), data.transitions, features))(
                embedding
            ),
        )

    old, new = log_likelihoods(before), log_likelihoods(make_data(8, 8))
    weights = WEIGHTS(policy, grow(policy, state))
    for got, was, now in zip(weights, old, new, strict=True):
        np.testing.assert_allclose(np.exp(got), softmax(np.asarray(now - was)), rtol=1e-8)


def test_effective_sample_size_is_the_count_for_equal_weights_and_one_for_a_single_draw() -> None:
    np.testing.assert_allclose(
        marginal.effective_sample_size(jnp.log(jnp.full(8, 1 / 8))), 8.0, rtol=1e-12
    )
    np.testing.assert_allclose(
        marginal.effective_sample_size(jnp.array([0.0, -800.0, -900.0])), 1.0, rtol=1e-12
    )
