"""The world and the figures of `quick_start`."""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from figures import BLUE, GREY, INK, ORANGE, band, canvas, drawn, legend_above
from matplotlib.figure import Figure

from bayes_cmab import Agent
from bayes_cmab.decision import PARTS
from bayes_cmab.environments import Environment, Noise, Purpose, stream, trial_key
from bayes_cmab.report_figures import PART_STYLE

MARK = {"s": 16, "linewidths": 0.9, "clip_on": False, "zorder": 3}


class Visit(NamedTuple):
    """A round of the world: its number, its context (1,), and its noise."""

    round: int
    context: np.ndarray
    noise: Noise


class LateWorld:
    """A setting whose outcomes come some rounds late, and some never.

    Parameters
    ----------
    environment : the setting. seed : of its trial. delay : rounds from an action to its outcome.
    lost : one outcome in that many never comes.
    """

    def __init__(self, environment: Environment, seed: int, delay: int, lost: int) -> None:
        self.environment, self.key = environment, trial_key(seed, 0)
        self.delay, self.lost = delay, lost
        self._due: dict[int, list[tuple[int, float]]] = defaultdict(list)

    def elsewhere(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return rows (r, y) that match no decision."""
        r, y = self.environment.sample_offline(stream(self.key, 0, Purpose.OFFLINE), size)
        return np.asarray(r), np.asarray(y)

    def visits(self, rounds: int) -> Iterator[Visit]:
        """Return the rounds, one after the other."""
        _, context = self.environment.reset(self.key)
        for t in range(rounds):
            noise = self.environment.draw(self.key, t)
            yield Visit(t, np.asarray(context), noise)
            context = noise.next_context

    def respond(self, visit: Visit, action: np.ndarray) -> np.ndarray:
        """Return the intermediate of an action; its outcome is on its way."""
        r, y = self.environment.answer(visit.noise, visit.context, action)
        if (visit.round + 1) % self.lost:
            self._due[visit.round + self.delay].append((visit.round, float(y)))
        return np.asarray(r)

    def arrived(self, round_number: int) -> list[tuple[int, float]]:
        """Return what arrives before a round: rounds and their outcomes."""
        return self._due.pop(round_number, [])


def truth(environment: Environment, context: float) -> np.ndarray:
    """Return g(s, a) of the grid's actions in a context of the grid."""
    row = int(np.abs(np.asarray(environment.contexts)[:, 0] - context).argmin())
    return np.asarray(environment.mean_reward_table())[row]


def decisions(agent: Agent) -> pd.DataFrame:
    """Return one row per decision of the agent's history."""
    history = agent.history()
    return history[history["event"] == "ask"].drop_duplicates("ticket").reset_index(drop=True)


@drawn
def draw_decisions(environment: Environment, asked: pd.DataFrame) -> Figure:
    """Draw the decisions on the map of g, and the sum of g beside the best and a random one."""
    table = np.asarray(environment.mean_reward_table())
    grid = np.asarray(environment.contexts)[:, 0]
    s, a = (np.concatenate(asked[name].to_list()) for name in ("context", "action"))
    rows, columns = (np.abs(grid[None, :] - x[:, None]).argmin(axis=1) for x in (s, a))
    figure, ((left, right),) = canvas(1, 2, 2.9)
    mesh = left.pcolormesh(grid, grid, table.T, cmap="Greys", shading="nearest", rasterized=True)
    bar = figure.colorbar(mesh, ax=left)
    bar.outline.set_linewidth(0.5)
    bar.ax.set_title("true $g$", loc="left")
    half = len(s) // 2
    left.scatter(
        s[:half], a[:half], facecolors="white", edgecolors=ORANGE, label="first half", **MARK
    )
    left.scatter(s[half:], a[half:], color=BLUE, edgecolors="white", label="second half", **MARK)
    left.grid(visible=False)
    left.set_xlabel("context $s$")
    left.set_ylabel("action $a$")
    left.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2, columnspacing=1.2)
    rounds = np.arange(1, len(s) + 1)
    for values, label, style in (
        (table.max(axis=1)[rows], "best action", {"color": INK, "linestyle": (0, (1, 1.2))}),
        (table[rows, columns], "agent", {"color": BLUE, "linewidth": 1.8}),
        (table.mean(axis=1)[rows], "uniform action", {"color": GREY}),
    ):
        right.plot(rounds, np.cumsum(values), label=label, **style)
    right.set_xlabel("round")
    right.set_ylabel("sum of $g(s, a)$ so far")
    right.set_xlim(0, len(s))
    right.set_ylim(min(0.0, right.get_ylim()[0]))
    right.legend(loc="upper left")
    return figure


@drawn
def draw_scores(agent: Agent, environment: Environment, contexts: list[float]) -> Figure:
    """Draw what the agent believes of g in a few contexts, beside the truth."""
    figure, (axes,) = canvas(1, len(contexts), 2.5, sharey=True)
    grid = np.asarray(environment.actions)[:, 0]
    for axis, context in zip(axes, contexts, strict=True):
        table = agent.score(context)
        mean, sd = (table[name].to_numpy() for name in ("mean", "standard_deviation"))
        band(axis, grid, mean, sd, label="mean of $g$ and 95% interval")
        axis.plot(grid, table["score"], color=ORANGE, linestyle=(0, (4, 1.8)), label="score")
        best = int(table["score"].to_numpy().argmax())
        peak = table["score"].iloc[best]
        axis.plot(grid[best], peak, "v", color=ORANGE, markersize=6, label="chosen")
        axis.plot(grid, truth(environment, context), color=INK, linewidth=1.0, label="true $g$")
        axis.set_title(f"$s$ = {context:g}", loc="left")
        axis.set_xlabel("action $a$")
    axes[0].set_ylabel("outcome")
    legend_above(figure, axes[0])
    return figure


@drawn
def draw_budget(asked: pd.DataFrame, refits: list[int]) -> Figure:
    """Draw the standard deviation of g at each decision, and the shares of its variance."""
    parts = {name: asked[name].to_numpy(float) for name in PARTS}
    used = [name for name in PARTS if np.any(parts[name] > 0.0)]
    total = np.sum([parts[name] for name in used], axis=0)
    rounds = np.arange(1, len(total) + 1)
    figure, ((left, right),) = canvas(1, 2, 2.9)
    left.plot(rounds, np.sqrt(total), "o-", color=INK, linewidth=1.0, markersize=2.5)
    left.plot(
        np.add(refits, 1), np.zeros(len(refits)), "|", color=ORANGE, markersize=9, clip_on=False
    )
    left.set_ylim(0.0)
    left.set_ylabel("standard deviation of $g$")
    left.set_title("orange ticks: hyperparameters drawn anew", loc="left", color=ORANGE)
    below = np.zeros(len(total))
    edges = np.append(rounds, len(rounds) + 1) - 0.5
    for name in used:
        label, colour = PART_STYLE[name]
        top = below + 100.0 * parts[name] / total
        right.stairs(top, edges, baseline=below, fill=True, color=colour, label=label)
        below = top
    right.set_ylim(0.0, 100.0)
    right.set_ylabel("share of the variance, %")
    right.grid(visible=False)
    for axis in (left, right):
        axis.set_xlabel("round")
        axis.set_xlim(edges[0], edges[-1])
    legend_above(figure, right, columns=2)
    return figure
