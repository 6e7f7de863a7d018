"""Every Python block of the README and the docs runs."""

import re
from pathlib import Path

import matplotlib
import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


SLOW = ("agent.md", "delayed.md", "inference.md")


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
