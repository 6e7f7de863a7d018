"""Values to JSON and back: policies, settings and arrays; all else is refused."""

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from live_agents import Clock

from bayes_cmab import (
    MAP,
    NUTS,
    SVI,
    AnovaEmbeddingModel,
    Box,
    ConstantBeta,
    DirectPolicy,
    DirectRewardModel,
    EffectiveSampleSize,
    EmbeddingModel,
    EmbeddingPolicy,
    EveryRounds,
    Fixed,
    FunctionPolicy,
    Gate,
    LogarithmicBeta,
    MatchedMomentsUCB,
    MeanUCB,
    MixtureQuantile,
    Never,
    ResidualPolicy,
    RewardModel,
    Thompson,
    TransitionModel,
    TransitionPolicy,
    codec,
)
from bayes_cmab.columns import Columns
from bayes_cmab.models.priors import (
    AnovaPriors,
    EmbeddingPriors,
    LogNormal,
    RewardPriors,
    TransitionPriors,
)


@pytest.mark.parametrize(
    "value",
    [
        EmbeddingPolicy("proposition", RewardModel(0, integrated_mean=False, measure_scale=3.0)),
        EmbeddingPolicy(embedding=EmbeddingModel("matern52")),
        EmbeddingPolicy(reward=RewardModel(priors=RewardPriors(LogNormal(2.0, 0.1)))),
        EmbeddingPolicy(embedding=EmbeddingModel(priors=EmbeddingPriors(noise_floor=0.1))),
        EmbeddingPolicy(embedding=AnovaEmbeddingModel(anova_priors=AnovaPriors(noise_floor=0.1))),
        ResidualPolicy(transition=TransitionModel(TransitionPriors(weight_constant=0.3))),
        TransitionPolicy(plug_in=True),
        DirectPolicy(DirectRewardModel(EmbeddingModel("matern52"))),
        FunctionPolicy(),
        Fixed(),
        MAP(every=3, tolerance=1e-5),
        NUTS(draws=12, refit=EveryRounds(2)),
        SVI(refit=Never()),
        NUTS(refit=EffectiveSampleSize(0.3)),
        Gate(rhat=np.inf),
        ConstantBeta(0.1),
        LogarithmicBeta(7, delta=0.2),
        *(MatchedMomentsUCB(), MeanUCB(), MixtureQuantile(30), Thompson()),
        (1, [2.5, "x", None, True], {"a": (), "b": {"$x": np.nan}}),
        Clock()(),
        Box([0.0, 1.0], [1.0, 2.5], ("dose", "hours"), 16, 4, 10),
        Columns(("x", "y", "z"), (None, ("a", "b"), (False, True, 0.5, 3)), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_comes_back_from_json(value):
    writer = codec.Writer()
    text = json.dumps(writer.encode(value), allow_nan=False)
    again = codec.decode(json.loads(text), writer.arrays())
    assert repr(again) == repr(value)


def test_every_policy_inference_and_acquisition_of_the_package_can_be_written():
    import bayes_cmab

    exported = [getattr(bayes_cmab, name) for name in bayes_cmab.__all__]
    made_by_agents = {bayes_cmab.Agent, bayes_cmab.Decision, bayes_cmab.ConvergenceWarning}
    abstract = {bayes_cmab.Policy}
    classes = {one for one in exported if isinstance(one, type)} - made_by_agents - abstract
    assert classes <= set(codec.CLASSES.values())


def test_arrays_come_back_with_type_shape_and_kind():
    values = [np.arange(3.0), np.zeros((0, 2)), np.array(1.5), np.array([True]), np.arange(3.0)]
    writer = codec.Writer()
    encoded = writer.encode([*values, jnp.asarray(2.0), np.float64(0.1), np.bool_(True)])
    again = codec.decode(json.loads(json.dumps(encoded)), writer.arrays())
    for one, other in zip(values, again, strict=False):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)
    assert isinstance(again[5], type(jnp.zeros(())))
    assert again[6:] == [0.1, True]
    assert set(writer.stacks) == {"float64-3", "float64-0-2", "float64", "bool-1"}


@pytest.mark.parametrize("value", [len, object(), {1}, np.array([None]), Path()])
def test_other_values_are_refused(value):
    with pytest.raises(codec.UnwritableError, match="expected"):
        codec.Writer().encode(value)
