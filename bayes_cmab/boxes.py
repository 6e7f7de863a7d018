"""Continuous actions: the highest score over a box.

Scores are computed at *candidates* that cover the box, and the best of them that lie apart are
climbed from by a quasi-Newton method, all at once and in one compiled program whose shapes never
change. The candidates stay in the competition, so that the result is never worse than the best of
them, and a climb that leaves the finite numbers is forgotten.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from bayes_cmab.acquisition import Acquisition, Thompson
from bayes_cmab.decision import Evaluation
from bayes_cmab.policies import Policy
from bayes_cmab.steps import AgentState
from bayes_cmab.validate import FloatArray, as_column, same_length

INSIDE = 1e-3
"""Distance from the faces, in a unit box, at which a climb starts: on a face it would not move."""

TOLERANCE = 1e-5
"""Relative and absolute, of a climb, in angles and in standardised score; BFGS gets closer."""


@dataclass(frozen=True)
class Box:
    r"""All actions with ``low <= action <= high``.

    Attributes
    ----------
    low, high : (q,), finite, ``low < high`` in each column.
    columns : (q,) names; ``action_0``, ... by default.
    candidates : number of points at which scores are always computed: a grid with both ends where
        q = 1, else a scrambled Halton sequence, the same for every agent. `Thompson` draws at these
        and chooses one of them, without a climb.
    starts : of the climbs.
    steps : of BFGS in a climb, at most.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    columns: tuple[str, ...] = ()
    candidates: int = 256
    starts: int = 16
    steps: int = 30

    def __post_init__(self) -> None:
        low, high = as_column(self.low, "low"), as_column(self.high, "high")
        same_length(low=low, high=high)
        if not len(low):
            raise ValueError("low: expected at least one column, got none")
        for j, (least, most) in enumerate(zip(low, high, strict=True)):
            if not least < most:
                raise ValueError(f"high: expected more than {least} in column {j}, got {most}")
        names = tuple(map(str, self.columns)) or tuple(f"action_{j}" for j in range(len(low)))
        if len(names) != len(low):
            raise ValueError(f"columns: expected {len(low)} names, got {len(names)}")
        for name, least in (("candidates", 2), ("starts", 1), ("steps", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(
                    f"{name}: expected a whole number of at least {least}, got {value!r}"
                )
        if self.starts > self.candidates:
            raise ValueError(
                f"starts: expected at most as many as candidates, {self.candidates}, "
                f"got {self.starts}"
            )
        for field, checked in (
            ("low", tuple(low.tolist())),
            ("high", tuple(high.tolist())),
            ("columns", names),
        ):
            object.__setattr__(self, field, checked)

    def cover(self) -> FloatArray:
        """Return the candidates, (candidates, q)."""
        low, high = np.array(self.low), np.array(self.high)
        if len(low) == 1:
            return np.linspace(low, high, self.candidates)
        from scipy.stats import qmc  # slow to import

        points = qmc.Halton(len(low), rng=np.random.default_rng(0)).random(self.candidates)
        return np.asarray(np.clip(low + points * (high - low), low, high))

    def evaluate(
        self,
        policy: Policy[Any],
        acquisition: Acquisition,
        state: AgentState,
        context: FloatArray,
        candidates: FloatArray,
        beta: FloatArray,
        key: PRNGKeyArray,
    ) -> tuple[FloatArray, Evaluation]:
        """Return the candidates and the tops of the climbs, (m, q), and their evaluation.

        Parameters
        ----------
        context : (p,) in the user's units. candidates : of `cover`.
        """
        starts = 0 if isinstance(acquisition, Thompson) else self.starts
        box = (np.array(self.low), np.array(self.high), candidates)
        arguments = (state, context, *box, beta, key)
        found = search(policy, acquisition, starts, self.steps, *arguments)
        points, evaluation = jax.device_get(found)
        return points, evaluation


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def search(
    policy: Policy[Any],
    acquisition: Acquisition,
    starts: int,
    steps: int,
    state: AgentState,
    context: Float[Array, " p"],
    low: Float[Array, " q"],
    high: Float[Array, " q"],
    candidates: Float[Array, "n q"],
    beta: Float[Array, ""],
    key: PRNGKeyArray,
) -> tuple[Float[Array, "m q"], Evaluation]:
    """Score the candidates and the tops of the climbs from the best of them; see `Box`.

    Contexts, actions and the corners come in the user's units.
    """
    units = state.scales
    s = units.context.standardise(context)

    def look(actions: Array) -> Any:
        known = (policy, state.posterior, s, units.action.standardise(actions))
        return acquisition(*known, beta, jax.random.fold_in(key, 1))

    points = candidates
    if starts:
        corner, size = low[None, :], (high - low)[None, :]
        inside = (candidates - corner) / size
        first = inside[spread(inside, look(candidates)[1], starts)]

        def height(place: Array) -> Array:
            score: Array = look(corner + place[None, :] * size)[1][0]
            return score

        top = partial(climb, height, steps)
        # One after the other where a score chooses among forms, of which a batch computes all.
        tops = lax.map(top, first) if policy.one_trial_at_a_time else jax.vmap(top)(first)
        within = jnp.clip(corner + tops * size, corner, high[None, :])  # in spite of rounding
        points = jnp.concatenate([candidates, within])
    moments, score = look(points)
    uniform = jax.random.uniform(key, score.shape)
    allowed = jnp.ones(score.shape, bool)
    return points, Evaluation.of(moments, score, uniform, allowed, units.outcome)


def spread(
    places: Float[Array, "n q"], score: Float[Array, " n"], count: int
) -> Int[Array, " count"]:
    """Return the best places, each the best of those that are not close to the ones before."""
    radius = 0.5 * count ** (-1.0 / places.shape[1])

    def pick(left: Array, _: None) -> tuple[Array, Array]:
        best = jnp.argmax(left)
        near = jnp.max(jnp.abs(places - places[best][None, :]), axis=1) < radius
        return jnp.where(near, -jnp.inf, left), best

    return lax.scan(pick, score, length=count)[1]


def climb(
    height: Callable[[Array], Array], steps: int, first: Float[Array, " q"]
) -> Float[Array, " q"]:
    """Return a local maximum in the unit box, or where the climb started.

    In angles, ``place = (1 - cos(angle)) / 2``, there are no faces, and a maximum on a face is an
    ordinary one.
    """
    import optimistix  # slow to import

    start = jnp.arccos(1.0 - 2.0 * jnp.clip(first, INSIDE, 1.0 - INSIDE))

    def depth(angle: Array, _: Any) -> Array:
        return -height(0.5 * (1.0 - jnp.cos(angle)))

    solver: Any = optimistix.BFGS(rtol=TOLERANCE, atol=TOLERANCE)
    solution: Any = optimistix.minimise(depth, solver, start, max_steps=steps, throw=False)
    top = 0.5 * (1.0 - jnp.cos(solution.value))
    finite = jnp.all(jnp.isfinite(top)) & jnp.isfinite(depth(solution.value, None))
    reached: Array = jnp.where(finite, top, first)
    return reached
