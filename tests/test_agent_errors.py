"""What the live agent refuses, and that its errors change nothing."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from agent_life import UNITS, make, price

from bayes_cmab import (
    MAP,
    DirectPolicy,
    EmbeddingPolicy,
    FunctionPolicy,
    RewardModel,
    Thompson,
    TransitionPolicy,
    Units,
)
from bayes_cmab.policies import MarginalPolicy
from bayes_cmab.registry import CME_REWARD

SITES = {name: np.asarray(value) for name, value in make().sites.items()}


def without(name):
    return {key: value for key, value in SITES.items() if key != name}


def vector_valued(r):
    return r


def not_jax(r):
    return float(r[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"actions": []}, "actions: expected at least one row and one column, got"),
        ({"actions": np.zeros((0, 2))}, "actions: expected at least one row"),
        ({"actions": [0.0, np.nan]}, "actions: expected finite numbers, got nan at row 1"),
        ({"actions": pd.DataFrame({"score": [1.0]})}, "other than mean, .*, got 'score'"),
        ({"dim_context": -1}, "dim_context: expected a whole number of at least 0, got -1"),
        ({"dim_intermediate": 0}, "dim_intermediate: expected .* at least 1, got 0"),
        ({"seed": 1.5}, "seed: expected a whole number of at least 0, got 1.5"),
        ({"seed": 2**63}, "seed: expected a whole number of at least 0, got 9223372036854775808"),
        ({"clock": 3}, "clock: expected a function, got 3"),
        ({"acquisition": Thompson}, "acquisition: expected an acquisition, got <class"),
        ({"beta": -0.1}, "beta: expected non-negative numbers, got -0.1"),
        ({"beta": np.nan}, "beta: expected finite numbers, got nan"),
        ({"policy": "operator"}, "policy: expected a Policy, got 'operator'"),
        (
            {"policy": None, "embedding": "product"},
            "embedding: expected one of 'paper', 'anova', 'transition', got 'product'",
        ),
        (
            {"policy": DirectPolicy(), "embedding": "paper"},
            "embedding: expected None beside a policy, which has its own, got 'paper'",
        ),
        ({"inference": "map"}, "inference: expected Fixed, MAP, NUTS or SVI, got 'map'"),
        ({"hyperparameters": [1.0]}, "hyperparameters: expected a dict, got list"),
        (
            {"hyperparameters": SITES | {"noise": 1.0}},
            "hyperparameters: expected .*reward_scale; got the unknown noise",
        ),
        (
            {"hyperparameters": without("reward_scale")},
            "hyperparameters: expected .*; got none named reward_scale",
        ),
        (
            {"hyperparameters": SITES | {"reward_noise_scale": -0.1}},
            r"hyperparameters\['reward_noise_scale'\]: expected positive numbers, got -0.1",
        ),
        (
            {"hyperparameters": SITES | {"embedding_lengthscale_a": [0.0]}},
            r"hyperparameters\['embedding_lengthscale_a'\]: expected positive numbers, got 0.0",
        ),
        (
            {"hyperparameters": SITES | {"reward_lengthscale": 1.0}},
            r"hyperparameters\['reward_lengthscale'\]: expected shape \(2,\), got \(\)",
        ),
        ({"scales": (0.0, 1.0)}, "scales: expected a Scales, got tuple"),
        ({"scales": UNITS, "dim_intermediate": 3}, "scales: intermediate center: expected 3"),
        (
            {"scales": UNITS._replace(outcome=Units(jnp.array(0.0), jnp.array(0.0)))},
            "scales: outcome scale: expected positive numbers, got 0.0",
        ),
        ({"context_sample": [[1.0, 2.0]]}, "context_sample: expected 1 column, got shape"),
        ({"reward_function": 3.0}, "reward_function: expected a function, got 3.0"),
        ({"reward_function": vector_valued}, "reward_function: expected a real scalar array, got"),
        ({"reward_function": lambda r: 1j * r[0]}, "reward_function: expected a real scalar"),
        ({"reward_function": not_jax}, "reward_function: expected .* made of JAX operations"),
        (
            {"reward_function": price, "policy": TransitionPolicy()},
            "policy: expected an EmbeddingPolicy in operator form",
        ),
        (
            {"reward_function": price, "policy": EmbeddingPolicy(embedding_program=not_jax)},
            "policy: expected no embedding_program beside a known reward_function",
        ),
        (
            {"policy": MarginalPolicy(), "inference": MAP()},
            "policy: expected its base with MAP, which makes no draws",
        ),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a.ask(), "context: expected 1 number, got None"),
        (lambda a: a.ask([1.0, 2.0]), r"context: expected 1 number, got shape \(2,\)"),
        (lambda a: a.ask(0.0, key=5), r"key: expected a key of jax.random.key\(\), got 5"),
        (
            lambda a: a.ask(0.0, key=jax.random.split(jax.random.key(0))),
            r"key: expected a key of jax.random.key\(\), got Array",
        ),
        (lambda a: a.tell(1, outcome=np.ma.masked), "outcome: expected finite numbers, got nan"),
        (lambda a: a.ask("left"), "context: expected numbers, got str"),
        (lambda a: a.ask(np.nan), "context: expected finite numbers, got nan"),
        (lambda a: a.score(np.inf), "context: expected finite numbers, got inf"),
        (lambda a: a.tell(2, outcome=1.0), "ticket: expected one of the 2 issued so far, got 2"),
        (lambda a: a.tell(-1, outcome=1.0), "ticket: expected one of the 2 issued so far, got -1"),
        (lambda a: a.tell("1", outcome=1.0), "ticket: expected a decision's ticket, got '1'"),
        (lambda a: a.tell(1), "tell: expected an intermediate, an outcome or both, got neither"),
        (lambda a: a.tell(0, outcome=1.0), "outcome: expected one a ticket, got a second .* 0"),
        (
            lambda a: a.tell(0, intermediate=[0, 0], outcome=1.0),
            "intermediate: expected one a ticket, got a second for ticket 0",
        ),
        (lambda a: a.tell(1, intermediate=[0.0]), r"intermediate: expected 2 numbers, got shape"),
        (
            lambda a: a.tell(1, intermediate=[0.0, np.nan], outcome=1.0),
            "intermediate: expected finite numbers, got nan at row 1",
        ),
        (
            lambda a: a.tell(1, intermediate=[0.0, 0.0], outcome=np.nan),
            "outcome: expected finite numbers, got nan",
        ),
        (lambda a: a.add_outcomes([[1.0]], [1.0]), "intermediates: expected 2 columns, got shape"),
        (
            lambda a: a.add_outcomes(np.zeros((3, 2)), [1.0, 2.0]),
            "same number of rows, got: intermediates has 3, outcomes has 2",
        ),
        (
            lambda a: a.add_transitions([0.0], [0.0], [[0.0, np.inf]]),
            "intermediates: expected finite numbers, got inf at row 0, column 1",
        ),
        (
            lambda a: a.add_transitions(None, [0.0], [[0.0, 1.0]]),
            "contexts: expected 1 column, got None",
        ),
    ],
)
def test_bad_calls_change_nothing(call, message):
    agent = make(scales=UNITS)
    for s in (0.0, 1.0):
        agent.ask(s)
    agent.tell(0, intermediate=[0.1, 0.2], outcome=1.0)
    before = dict(vars(agent))
    with pytest.raises(ValueError, match=message):
        call(agent)
    assert all(vars(agent)[name] is value for name, value in before.items())


def test_a_known_reward_function_keeps_the_reward_models_measure():
    agent = make(
        reward_function=price, policy=EmbeddingPolicy(reward=RewardModel(measure_scale=5.0))
    )
    assert agent._core.policy.measure_scale == 5.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("typo",), "moments_form: expected one of 'operator', .*, got 'typo'"),
        (("proposition",), "reward: expected integrated_mean=False with .* 'proposition'"),
        (("cme_ucb", RewardModel(integrated_mean=False)), "expected unit_variance=True with"),
        (("improved_cme_ucb", CME_REWARD), "embedding: expected unit_variance=True with"),
    ],
)
def test_models_that_a_form_is_wrong_with_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        EmbeddingPolicy(*arguments)


def test_x64_is_required():
    with jax.enable_x64(False), pytest.raises(RuntimeError, match=r"numpyro\.enable_x64"):
        make()


def test_a_score_that_is_not_finite_is_an_error_and_changes_nothing():
    huge = SITES | {"reward_scale": 1e200}
    agent = make(scales=UNITS, hyperparameters=huge)
    for look in (partial(agent.ask, 0.0), partial(agent.score, 0.0)):
        with pytest.raises(FloatingPointError, match="not finite in round 0: likely causes"):
            look()
    assert agent.round == 0


@dataclass(frozen=True)
class NegativePolicy(FunctionPolicy):
    def moments(self, state, context, actions):
        return super().moments(state, context, actions)._replace(negativity=jnp.asarray(1e-3))


def test_what_is_not_finite_in_the_users_units_is_an_error():
    agent = make(scales=None)
    r = np.linspace(0.0, 1.0, 20)
    y = np.where(np.arange(20) == 3, 1e200, r)
    agent.add_outcomes(np.stack([r, r], axis=1), y)  # the variance of y overflows
    for call in (agent.ask, agent.score):
        with pytest.raises(FloatingPointError, match="a score is not finite in round 0"):
            call(0.3)
    assert agent.round == 0


def test_a_truly_negative_variance_is_an_error():
    agent = make(policy=NegativePolicy())
    for look in (agent.ask, agent.score):
        with pytest.raises(FloatingPointError, match=r"negative by 1\.0e-03 .* likely causes"):
            look(0.0)
    assert agent.round == 0
