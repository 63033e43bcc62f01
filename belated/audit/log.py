"""A log as a lazy polars frame of whole numbers: when each decision was made, and when its feedback came.

Times are microseconds since 1970, rounds are rounds. The columns are `d` (decided), `o` (observed; null if not by the
time the log was taken), `a` (action, a number) and `y` (class of the outcome, a number), the last two where given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import polars as pl

from belated import catalog, require
from belated.errors import InvalidArgument

#: Kinds of file, by the end of the name.
FORMATS = {"csv": "csv", "tsv": "csv", "parquet": "parquet", "pq": "parquet", "jsonl": "jsonl", "ndjson": "jsonl"}
#: What one unit of a column of numbers is, in microseconds; rounds are no time.
UNITS = {"s": 1_000_000.0, "ms": 1_000.0, "us": 1.0, "ns": 0.001}
#: Seconds since 1970 of 1990 and of 2100: numbers in between are taken for times.
EPOCH = (631_152_000, 4_102_444_800)
#: Times as text, after T has become a space; others, such as 03/04/2024, could be read in two ways.
ISO = r"^\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d(\.\d+)?)?( ?(Z|[+-]\d\d(:?\d\d)?))?)?$"
#: The end of a time with a zone.
ZONED = r":\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
#: Text in small letters that says that there is nothing.
MISSING = ("", "null", "none", "nan", "na", "n/a", "nat")
#: So many values of a column of text say whether it holds times or numbers.
SAMPLE = 1000
#: More actions than that are taken for a mistake, such as a column of identifiers.
MOST_ACTIONS = 1000
#: Rewards of so few values are compared value by value, others below and above their mean.
MOST_CLASSES = 5
#: The share of rows that make no sense, such as feedback before its decision, from which on the log is refused.
BACKWARDS = 0.01


@dataclass(frozen=True)
class Log:
    """A log that makes sense, and the first things to know about it."""

    frame: pl.LazyFrame
    kind: Literal["times", "rounds"]
    decisions: int
    came: int  #: decisions whose feedback came by `as_of`
    first: int  #: the first decision
    last: int  #: the last one
    as_of: int  #: when the log was taken
    excluded: dict[str, int]  #: rows that were left out, by reason
    actions: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()  #: decisions of each action
    means: tuple[float, ...] | None = None  #: mean reward of each action's feedback, where rewards are numbers
    spread: tuple[float, float] | None = None  #: the least and the largest reward
    classes: tuple[str, ...] = ()  #: of outcomes
    longest: int = 0  #: the longest delay that was seen

    @property
    def scale(self) -> float:
        """Units in a second; 1 for rounds."""
        return 1e6 if self.kind == "times" else 1.0

    @property
    def unit(self) -> str:
        return "seconds" if self.kind == "times" else "rounds"


def read(
    source: Any,
    decided: str,
    observed: str,
    action: str | None = None,
    reward: str | None = None,
    as_of: Any = None,
    file_format: str | None = None,
    unit: str | None = None,
) -> Log:
    """Look through a log and say what is wrong with it, or what it is."""
    with plain_reading(source):
        raw = _scan(source, file_format, (decided, observed))
        schema = dict(raw.collect_schema())
        for name, column in (("decided", decided), ("observed", observed), ("action", action), ("reward", reward)):
            if column is not None and column not in schema:
                hint = catalog.nearest(column, schema) or f"there are {', '.join(schema)}"
                raise InvalidArgument(f"{name}: the log has no column {column!r}; {hint}")
        kind, wanted, clocks = _clocks(raw, schema, decided, observed, unit)
        frame = raw.select(
            **clocks,
            **({} if action is None else {"a": _label(action, schema[action])}),
            **({} if reward is None else {"r": _value(reward, schema[reward])}),
        ).with_columns(odd_d=_odd("d", schema[decided]), odd_o=_odd("o", schema[observed]))
        return _checked(frame, kind, wanted, decided, observed, action, reward, as_of)


@contextmanager
def plain_reading(source: Any) -> Iterator[None]:
    """What polars says about a file that it cannot read, as one of our errors."""
    try:
        yield
    except pl.exceptions.NoDataError:
        raise InvalidArgument(f"{_named(source)} is empty") from None
    except pl.exceptions.PolarsError as error:
        raise InvalidArgument(f"{_named(source)} cannot be read: {str(error).splitlines()[0]}") from None


def collect(frame: pl.LazyFrame) -> pl.DataFrame:
    """Run a query in pieces that fit into memory."""
    return frame.collect(engine="streaming")


def _named(source: Any) -> str:
    return repr(str(source)) if isinstance(source, str | Path) else "the log"


def _scan(source: Any, file_format: str | None, clocks: tuple[str, str]) -> pl.LazyFrame:
    if isinstance(source, pl.LazyFrame):
        return source
    if not isinstance(source, str | Path):
        try:
            return (source if isinstance(source, pl.DataFrame) else pl.DataFrame(source)).lazy()
        except (TypeError, ValueError):
            raise InvalidArgument(f"a log is a file or a frame, got {type(source).__name__}") from None
    path = Path(source)
    if not path.is_file():
        raise InvalidArgument(f"there is no file {str(source)!r}")
    if path.stat().st_size == 0:
        raise InvalidArgument(f"{str(source)!r} is empty")
    end = path.suffix.lower().lstrip(".")
    if file_format is None and end not in FORMATS:
        raise InvalidArgument(f"{str(source)!r} must end in one of .{', .'.join(FORMATS)}, or its format must be given")
    chosen = require.one_of("format", file_format or FORMATS[end], ("csv", "parquet", "jsonl"))
    if chosen == "parquet":
        return pl.scan_parquet(path)
    if chosen == "jsonl":
        return pl.scan_ndjson(path, infer_schema_length=10_000)
    text = dict.fromkeys(clocks, pl.String)  # polars would guess which of two numbers is the month
    separator = "\t" if end == "tsv" else ","
    return pl.scan_csv(path, separator=separator, schema_overrides=text, infer_schema_length=10_000)


# --- columns ---


def _clocks(
    raw: pl.LazyFrame, schema: dict[str, pl.DataType], decided: str, observed: str, unit: str | None
) -> tuple[Literal["times", "rounds"], str, dict[str, pl.Expr]]:
    """Both columns as whole numbers on one clock and as they were given, and what text in them must be."""
    if unit is not None:
        require.one_of("unit", unit, ("rounds", *UNITS))
    types = {name: schema[name] for name in (decided, observed)}
    columns = {name: _column(name, dtype) for name, dtype in types.items()}
    sorts = {name: _sort(raw, name, dtype) for name, dtype in types.items()}
    held = {
        name: {"time": "times as text", "number": "numbers as text"}.get(sorts[name], sorts[name])
        if dtype == pl.String
        else dtype
        for name, dtype in types.items()
    }
    if sorts[observed] in ("nothing", "words"):
        sorts[observed] = "time" if sorts[decided] == "words" else sorts[decided]
    if sorts[decided] in ("nothing", "words"):
        sorts[decided] = sorts[observed] if sorts[decided] == "nothing" else "time"
    if (sorts[decided] == "number") != (sorts[observed] == "number"):
        told = ", ".join(f"{name!r} holds {what}" for name, what in held.items())
        raise InvalidArgument(f"decided and observed must both be times or both be numbers: {told}")
    kind: Literal["times", "rounds"] = "times"
    if sorts[decided] != "number":
        if unit is not None:
            raise InvalidArgument(f"unit is for columns of numbers; {decided!r} holds {held[decided]}")
        wanted = "times must be ISO, such as 2026-01-31T12:00"
        d, o = (_as_time(columns[name], types[name]) for name in (decided, observed))
    else:
        wanted = "numbers are wanted"
        unit = unit or _guess(raw, columns[decided])
        if unit == "rounds":
            kind = "rounds"
            for name, column in columns.items():
                number = _as_number(column)
                if not _all(raw, number.is_null() | (number == number.round())):
                    raise InvalidArgument(
                        f"{name!r} must hold whole numbers of rounds; for times give their unit, such as s"
                    )
        d, o = (_whole(columns[name], UNITS.get(unit, 1.0)) for name in (decided, observed))
    return kind, wanted, {"d": d, "o": o, "given_d": columns[decided], "given_o": columns[observed]}


def _sort(raw: pl.LazyFrame, name: str, dtype: pl.DataType) -> str:
    """What a column holds: time, number, nothing, or words that are neither."""
    if dtype.is_temporal() and dtype != pl.Time and dtype != pl.Duration:
        return "time"
    if dtype.is_numeric():
        return "number"
    if dtype == pl.Null:
        return "nothing"
    if dtype != pl.String:
        raise InvalidArgument(f"{name!r} must hold times or numbers, it holds {dtype}")
    column = _column(name, dtype)
    some = collect(raw.select(name).filter(~_missing(column)).head(SAMPLE))
    numbers, times = some.select(n=_as_number(column).count(), t=_as_time(column, dtype).count()).row(0)
    if numbers == times == 0:
        return "words" if len(some) else "nothing"
    return "number" if numbers > times else "time"


def _all(raw: pl.LazyFrame, holds: pl.Expr) -> bool:
    return bool(collect(raw.select(holds.all())).item())


def _column(name: str, dtype: pl.DataType) -> pl.Expr:
    return pl.col(name).str.strip_chars() if dtype == pl.String else pl.col(name)


def _missing(text: pl.Expr) -> pl.Expr:
    return text.str.to_lowercase().is_in(MISSING).fill_null(True)


def _odd(clock: str, dtype: pl.DataType) -> pl.Expr:
    """Whether something was given that could not be read."""
    read, given = pl.col(clock), pl.col(f"given_{clock}")
    if dtype == pl.String:
        return ~_missing(pl.when(read.is_null()).then(given))
    if dtype.is_float():
        return (given.is_not_nan() & read.is_null()).fill_null(False)
    return pl.lit(False)


def _as_number(column: pl.Expr) -> pl.Expr:
    number = column.cast(pl.Float64, strict=False)
    return pl.when(number.is_finite()).then(number)


def _whole(column: pl.Expr, factor: float) -> pl.Expr:
    """Numbers as whole numbers; what is no number is missing. Whole numbers keep all their digits."""
    number, exact = _as_number(column), column.cast(pl.Int64, strict=False)
    integers = exact * round(factor) if factor >= 1 else exact // round(1 / factor)
    rounded = (number * factor).round().cast(pl.Int64, strict=False)
    return pl.when(number == number.round()).then(pl.coalesce(integers, rounded)).otherwise(rounded)


def _as_time(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Microseconds since 1970; text without a time zone is taken for UTC, and must be ISO."""
    if dtype != pl.String:
        return column.cast(pl.Datetime("us", getattr(dtype, "time_zone", None))).to_physical()
    return column.map_batches(_iso, return_dtype=pl.Int64, is_elementwise=True)


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


