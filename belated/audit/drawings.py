"""The figures of an audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from belated.audit.expiry import Expiry
from belated.audit.report import SPANS, Audit, thinned
from belated.audit.survival import Curve
from belated.report import figures

#: Actions that are drawn: the ones with the most decisions.
DRAWN = 6
#: Characters of a name in a figure, at most.
LONGEST = 24


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
    scale, unit = axis(audit, _typical(curve))
    places = drawn(curve)
    high, low = (1 - side for side in curve.band_at(places))
    figure, axes = _panel("feedback that has come", f"delay ({unit})", "share that has come")
    x = _x(curve, places, scale)
    axes.step(x, 1 - curve.survival[places], where="post", color=figures.COLORS[0])
    axes.fill_between(x, low, high, step="post", alpha=0.2, color=figures.COLORS[0], lw=0)
    return figure


def _panel(title: str, xlabel: str, ylabel: str) -> Any:
    figure, axes = figures.panel(title, xlabel, ylabel, xscale="log")
    axes.set_ylim(0, 1.02)
    return figure, axes


def drawn(curve: Curve, most: int = 400) -> Any:
    """Places of a curve that are enough to draw it on a logarithmic axis, from where something has come on."""
    begin = int(np.searchsorted(curve.survival < 0.9995, True))
    first = max(int(curve.delays[min(begin, curve.end)]), 1)
    places = np.searchsorted(curve.delays, np.geomspace(first, max(int(curve.delays[curve.end]), first + 1), most))
    return np.unique(np.append(np.minimum(places, curve.end), min(begin, curve.end)))


def _x(curve: Curve, places: Any, scale: float) -> Any:
    """Where delays are on a logarithmic axis; none at all is drawn as half a unit."""
    return np.maximum(curve.delays[places], 0.5) / scale


def most_played(audit: Audit) -> list[int]:
    """The actions with the most decisions, less those that have no curve."""
    counts = np.asarray(audit.log.counts)
    most = sorted(np.argsort(-counts, kind="stable")[:DRAWN].tolist())
    return [i for i in most if len(drawn(audit.delays.curve(i))) > 1]


def short(names: Sequence[str]) -> list[str]:
    """Names for a figure: long ones keep both ends, or, where these are the same, what is around the difference.

    >>> short(["red", "a_campaign_of_many_words_in_spring"])
    ['red', 'a_campaign_…ds_in_spring']
    """
    found = [_cut(name) for name in names]
    if len(set(found)) == len(found):
        return found
    before, after = (max(0, _common([name[::step] for name in names]) - LONGEST // 4) for step in (1, -1))
    return [_cut(f"…{name[before : len(name) - after]}…") for name in names]


def _common(names: Sequence[str]) -> int:
    """How many characters all begin with."""
    first, last = min(names), max(names)
    return next((i for i, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))


def _cut(name: str) -> str:
    half = LONGEST // 2
    return name if len(name) <= LONGEST else f"{name[: half - 1]}…{name[-half:]}"


def _legend(figure: Any) -> None:
    """Below the axes, where it covers nothing."""
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)


def by_action(audit: Audit, shown: Sequence[int]) -> Any:
    scale, unit = axis(audit, _typical(audit.curve))
    figure, axes = _panel("feedback that has come, by action", f"delay ({unit})", "share that has come")
    names = short([audit.log.actions[i] for i in shown])
    for color, i in enumerate(shown):
        curve = audit.delays.curve(i)
        places = drawn(curve)
        axes.step(
            _x(curve, places, scale),
            1 - curve.survival[places],
            where="post",
            color=figures.COLORS[color],
            linestyle=("-", "--", ":", "-.")[color % 4],
            label=names[color],
        )
    _legend(figure)
    return figure


def outstanding(audit: Audit) -> Any:
    out, log = audit.outstanding, audit.log
    places = thinned(out.level)
    if log.kind == "rounds":
        scale, origin, label = 1.0, 0, "round"
    else:
        scale, name = axis(audit, log.last - log.first)
        origin, label = log.first, f"{name} since {audit.moment(log.first)}"
    figure, axes = figures.panel("outstanding feedback", label, "G")
    x = (out.edges[places] - origin) / scale
    axes.fill_between(x, 0, out.level[places], alpha=0.2, color=figures.COLORS[0], lw=0)
    axes.plot(x, out.level[places], color=figures.COLORS[0], lw=1)
    axes.plot(
        [(out.peak.at - origin) / scale], [out.peak.low], "o", color=figures.COLORS[1], label=f"G* = {audit.peak:,}"
    )
    axes.set_ylim(bottom=0)
    _legend(figure)
    return figure


def expiry(audit: Audit) -> Any:
    curve = audit.curve
    scale, unit = axis(audit, _typical(curve))
    figure, axes = _panel("what an expiry loses", f"expiry ({unit})", "share of feedback lost")
    places = drawn(curve)
    lost = (curve.survival[places] - curve.never) / max(1 - curve.never, 1e-12)
    axes.step(_x(curve, places, scale), lost, where="post", color=figures.COLORS[1])
    x, y = [max(e.length, 0.5) / scale for e in audit.expiries], [e.lost for e in audit.expiries]
    axes.plot(x, y, "o", color=figures.COLORS[1])
    return figure


def peaks(audit: Audit, left: Sequence[Expiry]) -> Any:
    scale, unit = axis(audit, _typical(audit.curve))
    figure, axes = figures.panel("the peak with an expiry", f"expiry ({unit})", "G*", xscale="log", yscale="log")
    x = [max(e.length, 0.5) / scale for e in left]
    axes.plot(x, [e.peak.high for e in left], "o-", color=figures.COLORS[0])
    axes.axhline(audit.peak, color=figures.COLORS[7], linestyle="--", linewidth=1)
    return figure
