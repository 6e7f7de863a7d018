"""Configuration of the documentation: ``python -m sphinx -W -b html docs docs/_build``."""

import re
from importlib import metadata
from typing import Any

project = "bayes_cmab"
author = "The bayes_cmab founders"
release = metadata.version("bayes-cmab")
html_title = f"{project} {release}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
html_theme = "furo"
exclude_patterns = ["_build"]
suppress_warnings = ["ref.python"]  # a field's name that several named tuples have

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_custom_sections = ["Result"]
napoleon_use_ivar = True  # fields of named tuples are documented already
autodoc_typehints = "none"  # the shapes in the docstrings say more
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    "exclude-members": "count, index",
}
default_role = "code"


def describe_entries(
    _app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]
) -> None:
    """Make prose of what napoleon would take for a type.

    What follows ``name :`` goes to a line of its own, and Returns without a type is a section of
    text.
    """
    given, lines[:] = list(lines), []
    section = ""
    for number, line in enumerate(given):
        if line.startswith("---"):
            section = given[number - 1]
        entry = re.match(r"(\w[\w, ]*) : (.*)", line)
        first = number > 1 and given[number - 1].startswith("---")
        typed = number + 1 < len(given) and given[number + 1].startswith("    ")
        if section in ("Parameters", "Attributes") and entry:
            lines += [entry[1], f"    {entry[2]}"]
        elif section == "Returns" and first and not typed:
            lines[-2:] = ["Result", "------", line]
        else:
            lines.append(line)


def setup(app: Any) -> None:
    """Run before napoleon, which has priority 500."""
    app.connect("autodoc-process-docstring", describe_entries, priority=400)
