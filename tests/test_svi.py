"""The guide of variational inference: its structure, and how near it comes to a posterior."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers

from bayes_cmab.data import Outcomes, Transitions
from bayes_cmab.inference import SVI, Fit
from bayes_cmab.inference.gate import Gate, overall
from bayes_cmab.inference.marginal import begin, run_pass
from bayes_cmab.models import HeteroscedasticTransitionModel, RewardModel, TransitionModel
from bayes_cmab.programs import Program, coordinates

COVARIANCE = np.array([[1.0, 0.8, 0.0], [0.8, 1.0, -0.3], [0.0, -0.3, 0.5]])
MEANS = np.array([[0.0, 1.0, -1.0], [2.0, 0.5, 0.0]])


def normal_elements() -> None:
    """Two elements of a plate, each normal with a correlation."""
    covariance = jnp.asarray(COVARIANCE)
    with numpyro.plate("element", 2):
        numpyro.sample("z", dist.MultivariateNormal(jnp.asarray(MEANS), covariance))


def transitions(size: int, d: int) -> Transitions:
    """Return smooth intermediates of one context and one action, with noise."""
    rng = np.random.default_rng(d)
    contexts, actions = rng.uniform(-1.5, 1.5, (2, size, 1))
    intermediates = np.sin(contexts + np.arange(d)) + actions * np.arange(d) / d
    intermediates += 0.3 * rng.normal(size=(size, d))
    return Transitions.create(contexts, actions, intermediates, capacity=size)


def run(model: Callable[..., None], arguments: tuple[Any, ...], passes: int) -> Fit:
    """Fit a guide in so many passes."""
    sampler = SVI()
    following = begin(model, sampler, arguments, jax.random.key(0))
    for number in range(passes):
        fit = run_pass(model, sampler, arguments, jax.random.key(number), following)
        following = fit.following
    found: Fit = jax.device_get(fit)
    return found


def test_a_normal_posterior_is_found_without_noise() -> None:
    """The ratios of the densities become equal: with the score their deviation stayed at 0.4."""
    fit = run(normal_elements, (), passes=6)
    ratio = fit.stats["log_p"] - fit.stats["log_q"]
    assert ratio.shape == (1, SVI().diagnostic_draws, 2)
    assert np.std(ratio) < 0.05
    scale = fit.following["auto_scale_tril"]
    np.testing.assert_allclose(fit.following["auto_loc"], MEANS.ravel(), atol=0.03)
    expected = np.kron(np.eye(2), COVARIANCE)
    np.testing.assert_allclose(scale @ scale.T, expected, atol=0.05)


@pytest.mark.parametrize("model", [TransitionModel(), HeteroscedasticTransitionModel()])
def test_densities_of_elements_are_those_of_the_program(model: TransitionModel) -> None:
    """They add up to its density, and each depends on its own numbers alone."""
    space = coordinates(Program(model, (transitions(6, 3),)))
    densities, energy = jax.jit(space.densities), jax.jit(space.potential)
    z = space.medians + jnp.asarray(np.random.default_rng(0).normal(size=len(space.medians)))
    before = densities(z)
    assert before.shape == (3,)
    np.testing.assert_allclose(jnp.sum(before), -energy(z), rtol=1e-12)
    after = densities(jnp.where(space.element == 1, 0.5 * z, z))
    np.testing.assert_array_equal(after == before, [True, False, True])


@pytest.mark.parametrize("model", [TransitionModel(), HeteroscedasticTransitionModel()])
def test_elements_of_a_plate_are_independent_in_the_guide(model: TransitionModel) -> None:
    rows = transitions(6, 3)
    space = coordinates(Program(model, (rows,)))
    sites = model.default_sites(1, 1, 3)
    for name, element in space.restore(space.element).items():
        shape = np.shape(sites[name])
        place = np.arange(3).reshape(-1, *[1] * (len(shape) - 1))
        np.testing.assert_array_equal(element, np.broadcast_to(place, shape))
    fit = run(model, (rows,), passes=1)
    apart = space.element[:, None] != space.element[None, :]
    scale = fit.following["auto_scale_tril"]
    assert np.all(scale[apart] == 0.0)
    assert np.any(np.tril(scale, -1) != 0.0)


def test_a_program_of_more_than_a_plate_is_one_element() -> None:
    outcomes = Outcomes.create(np.zeros((3, 2)), np.zeros(3), capacity=3)
    scaled = handlers.scale(normal_elements, scale=0.5)
    for program in (Program(RewardModel(), (outcomes,)), Program(scaled, ())):
        space = coordinates(program)
        z = space.medians + 0.1
        np.testing.assert_array_equal(space.element, np.zeros(len(z)))
        np.testing.assert_array_equal(space.densities(z), [-space.potential(z)])


@pytest.mark.slow
def test_the_first_fit_of_eighty_hyperparameters_passes_the_gate() -> None:
    """As one element, and with the score in the gradient, they had a Pareto k of 2.8 here."""
    model = HeteroscedasticTransitionModel()
    fit = run(model, (transitions(60, 5),), passes=5)
    assert fit.following["auto_loc"].shape == (80,)
    checks = Gate().check("transition", fit)
    assert overall(checks) == "ok", checks
