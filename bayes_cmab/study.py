"""A study: named sweeps over the same trials, read from a TOML file that holds nothing but data."""

import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from bayes_cmab.registry import split_name
from bayes_cmab.sweep import Sweep
from bayes_cmab.validate import one_of

SHARED = ("rounds", "seed", "refit_every")
"""Fields of a sweep that a study has once: a cell has no other name than its own."""

KEYS = ("shared", "sweeps", "differences", "figure")
SWEEP_FIELDS = tuple(field.name for field in fields(Sweep))


@dataclass(frozen=True)
class Study:
    """Named sweeps with the same seed, rounds and refits, and what is shown of them.

    Attributes
    ----------
    sweeps : by name, in the order in which they are run. A cell may be in several; it is run once,
        with the trials of the first that asks for as many.
    differences : pairs of agents, the first minus the second.
    figure : agents whose curves are drawn, at the first exploration weight of the first sweep.
    """

    sweeps: dict[str, Sweep]
    differences: tuple[tuple[str, str], ...] = ()
    figure: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.sweeps:
            raise ValueError("sweeps: expected at least one, got none")
        first_name, first = next(iter(self.sweeps.items()))
        for name, sweep in self.sweeps.items():
            for field in SHARED:
                wanted, got = getattr(first, field), getattr(sweep, field)
                if got != wanted:
                    raise ValueError(
                        f"sweeps.{name}.{field}: expected {wanted} as in {first_name}, got {got}"
                    )
        for agent in (*self.figure, *(agent for pair in self.differences for agent in pair)):
            split_name(agent)

    @property
    def identity(self) -> dict[str, int]:
        """What all results of the study depend on."""
        first = next(iter(self.sweeps.values()))
        return {field: getattr(first, field) for field in SHARED}

    @property
    def beta(self) -> float:
        """The exploration weight of the figures."""
        return next(iter(self.sweeps.values())).betas[0]

    def limited(self, names: tuple[str, ...] = (), trials: int | None = None) -> "Study":
        """Return the study with the named sweeps only, and at most so many trials of each.

        Raises
        ------
        ValueError
            If a name is not one of its sweeps'.
        """
        for name in names:
            one_of(name, "sweep", list(self.sweeps))
        kept = {
            name: sweep if trials is None else replace(sweep, trials=min(trials, sweep.trials))
            for name, sweep in self.sweeps.items()
            if not names or name in names
        }
        return replace(self, sweeps=kept)


def read_study(path: Path) -> Study:
    """Read a study from a TOML file.

    Parameters
    ----------
    path : of a file with the tables ``[shared]``, fields of `Sweep` that all sweeps have unless
        they say otherwise, ``[sweeps.NAME]``, a sweep's own fields, and, if wanted,
        ``differences = [[AGENT, AGENT], ...]`` and ``figure = [AGENT, ...]`` above them.

    Raises
    ------
    ValueError
        If there is no such file, or it holds something else.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        for key in content:
            one_of(key, "key", KEYS)
        shared = _fields(content.get("shared", {}), "shared")
        own = {
            name: _fields(entry, f"sweeps.{name}")
            for name, entry in _table(content.get("sweeps", {}), "sweeps").items()
        }
        return Study(
            {name: _sweep(name, shared | entry) for name, entry in own.items()},
            tuple(_pair(pair) for pair in _list(content, "differences")),
            tuple(_list(content, "figure")),
        )
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValueError) as error:
        raise ValueError(f"{path}: expected a study, got: {error}") from error


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected a table, got {value!r}")
    return value


def _list(content: dict[str, Any], key: str) -> list[Any]:
    value = content.get(key, [])
    if not isinstance(value, list):
        raise ValueError(f"{key}: expected a list, got {value!r}")
    return value


def _fields(entry: Any, where: str) -> dict[str, Any]:
    for field in _table(entry, where):
        one_of(field, where, SWEEP_FIELDS)
    return {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}


def _sweep(name: str, entry: dict[str, Any]) -> Sweep:
    try:
        return Sweep(**entry)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sweeps.{name}: {error}") from error


def _pair(value: Any) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"differences: expected pairs of agents, got {value!r}")
    return value[0], value[1]
