"""Smoke test of an installed wheel, run outside the checkout by a clean environment."""

import sys
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import numpyro

import bayes_cmab
import bayes_cmab.models

CHECKOUT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Check what was installed, and from where, and that an agent answers."""
    for module in (bayes_cmab, bayes_cmab.models):
        location = Path(str(module.__file__)).resolve()
        if location.is_relative_to(CHECKOUT):
            sys.exit(f"expected the installed {module.__name__}, got the checkout's {location}")
    if not files(bayes_cmab).joinpath("py.typed").is_file():
        sys.exit("expected the marker py.typed in the installed package, got none")
    numpyro.enable_x64()
    agent = bayes_cmab.Agent(actions=[-1.0, 0.0, 1.0])
    decision = agent.ask(0.5)
    agent.tell(decision.ticket, intermediate=0.7, outcome=1.2)
    if agent.ask(-0.5).ticket != 1:
        sys.exit("expected the second decision to have ticket 1")
    sys.stdout.write(f"bayes_cmab {version('bayes-cmab')} imports and decides from the wheel\n")


if __name__ == "__main__":
    main()
