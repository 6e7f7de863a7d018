"""What an agent answers: its evaluation of the offered actions, and the decision it takes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Bool, Float, Int

from bayes_cmab.acquisition import select
from bayes_cmab.moments import NEGATIVITY_TOLERANCE, Moments
from bayes_cmab.scaling import Units
from bayes_cmab.validate import FloatArray

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cmab.columns import Columns
    from bayes_cmab.offers import Offer

PARTS = (
    "variance_reward",
    "variance_embedding",
    "variance_transition",
    "variance_reward_hyperparameters",
    "variance_embedding_hyperparameters",
)
"""Parts of the variance: what would help to know."""

FIGURES = ("mean", "standard_deviation", "score", *PARTS)
"""What is reported of an action; the names are columns of a table and fields of a `Decision`."""


@dataclass(frozen=True, eq=False)
class Decision:
    """An action, and what the agent believed of its mean reward ``g`` when it chose it.

    Attributes
    ----------
    ticket : number by which to tell the consequences.
    action : (q,) in the user's units; with categorical columns, the values as they were offered.
    index : row of the action in the offered set, or in the actions of the call; of a `Box`, in the
        table of `Agent.score`.
    mean, standard_deviation : of ``g``, in the units of the outcome.
    score : of the acquisition; ``mean + sqrt(beta) * standard_deviation`` by default.
    variance_reward, variance_embedding, variance_transition, variance_reward_hyperparameters,
    variance_embedding_hyperparameters : parts of the variance, see `Moments`.
    second_moment : average squared size of ``f`` about the outcome's centre.
    """

    ticket: int
    action: npt.NDArray[Any]
    index: int
    mean: float
    standard_deviation: float
    score: float
    variance_reward: float
    variance_embedding: float
    variance_transition: float
    variance_reward_hyperparameters: float
    variance_embedding_hyperparameters: float
    second_moment: float


class Evaluation(NamedTuple):
    """Moments and scores of actions (see `Offer`), in the units of the outcome.

    Attributes
    ----------
    chosen : index of the highest score; -1 if a score is not finite.
    moments : see `Moments`.
    score : (k,).
    """

    chosen: Int[Array, ""]
    moments: Moments
    score: Float[Array, " k"]

    @classmethod
    def of(
        cls,
        moments: Moments,
        score: Float[Array, " k"],
        uniform: Float[Array, " k"],
        allowed: Bool[Array, " k"],
        units: Units,
    ) -> Self:
        """Choose by standardised scores (see `select`) and restore the units; pure JAX."""
        squared = units.scale**2
        squares = ("variance", "second_moment", *PARTS)
        restored = moments._replace(
            mean=units.restore(moments.mean),
            **{name: squared * getattr(moments, name) for name in squares},
        )
        return cls(select(uniform, score, allowed), restored, units.restore(score))

    def check(self, round_index: int) -> None:
        """Raise `FloatingPointError` if a score is not finite or a variance truly negative."""
        m = self.moments
        finite = all(np.all(np.isfinite(x)) for x in (m.mean, m.variance, self.score))
        if int(self.chosen) < 0 or not finite:
            raise FloatingPointError(
                f"a score is not finite in round {round_index}: likely causes are a noise so small "
                "beside its scale, or lengthscales so long, that a Gram matrix is singular beyond "
                "the largest jitter, or hyperparameters or rows too large to square"
            )
        if (negativity := float(self.moments.negativity)) > NEGATIVITY_TOLERANCE:
            raise FloatingPointError(
                f"a variance is negative by {negativity:.1e} of the prior variance in round "
                f"{round_index}: likely causes are a noise too small, or lengthscales too long, "
                "for rows so close to each other"
            )

    def figures(self, offer: "Offer") -> dict[str, FloatArray]:
        """Return what is reported of each action, (k,), by the names in ``FIGURES``."""
        m = self.moments
        parts = (getattr(m, name) for name in PARTS)
        values = (m.mean, np.sqrt(m.variance), self.score, *parts)
        return {
            name: np.asarray(value)[offer.rows] for name, value in zip(FIGURES, values, strict=True)
        }

    def decision(self, ticket: int, offer: "Offer", columns: "Columns") -> Decision:
        """Return the decision for the chosen action."""
        i = int(np.flatnonzero(offer.rows == int(self.chosen))[0])
        return Decision(
            ticket=ticket,
            action=columns.restore_rows(offer.given[[i]])[0],
            index=i,
            second_moment=float(self.moments.second_moment),
            **{name: float(values[i]) for name, values in self.figures(offer).items()},
        )

    def table(self, offer: "Offer", columns: "Columns") -> "pd.DataFrame":
        """Return one row per action: its columns, and ``FIGURES``."""
        import pandas as pd  # here, because it would be a third of the package's import time

        return pd.DataFrame(columns.restore(offer.given) | self.figures(offer))
