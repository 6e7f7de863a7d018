"""What an experiment runs, as pure data: a sweep, its cells, and its chunks of trials."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bayes_cmab.environments import SETTINGS
from bayes_cmab.registry import POLICIES, split_name
from bayes_cmab.validate import as_positive, one_of, whole_number

SCHEMA = 2
"""Version of the files' layout."""

INTEGERS = {"trials": 1, "rounds": 1, "seed": 0, "refit_every": 1, "chunk": 1}
"""Fields of a sweep that are integers, and their smallest values."""


def explores(agent: str) -> bool:
    """Return whether an agent's choices depend on the exploration weight."""
    policy, _ = split_name(agent)
    return POLICIES[policy].learns


@dataclass(frozen=True)
class Cell:
    """One agent in one setting with one offline size and one exploration weight."""

    setting: str
    offline: int
    agent: str
    beta: float

    @property
    def label(self) -> str:
        """The cell's folder."""
        return f"{self.setting}-m{self.offline}-{self.agent}-beta{self.beta:g}"


def cell_key(cell: Cell) -> dict[str, Any]:
    """Return the columns that tell a cell from others in a table."""
    return asdict(cell) | {"beta": float(cell.beta)}


@dataclass(frozen=True)
class Sweep:
    """What is run; everything that the results depend on.

    Attributes
    ----------
    settings, offline, agents, betas : whose combinations are the cells. Agents that do not
        explore are run at the first beta only.
    trials, rounds, seed : of each cell; a trial's contexts and noise depend on the seed and the
        trial's number alone, so that agents are compared in pairs.
    refit_every : rounds between two fits of the agents whose names end in ``map`` or ``map1``.
    coverage : whether to measure the coverage of the intervals of ``g``.
    chunk : trials a file.
    """

    settings: tuple[str, ...]
    agents: tuple[str, ...]
    offline: tuple[int, ...] = (0, 50)
    betas: tuple[float, ...] = (0.25,)
    trials: int = 30
    rounds: int = 100
    seed: int = 0
    refit_every: int = 5
    coverage: bool = False
    chunk: int = 10

    def __post_init__(self) -> None:
        for field in ("settings", "agents", "offline", "betas"):
            values = getattr(self, field)
            if not values:
                raise ValueError(f"{field}: expected at least one, got none")
            if len(set(values)) < len(values):
                raise ValueError(f"{field}: expected no repetition, got {list(values)}")
        for setting in self.settings:
            one_of(setting, "setting", list(SETTINGS))
        for agent in self.agents:
            split_name(agent)
        for size in self.offline:
            whole_number(size, "offline", least=0)
        as_positive(self.betas, "beta", zero=True)
        if len({f"{beta:g}" for beta in self.betas}) < len(self.betas):
            raise ValueError(
                f"betas: expected six digits to tell them apart, got {list(self.betas)}"
            )
        for field, least in INTEGERS.items():
            whole_number(getattr(self, field), field, least=least)

    def cells(self) -> list[Cell]:
        """Return the cells, in an order that lets compiled programs be used again."""
        return [
            Cell(setting, offline, agent, beta)
            for setting in self.settings
            for offline in self.offline
            for agent in self.agents
            for beta in (self.betas if explores(agent) else self.betas[:1])
        ]

    def chunks(self) -> list[range]:
        """Return the trials of each chunk."""
        starts = range(0, self.trials, self.chunk)
        return [range(start, min(start + self.chunk, self.trials)) for start in starts]


@dataclass(frozen=True)
class Chunk:
    """One file's worth of work."""

    sweep: Sweep
    cell: Cell
    trials: range

    def path(self, folder: Path) -> Path:
        """Return where the chunk is stored."""
        first, last = self.trials[0], self.trials[-1]
        return folder / self.cell.label / f"trials-{first:04d}-{last:04d}.nc"

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that its results depend on, as stored in its file."""
        shared = ("rounds", "seed", "refit_every", "coverage")
        return {
            "schema": SCHEMA,
            "trials": [self.trials[0], self.trials[-1]],
            **asdict(self.cell),
            **{field: getattr(self.sweep, field) for field in shared},
        }
