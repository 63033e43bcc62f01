"""A log as it was given, and which of its columns is what."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from belated.errors import InvalidArgument
from belated.logs.join import OBSERVED, find_keys, join
from belated.logs.source import Shelf, collect, plain_reading, scan
from belated.logs.times import Clock, Column, Kind, read_clocks, read_window
from belated.spelling import nearest

#: The columns of the service's export, which are looked for where nothing else is said.
EXPORT = {
    "action": "action",
    "probability": "probability",
    "reward": "value",
    "decided": "decided_at",
    "observed": "closed_at",
    "context": "context",
}
#: What the service says of a decision, and what of it is an end without feedback.
STATES, ENDED = ("open", "closed", "cancelled", "expired"), ("cancelled", "expired")


@dataclass(frozen=True, eq=False)
class Table:
    """All columns of a log, what they are called, and how its clocks are read.

    `clocks` are expressions over `frame`: `d` (decided), `o` (observed), `w` (until when a decision was watched for its
    feedback; after that none counts), each where there is one, and `s`, times up to which the log surely goes.
    """

    frame: pl.LazyFrame
    names: dict[str, str | None]
    kind: Kind = "rounds"
    asked: str = ""  #: what text in the clocks must be
    clocks: dict[str, pl.Expr] = field(default_factory=dict)
    given: dict[str, Clock] = field(default_factory=dict)  #: d, o and w as they were given
    left_out: dict[str, int] = field(default_factory=dict)  #: rows of the feedback, by reason
    shelf: Shelf | None = None
    joined: bool = False
    states: bool = False  #: whether its column `state` is that of the service's export

    def rows(self, frame: pl.LazyFrame, **more: pl.Expr) -> pl.LazyFrame:
        """The clocks of a frame with the columns of this one, what is odd in them, and more."""
        odd = {f"odd_{name}": clock.odd for name, clock in self.given.items()}
        told = {f"given_{name}": clock.given for name, clock in self.given.items()}
        return frame.select(**self.clocks, **odd, **told, **more)

    def select(self, **more: pl.Expr) -> pl.LazyFrame:
        """The same of this one, on the shelf if it takes a join to have it."""
        found = self.rows(self.frame, **more)
        return self.shelf.keep(found) if self.joined and self.shelf is not None else found


def columns_of(frame: pl.LazyFrame | pl.DataFrame) -> dict[str, pl.DataType]:
    return dict(frame.collect_schema())


def find_column(schema: Mapping[str, Any], role: str, name: str | None, needed: bool, what: str = "log") -> str | None:
    """The column that plays a role; None where it was not named, is not there and need not be."""
    wanted = EXPORT.get(role) if name is None else name
    if wanted is None or wanted in schema:
        return wanted
    if name is None and not needed:
        return None
    hint = nearest(wanted, schema) or f"it has {', '.join(schema) or 'none'}"
    if any("\0" in name for name in schema):
        hint = "text must be UTF-8, and is not"
    elif len(schema) == 1 and any(sign in next(iter(schema)) for sign in ";\t|"):
        hint = f"it has one, {next(iter(schema))!r}: columns must be separated by commas, in .tsv files by tabs"
    raise InvalidArgument(f"the {what} has no column {wanted!r} for {role}; {hint}")


def open_table(
    source: Any,
    named: Mapping[str, str | None],
    needed: Collection[str],
    *,
    feedback: Any = None,
    on: str | None = None,
    watched: str | None = None,
    window: Any = None,
    unit: str | None = None,
    time_format: str | None = None,
    file_format: str | None = None,
    text: Collection[str] = (),
) -> Table:
    """A log, or two tables that are one, with the columns of each role; nothing is read but what is needed for that.

    `named` are columns by role; those that are None are looked for as an export has them, and refused if `needed`.
    """
    if (feedback is None) != (on is None):
        raise InvalidArgument("feedback and on go together: another table, and the column by which it is joined")
    roles = {role: EXPORT.get(role) if name is None else name for role, name in named.items()}
    words = {name for name in (*roles.values(), watched, *text, *str(on or "").split("=")) if name}
    shelf = Shelf()
    left = right = scan(source, file_format, words, shelf)
    if feedback is not None:
        right = scan(feedback, file_format, words, shelf)
    with plain_reading(source):
        schema = columns_of(left)
    with plain_reading(source if feedback is None else feedback):
        other = columns_of(right)

    def find(role: str, name: str | None) -> tuple[str | None, bool]:
        """The column, and whether it is one of the feedback."""
        if feedback is None or role not in ("observed", "reward"):
            return find_column(schema, role, name, role in needed), False
        theirs = roles[role] in other
        if theirs or role == "observed":
            return find_column(other, role, name, role in needed, "feedback"), True
        return find_column(schema, role, name, role in needed), False

    found = {role: find(role, name) for role, name in named.items()}
    names = {role: name for role, (name, _) in found.items()}
    names["watched"] = None if watched is None else find_column(schema, "watched", watched, True)
    decided, observed = names.get("decided"), names.get("observed")
    if decided is None:
        for role in ("observed", "watched"):
            if names.get(role) is not None:
                raise InvalidArgument(
                    f"{names[role]!r} says until when feedback was {role}: say with decided when decisions were made"
                )
        if window is not None:
            raise InvalidArgument("window needs to know when decisions were made: say with decided")
    columns = [
        Column(role, frame, name, types[name])
        for role, name, frame, types in (
            ("decided", decided, left, schema),
            ("observed", observed, right, other),
            ("watched", names["watched"], left, schema),
        )
        if name is not None
    ]
    with plain_reading(source):
        kind, asked, read = read_clocks(columns, unit, time_format) if columns else ("rounds", "", [])
    clocks = {column.role: clock for column, clock in zip(columns, read, strict=True)}
    left_out: dict[str, int] = {}
    latest = None
    if feedback is not None:
        kept: dict[str, pl.Expr] = {}
        reward, theirs = found.get("reward", (None, False))
        if theirs and reward is not None:
            called = reward if reward not in schema else f"{reward} of the feedback"
            names["reward"], kept[called] = called, pl.col(reward)
        with plain_reading(feedback):
            keys = find_keys(str(on), schema, other)
            left, left_out, latest = join(left, right, keys, clocks.get("observed"), kept)
        if "observed" in clocks:
            came = pl.col(OBSERVED)
            clocks["observed"] = Clock(came, came, pl.lit(False))
    with plain_reading(source):
        closed = observed if feedback is None else None
        states = closed is not None and _states_known(left, schema, closed)
        made = _ends(left, schema, clocks, closed, kind, window, states)
    if latest is not None:  # up to then feedback was watched for, whosever it was
        made["s"] = pl.max_horizontal(made.get("s"), pl.lit(latest)) if "s" in made else pl.lit(latest)
    letters = (("d", "decided"), ("o", "observed"), ("w", "watched"))
    given = {letter: clocks[role] for letter, role in letters if role in clocks}
    return Table(left, names, kind, asked, made, given, left_out, shelf, feedback is not None, states)


def _ends(
    frame: pl.LazyFrame,
    schema: Mapping[str, Any],
    clocks: Mapping[str, Clock],
    observed: str | None,
    kind: Kind,
    window: Any,
    states: bool,
) -> dict[str, pl.Expr]:
    """The clocks, with what ends the wait for feedback: a column, a window, or a state of the service's export."""
    if "decided" not in clocks:
        return {}
    made = {"d": clocks["decided"].value}
    ends = []
    if "observed" in clocks:
        made["o"] = clocks["observed"].value
    if "watched" in clocks:
        made["s"] = clocks["watched"].value
        ends.append(made["s"])
    if states and observed is not None:
        over = pl.col("state").is_in(ENDED).fill_null(False)
        closed = pl.when(over).then(made["o"])
        made["o"] = pl.when(~over).then(made["o"])
        made["s"] = pl.max_horizontal(closed, *ends) if ends else closed
        ends.append(closed)
        if "expires_at" in schema and schema["expires_at"] == schema[observed]:
            due = Column("expires", frame, "expires_at", schema["expires_at"])
            decided = Column("decided", frame, observed, schema[observed])
            ends.append(read_clocks([decided, due])[2][1].value)
    if window is not None:
        ends.append(made["d"] + read_window(kind, window))
    if ends:
        made["w"] = ends[0] if len(ends) == 1 else pl.min_horizontal(*ends)
    return made


def _states_known(frame: pl.LazyFrame, schema: Mapping[str, Any], observed: str) -> bool:
    """Whether a column `state` is that of the service's export."""
    if observed != EXPORT["observed"] or schema.get("state") != pl.String:
        return False
    state = pl.col("state")
    return bool(collect(frame.select((state.is_null() | state.is_in(STATES)).all())).item())
