"""The case studies as they are played: pairing, late tickets, replay, resume, tables."""

import os
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression

from bayes_cmab import FunctionPolicy

FOLDER = Path(__file__).parent.parent / "analysis" / "cases"
MODULES = ("actg", "actg_patients", "actg_play", "case_tables", "play", "players", "runner")
FALSE_ALARM_RATE = 1e-4  # of each statistical test, over a fresh seed


@pytest.fixture(scope="module")
def case() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(FOLDER), *sys.path])
        names = (*MODULES, "report", "warfarin_clinic", "warfarin_play")
        return SimpleNamespace(**{name: import_module(name) for name in names})


@pytest.fixture(scope="module")
def table(case: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("actg") / "made_up.csv"
    case.actg_patients.made_up(np.random.default_rng(1), 900).to_csv(path, index=False)
    return path


@pytest.fixture
def random_policy(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(case.players.POLICIES, "cbmp", FunctionPolicy())


def told(agent: Any, column: str) -> pd.DataFrame:
    """Return the tells of a column: the ticket, and the number of decisions before."""
    tells = agent.history().query("event == 'tell'")
    return tells[tells[column].notna()][["ticket", "round"]].astype(int)


# Tables


def task(case: Any, policy: str, data: str = "none", trial: int = 0, rounds: int = 30) -> Any:
    return case.runner.Task(policy, data, 9, trial, rounds)


def test_a_trial_that_the_table_holds_is_not_missing(case: Any, tmp_path: Path) -> None:
    path, (first, second) = tmp_path / "t.csv", [task(case, "oracle", trial=k) for k in (0, 1)]
    assert case.runner.missing(path, [second, first]) == [second, first]
    case.runner.add(path, second, {"reward": -2.123456})
    case.runner.add(path, first, {"reward": -1.0})
    assert case.runner.missing(path, [second, first]) == []
    assert case.runner.missing(path, [first._replace(rounds=31)]) == [first._replace(rounds=31)]
    assert path.read_text().splitlines()[1:] == [
        "oracle,none,9,0,30,-1.0",
        "oracle,none,9,1,30,-2.1235",
    ]


@pytest.mark.slow
def test_a_resumed_run_ends_with_the_rows_of_an_uninterrupted_one(
    case: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(FOLDER)  # of the workers
    todo = [task(case, policy, trial=k) for policy in ("oracle", "random") for k in range(3)]
    whole, parts = tmp_path / "whole.csv", tmp_path / "parts.csv"
    played: list[str] = []
    case.runner.run(whole, todo, case.warfarin_play.play, workers=1, say=played.append)
    case.runner.run(parts, todo[4:5], case.warfarin_play.play, workers=1, say=played.append)
    case.runner.run(parts, todo, case.warfarin_play.play, workers=2, say=played.append)
    assert len(played) == len(todo) + 1 + (len(todo) - 1)
    one, two = (case.runner.read(path).drop(columns="cpu_seconds") for path in (whole, parts))
    pd.testing.assert_frame_equal(one, two, check_exact=True)


def test_a_paired_difference_has_the_interval_of_a_paired_t_test(case: Any) -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 8))
    rows = [
        pd.DataFrame({"policy": name, "data": "own", "trial": order, "regret": values[order]})
        for name, values, order in (("a", x, np.arange(8)), ("b", y, rng.permutation(8)))
    ]
    found = case.case_tables.paired(pd.concat(rows), "a:own", "b:own", "regret")
    expected = stats.ttest_rel(x, y).confidence_interval(0.95)
    np.testing.assert_allclose(
        [found.mean - found.half, found.mean + found.half], [expected.low, expected.high]
    )


def test_an_unknown_player_is_an_error(case: Any) -> None:
    with pytest.raises(
        case.play.typer.BadParameter, match=r"expected one of oracle:none, .* got x"
    ):
        case.play.tasks(case.play.WARFARIN, ["x"], None, 30, 5)


def test_the_pages_have_the_tables_of_the_committed_trials(case: Any) -> None:
    for name, text in case.report.pages().items():
        assert (case.report.DOCS / f"{name}.md").read_text("utf-8") == text


# Late news


def test_news_are_told_when_they_are_due_and_in_their_order(case: Any) -> None:
    calls: list[tuple[Any, ...]] = []
    agent = SimpleNamespace(tell=lambda ticket, **news: calls.append((ticket, *news.items())))
    news = case.players.LateNews(agent, {"intermediate": 2, "outcome": 3})
    for patient in range(5):
        news.arrive(patient)
        calls.append((f"patient {patient}",))
        own = {"outcome": 0.5} if patient == 1 else {}
        news.expect(patient, 10 * patient, intermediate=float(patient), **own)
    assert calls == [
        *(("patient 0",), ("patient 1",), (0, ("intermediate", 0.0)), ("patient 2",)),
        *((10, ("intermediate", 1.0)), ("patient 3",)),
        *((20, ("intermediate", 2.0)), (10, ("outcome", 0.5)), ("patient 4",)),
    ]


# Warfarin


def test_all_policies_of_a_trial_see_the_same_patients_and_registry(case: Any) -> None:
    play = case.warfarin_play
    registries = [play.registry(task(case, name, "registry"), 50) for name in ("oracle", "x-map")]
    np.testing.assert_array_equal(*registries)
    other = play.registry(task(case, "oracle", "registry", trial=1), 50)
    assert (other[0] != registries[0][0]).all()
    clinic, mean_reward, references = play.known()
    visits = case.warfarin_clinic.draw_visits(clinic, np.random.default_rng([9, 0, 0]), 30)
    best = mean_reward[visits.patient].max(axis=1)
    for name in ("35 mg", "best single dose"):
        row = play.play(task(case, name))
        reward = clinic.reward(references[name][visits.patient] - clinic.eta[visits.patient])
        assert row["regret_30"] == pytest.approx((best - reward).sum(), rel=1e-12)
    oracle = play.play(task(case, "oracle"))
    assert oracle["regret_30"] == pytest.approx(0.0, abs=1e-9)
    assert oracle["reward"] == pytest.approx(best.mean(), rel=1e-12)


@pytest.mark.usefixtures("random_policy")
@pytest.mark.parametrize("data", ["registry", "both"])
def test_a_clinic_tells_the_inr_of_three_days_ago(case: Any, data: str) -> None:
    play = case.warfarin_play
    agent, chosen = play.choices(task(case, "cbmp-fixed", data, rounds=12))
    assert len(chosen) == agent.round == 12
    tells = told(agent, "intermediate")
    assert tells.ticket.tolist() == list(range(9))
    assert (tells["round"] == tells.ticket + 3).all()
    outcomes = told(agent, "outcome")
    assert outcomes.ticket.tolist() == (list(range(6)) if data == "both" else [])
    known = agent.data.outcomes
    assert int(known.size) == 50 + len(outcomes)
    clinic = play.known().clinic
    visits = case.warfarin_clinic.draw_visits(clinic, np.random.default_rng([9, 0, 0]), 12)
    r, _ = case.warfarin_clinic.answer(clinic, visits, chosen)
    seen = agent.scales.intermediate.restore(agent.data.transitions.intermediates[:9])
    np.testing.assert_allclose(np.asarray(seen)[:, 0], r[:9], rtol=1e-12)


def test_the_units_of_an_outcome_are_its_moments(case: Any) -> None:
    play, clinic = case.warfarin_play, case.warfarin_clinic
    centre, scale = play.outcome_units(clinic.CELL_YEARS)
    n = 400_000
    _, y = clinic.draw_registry(np.random.default_rng(3), n)
    assert abs(y.mean() - centre) < stats.norm.isf(FALSE_ALARM_RATE / 2.0) * scale / np.sqrt(n)
    squares = (y - centre) ** 2
    limit = stats.norm.isf(FALSE_ALARM_RATE / 2.0) * squares.std() / np.sqrt(n)
    assert abs(squares.mean() - scale**2) < limit


# ACTG 175


def test_a_table_without_a_column_or_a_value_is_an_error(case: Any, tmp_path: Path) -> None:
    rows = case.actg_patients.made_up(np.random.default_rng(0), 20)
    path = tmp_path / "bad.csv"
    rows.drop(columns="cd820").to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"bad.csv: expected the columns .* none of \{'cd820'\}"):
        case.actg_patients.read_patients(path)
    rows.assign(age=np.nan).to_csv(path, index=False)
    with pytest.raises(ValueError, match="expected values everywhere but in cd496"):
        case.actg_patients.read_patients(path)
    with pytest.raises(case.play.typer.BadParameter, match="expected the table of ACTG 175"):
        case.actg_patients.find(tmp_path / "none.csv")


