"""Where the oracle files are, and how to read one."""

import json
import os
from pathlib import Path
from typing import Any


def oracle_folder() -> Path:
    """Return the folder in BAYES_CMAB_ORACLES if that is set, else tests/data."""
    folder = os.environ.get("BAYES_CMAB_ORACLES")
    return Path(folder) if folder else Path(__file__).parent / "data"


def load(name: str) -> dict[str, Any]:
    """Read one oracle file, by its name with the suffix."""
    content: dict[str, Any] = json.loads((oracle_folder() / name).read_text(encoding="utf-8"))
    return content
