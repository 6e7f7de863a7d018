"""A predictive average of policies: against the policies themselves."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_cmab.agent import Agent
from bayes_cmab.data import Data, Outcomes, Rewards, Transitions
from bayes_cmab.inference import MAP, NUTS, maximise
from bayes_cmab.models import AnovaEmbeddingModel, RewardModel
from bayes_cmab.policies import DirectPolicy, EmbeddingPolicy, MarginalPolicy, Policy, StackedPolicy
from bayes_cmab.scaling import Scales

PAPER, ANOVA = EmbeddingPolicy(), EmbeddingPolicy(embedding=AnovaEmbeddingModel())
OTHER = EmbeddingPolicy(reward=RewardModel(measure_scale=1.0))
POLICY = StackedPolicy((PAPER, ANOVA), (0.3, 0.7))
SCALES = Scales.identity(1, 1, 1)
CONTEXT, ACTIONS = jnp.array([0.3]), jnp.linspace(-1.5, 1.5, 4)[:, None]
RNG = np.random.default_rng(1)
S, A = RNG.uniform(-1.5, 1.5, (2, 8, 1))
R = np.sin(2 * S) + np.cos(A)
Y = np.sin(2 * R[:, 0])


def make_data(n: int) -> Data:
    padded = (jnp.zeros((10, 1)).at[:n].set(S[:n]), jnp.zeros((10, 1)).at[:n].set(A[:n]))
    rewards = Rewards(*padded, jnp.zeros(10).at[:n].set(Y[:n]), jnp.asarray(n))
    return Data(
        Transitions.create(S[:n], A[:n], R[:n], capacity=10),
        Outcomes.create(R[:n], Y[:n], capacity=10),
        rewards,
    )


def condition(policy: Policy, data: Data):
    sites = policy.default_sites(1, 1, 1)
    return jax.jit(lambda data: policy.condition(sites, data, SCALES))(data)


def look(policy: Policy, state):
    both = jax.jit(
        lambda own: (policy.moments(own, CONTEXT, ACTIONS), policy.mixture(own, CONTEXT, ACTIONS))
    )
    return both(state)


def test_moments_are_those_of_the_mixture() -> None:
    got, mixture = look(POLICY, condition(POLICY, make_data(6)))
    each = [look(policy, condition(policy, make_data(6)))[0] for policy in POLICY.policies]
    w = np.array(POLICY.weights)
    means, variances = (np.array([getattr(m, f) for m in each]) for f in ("mean", "variance"))
    np.testing.assert_allclose(got.mean, w @ means, rtol=1e-12)
    spread = w @ (means - w @ means) ** 2
    np.testing.assert_allclose(got.variance, w @ variances + spread, rtol=1e-12)
    np.testing.assert_allclose(got.variance_embedding_hyperparameters, spread, rtol=1e-10)
    np.testing.assert_array_equal(got.variance_reward_hyperparameters, np.zeros(4))
    parts = [value for name, value in got._asdict().items() if name.startswith("variance_")]
    np.testing.assert_allclose(got.variance, np.sum(parts, axis=0), rtol=1e-12)
    np.testing.assert_allclose(mixture.mean, means, rtol=1e-12)
    np.testing.assert_allclose(mixture.variance, variances, rtol=1e-12)
    np.testing.assert_allclose(mixture.weight, w, rtol=1e-12)


def test_one_policy_alone_is_itself() -> None:
    alone = StackedPolicy((ANOVA, PAPER), (0.0, 1.0))
    got, expected = (look(p, condition(p, make_data(6)))[0] for p in (alone, PAPER))
    for field, one, other in zip(got._fields, got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14, err_msg=field)


def test_different_models_of_f_are_the_rewards_uncertainty() -> None:
    policy = StackedPolicy((PAPER, OTHER), (0.5, 0.5))
    got, _ = look(policy, condition(policy, make_data(6)))
    assert np.all(got.variance_reward_hyperparameters > 0)
    np.testing.assert_array_equal(got.variance_embedding_hyperparameters, np.zeros(4))


@pytest.mark.slow
def test_rows_one_by_one_give_the_same_as_all_at_once() -> None:
    policy = StackedPolicy((PAPER, DirectPolicy()), (0.5, 0.5))

    @jax.jit
    def observe(state, s, a, r, y):
        state = policy.observe_outcome(policy.observe_transition(state, s, a, r), r, y)
        return policy.observe_reward(state, s, a, y)

    state = condition(policy, make_data(5))
    for i in (5, 6):
        state = observe(state, *(jnp.asarray(x[i]) for x in (S, A, R, Y)))
    got, expected = look(policy, state)[0], look(policy, condition(policy, make_data(7)))[0]
    np.testing.assert_allclose(got.mean, expected.mean, rtol=1e-9)
    np.testing.assert_allclose(got.variance, expected.variance, rtol=1e-9)


@pytest.mark.slow
def test_every_policy_is_fitted_by_itself() -> None:
    fitted, _ = jax.jit(partial(maximise, POLICY), static_argnums=2)(
        make_data(8), POLICY.default_sites(1, 1, 1), MAP()
    )
    for i, policy in enumerate(POLICY.policies):
        own, _ = jax.jit(partial(maximise, policy), static_argnums=2)(
            make_data(8), policy.default_sites(1, 1, 1), MAP()
        )
        for name, value in own.items():
            np.testing.assert_allclose(fitted[f"model{i}/{name}"], value, rtol=1e-6)


@pytest.mark.slow
def test_a_sample_is_one_of_the_policies() -> None:
    state = condition(POLICY, make_data(6))
    draw = jax.jit(jax.vmap(lambda key: POLICY.sample(state, CONTEXT, ACTIONS, key)))
    samples = np.asarray(draw(jax.random.split(jax.random.key(0), 4000)))
    moments, _ = look(POLICY, state)
    error = np.abs(samples.mean(axis=0) - moments.mean) / np.sqrt(moments.variance / 4000)
    assert np.all(error < 4.5)  # false alarm: 3e-5
    np.testing.assert_allclose(samples.var(axis=0), moments.variance, rtol=0.15)
    assert not StackedPolicy((PAPER, DirectPolicy()), (0.5, 0.5)).draws_jointly


@pytest.mark.slow
def test_a_live_agent_takes_it_but_cannot_average_it_over_draws() -> None:
    agent = Agent(np.linspace(-1, 1, 4), policy=POLICY, inference=MAP(every=2), seed=3)
    for context in (0.1, -0.4, 0.8):
        decision = agent.ask(context)
        agent.tell(decision.ticket, intermediate=context, outcome=1.0 + context)
    assert {name.split("/")[0] for name in agent.sites} == {"model0", "model1"}
    assert np.all(np.isfinite(agent.score(0.2)["score"]))
    with pytest.raises(ValueError, match="policy: expected an EmbeddingPolicy or"):
        Agent([0.0, 1.0], policy=POLICY, inference=NUTS())


@pytest.mark.parametrize(
    ("policies", "weights", "message"),
    [
        ((), (), "policies: expected a tuple of policies"),
        ((PAPER, "gp"), (0.5, 0.5), "policies: expected a tuple of policies"),
        ((PAPER, MarginalPolicy()), (0.5, 0.5), "policies: expected none that is averaged"),
        ((PAPER,), (0.5, 0.5), "weights: expected a tuple of 1 numbers"),
        ([PAPER], (1.0,), "policies: expected a tuple of policies"),
        ((PAPER,), [1.0], "weights: expected a tuple of 1 numbers"),
        ((PAPER,), ("a",), r"weights\[0\]: expected a number from 0.0 to 1.0, got 'a'"),
        ((PAPER, ANOVA), (1.5, -0.5), r"weights\[0\]: expected a number from 0.0 to 1.0, got 1.5"),
        ((PAPER, ANOVA), (0.5, 0.4), "weights: expected a sum of 1, got 0.9"),
    ],
)
def test_wrong_policies_and_weights_are_refused(policies, weights, message) -> None:
    with pytest.raises(ValueError, match=message):
        StackedPolicy(policies, weights)
