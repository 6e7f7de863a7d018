"""Run the command line as ``python -m bayes_cmab.cli``."""

from bayes_cmab.cli import main

main()
