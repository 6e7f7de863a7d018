"""The convergence gate: independent draws pass, and every fault has its verdict."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_cmab.inference import EffectiveSampleSize, EveryRounds, Fit, Never
from bayes_cmab.inference.gate import Gate, overall

GATE = Gate()


def chains(draws: np.ndarray, **stats: np.ndarray) -> Fit:
    shape = draws.shape
    rng = np.random.default_rng(0)
    known = {"energy": rng.chisquare(6, shape), "diverging": np.zeros(shape, bool)}
    return Fit({}, np.zeros(1), {"x": draws, "v": draws[..., None]}, known | stats, None)


def independent(seed: int = 0, shape: tuple[int, int] = (4, 32)) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def verdicts(fit: Fit, gate: Gate = GATE) -> dict[str, str]:
    return {check.criterion: check.verdict for check in gate.check("reward", fit)}


def test_independent_draws_pass() -> None:
    """300 fits of four chains of 32 independent draws: at most one may fail (documented)."""
    failed = sum(
        overall(GATE.check("reward", chains(independent(seed)))) != "ok" for seed in range(300)
    )
    assert failed <= 1


@pytest.mark.parametrize(
    ("change", "criterion"),
    [
        (lambda x: x + np.array([[0.0], [0.0], [0.0], [4.0]]), "rhat"),
        (lambda x: np.cumsum(x, axis=1), "rhat"),
        (lambda x: np.repeat(x[:, :4], 8, axis=1), "ess_bulk"),
        (lambda x: np.where(np.arange(4)[:, None] == 2, 1.0, x), "frozen chains"),
        (lambda x: np.full_like(x, 3.0), "frozen chains"),
        (lambda x: np.where(x == x.max(), np.nan, x), "finite"),
    ],
)
def test_faults_of_the_draws_fail(change, criterion: str) -> None:
    fit = chains(change(independent()))
    assert verdicts(fit)[criterion] == "failed"
    assert overall(GATE.check("reward", fit)) == "failed"


def test_the_worst_site_is_named() -> None:
    x = independent()
    fit = chains(x)
    fit.trace["w"] = np.stack([independent(3), x + 5.0 * np.arange(4)[:, None]], axis=2)
    rhat = next(c for c in GATE.check("reward", fit) if c.criterion == "rhat")
    assert (rhat.site, rhat.verdict, rhat.limit) == ("w[1]", "failed", 1.2)


def test_faults_of_the_sampler_fail() -> None:
    diverging = np.zeros((4, 32), bool)
    diverging[0, :8] = True
    assert verdicts(chains(independent(), diverging=diverging))["divergent"] == "failed"
    sticky = np.cumsum(independent(1), axis=1)
    assert verdicts(chains(independent(), energy=sticky))["bfmi"] == "failed"


def test_a_single_chain_and_too_few_steps_are_not_assessable() -> None:
    single = chains(independent(shape=(1, 200)))
    assert verdicts(single)["rhat"] == "not assessable"
    assert overall(GATE.check("reward", single)) == "not assessable"
    assert overall(GATE.check("reward", chains(independent(shape=(4, 3))))) == "not assessable"
    assert overall([]) == "not assessable"


def guide(log_ratio: np.ndarray, elbo: np.ndarray) -> Fit:
    stats = {"elbo": elbo, "log_p": log_ratio[None], "log_q": np.zeros((1, *log_ratio.shape))}
    return Fit({}, np.zeros(1), {}, stats, None)


def test_a_guide_is_judged_by_its_importance_ratios_and_its_bound() -> None:
    rng = np.random.default_rng(0)
    flat, good = rng.normal(size=80), 0.1 * rng.normal(size=256)
    assert overall(GATE.check("reward", guide(good, flat))) == "ok"
    heavy = guide(rng.standard_cauchy(256), flat)
    assert verdicts(heavy)["pareto_k"] == "failed"
    climbing = guide(good, flat + np.linspace(0.0, 60.0, 80))
    assert verdicts(climbing)["elbo_drift"] == "failed"
    assert verdicts(guide(good, flat[:8]))["elbo_drift"] == "not assessable"
    assert verdicts(guide(np.full(256, np.nan), flat))["finite"] == "failed"
    assert verdicts(guide(good[:20], flat))["pareto_k"] == "not assessable"
    assert verdicts(guide(np.zeros(256), flat))["pareto_k"] == "ok"  # an exact guide


def test_a_guide_of_independent_elements_is_as_good_as_the_worst_of_them() -> None:
    rng = np.random.default_rng(1)
    ratio = np.stack([rng.normal(size=256), rng.standard_cauchy(256), rng.normal(size=256)])
    fit = guide(ratio.T, rng.normal(size=80))
    checks = {check.criterion: check for check in GATE.check("transition", fit)}
    alone = guide(ratio[1], rng.normal(size=80))
    assert checks["pareto_k"].site == "element 1"
    assert checks["pareto_k"].verdict == "failed"
    assert checks["pareto_k"].value == GATE.check("transition", alone)[1].value


def test_refit_policies() -> None:
    assert [t for t in range(12) if EveryRounds(4).scheduled(t)] == [0, 4, 8]
    assert EveryRounds(4).least_share == Never().least_share == 0.0
    assert EffectiveSampleSize(0.3).least_share == 0.3
    assert not EffectiveSampleSize().scheduled(0)
    assert not Never().scheduled(0)
    with pytest.raises(ValueError, match="rounds: expected a whole number of at least 1, got 0"):
        EveryRounds(0)
    with pytest.raises(ValueError, match=r"fraction: .* between 0\.0 and 1\.0, got 1\.0"):
        EffectiveSampleSize(1.0)


def test_a_constant_deterministic_site_is_no_frozen_chain() -> None:
    fit = chains(independent())
    fit.trace["variance"] = np.ones((4, 32))
    assert overall(GATE.check("reward", fit)) == "ok"


def test_the_gate_takes_jax_arrays() -> None:
    fit = jax.tree.map(jnp.asarray, chains(independent()))
    assert overall(GATE.check("reward", fit)) == "ok"
