"""Regret as a figure: against the round, the delay, the peak, a quantile of the delay or the share that is lost.

One style for a `Result`, several of them, and the `Results` of a study: a colour and a marker for each forecaster,
dashes for what else differs, panels for what is asked for (`by`), one legend beside the panels, and what was played,
how often, and what the bands are, on the figure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from belated.errors import InvalidArgument
from belated.report.figures import fill, reaches
from belated.report.labels import families, labels
from belated.report.layout import Layout
from belated.report.look import PARTS, Look
from belated.report.positions import position, title
from belated.report.style import COLORS, DASHES, MARKERS, enough_ticks

#: A scale is logarithmic by itself where what it shows differs by this factor.
WIDE = 10.0
#: Bounds are drawn by themselves along the way where a panel has at most so many lines.
FEW = 3
#: More panels than this are a mistake.
MOST_PANELS = 40
#: Letters of a title.
TITLE = 90


@dataclass(frozen=True)
class Point:
    """A cell with its result, what it is called, and where it stands."""

    names: dict[str, Any]
    result: Any
    at: float


def check_picture(path: str | Path) -> None:
    """Refuse a file whose name does not end in a kind of picture that can be drawn."""
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = FigureCanvasBase.get_supported_filetypes()
    if Path(path).suffix[1:].lower() not in kinds:
        raise InvalidArgument(f"{str(path)!r} must end in one of {', '.join(sorted(kinds))}")


def plot(pairs: Sequence[tuple[Any, Any]], look: Look, path: str | Path | None = None, axes: Any = None) -> Any:
    """Draw cells with their results; saved to `path` if given. Returns the figure, or the `axes` that were given."""
    if path is not None:
        check_picture(path)
    drawing = _Drawing(pairs, look, axes)
    if path is not None:
        drawing.layout.save(path)
    return drawing.layout.figure if axes is None else axes


class _Drawing:
    """A figure in the making."""

    def __init__(self, pairs: Sequence[tuple[Any, Any]], look: Look, axes: Any) -> None:
        self.look, self.notes, self.under = look, list[str](), 0
        self.points = self._placed(pairs)
        self.values = {part: list(dict.fromkeys(p.names[part] for p in self.points)) for part in PARTS}
        self.differ = [part for part in PARTS if len(self.values[part]) > 1]
        self.by = self._facets()
        panels = self._panels()
        forecasters = list(dict.fromkeys(p.names["forecaster"] for p in self.points))
        self.colors = {name: number for number, name in enumerate(forecasters)}
        self.kinds = list(dict.fromkeys(self._kind(p) for p in self.points))
        self.bounds = self._wants_bounds(panels)
        self.xlog, self.ylog = self._scales()
        shared = not {"game", "rounds"} & set(self.by)
        across = len(self.values[self.by[-1]]) if len(self.by) > 1 else 0
        self.layout = Layout(len(panels), axes, look.legend, shared, across)
        for place, own in zip(self.layout.axes, panels.values(), strict=True):
            self._panel(place, own)
        if self.under:
            what = "lines end" if look.x == "round" else "cells are"
            self.notes.append(
                f"{self.under} of {len(self.points)} {what} at a mean regret of 0 or less, not on a logarithmic axis."
            )
        self.layout.align()
        self._infinite_tick()
        self.layout.label(list(panels) if self.by else [""], title(look.x), self._ylabel(), self._caption())
        self.layout.finish(self._legend(), self.notes)

    # --- what is drawn ---

    def _placed(self, pairs: Sequence[tuple[Any, Any]]) -> list[Point]:
        """The cells that have a place on the x-axis; of the others it is noted that they are left out."""
        if not pairs:
            raise InvalidArgument("there is nothing to draw")
        kin = families([cell.delays for cell, _ in pairs], "p" if self.look.x == "loss" else None)
        points, out = [], dict[str, str]()
        for (cell, result), law in zip(pairs, kin, strict=True):
            names = labels(cell) | {"law": law, "seed": cell.seed}
            at = 0.0 if self.look.x == "round" else position(cell, result, self.look.x)
            if isinstance(at, str):
                out[names["delays"]] = at
            else:
                points.append(Point(names, result, at))
        if out:
            told = "; ".join(f"{name} ({why})" for name, why in out.items())
            if not points:
                raise InvalidArgument(f"no cell has a place on the axis {self.look.x!r}: {told}")
            self.notes.append(f"Left out: {told}.")
        endless = list(dict.fromkeys(p.names["delays"] for p in points if p.at == math.inf))
        if endless:
            hint = "" if isinstance(self.look.x, float) else " (their median: x = 0.5)"
            self.notes.append(f"At ∞: {', '.join(endless)}{hint}.")
        return points

    def _facets(self) -> tuple[str, ...]:
        if self.look.by is not None:
            return tuple(self.look.by)
        wanted = ["game", "rounds", "expiry", "seed", "delays" if self.look.x == "round" else "law"]
        return tuple(part for part in wanted if part in self.differ)

    def _panels(self) -> dict[str, list[Point]]:
        panels: dict[str, list[Point]] = {}
        for point in sorted(self.points, key=lambda p: [self.values[part].index(p.names[part]) for part in self.by]):
            panels.setdefault(", ".join(_said(part, point.names[part]) for part in self.by), []).append(point)
        if len(panels) > MOST_PANELS:
            raise InvalidArgument(
                f"by {', '.join(self.by)} there are {len(panels)} panels, more than {MOST_PANELS}: "
                f"choose by= among {', '.join(PARTS)}"
            )
        return panels

    def _kind(self, point: Point) -> str:
        """What else than the forecaster and the panel tells a line from others, in words."""
        along = "delays" if self.look.x != "round" else "law"
        parts = [part for part in self.differ if part not in (*self.by, "forecaster", along)]
        return ", ".join(_said(part, point.names[part]) for part in parts)

    def _lines(self, points: Sequence[Point]) -> dict[tuple[str, str], list[Point]]:
        lines: dict[tuple[str, str], list[Point]] = {}
        for point in sorted(points, key=lambda p: p.at):
            lines.setdefault((point.names["forecaster"], self._kind(point)), []).append(point)
        order = list(self.colors)
        return dict(sorted(lines.items(), key=lambda line: (order.index(line[0][0]), self.kinds.index(line[0][1]))))

    def _wants_bounds(self, panels: dict[str, list[Point]]) -> bool:
        if self.look.bounds is not None:
            return bool(self.look.bounds)
        return self.look.x == "round" and max(len(self._lines(own)) for own in panels.values()) <= FEW

    def _curve(self, line: Sequence[Point]) -> tuple[Any, Any, Any, Any]:
        """x, mean, reach of the band and bound of a line."""
        level, results = self.look.level, [p.result for p in line]
        if self.look.x == "round":
            x, samples = results[0].checkpoints, [results[0].regret]
            bound = _bound(results[0]) if self.bounds else None
        else:
            x, samples = np.array([p.at for p in line]), [r.regret[:, -1:] for r in results]
            known = [_bound(r) for r in results] if self.bounds else []
            bound = np.array([np.nan if each is None else each[-1] for each in known]) if known else None
        mean = np.concatenate([s.mean(axis=0) for s in samples])
        width = np.full(len(mean), np.nan)
        if level is not None:
            width = np.concatenate([reaches(s, level) for s in samples])
        return np.asarray(x, float), mean, width, bound

    # --- scales ---

    def _scales(self) -> tuple[bool, bool]:
        if self.look.log is not None:
            return "x" in str(self.look.log), "y" in str(self.look.log)
        ends = np.array([p.result.regret[:, -1].mean() for p in self.points])
        starts = ends
        if self.look.x == "round":
            starts = np.array([p.result.regret[:, len(p.result.checkpoints) // 2].mean() for p in self.points])
            wide = max(p.result.rounds for p in self.points) >= WIDE
        else:
            at = np.array([p.at for p in self.points if 0 < p.at < math.inf])
            wide = len(at) > 0 and at.max() >= WIDE * at.min()
        return wide, bool((starts > 0).all() and (ends > 0).all() and ends.max() >= WIDE * starts.min())

    def _set_scales(self, axes: Any) -> None:
        finite = [p.at for p in self.points if p.at < math.inf]
        if self.xlog:
            least = min((at for at in finite if at > 0), default=1.0)
            zero = self.look.x != "round" and (not finite or min(finite) <= 0)
            axes.set_xscale("symlog", linthresh=least, linscale=0.5) if zero else axes.set_xscale("log")
        if self.look.x != "round":  # one axis for all panels, whatever each of them holds
            axes.set_xlim(*self._ends())
        if self.ylog:
            axes.set_yscale("log")

    @property
    def _endless(self) -> float:
        """Where infinity stands: to the right of all numbers."""
        finite = [p.at for p in self.points if p.at < math.inf]
        high = max(finite, default=0.0)
        least = min((at for at in finite if at > 0), default=1.0)
        if self.xlog:
            return float(max(high, least) * max(2.0, (max(high, least) / least) ** 0.15))
        return high + 0.15 * (high - min(finite, default=0.0) or 1.0)

    def _ends(self) -> tuple[float, float]:
        """What the x-axis shows: the places of all cells, and some room."""
        at = [p.at if p.at < math.inf else self._endless for p in self.points]
        low, high = min(at), max(at)
        if not self.xlog:
            room = 0.05 * (high - low) or 0.5 * abs(high) or 0.5
            return low - room, high + room
        least = min(number for number in (*at, 1.0) if number > 0)
        room = max(high / max(low, least), 2.0) ** 0.08
        return (low / room if low > 0 else -0.3 * least), max(high, least) * room

    def _infinite_tick(self) -> None:
        """Infinity is a place of its own at the right, behind a thin line."""
        if not any(p.at == math.inf for p in self.points):
            return
        high = max((p.at for p in self.points if p.at < math.inf), default=None)
        for axes in self.layout.axes:
            enough_ticks(axes.xaxis)
            left = axes.get_xlim()[0]
            ticks = [t for t in axes.get_xticks() if high is not None and left <= t <= high * 1.01]
            axes.set_xticks([*ticks, self._endless], [*(f"{t:,.10g}" for t in ticks), "∞"])
            right = self._endless * 1.25 if self.xlog else self._endless + 0.3 * (self._endless - (high or 0.0))
            axes.set_xlim(left, right)
            if high is not None:
                middle = math.sqrt(high * self._endless) if self.xlog and high > 0 else (high + self._endless) / 2
                axes.axvline(middle, color="0.6", linewidth=0.6, linestyle=":")

    # --- drawing ---

    def _panel(self, axes: Any, points: Sequence[Point]) -> None:
        self._set_scales(axes)
        self.layout.ticks(axes)
        lowest, below, ends = 0.0, 0, list[float]()
        for (forecaster, kind), line in self._lines(points).items():
            style = self._style(forecaster, kind)
            groups = [line[i : i + 1] for i in range(len(line))] if self.look.x == "round" else [line]
            for group in groups:
                x, mean, width, bound = self._curve(group)
                lowest = min(lowest, float(mean.min()))
                if self.look.x != "round":  # bands and bars whole, if they stay away from 0
                    ends += [*(mean + width), *np.maximum(mean - width, mean / 2)]
                self._draw(axes, style, x, mean, width, bound)
                below += int(np.sum(mean <= 0) if self.look.x != "round" else mean[-1] <= 0)
        if self.ylog:
            self.under += below
            self._floor(axes, ends)
        elif lowest >= 0:
            axes.set_ylim(bottom=0)

    def _draw(self, axes: Any, style: dict[str, Any], x: Any, mean: Any, width: Any, bound: Any) -> None:
        color = style["color"]
        shown = np.where(mean > 0, mean, np.nan) if self.ylog else mean
        there = x < math.inf
        axes.plot(x[there], shown[there], **style)
        fill(axes, x[there], (mean - width)[there], (mean + width)[there], color)
        alone = ~there if there.sum() != 1 else np.ones(len(x), bool)  # a point has no band: it gets a bar
        if alone.any():
            far, reaching = np.where(there, x, self._endless)[alone], np.nan_to_num(width[alone])
            down = np.minimum(reaching, np.abs(mean[alone]) * 0.999) if self.ylog else reaching
            bare = style | {"linestyle": "none"}
            axes.errorbar(far, shown[alone], yerr=np.stack([down, reaching]), elinewidth=1, **bare)
        if bound is not None:
            axes.plot(x[there], bound[there], color=color, linestyle=(0, (6, 2)), linewidth=0.8)

    def _floor(self, axes: Any, ends: Sequence[float]) -> None:
        """A logarithmic axis begins at what lines show from a tenth of the way on, not at their first steps."""
        seen = [end for end in ends if end > 0]
        for drawn in axes.get_lines():
            values = np.asarray(drawn.get_ydata(), float)
            values = values[len(values) // 10 :] if self.look.x == "round" else values
            seen += values[np.isfinite(values) & (values > 0)].tolist()
        if seen:
            low, high = min(seen), max(seen)
            room = max(high / low, 2.0) ** 0.06
            axes.set_ylim(low / room, high * room)

    def _style(self, forecaster: str, kind: str) -> dict[str, Any]:
        number, dash = self.colors[forecaster], self.kinds.index(kind)
        style: dict[str, Any] = {"color": COLORS[number % len(COLORS)], "linestyle": DASHES[dash % len(DASHES)]}
        if self.look.x != "round":
            shape = number + number // len(COLORS) if len(self.kinds) == 1 else dash
            style |= {"marker": MARKERS[shape % len(MARKERS)]}
        elif number >= len(COLORS):
            style |= {"marker": MARKERS[(number // len(COLORS)) % len(MARKERS)], "markevery": 8}
        return style

    # --- words ---

    def _legend(self) -> list[tuple[str, dict[str, Any]]]:
        """Entries: forecasters by colour, what else differs by dash, and what a bound looks like."""
        entries, several = [], len(self.colors) > 1 and "forecaster" not in self.by
        if several or (self.bounds and "forecaster" not in self.by):
            entries = [(name, self._style(name, self.kinds[0])) for name in self.colors]
        if len(self.kinds) > 1:
            first = next(iter(self.colors))
            entries += [(kind, self._style(first, kind) | {"color": "0.35"}) for kind in self.kinds]
        if self.bounds and any(p.result.bound is not None for p in self.points):
            entries.append(("bound", {"color": "0.35", "linestyle": (0, (6, 2)), "linewidth": 0.8}))
        return entries

    def _ylabel(self) -> str:
        return "regret" if self.look.x == "round" else "regret at the horizon"

    def _caption(self) -> list[str]:
        """What all panels share: game, horizon, delays; how often, and what the bands are."""
        names = self.points[0].names
        shared = [part for part in ("game", "rounds", "delays", "expiry", "seed") if part not in self.differ]
        if len(self.colors) == 1 and "forecaster" not in self.by:
            shared = ["forecaster", *shared]
        said = [_said(part, names[part]) for part in shared if part != "seed" and names[part] is not None]
        counts = sorted({p.result.replications for p in self.points})
        often = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
        how = f"mean of {often} replication{'s' if counts[-1] > 1 else ''}"
        if self.look.level is not None and counts[-1] > 1:
            how += f", bands: {self.look.level * 100:.4g}% confidence, approximate"
        lines, row = [], ""
        for part in said:
            if row and len(row) + len(part) + 2 > TITLE:
                lines.append(row)
                row = ""
            row = f"{row}, {part}" if row else part
        return [*lines, *([row] if row else []), how]


def _bound(result: Any) -> Any:
    """The bound along the way; None where there is none, or it says nothing."""
    curve = result.bound_curve
    return None if curve is None or result.verdict == "vacuous" else curve


def _said(part: str, value: Any) -> str:
    """A label as a title says it."""
    if part == "rounds":
        return f"{value:,} round{'s' if value != 1 else ''}"
    if part == "expiry":
        return "no expiry" if value is None else f"expiry {value:,}"
    return f"seed {value}" if part == "seed" else str(value)
