"""The columns of a log, read and checked one by one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated import catalog
from belated.errors import InvalidArgument, InvalidFeedback, Unsupported
from belated.protocols import NEVER, Floats

Whole = NDArray[np.int64]

#: The columns of the service's export, which are looked for where nothing else is said.
EXPORT = {
    "action": "action",
    "probability": "probability",
    "reward": "value",
    "decided": "decided_at",
    "observed": "closed_at",
    "context": "context",
}
#: Without these there is no log.
NEEDED = ("action", "probability", "reward")


def read_frame(source: Any) -> Any:
    import polars

    if isinstance(source, polars.DataFrame):
        return source
    if not isinstance(source, str | Path):
        raise InvalidArgument(f"log must be a file or a polars frame, got {source!r}")
    path = Path(source)
    kinds: dict[str, Any] = {
        ".parquet": polars.read_parquet,
        ".csv": lambda file: polars.read_csv(file, try_parse_dates=True),
        ".jsonl": polars.read_ndjson,
        ".ndjson": polars.read_ndjson,
    }
    if path.suffix.lower() not in kinds:
        raise InvalidArgument(f"{str(path)!r} must end in one of {', '.join(kinds)}")
    if not path.is_file():
        raise InvalidArgument(f"there is no file {str(path)!r}")
    try:
        return kinds[path.suffix.lower()](path)
    except polars.exceptions.PolarsError as error:
        raise InvalidArgument(f"{str(path)!r} cannot be read: {str(error).splitlines()[0]}") from None


def find_column(frame: Any, role: str, name: str | None) -> str | None:
    """The column that plays a role; None where it is not there and need not be."""
    wanted = EXPORT[role] if name is None else name
    if wanted in frame.columns:
        return wanted
    if name is None and role not in NEEDED:
        return None
    hint = catalog.nearest(wanted, frame.columns) or f"it has {', '.join(frame.columns)}"
    raise InvalidArgument(f"the log has no column {wanted!r} for the {role}; {hint}")


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


def read_times(
    frame: Any, decided: str | None, observed: str | None, rewards: Floats
) -> tuple[Any, Whole, tuple[str, ...]]:
    """The order of decisions, and how many rounds each waited for its feedback."""
    count = len(frame)
    made = np.arange(count, dtype=np.float64) if decided is None else read_clock(frame, decided)
    if np.isnan(made).any():
        raise InvalidArgument(f"{decided} is missing in {int(np.isnan(made).sum())} rows of the log")
    order = np.argsort(made, kind="stable")
    if observed is None:
        note = (
            f"the log has no times of observation (no column {EXPORT['observed']!r}, and no other was named): all "
            "feedback is taken to have come at once"
        )
        return order, np.zeros(count, np.int64), (note,)
    if decided is None:
        raise InvalidArgument(
            f"{observed!r} says when feedback was observed: say with decided when decisions were made"
        )
    if frame[decided].dtype.is_temporal() != frame[observed].dtype.is_temporal():
        kinds = f"{frame[decided].dtype} and {frame[observed].dtype}"
        raise InvalidArgument(f"{decided} and {observed} must both be times or both be numbers, got {kinds}")
    came = read_clock(frame, observed)
    if (came < made).any():
        first = int(np.flatnonzero(came < made)[0])
        values = f"{frame[observed][first]} and {frame[decided][first]}"
        raise InvalidArgument(f"{observed} is before {decided} in {int((came < made).sum())} rows: {values}")
    without = np.isnan(came) & ~np.isnan(rewards)
    if without.any():
        raise InvalidArgument(f"{int(without.sum())} rows have a reward and no time of its observation in {observed!r}")
    made, came = made[order], came[order]
    wait = np.searchsorted(made, came, side="right") - np.arange(1, count + 1)
    return order, np.where(np.isnan(came), NEVER, wait).astype(np.int64), ()


def read_clock(frame: Any, name: str) -> Floats:
    """Times or round numbers as numbers; NaN where there is none."""
    import polars

    column = frame[name]
    if column.dtype.is_temporal():
        if column.dtype == polars.Date:
            column = column.cast(polars.Datetime("us"))
        column = column.dt.epoch("us")
    if not (column.dtype.is_numeric() or column.dtype == polars.Null):
        raise InvalidArgument(f"{name} must hold times or round numbers, got {column.dtype}")
    numbers: Floats = column.cast(polars.Float64).fill_null(np.nan).to_numpy().astype(np.float64)
    return numbers


def read_rewards(frame: Any, name: str, low: float, high: float) -> Floats:
    import polars

    column = frame[name]
    if column.dtype == polars.Boolean:
        column = column.cast(polars.Float64)
    if column.dtype.is_nested():
        raise Unsupported(f"{name} holds the rewards of all actions: nothing must be estimated; see games.RewardTable")
    if not (column.dtype.is_numeric() or column.dtype == polars.Null):
        raise Unsupported(f"{name} must hold rewards, which are numbers, got {column.dtype}")
    rewards: Floats = column.cast(polars.Float64).fill_null(np.nan).to_numpy().astype(np.float64)
    wrong = (rewards < low) | (rewards > high)
    if wrong.any():
        raise InvalidFeedback(
            f"{name} must lie in [{low:g}, {high:g}], got {rewards[wrong][0]:g} (and {int(wrong.sum()) - 1} more); "
            "say with the range where rewards lie"
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
    known = column.unique().sort()
    places = polars.Series(range(len(known)), dtype=polars.Int64)
    numbers: Whole = column.replace_strict(known, places, return_dtype=polars.Int64).to_numpy()
    labels = [str(label) for label in known]
    words = {label: number for number, label in enumerate(labels)}
    if not column.dtype.is_integer():
        return numbers, tuple(labels), words, []
    if known[0] < 0:
        raise InvalidArgument(f"{name} must be numbers from 0, got {known[0]}")
    notes = []
    if known[-1] >= len(known):
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
    import polars

    column = frame[name]
    if not column.dtype.is_numeric():
        raise InvalidArgument(f"{name} must hold probabilities, got {column.dtype}")
    chances: Floats = column.cast(polars.Float64).fill_null(np.nan).to_numpy().astype(np.float64)
    missing, wrong = np.isnan(chances), (chances <= 0) | (chances > 1 + 1e-9)
    if missing.any():
        raise Unsupported(
            f"{name} is missing in {int(missing.sum())} of {len(chances)} rows: without the probabilities of the "
            "decisions nothing can be said about other forecasters"
        )
    if wrong.any():
        raise InvalidArgument(f"{name} must lie in (0, 1], got {chances[wrong][0]:g} ({int(wrong.sum())} such rows)")
    return np.minimum(chances, 1.0)


def read_contexts(frame: Any, given: str | Sequence[str] | None) -> Floats | None:
    """Side information as rows of numbers."""
    import polars

    names = [given] if isinstance(given, str) else list(given or ())
    for name in names:
        if name not in frame.columns:
            hint = catalog.nearest(name, frame.columns) or f"it has {', '.join(frame.columns)}"
            raise InvalidArgument(f"the log has no column {name!r} for the context; {hint}")
    if not names:
        known = EXPORT["context"]
        if known not in frame.columns or frame[known].null_count() == len(frame):
            return None
        names = [known]
    parts = []
    for name in names:
        column = frame[name]
        try:
            if column.dtype.is_nested():
                parts.append(np.array(column.to_list(), dtype=np.float64))
            else:
                parts.append(column.cast(polars.Float64).to_numpy()[:, None])
        except (ValueError, TypeError, polars.exceptions.PolarsError):
            raise InvalidArgument(f"{name} must hold a number, or as many numbers in each row") from None
    joined: Floats = np.concatenate(parts, axis=1).astype(np.float64)
    if not np.isfinite(joined).all():
        raise InvalidArgument(f"{', '.join(names)} must be finite numbers in every row")
    return joined
