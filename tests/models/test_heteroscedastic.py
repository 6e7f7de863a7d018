"""Transition GPs whose noise varies: the noise itself, and that everything else follows it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bayes_cmab import posteriors, scores
from bayes_cmab.data import Data, Outcomes, Rewards, Transitions
from bayes_cmab.inference import MAP, maximise_program
from bayes_cmab.models import HeteroscedasticTransitionModel, TransitionModel
from bayes_cmab.models.priors import Sites
from bayes_cmab.policies import ResidualPolicy, TransitionPolicy
from bayes_cmab.programs import Program, potential, sample_sites
from bayes_cmab.scaling import Scales

MODEL, PLAIN = HeteroscedasticTransitionModel(), TransitionModel()
RNG = np.random.default_rng(2)
N, CAPACITY = 8, 10
S, A = RNG.uniform(-2.0, 2.0, (2, N, 1))
R = np.concatenate([np.sin(2 * S), np.cos(A)], axis=1) + 0.2 * RNG.standard_normal((N, 2))
ROWS = Transitions.create(S, A, R, capacity=CAPACITY)
SITES = MODEL.default_sites(1, 1, 2) | {
    "transition_noise_factor_s": jnp.exp(0.7 * RNG.standard_normal((2, 1, 5))),
    "transition_noise_factor_a": jnp.exp(0.7 * RNG.standard_normal((2, 1, 5))),
}


def noise_at(s: float, a: float) -> np.ndarray:
    hyper = MODEL.hyperparameters(SITES)
    return np.asarray(MODEL.noise(hyper, jnp.array([[s]]), jnp.array([[a]])))[0]


def test_the_noise_is_a_product_of_factors_at_the_knots() -> None:
    base = np.asarray(MODEL.hyperparameters(SITES).transition_noise)
    factors = [
        np.asarray(SITES[f"transition_noise_factor_{name}"])[:, 0, :] ** 2 for name in ("s", "a")
    ]
    far = base * factors[0][:, -1] * factors[1][:, 0]
    np.testing.assert_allclose(noise_at(9.0, -9.0), far, rtol=1e-6)  # beyond the last knots
    middle = base * np.sqrt(factors[0][:, 2] * factors[0][:, 3]) * factors[1][:, 0]
    np.testing.assert_allclose(noise_at(0.4, -9.0), middle, rtol=0.3)  # between two of them


def test_with_factors_of_one_it_is_the_plain_model() -> None:
    sites = MODEL.default_sites(1, 1, 2)

    @jax.jit
    def both(t: Transitions) -> tuple[jax.Array, ...]:
        models = ((MODEL, sites), (PLAIN, PLAIN.default_sites(1, 1, 2)))
        return tuple(model.log_likelihood(model.hyperparameters(own), t) for model, own in models)

    np.testing.assert_allclose(*both(ROWS), rtol=1e-12)


def test_the_likelihood_is_that_of_a_dense_gp_with_this_noise() -> None:
    hyper = MODEL.hyperparameters(SITES)
    gram = np.asarray(MODEL.gram(hyper, *(jnp.asarray(x) for x in (S, A, S, A))))
    noise = np.asarray(MODEL.noise(hyper, jnp.asarray(S), jnp.asarray(A)))
    expected = sum(
        stats.multivariate_normal(cov=gram[j] + np.diag(noise[:, j])).logpdf(R[:, j])
        for j in range(2)
    )
    got = jax.jit(lambda t: MODEL.log_likelihood(MODEL.hyperparameters(SITES), t))(ROWS)
    np.testing.assert_allclose(got, expected, rtol=1e-9)


@pytest.mark.slow
def test_the_program_scores_the_factors_by_their_prior() -> None:
    program = Program(MODEL, (ROWS,))
    names = set(sample_sites(program))
    assert names == set(SITES)
    unconstrained = {name: jnp.log(value) for name, value in SITES.items()}
    plain = {name: unconstrained[name] for name in PLAIN.default_sites(1, 1, 2)}
    gap = potential(Program(PLAIN, (ROWS,)), plain) - potential(program, unconstrained)
    logs = np.concatenate(
        [np.ravel(np.log(SITES[f"transition_noise_factor_{name}"])) for name in ("s", "a")]
    )
    prior = stats.norm(scale=0.7).logpdf(logs).sum()
    likelihoods = [
        model.log_likelihood(model.hyperparameters(SITES), ROWS) for model in (MODEL, PLAIN)
    ]
    np.testing.assert_allclose(gap, prior + likelihoods[0] - likelihoods[1], rtol=1e-8)


@jax.jit
def conditioned(t: Transitions) -> posteriors.TransitionPosterior:
    return posteriors.condition_transition(MODEL, MODEL.hyperparameters(SITES), t)


def test_rows_one_by_one_and_fitted_values_agree_with_predictions() -> None:
    append = jax.jit(partial(posteriors.append_transition, MODEL))
    few = Transitions.create(S[:5], A[:5], R[:5], capacity=CAPACITY)
    state = conditioned(few)
    for i in range(5, N):
        state = append(state, *(jnp.asarray(x[i]) for x in (S, A, R)))

    @jax.jit
    def both(
        known: posteriors.TransitionPosterior, t: Transitions
    ) -> tuple[posteriors.Predicted, ...]:
        predict = partial(posteriors.predict_transition, MODEL, known)
        each = jax.vmap(lambda s, a: predict(s, a[None]))(t.contexts, t.actions)
        fitted = posteriors.fitted_transition(MODEL, known, t.intermediates)
        return fitted, posteriors.Predicted(*(x[:, 0] for x in each))

    for known in (state, conditioned(ROWS)):
        fitted, predicted = both(known, ROWS)
        for got, expected in zip(fitted, predicted, strict=True):
            np.testing.assert_allclose(got[:N], expected[:N], rtol=1e-8)
    np.testing.assert_allclose(state.whitened, conditioned(ROWS).whitened, rtol=1e-9, atol=1e-12)


def test_leave_one_out_is_what_is_predicted_without_the_row() -> None:
    mean, variance = jax.jit(partial(scores.leave_one_out_transition, MODEL, SITES))(ROWS)
    rest = [j for j in range(N) if j != 3]
    known = conditioned(Transitions.create(S[rest], A[rest], R[rest], capacity=CAPACITY))
    at = posteriors.predict_transition(MODEL, known, jnp.asarray(S[3]), jnp.asarray(A[3])[None])
    np.testing.assert_allclose(mean[3, 3], at.mean[0], rtol=1e-8)
    np.testing.assert_allclose(variance[3, 3], at.variance[0], rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TransitionPolicy, ResidualPolicy])
def test_policies_use_the_noise_of_the_action(kind: type) -> None:
    """Where the noise is larger, a curved f is averaged over more of it."""
    scales = Scales.identity(1, 1, 2)
    y = R[:, 0] ** 2
    data = Data(ROWS, Outcomes.create(R, y, capacity=CAPACITY), Rewards.empty(1, 1, CAPACITY))

    @partial(jax.jit, static_argnums=0)
    def moments(policy: TransitionPolicy | ResidualPolicy, sites: Sites) -> jax.Array:
        state = policy.condition(sites, data, scales)
        return policy.moments(state, jnp.array([0.2]), jnp.array([[-1.6], [1.6]])).mean

    policy = kind(transition=MODEL)
    sites = policy.default_sites(1, 1, 2)
    plain = moments(kind(), sites)
    np.testing.assert_allclose(moments(policy, sites), plain, rtol=1e-9)
    louder = sites["transition_noise_factor_a"].at[:, :, -1].set(6.0)
    moved = moments(policy, sites | {"transition_noise_factor_a": louder})
    assert abs(moved[1] - plain[1]) > 0.05 * abs(plain[1])


@pytest.mark.slow
def test_fitting_finds_where_the_noise_is() -> None:
    rng = np.random.default_rng(0)
    s, a = rng.uniform(-1.7, 1.7, (2, 60, 1))
    r = np.sin(s) + (0.05 + 0.4 * np.abs(a)) * rng.standard_normal((60, 1))
    rows = Transitions.create(s, a, r)
    start = MODEL.default_sites(1, 1, 1)
    found, _ = jax.jit(lambda t: maximise_program(Program(MODEL, (t,)), start, MAP()))(rows)
    hyper = MODEL.hyperparameters(found)
    at = jnp.array([[-1.6], [0.0], [1.6]])
    noise = np.sqrt(np.asarray(MODEL.noise(hyper, jnp.zeros((3, 1)), at))[:, 0])
    assert noise[0] > 2.0 * noise[1]
    assert noise[2] > 2.0 * noise[1]


def test_wrong_configurations_are_refused() -> None:
    with pytest.raises(ValueError, match="knots: expected at least one, got none"):
        HeteroscedasticTransitionModel(knots=())
    message = r"width: expected a number between 0\.0 and inf, got 0\.0"
    with pytest.raises(ValueError, match=message):
        HeteroscedasticTransitionModel(width=0.0)
