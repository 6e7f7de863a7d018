"""Agents in files: a zip of one JSON document, ``agent.json``, and of NumPy arrays.

The document has the settings and the session. Factors of Gram matrices are not stored, but what
determines them is (see `Session.appended`): a loaded agent computes them again, to the last bit.
A class may gain a field whose default means what was before; any other change of what is stored
is a new schema, with a migration.
"""

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from bayes_cmab import options, session
from bayes_cmab.codec import Arrays, Json, UnwritableError, Writer, decode
from bayes_cmab.files import versions, write_atomically
from bayes_cmab.migrations import MIGRATIONS
from bayes_cmab.session import Session
from bayes_cmab.settings import Settings
from bayes_cmab.validate import whole_number

FORMAT = "bayes_cmab agent"
DOCUMENT = "agent.json"

SCHEMA = 2
"""Version of the document that this code writes."""

OWN = ("policy", "inference", "acquisition", "gate", "beta", "reward_function")
"""Settings that may be, or hold, code of the user's own: a file says so and has none of it."""


def save(path: Path, settings: Settings, now: Session) -> None:
    """Write an agent to a file; see `Agent.save`."""
    writer = Writer()
    known = {name: _setting(writer, name, getattr(settings, name)) for name in Settings._fields}
    bare: Any = now.state._replace(posterior=None)
    document = {
        "format": FORMAT,
        "schema": SCHEMA,
        "versions": versions("bayes-cmab", "jax", "jaxlib", "numpyro", "numpy"),
        "settings": known,
        "conditioned": now.state.posterior is not None,
        "session": writer.encode(now._replace(state=bare._replace(data=None))),
    }
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    write_atomically(path, lambda target: _write(target, text, writer.arrays()))


def load(path: Path, given: Mapping[str, Any]) -> tuple[Settings, Session]:
    """Return the settings and the session in a file; see `Agent.load`."""
    document, arrays = _read(path)
    document = _migrated(path, document)
    if not isinstance(document["settings"], dict):
        raise ValueError(f"{path}: expected a file of Agent.save, got one without settings")
    own = {
        name: value["$own"]
        for name, value in document["settings"].items()
        if isinstance(value, dict) and "$own" in value
    }
    _check_given(path, given, own)
    try:
        encoded = {name: v for name, v in document["settings"].items() if name not in own}
        settings = Settings(**{name: decode(v, arrays) for name, v in encoded.items()}, **given)
        now: Session = decode(document["session"], arrays)
        now = session.outgrow(now, now.ledger)._replace(appended=now.appended)
        settings.actions.setflags(write=False)
        whole_number(settings.seed, "seed", least=0)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, StopIteration) as error:
        raise ValueError(
            f"{path}: expected a file of Agent.save, got {type(error).__name__}: {error}"
        ) from error
    settings = settings._replace(beta=options.beta_schedule(settings.beta))
    core = settings.core()
    _check_sites(path, settings, now)
    return settings, session.restore(core, now) if document["conditioned"] else now


def _setting(writer: Writer, name: str, value: Any) -> Json:
    try:
        return writer.encode(value)
    except UnwritableError:
        if name not in OWN:
            raise
        return {"$own": repr(value)}


def _write(path: Path, text: str, arrays: Arrays) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(_member(DOCUMENT), text)
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, allow_pickle=False)
            archive.writestr(_member(f"{name}.npy"), buffer.getvalue())


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name)  # without the time, so that equal agents have equal files
    member.external_attr = 0o644 << 16
    return member


def _read(path: Path) -> tuple[Json, Arrays]:
    if not path.is_file():
        raise ValueError(f"{path}: expected a file of Agent.save, got no such file")
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {
                name.removesuffix(".npy"): np.lib.format.read_array(
                    io.BytesIO(archive.read(name)), allow_pickle=False
                )
                for name in archive.namelist()
                if name != DOCUMENT
            }
            document = json.loads(archive.read(DOCUMENT))
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError(f"{DOCUMENT} is not of the format {FORMAT!r}")
    except Exception as error:  # a damaged zip raises almost anything
        raise ValueError(
            f"{path}: expected a file of Agent.save, got a truncated or foreign one: {error}"
        ) from error
    return document, arrays


def _migrated(path: Path, document: Json) -> Json:
    schema = document.get("schema")
    if not isinstance(schema, int) or not 1 <= schema <= SCHEMA:
        versions = document.get("versions")
        writer = versions.get("bayes-cmab", "unknown") if isinstance(versions, dict) else "unknown"
        raise ValueError(
            f"{path}: expected a file of schema 1 to {SCHEMA}, got {schema!r}, written by "
            f"bayes_cmab {writer}; a newer bayes_cmab may read it"
        )
    if missing := sorted({"settings", "session", "conditioned"} - set(document)):
        raise ValueError(f"{path}: expected a file of Agent.save, got none of {missing} in it")
    try:
        for number in range(schema, SCHEMA):
            document = MIGRATIONS[number](document)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: expected a file of Agent.save of schema {schema}, got "
            f"{type(error).__name__}: {error}"
        ) from error
    return document


def _check_given(path: Path, given: Mapping[str, Any], lacking: dict[str, str]) -> None:
    missing = [f"{name} ({value})" for name, value in lacking.items() if name not in given]
    if missing:
        raise ValueError(
            f"{path}: expected, as arguments of load, what the agent had of your own: "
            f"{', '.join(missing)}; got {', '.join(given) or 'none'}"
        )
    if extra := [name for name in given if name not in lacking]:
        raise ValueError(
            f"{path}: expected as arguments of load only what the file lacks, "
            f"{', '.join(lacking) or 'nothing'}; got {', '.join(extra)}"
        )


def _check_sites(path: Path, settings: Settings, now: Session) -> None:
    p, q = settings.contexts.width, settings.columns.width
    wanted = settings.base.default_sites(p, q, settings.dim_intermediate)
    listed = [
        ", ".join(f"{name} {jnp.shape(value)}" for name, value in sorted(sites.items())) or "none"
        for sites in (wanted, now.state.sites)
    ]
    if listed[0] != listed[1]:
        raise ValueError(
            f"{path}: expected a policy whose sites are {listed[1]}; got one with {listed[0]}"
        )
