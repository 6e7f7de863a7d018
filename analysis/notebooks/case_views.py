"""What the notebooks of the cases look at: priors in their units, beliefs beside the truth, trials.

The notebooks put `analysis/cases` on the path first.
"""

import math

import actg_play
import case_figures
import case_tables
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import players
import warfarin_play
from figures import BLUE, INK, band, canvas, drawn, legend_above
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from play import SEED
from warfarin_clinic import LOG_DOSES, harm
from warfarin_patients import ALLELES, Floats

from bayes_cmab import Agent, RewardModel
from bayes_cmab.columns import Columns
from bayes_cmab.decision import PARTS
from bayes_cmab.models.priors import LogNormal

law = drawn(case_figures.warfarin_law)
warfarin_comparison = drawn(case_figures.warfarin_regret)
actg_comparison = drawn(case_figures.actg_value)


def trials(case: str) -> pd.DataFrame:
    """Return the committed trials of a case that its page reports."""
    rounds = {"warfarin": warfarin_play.ROUNDS, "actg": actg_play.ROUNDS}[case]
    return case_tables.trials(case, SEED, rounds)


def paired(table: pd.DataFrame, pairs: list[tuple[str, str]], columns: list[str]) -> pd.DataFrame:
    """Return differences of two players with 95% intervals, a row a pair."""
    rows = {
        f"{one} minus {other}": [
            case_tables.paired(table, one, other, column).text(".1f") for column in columns
        ]
        for one, other in pairs
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def likeness(rows: pd.DataFrame, scales: warfarin_play.Units, pairs: int = 2000) -> pd.DataFrame:
    """Return quantiles, over the prior and pairs of patients, of the RBF kernel of two contexts.

    Parameters
    ----------
    rows : contexts. scales : their units.
    """
    columns = Columns.of(rows, "rows", "context")
    rng = np.random.default_rng(0)
    z = np.asarray(scales.standardise(jnp.asarray(columns.rows(rows, "rows"))))
    one, two = z[rng.integers(0, len(z), (2, pairs))]
    found = {}
    for prior in (LogNormal(0.6, 0.6), players.LENGTHSCALE):
        lengthscale = np.exp(math.log(prior.median) + prior.spread * rng.normal(size=one.shape))
        kernel = np.exp(-0.5 * (((one - two) / lengthscale) ** 2).sum(axis=1))
        found[f"median {prior.median:g}"] = np.quantile(kernel, [0.1, 0.25, 0.5, 0.75, 0.9])
    return pd.DataFrame.from_dict(
        found, orient="index", columns=["10%", "25%", "50%", "75%", "90%"]
    )


def prior_of_f(r: Floats, count: int, seed: int = 0) -> Floats:
    """Return draws (count, n) of b + f from the prior at standardised r (n, d)."""
    model, priors = RewardModel(), RewardModel().priors
    x = jnp.asarray(r)
    d = x.shape[1]

    lengthscale = priors.lengthscale.scaled(d**0.25).distribution()

    def one(key: jax.Array) -> jax.Array:
        keys = jax.random.split(key, 4)
        sites = {
            "reward_lengthscale": lengthscale.sample(keys[0], (d,)),
            "reward_scale": priors.scale.distribution().sample(keys[1]),
            "reward_noise_scale": jnp.asarray(priors.noise_scale.median),
        }
        values, vectors = jnp.linalg.eigh(model.gram(model.hyperparameters(sites), x, x))
        f = vectors @ (
            jnp.sqrt(jnp.maximum(values, 0.0)) * jax.random.normal(keys[2], values.shape)
        )
        return math.sqrt(priors.mean_variance) * jax.random.normal(keys[3]) + f

    draws = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(seed), count))
    return np.asarray(draws)


def draw_prior(axis: Axes, x: Floats, draws: Floats) -> None:
    """Draw twelve draws of the prior, and the middle 90% of all."""
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    axis.fill_between(x, low, high, color=BLUE, alpha=0.14, linewidth=0, label="90% of the prior")
    axis.plot(x, draws[:12].T, color=BLUE, linewidth=0.5, alpha=0.7)
    axis.set_xlim(x[0], x[-1])


@drawn
def warfarin_prior(count: int = 2000) -> Figure:
    """Draw f from the prior, in the units of the harm index, beside the truth."""
    scales = warfarin_play.units(warfarin_play.known().clinic, registry=True)
    inr = np.linspace(1.0, 6.0, 60)
    r = np.asarray(scales.intermediate.standardise(jnp.log(jnp.asarray(inr))[:, None]))
    y = np.asarray(scales.outcome.restore(jnp.asarray(prior_of_f(r, count))))
    figure, ((axis,),) = canvas(1, 1, 2.8)
    draw_prior(axis, inr, y)
    axis.plot(inr, -harm(inr), color=INK, linewidth=1.5, label="true f")
    axis.set(xlabel="INR, r", ylabel="b + f, minus harm index")
    legend_above(figure, axis)
    return figure


