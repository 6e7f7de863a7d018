"""Files of an experiment: written atomically, and checked when they are read."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayes_cmab.files import write_atomically
from bayes_cmab.registry import draws_programs
from bayes_cmab.rounds import LEVELS, Record
from bayes_cmab.sweep import SCHEMA, Cell, Chunk, Sweep
from bayes_cmab.workers import surroundings

OPTIONS_FILE = "sweep.json"
"""Name of the file that says what a folder's sweep was."""

MADE_WITH = "made_with"
"""Attribute of a results file: versions and backend that it was made with."""

CHECKPOINTS = (20, 50, 100)
"""Rounds after which the coverage of ``g`` is measured, besides the last."""


def label(record: Record, chunk: Chunk) -> xr.Dataset:
    """Return a record as a dataset with dimensions trial, round, checkpoint, level and program."""
    rounds = {
        name: (("trial", "round"), values)
        for name, values in record.rounds._asdict().items()
        if name != "negativity"
    }
    inference: dict[str, Any] = {
        "fits": (("trial", "round"), record.fits),
        "failures": (("trial", "round"), record.failures),
    }
    averaged = not np.all(np.isnan(record.shares))
    if averaged:
        inference["effective_share"] = (("trial", "round", "program"), record.shares)
    coverage = {"coverage": (("trial", "checkpoint", "level"), record.coverage)}
    last = chunk.sweep.rounds
    checkpoints = [c for c in CHECKPOINTS if c < last] + [last]
    return xr.Dataset(
        rounds | inference | (coverage if chunk.sweep.coverage else {}),
        coords={
            "trial": np.asarray(chunk.trials),
            "round": np.arange(last),
            "checkpoint": checkpoints,
            "level": list(LEVELS),
        }
        | ({"program": list(draws_programs(chunk.cell.agent))} if averaged else {}),
        attrs={
            "identity": json.dumps(chunk.identity, sort_keys=True),
            MADE_WITH: json.dumps(surroundings(), sort_keys=True),
        },
    )


def load_chunk(path: Path, chunk: Chunk) -> xr.Dataset:
    """Read a chunk's file, checking that it is the chunk's.

    Raises
    ------
    ValueError
        If the file cannot be read, or holds the results of something else.
    """
    try:
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            data = opened.load()
        identity = json.loads(data.attrs["identity"])
        if not isinstance(identity, dict):
            raise TypeError(f"an identity of {type(identity).__name__}")
    except Exception as error:  # a damaged file raises almost anything
        raise ValueError(f"{path}: expected a results file, got: {error}") from error
    if identity != chunk.identity:
        different = sorted(k for k, v in chunk.identity.items() if identity.get(k) != v)
        raise ValueError(
            f"{path}: holds results of other options ({', '.join(different)} differ); "
            "choose another folder for the results, or the options that it was made with"
        )
    return data


def write_netcdf(path: Path, data: xr.Dataset) -> None:
    """Write a dataset as netCDF."""
    data.to_netcdf(path, engine="h5netcdf")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write one JSON document."""
    path.write_text(json.dumps(content), encoding="utf-8")


def save_options(sweep: Sweep, folder: Path) -> Path:
    """Store what a sweep ran beside its results, for `load_options`; return where."""
    path = folder / OPTIONS_FILE
    content = {"schema": SCHEMA, "sweep": asdict(sweep)}
    write_atomically(path, lambda p: write_json(p, content))
    return path


def load_options(folder: Path) -> Sweep:
    """Return the sweep that a folder holds the results of.

    Raises
    ------
    ValueError
        If the folder does not say, or says something that is no sweep.
    """
    path = folder / OPTIONS_FILE
    if not path.is_file():
        raise ValueError(f"{path}: expected the options of a sweep, got no such file")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema {content['schema']} where this version reads {SCHEMA}")
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in content["sweep"].items()
        }
        return Sweep(**fields)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: expected the options of a sweep, got: {error}") from error


def load_sweep(sweep: Sweep, folder: Path) -> dict[Cell, xr.Dataset]:
    """Return the results of a sweep by cell, over all trials.

    Raises
    ------
    ValueError
        If a file is missing or holds something else.
    """
    results = {}
    for cell in sweep.cells():
        parts = []
        for trials in sweep.chunks():
            chunk = Chunk(sweep, cell, trials)
            path = chunk.path(folder)
            if not path.exists():
                raise ValueError(f"{path}: expected a results file, got none; run the sweep again")
            parts.append(load_chunk(path, chunk))
        results[cell] = xr.concat(parts, dim="trial")
    return results