def test_least_squares_are_those_of_other_libraries(case: Any) -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(2, 30))
    fit = case.actg.least_squares(np.column_stack([np.ones(30), x]), y)
    line = stats.linregress(x, y)
    np.testing.assert_allclose(fit.coefficients, [line.intercept, line.slope])
    np.testing.assert_allclose(fit.errors, [line.intercept_stderr, line.stderr])
    assert fit.r_squared == pytest.approx(line.rvalue**2)


def test_the_facts_are_those_of_another_library(case: Any, table: Path) -> None:
    patients = case.actg_patients.read_patients(table)
    found = case.actg.facts(patients)
    raw = pd.read_csv(table)
    known = raw.dropna()
    naive, experienced = known[known.str2 == 0], known[known.str2 == 1]
    assert found["naive"] == (raw.str2 == 0).sum()
    assert found["naive, with an outcome"] == len(naive)

    def columns(rows: pd.DataFrame) -> np.ndarray:
        a, b = rows.cd420.to_numpy() / 1e3, rows.cd820.to_numpy() / 1e3
        return np.column_stack([a, b, a * a, b * b, a * b])

    f = LinearRegression().fit(columns(experienced), experienced.cd496)
    gap = naive.cd496 - f.predict(columns(naive))
    assert found["transfer of f to naive, bias"] == pytest.approx(gap.mean(), rel=1e-6)
    assert found["transfer of f to naive, RMSE"] == pytest.approx(
        np.sqrt((gap**2).mean()), rel=1e-6
    )
    X = np.column_stack([known.cd420, *((known.arms == k) for k in (1, 2, 3))])
    direct = LinearRegression().fit(X, known.cd496).coef_[2]
    assert found["direct effect of arm 2 given cd420, all"] == pytest.approx(direct, rel=1e-6)


