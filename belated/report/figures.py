"""Figures: one panel each, so that they can be read on a phone; as SVG and PDF, the same bytes each time."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from belated.protocols import Floats
from belated.report.stats import mean_interval
from belated.theory.intervals import reach

#: Colours that people who cannot tell red from green can tell apart (Okabe, Ito), and markers that need no colour.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7f7f7f")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
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


def reaches(samples: Floats) -> Floats:
    """How far the 95% band of the mean of the rows reaches, approximately; NaN, so that none is drawn, if not known."""
    widths = np.array([reach(column, 0.95) for column in samples.T])
    return np.where(np.isfinite(widths), widths, np.nan)


def panel(title: str = "", xlabel: str = "", ylabel: str = "", **axes: Any) -> tuple[Any, Any]:
    """A figure with one set of axes; `axes` are further settings, such as xscale="log"."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.2, 3.5), layout="constrained")
        FigureCanvasAgg(figure)
        drawn = figure.add_subplot()
        drawn.set(xlabel=xlabel, ylabel=ylabel, **axes)
        drawn.set_title(title, fontsize=9.5)
        for axis, scale in ((drawn.xaxis, axes.get("xscale")), (drawn.yaxis, axes.get("yscale"))):
            if scale in ("log", "symlog"):
                plain_powers(axis)
    return figure, drawn


def plain_powers(axis: Any) -> None:
    """Label a logarithmic axis with plain characters, at powers only (half the time of drawing goes into the rest)."""
    from matplotlib.ticker import NullLocator

    axis.set_major_formatter(_power)
    axis.set_minor_locator(NullLocator())


def _enough_ticks(axis: Any) -> None:
    """An axis of few powers has ticks between them, unless its ticks were chosen."""
    from matplotlib.ticker import FixedLocator, LogLocator

    low, high = axis.get_view_interval()
    if isinstance(axis.get_major_locator(), FixedLocator):
        return
    if axis.get_scale() == "log" and 0 < low < high < 60 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))


def _power(value: float, place: int | None = None) -> str:
    """10^3 as 10³; small numbers and those between powers as they are."""
    if value == 0 or 0.009 < abs(value) < 999 or not float(np.log10(abs(value))).is_integer():
        return f"{value:g}"
    sign = "-" if value < 0 else ""
    return f"{sign}10{str(round(np.log10(abs(value)))).translate(RAISED)}"


RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def legend(axes: Any, **settings: Any) -> None:
    """A legend, if anything has a name."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, frameon=False, **settings)


def means(
    axes: Any,
    x: Sequence[float],
    samples: Sequence[Any],
    number: int,
    label: str,
    marker: int | None = None,
    **settings: Any,
) -> None:
    """Means of samples against x, approximate 95% bands, in the colour of that number and its marker or another's."""
    intervals = [mean_interval(s, 0.95) for s in samples]
    middle = np.array([i.mean for i in intervals])
    low, high = (
        np.where(np.isfinite(ends), ends, np.nan) for ends in ([i.low for i in intervals], [i.high for i in intervals])
    )
    color = COLORS[number % len(COLORS)]
    shape = MARKERS[(number if marker is None else marker) % len(MARKERS)]
    axes.plot(x, middle, color=color, marker=shape, label=label, **settings)
    axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)


def band(axes: Any, x: Any, samples: Any, number: int, label: str, **settings: Any) -> None:
    """The mean of the rows of an array against x, with an approximate 95% band."""
    data = np.asarray(samples, float)
    middle = data.mean(axis=0)
    color = COLORS[number % len(COLORS)]
    axes.plot(x, middle, color=color, label=label, **settings)
    width = reaches(data)
    axes.fill_between(x, middle - width, middle + width, color=color, alpha=0.18, linewidth=0)


def line(axes: Any, x: Any, y: Any, number: int, label: str | None = None, **settings: Any) -> None:
    """A bound or a reference: dashed, thin, in the colour of that number."""
    style = {"linestyle": "--", "linewidth": 1.0, "color": COLORS[number % len(COLORS)]} | settings
    axes.plot(x, y, label=label, **style)


def rendered(figure: Any, kind: str) -> bytes:
    """The figure as the bytes of an SVG or PDF file; they do not depend on the time."""
    import matplotlib

    for axes in figure.axes:
        _enough_ticks(axes.xaxis)
        _enough_ticks(axes.yaxis)
    stream = io.BytesIO()
    unset = {"svg": {"Date": None}, "pdf": {"CreationDate": None, "ModDate": None}}[kind]
    with matplotlib.rc_context(STYLE):
        figure.savefig(stream, format=kind, metadata=unset)
    figure.set_layout_engine("none")  # it is laid out now
    return stream.getvalue()
