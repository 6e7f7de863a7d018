"""The committed tables of the studies, and how the pages print them."""

import re
from pathlib import Path

import pandas as pd

from bayes_cmab.ledger import Ledger, difference

FOLDER = Path(__file__).parent / "results"
STUDY = Ledger(FOLDER / "study")
"""Of `study.toml`."""
FIXED = Ledger(FOLDER / "fixed")
"""Of `fixed.toml`."""
FRESH = Ledger(FOLDER / "fresh")
"""Of `fresh.toml`."""


def markdown(rows: list[list[str]], header: list[str]) -> str:
    """Return a Markdown table, the first column left-aligned."""
    rule = ["---", *["--:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *rows)) + "\n"


def filled(page: str, name: str, text: str) -> str:
    """Return a page with what is between ``<!-- name -->`` and ``<!-- end -->`` replaced.

    Raises
    ------
    ValueError
        If the page has no such part.
    """
    pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
    if not re.search(pattern, page, re.DOTALL):
        raise ValueError(f"page: expected the part {name!r}")
    return re.sub(pattern, lambda m: f"{m[1]}\n{text}\n{m[2]}", page, flags=re.DOTALL)


def differences(frame: pd.DataFrame, agent: str, other: str) -> dict[tuple[str, int, float], str]:
    """Return agent minus other in mean reward over paired trials, with 95% intervals, as text.

    By setting, offline size and exploration weight; bold where the interval excludes zero.
    """
    return {
        (row.setting, row.offline, row.beta): interval(row.difference, row.low, row.high)
        for row in difference(frame, agent, other).itertuples()
    }


def interval(mean: float, low: float, high: float) -> str:
    """Return a difference with its interval as text, bold where that excludes zero."""
    strong = "**" if low > 0.0 or high < 0.0 else ""
    return f"{strong}{mean:+.1f}{strong} [{low:+.1f}, {high:+.1f}]"


def scenes(frame: pd.DataFrame) -> list[tuple[str, int]]:
    """Return settings and offline sizes, in order."""
    return sorted(set(zip(frame.setting, frame.offline, strict=True)))


def count(rows: pd.DataFrame) -> str:
    """Return in how many cells an agent is ahead, behind, and neither."""
    ahead, behind = int((rows.low > 0.0).sum()), int((rows.high < 0.0).sum())
    rest = len(rows) - ahead - behind
    return f"ahead in {ahead}, behind in {behind}, not told apart in {rest} of {len(rows)}"


def difference_table(
    frame: pd.DataFrame, pairs: dict[str, tuple[str, str]]
) -> tuple[str, dict[str, str]]:
    """Return a table of paired differences, a column a pair; and how they came out."""
    found = {name: difference(frame, *pair) for name, pair in pairs.items()}
    found = {name: rows for name, rows in found.items() if len(rows)}
    text = {
        (name, row.setting, row.offline): interval(row.difference, row.low, row.high)
        for name, rows in found.items()
        for row in rows.itertuples()
    }
    lines = [
        [f"{setting}, m = {offline}", *(text.get((name, setting, offline), "") for name in found)]
        for setting, offline in scenes(pd.concat(found.values()) if found else frame)
    ]
    return markdown(lines, ["", *found]), {n: count(rows) for n, rows in found.items()}


def sentence(counts: dict[str, str]) -> str:
    """Return how differences came out, by column."""
    return "; ".join(f"{name}: {text}" for name, text in counts.items()) + "."
