"""Averages over draws: against brute force over all pairs, and against the fixed agent."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr, softmax

from bayes_cmab.acquisition import MatchedMomentsUCB, MeanUCB, MixtureQuantile, Thompson
from bayes_cmab.data import Data, Outcomes, Rewards, Transitions
from bayes_cmab.decision import PARTS
from bayes_cmab.models import EmbeddingModel, RewardModel
from bayes_cmab.models.embedding import reference_features, reference_lengthscale
from bayes_cmab.models.priors import Sites
from bayes_cmab.policies import (
    DirectPolicy,
    EmbeddingPolicy,
    HyperparameterDraws,
    MarginalPolicy,
    TransitionPolicy,
)
from bayes_cmab.posteriors import (
    MarginalPosterior,
    WeightedDraws,
    effective_sample_size,
    log_weights,
)
from bayes_cmab.registry import CME_EMBEDDING, CME_REWARD
from bayes_cmab.scaling import Scales

POLICIES = {
    "operator": MarginalPolicy(),
    "cme_ucb": MarginalPolicy(EmbeddingPolicy("cme_ucb", CME_REWARD, CME_EMBEDDING)),
}
FORMS = ["operator", pytest.param("cme_ucb", marks=pytest.mark.slow)]
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


def make_draws(sites: Sites, n: int, seed: int) -> WeightedDraws:
    keys = jax.random.split(jax.random.key(seed), len(sites))
    scattered = {
        name: value[None] * jnp.exp(0.4 * jax.random.normal(key, (n, *value.shape)))
        for key, (name, value) in zip(keys, sites.items(), strict=True)
    }
    return WeightedDraws(scattered, jnp.zeros(n))


def make_all_draws(policy: MarginalPolicy, counts: tuple[int, int]) -> HyperparameterDraws:
    return HyperparameterDraws(
        {
            "reward": make_draws(policy.base.reward.default_sites(2), counts[0], 1),
            "embedding": make_draws(policy.base.embedding.default_sites(1, 1), counts[1], 2),
        },
        jnp.ones(2),
    )


@partial(jax.jit, static_argnums=0)
def settle(
    policy: MarginalPolicy, draws: HyperparameterDraws, data: Data
) -> tuple[HyperparameterDraws, MarginalPosterior]:
    return policy.refitted(draws, data, jnp.ones(2, bool))


@partial(jax.jit, static_argnums=0)
def condition(policy: MarginalPolicy, draws: HyperparameterDraws, data: Data) -> MarginalPosterior:
    return policy.condition(draws, data, SCALES)


@partial(jax.jit, static_argnums=0)
def weights(policy: MarginalPolicy, state: MarginalPosterior) -> tuple[jax.Array, jax.Array]:
    return tuple(jnp.exp(w) for w in log_weights(policy.base.reward, state))


@partial(jax.jit, static_argnums=0)
def observe(
    policy: MarginalPolicy, state: MarginalPosterior, s: jax.Array, a: jax.Array, r: jax.Array, y
) -> MarginalPosterior:
    return policy.observe_outcome(policy.observe_transition(state, s, a, r), r, y)


MOMENTS = jax.jit(lambda policy, state: policy.moments(state, CONTEXT, ACTIONS), static_argnums=0)
MIXTURE = jax.jit(lambda policy, state: policy.mixture(state, CONTEXT, ACTIONS), static_argnums=0)


@partial(jax.jit, static_argnums=(0, 1))
def scores(acquisition, policy, state, beta, key) -> jax.Array:
    return acquisition(policy, state, CONTEXT, ACTIONS, beta, key)[1]


@partial(jax.jit, static_argnums=0)
def fixed_state(policy: EmbeddingPolicy, sites: Sites, data: Data):
    return policy.condition(sites, data, SCALES)


def pick(draws: HyperparameterDraws, t: int, j: int) -> Sites:
    reward, embedding = draws.programs["reward"].sites, draws.programs["embedding"].sites
    return {k: v[t] for k, v in reward.items()} | {k: v[j] for k, v in embedding.items()}


def grow(policy: MarginalPolicy, state: MarginalPosterior) -> MarginalPosterior:
    for i in (6, 7):
        row = (jnp.asarray(S[i]), jnp.asarray(A[i]), jnp.asarray(R[i]), jnp.asarray(Y[i]))
        state = observe(policy, state, *row)
    return state


@pytest.mark.parametrize("form", FORMS)
def test_matched_moments_equal_brute_force_over_all_pairs(form: str) -> None:
    policy = POLICIES[form]
    draws, state = settle(policy, make_all_draws(policy, (3, 2)), make_data(6, 6))
    state = grow(policy, state)
    w_t, w_j = (np.asarray(w) for w in weights(policy, state))
    assert w_t.max() > 0.4  # two more rows have made a difference
    weight = (w_t[:, None] * w_j[None, :]).ravel()
    pairs = [
        MOMENTS(policy.base, fixed_state(policy.base, pick(draws, t, j), make_data(8, 8)))
        for t in range(3)
        for j in range(2)
    ]
    means = np.stack([p.mean for p in pairs])
    variances = np.stack([p.variance for p in pairs])
    mean = weight @ means
    moments = MOMENTS(policy, state)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(
        moments.variance, weight @ (variances + (means - mean) ** 2), rtol=1e-9
    )
    parts = [np.asarray(getattr(moments, name)) for name in PARTS]
    np.testing.assert_allclose(sum(parts), moments.variance, rtol=1e-12)
    assert all(np.all(part >= 0.0) for part in parts)
    mixture = MIXTURE(policy, state)
    np.testing.assert_allclose(mixture.mean, means, rtol=1e-9)
    np.testing.assert_allclose(mixture.variance, variances, rtol=1e-8)
    np.testing.assert_allclose(mixture.weight, weight, rtol=1e-9)
    # The scores that need the pairs, by their definitions.
    beta = jnp.array(0.7)
    bounds = means + np.sqrt(0.7 * variances)
    key = jax.random.key(0)
    np.testing.assert_allclose(
        scores(MeanUCB(), policy, state, beta, key), weight @ bounds, rtol=1e-8
    )
    quantile = np.asarray(scores(MixtureQuantile(), policy, state, beta, key))
    level = weight @ ndtr((quantile - means) / np.sqrt(variances))
    np.testing.assert_allclose(level, ndtr(np.sqrt(0.7)), rtol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_with_one_draw_every_acquisition_equals_the_fixed_agents(form: str) -> None:
    policy = POLICIES[form]
    draws, state = settle(policy, make_all_draws(policy, (1, 1)), make_data(6, 6))
    base = fixed_state(policy.base, pick(draws, 0, 0), make_data(6, 6))
    moments, expected = MOMENTS(policy, state), MOMENTS(policy.base, base)
    np.testing.assert_allclose(moments.mean, expected.mean, rtol=1e-10)
    np.testing.assert_allclose(moments.variance, expected.variance, rtol=1e-10)
    for name in PARTS[-2:]:
        np.testing.assert_allclose(getattr(moments, name), 0.0, atol=1e-20)
    acquisitions = [MatchedMomentsUCB(), MeanUCB(), MixtureQuantile()]
    if form == "operator":
        acquisitions.append(Thompson())
    bound = np.asarray(expected.mean + np.sqrt(0.5 * expected.variance))
    for acquisition in acquisitions:
        arguments = (jnp.array(0.5), jax.random.key(3))
        got = scores(acquisition, policy, state, *arguments)
        fixed = scores(acquisition, policy.base, base, *arguments)
        np.testing.assert_allclose(got, fixed, rtol=1e-10)
        if not isinstance(acquisition, Thompson):
            np.testing.assert_allclose(fixed, bound, rtol=1e-10)


def test_thompson_draws_have_the_mixtures_moments() -> None:
    """Means and variances of 4,000 draws at 5 actions, each within 5 standard errors.

    The false-alarm rate is below 1e-4 (kurtosis up to 6 is allowed for in the variances' errors).
    """
    policy = POLICIES["operator"]
    _, state = settle(policy, make_all_draws(policy, (3, 2)), make_data(6, 6))
    state = grow(policy, state)
    keys = jax.random.split(jax.random.key(5), 4000)

    @jax.jit
    def draw(state: MarginalPosterior) -> jax.Array:
        sample = jax.vmap(lambda key: policy.sample(state, CONTEXT, ACTIONS, key))
        return sample(keys)

    got, moments = np.asarray(draw(state)), MOMENTS(policy, state)
    variance = np.asarray(moments.variance)
    z = (got.mean(axis=0) - moments.mean) / np.sqrt(variance / 4000)
    assert np.max(np.abs(z)) < 5.0
    z = (got.var(axis=0) / variance - 1.0) / np.sqrt(5.0 / 4000)
    assert np.max(np.abs(z)) < 5.0


@pytest.mark.parametrize("form", list(POLICIES))
def test_draws_are_reweighted_by_the_change_of_their_log_likelihoods(form: str) -> None:
    policy = POLICIES[form]
    draws, state = settle(policy, make_all_draws(policy, (3, 2)), make_data(6, 6))
    equal = weights(policy, state)
    np.testing.assert_allclose(equal[0], 1 / 3, rtol=1e-12)
    np.testing.assert_allclose(equal[1], 1 / 2, rtol=1e-12)
    t = make_data(6, 6).transitions
    lengthscale = jnp.broadcast_to(reference_lengthscale(t.intermediates, t.mask), (2,))
    np.testing.assert_allclose(draws.lengthscale, lengthscale, rtol=1e-12)

    @jax.jit
    def log_likelihoods(data: Data) -> tuple[jax.Array, jax.Array]:
        features = reference_features(data.transitions, lengthscale)
        r, e = policy.base.reward, policy.base.embedding
        return (
            jax.vmap(lambda s: r.log_likelihood(r.hyperparameters(s), data.outcomes))(
                draws.programs["reward"].sites
            ),
            jax.vmap(lambda s: e.log_likelihood(e.hyperparameters(s), data.transitions, features))(
                draws.programs["embedding"].sites
            ),
        )

    old, new = log_likelihoods(make_data(6, 6)), log_likelihoods(make_data(8, 8))
    appended = grow(policy, state)
    for got, was, now in zip(weights(policy, appended), old, new, strict=True):
        np.testing.assert_allclose(got, softmax(np.asarray(now - was)), rtol=1e-8)
    # All rows at once give the same weights: the order of arrival does not matter.
    at_once = condition(policy, draws, make_data(8, 8))
    for got, expected in zip(weights(policy, at_once), weights(policy, appended), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-8)
    np.testing.assert_allclose(
        MOMENTS(policy, at_once).mean, MOMENTS(policy, appended).mean, rtol=1e-8
    )


def test_only_fresh_draws_take_note_of_their_likelihood() -> None:
    policy = POLICIES["operator"]
    draws, _ = settle(policy, make_all_draws(policy, (3, 2)), make_data(6, 6))
    later = jax.jit(policy.refitted)(draws, make_data(8, 8), jnp.array([True, False]))[0]
    np.testing.assert_array_equal(
        later.programs["embedding"].at_fit, draws.programs["embedding"].at_fit
    )
    np.testing.assert_array_equal(later.lengthscale, draws.lengthscale)
    assert np.all(np.abs(later.programs["reward"].at_fit - draws.programs["reward"].at_fit) > 1e-3)


def test_effective_sample_size_is_the_count_for_equal_weights_and_one_for_a_single_draw() -> None:
    np.testing.assert_allclose(effective_sample_size(jnp.log(jnp.full(8, 1 / 8))), 8.0, rtol=1e-12)
    np.testing.assert_allclose(
        effective_sample_size(jnp.array([0.0, -800.0, -900.0])), 1.0, rtol=1e-12
    )


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (DirectPolicy(), "expected an EmbeddingPolicy"),
        (
            EmbeddingPolicy("proposition", reward=RewardModel(integrated_mean=False)),
            "moments_form 'operator' or 'cme_ucb'",
        ),
        (
            EmbeddingPolicy(embedding=EmbeddingModel(likelihood="matrix_normal")),
            "likelihood 'composite'",
        ),
    ],
)
def test_what_cannot_be_averaged_is_refused(base: EmbeddingPolicy, message: str) -> None:
    with pytest.raises(ValueError, match=f"policy: .*{message}"):
        MarginalPolicy(base)


def test_a_policy_without_a_joint_distribution_says_so() -> None:
    assert not TransitionPolicy().draws_jointly
    with pytest.raises(NotImplementedError, match="TransitionPolicy has no joint distribution"):
        TransitionPolicy().sample(None, CONTEXT, ACTIONS, jax.random.key(0))