def _guess(raw: pl.LazyFrame, column: pl.Expr) -> str:
    """What a column of numbers is in: rounds, or seconds (or less) since 1970, or seconds with fractions."""
    number = _as_number(column)
    low, high, whole = collect(
        raw.select(low=number.min(), high=number.max(), whole=(number == number.round()).all())
    ).row(0)
    if low is None:
        return "rounds"
    for unit, factor in UNITS.items():
        if EPOCH[0] * 1e6 <= low * factor and high * factor <= EPOCH[1] * 1e6:
            return unit
    return "rounds" if whole else "s"


def _label(name: str, dtype: pl.DataType) -> pl.Expr:
    if dtype.is_integer() or dtype == pl.String:
        return pl.col(name)
    return pl.col(name).cast(pl.String)


def _value(name: str, dtype: pl.DataType) -> pl.Expr:
    if dtype.is_numeric() or dtype == pl.Boolean:
        return pl.col(name).cast(pl.Float64).fill_nan(None)
    return pl.col(name).cast(pl.String)


# --- the first look ---


def _checked(
    frame: pl.LazyFrame,
    kind: Literal["times", "rounds"],
    asked: str,
    decided: str,
    observed: str,
    action: str | None,
    reward: str | None,
    as_of: Any,
) -> Log:
    d, o = pl.col("d"), pl.col("o")
    odd = pl.col("odd_o") & d.is_not_null()
    wanted = {
        "rows": pl.len(),
        "undated": d.null_count(),
        "odd_d": pl.col("odd_d").sum(),
        "odd": odd.sum(),
        "backwards": (o < d).sum(),
        "last": pl.max_horizontal(d.max(), o.max()),
    }
    if action is not None:
        wanted |= {"actions": pl.col("a").approx_n_unique(), "unnamed": pl.col("a").null_count()}
    if reward is not None:
        wanted |= {"values": pl.col("r").drop_nulls().approx_n_unique()}
    seen = collect(frame.select(**wanted)).row(0, named=True)
    if seen["rows"] == 0:
        raise InvalidArgument("the log is empty")
    if seen["undated"] > BACKWARDS * seen["rows"]:
        share = "any" if seen["undated"] == seen["rows"] else f"{seen['undated']:,}"
        got = _example(frame.filter("odd_d"), "given_d")
        raise InvalidArgument(
            f"{decided!r} holds no time in {share} of {seen['rows']:,} rows"
            + (f"; {asked}, got {got!r}" if got else "")
        )
    if seen["odd"] > BACKWARDS * seen["rows"]:
        raise InvalidArgument(
            f"{observed!r} cannot be read in {seen['odd']:,} of {seen['rows']:,} rows; {asked}, got "
            f"{_example(frame.filter(odd), 'given_o')!r}; up to {BACKWARDS:.0%} are left out"
        )
    if seen["backwards"] > BACKWARDS * seen["rows"]:
        raise InvalidArgument(
            f"{observed!r} is before {decided!r} in {seen['backwards']:,} of {seen['rows']:,} rows; "
            f"up to {BACKWARDS:.0%} are left out, more are taken for a mistake"
        )
    if seen.get("actions", 0) > MOST_ACTIONS * 1.05:
        raise InvalidArgument(
            f"{action!r} holds about {seen['actions']:,} actions; at most {MOST_ACTIONS:,} can be told"
        )
    moment = int(seen["last"]) if as_of is None else _moment(kind, as_of)
    good = frame
    if seen["undated"] or seen["odd"] or seen["backwards"] or seen.get("unnamed"):
        named = pl.lit(True) if action is None else pl.col("a").is_not_null()
        good = good.filter(d.is_not_null() & ~odd & (o.is_null() | (o >= d)) & named)
    if moment < seen["last"]:
        good = good.filter(d <= moment).with_columns(o=pl.when(o <= moment).then(o))
    counted = collect(
        good.select(rows=pl.len(), came=o.count(), first=d.min(), last=d.max(), longest=(o - d).max())
    ).row(0, named=True)
    if counted["rows"] == 0:
        raise InvalidArgument(f"no decision was made by {show_moment(kind, moment)}, when the log was taken")
    if counted["came"] == 0:
        raise InvalidArgument(
            f"no feedback had come by {show_moment(kind, moment)}: {observed!r} is empty in all "
            f"{many(counted['rows'], 'row')}, so nothing is known about delays"
        )
    excluded = {
        "decided is missing": seen["undated"] - seen["odd_d"],
        "decided cannot be read": seen["odd_d"],
        "observed cannot be read": seen["odd"],
        "observed before decided": seen["backwards"],
        "action is missing": seen.get("unnamed", 0),
    }
    excluded["decided after the log was taken"] = max(0, seen["rows"] - counted["rows"] - sum(excluded.values()))
    log = Log(
        good,
        kind,
        counted["rows"],
        counted["came"],
        counted["first"],
        counted["last"],
        moment,
        {reason: count for reason, count in excluded.items() if count},
        longest=counted["longest"],
    )
    return _named_actions(log, reward, seen.get("values", 0), action is not None)


