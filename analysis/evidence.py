"""Write the tables of `docs/models.md`: where reward is lost, and which models the data support.

    python analysis/evidence.py

The first is from `results/ceilings.csv` (`ceilings.py`) and the study, the second from

    bayes-cmab compare-models --setting D --rows 150 --offline 0 --seed 6 --out results/evidence/D
    bayes-cmab compare-models --setting E --rows 100 --offline 0 --seed 6 --out results/evidence/E
"""

import pandas as pd
import tables

PAGE = tables.FOLDER.parent.parent / "docs" / "models.md"
EVIDENCE = {"D": 150, "E": 100}
"""Rows by setting."""
CEILINGS = {
    "known-transition": "`P(r \\| s, a)` known",
    "known-transition-additive": "the same, main effects in `f`",
    "sharp": "the default",
    "residual": "transition prior",
    "cbmp": "paper's form",
}
OFFLINE, BETA = 50, 0.25


def ceilings() -> str:
    """Return the pseudo-regret with the transition known, and with it learned."""
    frame = pd.read_csv(tables.FOLDER / "ceilings.csv")
    study = tables.STUDY.trials()
    study = study[(study.agent == "sharp-map") & (study.offline == OFFLINE) & (study.beta == BETA)]
    rows = []
    for setting, own in frame.groupby("setting"):
        regret = own.assign(regret=own.regret_early + own.regret_late).groupby("agent").regret
        texts = {name: error_text(values) for name, values in regret}
        count = own.trial.nunique()
        same = study[(study.setting == setting) & (study.trial < count)]
        texts["sharp"] = error_text(same.regret)
        oracle = f"{own[own.agent == 'cbmp'].oracle.mean():.1f}"
        rows.append([str(setting), oracle, *(texts[name] for name in CEILINGS)])
    return tables.markdown(rows, ["", "oracle's reward", *CEILINGS.values()])


def error_text(values: pd.Series) -> str:
    """Return a mean and its standard error."""
    return f"{values.mean():.1f} ± {values.sem():.1f}"


def ranking(setting: str, kind: str) -> list[str]:
    """Return the row of a comparison: the best, and the others behind it."""
    frame = pd.read_csv(tables.FOLDER / "evidence" / setting / f"{kind}.csv")
    best, *others = frame.itertuples()
    parts = [f"`{best.model}` best"]
    parts += [f"`{o.model}` {o.difference:.2f} ({o.se_difference:.2f})" for o in others]
    if "weight" in frame:
        parts.append(f"stacking weight of `{best.model}` {best.weight:.2f}")
    what = {"reward": "`f`", "transition": "`P(r \\| s, a)`"}[kind]
    return [f"{setting}, {what}", str(EVIDENCE[setting]), "; ".join(parts)]


def evidence() -> str:
    """Return what the comparisons say, a row a setting and a part of the model."""
    rows = [ranking(setting, kind) for setting in EVIDENCE for kind in ("reward", "transition")]
    return tables.markdown(rows, ["", "rows", "result"])


def page() -> str:
    """Return the page with fresh tables."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in (("ceilings", ceilings()), ("evidence", evidence())):
        text = tables.filled(text, name, table)
    return text


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
