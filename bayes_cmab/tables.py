"""How the command line prints and stores its tables."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    import pandas as pd


def write_csv(frame: "pd.DataFrame", path: Path) -> Path:
    """Write a frame as CSV, atomically; return where."""
    from bayes_cmab.files import write_atomically

    write_atomically(path, lambda p: frame.to_csv(p, index=False))
    return path


def records(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    """Return the rows of a frame for JSON, which has no NaN."""
    rows = frame.astype(object).where(frame.notna(), None)
    return [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]


def print_json(**document: Any) -> None:
    """Print one JSON document."""
    typer.echo(json.dumps(document, indent=2, allow_nan=False))


def print_rows(rows: list[dict[str, Any]], as_json: bool) -> None:
    """Print rows as a table, or as JSON."""
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        _print_table("", [{k: _text(value) for k, value in row.items()} for row in rows])


def print_tables(frame: "pd.DataFrame", row: Callable[[Any], dict[str, str]]) -> None:
    """Print one table for each setting and offline size."""
    several = frame["beta"].nunique() > 1
    for (setting, offline), group in frame.groupby(["setting", "offline"], sort=False):
        title = f"Setting {setting}, {offline} offline outcomes"
        if not several:
            title += f", beta {frame['beta'].iloc[0]:g}"
        rows = [row(one) for _, one in group.iterrows()]
        kept = [{k: v for k, v in one.items() if several or k != "beta"} for one in rows]
        _print_table(title, kept)


def _print_table(title: str, rows: list[dict[str, str]]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.padding = (0, 1, 0, 0)
    for name in rows[0]:
        left = name in ("setting", "agent", "description")
        table.add_column(
            name.replace("_", " "),
            justify="left" if left else "right",
            no_wrap=name != "description",
        )
    for one in rows:
        table.add_row(*one.values())
    Console(highlight=False, markup=False).print(table)


def summary_row(row: Any) -> dict[str, str]:
    """Return the printed columns of a row of `summarise`."""
    levels = [name for name in row.index if name.startswith("coverage_")]
    shares = [_text(100 * row[name], ".0f") for name in levels]
    coverage = f"covered\n{'/'.join(name.removeprefix('coverage_') for name in levels)}"
    return {
        "agent": row.agent,
        "beta": _text(row.beta, "g"),
        "outcome": _with_error(row.outcome_mean, row.outcome_se),
        "5%": _text(row.outcome_q05, ".1f"),
        "regret": _with_error(row.regret_mean, row.regret_se),
        **({coverage: " ".join(shares)} if levels else {}),
        "refits": _with_failures(row.refits, row.failed_fits),
        "CPU ms": _text(1000 * row.seconds_per_round, ".2f"),
    }


def difference_row(row: Any) -> dict[str, str]:
    """Return the printed columns of a row of `paired_differences`."""
    parts = ("difference", "low", "high")
    return {
        "agent": row.agent,
        "beta": _text(row.beta, "g"),
        "mean reward": _with_interval(*(row[f"mean_reward_{part}"] for part in parts)),
        "outcome": _with_interval(*(row[f"outcome_{part}"] for part in parts)),
    }


def _text(value: Any, form: str = ".3f") -> str:
    if not isinstance(value, float):
        return str(value)
    return "" if math.isnan(value) else format(value, form)


def _with_failures(refits: float, failures: float) -> str:
    text = _text(refits, ".1f")
    return f"{text} ({failures:.1f})" if failures else text


def _with_error(mean: float, error: float) -> str:
    return f"{mean:.1f}" if math.isnan(error) else f"{mean:.1f} ± {error:.1f}"


def _with_interval(mean: float, low: float, high: float) -> str:
    if math.isnan(low):
        return f"{mean:+.1f}"
    mark = "*" if low > 0.0 or high < 0.0 else " "
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}] {mark}"
