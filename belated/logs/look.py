"""The first look through a log: what in it makes no sense, how long it is, when it was taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from belated.errors import InvalidArgument
from belated.logs.source import collect
from belated.logs.table import Table
from belated.logs.times import read_moment
from belated.logs.words import show_moment

#: The share of rows that make no sense, such as feedback before its decision, from which on a log is refused.
MOST = 0.01
#: What is said of feedback that came too late, and counts as none.
LATE = "feedback after its decision was watched (which counts as one without)"


@dataclass(frozen=True)
class Look:
    """A log that makes sense, and the first things to know about it.

    `frame` has `d`, `o` (null where no feedback had come in time) and, where decisions were not all watched until the
    log was taken, `w`, until when they were.
    """

    frame: pl.LazyFrame
    rows: int
    came: int  #: decisions whose feedback came while they were watched
    ended: int  #: decisions without feedback that were no longer watched when the log was taken
    first: int
    last: int
    as_of: int  #: when the log was taken
    longest: int  #: the longest delay that was seen
    left_out: dict[str, int]  #: rows, by reason
    counted: dict[str, Any]  #: what else was asked


def look(
    table: Table,
    frame: pl.LazyFrame,
    *,
    as_of: Any = None,
    most: float = MOST,
    bad: Mapping[str, pl.Expr] | None = None,
    wanted: Mapping[str, pl.Expr] | None = None,
) -> Look:
    """Look through the rows of `Table.select`; `bad` are more reasons to leave one out, `wanted` more to be counted.

    Rows that make no sense are left out and counted, or refused if they are more than the share `most`.
    """
    reasons, asked = _reasons(table, frame, bad or {})
    counts = {f"bad{i}": holds.sum() for i, holds in enumerate(reasons.values())}
    columns = set(frame.collect_schema().names())
    latest = [pl.col(name).max() for name in ("d", "o", "s") if name in columns]
    seen = collect(frame.select(rows=pl.len(), last=pl.max_horizontal(*latest), **counts, **(wanted or {})))
    found = seen.row(0, named=True)
    rows = found["rows"]
    if rows == 0:
        raise InvalidArgument("the log is empty")
    left_out = {reason: int(found[f"bad{i}"]) for i, reason in enumerate(reasons)}
    for reason, count in left_out.items():
        if count > most * rows:
            raise InvalidArgument(asked[reason](count, rows, most))
    for reason, holds in reasons.items():
        if left_out[reason]:
            frame = frame.filter(~holds)
    moment = int(found["last"]) if as_of is None else read_moment(table.kind, as_of)
    good, late = _in_time(frame, columns, moment, moment < found["last"])
    d, o = pl.col("d"), pl.col("o")
    over = pl.lit(0)
    if "w" in columns:
        ends = pl.col("w") < moment
        if table.states:  # that it was given up is known, even if it was at the very end
            ends = ends | (pl.col("s") <= moment).fill_null(False)
        over = (o.is_null() & ends).sum()
    counted = collect(
        good.select(
            rows=pl.len(),
            came=o.count(),
            ended=over,
            first=d.min(),
            last=d.max(),
            longest=(o - d).max(),
            late=pl.col("late").sum() if late else pl.lit(0),
        )
    ).row(0, named=True)
    if counted["rows"] == 0:
        raise InvalidArgument(f"no decision was made by {show_moment(table.kind, moment)}, when the log was taken")
    left_out["decided after the log was taken"] = rows - counted["rows"] - sum(left_out.values())
    left_out[LATE] = counted["late"]
    return Look(
        good.drop("late") if late else good,
        counted["rows"],
        counted["came"],
        counted["ended"],
        counted["first"],
        counted["last"],
        moment,
        counted["longest"] or 0,
        table.left_out | {reason: count for reason, count in left_out.items() if count},
        found,
    )


def _in_time(frame: pl.LazyFrame, columns: set[str], moment: int, cut: bool) -> tuple[pl.LazyFrame, bool]:
    """Decisions up to a moment, with the feedback that came while they were watched; whether some are marked late."""
    d, o, w = pl.col("d"), pl.col("o"), pl.col("w")
    if cut:
        frame = frame.filter(d <= moment).with_columns(o=pl.when(o <= moment).then(o))
    if "w" not in columns:
        return frame, False
    frame = frame.with_columns(w=pl.min_horizontal(w, moment)).with_columns(late=(o > w).fill_null(False))
    return frame.with_columns(o=pl.when(~pl.col("late")).then(o)), True


def _reasons(
    table: Table, frame: pl.LazyFrame, bad: Mapping[str, pl.Expr]
) -> tuple[dict[str, pl.Expr], dict[str, Any]]:
    """Rows that make no sense, each for the first of these reasons, and what is said if they are too many."""
    d, o, w = pl.col("d"), pl.col("o"), pl.col("w")
    columns = set(frame.collect_schema().names())
    decided, observed, watched = (table.names.get(role) for role in ("decided", "observed", "watched"))
    up_to = "; up to {:.0%} are left out"

    def undated(count: int, rows: int, most: float) -> str:
        got = _example(frame.filter("odd_d"), "given_d")
        share = "any" if count == rows else f"{count:,}"
        return f"{decided!r} holds no time in {share} of {rows:,} rows" + (
            f"; {table.asked}, got {got!r}" if got else ""
        )

    def unread(name: str | None, letter: str) -> Any:
        def said(count: int, rows: int, most: float) -> str:
            got = _example(frame.filter(pl.col(f"odd_{letter}")), f"given_{letter}")
            more = up_to.format(most) if most else ""
            return f"{name!r} cannot be read in {count:,} of {rows:,} rows; {table.asked}, got {got!r}{more}"

        return said

    def before(name: str | None, column: str) -> Any:
        def said(count: int, rows: int, most: float) -> str:
            pair = collect(frame.filter(pl.col(column) < d).select(column, "d").head(1)).row(0)
            told = " and ".join(show_moment(table.kind, at) for at in pair)
            more = f"{up_to.format(most)}, more are taken for a mistake" if most else ""
            return f"{name!r} is before {decided!r} in {count:,} of {rows:,} rows: {told}{more}"

        return said

    def simply(reason: str) -> Any:
        return lambda count, rows, most: (
            f"{reason} in {count:,} of {rows:,} rows" + (up_to.format(most) if most else "")
        )

    found = {
        "decided is missing": (d.is_null() & ~pl.col("odd_d"), undated),
        "decided cannot be read": (d.is_null() & pl.col("odd_d"), undated),
    }
    if "odd_o" in columns:
        found["observed cannot be read"] = (pl.col("odd_o"), unread(observed, "o"))
        found["observed before decided"] = ((o < d).fill_null(False), before(observed, "o"))
    if watched is not None:
        found["watched cannot be read"] = (pl.col("odd_w"), unread(watched, "w"))
        found["watched until before decided"] = ((w < d).fill_null(False), before(watched, "w"))
    found |= {reason: (holds, simply(reason)) for reason, holds in bad.items()}
    reasons, free = {}, pl.lit(True)
    for reason, (holds, _) in found.items():
        reasons[reason] = free & holds
        free = free & ~holds
    return reasons, {reason: said for reason, (_, said) in found.items()}


def _example(odd: pl.LazyFrame, column: str) -> str | None:
    found = collect(odd.select(column).head(1))
    return str(found.item()) if len(found) else None
