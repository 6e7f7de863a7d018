"""How agents look in figures: colour says the policy, the line how it is inferred."""

from typing import Any

from bayes_cmab.registry import split_name
from bayes_cmab.sweep import explores

COLOURS = {
    "cbmp": "#0072B2",
    "proposition": "#56B4E9",
    "residual": "#004D80",
    "additive": "#882255",
    "varying": "#999933",
    "sharp": "#332288",
    "anova": "#117733",
    "cme": "#D55E00",
    "icme": "#E69F00",
    "gp": "#009E73",
    "gaussian": "#CC79A7",
    "plugin": "#000000",
    "oracle": "#6B6B6B",
    "random": "#A8A8A8",
}
"""Colour of each policy, the same in every figure of the project.

The paper's form and its peers have Okabe and Ito's palette, which colour-blind readers can tell
apart; our own models have darker tones, mostly of Tol's muted scheme.
"""

LINES: dict[str, dict[str, Any]] = {
    "fixed": {"linestyle": (0, (4, 1.8)), "linewidth": 1.2},
    "map": {"linestyle": "-", "linewidth": 1.3},
    "map1": {"linestyle": (0, (1, 1)), "linewidth": 1.3},
    "svi": {"linestyle": (0, (5, 1.5, 1, 1.5)), "linewidth": 1.3},
    "nuts": {"linestyle": "-", "linewidth": 2.4},
}
"""Line of each inference."""

PLAIN: dict[str, Any] = {"linestyle": "-", "linewidth": 1.1}
"""Line of the policies that infer nothing."""

STYLE: dict[Any, Any] = {
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#444444",
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.5,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "legend.title_fontsize": 7.5,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "legend.handletextpad": 0.6,
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
}
"""Matplotlib settings of a figure, in force while it is drawn and saved."""


def line_style(agent: str) -> dict[str, Any]:
    """Return the colour, line style and line width of an agent."""
    policy, inference = split_name(agent)
    return {"color": COLOURS[policy], **(LINES[inference] if explores(agent) else PLAIN)}
