"""The live agent with draws of its hyperparameters."""

from dataclasses import replace
from datetime import UTC, datetime

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_agents import paper_agent
from scipy.stats import norm

from bayes_cmab import (
    MAP,
    NUTS,
    SVI,
    Agent,
    ConvergenceWarning,
    DirectPolicy,
    EffectiveSampleSize,
    EmbeddingPolicy,
    EveryRounds,
    Fixed,
    Gate,
    MeanUCB,
    MixtureQuantile,
    Never,
    RewardModel,
    Thompson,
)
from bayes_cmab.acquisition import ConstantBeta
from bayes_cmab.decision import PARTS
from bayes_cmab.environments import Purpose, get_environment, stream, trial_key
from bayes_cmab.policies import MarginalPolicy, MarginalResidualPolicy
from bayes_cmab.registry import CME_EMBEDDING, CME_REWARD
from bayes_cmab.rounds import AgentSpec
from bayes_cmab.simulation import play
from bayes_cmab.worlds import declared_scales

ENVIRONMENT = get_environment("A")
ACTIONS = np.asarray(ENVIRONMENT.actions)
SCALES = declared_scales(ENVIRONMENT)
CME = EmbeddingPolicy("cme_ucb", CME_REWARD, CME_EMBEDDING)
SAMPLER = NUTS(draws=16, chains=2, warmup=8, passes=2)
LENIENT = Gate(rhat=np.inf, ess=0.0, divergent=1.0, bfmi=0.0)


def make(**options) -> Agent:
    known = {"inference": SAMPLER, "gate": LENIENT, "scales": SCALES}
    return paper_agent(ACTIONS, **(known | options))


def run(agent: Agent, rounds: int, seed: int = 0) -> list[int]:
    rng = np.random.default_rng(seed)
    chosen = []
    for _ in range(rounds):
        decision = agent.ask(rng.uniform(-3.0, 3.0))
        chosen.append(decision.index)
        r = np.sin(decision.action[0]) + 0.2 * rng.normal()
        agent.tell(decision.ticket, intermediate=r, outcome=1.5 * np.sin(r))
    return chosen


@pytest.mark.slow
def test_agrees_with_the_simulation() -> None:
    offline, rounds, seed = 4, 10, 3
    spec = AgentSpec(MarginalPolicy(), SAMPLER, ConstantBeta(0.25), gate=LENIENT)
    record = play(spec, ENVIRONMENT, rounds=rounds, offline=offline, seed=seed, trials=range(1))
    key = trial_key(seed, 0)
    agent = make()
    agent.add_outcomes(*ENVIRONMENT.sample_offline(stream(key, 0, Purpose.OFFLINE), offline))
    world, context = ENVIRONMENT.reset(key)
    step = jax.jit(ENVIRONMENT.step)
    for t in range(rounds):
        decision = agent.ask(context, key=stream(key, t, Purpose.AGENT))
        assert decision.index == record.rounds.action_index[0, t]
        assert decision.mean == pytest.approx(record.rounds.predicted_mean[0, t], abs=1e-6)
        world, seen = step(key, world, decision.action)
        context = world.context
        agent.tell(decision.ticket, intermediate=seen.intermediate, outcome=seen.outcome)
    refits = agent.history().query("event == 'refit'")
    fits = refits.groupby("round").size()
    np.testing.assert_array_equal(fits.index, np.flatnonzero(record.fits[0]))
    np.testing.assert_array_equal(fits, record.fits[0][record.fits[0] > 0])


@pytest.mark.slow
def test_the_history_has_weights_sizes_and_reasons() -> None:
    agent = make()
    run(agent, 8)
    history = agent.history()
    refits, asks = (history[history.event == event] for event in ("refit", "ask"))
    assert list(refits.reason[:2]) == ["first", "first"]
    assert len(refits) > 2
    later = refits.iloc[2]
    assert later.reason.startswith("effective sample size ")
    assert later.reason.endswith(" of 16 draws")
    assert set(refits.verdict) == {"ok"}
    assert len(asks) == 16  # two programs, eight rounds
    for row in asks.itertuples():
        assert row.weights.shape == (16,)
        assert row.weights.sum() == pytest.approx(1.0)
        assert row.effective_sample_size == pytest.approx(1.0 / np.sum(row.weights**2))
        assert row.effective_sample_size >= 8.0 - 1e-9  # else it would have been refitted
    assert agent.sites["reward_lengthscale"].shape == (16, 1)


