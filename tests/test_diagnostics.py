"""The posterior for ArviZ: its groups, what ArviZ makes of them, and that files keep it."""

import json
import warnings
from pathlib import Path

import arviz as az
import arviz_plots
import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from live_agents import paper_agent
from scipy import stats
from typer.testing import CliRunner

from bayes_cmab import NUTS, SVI, Agent, Gate
from bayes_cmab.cli import app
from bayes_cmab.decision import FIGURES
from bayes_cmab.diagnose import load_posterior, save_pictures
from bayes_cmab.diagnostics import ATTRIBUTE, gate_checks
from bayes_cmab.inference.gate import overall

mpl.use("agg")
pytestmark = pytest.mark.slow
ACTIONS = np.linspace(-2.0, 2.0, 7)
REWARD_SITES = ["reward_lengthscale", "reward_noise_scale", "reward_scale"]
SITES = [
    *("embedding_lengthscale_a", "embedding_lengthscale_s", "embedding_noise_scale"),
    *("embedding_scale", *REWARD_SITES),
]
LENIENT = Gate(rhat=np.inf, ess=0.0, divergent=1.0, bfmi=0.0, pareto_k=np.inf, elbo_drift=np.inf)


def make(inference) -> Agent:
    agent = paper_agent(ACTIONS, inference=inference, gate=LENIENT, seed=2)
    rng = np.random.default_rng(0)
    r = rng.uniform(-2.0, 2.0, 20)
    agent.add_outcomes(r, 3.0 + 2.0 * np.sin(2 * r) + 0.4 * rng.normal(size=20))
    for context in rng.uniform(-1.0, 1.0, 3):
        decision = agent.ask(context)
        seen = np.cos(decision.action[0]) + context
        agent.tell(decision.ticket, intermediate=seen, outcome=3.0 + 2.0 * np.sin(2 * seen))
    return agent


@pytest.fixture(scope="module")
def agent() -> Agent:
    return make(NUTS(draws=64, chains=2, warmup=19, thinning=1))


@pytest.fixture(scope="module")
def tree(agent: Agent) -> xr.DataTree:
    return agent.posterior()


def test_groups_dimensions_and_coordinates(agent: Agent, tree: xr.DataTree) -> None:
    assert set(tree.children) == {
        *("posterior", "prior", "sample_stats", "log_prior", "observed_data", "constant_data"),
        *("log_likelihood", "posterior_predictive", "prior_predictive", "predictions"),
    }
    posterior = tree["posterior"]
    assert posterior["reward_lengthscale"].dims == ("chain", "draw", "r_dim")
    assert posterior["embedding_lengthscale_s"].dims == ("chain", "draw", "s_dim")
    assert posterior["embedding_lengthscale_a"].coords["a_dim"].values.tolist() == ["action_0"]
    assert set(SITES) < set(posterior.data_vars)
    assert set(tree["log_prior"].data_vars) == set(SITES)
    assert {"energy", "tree_depth", "step_size", "diverging", "lp"} < set(
        tree["sample_stats"].data_vars
    )
    assert dict(tree["log_likelihood"].sizes) == {"chain": 2, "draw": 32, "obs_id": 23}
    assert list(tree["predictions"].data_vars) == list(FIGURES)
    information = json.loads(tree.attrs[ATTRIBUTE])
    assert information["units"].keys() == {"context", "action", "intermediate", "outcome"}
    assert information["seed"] == 2
    assert information["round"] == agent.round == 3
    assert {"jax", "numpyro", "arviz"} < set(information["versions"])
    assert information["gate"][0] == [0, "reward", "first", "ok"]


def test_values_are_in_the_users_units(agent: Agent, tree: xr.DataTree) -> None:
    rows = agent._session.ledger.matched_and_unmatched()
    np.testing.assert_allclose(tree["observed_data"]["outcome"], rows[1], rtol=1e-12)
    np.testing.assert_allclose(tree["constant_data"]["intermediate"], rows[0], rtol=1e-12)
    np.testing.assert_allclose(tree["constant_data"]["offered_action"][:, 0], ACTIONS)
    table = agent.score(agent._session.ledger.tickets[-1].context)
    np.testing.assert_allclose(tree["predictions"]["mean"], table["mean"], rtol=1e-12)
    predicted = tree["posterior_predictive"]["outcome"]
    assert abs(float(predicted.mean()) - rows[1].mean()) < 0.5


