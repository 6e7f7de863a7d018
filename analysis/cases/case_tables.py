"""Tables of a case, from its trials: means, and differences of paired trials with 95% intervals."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from runner import RESULTS, read

from bayes_cmab.summary import half_width

type Floats = npt.NDArray[np.float64]

FEWEST = 5  # trials of a player, or it is left out

TITLES = {
    "cbmp": "CBMP-UCB",
    "residual": "CBMP-UCB (transition prior)",
    "sharp": "our default model",
    "cme": "CME-UCB",
    "gaussian": "Gaussian transition",
    "plugin": "plug-in f(E[r])",
    "gp": "GP-UCB on y",
}


class Interval(NamedTuple):
    """A mean over trials, with half the width of its 95% interval."""

    mean: float
    half: float
    trials: int

    @classmethod
    def of(cls, values: Floats) -> "Interval":
        """Return the interval of the mean of (n,) values; infinite for a single one."""
        half = float(half_width(values)) if len(values) > 1 else float("inf")
        return cls(float(values.mean()), half, len(values))

    def text(self, form: str, bold: bool = False) -> str:
        """Return it as text, in bold if zero is outside."""
        low, high = (format(self.mean + sign * self.half, f"+{form}") for sign in (-1, 1))
        mean = format(self.mean, f"+{form}")
        strong = "**" if bold and abs(self.mean) > self.half else ""
        return f"{strong}{mean}{strong} [{low}, {high}]"


def trials(case: str, seed: int, rounds: int) -> pd.DataFrame:
    """Return the trials of a case."""
    table = read(RESULTS / f"case-{case}.csv")
    return table[(table.seed == seed) & (table.rounds == rounds)]


def own(table: pd.DataFrame, player: str, column: str) -> pd.Series:
    """Return a column by trial, of a player such as ``cbmp-map:registry``."""
    policy, _, data = player.partition(":")
    rows = table[(table.policy == policy) & (table.data == data)]
    return rows.set_index("trial")[column].sort_index()


def paired(table: pd.DataFrame, player: str, other: str, column: str) -> Interval:
    """Return player minus other over the trials that both have."""
    gap = (own(table, player, column) - own(table, other, column)).dropna()
    return Interval.of(gap.to_numpy())


def players(table: pd.DataFrame, known: dict[str, int]) -> list[str]:
    """Return the players that have five trials or more, in their order."""
    held = (table.policy + ":" + table.data).value_counts()
    return [name for name in known if held.get(name, 0) >= FEWEST]


def title(player: str) -> str:
    """Return what a player is called."""
    policy, _, _ = player.partition(":")
    family, _, inference = policy.partition("-")
    return f"{TITLES[family]}, {inference}" if family in TITLES else policy


def markdown(header: list[str], rows: list[list[str]], left: int = 1) -> str:
    """Return a Markdown table whose first columns are aligned to the left."""
    rule = ["---"] * left + ["--:"] * (len(header) - left)
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *rows)) + "\n"