def test_the_parts_of_the_variance_add_up() -> None:
    agent = make()
    run(agent, 4)
    table = agent.score(0.3)
    np.testing.assert_allclose(table[list(PARTS)].sum(axis=1), table.standard_deviation**2)
    assert (table.variance_reward_hyperparameters > 0.0).all()
    assert (table.variance_embedding_hyperparameters > 0.0).all()


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Return the file of an agent with draws, and six decisions that nothing is known of yet."""
    path = tmp_path_factory.mktemp("drawn") / "agent"
    agent = make(inference=replace(SAMPLER, refit=Never()))
    for _ in range(6):
        agent.ask(0.1)
    agent.save(path)
    return path


@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
)
@given(order=st.permutations(range(12)), afresh=st.integers(0, 12))
def test_given_draws_and_units_the_posterior_does_not_depend_on_the_order_of_arrival(
    drawn, order, afresh
) -> None:
    rows = np.random.default_rng(1).normal(size=(6, 2))

    def told(events, afresh) -> np.ndarray:
        agent = Agent.load(drawn)
        for number, event in enumerate(events):
            if number == afresh:
                agent.add_outcomes([], [])  # the next look conditions on all rows at once
                agent.score(0.0)
            ticket, late = divmod(event, 2)
            name = "outcome" if late else "intermediate"
            agent.tell(ticket, **{name: rows[ticket, late]})
        assert [int(data.size) for data in agent.data] == [6, 6, 6]
        return agent.score(0.3).to_numpy()

    one, other = told(range(12), None), told(order, afresh)
    np.testing.assert_allclose(one, other, rtol=0.0, atol=1e-10)


@pytest.mark.slow
def test_rows_from_elsewhere_reweight_the_draws() -> None:
    agent = make(inference=NUTS(draws=16, chains=2, warmup=8, refit=EffectiveSampleSize(1e-9)))
    agent.ask(0.0)
    rng = np.random.default_rng(2)
    r = rng.uniform(-2.0, 2.0, 8)
    agent.add_outcomes(r, np.sin(2 * r))
    agent.ask(0.0)
    asks = agent.history().query("event == 'ask' and program == 'reward'")
    first, second = asks.weights
    np.testing.assert_allclose(first, 1 / 16)
    assert second.max() > 2 / 16


def test_an_ask_with_a_key_that_fails_changes_no_later_decision() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    answers = iter([now, None, *[now] * 9])
    agent, other = make(clock=lambda: next(answers)), make()
    with pytest.raises(ValueError, match="clock"):  # after the draws were made
        agent.ask(0.5, key=jax.random.key(99))
    assert agent.ask(0.5).score == other.ask(0.5).score


def test_the_number_of_pairs_can_be_set(tmp_path) -> None:
    policy = MarginalResidualPolicy(pairs=2)
    assert policy.one_trial_at_a_time
    agent = make(policy=policy)
    run(agent, 1)
    assert agent._core.policy == policy
    agent.save(tmp_path / "agent")
    assert Agent.load(tmp_path / "agent").ask(0.5).score == agent.ask(0.5).score


def test_a_fit_that_fails_is_never_silent() -> None:
    agent = make(gate=Gate(rhat=0.5))
    with pytest.warns(ConvergenceWarning, match=r"did not converge.*rhat.*used all the same"):
        run(agent, 1)
    row = agent.history().iloc[0]
    assert (row.verdict, row.accepted, row.continued) == ("failed", True, True)


def test_the_last_good_draws_stay_when_a_fit_fails() -> None:
    agent = make(inference=NUTS(draws=16, chains=2, warmup=8, refit=EveryRounds(3)))
    run(agent, 3)
    before = agent.sites
    agent._core = agent._core._replace(gate=Gate(rhat=0.5))
    with pytest.warns(ConvergenceWarning, match="the draws before it stay"):
        agent.ask(0.0)
    for name, value in agent.sites.items():
        np.testing.assert_array_equal(value, before[name])
    refits = agent.history().query("event == 'refit' and round == 3")
    assert not refits.accepted.any()


@pytest.mark.parametrize("acquisition", [MeanUCB(), MixtureQuantile(steps=40), Thompson()])
def test_every_acquisition_asks(acquisition) -> None:
    agent = make(acquisition=acquisition)
    again = make(acquisition=acquisition)
    assert run(agent, 2) == run(again, 2)
    assert np.isfinite(agent.score(0.0).score).all()


@pytest.mark.slow
@pytest.mark.parametrize("inference", [Fixed(), SAMPLER], ids=["fixed", "nuts"])
def test_thompson_sampling_with_a_transition_prior(inference) -> None:
    def asked() -> list[int]:
        agent = make(acquisition=Thompson(), embedding="transition", inference=inference)
        return run(agent, 3)

    assert asked() == asked()


def test_units_are_measured_at_the_refits() -> None:
    agent = paper_agent(ACTIONS, inference=SAMPLER, gate=LENIENT)
    run(agent, 6)
    refits = agent.history().query("event == 'refit'")
    assert (refits.groupby("round").size() == 2).all()  # draws of both are in the same units
    assert float(agent.scales.intermediate.scale[0]) != 1.0


@pytest.mark.parametrize(
    "rows",
    [
        (np.zeros(0), np.zeros(0), np.zeros(0)),
        (np.zeros(1), np.zeros(1), np.zeros(1)),
        (np.zeros(8), np.linspace(-1, 1, 8), np.full(8, 2.0)),  # all s equal, constant y
        (np.ones(8), np.ones(8), np.ones(8)),  # duplicate rows
    ],
    ids=["none", "one", "constant", "duplicates"],
)
def test_degenerate_data_give_finite_scores(rows) -> None:
    agent = make()
    s, r, y = rows
    if len(s):
        agent.add_transitions(s, np.zeros(len(s)), r)
        agent.add_outcomes(r, y)
    table = agent.score(0.4)
    assert np.isfinite(table.to_numpy()).all()
    assert (table.standard_deviation > 0.0).all()


# Programs of the user's own

MODEL = RewardModel()


def own_program(outcomes) -> None:
    """Log-scale sites with other priors, and the sites that the model needs as deterministic."""
    d = outcomes.intermediates.shape[1]
    log_lengthscale = numpyro.sample("log_lengthscale", dist.Normal(jnp.zeros(d), 0.5).to_event(1))
    sites = {
        "reward_lengthscale": numpyro.deterministic("reward_lengthscale", jnp.exp(log_lengthscale)),
        "reward_scale": numpyro.sample("reward_scale", dist.HalfNormal(2.0)),
        "reward_noise_scale": numpyro.sample("reward_noise_scale", dist.HalfNormal(0.5)),
    }
    hyper = MODEL.hyperparameters(sites)
    numpyro.factor("likelihood", MODEL.log_likelihood(hyper, outcomes))


def incomplete(outcomes) -> None:
    del outcomes
    numpyro.sample("reward_scale", dist.HalfNormal(2.0))


def infinite(outcomes) -> None:
    own_program(outcomes)
    numpyro.factor("broken", -jnp.inf)


def broken_by_data(outcomes) -> None:
    own_program(outcomes)
    numpyro.factor("broken", jnp.where(outcomes.size > 0, -jnp.inf, 0.0))


def test_a_mode_that_is_not_found_is_never_silent() -> None:
    policy = EmbeddingPolicy(reward_program=broken_by_data)
    agent = make(policy=policy, inference=MAP(every=5), gate=Gate())
    before = agent.sites
    agent.add_outcomes([0.0, 1.0], [0.5, 1.0])
    with pytest.warns(ConvergenceWarning, match="no better hyperparameters of the reward program"):
        agent.ask(0.0)
    for name in ("reward_scale", "reward_lengthscale"):
        np.testing.assert_allclose(agent.sites[name], before[name])
    fits = agent.history().query("event == 'refit'").set_index("program")
    assert fits.loc["reward", ["verdict", "accepted"]].tolist() == ["failed", False]
    assert fits.loc["embedding", ["verdict", "accepted"]].tolist() == ["", True]


@pytest.mark.slow
@pytest.mark.parametrize("inference", [SAMPLER, SVI(draws=16, steps=10, passes=2)])
def test_a_program_of_the_users_own(inference) -> None:
    agent = make(policy=EmbeddingPolicy(reward_program=own_program), inference=inference)
    gate = Gate(rhat=np.inf, ess=0.0, divergent=1.0, bfmi=0.0, pareto_k=np.inf, elbo_drift=np.inf)
    agent._core = agent._core._replace(gate=gate)
    run(agent, 3)
    sites = agent.sites
    np.testing.assert_allclose(np.exp(sites["log_lengthscale"]), sites["reward_lengthscale"])
    tree = agent.posterior()
    drawn = tree["posterior"]["log_lengthscale"].to_numpy()
    expected = norm.logpdf(drawn, 0.0, 0.5).sum(axis=-1)
    np.testing.assert_allclose(tree["log_prior"]["log_lengthscale"], expected)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            incomplete,
            r"reward_program: expected .* reward_lengthscale \(1,\), .*; got reward_scale \(\)",
        ),
        (infinite, "reward_program: expected a finite log density at the medians of its prior"),
    ],
)
def test_a_program_that_does_not_fit_is_refused(program, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(policy=EmbeddingPolicy(reward_program=program))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": DirectPolicy()}, "policy: expected an EmbeddingPolicy or a ResidualPolicy"),
        ({"gate": 3}, "gate: expected a Gate, got 3"),
        ({"acquisition": "ucb"}, "acquisition: expected an acquisition, got 'ucb'"),
        (
            {"acquisition": Thompson(), "policy": CME},
            "acquisition: expected a policy with a joint distribution",
        ),
        ({"hyperparameters": {}}, "hyperparameters: expected None with NUTS"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**options)
