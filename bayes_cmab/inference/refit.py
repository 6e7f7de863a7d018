"""When the hyperparameters are inferred again; between two fits their draws are reweighted."""

from dataclasses import dataclass
from typing import Protocol

from bayes_cmab.validate import number_within, whole_number


class RefitPolicy(Protocol):
    """When to infer hyperparameters again; hashable.

    Attributes
    ----------
    least_share : effective sample size over the number of draws below which a program's draws are
        replaced at once; zero means never.
    """

    @property
    def least_share(self) -> float:
        """See above."""
        ...

    def scheduled(self, round_index: int) -> bool:
        """Return whether all programs are inferred again before this round, counted from zero."""
        ...


@dataclass(frozen=True)
class EveryRounds:
    """Before every ``rounds``-th round, whatever the weights."""

    rounds: int = 5

    def __post_init__(self) -> None:
        whole_number(self.rounds, "rounds", least=1)

    @property
    def least_share(self) -> float:
        """Return zero: the weights do not matter."""
        return 0.0

    def scheduled(self, round_index: int) -> bool:
        """Return whether the round is a multiple of ``rounds``."""
        return round_index % self.rounds == 0


@dataclass(frozen=True)
class EffectiveSampleSize:
    """When the weights of a program's draws have become uneven; only that program's are replaced.

    Attributes
    ----------
    fraction : of the number of draws, which the effective sample size ``1 / sum w^2`` must keep.
    """

    fraction: float = 0.5

    def __post_init__(self) -> None:
        number_within(self.fraction, "fraction", 0.0, 1.0)

    @property
    def least_share(self) -> float:
        """Return the fraction."""
        return self.fraction

    def scheduled(self, round_index: int) -> bool:
        """Return false: the weights decide."""
        del round_index
        return False


@dataclass(frozen=True)
class Never:
    """Never after the first fit: the draws are only reweighted."""

    @property
    def least_share(self) -> float:
        """Return zero."""
        return 0.0

    def scheduled(self, round_index: int) -> bool:
        """Return false."""
        del round_index
        return False


def check_refit(refit: RefitPolicy) -> None:
    """Raise unless a value can say when to infer again."""
    if isinstance(refit, type) or not callable(getattr(refit, "scheduled", None)):
        raise ValueError(f"refit: expected a RefitPolicy, got {refit!r}")
