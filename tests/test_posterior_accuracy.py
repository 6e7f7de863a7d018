"""Whether the draws are right: grids, fresh long runs, and simulation-based calibration."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bayes_cmab.data import Data, Outcomes, Rewards, Transitions
from bayes_cmab.inference import NUTS, SVI, Sampler
from bayes_cmab.inference.gate import Gate
from bayes_cmab.inference.marginal import Inferred, begin, infer, run_pass
from bayes_cmab.models import EmbeddingModel, RewardModel
from bayes_cmab.models.embedding import reference_features
from bayes_cmab.moments import Moments
from bayes_cmab.policies import MarginalPolicy
from bayes_cmab.posteriors import MarginalPosterior, effective_sample_size, log_weights
from bayes_cmab.programs import Program, coordinates, potential

pytestmark = pytest.mark.slow

LENIENT = Gate(rhat=np.inf, ess=0.0, divergent=1.0, bfmi=0.0, pareto_k=np.inf, elbo_drift=np.inf)
POLICY = MarginalPolicy()
CONTEXT, ACTIONS = jnp.array([0.3]), jnp.linspace(-1.5, 1.5, 7)[:, None]
LONG = NUTS(draws=400, chains=4, warmup=60, thinning=3, passes=3)


def make_data(n: int) -> Data:
    rng = np.random.default_rng(5)
    s, a = rng.uniform(-1.5, 1.5, (2, 32, 1))
    r = np.sin(2 * s) + np.cos(a) + 0.2 * rng.standard_normal((32, 1))
    y = np.sin(2 * r[:, 0]) + 0.3 * rng.standard_normal(32)
    return Data(
        Transitions.create(s[:n], a[:n], r[:n], capacity=32),
        Outcomes.create(r[:n], y[:n], capacity=32),
        Rewards.empty(1, 1, 32),
    )


def infer_with(sampler: Sampler, n: int, seed: int) -> tuple[Inferred, MarginalPosterior]:
    inferred, state, _ = infer(POLICY, sampler, LENIENT, make_data(n), jax.random.key(seed))
    return inferred, state


@partial(jax.jit, static_argnums=0)
def moments(policy: MarginalPolicy, state: MarginalPosterior) -> Moments:
    return policy.moments(state, CONTEXT, ACTIONS)


def monte_carlo_variance(state: MarginalPosterior, known: Moments) -> np.ndarray:
    """Return the variance of the mean of ``g`` as an average over the draws, per action."""
    sizes = [effective_sample_size(w) for w in log_weights(POLICY.base.reward, state)]
    # A draw of NUTS that was thinned by three counts as at least a third of an independent one.
    return 3.0 * np.asarray(
        known.variance_reward_hyperparameters / sizes[0]
        + known.variance_embedding_hyperparameters / sizes[1]
    )


def test_reweighted_draws_agree_with_a_fresh_long_run() -> None:
    """Means of ``g`` at 7 actions within 5 Monte Carlo errors; deviations within a tenth.

    The false-alarm rate of the means is below 1e-5.
    """
    inferred, _ = infer_with(LONG, 20, 1)
    state = jax.jit(POLICY.condition)(inferred.draws, make_data(23), None)
    shares = jax.jit(POLICY.effective_shares)(state)
    assert 0.2 < float(shares.min()) < 0.98  # the new rows count, and do not ruin the draws
    _, fresh = infer_with(LONG, 23, 2)
    reweighted, expected = moments(POLICY, state), moments(POLICY, fresh)
    error = monte_carlo_variance(state, reweighted) + monte_carlo_variance(fresh, expected)
    z = np.asarray(reweighted.mean - expected.mean) / np.sqrt(error)
    assert np.max(np.abs(z)) < 5.0
    np.testing.assert_allclose(np.sqrt(reweighted.variance / expected.variance), 1.0, rtol=0.1)


def test_variational_draws_come_close_to_nuts() -> None:
    """Means of ``g`` within 0.15 of its standard deviation, deviations within 15%.

    SVI is an approximation; what is seen here is 0.03 and 3%.
    """
    _, state = infer_with(SVI(draws=400, diagnostic_draws=400, steps=150, particles=8), 23, 3)
    _, exact = infer_with(LONG, 23, 2)
    got, expected = moments(POLICY, state), moments(POLICY, exact)
    deviation = np.sqrt(expected.variance)
    assert np.max(np.abs(got.mean - expected.mean) / deviation) < 0.15
    np.testing.assert_allclose(np.sqrt(got.variance) / deviation, 1.0, rtol=0.15)


def test_the_embeddings_draws_have_the_moments_of_a_dense_grid_integral() -> None:
    """Means and deviations of two logarithms within 4.5 errors of 200 effective draws of 1,200."""
    model = EmbeddingModel(unit_variance=True)
    t = make_data(24).transitions
    rows = Transitions(jnp.zeros((32, 0)), t.actions, t.intermediates, t.size)
    arguments = (rows, jax.jit(reference_features)(rows))
    start = begin(model, LONG, arguments, jax.random.key(0))
    for number in range(3):
        fit = run_pass(model, LONG, arguments, jax.random.key(number), start)
        start = fit.following
    names = ("embedding_lengthscale_a", "embedding_noise_scale")
    got = np.stack([np.log(np.asarray(fit.trace[name])).ravel() for name in names])
    axes = jnp.linspace(-3.5, 2.5, 121), jnp.linspace(-3.0, 1.5, 121)

    @jax.jit
    @partial(jax.vmap, in_axes=(None, 0))
    @partial(jax.vmap, in_axes=(0, None))
    def energy(x: jax.Array, z: jax.Array) -> jax.Array:
        return potential(Program(model, arguments), {names[0]: x[None], names[1]: z})

    values = np.asarray(energy(*axes))
    weight = np.exp(values.min() - values)
    weight /= weight.sum()
    assert weight[[0, -1]].sum() + weight[:, [0, -1]].sum() < 1e-4  # the grid is wide enough
    points = np.stack(np.meshgrid(*axes))
    mean = (points * weight).sum(axis=(1, 2))
    deviation = np.sqrt(((points - mean[:, None, None]) ** 2 * weight).sum(axis=(1, 2)))
    error = 4.5 * deviation / np.sqrt(200)
    np.testing.assert_array_less(np.abs(got.mean(axis=1) - mean), error)
    np.testing.assert_array_less(np.abs(got.std(axis=1) - deviation), error)


def test_the_ranks_of_simulation_based_calibration_are_uniform() -> None:
    """Talts et al. 2018: 320 data sets of 12 outcomes from the prior; ranks among 31 draws.

    A chi-squared test of 8 bins for each of the three sites at level 1e-3 / 3: the false-alarm
    rate of the test is 1e-3.
    """
    model, simulations = RewardModel(), 320
    points = np.random.default_rng(0).uniform(-2.0, 2.0, (12, 1))
    sampler = NUTS(draws=32, chains=1, warmup=60, thinning=12)
    program = Program(model, (Outcomes.create(points, np.zeros(12), capacity=12),))

    @jax.jit
    @jax.vmap
    def simulate(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        space = coordinates(program)
        keys = jax.random.split(key, 3)
        widths = jnp.array([0.7, 1.2, 0.7])  # spreads of the logarithms, sites by name
        medians = jnp.log(jnp.array([1.0, 0.3, 1.0]))
        z = medians + widths * jax.random.normal(keys[0], (3,))
        hyper = model.hyperparameters(space.constrain(z))
        covariance = model.covariance(hyper, jnp.asarray(points))
        return z, jnp.linalg.cholesky(covariance) @ jax.random.normal(keys[1], (12,))

    @jax.jit
    def ranks(inputs: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        def one(inputs: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
            key, z, y = inputs
            rows = Outcomes(jnp.asarray(points), y, jnp.asarray(12))
            own = Program(model, (rows,))
            start = sampler.begin(own, key)
            for number in range(3):
                fit = sampler.fit(own, jax.random.fold_in(key, number), start)
                start = fit.following
            draws = [
                jnp.log(fit.sites[name]).reshape(32)[:31] for name in sorted(model.default_sites(1))
            ]
            return jnp.sum(jnp.stack(draws) < z[:, None], axis=1)

        return jax.lax.map(one, inputs)

    keys = jax.random.split(jax.random.key(7), simulations)
    z, y = simulate(keys)
    got = np.asarray(ranks((keys, z, y)))
    assert got.min() == 0
    assert got.max() == 31
    for column in got.T:
        counts = np.bincount(column // 4, minlength=8)
        assert stats.chisquare(counts).pvalue > 1e-3 / 3
