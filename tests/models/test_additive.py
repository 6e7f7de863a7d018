"""The reward model with main effects: against its components, and quadrature."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import log_density
from scipy import stats

from bayes_cmab import posteriors
from bayes_cmab.data import Outcomes
from bayes_cmab.inference import MAP, maximise_program
from bayes_cmab.models import AdditiveRewardModel, RewardHyperparameters, RewardModel
from bayes_cmab.models.priors import AdditivePriors, LogNormal, RewardPriors
from bayes_cmab.posteriors import RewardPosterior
from bayes_cmab.programs import Program

MODEL, PLAIN, D = AdditiveRewardModel(), RewardModel(), 2
SITES = {
    "reward_lengthscale": jnp.array([0.9, 1.3]),
    "reward_scale": jnp.array(0.7),
    "reward_noise_scale": jnp.array(0.3),
    "reward_main_lengthscale": jnp.array([0.6, 1.7]),
    "reward_main_scale": jnp.array([1.1, 0.4]),
}
HYPER = MODEL.hyperparameters(SITES)
COLUMNS = ([0, 1], [0], [1])
RNG = np.random.default_rng(2)
X, Y, R = (RNG.normal(size=(n, D)) for n in (3, 4, 7))
OUTCOMES = Outcomes.create(R, np.sin(2 * R[:, 0]) + R[:, 1], capacity=9)


def component(c: int) -> tuple[RewardHyperparameters, list[int]]:
    """Return a component as a plain model of its columns alone, from the sites."""
    product = c == 0
    lengthscale = SITES["reward_lengthscale" if product else "reward_main_lengthscale"]
    scale = SITES["reward_scale"] if product else SITES["reward_main_scale"][c - 1]
    columns = COLUMNS[c]
    width = len(columns)
    own = RewardHyperparameters(
        lengthscale[jnp.array(columns)],
        scale**2,
        HYPER.reward_noise,
        HYPER.mean_variance,
        jnp.zeros(width),
        2.0 * jnp.ones(width),
    )
    return own, columns


@jax.jit
def condition() -> RewardPosterior:
    return posteriors.condition_reward(MODEL, HYPER, OUTCOMES)  # type: ignore[arg-type]


def test_gram_matrices_are_sums_over_the_components() -> None:
    v, w = RNG.uniform(0.1, 0.6, (3, D)), RNG.uniform(0.1, 0.6, (4, D))

    @jax.jit
    def whole() -> tuple[jax.Array, ...]:
        return (
            MODEL.gram(HYPER, X, Y),
            MODEL.third_gram(HYPER, X, Y),
            MODEL.smoothed_gram(HYPER, X, Y, w),
            MODEL.expected_gram(HYPER, X, v, Y, w),
            MODEL.mean_square(HYPER)[None],
        )

    @jax.jit
    def parts() -> tuple[jax.Array, ...]:
        totals = []
        for c in range(3):
            own, i = component(c)
            totals.append(
                (
                    PLAIN.gram(own, X[:, i], Y[:, i]),
                    PLAIN.third_gram(own, X[:, i], Y[:, i]),
                    PLAIN.smoothed_gram(own, X[:, i], Y[:, i], w[:, i]),
                    PLAIN.expected_gram(own, X[:, i], v[:, i], Y[:, i], w[:, i]),
                    PLAIN.mean_square(own)[None],
                )
            )
        return tuple(sum(each) for each in zip(*totals, strict=True))

    for got, expected in zip(whole(), parts(), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_the_second_moment_is_the_sum_of_the_components_by_quadrature() -> None:
    posterior = condition()
    nodes = np.linspace(-14.0, 14.0, 241)  # seven standard deviations of the measure
    weights = stats.norm.pdf(nodes, scale=2.0) * (nodes[1] - nodes[0])
    covariance = np.asarray(MODEL.covariance(HYPER, R))  # type: ignore[arg-type]
    alpha = np.linalg.solve(covariance, OUTCOMES.outcomes[:7])
    total = 0.0
    for c in range(3):
        own, columns = component(c)
        u = np.array(list(itertools.product(nodes, repeat=len(columns))))
        w = np.array([np.prod(p) for p in itertools.product(weights, repeat=len(columns))])
        cross = np.asarray(PLAIN.gram(own, u, R[:, columns]))
        prior = np.asarray(jax.vmap(lambda x, own=own: PLAIN.gram(own, x[None], x[None]))(u))
        variance = prior.ravel() - np.sum(cross * np.linalg.solve(covariance, cross.T).T, axis=1)
        total += w @ ((cross @ alpha) ** 2 + variance)
    got = jax.jit(lambda: posteriors.second_moment(MODEL, posterior))()
    np.testing.assert_allclose(got, total, rtol=1e-8)


def test_one_outcome_at_a_time_gives_the_same_as_all_at_once() -> None:
    nowhere = jnp.zeros((0, D))

    first = Outcomes.create(R[:6], OUTCOMES.outcomes[:6], capacity=9)

    @jax.jit
    def grown() -> RewardPosterior:
        start = posteriors.condition_reward(MODEL, HYPER, first)  # type: ignore[arg-type]
        targets = posteriors.condition_targets(MODEL, start, nowhere, jnp.asarray(0))
        row = (jnp.asarray(R[6]), OUTCOMES.outcomes[6])
        return posteriors.append_outcome(MODEL, start, targets, *row)[0]

    got, expected = grown(), condition()
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_with_one_dimension_it_is_the_plain_model() -> None:
    sites = MODEL.default_sites(1)
    assert sites == PLAIN.default_sites(1)
    outcomes = Outcomes.create(R[:, :1], Y[:, 0].sum() + R[:, 0] ** 2, capacity=9)
    own, base = (log_density(m, (outcomes,), {}, sites)[0] for m in (MODEL, PLAIN))
    np.testing.assert_allclose(own, base, rtol=1e-12)
    got = jax.jit(lambda: MODEL.gram(MODEL.hyperparameters(sites), X[:, :1], Y[:, :1]))()  # type: ignore[arg-type]
    expected = PLAIN.gram(PLAIN.hyperparameters(sites), X[:, :1], Y[:, :1])
    np.testing.assert_allclose(got, expected, rtol=1e-13)


def test_the_program_has_the_sites_of_the_model_and_a_finite_gradient() -> None:
    def density(sites: dict[str, jax.Array]) -> jax.Array:
        return log_density(MODEL, (OUTCOMES,), {}, sites)[0]

    value, gradient = jax.jit(jax.value_and_grad(density))(SITES)
    assert np.isfinite(value)
    assert set(gradient) == set(MODEL.default_sites(D))
    assert all(np.all(np.isfinite(leaf)) and np.all(leaf != 0) for leaf in gradient.values())


def test_a_component_without_variance_vanishes() -> None:
    sites = SITES | {"reward_main_scale": jnp.zeros(2)}
    got = jax.jit(lambda: MODEL.gram(MODEL.hyperparameters(sites), X, Y))()  # type: ignore[arg-type]
    own, _ = component(0)
    np.testing.assert_allclose(got, PLAIN.gram(own, X, Y), rtol=1e-13)


@pytest.mark.parametrize("options", [{"power": 0}, {"unit_variance": True}])
def test_other_kernels_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected power 1 and unit_variance False"):
        AdditiveRewardModel(**options)  # type: ignore[arg-type]


def test_priors_without_weights_of_the_main_effects_are_refused() -> None:
    with pytest.raises(ValueError, match="expected AdditivePriors, which weigh the main effects"):
        AdditiveRewardModel(priors=RewardPriors())  # type: ignore[arg-type]


PRODUCT_AND_SUM = (
    lambda r: 1.4 * np.sin(1.5 * r[:, 0]) * np.sin(1.5 * r[:, 1]),
    lambda r: np.sin(1.5 * r[:, 0]) + np.cos(1.5 * r[:, 1]),
)


def fitted(spread: float) -> list[tuple[np.ndarray, float]]:
    """Return the fitted variances of the components and the error of f, of a product and a sum."""
    model = AdditiveRewardModel(priors=AdditivePriors(weight=LogNormal(0.3, spread)))
    rng = np.random.default_rng(5)
    seen, unseen = rng.uniform(-2, 2, (100, 2)), rng.uniform(-2, 2, (500, 2))

    @jax.jit
    def fit(outcomes: Outcomes) -> tuple[jax.Array, jax.Array]:
        program = Program(model, (outcomes,))
        sites, _ = maximise_program(program, model.default_sites(2), MAP(max_steps=200))
        hyper = model.hyperparameters(sites)
        gram = model.gram(hyper, jnp.asarray(unseen), outcomes.intermediates)
        reward = posteriors.condition_reward(model, hyper, outcomes)  # type: ignore[arg-type]
        alpha = posteriors.reward_alpha(model, reward)
        return hyper.component_variance, (gram + hyper.mean_variance) @ alpha

    found = []
    for f in PRODUCT_AND_SUM:
        variance, mean = fit(Outcomes.create(seen, f(seen) + 0.3 * rng.normal(size=100)))
        found.append((np.asarray(variance), float(np.sqrt(np.mean((mean - f(unseen)) ** 2)))))
    return found


@pytest.mark.slow
def test_a_wider_prior_lets_components_vanish_and_predicts_no_better() -> None:
    default, wide = fitted(1.2), fitted(3.6)
    for (_, error), (_, other) in zip(default, wide, strict=True):
        assert abs(error / other - 1.0) < 0.03
    for found, share in ((default, 0.3), (wide, 0.1)):
        (product, _), (main, _) = found
        assert (product[1:] < share * product[0]).all()
        assert main[0] < share * main[1:].min()
