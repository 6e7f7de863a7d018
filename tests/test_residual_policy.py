"""The agent with a transition prior: rows one by one, modular inference, ANOVA kernels."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bayes_cmab import posteriors
from bayes_cmab.data import Data, Outcomes, Rewards, Transitions
from bayes_cmab.environments import SETTINGS
from bayes_cmab.inference import MAP, maximise, maximise_program
from bayes_cmab.models import AnovaEmbeddingModel, TransitionModel
from bayes_cmab.models.embedding import reference_features
from bayes_cmab.models.priors import EmbeddingPriors
from bayes_cmab.moments import Moments
from bayes_cmab.policies import ResidualPolicy
from bayes_cmab.programs import Program, potential, prior_log_density, sample_sites
from bayes_cmab.registry import make_agent
from bayes_cmab.scaling import Scales
from bayes_cmab.simulation import play

POLICY, CAPACITY = ResidualPolicy(), 12
SCALES = Scales.identity(1, 1, 2)
CONTEXT, ACTIONS = jnp.array([0.3]), jnp.linspace(-1.5, 1.5, 5)[:, None]
RNG = np.random.default_rng(3)
S, A = RNG.uniform(-1.5, 1.5, (2, 10, 1))
R = np.concatenate([np.sin(2 * S), np.cos(A)], axis=1) + 0.2 * RNG.standard_normal((10, 2))
Y = np.sin(2 * R[:, 0]) + 0.3 * RNG.standard_normal(10)
SITES = POLICY.default_sites(1, 1, 2)


def make_data(n: int) -> Data:
    return Data(
        Transitions.create(S[:n], A[:n], R[:n], capacity=CAPACITY),
        Outcomes.create(R[:n], Y[:n], capacity=CAPACITY),
        Rewards.empty(1, 1, CAPACITY),
    )


CONDITION = jax.jit(lambda data: POLICY.condition(SITES, data, SCALES))
MOMENTS = jax.jit(lambda state: POLICY.moments(state, CONTEXT, ACTIONS))


def test_fitted_values_are_the_predictions_at_the_transitions() -> None:
    @jax.jit
    def both(data: Data) -> tuple[posteriors.Predicted, tuple[jax.Array, ...]]:
        t = data.transitions
        hyper = POLICY.transition.hyperparameters(SITES)
        known = posteriors.condition_transition(POLICY.transition, hyper, t)
        predict = jax.vmap(
            lambda s, a: posteriors.predict_transition(POLICY.transition, known, s, a[None])
        )
        fitted = posteriors.fitted_transition(POLICY.transition, known, t.intermediates)
        return fitted, tuple(x[:, 0] for x in predict(t.contexts, t.actions))

    for got, expected in zip(*both(make_data(8)), strict=True):
        np.testing.assert_allclose(got[:8], expected[:8], rtol=1e-9)


def test_rows_one_by_one_give_the_same_as_all_at_once() -> None:
    state = CONDITION(make_data(5))
    observe = jax.jit(
        lambda state, s, a, r, y: POLICY.observe_outcome(
            POLICY.observe_transition(state, s, a, r), r, y
        )
    )
    for i in range(5, 9):
        state = observe(state, *(jnp.asarray(x[i]) for x in (S, A, R, Y)))
    got, expected = MOMENTS(state), MOMENTS(CONDITION(make_data(9)))
    for field in got._fields[:-1]:
        np.testing.assert_allclose(getattr(got, field), getattr(expected, field), rtol=1e-8)


@pytest.mark.slow
def test_draws_have_the_mean_and_the_variance_of_the_moments() -> None:
    """4000 draws: an error of 5 standard errors has a probability below 1e-5 over all checks."""
    actions = jnp.concatenate([ACTIONS, ACTIONS[:1]])  # one of them twice

    @jax.jit
    def sampled(data: Data) -> tuple[Moments, jax.Array]:
        state = POLICY.condition(SITES, data, SCALES)
        keys = jax.random.split(jax.random.key(2), 4000)
        draws = jax.lax.map(
            lambda key: POLICY.sample(state, CONTEXT, actions, key), keys, batch_size=100
        )
        return POLICY.moments(state, CONTEXT, actions), draws

    expected, draws = jax.device_get(sampled(make_data(6)))
    error = np.sqrt(expected.variance / len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - expected.mean) < 5.0 * error)
    centred = (draws - draws.mean(axis=0)) ** 2
    error = centred.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(centred.mean(axis=0) - expected.variance) < 5.0 * error)
    assert np.all(expected.variance_transition > 0.05 * expected.variance)
    np.testing.assert_allclose(draws[:, 0], draws[:, -1], atol=1e-3)
    assert np.std(draws[:, 0] - draws[:, 1]) > 0.1


@pytest.mark.slow
def test_the_transitions_hyperparameters_know_nothing_of_the_embedding() -> None:
    data, settings = make_data(10), MAP(max_steps=30)
    fit = jax.jit(partial(maximise, POLICY), static_argnums=2)
    sites, info = fit(data, SITES, settings)
    own = TransitionModel().default_sites(1, 1, 2)
    program = Program(TransitionModel(), (data.transitions,))
    alone, _ = jax.jit(lambda start: maximise_program(program, start, settings))(own)
    for name in own:
        np.testing.assert_allclose(sites[name], alone[name], rtol=1e-6)
    assert set(info) == {"reward", "transition", "embedding"}
    assert set(sites) == set(SITES)
    features = jax.jit(POLICY.residual_features)(data, sites)
    plain = jax.jit(reference_features)(data.transitions)
    assert np.trace(features.gram) < 0.5 * np.trace(plain.gram)  # little is left unexplained


@pytest.mark.slow
def test_it_learns() -> None:
    """Setting A, 3 paired trials of 30 rounds: a smoke test of the whole, not a claim."""
    options = {"rounds": 30, "offline": 10, "seed": 0, "trials": range(3)}
    sharp, random = (
        play(make_agent(name, SETTINGS["A"], refit_every=10), SETTINGS["A"], **options)
        for name in ("residual-map", "random")
    )
    assert sharp.rounds.mean_reward.sum() > 1.3 * random.rounds.mean_reward.sum()
    assert np.all(sharp.rounds.predicted_variance >= 0.0)


def test_another_likelihood_of_the_residual_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected the likelihood 'composite', .* got 'matrix_n"):
        ResidualPolicy(embedding=AnovaEmbeddingModel(likelihood="matrix_normal"))


# The ANOVA kernel

MODEL = AnovaEmbeddingModel()


@pytest.mark.parametrize(
    "options", [{"unit_variance": True}, {"priors": EmbeddingPriors(noise_floor=0.1)}]
)
def test_options_that_the_weights_replace_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected anova_priors alone, which hold the weights"):
        AnovaEmbeddingModel(**options)


@pytest.mark.parametrize(("p", "q"), [(1, 1), (2, 1), (0, 2)])
def test_the_kernel_is_the_weighted_sum_of_its_components(p: int, q: int) -> None:
    rng = np.random.default_rng(0)
    sites = {name: 1.3 * value for name, value in MODEL.default_sites(p, q).items()}
    hyper = MODEL.hyperparameters(sites)
    s, a = rng.normal(size=(4, p)), rng.normal(size=(4, q))
    gram = jax.jit(MODEL.gram)(hyper, s, a, s, a)

    def rbf(x: np.ndarray, scale: float) -> np.ndarray:
        return np.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(axis=-1) / scale**2)

    weight = 1.3**2 * 0.1
    k_s, k_a = rbf(s, 1.3 * 0.6), rbf(a, 1.3 * 0.6)
    expected = weight * (1 + k_a) if p == 0 else weight * (1 + k_s + k_a + k_s * k_a)
    np.testing.assert_allclose(gram, expected, rtol=1e-12)


@pytest.mark.parametrize(("p", "q"), [(1, 1), (0, 2)])
def test_the_programs_density_is_the_likelihood_times_the_priors(p: int, q: int) -> None:
    rng = np.random.default_rng(1)
    rows = Transitions.create(rng.normal(size=(5, p)), rng.normal(size=(5, q)), R[:5])
    features = jax.jit(reference_features)(rows)
    program = Program(MODEL, (rows, features))
    sites = {name: 0.8 * value for name, value in MODEL.default_sites(p, q).items()}
    assert set(sample_sites(program)) == set(sites)
    density = jax.jit(lambda z: potential(program, z))({k: jnp.log(v) for k, v in sites.items()})
    likelihood = jax.jit(MODEL.log_likelihood)(MODEL.hyperparameters(sites), rows, features)
    priors = MODEL.anova_priors
    spreads = {
        name: priors.lengthscale if "lengthscale" in name else priors.weight.root()
        for name in sites
    } | {"embedding_noise_scale": priors.noise_scale}
    prior = sum(
        stats.norm.logpdf(np.log(value), np.log(spreads[name].median), spreads[name].spread).sum()
        for name, value in sites.items()
    )
    np.testing.assert_allclose(-density, float(likelihood) + prior, rtol=1e-9)
    by_site = prior_log_density(program, sites)
    jacobian = sum(float(jnp.sum(jnp.log(value))) for value in sites.values())
    total = sum(float(jnp.sum(value)) for value in by_site.values())
    np.testing.assert_allclose(total + jacobian, prior, rtol=1e-9)
