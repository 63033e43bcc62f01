"""The columns of a log, checked one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated import logs
from belated.errors import InvalidArgument, InvalidFeedback, Unsupported
from belated.features import Category, Features, Hashed, Intercept
from belated.logs.numbers import as_text, holds_numbers, number_of
from belated.protocols import NEVER, Floats
from belated.replay.log import Whole
from belated.spelling import nearest

#: Without these there is no log.
NEEDED = ("action", "probability", "reward")
#: A column of more words is no side information, but identifiers or free text.
MOST_WORDS = 100


def check_marks(frame: Any) -> None:
    """Refuse what the service's export itself marks as impossible to answer."""
    if "propensity" in frame.columns and not frame["propensity"].fill_null(False).all():
        raise Unsupported(
            "the log was made under a forecaster whose recorded probabilities are no propensities (under QPM-D a held "
            "action is played for certain): nothing can be said about other forecasters"
        )
    if {"name", "action"} <= set(frame.columns):
        called = frame.select("action", "name").drop_nulls().unique(maintain_order=True)
        for (action,), group in called.group_by(["action"], maintain_order=True):
            if len(group) > 1:
                raise Unsupported(
                    f"action {action} was {group['name'][0]!r} and later {group['name'][1]!r}: "
                    "replay the rounds before and after the replacement as two logs"
                )


@dataclass(frozen=True, eq=False)
class Times:
    """Of each decision, as the log was given: when it was made, and what became of its feedback."""

    made: Whole
    wait: Whole  #: rounds until its feedback came or it was given up; `NEVER` where neither is known
    late: NDArray[np.bool_]  #: feedback came when it was no longer watched
    full: NDArray[np.bool_]  #: it was watched to the end


def read_times(table: logs.Table, frame: Any, rewards: Floats) -> Times:
    """When decisions were made, and how many rounds each waited for its feedback."""
    count = len(frame)
    every, none = np.ones(count, bool), np.zeros(count, bool)
    if "d" not in table.clocks:
        return Times(np.arange(count), np.zeros(count, np.int64), none, every)
    at_once = {} if "o" in table.clocks else {"o": table.clocks["d"]}
    rows = table.rows(frame.lazy(), **at_once)
    found = logs.look(table, rows, most=0.0)
    read, given = found.frame.collect(), rows.collect()
    closed, full, late = read["o"], every, none
    if "w" in table.clocks:
        over = (given["w"] <= found.as_of).fill_null(False)
        late = (given["o"].is_not_null() & read["o"].is_null()).to_numpy()
        closed, full = closed.fill_null(given["w"].zip_with(over, given["w"].clear(count))), over.to_numpy()
    without = closed.is_null().to_numpy() & ~np.isnan(rewards)
    if without.any():
        name = table.names["observed"]
        raise InvalidArgument(f"{int(without.sum())} rows have a reward and no time of its observation in {name!r}")
    made, known = read["d"].to_numpy(), closed.is_not_null().to_numpy()
    ranks = np.empty(count, np.int64)
    order = np.argsort(made, kind="stable")
    ranks[order] = np.arange(1, count + 1)
    wait = np.searchsorted(made[order], closed.fill_null(0).to_numpy(), side="right") - ranks
    return Times(made, np.where(known, wait, NEVER).astype(np.int64), late, full)


def read_numbers(frame: Any, name: str, what: str) -> Floats:
    """A column of numbers, or of text that is numbers; NaN where there is none."""
    column = frame[name]
    if not holds_numbers(frame.lazy(), name, column.dtype):
        some = f" such as {column.drop_nulls()[0]!r}" if column.dtype.is_(_string()) and column.count() else ""
        raise Unsupported(f"{name} must hold {what}, which are numbers, got {column.dtype}{some}")
    value, odd = number_of(name, column.dtype)
    read = frame.select(value=value, odd=odd, given=as_text(name) if column.dtype == _string() else value)
    wrong = read.filter("odd")["given"]
    if len(wrong):
        raise InvalidArgument(f"{name} must hold {what}, got {wrong[0]!r} ({len(wrong)} such rows)")
    numbers: Floats = read["value"].fill_null(np.nan).to_numpy().astype(np.float64)
    return numbers


