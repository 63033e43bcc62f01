"""A log of decisions: read from a file or a frame, checked, and put into the order in which they were made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated import catalog, require
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
#: How many standard errors away from 1 the mean weight of an action shows that probabilities are wrong, and how many
#: between the means of its rewards in the two halves of the log show that the world changed.
WRONG, CHANGED = 5.0, 4.0


@dataclass(frozen=True, eq=False)
class Log:
    """Decisions in order. Rewards are scaled to [0, 1], and NaN where none was recorded.

    `wait` is the delay in rounds: the feedback of the decision in place s can be used by decisions in places
    > s + wait, because these were made after it was observed. It is `NEVER` where nothing came before the log ended.
    """

    action: Whole
    probability: Floats
    reward: Floats
    wait: Whole
    context: Floats | None
    labels: tuple[str, ...]
    rows: Whole  #: places of the decisions that can be used; the others only take time
    low: float = 0.0
    high: float = 1.0
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.action)

    @property
    def actions(self) -> int:
        return len(self.labels)

    @property
    def least(self) -> float:
        """The smallest recorded probability."""
        return float(self.probability[self.rows].min())

    @property
    def outstanding(self) -> int:
        """G* of whoever made the log."""
        places = np.arange(len(self))
        ends = places + np.minimum(self.wait, len(self))
        changes = np.zeros(2 * len(self) + 2, np.int64)
        np.add.at(changes, places + 1, 1)
        np.add.at(changes, ends + 1, -1)
        return int(np.cumsum(changes)[: len(self)].max())


def read_log(
    source: Any,
    *,
    action: str | None = None,
    probability: str | None = None,
    reward: str | None = None,
    decided: str | None = None,
    observed: str | None = None,
    context: str | Sequence[str] | None = None,
    reward_range: Sequence[float] = (0.0, 1.0),
) -> Log:
    """A log from a Parquet, CSV or JSON lines file, or from a polars frame.

    Columns that are not named are those of the service's export. `decided` and `observed` are times or round numbers;
    without `decided` decisions are in order, without `observed` feedback is taken to have come at once. A decision
    with a time of observation and no reward was cancelled or has expired then; one with neither is still open.
    Rewards lie in `reward_range`.
    """
    frame = _frame(source)
    named = {"action": action, "probability": probability, "reward": reward, "decided": decided, "observed": observed}
    columns = {role: _column(frame, role, name) for role, name in named.items()}
    low, high = require.reals("reward_range", reward_range, low=-1e300, high=1e300, least=2)[:2]
    require.real("reward_range[1]", high, above=low)
    if not len(frame):
        raise InvalidArgument("the log is empty")
    _check_marks(frame)
    rewards = _rewards(frame, str(columns["reward"]), low, high)
    order, wait, warnings = _times(frame, columns["decided"], columns["observed"], rewards)
    frame, rewards = frame[order], rewards[order]
    numbers, labels = _actions(frame, str(columns["action"]))
    chances = _chances(frame, str(columns["probability"]))
    seen = _contexts(frame, context)
    made = Log(numbers, chances, (rewards - low) / (high - low), wait, seen, labels, np.arange(len(frame)), low, high)
    rows, notes = _usable(frame, made)
    made = replace(made, rows=rows, warnings=(*warnings, *notes))
    _check_balance(made)
    return replace(made, warnings=(*made.warnings, *_changes(made)))


def _frame(source: Any) -> Any:
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


def _column(frame: Any, role: str, name: str | None) -> str | None:
    """The column that plays a role; None where it is not there and need not be."""
    wanted = EXPORT[role] if name is None else name
    if wanted in frame.columns:
        return wanted
    if name is None and role not in NEEDED:
        return None
    hint = catalog.nearest(wanted, frame.columns) or f"it has {', '.join(frame.columns)}"
    raise InvalidArgument(f"the log has no column {wanted!r} for the {role}; {hint}")


def _check_marks(frame: Any) -> None:
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


def _times(
    frame: Any, decided: str | None, observed: str | None, rewards: Floats
) -> tuple[Any, Whole, tuple[str, ...]]:
    """The order of decisions, and how many rounds each waited for its feedback."""
    count = len(frame)
    made = np.arange(count, dtype=np.float64) if decided is None else _clock(frame, decided)
    if np.isnan(made).any():
        raise InvalidArgument(f"{decided} is missing in {int(np.isnan(made).sum())} rows of the log")
    order = np.argsort(made, kind="stable")
    if observed is None:
        note = "the log has no times of observation: all feedback is taken to have come at once"
        return order, np.zeros(count, np.int64), (note,)
    if decided is None:
        raise InvalidArgument(
            f"{observed!r} says when feedback was observed: say with decided when decisions were made"
        )
    if frame[decided].dtype.is_temporal() != frame[observed].dtype.is_temporal():
        kinds = f"{frame[decided].dtype} and {frame[observed].dtype}"
        raise InvalidArgument(f"{decided} and {observed} must both be times or both be numbers, got {kinds}")
    came = _clock(frame, observed)
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


def _clock(frame: Any, name: str) -> Floats:
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


def _rewards(frame: Any, name: str, low: float, high: float) -> Floats:
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


def _actions(frame: Any, name: str) -> tuple[Whole, tuple[str, ...]]:
    """Actions as numbers from 0, and what they are called."""
    column = frame[name]
    if column.null_count():
        raise InvalidArgument(f"{name} is missing in {column.null_count()} rows of the log")
    if not column.dtype.is_integer():
        labels = column.unique().sort().to_list()
        place = {label: number for number, label in enumerate(labels)}
        return np.array([place[label] for label in column], np.int64), tuple(map(str, labels))
    numbers = column.to_numpy().astype(np.int64)
    if numbers.min() < 0:
        raise InvalidArgument(f"{name} must be numbers from 0, got {numbers.min()}")
    known = set(numbers.tolist())
    never = [a for a in range(int(numbers.max()) + 1) if a not in known]
    if never:
        raise Unsupported(f"action {never[0]} was never logged: nothing can be said about forecasters that play it")
    labels = [str(a) for a in range(len(known))]
    if "name" in frame.columns:
        for number, label in zip(numbers.tolist(), frame["name"], strict=True):
            labels[number] = labels[number] if label is None else str(label)
    return numbers, tuple(labels)


def _chances(frame: Any, name: str) -> Floats:
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


def _contexts(frame: Any, given: str | Sequence[str] | None) -> Floats | None:
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


def _usable(frame: Any, log: Log) -> tuple[Whole, list[str]]:
    """The decisions in which every action was possible, and what must be said about the others."""
    notes = []
    usable = np.ones(len(log), bool)
    if log.actions < 2:
        raise Unsupported(f"the log has one action, {log.labels[0]!r}: there is nothing to choose")
    if (log.probability >= 1.0).all():
        raise Unsupported(
            "all probabilities are 1: a logger that does not draw tells nothing about the actions that it did not take"
        )
    certain = log.probability >= 1.0
    if certain.any():
        usable &= ~certain
        notes.append(f"{int(certain.sum())} decisions were certain (probability 1) and are left out")
    if "allowed" in frame.columns and frame["allowed"].null_count() < len(frame):
        some = frame["allowed"].is_not_null().to_numpy()
        usable &= ~some
        notes.append(f"{int(some.sum())} decisions were made among some of the actions only and are left out")
    if "state" in frame.columns:
        default = int(((frame["state"] == "expired").fill_null(False).to_numpy() & ~np.isnan(log.reward)).sum())
        if default:
            notes.append(f"{default} rewards are what was learned by default on expiry; they count as observed")
    rows = np.flatnonzero(usable)
    known = ~np.isnan(log.reward[rows])
    for number, label in enumerate(log.labels):
        if not (log.action[rows] == number)[known].any():
            raise Unsupported(f"action {label!r} has no reward in any round that can be used")
    return rows, notes


def _check_balance(log: Log) -> None:
    """Refuse probabilities that cannot be true: the weights 1 / p of an action must be 1 a round on average."""
    chances, actions = log.probability[log.rows], log.action[log.rows]
    spread = np.sqrt(max(1.0 / log.least - 1.0, 1.0) / len(actions))
    for number, label in enumerate(log.labels):
        mean = float((1.0 / chances[actions == number]).sum() / len(actions))
        if abs(mean - 1.0) > WRONG * spread + 1.0 / log.least / len(actions):
            raise Unsupported(
                f"the recorded probabilities cannot be those of the decisions: if they were, 1/probability summed over "
                f"the rounds with action {label!r} would be about the number of rounds, but is {mean:.3g} times that"
            )


def _changes(log: Log) -> list[str]:
    """Actions whose rewards are not the same in the two halves of the log."""
    rewards, actions = log.reward[log.rows], log.action[log.rows]
    first = np.arange(len(rewards)) < len(rewards) // 2
    notes = []
    for number, label in enumerate(log.labels):
        mine = (actions == number) & ~np.isnan(rewards)
        early, late = rewards[mine & first], rewards[mine & ~first]
        if min(len(early), len(late)) < 30:
            continue
        error = np.sqrt(early.var() / len(early) + late.var() / len(late))
        if abs(early.mean() - late.mean()) > CHANGED * error:
            scale, low = log.high - log.low, log.low
            means = f"{low + scale * early.mean():.3g} and {low + scale * late.mean():.3g}"
            notes.append(
                f"action {label!r} earned {means} in the two halves: the world changed, the estimates mix both"
            )
    return notes
