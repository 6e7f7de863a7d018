"""Write the table of the default model into `README.md`, from the tables in `analysis/results`.

python analysis/readme.py
"""

import pandas as pd
import tables

README = tables.FOLDER.parent.parent / "README.md"
BETA, DEFAULT = 0.25, "sharp-map"
PEERS = {name: f"{name}-map" for name in ("cbmp", "cme", "gp", "gaussian")}
DIFFERENCES = ("cbmp", "gaussian")


def table() -> str:
    """Return outcomes and differences in the trials that the default has, a row a scene."""
    every = tables.STUDY.trials()
    every = every[every.beta == BETA]
    own = every[every.agent == DEFAULT]
    keys = ["setting", "offline", "trial"]
    frame = every.merge(own[keys], on=keys)
    gaps = [tables.differences(frame, DEFAULT, PEERS[name]) for name in DIFFERENCES]
    gaps.append(tables.differences(tables.FRESH.trials(), DEFAULT, PEERS["gaussian"]))
    rows = []
    for setting, offline in tables.scenes(own):
        here = frame[(frame.setting == setting) & (frame.offline == offline)]
        outcomes = {name: here[here.agent == name].outcome for name in (DEFAULT, *PEERS.values())}
        mean = outcomes.pop(DEFAULT)
        cells = [f"{mean.mean():.1f} ± {mean.sem():.1f}"]
        cells += [shown(outcome, len(mean)) for outcome in outcomes.values()]
        cells += [texts.get((setting, offline, BETA), "") for texts in gaps]
        rows.append([f"{setting}, m = {offline}", *cells])
    heads = [f"`{name}`" for name in ("sharp", *PEERS)]
    heads += [*(f"`sharp` minus `{name}`" for name in DIFFERENCES), "on a fresh seed"]
    return tables.markdown(rows, ["", *heads])


def shown(outcome: pd.Series, trials: int) -> str:
    """Return the mean of an agent, if it has all trials."""
    return f"{outcome.mean():.0f}" if len(outcome) == trials else ""


def page() -> str:
    """Return the README with a fresh table."""
    return tables.filled(README.read_text(encoding="utf-8"), "models", table())


def main() -> None:
    """Write the README."""
    README.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
