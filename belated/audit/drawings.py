"""The figures of an audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from belated.audit.expiry import Expiry
from belated.audit.report import SPANS, Audit, thinned
from belated.audit.survival import Curve
from belated.report import figures
from belated.report.axes import dates, from_zero, legend_below, plain_numbers

#: Actions that are drawn: the ones with the most decisions.
DRAWN = 6


def axis(audit: Audit, longest: int) -> tuple[float, str]:
    """What delays are divided by to be drawn, and the unit's name."""
    if audit.log.kind == "rounds":
        return 1.0, "rounds"
    name, size = next(((n, s) for n, s in SPANS if longest / 1e6 >= 2 * s), SPANS[-1])
    return size * 1e6, name


def _typical(curve: Curve) -> int:
    return curve.reached(0.9 * (1 - curve.never)) or int(curve.delays[-1])


def delays(audit: Audit) -> Any:
    curve = audit.curve
    figure, axes, scale = _panel(audit, "feedback that has come", "delay", "share that has come")
    places = drawn(curve)
    high, low = (1 - side for side in curve.band_at(places))
    x = curve.delays[places] / scale
    axes.step(x, 1 - curve.survival[places], where="post", color=figures.COLORS[0])
    axes.fill_between(x, low, high, step="post", alpha=0.2, color=figures.COLORS[0], lw=0)
    return figure


def _panel(audit: Audit, title: str, xlabel: str, ylabel: str) -> tuple[Any, Any, float]:
    """Shares against delays on a logarithmic axis, with a place for none at all where there is some."""
    curve = audit.curve
    scale, unit = axis(audit, _typical(curve))
    figure, axes = figures.panel(title, f"{xlabel} ({unit})", ylabel, xscale="log")
    if _at_once(curve):
        places = drawn(curve)
        from_zero(
            axes, *(max(int(curve.delays[place]), 1) / scale for place in (places[min(1, len(places) - 1)], places[-1]))
        )
    axes.set_ylim(0, 1.02)
    return figure, axes, scale


def _at_once(curve: Curve) -> bool:
    """Whether some feedback came without delay."""
    return bool(curve.delays[0] == 0 and curve.came[0])


def drawn(curve: Curve, most: int = 400) -> Any:
    """Places of a curve that are enough to draw it on a logarithmic axis, from where something has come on."""
    zero = 1 if _at_once(curve) else 0
    before = float(curve.survival[0]) if zero else 1.0
    begin = max(int(np.searchsorted(-curve.survival, -(before - 0.0005), side="right")), zero)
    first = max(int(curve.delays[min(begin, curve.end)]), 1)
    places = np.searchsorted(curve.delays, np.geomspace(first, max(int(curve.delays[curve.end]), first + 1), most))
    return np.unique(np.append(np.minimum(places, curve.end), [min(begin, curve.end), *([0] if zero else [])]))


def most_played(audit: Audit) -> list[int]:
    """The actions with the most decisions, less those that have no curve."""
    counts = np.asarray(audit.log.counts)
    most = sorted(np.argsort(-counts, kind="stable")[:DRAWN].tolist())
    return [i for i in most if len(drawn(audit.delays.curve(i))) > 1]


def by_action(audit: Audit, shown: Sequence[int]) -> Any:
    figure, axes, scale = _panel(audit, "feedback that has come, by action", "delay", "share that has come")
    for color, i in enumerate(shown):
        curve = audit.delays.curve(i)
        places = drawn(curve)
        axes.step(
            np.maximum(curve.delays[places], 0 if _at_once(audit.curve) else 0.5) / scale,
            1 - curve.survival[places],
            where="post",
            color=figures.COLORS[color],
            linestyle=("-", "--", ":", "-.")[color % 4],
            label=audit.log.actions[i],
        )
    legend_below(figure, axes)
    return figure


def outstanding(audit: Audit) -> Any:
    out, log = audit.outstanding, audit.log
    places = thinned(out.level)
    times = log.kind == "times"
    figure, axes = figures.panel("outstanding feedback", "time (UTC)" if times else "round", "G")
    x, peak = out.edges[places], np.array([out.peak.at])
    if times:
        x, peak = x.astype("datetime64[us]"), peak.astype("datetime64[us]")
        dates(axes.xaxis)
    axes.fill_between(x, 0, out.level[places], alpha=0.2, color=figures.COLORS[0], lw=0)
    axes.plot(x, out.level[places], color=figures.COLORS[0], lw=1)
    axes.plot(peak, [out.peak.low], "o", color=figures.COLORS[1], label=f"G* = {audit.peak:,}")
    axes.set_ylim(bottom=0)
    plain_numbers(axes.yaxis, *([] if times else [axes.xaxis]), whole=True)
    legend_below(figure, axes)
    return figure


def expiry(audit: Audit) -> Any:
    curve = audit.curve
    figure, axes, scale = _panel(audit, "what an expiry loses", "expiry", "share of feedback lost")
    places = drawn(curve)
    lost = (curve.survival[places] - curve.never) / max(1 - curve.never, 1e-12)
    axes.step(curve.delays[places] / scale, lost, where="post", color=figures.COLORS[1])
    axes.plot(
        [e.length / scale for e in audit.expiries], [e.lost for e in audit.expiries], "o", color=figures.COLORS[1]
    )
    return figure


def peaks(audit: Audit, left: Sequence[Expiry]) -> Any:
    scale, unit = axis(audit, _typical(audit.curve))
    figure, axes = figures.panel("the peak with an expiry", f"expiry ({unit})", "G*", xscale="log", yscale="log")
    lengths = [e.length / scale for e in left]
    if not lengths[0]:
        from_zero(axes, lengths[1], lengths[-1])
    axes.plot(lengths, [e.peak.high for e in left], "o-", color=figures.COLORS[0])
    axes.axhline(audit.peak, color=figures.COLORS[7], linestyle="--", linewidth=1)
    return figure
