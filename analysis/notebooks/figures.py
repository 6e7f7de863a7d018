"""What the notebooks share: their two sizes, the look of their figures, and how these are shown."""

import os
from collections.abc import Callable
from functools import wraps
from io import BytesIO

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import PIL.Image
from IPython.display import Image
from matplotlib.axes import Axes
from matplotlib.figure import Figure

mpl.use("agg")  # a figure is shown by `drawn` or `shown`, once

from bayes_cmab.plot_style import COLOURS, STYLE

SMALL = os.environ.get("BAYES_CMAB_SMALL") == "1"
"""Whether the settings are those of the tests."""

BLUE, ORANGE, GREY, INK = COLOURS["cbmp"], COLOURS["cme"], "#8A8A8A", "#222222"
CHAINS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
"""Colours of Markov chains, from the palette of `bayes_cmab.plots`."""

WIDTH = 7.0
DPI = 160
NORMAL_95 = 1.959964

type Floats = npt.NDArray[np.float64]


def sized[T](full: T, small: T) -> T:
    """Return a setting: the full one, or the tests'."""
    return small if SMALL else full


def shown(figure: Figure) -> Image:
    """Return a picture of a figure, for the end of a cell, in 256 colours to be small."""
    out = BytesIO()
    figure.savefig(out, format="png", dpi=DPI)
    return Image(data=small_png(out.getvalue()), width=int(100 * figure.get_figwidth()))


def small_png(png: bytes) -> bytes:
    """Return a PNG with a palette of 256 colours."""
    out = BytesIO()
    picture = PIL.Image.open(BytesIO(png)).convert("RGB")
    picture.quantize(256, dither=PIL.Image.Dither.NONE).save(out, format="png", optimize=True)
    return out.getvalue()


def drawn(draw: Callable[..., Figure]) -> Callable[..., Image]:
    """Draw a figure in the project's style, and return its picture."""

    @wraps(draw)
    def styled(*arguments: object, **options: object) -> Image:
        with mpl.rc_context(STYLE):
            return shown(draw(*arguments, **options))

    return styled


def canvas(
    rows: int = 1, columns: int = 1, height: float = 2.6, **options: object
) -> tuple[Figure, npt.NDArray[np.object_]]:
    """Return a figure of the width of a page, and its axes (rows, columns)."""
    figure = Figure((WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def legend_above(figure: Figure, axis: Axes, columns: int = 4) -> None:
    """Put the legend of an axis above the figure."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=columns)


def band(axis: Axes, x: Floats, mean: Floats, deviation: Floats, **style: object) -> None:
    """Draw a mean, and its 95% interval as a band."""
    half = NORMAL_95 * deviation
    colour = style.get("color", BLUE)
    axis.fill_between(x, mean - half, mean + half, color=colour, alpha=0.16, linewidth=0)
    axis.plot(x, mean, **({"color": colour, "linewidth": 1.3} | style))
