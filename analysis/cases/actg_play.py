"""A trial of the ACTG 175 case: the randomised log is replayed, one patient a week.

The naive patients come in random order. A patient whose arm in the log is not the one that the
policy chose is passed over (the ticket is abandoned); the arm was drawn at random, so the others
are as good as treated by the policy (Li et al. 2011). Weeks are patients: the CD4 and CD8 counts of
week 20 are told 20 patients later, the CD4 count of week 96 after 96, and never where the log lacks
it. All policies of a trial see the same order and the same outcomes from elsewhere.
"""

import functools
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pandas as pd
import players
from actg_patients import (
    ARMS,
    CONTEXT,
    INTERMEDIATE,
    OUTCOME,
    Patients,
    find,
    read_patients,
)
from runner import Row, Task

from bayes_cmab import Agent, ConvergenceWarning, Scales, Units
from bayes_cmab.columns import Columns

type Integers = npt.NDArray[np.int64]

ROUNDS = 148
DELAYS = {"intermediate": 20, "outcome": 96}
EVERY = 40  # asks between two fits: about ten patients
STEP = 4
THUMB, TRIED = "arm of the best mean r", 40

DATA = {"own": 0, "m=50": 50, "m=300": 300}
"""Outcomes of experienced patients that are known; the trial's own are told in all of them."""


class Log(NamedTuple):
    """What all trials share.

    Attributes
    ----------
    patients : of the trial, and of D2.
    arm : (n,) of the naive patients.
    value : (4,) the mean outcome of each arm in the log.
    baseline : (n,) least squares of the outcome on the context, whatever the arm.
    """

    patients: Patients
    arm: Integers
    value: npt.NDArray[np.float64]
    baseline: npt.NDArray[np.float64]


@functools.cache
def read_log(path: str) -> Log:
    """Return the log in a file."""
    patients = read_patients(Path(path))
    rows = patients.naive
    arm = rows.arm.cat.codes.to_numpy().astype(int)
    X = np.column_stack([np.ones(len(rows)), rows[list(CONTEXT)].to_numpy(float)])
    known = rows[OUTCOME].notna().to_numpy()
    beta = np.linalg.lstsq(X[known], rows[OUTCOME].to_numpy()[known])[0]
    return Log(
        patients, arm, rows.groupby("arm", observed=False)[OUTCOME].mean().to_numpy(), X @ beta
    )


def known() -> Log:
    """Return the log whose path is in the environment."""
    return read_log(str(find(None)))


def order(task: Task, count: int) -> Integers:
    """Return the order in which the patients come: twice through the log, should once not do."""
    rng = np.random.default_rng([task.seed, task.trial, 0])
    return np.concatenate([rng.permutation(count), rng.permutation(count)])


def units(patients: Patients) -> Scales:
    """Return the units: contexts of the naive patients, r and y of the experienced ones."""
    table = patients.naive[list(CONTEXT)]
    columns = Columns.of(table, "context", "context")
    r = patients.experienced[list(INTERMEDIATE)].to_numpy()
    y = patients.experienced[OUTCOME].to_numpy()
    return Scales(
        columns.units(Units.measured(columns.rows(table, "context"))),
        Units(jnp.zeros(len(ARMS)), jnp.ones(len(ARMS))),
        Units.measured(r),
        Units(jnp.asarray(y.mean()), jnp.asarray(y.std())),
    )


def offered_arms() -> pd.DataFrame:
    """Return the four arms as one categorical column."""
    return pd.DataFrame({"arm": pd.Categorical(ARMS, ARMS)})


def elsewhere(task: Task, patients: Patients) -> pd.DataFrame:
    """Return the experienced patients whose (r, y) a trial knows in advance."""
    rng = np.random.default_rng([task.seed, task.trial, 1])
    return patients.experienced.iloc[rng.permutation(len(patients.experienced))[: DATA[task.data]]]


def make_agent(task: Task, patients: Patients) -> Agent:
    """Return an agent that knows outcomes from elsewhere and no patient of the trial."""
    agent = Agent(
        offered_arms(),
        beta=players.BETA,
        seed=1000 * task.seed + task.trial,
        dim_intermediate=len(INTERMEDIATE),
        scales=units(patients),
        context_sample=patients.naive[list(CONTEXT)],
        **players.options(task.policy, EVERY),
    )
    rows = elsewhere(task, patients)
    if len(rows):
        agent.add_outcomes(rows[list(INTERMEDIATE)].to_numpy(), rows[OUTCOME].to_numpy())
    return agent


