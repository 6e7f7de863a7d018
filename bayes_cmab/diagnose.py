"""Look at a stored posterior: the gate's verdicts and ArviZ's pictures."""

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_cmab.diagnostics import ATTRIBUTE
from bayes_cmab.files import write_atomically
from bayes_cmab.inference.gate import Check

PANELS = 20
"""Numbers of the pictures with a row or panel for each; ArviZ draws 40 panels at most."""
PAIRED = 6
"""Numbers of a picture of pairs."""
GROUPS = ("posterior", "log_prior", "constant_data", "observed_data")
"""What every stored posterior has."""
COLUMNS = 4
"""Panels side by side."""


def load_posterior(path: Path) -> xr.DataTree:
    """Read a file of ``Agent.posterior().to_netcdf(path)`` or ``to_zarr(path)``.

    Raises
    ------
    ValueError
        If there is no such file, or it is something else.
    """
    if not path.exists():
        raise ValueError(f"{path}: expected a stored posterior, got no such file")
    engine = "zarr" if path.is_dir() else "h5netcdf"
    try:
        with xr.open_datatree(path, engine=engine) as opened:
            tree = opened.load()
    except Exception as error:  # a damaged file raises almost anything
        raise ValueError(f"{path}: expected a stored posterior, got: {error}") from error
    if ATTRIBUTE not in tree.attrs:
        raise ValueError(f"{path}: expected a file of Agent.posterior(), got another one")
    if missing := [name for name in GROUPS if name not in tree.children]:
        listed = ", ".join(missing)
        raise ValueError(f"{path}: expected a file of Agent.posterior(), got one without {listed}")
    return tree


def check_table(checks: list[Check]) -> pd.DataFrame:
    """Return the checks as a table: program, criterion, site, value, limit, verdict."""
    return pd.DataFrame(checks, columns=list(Check._fields))


def save_pictures(tree: xr.DataTree, folder: Path) -> list[Path]:
    """Write the diagnostic pictures that the posterior has the groups for; return where.

    ``trace``, ``rank`` and ``prior_posterior`` of the sampled sites, the smallest first, up to
    `PANELS` numbers; ``forest`` of all; ``pair`` of those of each program up to `PAIRED` numbers;
    and where possible ``energy`` (of NUTS) and ``posterior_predictive`` (with outcomes).
    """
    import arviz_plots

    sites = [str(name) for name in tree["log_prior"].data_vars]
    shown = _smallest(tree, sites, PANELS)
    rows = max(-(-_count(tree, shown) // COLUMNS), 1)
    panels = {
        "col_wrap": COLUMNS,
        "figure_kwargs": {"figsize": (16.0, 2.6 * rows), "layout": "constrained"},
    }
    drawn: dict[str, Callable[[], Any]] = {
        "trace": partial(
            arviz_plots.plot_trace_dist,
            tree,
            var_names=shown,
            figure_kwargs={"figsize": (10.0, 1.9 * len(shown))},  # a row holds its label
        ),
        "rank": partial(arviz_plots.plot_rank, tree, var_names=shown, **panels),
        "forest": partial(
            arviz_plots.plot_forest,
            _narrow(tree),
            var_names=sites,
            figure_kwargs={
                "figsize": (16.0, 1.0 + 0.35 * _count(tree, sites)),
                "layout": "constrained",
            },
        ),
        "prior_posterior": partial(
            arviz_plots.plot_prior_posterior, tree, var_names=shown, **panels
        ),
    }
    for program in ("reward", "transition", "embedding"):
        own = _smallest(tree, [name for name in sites if name.startswith(program)], PAIRED)
        if own:
            size = 2.8 * max(_count(tree, own), 2)
            drawn[f"pair_{program}"] = partial(
                arviz_plots.plot_pair,
                tree,
                var_names=own,
                figure_kwargs={"figsize": (size, size), "layout": "constrained"},
            )
    if "energy" in tree["sample_stats"]:
        drawn["energy"] = partial(arviz_plots.plot_energy, tree)
    if "posterior_predictive" in tree.children:
        drawn["posterior_predictive"] = partial(arviz_plots.plot_ppc_dist, tree)
    paths = []
    for name, draw in drawn.items():
        path = folder / f"{name}.png"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about layouts of matplotlib
            collection = draw()
        write_atomically(path, partial(_save, collection))
        paths.append(path)
    return paths


def _narrow(tree: xr.DataTree) -> xr.DataTree:
    """Return the posterior without dimensions of one label, which a forest has a column for."""
    draws = tree["posterior"].to_dataset()
    single = {name: 0 for name, size in draws.sizes.items() if size == 1}
    kept = {name: place for name, place in single.items() if name not in ("chain", "draw")}
    return xr.DataTree.from_dict({"posterior": draws.isel(kept, drop=True)})


def _count(tree: xr.DataTree, sites: list[str]) -> int:
    """Return how many numbers the sites have together."""
    return sum(tree["posterior"].dataset[name][0, 0].size for name in sites)


def _smallest(tree: xr.DataTree, sites: list[str], numbers: int) -> list[str]:
    """Return the sites with the fewest numbers, while they have no more than so many together."""
    sizes = {name: tree["posterior"].dataset[name][0, 0].size for name in sites}
    order = sorted(sites, key=lambda name: sizes[name])
    together = np.cumsum([sizes[name] for name in order])
    chosen = {name for name, total in zip(order, together, strict=True) if total <= numbers}
    return [name for name in sites if name in chosen]


def _save(collection: Any, path: Path) -> None:
    import matplotlib.pyplot as plt

    collection.savefig(path, format="png", dpi=120)
    plt.close(collection.viz["figure"].item())  # and no figure of the caller's
