"""The command line: run and compare agents in the settings A to F, look at their posteriors.

Heavy modules are imported by the commands that need them, so that ``--help`` answers at once.
Results go to files and standard output, progress and errors to standard error.
"""

from bayes_cmab.cli import experiments, look, models, studies
from bayes_cmab.cli.base import app

__all__ = ["app", "experiments", "look", "main", "models", "studies"]


def main() -> None:
    """Run the command line."""
    app()
