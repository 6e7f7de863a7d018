import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_cmab.acquisition import (
    ConstantBeta,
    LogarithmicBeta,
    select,
    upper_confidence_bound,
)
from bayes_cmab.moments import assemble_moments


def test_upper_confidence_bound_is_mean_plus_root_of_beta_times_variance() -> None:
    zero = jnp.zeros(2)
    moments = assemble_moments(
        jnp.array([1.0, 2.0]), jnp.array([4.0, 9.0]), zero, zero, jnp.ones(()), jnp.ones(())
    )
    np.testing.assert_allclose(upper_confidence_bound(moments, jnp.asarray(0.25)), [2.0, 3.5])


def test_scores_without_a_bonus_have_the_derivative_of_the_mean() -> None:
    zero = jnp.zeros(1)

    def score(action: jax.Array, beta: float, noise: float) -> jax.Array:
        variance = jnp.atleast_1d(noise * (action - 1.0) ** 2)
        moments = assemble_moments(
            jnp.atleast_1d(action**2), variance, zero, zero, jnp.ones(()), jnp.ones(())
        )
        return upper_confidence_bound(moments, jnp.asarray(beta))[0]

    assert jax.grad(score)(3.0, 0.0, 1.0) == 6.0
    assert jax.grad(score)(3.0, 4.0, 0.0) == 6.0
    assert jax.grad(score)(3.0, 4.0, 1.0) == pytest.approx(8.0)


def test_ties_are_broken_at_random_by_the_draws_and_uniformly() -> None:
    """False-alarm rate below 1e-6: each count is 1000 +- 4.9 standard deviations of a binomial."""
    score = jnp.array([1.0, 3.0, 3.0, 0.0, 3.0])
    keys = jax.random.split(jax.random.key(0), 3000)
    index = jax.jit(jax.vmap(lambda k: select(jax.random.uniform(k, (5,)), score)))(keys)
    counts = np.bincount(np.asarray(index), minlength=5)
    assert counts[[0, 3]].sum() == 0
    assert np.all(np.abs(counts[[1, 2, 4]] - 1000) < 4.9 * np.sqrt(3000 * 2 / 9))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_score_that_is_not_finite_is_reported_and_never_chosen(bad: float) -> None:
    assert int(select(jnp.array([0.1, 0.9, 0.5]), jnp.array([1.0, bad, 2.0]))) == -1


def test_constant_beta_does_not_change() -> None:
    assert float(ConstantBeta(0.5)(0)) == float(ConstantBeta(0.5)(99)) == 0.5


def test_logarithmic_beta_is_the_schedule_of_srinivas() -> None:
    k, delta, t = 61, 0.1, 7
    expected = 2.0 * np.log(k * t**2 * np.pi**2 / (6.0 * delta))
    np.testing.assert_allclose(LogarithmicBeta(k, delta)(t - 1), expected, rtol=1e-12)
    assert LogarithmicBeta(k, delta, scale=0.0)(t) == 0.0


def test_bad_exploration_weights_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="beta: expected non-negative numbers, got -1"):
        ConstantBeta(-1.0)
    with pytest.raises(ValueError, match="beta: expected finite numbers, got nan"):
        ConstantBeta(float("nan"))
    with pytest.raises(ValueError, match="delta: expected a number between"):
        LogarithmicBeta(61, delta=1.0)
