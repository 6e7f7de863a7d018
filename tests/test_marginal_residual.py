"""The agent with a transition prior, averaged over draws: against one draw, and all pairs."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_cmab.data import Data, Outcomes, Rewards, Transitions
from bayes_cmab.inference import NUTS
from bayes_cmab.inference.gate import Gate
from bayes_cmab.inference.marginal import infer
from bayes_cmab.marginal_residual import mean_residual_gram
from bayes_cmab.models.embedding import reference_lengthscale
from bayes_cmab.models.priors import Sites
from bayes_cmab.moments import Moments
from bayes_cmab.policies import HyperparameterDraws, MarginalResidualPolicy, ResidualPolicy
from bayes_cmab.posteriors import ResidualDraws, WeightedDraws
from bayes_cmab.posteriors.marginal_residual import (
    condition_transition_draws,
    representatives,
    transition_log_likelihood,
)
from bayes_cmab.scaling import Scales

BASE, CAPACITY, SCALES = ResidualPolicy(), 9, Scales.identity(1, 1, 2)
CONTEXT, ACTIONS = jnp.array([0.3]), jnp.linspace(-1.5, 1.5, 4)[:, None]
RNG = np.random.default_rng(5)
S, A = RNG.uniform(-1.5, 1.5, (2, 8, 1))
R = np.concatenate([np.sin(2 * S), np.cos(A)], axis=1) + 0.2 * RNG.standard_normal((8, 2))
Y = np.sin(2 * R[:, 0]) + 0.3 * RNG.standard_normal(8)
DEFAULTS = {
    "reward": BASE.reward.default_sites(2),
    "transition": BASE.transition.default_sites(1, 1, 2),
    "embedding": BASE.embedding.default_sites(1, 1),
}


def make_data(n: int) -> Data:
    return Data(
        Transitions.create(S[:n], A[:n], R[:n], capacity=CAPACITY),
        Outcomes.create(R[:n], Y[:n], capacity=CAPACITY),
        Rewards.empty(1, 1, CAPACITY),
    )


def make_draws(count: int) -> HyperparameterDraws:
    rng = np.random.default_rng(0)
    programs = {
        name: WeightedDraws(
            {
                site: np.asarray(value)[None]
                * np.exp(0.4 * rng.standard_normal((count, *np.shape(value))))
                for site, value in sites.items()
            },
            jnp.zeros(count),
        )
        for name, sites in DEFAULTS.items()
    }
    return HyperparameterDraws(programs, jnp.ones(2))


@partial(jax.jit, static_argnums=0)
def settle(
    policy: MarginalResidualPolicy, draws: HyperparameterDraws, data: Data
) -> tuple[HyperparameterDraws, ResidualDraws]:
    return policy.refitted(draws, data, jnp.ones(3, bool))


@partial(jax.jit, static_argnums=0)
def moments(policy: MarginalResidualPolicy | ResidualPolicy, state) -> Moments:
    return policy.moments(state, CONTEXT, ACTIONS)


@partial(jax.jit, static_argnums=0)
def observe(policy: MarginalResidualPolicy, state: ResidualDraws, s, a, r, y) -> ResidualDraws:
    return policy.observe_outcome(policy.observe_transition(state, s, a, r), r, y)


@jax.jit
def base_moments(sites: Sites, data: Data) -> Moments:
    return BASE.moments(BASE.condition(sites, data, SCALES), CONTEXT, ACTIONS)


def one_of_each(draws: HyperparameterDraws, t: int, j: int, i: int) -> Sites:
    chosen = {"reward": t, "transition": j, "embedding": i}
    return {
        site: value[chosen[name]]
        for name, own in draws.programs.items()
        for site, value in own.sites.items()
    }


@pytest.mark.parametrize("pairs", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_with_one_draw_the_moments_are_those_of_the_fixed_agent(pairs: int) -> None:
    policy, draws, data = MarginalResidualPolicy(BASE, pairs), make_draws(1), make_data(6)
    got = moments(policy, settle(policy, draws, data)[1])
    expected = base_moments(one_of_each(draws, 0, 0, 0), data)
    for field in got._fields[:-1]:
        np.testing.assert_allclose(
            getattr(got, field), getattr(expected, field), rtol=1e-10, atol=1e-14, err_msg=field
        )


def test_with_one_draw_a_joint_draw_is_that_of_the_fixed_agent() -> None:
    policy, draws, data = MarginalResidualPolicy(BASE, 2), make_draws(1), make_data(6)
    key = jax.random.key(4)

    @jax.jit
    def both(draws: HyperparameterDraws, sites: Sites) -> tuple[jax.Array, jax.Array]:
        state = policy.refitted(draws, data, jnp.ones(3, bool))[1]
        own = BASE.condition(sites, data, SCALES)
        return (
            policy.sample(state, CONTEXT, ACTIONS, key),
            BASE.sample(own, CONTEXT, ACTIONS, key),
        )

    got, expected = both(draws, one_of_each(draws, 0, 0, 0))
    np.testing.assert_allclose(got, expected, rtol=1e-8)


@pytest.mark.slow
def test_joint_draws_visit_all_draws_by_their_weights() -> None:
    policy, draws, data = MarginalResidualPolicy(BASE, 2), make_draws(3), make_data(6)
    state = settle(policy, draws, data)[1]

    @jax.jit
    def drawn(state: ResidualDraws) -> tuple[jax.Array, jax.Array]:
        keys = jax.random.split(jax.random.key(3), 4000)
        sample = partial(policy.sample, state, CONTEXT, ACTIONS)
        mixture = MarginalResidualPolicy(BASE, 3).moments(state, CONTEXT, ACTIONS)
        return jax.lax.map(sample, keys, batch_size=100), mixture.mean

    draws_of_g, mean = jax.device_get(drawn(state))  # equal weights: three stand for all exactly
    error = draws_of_g.std(axis=0) / np.sqrt(len(draws_of_g))
    assert np.all(np.abs(draws_of_g.mean(axis=0) - mean) < 5.0 * error)


def test_moments_are_those_of_the_pairs_they_are_made_of() -> None:
    policy, draws, data = MarginalResidualPolicy(BASE, 3), make_draws(3), make_data(6)
    got = moments(policy, settle(policy, draws, data)[1])
    table = [[base_moments(one_of_each(draws, t, j, j), data) for j in range(3)] for t in range(3)]
    means = np.array([[np.asarray(cell.mean) for cell in row] for row in table])
    np.testing.assert_allclose(got.mean, means.mean((0, 1)), rtol=1e-10)
    between = got.variance_reward_hyperparameters + got.variance_embedding_hyperparameters
    np.testing.assert_allclose(between, means.var((0, 1)), rtol=1e-9)
    assert np.all(np.asarray(got.variance_reward_hyperparameters) > 0)
    for part in ("variance_reward", "variance_embedding", "variance_transition"):
        inner = np.mean([np.asarray(getattr(table[i][i], part)) for i in range(3)], axis=0)
        np.testing.assert_allclose(getattr(got, part), inner, rtol=1e-9, err_msg=part)
    parts = [value for name, value in got._asdict().items() if name.startswith("variance_")]
    np.testing.assert_allclose(got.variance, np.sum(parts, axis=0), rtol=1e-12)


def test_the_mixture_has_the_moments_of_its_pairs() -> None:
    policy, draws, data = MarginalResidualPolicy(BASE, 3), make_draws(3), make_data(6)
    state = settle(policy, draws, data)[1]
    mixture = jax.jit(lambda state: policy.mixture(state, CONTEXT, ACTIONS))(state)
    np.testing.assert_allclose(mixture.weight, np.full(3, 1 / 3))
    for i in range(3):
        expected = base_moments(one_of_each(draws, i, i, i), data)
        np.testing.assert_allclose(mixture.mean[i], expected.mean, rtol=1e-10)
        np.testing.assert_allclose(mixture.variance[i], expected.variance, rtol=1e-9)


def test_rows_one_by_one_give_the_same_moments_and_weights_as_all_at_once() -> None:
    policy, draws = MarginalResidualPolicy(BASE, 3), make_draws(3)
    settled, state = settle(policy, draws, make_data(6))
    for i in (6, 7):
        state = observe(policy, state, *(jnp.asarray(x[i]) for x in (S, A, R, Y)))
    again = jax.jit(lambda draws, data: policy.refitted(draws, data, jnp.zeros(3, bool))[1])
    fresh = again(settled, make_data(8))
    got, expected = (jax.jit(policy.log_weights)(own) for own in (state, fresh))
    assert sorted(got) == ["embedding", "reward", "transition"]
    for name in got:
        np.testing.assert_allclose(got[name], expected[name], rtol=1e-8, err_msg=name)
    assert np.ptp(got["reward"]) > 0.01
    assert np.ptp(got["transition"]) > 0.01
    assert np.ptp(got["embedding"]) == 0
    for one, other in zip(moments(policy, state)[:-1], moments(policy, fresh)[:-1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7)


def test_weights_are_the_likelihood_gained_since_the_fit() -> None:
    policy, draws = MarginalResidualPolicy(BASE, 3), make_draws(3)
    state = settle(policy, draws, make_data(6))[1]
    state = observe(policy, state, *(jnp.asarray(x[6]) for x in (S, A, R, Y)))

    def gained(sites: Sites) -> jax.Array:
        model = BASE.transition
        hyper = model.hyperparameters(sites)
        now, then = (model.log_likelihood(hyper, make_data(n).transitions) for n in (7, 6))
        return now - then

    expected = np.asarray(jax.jit(jax.vmap(gained))(draws.programs["transition"].sites))
    got = np.asarray(jax.jit(policy.log_weights)(state)["transition"])
    np.testing.assert_allclose(got - got[0], expected - expected[0], rtol=1e-8)


def test_representatives_are_systematic() -> None:
    find = jax.jit(representatives, static_argnums=1)
    assert find(jnp.log(jnp.full(4, 0.25)), 4).tolist() == [0, 1, 2, 3]
    assert find(jnp.log(jnp.full(8, 0.125)), 4).tolist() == [0, 2, 4, 6]
    assert find(jnp.log(jnp.array([0.05, 0.6, 0.3, 0.05])), 4).tolist() == [1, 1, 1, 2]
    assert find(jnp.array([-jnp.inf, 0.0]), 3).tolist() == [1, 1, 1]


def test_the_residual_is_drawn_with_its_average_gram_matrix() -> None:
    policy, draws, data = MarginalResidualPolicy(BASE, 3), make_draws(3), make_data(6)
    given = jax.jit(lambda draws, fresh: policy.given("embedding", data, draws, fresh)[1].gram)
    got = given(draws.programs, {"transition": jnp.array(True)})
    features = jax.jit(BASE.residual_features)
    grams = [features(data, one_of_each(draws, 0, j, 0)).gram for j in range(3)]
    np.testing.assert_allclose(got, np.mean(grams, axis=0), rtol=1e-10, atol=1e-14)


def test_draws_that_are_not_fresh_are_weighted_by_what_they_have_gained() -> None:
    policy, data = MarginalResidualPolicy(BASE, 3), make_data(8)
    settled, _ = settle(policy, make_draws(3), make_data(5))
    own = settled.programs["transition"]

    @jax.jit
    def expected() -> jax.Array:
        transition = condition_transition_draws(BASE.transition, own.sites, data)
        gained = transition_log_likelihood(transition) - own.at_fit
        t = data.transitions
        lengthscale = jnp.broadcast_to(reference_lengthscale(t.intermediates, t.mask), (2,))
        weights = jax.nn.log_softmax(gained)
        rows = (t.intermediates, lengthscale, t.mask)
        return mean_residual_gram(BASE.transition, transition, weights, *rows, 3)

    given = jax.jit(lambda draws, fresh: policy.given("embedding", data, draws, fresh)[1].gram)
    got = given(settled.programs, {"transition": jnp.array(False)})
    np.testing.assert_allclose(got, expected(), rtol=1e-9, atol=1e-14)


def test_the_embedding_is_fitted_with_the_transition() -> None:
    policy = MarginalResidualPolicy()
    assert policy.names == ("reward", "transition", "embedding")
    assert policy.joined(("transition",)) == ("transition", "embedding")
    assert policy.joined(("embedding",)) == ("embedding",)
    assert policy.joined(("reward",)) == ("reward",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((None,), "base: expected a ResidualPolicy"), ((BASE, 0), "pairs: expected a whole number")],
)
def test_wrong_configurations_are_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MarginalResidualPolicy(*arguments)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_fit_draws_all_three_programs_and_later_only_those_that_are_asked_for() -> None:
    policy, sampler = MarginalResidualPolicy(BASE, 2), NUTS(draws=8, chains=2, warmup=10, passes=1)
    gate = Gate(rhat=10.0, ess=0.0, divergent=1.0, bfmi=0.0)
    first, state, attempts = infer(policy, sampler, gate, make_data(6), jax.random.key(0))
    assert sorted(attempts) == ["embedding", "reward", "transition"]
    assert np.all(np.isfinite(moments(policy, state).mean))
    later = infer(*(policy, sampler, gate, make_data(7), jax.random.key(1), first), ("transition",))
    assert sorted(later[2]) == ["embedding", "transition"]
    kept, drawn = first.draws.programs, later[0].draws.programs
    np.testing.assert_array_equal(kept["reward"].at_fit, drawn["reward"].at_fit)
    assert not np.array_equal(kept["transition"].at_fit, drawn["transition"].at_fit)
