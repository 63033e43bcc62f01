"""Clocks, read the same way everywhere: times as microseconds since 1970, rounds as rounds; nothing is guessed.

Text must be ISO, or its format must be given; numbers are seconds (or less) since 1970 where all of them lie between
1990 and 2100, rounds otherwise, or whatever the unit says. Numbers such as 20260131 are asked about.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal

import polars as pl

from belated import require
from belated.errors import InvalidArgument
from belated.logs.source import collect

Kind = Literal["times", "rounds"]

#: What one unit of a column of numbers is, in microseconds; rounds are no time.
UNITS = {"s": 1_000_000.0, "ms": 1_000.0, "us": 1.0, "ns": 0.001}
#: What people measure a window in, in seconds.
SPANS = {"w": 604_800.0, "d": 86_400.0, "h": 3_600.0, "min": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
#: Seconds since 1970 of 1990 and of 2100: numbers in between are taken for times.
EPOCH = (631_152_000, 4_102_444_800)
#: Times as text, after T has become a space; others, such as 03/04/2024, could be read in two ways.
ISO = r"^\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d(\.\d+)?)?( ?(Z|[+-]\d\d(:?\d\d)?))?)?$"
#: The end of a time with a zone.
ZONED = r":\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
#: A date, and a date and a time, in digits alone.
DIGITS = r"^(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(([01]\d|2[0-3])[0-5]\d[0-5]\d)?$"
#: Text in small letters that says that there is nothing.
MISSING = ("", "null", "none", "nan", "na", "n/a", "nat", "\\n")
#: So many values of a column of text say what it holds.
SAMPLE = 1000


@dataclass(frozen=True)
class Column:
    """A column of a table, and what it is for."""

    role: str
    frame: pl.LazyFrame
    name: str
    dtype: pl.DataType

    @property
    def given(self) -> pl.Expr:
        return pl.col(self.name).str.strip_chars() if self.dtype == pl.String else pl.col(self.name)


@dataclass(frozen=True)
class Clock:
    """A column as whole numbers (null where there is none), as it was given, and whether what was given is odd."""

    value: pl.Expr
    given: pl.Expr
    odd: pl.Expr


def read_clocks(
    columns: Sequence[Column], unit: str | None = None, time_format: str | None = None
) -> tuple[Kind, str, list[Clock]]:
    """What the one clock of all columns counts, what text must be, and each; the first says when it was decided."""
    if unit is not None:
        require.one_of("unit", unit, ("rounds", *UNITS))
    if unit is not None and time_format is not None:
        raise InvalidArgument("unit is for columns of numbers, time_format for text and dates in digits: give one")
    sorts = [_sort(column, time_format) for column in columns]
    held = [_held(column, sort) for column, sort in zip(columns, sorts, strict=True)]
    first = sorts[0]
    others = [("time" if first == "words" else first) if sort in ("nothing", "words") else sort for sort in sorts[1:]]
    if first in ("nothing", "words"):
        first = next((sort for sort in others if sort != "nothing"), "time") if first == "nothing" else "time"
    sorts = [first, *others]
    if any((sort == "number") != (first == "number") for sort in sorts):
        told = ", ".join(f"{column.name!r} holds {what}" for column, what in zip(columns, held, strict=True))
        roles = " and ".join(column.role for column in columns)
        both = "both" if len(columns) == 2 else "all"
        raise InvalidArgument(f"{roles} must {both} be times or {both} be numbers: {told}")
    if first != "number":
        if unit is not None:
            raise InvalidArgument(f"unit is for columns of numbers; {columns[0].name!r} holds {held[0]}")
        wanted = f"times must be written as {time_format}"
        if time_format is None:
            wanted = "times must be ISO, such as 2026-01-31T12:00 (or say with time_format how they are written)"
        return "times", wanted, [_clock(column, _as_time(column, time_format)) for column in columns]
    unit = unit or _unit(columns)
    if unit == "rounds":
        for column in columns:
            number = as_number(column.given)
            if not collect(column.frame.select((number.is_null() | (number == number.round())).all())).item():
                raise InvalidArgument(
                    f"{column.name!r} must hold whole numbers of rounds; for times give their unit, such as s"
                )
    kind: Kind = "rounds" if unit == "rounds" else "times"
    factor = UNITS.get(unit, 1.0)
    return kind, "numbers are wanted", [_clock(column, _whole(column.given, factor)) for column in columns]


def _clock(column: Column, value: pl.Expr) -> Clock:
    odd = pl.lit(False)
    if column.dtype == pl.String:
        odd = ~missing(pl.when(value.is_null()).then(column.given))
    elif column.dtype.is_float():
        odd = (column.given.is_not_nan() & value.is_null()).fill_null(False)
    elif column.dtype.is_integer():
        odd = column.given.is_not_null() & value.is_null()
    return Clock(value, column.given, odd)


def _held(column: Column, sort: str) -> str:
    if column.dtype != pl.String:
        return str(column.dtype)
    return {"time": "times as text", "number": "numbers as text"}.get(sort, sort)


def _sort(column: Column, time_format: str | None) -> str:
    """What a column holds: time, number, nothing, or words that are neither."""
    dtype = column.dtype
    if dtype.is_temporal() and dtype != pl.Time and dtype != pl.Duration:
        return "time"
    if dtype == pl.Null:
        return "nothing"
    if dtype.is_numeric():
        return "number" if time_format is None else "time"
    if dtype != pl.String:
        raise InvalidArgument(f"{column.name!r} must hold times or numbers, it holds {dtype}")
    some = collect(column.frame.select(column.name).filter(~missing(column.given)).head(SAMPLE))
    if time_format is not None:
        return "time" if len(some) else "nothing"
    numbers, times = some.select(n=as_number(column.given).count(), t=_as_time(column, None).count()).row(0)
    if numbers == times == 0:
        return "words" if len(some) else "nothing"
    return "number" if numbers > times else "time"


def missing(text: pl.Expr) -> pl.Expr:
    """Whether text says that there is nothing."""
    return text.str.to_lowercase().is_in(MISSING).fill_null(True)


# --- numbers ---


def as_number(column: pl.Expr) -> pl.Expr:
    """Numbers, and text that is one; null where it is none, or not finite."""
    number = column.cast(pl.Float64, strict=False)
    return pl.when(number.is_finite()).then(number)


def _whole(column: pl.Expr, factor: float) -> pl.Expr:
    """Numbers as whole numbers; what is no number is missing. Whole numbers keep all their digits."""
    number, exact = as_number(column), column.cast(pl.Int64, strict=False)
    integers = exact * round(factor) if factor >= 1 else exact // round(1 / factor)
    rounded = (number * factor).round().cast(pl.Int64, strict=False)
    return pl.when(number == number.round()).then(pl.coalesce(integers, rounded)).otherwise(rounded)


def _unit(columns: Sequence[Column]) -> str:
    """What numbers are in: rounds, or seconds (or less) since 1970, or seconds with fractions."""
    units, low = {}, {}
    for column in columns:
        number = as_number(column.given)
        digits = number.cast(pl.Int64, strict=False).cast(pl.String).str.contains(DIGITS)
        whole = (number == number.round()).all()
        least, most, whole_, dates = collect(
            column.frame.select(low=number.min(), high=number.max(), whole=whole, dates=digits.all())
        ).row(0)
        if least is None:
            continue
        if whole_ and dates:
            form = "%Y%m%d" if most < 1e8 else "%Y%m%d%H%M%S"
            raise InvalidArgument(
                f"{column.name!r} holds numbers such as {int(least)}, which may be dates or rounds: say which with "
                f"time_format={form!r} or unit='rounds'"
            )
        low[column.name] = least
        inside = (u for u, f in UNITS.items() if EPOCH[0] * 1e6 <= least * f and most * f <= EPOCH[1] * 1e6)
        units[column.name] = next(inside, "rounds" if whole_ else "s")
        if units[column.name] == "s" and not EPOCH[0] <= least:
            units[column.name] = "some s"
    known = set(units.values())
    if len(known) > 1 and known & set(UNITS):
        told = ", ".join(f"{name!r} ({low[name]:.10g}, ...) looks like {unit}" for name, unit in units.items())
        raise InvalidArgument(
            f"numbers must be on one clock: {told.replace('some s', 's')}; say with unit what they are"
        )
    return next(iter(units.values()), "rounds").removeprefix("some ")


# --- times ---


def _as_time(column: Column, time_format: str | None) -> pl.Expr:
    """Microseconds since 1970; text without a time zone is taken for UTC."""
    dtype, given = column.dtype, column.given
    if dtype.is_temporal():
        return given.cast(pl.Datetime("us", getattr(dtype, "time_zone", None))).to_physical()
    if time_format is None:
        return iso(given)
    if dtype.is_numeric():
        given = given.cast(pl.Int64, strict=False).cast(pl.String)
    zone = "UTC" if "%z" in time_format or "%#z" in time_format else None
    return given.str.to_datetime(time_format, time_unit="us", time_zone=zone, strict=False).to_physical()


def iso(text: pl.Expr) -> pl.Expr:
    """ISO text as microseconds since 1970; null where it is not."""
    return text.map_batches(_iso, return_dtype=pl.Int64, is_elementwise=True)


def _iso(given: pl.Series) -> pl.Series:
    """ISO text as microseconds since 1970; what is not is null. A way to write times that is not met costs nothing."""
    found = pl.Series(given.name, [None], pl.Int64).new_from_index(0, len(given))
    text = given.str.strip_chars().str.replace("T", " ", literal=True)
    good, zoned = (text.str.contains(pattern).fill_null(False) for pattern in (ISO, ZONED))
    timed, exact = text.str.len_bytes() > 10, text.str.slice(16, 1) == ":"
    for which, form, zone in (
        (exact & ~zoned, "%Y-%m-%d %H:%M:%S%.f", None),
        (exact & zoned, "%Y-%m-%d %H:%M:%S%.f%#z", "UTC"),
        (~timed, "%Y-%m-%d", None),
        (timed & ~exact & ~zoned, "%Y-%m-%d %H:%M", None),
        (timed & ~exact & zoned, "%Y-%m-%d %H:%M%#z", "UTC"),
    ):
        chosen = good & which
        if chosen.any():
            these = text if chosen.all() else text.zip_with(chosen, text.clear(1))
            read = these.str.to_datetime(form, time_unit="us", time_zone=zone, strict=False).to_physical()
            found = read.zip_with(chosen, found)
    return found


def read_moment(kind: Kind, given: Any) -> int:
    """When the log was taken, from what a person wrote."""
    if isinstance(given, str):
        try:
            given = float(given) if kind == "rounds" else datetime.fromisoformat(given)
        except ValueError:
            wanted = "a round" if kind == "rounds" else "a time such as 2026-01-31T12:00"
            raise InvalidArgument(f"as_of must be {wanted}, got {given!r}") from None
    if isinstance(given, date) and not isinstance(given, datetime):
        given = datetime(given.year, given.month, given.day)
    if isinstance(given, datetime):
        if kind == "rounds":
            raise InvalidArgument(f"as_of must be a round, as the log has rounds, got {given}")
        return round((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * 1e6)
    return round(require.real("as_of", given) * (1e6 if kind == "times" else 1.0))


def read_window(kind: Kind, given: Any) -> int:
    """How long feedback counts, from what a person wrote: 7d, 36h, 30min; or a number of rounds.

    >>> read_window("times", "90min"), read_window("rounds", "500")
    (5400000000, 500)
    >>> read_window("times", 7)
    Traceback (most recent call last):
    belated.errors.InvalidArgument: window must say what it is in, such as 7d, 36h or 30min, got 7
    """
    if isinstance(given, timedelta) and kind == "times":
        found, size = given.total_seconds(), 1e6
    else:
        matched = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(given))
        if kind == "rounds":
            if matched is None or matched[2] or float(matched[1]) % 1:
                raise InvalidArgument(f"window must be a number of rounds, as the log has rounds, got {given!r}")
            found, size = float(matched[1]), 1.0
        else:
            if matched is None or matched[2] not in SPANS:
                raise InvalidArgument(f"window must say what it is in, such as 7d, 36h or 30min, got {given!r}")
            found, size = float(matched[1]), SPANS[matched[2]] * 1e6
    if found <= 0:
        raise InvalidArgument(f"window must be > 0, got {given!r}")
    return round(found * size)
