"""How figures look, all of them."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

#: Colours that people who cannot tell red from green can tell apart (Okabe, Ito), and markers that need no colour.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7f7f7f")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (7, 1, 1, 1, 1, 1)), (0, (2, 1)), (0, (9, 2)))
STYLE: Any = {
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "svg.hashsalt": "belated",
    "pdf.fonttype": 42,
}
#: An axis with numbers from here on, or below that, is labelled by powers of ten.
LARGE, SMALL = 1e5, 1e-3
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def even_ticks(axis: Any, scale: str | None = None) -> None:
    """Label an axis with plain characters, all of one kind; a logarithmic one at powers only, unless it has few.

    (Half the time of drawing goes into the ticks between powers.)
    """
    from matplotlib.ticker import NullLocator

    axis.set_major_formatter(partial(_label, axis))
    if scale in ("log", "symlog"):
        axis.set_minor_locator(NullLocator())


def enough_ticks(axis: Any) -> None:
    """An axis of few powers has ticks between them, unless its ticks were chosen."""
    from matplotlib.ticker import FixedLocator, LogLocator

    low, high = axis.get_view_interval()
    if isinstance(axis.get_major_locator(), FixedLocator):
        return
    if axis.get_scale() == "log" and 0 < low < high < 60 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))


def _label(axis: Any, value: float, place: int | None = None) -> str:
    """A tick as text: plain numbers, or powers of ten on all of an axis that has large or small ones.

    Of an axis that is not logarithmic only small numbers are written with powers.
    """
    low, high = sorted(abs(end) for end in axis.get_view_interval())
    logs = axis.get_scale() in ("log", "symlog")
    if value == 0 or not logs or (high < LARGE and (axis.get_scale() == "symlog" or low >= SMALL)):
        return f"{value:,.10g}"
    sign, power = "-" if value < 0 else "", math.floor(math.log10(abs(value)) + 1e-9)
    front = round(abs(value) / 10.0**power, 6)
    return f"{sign}{'' if front == 1 else f'{front:g}·'}10{str(power).translate(RAISED)}"
