"""Every Python block of the README and the docs runs."""

import pkgutil
import re
import shlex
from importlib import import_module
from pathlib import Path

import matplotlib
import pytest
import typer
from typer.testing import CliRunner

from bayes_cmab.cli import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


SLOW = (
    "README.md",
    "agent.md",
    "choose_beta.md",
    "choose_priors.md",
    "delayed.md",
    "inference.md",
    "limits.md",
    "live_loop.md",
    "models.md",
    "read_the_diagnostics.md",
    "reproduce.md",
    "run_on_a_cluster.md",
    "tutorial.md",
)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page.name in SLOW else (), id=page.name)
        for page in PAGES
    ],
)
def test_the_python_blocks_of_a_page_run_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    scope: dict[str, object] = {"__name__": "__docs__"}
    for number, block in enumerate(blocks(page)):
        exec(compile(block, f"{page.name}[{number}]", "exec"), scope)


def test_every_public_name_is_in_the_readme_or_the_docs() -> None:
    import bayes_cmab

    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    missing = [name for name in bayes_cmab.__all__ if not re.search(rf"\b{name}\b", text)]
    assert not missing


def test_every_public_name_of_a_module_is_in_the_reference() -> None:
    """Of the packages' ``__all__``; each is documented with the module that defines it."""
    reference = (ROOT / "docs" / "api.md").read_text("utf-8")
    modules = set(re.findall(r"auto(?:module|class):: (\S+)", reference))
    for package in ("models", "policies", "inference", "posteriors"):
        found = import_module(f"bayes_cmab.{package}")
        for name in found.__all__:
            home = getattr(found, name).__module__
            assert home in modules or f"{home}.{name}" in modules, (name, home)


COMMANDS = sorted(
    {
        command
        for page in PAGES
        for command in re.findall(
            r"^(?: {4}|.*&& )?(?:\.venv/bin/)?(bayes-cmab [a-z].*?) *(?:#.*)?$",
            page.read_text("utf-8"),
            re.MULTILINE,
        )
    }
)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_lines_of_a_page_parse(command: str, tmp_path: Path) -> None:
    """Nothing is run; a file that a command reads need not be there."""
    name, *arguments = shlex.split(command)[1:]
    whole = typer.main.get_command(app)
    own = whole.commands[name]  # type: ignore[attr-defined]
    there = {a: str(tmp_path) for a in arguments if a.endswith(".nc")}
    if "--help" not in arguments:
        own.make_context(name, [there.get(a, a) for a in arguments])


def test_there_are_command_lines_of_every_kind() -> None:
    assert {command.split()[1] for command in COMMANDS} >= {
        *("compare", "run", "plot", "settings", "compare-models", "diagnose", "reproduce"),
    }
    assert CliRunner().invoke(app, ["run", "--sitting", "B"]).exit_code == 2


def named(cell: str) -> list[str]:
    """Return the full names of the code that a cell names; a bare name is in the module before."""
    names, module = [], "bayes_cmab"
    for name in re.findall(r"`([^`]+)`", cell):
        parent, _, last = name.rpartition(".")
        module = f"bayes_cmab.{parent}" if parent else module
        names.append(f"{module}.{last}")
    return names


MATHEMATICS = (ROOT / "docs" / "mathematics.md").read_text("utf-8")
FORMULAS = re.findall(r"^\| .*(?<!\\)\| (.*) \|$", MATHEMATICS.split("\n## ")[0], re.MULTILINE)[1:]
ELSEWHERE = re.findall(r"`([A-Za-z_]+(?:\.[A-Za-z_]+)+)`", MATHEMATICS.split("\n## ", 1)[1])


def test_every_formula_is_tied_to_code() -> None:
    assert len(FORMULAS) > 25
    assert all(named(cell) for cell in FORMULAS)


@pytest.mark.parametrize(
    "name",
    [name for cell in FORMULAS for name in named(cell)]
    + [f"bayes_cmab.{name}" for name in ELSEWHERE],
)
def test_the_code_that_the_mathematics_names_exists(name: str) -> None:
    pkgutil.resolve_name(name)


def test_a_name_that_does_not_exist_is_noticed() -> None:
    (name,) = named("`kernels.rbg`")
    with pytest.raises(AttributeError, match="rbg"):
        pkgutil.resolve_name(name)