def replay(task: Task, log: Log) -> tuple[Agent, Integers]:
    """Play an agent; return it, and the patients that it treated, (T,)."""
    rows = log.patients.naive
    contexts = rows[list(CONTEXT)]
    r, y = rows[list(INTERMEDIATE)].to_numpy(), rows[OUTCOME].to_numpy()
    agent = make_agent(task, log.patients)
    news = players.LateNews(agent, DELAYS)
    treated: list[int] = []
    for i in order(task, len(rows)):
        if len(treated) == task.rounds:
            break
        news.arrive(len(treated))
        decision = agent.ask(contexts.iloc[[i]])
        if decision.index != log.arm[i]:
            agent.abandon(decision.ticket)
            continue
        own = {"outcome": y[i]} if np.isfinite(y[i]) else {}
        news.expect(len(treated), decision.ticket, intermediate=r[i], **own)
        treated.append(int(i))
    return agent, np.array(treated)


def fixed(task: Task, log: Log) -> Integers:
    """Return the patients that a policy without an agent treats: one arm, the best, or random."""
    patients = order(task, len(log.arm))
    if task.policy == "random":
        chosen = np.random.default_rng([task.seed, task.trial, 2]).integers(0, 4, len(patients))
    else:
        arm = log.value.argmax() if task.policy == "best arm" else ARMS.index(task.policy)
        chosen = np.full(len(patients), arm)
    return patients[log.arm[patients] == chosen][: task.rounds]


def rule_of_thumb(task: Task, log: Log) -> Integers:
    """Return the patients of a rule without a model or context: the arm of the best ``r`` so far.

    Arms are random for the first `TRIED` patients; then it is the one whose patients had the
    highest mean CD4 count in week 20, of those that are told by then.
    """
    rng = np.random.default_rng([task.seed, task.trial, 3])
    cd4 = log.patients.naive[INTERMEDIATE[0]].to_numpy()
    treated: list[int] = []
    for i in order(task, len(log.arm)):
        if len(treated) == task.rounds:
            break
        told = np.array(treated[: max(len(treated) - DELAYS["intermediate"], 0)], int)
        chosen = rng.integers(0, len(ARMS))
        if len(treated) >= TRIED and len(set(log.arm[told])) == len(ARMS):
            chosen = np.argmax([cd4[told[log.arm[told] == k]].mean() for k in range(len(ARMS))])
        if chosen == log.arm[i]:
            treated.append(int(i))
    return np.array(treated)


def play(task: Task) -> Row:
    """Return the row of a trial.

    ``outcome`` is the mean of the outcomes that were observed; ``adjusted`` is that of outcomes
    minus `Log.baseline`, plus its mean over the log: the same expectation, less noise. ``value`` is
    the mean of `Log.value`, the mean outcome of the arm that each patient had, and ``regret`` the
    cumulative shortfall from the best arm's: of least noise, blind to who does best on which arm.
    """
    log = known()
    start, counts = time.process_time(), {"fits": 0, "failed_fits": 0}
    if "-" in task.policy:
        with warnings.catch_warnings():  # failed fits are counted
            warnings.simplefilter("ignore", ConvergenceWarning)
            agent, treated = replay(task, log)
        counts = players.fits(agent)
    elif task.policy == THUMB:
        treated = rule_of_thumb(task, log)
    else:
        treated = fixed(task, log)
    y = log.patients.naive[OUTCOME].to_numpy()[treated]
    arm = log.arm[treated]
    regret = np.cumsum(log.value.max() - log.value[arm])
    return {
        "outcome": np.nanmean(y),
        "adjusted": np.nanmean(y - log.baseline[treated]) + log.baseline.mean(),
        "value": log.value[arm].mean(),
        **{f"arm_{k}": np.mean(arm == k) for k in range(len(ARMS))},
        **{f"regret_{t}": regret[t - 1] for t in range(STEP, task.rounds + 1, STEP)},
        **counts,
        "cpu_seconds": time.process_time() - start,
    }
