"""Figures: one panel each, so that they can be read on a phone; as SVG and PDF, the same bytes each time."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from belated.protocols import Floats
from belated.report.stats import mean_interval
from belated.report.style import COLORS, MARKERS, STYLE, enough_ticks, even_ticks

__all__ = ["COLORS", "MARKERS", "STYLE", "band", "fill", "legend", "line", "means", "panel", "reaches", "rendered"]


def reaches(samples: Any, level: float = 0.95) -> Floats:
    """How far the band of the mean of the rows reaches, approximately; NaN, so that none is drawn, if not known.

    It is `intervals.reach` for all columns at once.
    """
    data = np.asarray(samples, float)
    count = len(data)
    middle, spread = data.mean(axis=0), data.std(axis=0)
    known = spread > 1e-12 * np.abs(data).max(axis=0)
    if count < 2 or not known.any():
        return np.full(data.shape[1], np.nan)
    from scipy.special import stdtrit

    unit = np.where(known, spread, np.nan)
    error, times = unit / np.sqrt(count - 1), float(stdtrit(count - 1, 1.0 - (1.0 - level) / 2.0))
    skew = (((data - middle) / unit) ** 3).mean(axis=0)
    return np.asarray(error * (times + np.abs(skew) * (1 + 2 * times**2) / (6 * np.sqrt(count))), np.float64)


def panel(title: str = "", xlabel: str = "", ylabel: str = "", **axes: Any) -> tuple[Any, Any]:
    """A figure with one set of axes; `axes` are further settings, such as xscale="log"."""
    import matplotlib

    from belated.report.canvas import Picture

    with matplotlib.rc_context(STYLE):
        figure = Picture(figsize=(5.2, 3.5), layout="constrained")
        drawn = figure.add_subplot()
        drawn.set(xlabel=xlabel, ylabel=ylabel, **axes)
        drawn.set_title(title, fontsize=9.5)
        even_ticks(drawn.xaxis, axes.get("xscale"))
        even_ticks(drawn.yaxis, axes.get("yscale"))
    return figure, drawn


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
    fill(axes, x, low, high, color)


def fill(axes: Any, x: Any, low: Any, high: Any, color: str) -> None:
    """A band. On a logarithmic axis it ends where it reaches 0; it does not fall off the figure."""
    seen = np.asarray(low) > (0.0 if axes.get_yscale() == "log" else -np.inf)
    axes.fill_between(x, low, high, where=seen, color=color, alpha=0.18, linewidth=0)


def band(axes: Any, x: Any, samples: Any, number: int, label: str, **settings: Any) -> None:
    """The mean of the rows of an array against x, with an approximate 95% band."""
    data = np.asarray(samples, float)
    middle = data.mean(axis=0)
    color = COLORS[number % len(COLORS)]
    axes.plot(x, middle, color=color, label=label, **settings)
    width = reaches(data)
    fill(axes, x, middle - width, middle + width, color)


def line(axes: Any, x: Any, y: Any, number: int, label: str | None = None, **settings: Any) -> None:
    """A bound or a reference: dashed, thin, in the colour of that number."""
    style = {"linestyle": "--", "linewidth": 1.0, "color": COLORS[number % len(COLORS)]} | settings
    axes.plot(x, y, label=label, **style)


def rendered(figure: Any, kind: str) -> bytes:
    """The figure as the bytes of an SVG or PDF file; they do not depend on the time."""
    import matplotlib

    for axes in figure.axes:
        enough_ticks(axes.xaxis)
        enough_ticks(axes.yaxis)
    stream = io.BytesIO()
    unset = {"svg": {"Date": None}, "pdf": {"CreationDate": None, "ModDate": None}}[kind]
    with matplotlib.rc_context(STYLE):
        figure.savefig(stream, format=kind, metadata=unset)
    figure.set_layout_engine("none")  # it is laid out now
    return stream.getvalue()
