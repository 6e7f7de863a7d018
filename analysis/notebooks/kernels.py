"""The figures of `compare_models`, and how many rows a comparison needs."""

from collections.abc import Callable

import jax
import numpy as np
import pandas as pd
from figures import BLUE, GREY, INK, Floats, canvas, drawn, legend_above
from matplotlib.figure import Figure

from bayes_cmab import Agent
from bayes_cmab.comparison import Comparison, compare_rewards, compare_transitions, explored
from bayes_cmab.data import Outcomes, Transitions
from bayes_cmab.environments import Environment
from bayes_cmab.plot_style import COLOURS

MARKS = "os"


def rank_f(transitions: Transitions, outcomes: Outcomes) -> Comparison:
    """Rank the reward kernels."""
    del transitions
    return compare_rewards(outcomes, jax.random.key(7))


def rank_r(transitions: Transitions, outcomes: Outcomes) -> Comparison:
    """Rank the models of ``P(r | s, a)``."""
    del outcomes
    return compare_transitions(transitions)


def learned(
    compare: Callable[[Transitions, Outcomes], Comparison],
    environment: Environment,
    sizes: tuple[int, ...],
    offline: int,
    seeds: tuple[int, ...],
) -> pd.DataFrame:
    """Return a comparison's tables at several numbers of rounds and seeds, one below the other."""
    return pd.concat(
        compare(*explored(environment, size, offline, jax.random.key(seed))).table.assign(
            rounds=size, seed=seed
        )
        for seed in seeds
        for size in sizes
    )


def taught(agent: Agent, transitions: Transitions, outcomes: Outcomes) -> Agent:
    """Tell an agent with given units of rows in these units; return it."""
    units, t, o = agent.scales, transitions, outcomes
    n, m = int(t.size), int(o.size)
    agent.add_transitions(
        np.asarray(units.context.restore(t.contexts[:n])),
        np.asarray(units.action.restore(t.actions[:n])),
        np.asarray(units.intermediate.restore(t.intermediates[:n])),
    )
    agent.add_outcomes(
        np.asarray(units.intermediate.restore(o.intermediates[:m])),
        np.asarray(units.outcome.restore(o.outcomes[:m])),
    )
    return agent


@drawn
def draw_differences(found: dict[str, Comparison], label: str) -> Figure:
    """Draw the difference of every model to the best, with two standard errors."""
    figure, axes = canvas(1, len(found), 1.9)
    for axis, (title, comparison) in zip(axes[0], found.items(), strict=True):
        table = comparison.table.iloc[::-1]
        places = np.arange(len(table))
        axis.axvline(0.0, color=GREY, linewidth=0.8)
        axis.errorbar(
            table["difference"],
            places,
            xerr=2.0 * table["se_difference"],
            fmt="o",
            color=BLUE,
            markersize=4.0,
            linewidth=1.2,
        )
        axis.set_yticks(places, table["model"])
        axis.set_ylim(-0.6, len(table) - 0.4)
        axis.set_title(title, loc="left")
        axis.set_xlabel(label)
    return figure


@drawn
def draw_rows(transitions: Transitions, found: Comparison, one: str, other: str) -> Figure:
    """Draw the intermediates of E, coloured by which of two models predicted the row better."""
    rows = int(transitions.size)
    r = np.asarray(transitions.intermediates)[:rows, 0]
    s = np.asarray(transitions.contexts)[:rows, 0]
    gain = found.pointwise[one] - found.pointwise[other]
    figure, axes = canvas(1, 2, 2.6)
    left, right = axes[0]
    for better, name, mark in zip((gain >= 0.0, gain < 0.0), (one, other), MARKS, strict=True):
        left.scatter(s[better], r[better], s=14, color=COLOURS[name], marker=mark, label=name)
    left.set_xlabel("context, standardised")
    left.set_ylabel("intermediate $r$")
    legend_above(figure, left, 2)
    right.axhline(0.0, color=GREY, linewidth=0.8)
    right.plot(np.sort(gain), ".", color=INK, markersize=4.0)
    right.set_xlabel("rows, sorted")
    right.set_ylabel(f"score of {one} minus {other}")
    return figure


@drawn
def draw_learned(frame: pd.DataFrame, model: str, others: tuple[str, ...], label: str) -> Figure:
    """Draw how a model's lead over others grows with the rounds, by seed."""
    figure, axes = canvas(1, len(others), 2.3)
    wide = frame.pivot_table(index=["seed", "rounds"], columns="model", values=label)
    for axis, other in zip(axes[0], others, strict=True):
        lead = (wide[model] - wide[other]).unstack("seed")
        axis.axhline(0.0, color=GREY, linewidth=0.8)
        axis.plot(lead.index, lead.to_numpy(), color=BLUE, linewidth=1.0, marker="o", markersize=3)
        axis.set_xscale("log")
        axis.set_xticks(lead.index, [str(size) for size in lead.index])
        axis.minorticks_off()
        axis.set_xlabel("rounds")
        axis.set_ylabel(f"{label}: {model} minus {other}")
    return figure


def lead_text(comparison: Comparison, better: str, worse: str) -> str:
    """Return a difference of two models over the rows, with its standard error."""
    gain: Floats = comparison.pointwise[better] - comparison.pointwise[worse]
    error = np.sqrt(len(gain)) * gain.std(ddof=1)
    return f"{better} minus {worse}: {gain.sum():+.1f} ± {error:.1f} over {len(gain)} rows"
