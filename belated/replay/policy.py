"""A policy whose probabilities are known: it need not live through rounds, its whole distribution weighs the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from belated import catalog
from belated.errors import InvalidArgument
from belated.protocols import Floats
from belated.replay.log import Log, Whole

#: How far from 1 the probabilities of a policy may add up.
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Policy:
    """What it would do in each usable row of a log: one of a few distributions over the actions."""

    name: str
    logged: Floats  #: the probability of the logged action
    most: float  #: the largest probability of any action
    chances: Floats | None  #: distributions, one a row; None where only `logged` is known
    group: Whole  #: which of them


def read_policies(given: Any, log: Log) -> list[Policy]:
    """Policies from what `replay` takes: one, a list, or a dictionary of names."""
    if isinstance(given, Mapping) and not all(isinstance(value, Real) for value in given.values()):
        return [read_policy(each, log, str(name)) for name, each in given.items()]
    return [read_policy(each, log) for each in (given if isinstance(given, list | tuple) else [given])]


def read_policy(given: Any, log: Log, name: str | None = None) -> Policy:
    """A policy over the actions of a log.

    | given | meaning |
    |---|---|
    | "uniform" | every action with the same probability |
    | a column of the log | the probabilities of all actions (lists, as `Log.labels` are), or that of the logged one |
    | {action: probability} | the same in every round |
    | a frame, or its file | columns `action` and `probability`; all others are columns of the log, and decide |
    | an array, decisions x actions | the probabilities in each decision, in the order of the log as it was given |
    """
    import polars

    if isinstance(given, Mapping):
        return _table(
            polars.DataFrame({"action": list(given), "probability": list(given.values())}), log, name or "given"
        )
    if isinstance(given, polars.DataFrame):
        return _table(given, log, name or "given")
    if isinstance(given, np.ndarray):
        if given.shape != (len(log), log.actions):
            shape = " x ".join(map(str, given.shape))
            raise InvalidArgument(f"a policy must be {len(log)} decisions x {log.actions} actions, got {shape}")
        return _drawn(
            name or "given", np.asarray(given, np.float64)[log.order][log.rows], np.arange(len(log.rows)), log
        )
    if not isinstance(given, str | Path):
        raise InvalidArgument(
            f"a policy is 'uniform', a column, a table, its file or an array, got {catalog.quoted(given)}"
        )
    called = name or str(given)
    if str(given) == "uniform":
        return _drawn(called, np.full((1, log.actions), 1.0 / log.actions), np.zeros(len(log.rows), np.int64), log)
    if str(given) in log.frame.columns:
        return _column(called, log, str(given))
    if not Path(given).suffix:
        hint = catalog.nearest(str(given), ["uniform", *log.frame.columns]) or "it is neither 'uniform' nor a column"
        raise InvalidArgument(
            f"there is no policy {str(given)!r}: {hint}, and a table is a .parquet, .csv or .jsonl file"
        )
    from belated.logs import collect, plain_reading, scan

    with plain_reading(given):
        return _table(collect(scan(given)), log, called)


def _column(called: str, log: Log, name: str) -> Policy:
    """Probabilities that the log itself has."""
    import polars

    column = log.frame[name][log.rows]
    try:
        if column.dtype.is_nested():
            chances = np.array(column.to_list(), np.float64)
            if chances.shape != (len(log.rows), log.actions):
                raise ValueError
            return _drawn(called, chances, np.arange(len(log.rows)), log)
        logged = column.cast(polars.Float64).fill_null(np.nan).to_numpy()
    except (ValueError, TypeError, polars.exceptions.PolarsError):
        raise InvalidArgument(
            f"{name} must hold a probability, or one for each of the {log.actions} actions, in every row"
        ) from None
    _check(logged, called)
    return Policy(called, logged, float(logged.max()), None, np.zeros(0, np.int64))


def _table(table: Any, log: Log, called: str) -> Policy:
    """Probabilities by action, and by the values of other columns."""
    import polars

    for needed in ("action", "probability"):
        if needed not in table.columns:
            raise InvalidArgument(
                f"the table of policy {called!r} has no column {needed!r}, but {', '.join(table.columns)}"
            )
    keys = [column for column in table.columns if column not in ("action", "probability")]
    wrong = [key for key in keys if key not in log.frame.columns]
    if wrong:
        hint = catalog.nearest(wrong[0], log.frame.columns) or f"it has {', '.join(log.frame.columns)}"
        raise InvalidArgument(f"policy {called!r} goes by {wrong[0]!r}, which is no column of the log; {hint}")
    numbers = [log.words.get(str(action), -1) for action in table["action"]]
    if min(numbers, default=-1) < 0:
        stranger = table["action"][numbers.index(-1)] if numbers else None
        raise InvalidArgument(f"policy {called!r} plays {stranger!r}; the log has {', '.join(log.labels[:20])}")
    rows = log.frame[log.rows]
    group = np.zeros(len(rows), np.int64)
    kinds = np.zeros(len(table), np.int64)
    count = 1
    if keys:
        each = table.select(keys).unique(maintain_order=True).with_row_index("_kind")
        count = len(each)
        try:
            found = rows.select(keys).join(each, on=keys, how="left", maintain_order="left")["_kind"]
        except polars.exceptions.PolarsError as error:
            raise InvalidArgument(f"policy {called!r} does not fit the log: {str(error).splitlines()[0]}") from None
        if found.null_count():
            lost = rows.select(keys).filter(found.is_null()).row(0)
            values = ", ".join(f"{key} = {value!r}" for key, value in zip(keys, lost, strict=True))
            raise InvalidArgument(f"policy {called!r} does not say what to do where {values}")
        group = found.to_numpy().astype(np.int64)
        kinds = table.select(keys).join(each, on=keys, how="left", maintain_order="left")["_kind"].to_numpy()
    chances = np.zeros((count, log.actions))
    np.add.at(chances, (kinds, np.array(numbers)), table["probability"].cast(polars.Float64).to_numpy())
    return _drawn(called, chances, group, log)


def _drawn(called: str, chances: Floats, group: Whole, log: Log) -> Policy:
    _check(chances, called)
    sums = chances.sum(axis=1)
    wrong = np.flatnonzero(abs(sums - 1.0) > ROUNDING)
    if len(wrong):
        raise InvalidArgument(
            f"the probabilities of policy {called!r} must add up to 1, got {sums[wrong[0]]:.6g} ({len(wrong)} rows)"
        )
    return Policy(called, chances[group, log.action[log.rows]], float(chances.max()), chances, group)


def _check(chances: Floats, called: str) -> None:
    wrong = ~((chances >= 0.0) & (chances <= 1.0 + ROUNDING))
    if wrong.any():
        raise InvalidArgument(f"the probabilities of policy {called!r} must lie in [0, 1], got {chances[wrong][0]:g}")