def _example(odd: pl.LazyFrame, column: str) -> str | None:
    found = collect(odd.select(column).head(1))
    return str(found.item()) if len(found) else None


def _named_actions(log: Log, reward: str | None, values: int, has_action: bool) -> Log:
    """With actions and outcomes as small numbers."""
    frame, numeric = log.frame, reward is not None and log.frame.collect_schema()["r"].is_numeric()
    settled: dict[str, Any] = {}
    came = pl.col("o").is_not_null()
    if reward is not None:
        classes, y, spread = _classes(frame, reward, values, numeric)
        settled |= {"classes": classes, "spread": spread}
        frame = frame.with_columns(y=y)
    if has_action:
        mean = pl.col("r").filter(came).mean() if numeric else pl.lit(None, pl.Float64)
        table = collect(frame.group_by("a").agg(n=pl.len(), mean=mean)).sort("a")
        if len(table) > MOST_ACTIONS:
            raise InvalidArgument(f"there are {len(table):,} actions; at most {MOST_ACTIONS:,} can be told apart")
        labels = table["a"]
        frame = frame.with_columns(a=_code("a", labels))
        means = table["mean"]
        settled |= {
            "actions": tuple(map(str, labels)),
            "counts": tuple(table["n"]),
            "means": None if not numeric or means.null_count() else tuple(means),
        }
    wanted = ["d", "o", *(["a"] if has_action else []), *(["y"] if reward is not None else [])]
    return Log(**{**log.__dict__, **settled, "frame": frame.select(wanted)})