def _string() -> Any:
    import polars

    return polars.String


def read_rewards(frame: Any, name: str, low: float, high: float) -> Floats:
    if frame[name].dtype.is_nested():
        raise Unsupported(f"{name} holds the rewards of all actions: nothing must be estimated; see games.RewardTable")
    rewards = read_numbers(frame, name, "rewards")
    wrong = (rewards < low) | (rewards > high)
    if wrong.any():
        raise InvalidFeedback(
            f"{name} must lie in [{low:g}, {high:g}], got {rewards[wrong][0]:g} (and {int(wrong.sum()) - 1} more); "
            "reward_range (--range) says where rewards lie"
        )
    if np.isnan(rewards).all():
        raise InvalidArgument(f"{name} is empty: no reward was recorded")
    return rewards


def read_actions(frame: Any, name: str) -> tuple[Whole, tuple[str, ...], dict[str, int], list[str]]:
    """Actions as numbers from 0, what they are called, the number of each word for them, and what must be said."""
    import polars

    column = frame[name]
    if column.null_count():
        raise InvalidArgument(f"{name} is missing in {column.null_count()} rows of the log")
    if column.dtype == polars.String and column.str.contains(r"^-?\d{1,18}$").all():
        column = column.cast(polars.Int64)  # as a text file has them
    if column.dtype.is_float() and (column == column.round()).all() and column.is_finite().all():
        column = column.cast(polars.Int64)  # as pandas has them, where some were missing
    known = column.unique().sort()
    places = polars.Series(range(len(known)), dtype=polars.Int64)
    numbers: Whole = column.replace_strict(known, places, return_dtype=polars.Int64).to_numpy()
    labels = [str(label) for label in known]
    words = {label: number for number, label in enumerate(labels)}
    if not column.dtype.is_integer():
        return numbers, tuple(labels), words, []
    notes = []
    if known[0] < 0 or known[-1] >= len(known):
        some = ", ".join(labels[:3]) + (", ..." if len(labels) > 3 else "")
        notes.append(
            f"the actions of the log are {some}: others, if there are any, were never logged and cannot be asked"
        )
    if "name" in frame.columns:
        for action, label in frame.select(name, "name").drop_nulls().unique().iter_rows():
            labels[words[str(action)]] = str(label)
        words |= {label: number for number, label in enumerate(labels)}
    return numbers, tuple(labels), words, notes


def read_restricted(frame: Any, words: dict[str, int], actions: int) -> NDArray[np.bool_]:
    """In which decisions `allowed` leaves an action of the log out; it is empty, or says what could be chosen."""
    import polars

    if "allowed" not in frame.columns:
        return np.zeros(len(frame), bool)
    each, column = polars.element(), frame["allowed"]
    if column.dtype == polars.String:
        column = column.str.replace_all(r"""[\[\]"']""", "").str.split(",")
    if column.dtype != polars.List:
        return np.asarray(column.is_not_null(), bool)
    number = each.str.strip_chars().replace_strict(words, default=None, return_dtype=polars.Int64)
    known = column.cast(polars.List(polars.String)).list.eval(number.drop_nulls()).list.n_unique()
    return np.asarray((column.is_not_null() & (known < actions)).fill_null(False), bool)


def read_chances(frame: Any, name: str) -> Floats:
    chances = read_numbers(frame, name, "probabilities")
    missing, wrong = np.isnan(chances), (chances <= 0) | (chances > 1 + 1e-9)
    if missing.any():
        raise Unsupported(
            f"{name} is missing in {int(missing.sum())} of {len(chances)} rows: without the probabilities of the "
            "decisions nothing can be said about other forecasters"
        )
    if wrong.any():
        raise InvalidArgument(f"{name} must lie in (0, 1], got {chances[wrong][0]:g} ({int(wrong.sum())} such rows)")
    return np.minimum(chances, 1.0)