@drawn
def actg_prior(log: actg_play.Log, count: int = 2000) -> Figure:
    """Draw f from the prior, in CD4 cells, along each count; dots are 50 experienced patients."""
    scales = actg_play.units(log.patients)
    task = actg_play.Task("cbmp-map", "m=50", 0, 0, 1)
    rows = actg_play.elsewhere(task, log.patients)
    seen = rows[list(actg_play.INTERMEDIATE)].to_numpy()
    figure, ((left, right),) = canvas(1, 2, 2.8, sharey=True)
    for axis, j, label in ((left, 0, "CD4"), (right, 1, "CD8")):
        x = np.linspace(*np.quantile(seen[:, j], [0.0, 1.0]), 60)
        r = np.tile(np.median(seen, axis=0), (60, 1))
        r[:, j] = x
        draws = prior_of_f(np.asarray(scales.intermediate.standardise(jnp.asarray(r))), count)
        draw_prior(axis, x, np.asarray(scales.outcome.restore(jnp.asarray(draws))))
        axis.plot(
            seen[:, j], rows[actg_play.OUTCOME], ".", color=INK, markersize=3, label="50 (r, y)"
        )
        axis.set_xlabel(f"{label} count of week 20, r")
    left.set_ylabel("b + f, CD4 count of week 96")
    legend_above(figure, left)
    return figure


@drawn
def warfarin_belief(agent: Agent) -> Figure:
    """Draw the agent's g by dose beside the truth, for the median patient of each genotype."""
    clinic, table, _ = warfarin_play.known()
    figure, (axes,) = canvas(1, 3, 2.7, sharey=True)
    counts = clinic.contexts.vkorc1.to_numpy()
    doses = np.exp(LOG_DOSES)
    for axis, (name, count) in zip(axes, ALLELES.items(), strict=True):
        rows = np.flatnonzero(counts == count)
        patient = rows[np.argsort(clinic.eta[rows])[len(rows) // 2]]
        scores = agent.score(clinic.contexts.iloc[[patient]])
        mean, deviation = (scores[key].to_numpy() for key in ("mean", "standard_deviation"))
        band(axis, doses, mean, deviation, label="agent: mean of g and 95% interval")
        axis.plot(doses, table[patient], color=INK, linewidth=1.0, label="true g")
        axis.set_title(f"VKORC1 {name}", loc="left")
        axis.set(xlabel="dose, mg a week", xlim=(10, 70))
    axes[0].set_ylabel("g, minus harm index")
    legend_above(figure, axes[0])
    return figure


def budget(agent: Agent, last: int) -> pd.DataFrame:
    """Return the parts of the variance of g at the chosen actions, mean of the last decisions."""
    asks = agent.history().query("event == 'ask'").drop_duplicates("ticket")
    parts = asks[list(PARTS)].astype(float).tail(last).mean()
    return pd.DataFrame({"variance": parts, "share": parts / parts.sum()})


def mean_by_arm(agent: Agent, rows: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the agent's g by arm, averaged over patients."""
    scores = [agent.score(rows.iloc[[i]]) for i in range(len(rows))]
    return tuple(
        np.mean([score[key] for score in scores], axis=0) for key in ("mean", "standard_deviation")
    )


@drawn
def actg_belief(agent: Agent, log: actg_play.Log) -> Figure:
    """Draw the agent's mean outcome of each arm, averaged over 40 patients, beside the log's."""
    rows = log.patients.naive[list(actg_play.CONTEXT)]
    mean, deviation = mean_by_arm(
        agent, rows.iloc[np.random.default_rng(0).permutation(len(rows))[:40]]
    )
    naive = log.patients.naive.groupby("arm", observed=False)[actg_play.OUTCOME]
    figure, ((axis,),) = canvas(1, 1, 2.8)
    arms = np.arange(len(mean))
    axis.errorbar(
        arms - 0.06,
        mean,
        1.96 * deviation,
        fmt="o",
        color=BLUE,
        label="agent: 95% of a patient's g",
    )
    axis.errorbar(
        *(arms + 0.06, naive.mean(), 1.96 * naive.sem()),
        fmt="s",
        color=INK,
        label="log: mean outcome, 95% interval of the mean",
    )
    axis.set_xticks(arms, actg_play.ARMS)
    axis.set_ylabel("CD4 count of week 96")
    legend_above(figure, axis)
    return figure
