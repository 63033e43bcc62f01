"""How much feedback was out when each decision was made: G, its peak G*, and that of each action.

Counted as in the paper: G_t is what is out when round t predicts, before its own prediction. Feedback that comes at the
very time of a decision comes after it; decisions of one time are taken one after another, in the order of the actions.
A decision that is no longer watched for its feedback (cancelled, expired, beyond its window) is out no more.

One ordered pass over all decisions and all feedback would do, but would hold all of them in memory. So they are counted
on a grid of time first, which gives G exactly at the edges and limits for it inside each cell. Then only cells that may
hold a peak are taken event by event, in slices that fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from belated.audit.log import Log
from belated.audit.survival import Whole
from belated.logs import collect

#: Cells of the grid times actions, at most; and cells, at most.
ROOM, CELLS = 1 << 22, 1 << 16
#: Events that are in memory at a time.
SLICE = 4_000_000


@dataclass(frozen=True)
class Peak:
    """G*, or the limits that it is between; `at` is the start of the cell of time of the (highest) peak."""

    low: int
    high: int
    at: int

    @property
    def exact(self) -> bool:
        return self.low == self.high


@dataclass(frozen=True, eq=False)
class Outstanding:
    """G at the edges of a grid of time, from the first decision to the last, and the peaks."""

    edges: Whole  #: ends of cells
    level: Whole  #: G after all events of a cell
    peak: Peak
    peaks: tuple[Peak, ...]  #: of each action
    mean: float  #: of G over all decisions; exact where no cell of the grid holds more than one
    middle: int  #: about half of the decisions were made before this time


def measure(log: Log) -> Outstanding:
    """Count what is out, in all and for each action."""
    events, actions = _events(log, pl.col("a") if log.actions else None), max(1, len(log.actions))
    grid = _Grid.of(log, actions)
    opened, closed = grid.counts([(events, "d"), (events, "c")])
    whole, each = (
        _Limits.of(*(table.sum(axis=1, keepdims=True) for table in (opened, closed))),
        _Limits.of(opened, closed),
    )
    cells = np.flatnonzero((whole.doubtful | each.doubtful).any(axis=1))
    parts = list(grid.parts(cells, (opened + closed).sum(axis=1)))
    with _at_hand(events, len(parts)) as stored:
        for part in parts:
            cell, group, step = grid.taken(stored, part)
            whole.settle(cell, np.zeros_like(group), step)
            if log.actions:
                each.settle(cell, group, step)
    edges = log.first + grid.width * np.arange(1, grid.cells + 1)
    peaks = each.peaks(log.first, grid.width) if log.actions else ()
    made = np.cumsum(whole.decisions)
    middle = int(edges[np.argmin(np.abs(2 * made - made[-1]))])
    peak = whole.peaks(log.first, grid.width)[0]
    return Outstanding(edges, whole.end[:, 0], peak, peaks, min(whole.mean, float(peak.low)), middle)


def with_expiry(log: Log, lengths: Sequence[int]) -> list[Peak]:
    """The peaks, had decisions been closed after so long; exact unless the log is long, else between limits."""
    if log.decisions <= SLICE // 2:
        return [_peak_with_expiry(log, length) for length in lengths]
    # One pass for all: of each decision, how many of the expiries its feedback comes after.
    wait = _closed(log) - pl.col("d")
    passed = pl.sum_horizontal((wait > length).fill_null(True).cast(pl.Int32) for length in lengths)
    events, grid = _events(log, passed), _Grid.of(log, len(lengths) + 1)
    opened, closed = grid.counts([(events, "d"), (events, "c")])
    found: list[Peak] = []
    for place, length in enumerate(lengths):
        given_up, answered = opened[:, place + 1 :].sum(axis=1), closed[:, : place + 1].sum(axis=1)
        # a decision is given up in one of two cells: the earlier for the lower limit, the later for the upper
        low, high = (
            _Limits.of(opened.sum(axis=1, keepdims=True), (answered + _later(given_up, cells))[:, None])
            for cells in (length // grid.width, -(-length // grid.width))
        )
        (peak,) = low.peaks(log.first, grid.width)
        found.append(Peak(peak.low, max(peak.low, int(high.high.max())), peak.at))
    return found


def _peak_with_expiry(log: Log, length: int) -> Peak:
    grid, events = _Grid.of(log, 1), _events(log, expiry=length)
    opened, closed = grid.counts([(events, "d"), (events, "c")])
    limits = _Limits.of(opened, closed)
    for part in grid.parts(np.flatnonzero(limits.doubtful), (opened + closed)[:, 0]):
        limits.settle(*grid.taken(events, part))
    (peak,) = limits.peaks(log.first, grid.width)
    return peak


def _later(counts: Whole, cells: int) -> Whole:
    """The same so many cells later; what falls behind the last one is left out."""
    moved = np.zeros_like(counts)
    moved[cells:] = counts[: max(0, len(counts) - cells)]
    return moved


def _closed(log: Log) -> pl.Expr:
    """When a decision was no longer out: its feedback came, or it was given up, which is no longer to watch it."""
    given_up = pl.when(pl.col("w") < log.as_of).then(pl.col("w"))
    return pl.coalesce(pl.col("o"), given_up) if log.watched else pl.col("o")


def _events(log: Log, group: pl.Expr | None = None, expiry: int | None = None) -> pl.LazyFrame:
    """When each decision was opened and closed, from the first one on, and its group."""
    d, o = pl.col("d") - log.first, _closed(log) - log.first
    closed = o if expiry is None else pl.min_horizontal(o, d + expiry)
    return log.frame.select(d=d, c=closed, a=pl.lit(0, pl.Int32) if group is None else group)


@contextmanager
def _at_hand(events: pl.LazyFrame, parts: int) -> Iterator[pl.LazyFrame]:
    """Events for many slices are written to disk once, as numbers: a slice of a log in order reads its own only."""
    if parts < 3:
        yield events
        return
    with TemporaryDirectory(prefix="belated-audit-") as folder:
        path = Path(folder) / "events.parquet"
        events.sink_parquet(path, compression="lz4", row_group_size=100_000)
        yield pl.scan_parquet(path)


@dataclass(frozen=True)
class _Grid:
    """Cells of time, from the first decision to the last, of some actions."""

    width: int
    cells: int
    actions: int

    @classmethod
    def of(cls, log: Log, actions: int) -> _Grid:
        span = log.last - log.first + 1
        width = -(-span // min(CELLS, max(ROOM // actions, 64), span))
        return cls(width, -(-span // width), actions)

    def counts(self, wanted: Sequence[tuple[pl.LazyFrame, str]]) -> list[Whole]:
        """How often a column falls into each cell (cells x actions), for several of them."""
        queries = [
            frame.filter(pl.col(column) < self.cells * self.width)
            .group_by(key=pl.col(column) // self.width * self.actions + pl.col("a"))
            .len()
            for frame, column in wanted
        ]
        tables = []
        for found in map(collect, queries):
            table = np.zeros(self.cells * self.actions, np.int64)
            table[found["key"].to_numpy()] = found["len"].to_numpy()
            tables.append(table.reshape(self.cells, self.actions))
        return tables

    def parts(self, cells: Whole, size: Whole) -> Iterator[Whole]:
        """Cells in groups of about SLICE events."""
        if len(cells):
            group = np.cumsum(size[cells]) // SLICE
            yield from np.split(cells, np.flatnonzero(np.diff(group)) + 1)

    def taken(self, events: pl.LazyFrame, cells: Whole) -> tuple[Whole, Whole, Whole]:
        """All events of some cells in order, closings of one time last: the cell, the action, and +1 or -1."""
        inside = pl.Series(cells, dtype=pl.Int32)
        full = len(cells) == cells[-1] - cells[0] + 1

        def some(column: str, odd: int) -> pl.LazyFrame:
            x = pl.col(column)
            found = events.filter((x >= int(cells[0]) * self.width) & (x < (int(cells[-1]) + 1) * self.width))
            if not full:
                found = found.filter((x // self.width).cast(pl.Int32).is_in(inside.implode()))
            return found.select(t=x * 2 + odd, a=pl.col("a").cast(pl.Int16))

        found = pl.concat([collect(some("d", 0)), collect(some("c", 1))]).sort("t", "a")
        time = found["t"].to_numpy()
        return time // (2 * self.width), found["a"].to_numpy(), 1 - 2 * (time & 1)


@dataclass(eq=False)
class _Limits:
    """G at the edges of cells (cells x groups), limits of it inside them, and the best known peak of each group."""

    start: Whole
    end: Whole
    high: Whole  #: G inside a cell is at most this
    decisions: Whole  #: of all groups, in each cell
    low: Whole  #: the peak of each group is at least this
    where: Whole

    @classmethod
    def of(cls, opened: Whole, closed: Whole) -> _Limits:
        end = np.cumsum(opened - closed, axis=0)
        start = end - opened + closed
        decisions = opened.sum(axis=1)
        some = decisions[:, None] > 0
        # before the last decision of a cell all but one decision, and at most all feedback of it, have been counted
        sure = np.where(some, np.maximum(start - closed, end - 1), 0)
        alone = opened == decisions[:, None]  # the last decision is the group's own
        high = np.where(some, start + opened - alone, 0)
        return cls(start, end, high, decisions, sure.max(axis=0), sure.argmax(axis=0))

    @property
    def mean(self) -> float:
        """What is out when a decision of the first group is made, on average, as if all of a cell were spread evenly.

        Before the only decision of a cell it is what was out at its start.
        """
        start, change, made = self.start[:, 0], (self.end - self.start)[:, 0], np.maximum(self.decisions, 1)
        before = start + change * (made - 1) / (2 * made)
        return float((before * self.decisions).sum() / max(1, self.decisions.sum()))

    @property
    def doubtful(self) -> np.ndarray:
        return np.asarray(self.high > self.low)

    def settle(self, cell: Whole, group: Whole, step: Whole) -> None:
        """Raise the best known peaks by what was met at the decisions among events, in order, that fill their cells."""
        made = np.cumsum(step > 0, dtype=np.int64)
        begins, lengths = _runs(cell)
        made -= np.repeat(made[begins] - (step[begins] > 0), lengths)  # decisions of the cell so far, this one included
        order = np.argsort(group, kind="stable")
        cell, group, step, made = cell[order], group[order], step[order], made[order]
        begins, lengths = _runs(cell, group)
        after = np.cumsum(step)
        after += np.repeat(self.start[cell[begins], group[begins]] - after[begins] + step[begins], lengths)
        earlier = np.roll(made, 1)
        earlier[begins] = 0
        # what a group has out just before one of its events was met if a decision was made since its event before
        met, ends = np.flatnonzero(made > earlier), begins + lengths - 1
        last = ends[made[ends] < self.decisions[cell[ends]]]
        for rows, value in ((met, after[met] - step[met]), (last, after[last])):
            better = np.flatnonzero(value > self.low[group[rows]])
            rising = better[np.argsort(value[better])]  # of several of one group, the last and largest stays
            at = rows[rising]
            self.low[group[at]], self.where[group[at]] = value[rising], cell[at]

    def peaks(self, first: int, width: int) -> tuple[Peak, ...]:
        """The best known ones; they are the peaks once all doubtful cells are settled."""
        return tuple(
            Peak(int(low), int(low), first + width * int(place))
            for low, place in zip(self.low, self.where, strict=True)
        )


def _runs(*columns: Whole) -> tuple[Whole, Whole]:
    """Where runs of equal rows begin, and how long they are."""
    changes = np.any([np.diff(column) != 0 for column in columns], axis=0)
    begins = np.concatenate([[0], np.flatnonzero(changes) + 1])
    return begins, np.diff(np.append(begins, len(columns[0])))
