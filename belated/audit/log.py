"""A log as a lazy polars frame of whole numbers: when each decision was made, and when its feedback came.

Times are microseconds since 1970, rounds are rounds. The columns are `d` (decided), `o` (observed; null if not by the
time the log was taken), `w` (until when the decision was watched, if not all were until then), `a` (action, a number)
and `y` (class of the outcome, a number), the last two where given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import polars as pl

from belated import logs
from belated.errors import InvalidArgument
from belated.logs import collect
from belated.logs.look import LATE
from belated.logs.numbers import as_text, holds_numbers, number_of
from belated.logs.times import Kind

#: More actions than that are taken for a mistake, such as a column of identifiers.
MOST_ACTIONS = 1000
#: Rewards of so few values are compared value by value, others below and above their mean.
MOST_CLASSES = 5


@dataclass(frozen=True)
class Log:
    """A log that makes sense, and the first things to know about it."""

    frame: pl.LazyFrame
    kind: Kind
    decisions: int
    came: int  #: decisions whose feedback came by `as_of`
    first: int  #: the first decision
    last: int  #: the last one
    as_of: int  #: when the log was taken
    excluded: dict[str, int]  #: rows that were left out, by reason
    ended: int = 0  #: decisions without feedback that were no longer watched at `as_of`
    actions: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()  #: decisions of each action
    means: tuple[float, ...] | None = None  #: mean reward of each action's feedback, where rewards are numbers
    spread: tuple[float, float] | None = None  #: the least and the largest reward
    classes: tuple[str, ...] = ()  #: of outcomes
    longest: int = 0  #: the longest delay that was seen
    watched: bool = False  #: whether there is a column `w`
    shelf: Any = None  #: what the frame is read from, if it is kept for that

    @property
    def open(self) -> int:
        """Decisions that were waiting for their feedback when the log was taken."""
        return self.decisions - self.came - self.ended

    @property
    def scale(self) -> float:
        """Units in a second; 1 for rounds."""
        return 1e6 if self.kind == "times" else 1.0

    @property
    def unit(self) -> str:
        return "seconds" if self.kind == "times" else "rounds"


def read(
    source: Any,
    decided: str | None = None,
    observed: str | None = None,
    action: str | None = None,
    reward: str | None = None,
    as_of: Any = None,
    file_format: str | None = None,
    **reading: Any,
) -> Log:
    """Look through a log and say what is wrong with it, or what it is; `reading` is what `logs.open_table` takes."""
    named = {"decided": decided, "observed": observed}
    named |= {role: name for role, name in (("action", action), ("reward", reward)) if name is not None}
    table = logs.open_table(source, named, ("decided", "observed"), file_format=file_format, **reading)
    with logs.plain_reading(source):
        return _looked_through(table, as_of)


def _looked_through(table: logs.Table, as_of: Any) -> Log:
    schema = logs.columns_of(table.frame)
    action, reward = table.names.get("action"), table.names.get("reward")
    more: dict[str, pl.Expr] = {}
    bad: dict[str, pl.Expr] = {}
    wanted: dict[str, pl.Expr] = {}
    if action is not None:
        more["a"] = _label(action, schema[action])
        bad["action is missing"] = pl.col("a").is_null()
        wanted["actions"] = pl.col("a").approx_n_unique()
    numeric = False
    if reward is not None:
        dtype = schema[reward]
        numeric = holds_numbers(table.frame, reward, dtype)
        more["r"] = _label(reward, dtype)
        if numeric:
            more["r"], odd = number_of(reward, dtype)
            more["odd_r"], more["given_r"] = odd, as_text(reward)
            bad["reward is no number"] = pl.col("odd_r")
        wanted["values"] = pl.col("r").drop_nulls().approx_n_unique()
    found = logs.look(table, table.select(**more), as_of=as_of, bad=bad, wanted=wanted)
    if found.counted.get("actions", 0) > MOST_ACTIONS * 1.05:
        raise InvalidArgument(
            f"{action!r} holds about {found.counted['actions']:,} actions; at most {MOST_ACTIONS:,} can be told"
        )
    if not found.came:
        late = found.left_out.get(LATE, 0)
        why = (
            f"in {logs.many(late, 'row')} it came when the decision was no longer watched"
            if late
            else (f"{table.names['observed']!r} is empty in all {logs.many(found.rows, 'row')}")
        )
        raise InvalidArgument(
            f"no feedback had come by {logs.show_moment(table.kind, found.as_of)}: {why}, so nothing is known about "
            "delays"
        )
    log = Log(
        found.frame,
        table.kind,
        found.rows,
        found.came,
        found.first,
        found.last,
        found.as_of,
        found.left_out,
        found.ended,
        longest=found.longest,
        watched="w" in table.clocks,
        shelf=table.shelf,
    )
    return _named_actions(log, reward, found.counted.get("values", 0), numeric, action is not None)


def _label(name: str, dtype: pl.DataType) -> pl.Expr:
    if dtype.is_nested():
        raise InvalidArgument(f"{name!r} must hold words or numbers, it holds {dtype}")
    column = pl.col(name)
    if dtype.is_float():  # as whole numbers become where some are missing
        whole = column.cast(pl.Int64, strict=False)
        return pl.when(column == whole).then(whole.cast(pl.String)).otherwise(column.fill_nan(None).cast(pl.String))
    return column if dtype.is_integer() or dtype == pl.String else column.cast(pl.String)


def _named_actions(log: Log, reward: str | None, values: int, numeric: bool, has_action: bool) -> Log:
    """With actions and outcomes as small numbers."""
    frame = log.frame
    settled: dict[str, Any] = {}
    came = pl.col("o").is_not_null()
    if reward is not None:
        classes, y, spread = _classes(frame, reward, values, numeric)
        settled |= {"classes": classes, "spread": spread}
        frame = frame.with_columns(y=y)
    if has_action:
        mean = pl.col("r").filter(came).mean() if numeric else pl.lit(None, pl.Float64)
        table = collect(frame.group_by("a").agg(n=pl.len(), mean=mean)).sort(_order(frame, "a"))
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
    wanted = [
        "d",
        "o",
        *(["w"] if log.watched else []),
        *(["a"] if has_action else []),
        *(["y"] if reward is not None else []),
    ]
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


def _order(frame: pl.LazyFrame, name: str) -> list[pl.Expr]:
    """Numbers as text in the order of numbers, behind them all else."""
    column = pl.col(name)
    if frame.collect_schema()[name] != pl.String:
        return [column]
    number = column.cast(pl.Int64, strict=False)
    return [number.is_null(), number, column]


def _code(name: str, labels: pl.Series) -> pl.Expr:
    """The place of a value among the labels; null if it is not there."""
    if labels.dtype.is_numeric() and (labels == pl.Series(range(len(labels)))).all():
        return pl.col(name).cast(pl.Int32)
    places = pl.Series(range(len(labels)), dtype=pl.Int32)
    return pl.col(name).replace_strict(labels, places, default=None, return_dtype=pl.Int32)