def test_the_log_likelihood_is_that_of_each_outcome_given_all_others(
    agent: Agent, tree: xr.DataTree
) -> None:
    """Against the conditional of a multivariate normal, by NumPy, at two draws."""
    model, state = agent._core.policy.base.reward, agent._prepare(None).state
    size = int(state.data.outcomes.size)
    points = state.data.outcomes.intermediates[:size]
    y = np.asarray(state.data.outcomes.outcomes)[:size]
    for chain, draw in ((0, 0), (1, 9)):
        sites = {s: tree["posterior"][s].values[chain, draw] for s in REWARD_SITES}
        A = np.asarray(model.covariance(model.hyperparameters(sites), points))
        for i in (0, 11):
            rest = np.delete(np.arange(size), i)
            solved = np.linalg.solve(A[np.ix_(rest, rest)], A[rest, i])
            deviation = np.sqrt(A[i, i] - A[rest, i] @ solved)
            expected = stats.norm.logpdf(y[i], y[rest] @ solved, deviation)
            expected -= np.log(float(state.scales.outcome.scale))
            got = float(tree["log_likelihood"]["outcome"][chain, draw, i])
            assert got == pytest.approx(expected, rel=1e-7)


def test_replicates_have_the_moments_of_the_posterior_predictive(agent: Agent) -> None:
    """6,000 replicates under one draw: means and variances within 5 standard errors."""
    import jax

    from bayes_cmab.predictive import prior_predictive, replicate

    model, outcomes = agent._core.policy.base.reward, agent._prepare(None).state.data.outcomes
    size = int(outcomes.size)
    hyper = model.hyperparameters(model.default_sites(1))
    keys = jax.random.split(jax.random.key(0), 6000)

    def draws(function) -> np.ndarray:
        run = jax.jit(lambda keys: jax.lax.map(lambda k: function(model, hyper, outcomes, k), keys))
        return np.asarray(run(keys))[:, :size]

    A = np.asarray(model.covariance(hyper, outcomes.intermediates))[:size, :size]
    noise = float(hyper.reward_noise)
    signal = A - noise * np.eye(size)
    y = np.asarray(outcomes.outcomes)[:size]
    gain = np.linalg.solve(A, signal).T
    moments = {
        replicate: (gain @ y, signal - gain @ signal + noise * np.eye(size)),
        prior_predictive: (np.zeros(size), A),
    }
    for function, (mean, covariance) in moments.items():
        got, variance = draws(function), np.diag(covariance)
        assert np.max(np.abs(got.mean(axis=0) - mean) / np.sqrt(variance / 6000)) < 5.0
        ratio = np.cov(got.T) - covariance
        scale = np.sqrt((np.outer(variance, variance) + covariance**2) / 6000)
        assert np.max(np.abs(ratio / scale)) < 5.5


