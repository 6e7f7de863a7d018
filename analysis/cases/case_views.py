"""What the notebooks look at: priors in the units of a case, beliefs beside the truth, budget."""

import math

import actg_play
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import players
import warfarin_play
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from warfarin_clinic import LOG_DOSES, harm
from warfarin_patients import ALLELES, Floats

from bayes_cmab import Agent, RewardModel
from bayes_cmab.columns import Columns
from bayes_cmab.models.priors import LogNormal

PARTS = ("reward", "reward_hyperparameters", "embedding", "transition", "embedding_hyperparameters")
SHADES = ("#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#CC79A7")


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
    """Return draws (count, n) of b + f from the prior at standardised r (n, 1)."""
    model, priors = RewardModel(), RewardModel().priors
    x = jnp.asarray(r)

    def one(key: jax.Array) -> jax.Array:
        keys = jax.random.split(key, 4)
        sites = {
            "reward_lengthscale": priors.lengthscale.distribution().sample(keys[0], (1,)),
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


def warfarin_prior(count: int = 200) -> Figure:
    """Draw f from the prior, in the units of the harm index, beside the truth."""
    scales = warfarin_play.units(warfarin_play.known().clinic, registry=True)
    inr = np.linspace(1.0, 6.0, 60)
    r = np.asarray(scales.intermediate.standardise(jnp.log(jnp.asarray(inr))[:, None]))
    y = np.asarray(scales.outcome.restore(jnp.asarray(prior_of_f(r, count))))
    figure = Figure((4.6, 2.9), layout="constrained")
    axis = figure.subplots()
    low, high = np.quantile(y, [0.05, 0.95], axis=0)
    axis.fill_between(inr, low, high, color="#0072B2", alpha=0.12, lw=0)
    axis.plot(inr, y[:12].T, color="#0072B2", lw=0.6, alpha=0.7)
    axis.plot(inr, -harm(inr), color="black", lw=1.5)
    axis.set(xlabel="INR", ylabel="y", xlim=(1, 6))
    axis.set_title("Twelve draws of b + f, 90% of the prior, and f (black)", loc="left", fontsize=9)
    return figure


def warfarin_belief(agent: Agent) -> Figure:
    """Draw the agent's g by dose beside the truth, for the median patient of each genotype."""
    clinic, table, _ = warfarin_play.known()
    figure = Figure((7.4, 2.8), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    counts = clinic.contexts.vkorc1.to_numpy()
    for axis, (name, count) in zip(axes, ALLELES.items(), strict=True):
        rows = np.flatnonzero(counts == count)
        patient = rows[np.argsort(clinic.eta[rows])[len(rows) // 2]]
        scores = agent.score(clinic.contexts.iloc[[patient]])
        mean, deviation = (scores[key].to_numpy() for key in ("mean", "standard_deviation"))
        doses = np.exp(LOG_DOSES)
        axis.fill_between(doses, mean - 2 * deviation, mean + 2 * deviation, alpha=0.15, lw=0)
        axis.plot(doses, mean, label="agent, ± 2 sd")
        axis.plot(doses, table[patient], color="black", label="truth")
        axis.set_title(f"VKORC1 {name}", loc="left", fontsize=9)
        axis.set(xlabel="dose, mg a week", xlim=(10, 70))
    axes[0].set_ylabel("mean reward g")
    axes[0].legend(frameon=False, fontsize=8)
    return figure


def budget(agent: Agent) -> pd.DataFrame:
    """Return the parts of the variance of the chosen action, one row a decision."""
    asks = agent.history().query("event == 'ask'").drop_duplicates("ticket")
    parts = [f"variance_{part}" for part in PARTS]
    return asks[parts].astype(float).set_axis(list(PARTS), axis=1).reset_index(drop=True)


def draw_budget(axis: Axes, parts: pd.DataFrame) -> None:
    """Draw the shares of the variance, smoothed over ten decisions."""
    smooth = parts.rolling(10, min_periods=1).mean()
    shares = smooth.div(smooth.sum(axis=1), axis=0)
    axis.stackplot(shares.index, shares.to_numpy().T, labels=list(shares), colors=SHADES)
    axis.set(xlabel="decision", ylabel="share of the variance of g", ylim=(0, 1))
    axis.set_xlim(0, len(shares) - 1)
    axis.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))


def budget_figure(agent: Agent) -> Figure:
    """Return `draw_budget` as a figure."""
    figure = Figure((6.4, 2.6), layout="constrained")
    draw_budget(figure.subplots(), budget(agent))
    return figure


def actg_belief(agent: Agent, log: actg_play.Log) -> Figure:
    """Draw the agent's mean outcome of each arm, averaged over 40 patients, beside the log's."""
    rows = log.patients.naive[list(actg_play.CONTEXT)]
    chosen = np.random.default_rng(0).permutation(len(rows))[:40]
    scores = [agent.score(rows.iloc[[i]]) for i in chosen]
    mean = np.mean([score["mean"] for score in scores], axis=0)
    deviation = np.mean([score["standard_deviation"] for score in scores], axis=0)
    naive = log.patients.naive.groupby("arm", observed=False)[actg_play.OUTCOME]
    figure = Figure((4.8, 2.8), layout="constrained")
    axis = figure.subplots()
    arms = np.arange(len(mean))
    axis.errorbar(arms - 0.08, mean, 2 * deviation, fmt="o", label="agent, ± 2 sd of a patient's g")
    axis.errorbar(
        arms + 0.08, naive.mean(), 1.96 * naive.sem(), fmt="s", color="black", label="log"
    )
    axis.set_xticks(arms, [f"arm {k}" for k in arms])
    axis.set_ylabel("CD4 count at week 96")
    axis.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return figure
