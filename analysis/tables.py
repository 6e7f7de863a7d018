"""The committed tables of the studies, and how the pages print them."""

from pathlib import Path

import pandas as pd

from bayes_cmab.ledger import Ledger, difference

FOLDER = Path(__file__).parent / "results"
STUDY = Ledger(FOLDER / "study")
"""Of `study.toml`."""
FIXED = Ledger(FOLDER / "fixed")
"""Of `fixed.toml`."""


def markdown(rows: list[list[str]], header: list[str]) -> str:
    """Return a Markdown table, the first column left-aligned."""
    rule = ["---", *["--:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *rows)) + "\n"


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
