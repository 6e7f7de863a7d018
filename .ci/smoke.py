"""Smoke test of an installed wheel, run outside the checkout by a clean environment."""

import sys
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import bayes_cmab
import bayes_cmab.models

CHECKOUT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Check what was installed, and from where."""
    for module in (bayes_cmab, bayes_cmab.models):
        location = Path(str(module.__file__)).resolve()
        if location.is_relative_to(CHECKOUT):
            sys.exit(f"expected the installed {module.__name__}, got the checkout's {location}")
    if not files(bayes_cmab).joinpath("py.typed").is_file():
        sys.exit("expected the marker py.typed in the installed package, got none")
    sys.stdout.write(f"bayes_cmab {version('bayes-cmab')} imports from the wheel\n")


if __name__ == "__main__":
    main()
