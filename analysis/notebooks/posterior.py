"""ArviZ's pictures in the project's style, and the views of a posterior that they are given."""

import logging
import warnings
from collections.abc import Callable
from typing import Any

import arviz_stats as azs
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from cycler import cycler
from figures import BLUE, CHAINS, GREY, INK, WIDTH, canvas, drawn, shown
from IPython.display import Image
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayes_cmab.diagnose import check_table
from bayes_cmab.diagnostics import gate_checks
from bayes_cmab.inference.gate import Gate
from bayes_cmab.plot_style import STYLE

# What it has to say of sensitivity stands in the table that it returns.
logging.getLogger("arviz_stats").setLevel(logging.ERROR)

LOOK = STYLE | {
    "axes.prop_cycle": cycler(color=CHAINS),
    "figure.constrained_layout.use": True,
    "lines.linewidth": 1.0,
}

SHORT = {
    "reward_lengthscale": "lengthscale",
    "reward_scale": "scale",
    "reward_noise_scale": "noise sd",
    "embedding_lengthscale_s": "lengthscale s",
    "embedding_lengthscale_a": "lengthscale a",
    "embedding_scale": "scale of mu",
    "embedding_noise_scale": "noise of mu",
}
"""Names of the sampled sites in pictures."""


def arviz_picture(
    plot: Callable[..., Any],
    *arguments: Any,
    height: float = 2.6,
    adjust: Callable[[Figure], None] | None = None,
    **options: Any,
) -> Image:
    """Return the picture of an ArviZ plot in the project's style.

    Parameters
    ----------
    plot : a function of arviz_plots, with its arguments and options.
    height : in inches.
    adjust : called with the figure before it is shown.
    """
    with mpl.rc_context(LOOK), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of layouts, as in bayes_cmab.diagnose
        collection = plot(*arguments, **options)
        figure = collection.viz["figure"].item()
        figure.set_size_inches(WIDTH, height)
        if adjust is not None:
            adjust(figure)
        picture = shown(figure)
    plt.close(figure)
    return picture


def whole_chains(figure: Figure) -> None:
    """Count chains in whole numbers."""
    figure.axes[0].yaxis.set_major_locator(MaxNLocator(integer=True))


def in_logs(tree: xr.DataTree) -> xr.DataTree:
    """Return posterior and prior of the sampled sites in common logarithms, by short names.

    Statistics of the sampler come along.
    """
    groups = {}
    for group in ("posterior", "prior"):
        own = tree[group].to_dataset()[list(SHORT)]
        logs = xr.Dataset({f"log10 {SHORT[name]}": np.log10(own[name]) for name in own.data_vars})
        for dim in ("r_dim", "s_dim", "a_dim"):
            if logs.sizes[dim] == 1:
                logs = logs.squeeze(dim, drop=True)
        if "r_dim" in logs.dims:
            logs = logs.assign_coords(r_dim=[f"r{i}" for i in range(logs.sizes["r_dim"])])
        groups[group] = logs
    groups["sample_stats"] = tree["sample_stats"].to_dataset()
    return xr.DataTree.from_dict(groups)


def verdicts(tree: xr.DataTree, gates: dict[str, Gate]) -> pd.DataFrame:
    """Return the worst value of each criterion of each program, and what the gates say of it."""
    tables = {name: check_table(gate_checks(tree, gate)) for name, gate in gates.items()}
    first = next(iter(tables.values()))
    largest = first["criterion"].str.contains("rhat|divergent|frozen|pareto|drift")
    order = np.where(largest, -first["value"], first["value"])
    keys = ["program", "criterion"]
    worst = first.assign(order=order).sort_values("order").groupby(keys, sort=False).head(1)
    columns = {
        f"{name}: limit": own.loc[worst.index, "limit"].astype(str)
        + " "
        + own.loc[worst.index, "verdict"]
        for name, own in tables.items()
    }
    return worst[[*keys, "site", "value"]].assign(**columns).sort_values(keys).set_index(keys)


def leave_one_out(tree: xr.DataTree) -> Any:
    """Return ArviZ's PSIS-LOO of a posterior, without its warning of Pareto k: look at them."""
    with warnings.catch_warnings():  # of the Pareto k: the notebook prints them
        warnings.simplefilter("ignore", UserWarning)
        return azs.loo(tree, pointwise=True)


@drawn
def draw_pointwise(differences: dict[str, np.ndarray], outcomes: np.ndarray) -> Figure:
    """Draw by how much the log predictive density of each outcome differs, and its sum.

    Parameters
    ----------
    differences : (n,) by label; one. outcomes : (n,).
    """
    [(label, values)] = differences.items()
    figure, ((left, right),) = canvas(1, 2, 2.6)
    left.axhline(0.0, color=GREY, linewidth=0.8)
    left.plot(outcomes, values, "o", color=BLUE, markersize=3.5, alpha=0.7, markeredgewidth=0)
    left.set_xlabel("outcome $y$")
    left.set_ylabel(f"log density, {label}")
    order = np.sort(values)
    right.axvline(0.0, color=GREY, linewidth=0.8)
    right.step(order, np.arange(1, len(order) + 1) / len(order), color=INK, where="post")
    right.set_xlabel(f"log density, {label}")
    right.set_ylabel("share of the outcomes at or below")
    right.set_ylim(0.0, 1.0)
    return figure
