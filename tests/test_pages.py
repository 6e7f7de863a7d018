"""The generated pages: they say what the committed tables say."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = {
    "evidence": "docs/models.md",
    "marginalisation": "docs/marginalisation.md",
    "models_report": "docs/embeddings.md",
    "paper": "docs/paper.md",
    "readme": "README.md",
    "report": "docs/results.md",
}
"""Page by the script that writes it."""


@pytest.mark.parametrize("script", PAGES)
def test_a_page_is_what_its_script_writes(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ROOT / "analysis"
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    spec = spec_from_file_location(f"page_{script}", folder / f"{script}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / PAGES[script]).read_text(encoding="utf-8")
    assert text == module.page(), f"python analysis/{script}.py writes it anew"