#: Columns of the context, or the features that they have.
Given = str | Sequence[str] | Features | None


def context_names(given: Given) -> list[str]:
    """Columns of the context whose text must stay as it is."""
    if isinstance(given, Features):
        return [each.name for _, each, _ in given.kept if isinstance(each, Category | Hashed)]
    return [given] if isinstance(given, str) else list(given or ())


def read_contexts(frame: Any, given: Given) -> tuple[Floats | None, Floats | None]:
    """Side information as rows of numbers, in which a word is a 1 in a place of its own; and, where it is one column of
    words, also their numbers from 0, in the order of the alphabet. Features say themselves what they become."""
    if isinstance(given, Features):
        return _by_features(frame, given)
    names = context_names(given)
    for name in names:
        if name not in frame.columns:
            hint = nearest(name, frame.columns) or f"it has {', '.join(frame.columns)}"
            raise InvalidArgument(f"the log has no column {name!r} for the context; {hint}")
    if not names:
        known = logs.EXPORT["context"]
        if known not in frame.columns or frame[known].null_count() == len(frame):
            return None, None
        names = [known]
    parts, words = [], None
    for name in names:
        part, codes = _context(frame, name)
        parts.append(part)
        words = codes if len(names) == 1 else None
    joined: Floats = np.concatenate(parts, axis=1).astype(np.float64)
    if not np.isfinite(joined).all():
        raise InvalidArgument(f"{', '.join(names)} must be finite numbers in every row")
    return joined, words


def _by_features(frame: Any, features: Features) -> tuple[Floats, Floats | None]:
    """Rows as the features have them: `user.plan` is a column of that name, or in the column `user`."""
    names = [each.name for _, each, _ in features.kept if not isinstance(each, Intercept)]
    found = {name: name if name in frame.columns else name.partition(".")[0] for name in names}
    for name, column in found.items():
        if column not in frame.columns:
            hint = nearest(name, frame.columns) or f"it has {', '.join(frame.columns)}"
            raise InvalidArgument(f"the log has no column {name!r} for the feature; {hint}")
    rows = frame.select(sorted(set(found.values()))).to_dicts()
    contexts = [_nested(row) for row in rows]
    joined = np.array([features.vector(each) for each in contexts])
    numbers = np.array([[float(features.number(each))] for each in contexts]) if features.values else None
    return joined, numbers


def _nested(row: dict[str, Any]) -> dict[str, Any]:
    """A row as an object, with objects in it where names have dots."""
    made: dict[str, Any] = {}
    for name, value in row.items():
        *parts, last = name.split(".")
        place = made
        for part in parts:
            place = place.setdefault(part, {})
        place[last] = value
    return made


def _context(frame: Any, name: str) -> tuple[Floats, Floats | None]:
    import polars

    column = frame[name]
    try:
        if column.dtype.is_nested():
            return np.array(column.to_list(), dtype=np.float64), None
        if holds_numbers(frame.lazy(), name, column.dtype):
            return read_numbers(frame, name, "side information")[:, None], None
    except (ValueError, TypeError, polars.exceptions.PolarsError) as error:
        said = f": {error}" if isinstance(error, InvalidArgument) else ""
        raise InvalidArgument(f"{name} must hold a number, or as many numbers in each row{said}") from None
    if column.dtype not in (polars.String, polars.Categorical, polars.Enum):
        raise InvalidArgument(f"{name} must hold numbers or words, it holds {column.dtype}")
    column = column.cast(polars.String)
    if column.null_count():
        raise InvalidArgument(f"{name} is missing in {column.null_count()} rows of the log")
    known = column.unique().sort()
    if len(known) > MOST_WORDS:
        raise InvalidArgument(f"{name} holds {len(known):,} words; up to {MOST_WORDS} can be side information")
    places = polars.Series(range(len(known)), dtype=polars.Int64)
    codes = column.replace_strict(known, places, return_dtype=polars.Int64).to_numpy()
    return np.eye(len(known))[codes], codes[:, None].astype(np.float64)