def _classes(
    frame: pl.LazyFrame, reward: str, values: int, numeric: bool
) -> tuple[tuple[str, ...], pl.Expr, tuple[float, float] | None]:
    """Names of the classes of outcomes, the class of a row, and the range of the rewards."""
    came, r = frame.filter(pl.col("o").is_not_null()), pl.col("r")
    spread = None
    if numeric:
        low, high, mean = collect(came.select(low=r.min(), high=r.max(), mean=r.mean())).row(0)
        if low is None:
            raise InvalidArgument(f"{reward!r} is empty wherever feedback came")
        if not (math.isfinite(low) and math.isfinite(high)):
            raise InvalidArgument(f"{reward!r} must be finite, it goes from {low} to {high}")
        spread = (low, high)
        if values > MOST_CLASSES:
            return (f"below {mean:.4g}", f"{mean:.4g} and above"), (r >= mean).cast(pl.Int32), spread
    elif values > MOST_CLASSES * 1.05:
        raise InvalidArgument(
            f"{reward!r} holds about {values:,} words; numbers, or up to {MOST_CLASSES} words, can be told"
        )
    found = collect(came.select(r.drop_nulls().unique())).to_series().sort()
    return tuple(f"{v:g}" if numeric else str(v) for v in found), _code("r", found), spread


