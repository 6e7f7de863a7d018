"""The look of the figures in a live agent's report, as SVG; nothing here touches pyplot."""

import io
from collections.abc import Callable

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from bayes_cmab.plot_style import STYLE

BLUE, ORANGE, GREY, INK = "#0072B2", "#D55E00", "#8A8A8A", "#222222"

DRAWN = STYLE | {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
}


def plain(text: object) -> str:
    """Return a label in which nothing is mathematics."""
    return str(text).replace("$", r"\$")


def short(value: object) -> str:
    """Return a number in four digits, anything else as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def round_ticks(axis: Axis) -> None:
    """Put plain numbers at 1, 2 and 5 times the powers of ten of a logarithmic axis."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_locator(NullLocator())


def legend(figure: Figure, axis: Axes, columns: int = 4) -> None:
    """Put an axis's legend above the figure."""
    handles, labels = axis.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper left", ncols=columns)


def svg(name: str, size: tuple[float, float], draw: Callable[[Figure], None]) -> str:
    """Return a figure of a size in inches, drawn in the house style."""
    with mpl.rc_context(DRAWN | {"svg.hashsalt": name}):
        figure = Figure(size, layout="constrained")
        draw(figure)
        out = io.StringIO()
        figure.savefig(out, format="svg")
    return out.getvalue()
