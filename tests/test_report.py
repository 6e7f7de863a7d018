"""The report is one page that parses, asks for nothing outside itself, and has its sections."""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import arviz_base
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from live_agents import paper_agent

from bayes_cmab import MAP, NUTS, SVI, Agent, DirectPolicy, Gate
from bayes_cmab.decision import FIGURES, PARTS
from bayes_cmab.report_figures import best_first
from bayes_cmab.report_page import number, table
from bayes_cmab.report_posterior import draw_draws, draw_elbo, draw_replicates, sites_by_element

SECTIONS = [
    "Data so far",
    "Outcomes over the rounds",
    "Uncertainty budget",
    "Scores",
    "Hyperparameters",
    "Refits and the gate",
    "Settings and versions",
]
VOID = {"meta", "img", "br", "hr", "link", "input"}
LENIENT = Gate(rhat=np.inf, ess=0.0, divergent=1.0, bfmi=0.0, pareto_k=np.inf, elbo_drift=np.inf)
NASTY = "<b>$x^$ & \"quoted\" <script>alert('1')</script>"


class Page(HTMLParser):
    """Collect the page's elements, and check that they nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.references: list[str] = []
        self.headings: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        links = ("src", "href", "xlink:href", "srcset", "action", "poster", "data")
        self.references += [value or "" for name, value in attrs if name in links]
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} {name}"
            self.references += re.findall(r"url\((.*?)\)", value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)
        if self.open and self.open[-1] != "style":
            self.text += data


def read(path: Path) -> Page:
    text = path.read_text("utf-8")
    page = Page(text)
    assert page.headings == SECTIONS
    assert all(link.startswith("#") for link in page.references), page.references
    assert not {"script", "link", "iframe", "object", "embed", "base"} & set(page.tags)
    assert "@import" not in text
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(svg)  # well formed, not only for a lenient parser
    return page


def run(agent: Agent, rounds: int, d: int = 1) -> Agent:
    rng = np.random.default_rng(0)
    for i in range(rounds):
        decision = agent.ask(rng.uniform(-2.0, 2.0))
        r = np.cos(np.sum(decision.action)) + 0.3 * rng.normal(size=d)
        if i != 1:
            agent.tell(decision.ticket, intermediate=r)
        if i != 2:
            agent.tell(decision.ticket, outcome=np.sin(r).sum())
    return agent


def test_an_agent_that_knows_nothing_has_a_report(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    assert paper_agent([0.0, 1.0]).report(path) == path
    page = read(path)
    assert "Nothing yet: no decision" in page.text
    assert "give one to see the scores" in page.text
    assert "svg" not in page.tags
    assert sorted(path.parent.iterdir()) == [path]  # nothing temporary stays


def test_the_report_of_a_fixed_agent_and_that_it_changes_nothing(tmp_path: Path) -> None:
    agent = run(paper_agent(pd.DataFrame({NASTY: np.linspace(-1.0, 1.0, 5)})), 4)
    agent.add_outcomes([0.0, 0.5], [1.0, 2.0])
    before, history = agent.score(0.5), agent.history()
    page = read(agent.report(tmp_path / "report.html", 0.5))
    assert page.tags.count("svg") == 4
    assert NASTY in page.text  # escaped, and shown as it is
    assert "with context_0 = 0.5 would see" in page.text
    assert "4decisions" in page.text
    assert "outcomes from elsewhere2" in page.text
    assert "outcomes that wait for their intermediate1" in page.text
    assert f"{number(float(before.score.max()))}" in page.text
    pd.testing.assert_frame_equal(agent.score(0.5), before)
    pd.testing.assert_frame_equal(agent.history(), history)


def test_a_loaded_agent_has_the_report_of_the_one_saved_and_abandoned_tickets_do_not_wait(
    tmp_path: Path,
) -> None:
    offered = pd.DataFrame({"side": pd.Categorical([1, 2]), "dose": [0.0, 1.0]})
    agent = run(paper_agent(offered, context_sample=pd.DataFrame({"age": [1.0, 3.0]})), 5)
    unseen, early = agent.ask(0.0).ticket, agent.ask(0.0).ticket
    agent.tell(early, outcome=0.3)
    agent.ask(0.0)
    for ticket in (1, 2, unseen, early):  # told an outcome, an intermediate, nothing, an outcome
        agent.abandon(ticket)
    agent.save(tmp_path / "agent")
    loaded = Agent.load(tmp_path / "agent")
    pages = [read(one.report(tmp_path / "report.html")) for one in (agent, loaded)]
    for page in pages:
        for words in (
            "1tickets waiting for r or y",
            "tickets that wait for an intermediate1",
            "tickets that wait for an outcome1",
            "outcomes that wait for their intermediate0",
            "abandoned tickets4",
            "with age = 0 would see",
            "side=1",
        ):
            assert words in page.text
    texts = [re.sub(r"written [-\d: ]+ UTC", "", page.text) for page in pages]
    assert texts[0] == texts[1]


@pytest.mark.slow
def test_several_action_columns_many_intermediates_and_refits(tmp_path: Path) -> None:
    grid = np.stack(np.meshgrid([0.0, 1.0, 2.0], [-1.0, 1.0]), axis=-1).reshape(-1, 2)
    agent = paper_agent(
        grid, dim_intermediate=5, policy=DirectPolicy(), inference=MAP(3, max_steps=3)
    )
    page = read(run(agent, 4, d=5).report(tmp_path / "report.html"))
    assert "every 3 rounds" in page.text
    assert "The 6 highest scores" in page.text


def test_the_budget_of_every_decision_is_in_the_history() -> None:
    agent = paper_agent(np.linspace(-1.0, 1.0, 5))
    decisions = [agent.ask(s) for s in (0.0, 1.0)]
    asks = agent.history().query("event == 'ask'")
    for name in FIGURES:
        assert asks[name].tolist() == [getattr(decision, name) for decision in decisions]
    np.testing.assert_allclose(asks[list(PARTS)].sum(axis=1), asks.standard_deviation**2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inference", "drawings"),
    [
        (NUTS(draws=16, chains=2, warmup=8, passes=2), 6),
        (SVI(draws=16, steps=10, passes=2), 7),
    ],
)
def test_the_report_of_an_agent_with_draws(
    inference: NUTS | SVI, drawings: int, tmp_path: Path
) -> None:
    agent = run(paper_agent([0.0, 0.5, 1.0], inference=inference, gate=LENIENT), 4)
    page = read(agent.report(tmp_path / "report.html"))
    assert page.tags.count("svg") == drawings
    for words in ("embedding_lengthscale_s[0]", "Checks of the last fit", "chain 0", "first"):
        assert words in page.text


def test_an_action_that_several_climbs_reach_is_listed_once() -> None:
    scores = pd.DataFrame({"a": [0.1, 0.30000001, 0.3, 0.2], "score": [1.0, 3.0, 2.0, 2.5]})
    assert best_first(scores, ("a",))["score"].tolist() == [3.0, 2.5, 1.0]


def test_the_figures_of_draws() -> None:
    rng = np.random.default_rng(0)
    draws = {"reward_scale": rng.gamma(2.0, size=(2, 8)), "own_$x^$": rng.normal(size=(2, 8, 2))}
    outcome = {"outcome": rng.normal(size=(2, 8, 5))}
    groups = dict.fromkeys(("posterior", "prior", "log_prior"), draws)
    tree = arviz_base.from_dict(
        groups | {"posterior_predictive": outcome, "observed_data": {"outcome": np.arange(5.0)}}
    )
    tree["optimisation"] = xr.DataTree(xr.Dataset({"reward_elbo": ("step", np.arange(4.0))}))
    assert set(sites_by_element(tree, "posterior")) == {
        "reward_scale",
        "own_$x^$[0]",
        "own_$x^$[1]",
    }
    text = draw_draws(tree)
    assert all(name in text for name in ("own_$x^$[1]", "chain 1", "posterior, 50% and 90%"))
    assert "outcomes at hand" in draw_replicates(tree)
    assert "reward program" in draw_elbo(tree)


def test_scores_that_are_not_finite_are_reported_instead_of_shown(tmp_path: Path) -> None:
    agent = paper_agent([0.0, 1.0])
    sites = {name: np.asarray(value) for name, value in agent.sites.items()}
    broken = paper_agent([0.0, 1.0], hyperparameters=sites | {"reward_scale": 1e200})
    page = read(broken.report(tmp_path / "report.html", 0.0))
    assert "a score is not finite in round 0: likely causes" in page.text


def test_a_bad_context_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="context: expected 1 number, got shape"):
        paper_agent([0.0, 1.0]).report(tmp_path / "report.html", [1.0, 2.0])
    assert not list(tmp_path.iterdir())


def test_tables_align_numbers_and_escape_text() -> None:
    text = table(("<a>", "b"), [("x & y", 0.000123456), ("z", 12345.0)])
    assert "<th>&lt;a&gt;</th>" in text
    assert '<td class="number">0.0001235</td>' in text
    assert "x &amp; y" in text
    assert number(12345.0) == "12\u202f345"
    assert number(-0.5) == "\u22120.5"
    assert number(np.nan) == "nan"
    assert table(("a",), []) == ""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_it_opens_in_a_browser_without_errors(tmp_path: Path) -> None:
    path = run(paper_agent(np.linspace(-1.0, 1.0, 5)), 4).report(tmp_path / "report.html")
    shot = tmp_path / "shot.png"
    command = [
        *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
        *(f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={shot}", path.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert ":CONSOLE" not in done.stderr
    assert shot.stat().st_size > 20_000