REAL = os.environ.get("BAYES_CMAB_ACTG", "")


@pytest.mark.skipif(not REAL, reason="the table of ACTG 175 is not shipped: set BAYES_CMAB_ACTG")
def test_the_facts_of_the_real_table(case: Any) -> None:
    found = case.actg.facts(case.actg_patients.read_patients(Path(REAL)))
    assert {name: round(value, 1) for name, value in found.items() if name in case.actg.STATED} == {
        "naive, with an outcome": 557,
        "experienced, with an outcome": 785,
        "sd of y, naive": 171.9,
        "R^2 of y on r, all": 0.5,
        "transfer of f to naive, bias": -2.0,
        "transfer of f to naive, RMSE": 128.6,
        "direct effect of arm 2 given cd420, all": 39.1,
    }


@pytest.mark.usefixtures("random_policy")
def test_a_replay_treats_those_whose_arm_in_the_log_was_chosen(case: Any, table: Path) -> None:
    play = case.actg_play
    log, one = play.read_log(str(table)), task(case, "cbmp-fixed", "m=50", rounds=28)
    agent, treated = play.replay(one, log)
    asks = agent.history().query("event == 'ask'")
    asked = play.order(one, len(log.arm))[: len(asks)]
    chosen = np.array([action[0] for action in asks.action])
    logged = log.patients.naive.arm.to_numpy()[asked]
    np.testing.assert_array_equal(asked[chosen == logged], treated)
    assert len(treated) == 28
    tells = told(agent, "intermediate")
    assert tells.ticket.tolist() == np.flatnonzero(chosen == logged)[: 28 - 20].tolist()
    assert not len(told(agent, "outcome"))  # those come 96 patients later
    assert int(agent.data.outcomes.size) == 50
    abandoned = agent.history().query("event == 'abandon'").ticket
    assert abandoned.tolist() == np.flatnonzero(chosen != logged).tolist()


@pytest.mark.usefixtures("random_policy")
def test_outcomes_come_late_and_never_where_the_log_lacks_them(
    case: Any, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(case.actg_play.DELAYS, "outcome", 10)
    log, one = case.actg_play.read_log(str(table)), task(case, "cbmp-fixed", "own", rounds=28)
    agent, treated = case.actg_play.replay(one, log)
    known = log.patients.naive.cd496.notna().to_numpy()[treated]
    assert len(told(agent, "outcome")) == known[:18].sum() < 18


def test_the_rule_of_thumb_takes_the_arm_of_the_best_counts_told(
    case: Any, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = case.actg_play
    log = play.read_log(str(table))
    monkeypatch.setattr(play, "known", lambda: log)
    one = task(case, play.THUMB, rounds=70)
    treated = play.rule_of_thumb(one, log)
    np.testing.assert_array_equal(treated, play.rule_of_thumb(one, log))
    assert len(set(treated)) == 70
    cd4 = log.patients.naive.cd420.to_numpy()
    for place in range(play.TRIED, 70):
        told = treated[: place - 20]
        means = [cd4[told[log.arm[told] == k]].mean() for k in range(4)]
        assert log.arm[treated[place]] == np.argmax(means)
    assert set(log.arm[treated[: play.TRIED]]) == {0, 1, 2, 3}
    row = play.play(one)
    assert row["regret_68"] == pytest.approx(
        np.sum(log.value.max() - log.value[log.arm[treated[:68]]])
    )


def test_the_replay_of_an_arm_has_the_mean_of_the_arm_in_the_log(case: Any, table: Path) -> None:
    play = case.actg_play
    log = play.read_log(str(table))
    outcome = log.patients.naive.cd496.to_numpy()
    limit = stats.norm.isf(FALSE_ALARM_RATE / (2.0 * 5.0))
    for name in (*case.actg_patients.ARMS, "random"):
        tasks = [task(case, name, trial=k, rounds=40) for k in range(400)]
        means = [np.nanmean(outcome[play.fixed(one, log)]) for one in tasks]
        if name == "random":  # an arm's share of those treated is its share of the log
            known = log.arm[np.isfinite(outcome)]
            expected = log.value @ np.bincount(known, minlength=4) / len(known)
        else:
            expected = log.value[case.actg_patients.ARMS.index(name)]
        assert abs(np.mean(means) - expected) < limit * np.std(means) / np.sqrt(len(means)), name
