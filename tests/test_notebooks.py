"""The notebooks run, and what is committed of them is whole, quiet and portable."""

import re
import sys
from importlib import import_module
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).parent.parent / "analysis" / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))
NAMES = [path.stem for path in PATHS]
MOST_BYTES = 1_500_000
MACHINE_PATH = re.compile(r"/(?:tmp|home|root|work|usr|opt|Users|mnt|var)/|\.venv|site-packages")


def outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def noise(notebook: nbformat.NotebookNode) -> list[str]:
    return [
        str(output.get("text", output.get("evalue")))
        for output in outputs(notebook)
        if output.output_type == "error" or output.get("name") == "stderr"
    ]


def test_there_are_notebooks() -> None:
    assert NAMES


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_a_committed_notebook_is_whole_and_quiet(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert any("image/png" in output.get("data", {}) for output in outputs(notebook))
    assert noise(notebook) == []
    assert path.stat().st_size < MOST_BYTES


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_a_committed_notebook_says_nothing_of_the_machine(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.language_info == {"name": "python"}
    assert all("execution" not in cell.metadata for cell in notebook.cells)
    for output in outputs(notebook):
        for kind, data in output.get("data", {"stream": output.get("text", "")}).items():
            if not kind.startswith("image/"):
                assert not MACHINE_PATH.search(str(data))


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_a_notebook_begins_with_its_title_and_is_listed(path: Path) -> None:
    first = nbformat.read(path, as_version=4).cells[0]
    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")
    listed = (FOLDER.parent.parent / "docs" / "notebooks.md").read_text("utf-8")
    assert f"analysis/notebooks/{path.name}" in listed


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_with_small_settings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYES_CMAB_SMALL", "1")
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # compiling takes most of the time
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    assert noise(import_module("run").execute(name)) == []