def test_the_log_prior_is_the_priors_density(agent: Agent, tree: xr.DataTree) -> None:
    prior = agent._core.policy.base.reward.priors.noise_scale
    expected = stats.lognorm.logpdf(
        tree["posterior"]["reward_noise_scale"], prior.spread, scale=prior.median
    )
    np.testing.assert_allclose(tree["log_prior"]["reward_noise_scale"], expected, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::UserWarning")  # 64 draws are few, and ArviZ says so
def test_arviz_takes_it_as_it_is(tree: xr.DataTree) -> None:
    summary = az.summary(tree)
    assert np.isfinite(summary.filter(like="reward", axis=0).astype(float)).all(axis=None)
    loo = az.loo(tree, pointwise=True)
    assert np.isfinite(loo.elpd)
    assert len(az.compare({"one": tree, "other": tree})) == 2
    sensitivity = az.psense_summary(tree, var_names=REWARD_SITES, prior_var_names=REWARD_SITES)
    assert len(sensitivity) == 3
    assert az.bfmi(tree)["energy"].shape == (2,)


def test_the_pictures_are_drawn(tree: xr.DataTree, tmp_path: Path) -> None:
    paths = save_pictures(tree, tmp_path / "pictures")
    assert [path.stem for path in paths] == [
        *("trace", "rank", "forest", "prior_posterior", "pair_reward", "pair_embedding"),
        *("energy", "posterior_predictive"),
    ]
    assert all(path.stat().st_size > 5000 for path in paths)
    assert arviz_plots.plot_rank(tree) is not None  # of all variables, without more ado


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4", "zarr"])
def test_files_keep_everything(tree: xr.DataTree, tmp_path: Path, engine: str) -> None:
    path = tmp_path / "posterior"
    if engine == "zarr":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the format's future
            tree.to_zarr(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            back = load_posterior(path)
    else:
        tree.to_netcdf(path, engine=engine)
        back = load_posterior(path)
    assert back.equals(tree)
    assert back.attrs == tree.attrs
    assert [c.value for c in gate_checks(back, LENIENT)] == [
        c.value for c in gate_checks(tree, LENIENT)
    ]


def test_a_stored_posterior_is_diagnosed(tree: xr.DataTree, tmp_path: Path) -> None:
    path = tmp_path / "posterior.nc"
    tree.to_netcdf(path)
    lenient = ["--rhat", "9", "--ess", "1", "--no-pictures"]
    good = CliRunner().invoke(app, ["diagnose", str(path), *lenient])
    assert "verdict: " in good.output
    strict = CliRunner().invoke(app, ["diagnose", str(path), "--rhat", "0.5", "--json"])
    assert strict.exit_code == 1
    report = json.loads(strict.output)
    assert report["verdict"] == "failed"
    assert len(report["files"]) == len(list((tmp_path / "posterior").glob("*.png"))) == 8
    missing = CliRunner().invoke(app, ["diagnose", str(tmp_path / "nothing.nc")])
    assert missing.exit_code == 1
    other = tmp_path / "other.nc"
    xr.Dataset({"x": 1.0}).to_netcdf(other)
    assert CliRunner().invoke(app, ["diagnose", str(other)]).exit_code == 1


@pytest.mark.parametrize("group", ["log_prior", "constant_data", "observed_data"])
def test_a_posterior_without_a_group_is_refused(tree: xr.DataTree, tmp_path: Path, group) -> None:
    path = tmp_path / "posterior.nc"
    tree.filter(lambda node: node.name != group).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(ValueError, match=f"got one without {group}"):
        load_posterior(path)


@pytest.mark.parametrize("error", [OSError, AttributeError, RuntimeError])
def test_a_damaged_posterior_is_refused(tmp_path: Path, monkeypatch, error) -> None:
    def broken(path: Path, engine: str) -> None:
        del path, engine
        raise error("bad node")  # h5netcdf raises almost anything

    path = tmp_path / "posterior.nc"
    path.write_bytes(b"")
    monkeypatch.setattr(xr, "open_datatree", broken)
    with pytest.raises(ValueError, match="expected a stored posterior, got: bad node"):
        load_posterior(path)


def test_options_of_the_command_that_would_be_ignored_are_errors(
    tree: xr.DataTree, tmp_path: Path
) -> None:
    path = tmp_path / "posterior.nc"
    tree.to_netcdf(path, engine="h5netcdf")
    for arguments, named in (
        (["diagnose", str(path), "--no-pictures", "--out", str(tmp_path / "out")], "--out"),
        (["compare-models", str(path), "--setting", "Q"], "--setting"),
        (["compare-models", str(path), "--rows", "50"], "--rows"),
    ):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 1
        assert named in result.output
        assert len(result.output.splitlines()) == 1


def test_without_outcomes_and_without_a_question_there_is_less_to_say() -> None:
    agent = paper_agent(ACTIONS, inference=NUTS(draws=64, chains=2, thinning=1), gate=LENIENT)
    tree = agent.posterior()
    assert "log_likelihood" not in tree.children
    assert "predictions" not in tree.children
    assert len(agent.posterior(context=0.3)["predictions"]["mean"]) == 7


def test_a_variational_posterior_has_its_bound_instead_of_an_energy(tmp_path: Path) -> None:
    tree = make(SVI(draws=16, steps=20, passes=2, diagnostic_draws=32)).posterior()
    assert "energy" not in tree["sample_stats"]
    assert tree["optimisation"]["reward_elbo"].dims == ("step",)
    assert overall(gate_checks(tree, LENIENT)) == "ok"
    assert np.isfinite(tree["sample_stats"]["reward_log_q"]).all()
    path = tmp_path / "posterior.nc"
    tree.to_netcdf(path)
    result = CliRunner().invoke(app, ["diagnose", str(path), "--no-pictures", "--rhat", "1.1"])
    assert result.exit_code == 1
    assert "expected neither of a posterior by SVI" in result.output


def test_an_agent_without_draws_has_no_posterior() -> None:
    with pytest.raises(ValueError, match="posterior: expected an agent with NUTS or SVI, got Fix"):
        paper_agent(ACTIONS).posterior()


def test_the_posterior_of_the_default_model(tmp_path: Path) -> None:
    """Its transition has sites of two and three dimensions."""
    inference = NUTS(draws=16, chains=2, warmup=8, passes=1, thinning=1)
    agent = Agent(ACTIONS, dim_intermediate=2, inference=inference, gate=LENIENT)
    r = np.random.default_rng(0).normal(size=(5, 2))
    agent.add_transitions(np.arange(5.0), ACTIONS[:5], r)
    agent.add_outcomes(r, r.sum(axis=1))
    tree = agent.posterior(0.3)
    lengthscale = tree["posterior"]["transition_lengthscale_a"]
    assert lengthscale.dims == ("chain", "draw", "r_dim", "a_dim")
    assert lengthscale.coords["a_dim"].values.tolist() == ["action_0"]
    factor = tree["posterior"]["transition_noise_factor_s"]
    assert factor.dims == ("chain", "draw", "r_dim", "s_dim", "knot")
    # One density of a dimension of r, whose values are one event.
    assert tree["log_prior"]["transition_noise_factor_s"].dims == ("chain", "draw", "r_dim")
    sites = {f"transition_{name}" for name in ("scale_a", "noise_scale", "lengthscale_s")}
    assert sites < set(tree["log_prior"].data_vars)
    tree.to_netcdf(tmp_path / "posterior.nc")
    assert save_pictures(load_posterior(tmp_path / "posterior.nc"), tmp_path / "pictures")
    page = agent.report(tmp_path / "report.html", 0.3).read_text("utf-8")
    assert "transition_noise_factor_a" in page
