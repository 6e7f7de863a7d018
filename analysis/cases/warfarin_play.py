"""A trial of the warfarin case: 130 patients, one a day, through the public `Agent`.

All policies of a trial see the same patients, residuals, noise and registry. The INR of a patient
is told three days later. The patient's own outcome, if it is told, comes six days later, though the
person-year that it counts takes longer: a gift to the policies that have nothing else.
"""

import functools
import math
import time
import warnings
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import players
from runner import Row, Task
from scipy import stats
from warfarin import references_by_patient
from warfarin_clinic import (
    CELL_YEARS,
    INR_RANGE,
    LOG_DOSES,
    PATIENT_YEARS,
    Clinic,
    answer,
    draw_registry,
    draw_visits,
    harm,
    make_clinic,
    mean_reward,
    offered_doses,
)
from warfarin_patients import Floats, read_patients, regress

from bayes_cmab import Agent, ConvergenceWarning, Scales, Units
from bayes_cmab.columns import Columns

ROUNDS = 130
REGISTRY = 50
DELAYS = {"intermediate": 3, "outcome": 6}
EVERY = 5
STEP = 10  # patients between two values of the cumulative regret

DATA = {"registry": (REGISTRY, False), "own": (0, True), "both": (REGISTRY, True)}
"""Cells of the registry that are known, and whether patients' own outcomes are told."""

REFERENCES = ("oracle", "best single dose", "35 mg", "f(E[INR]), lowest", "f(E[INR]), middle")


class Known(NamedTuple):
    """The clinic, the mean reward g of its patients and doses, and reference doses by patient."""

    clinic: Clinic
    table: Floats
    references: dict[str, Floats]


@functools.cache
def known() -> Known:
    """Return what all trials share."""
    patients = read_patients()
    clinic = make_clinic(patients, regress(patients))
    return Known(clinic, mean_reward(clinic, LOG_DOSES), references_by_patient(clinic, LOG_DOSES))


def outcome_units(years: float) -> tuple[float, float]:
    """Return mean and standard deviation of y = -Poisson(years L) / years at a registry's INR."""
    z = np.linspace(-8.0, 8.0, 4001)
    weight = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
    L = harm(np.clip(2.4 * np.exp(0.35 * z), *INR_RANGE))
    mean = weight @ L
    return -mean, math.sqrt(weight @ (L - mean) ** 2 + mean / years)


def units(clinic: Clinic, registry: bool) -> Scales:
    """Return the units, the same in all trials; those of r and y need no trial to be known.

    Parameters
    ----------
    registry : whether outcomes are the registry's, or patients' own.
    """
    s, a = clinic.contexts, offered_doses()
    measured = []
    for name, table in (("context", s), ("action", a)):
        columns = Columns.of(table, name, name)
        measured.append(columns.units(Units.measured(columns.rows(table, name))))
    centre, scale = outcome_units(CELL_YEARS if registry else PATIENT_YEARS)
    return Scales(
        *measured,
        Units.create([math.log(2.4)], [0.35], "intermediate", 1),
        Units(jnp.asarray(centre), jnp.asarray(scale)),
    )


def make_agent(task: Task) -> Agent:
    """Return an agent that knows its registry and no patient."""
    clinic = known().clinic
    cells, _ = DATA[task.data]
    agent = Agent(
        offered_doses(),
        beta=players.BETA,
        seed=1000 * task.seed + task.trial,
        scales=units(clinic, cells > 0),
        context_sample=clinic.contexts,
        **players.options(task.policy, EVERY),
    )
    if cells:
        agent.add_outcomes(*registry(task, cells))
    return agent


def registry(task: Task, cells: int) -> tuple[Floats, Floats]:
    """Return the registry of a trial, the same for all policies."""
    return draw_registry(np.random.default_rng([task.seed, task.trial, 1]), cells)


def choices(task: Task) -> tuple[Agent, Floats]:
    """Play an agent; return it, and its log doses (T,)."""
    clinic = known().clinic
    visits = draw_visits(clinic, np.random.default_rng([task.seed, task.trial, 0]), task.rounds)
    agent = make_agent(task)
    news = players.LateNews(agent, DELAYS)
    _, told = DATA[task.data]
    chosen = np.empty(task.rounds)
    for t in range(task.rounds):
        news.arrive(t)
        decision = agent.ask(clinic.contexts.iloc[[visits.patient[t]]])
        chosen[t] = decision.action[0]
        own = type(visits)(*(field[[t]] for field in visits))
        r, y = answer(clinic, own, chosen[t])
        news.expect(t, decision.ticket, intermediate=r, **({"outcome": y} if told else {}))
    return agent, chosen


def play(task: Task) -> Row:
    """Return the row of a trial: mean reward, mean dose, cumulative pseudo-regret."""
    clinic, table, references = known()
    visits = draw_visits(clinic, np.random.default_rng([task.seed, task.trial, 0]), task.rounds)
    start, counts = time.process_time(), {"fits": 0, "failed_fits": 0}
    if task.policy in references:
        chosen = references[task.policy][visits.patient]
    elif task.policy == "random":
        rng = np.random.default_rng([task.seed, task.trial, 2])
        chosen = rng.choice(LOG_DOSES, task.rounds)
    else:
        with warnings.catch_warnings():  # failed fits are counted
            warnings.simplefilter("ignore", ConvergenceWarning)
            agent, chosen = choices(task)
        counts = players.fits(agent)
    reward = clinic.reward(chosen - clinic.eta[visits.patient])
    regret = np.cumsum(table[visits.patient].max(axis=1) - reward)
    marks = range(STEP, task.rounds + 1, STEP)
    return {
        "reward": reward.mean(),
        "dose": np.exp(chosen).mean(),
        **{f"regret_{t}": regret[t - 1] for t in marks},
        **counts,
        "cpu_seconds": time.process_time() - start,
    }
