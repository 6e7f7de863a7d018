"""From the document of an older schema of agents in files to that of the next one.

A document is JSON as `bayes_cmab.codec` writes it; nothing here depends on what its classes have
become since.
"""

from collections.abc import Callable
from typing import Any

type Json = Any


def to_two(document: Json) -> Json:
    """Contexts and actions have `Columns`, a box may be offered, and draws come by program."""
    settings = dict(document["settings"])
    names, named = settings.pop("columns")["$tuple"], settings.pop("named")
    contexts = [f"context_{i}" for i in range(settings.pop("dim_context"))]
    settings |= {
        "columns": _numeric_columns(names, named=named),
        "contexts": _numeric_columns(contexts, named=False),
        "box": None,
    }
    session = _draws_by_program(document["session"])
    return document | {"schema": 2, "settings": settings, "session": session}


def _numeric_columns(names: list[str], *, named: bool) -> Json:
    fields = {"names": {"$tuple": names}, "levels": {"$tuple": [None] * len(names)}}
    return {"$class": "Columns", "fields": fields | {"named": named}}


def _draws_by_program(value: Json) -> Json:
    if isinstance(value, list):
        return [_draws_by_program(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {key: _draws_by_program(item) for key, item in value.items()}
    if value.get("$class") == "HyperparameterDraws" and "programs" not in value["fields"]:
        programs = {name: value["fields"][name] for name in ("reward", "embedding")}
        fields = {"programs": {"$dict": programs}, "lengthscale": value["fields"]["lengthscale"]}
        value["fields"] = fields
    return value


MIGRATIONS: dict[int, Callable[[Json], Json]] = {1: to_two}
"""Migrations by the schema that they start from."""
