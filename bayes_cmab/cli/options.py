"""Options that several commands share."""

from typing import Annotated, Any

import typer

SWEEP, RUNNING, OUTPUT = "What is run", "How it is run", "Output"
LIMITS = "Limits of the gate"


def option(text: str, *names: str, panel: str = SWEEP, **more: Any) -> Any:
    """Return an option with its help and its panel."""
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


Trials = Annotated[int, option("Trials of each agent.", min=1, metavar="N")]
Rounds = Annotated[int, option("Rounds of a trial.", min=1, metavar="N")]
Seed = Annotated[int, option("Of contexts and noise, the same for all agents.", min=0, metavar="N")]
RefitEvery = Annotated[
    int, option("Rounds between two fits of -map and -map1 agents.", min=1, metavar="N")
]
Coverage = Annotated[
    bool,
    option("Measure the coverage of the intervals of the mean reward.", "--coverage/--no-coverage"),
]
ChunkSize = Annotated[int, option("Trials in a file of results.", "--chunk", min=1, metavar="N")]
Workers = Annotated[
    int | None, option("Processes; by default one a core.", panel=RUNNING, min=1, metavar="N")
]
NoCache = Annotated[
    bool, option("Compile everything anew.", "--no-compilation-cache", panel=RUNNING)
]
Json = Annotated[bool, option("Print one JSON document.", "--json", panel=OUTPUT)]

SETTINGS_HELP = "A to F, see 'bayes-cmab settings'."
AGENTS_HELP = "See 'bayes-cmab agents'."
OFFLINE_HELP = "Unmatched outcomes known in advance."
BETA_HELP = "Score: mean + sqrt(beta * variance)."