def _code(name: str, labels: pl.Series) -> pl.Expr:
    """The place of a value among the labels; null if it is not there."""
    if labels.dtype.is_numeric() and (labels == pl.Series(range(len(labels)))).all():
        return pl.col(name).cast(pl.Int32)
    places = pl.Series(range(len(labels)), dtype=pl.Int32)
    return pl.col(name).replace_strict(labels, places, default=None, return_dtype=pl.Int32)


def _moment(kind: str, given: Any) -> int:
    """When the log was taken, from what a person wrote."""
    if isinstance(given, str):
        try:
            given = float(given) if kind == "rounds" else datetime.fromisoformat(given)
        except ValueError:
            wanted = "a round" if kind == "rounds" else "a time such as 2026-01-31T12:00"
            raise InvalidArgument(f"as_of must be {wanted}, got {given!r}") from None
    if isinstance(given, datetime):
        if kind == "rounds":
            raise InvalidArgument(f"as_of must be a round, as the log has rounds, got {given}")
        return round((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * 1e6)
    return round(require.real("as_of", given) * (1e6 if kind == "times" else 1.0))


def many(count: int, word: str) -> str:
    """A number of things.

    >>> many(1, "row"), many(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def show_moment(kind: str, moment: int) -> str:
    """A time or a round as people read it."""
    if kind == "rounds":
        return f"round {moment:,}"
    return f"{datetime.fromtimestamp(moment / 1e6, UTC):%Y-%m-%d %H:%M:%S} UTC"
