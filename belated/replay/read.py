"""A log, read by `belated.logs`, checked, and put into the order in which decisions were made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from belated import logs, require
from belated.errors import InvalidArgument, Unsupported
from belated.features import Features
from belated.logs.join import OBSERVED
from belated.logs.look import LATE
from belated.protocols import NEVER, Floats
from belated.replay import columns
from belated.replay.checks import check_balance, check_same_world, drift
from belated.replay.columns import Times
from belated.replay.log import Log, Whole, per_action

#: A decision whose probability is this near 1 was certain.
CERTAIN = 1e-9


def read_log(
    source: Any,
    *,
    action: str | None = None,
    probability: str | None = None,
    reward: str | None = None,
    decided: str | None = None,
    observed: str | None = None,
    context: str | Sequence[str] | Features | None = None,
    reward_range: Sequence[float] = (0.0, 1.0),
    feedback: Any = None,
    on: str | None = None,
    watched: str | None = None,
    window: Any = None,
    default: float | None = None,
    unit: str | None = None,
    time_format: str | None = None,
    format: str | None = None,
) -> Log:
    """A log from files, a folder, a pattern, an address, or a frame of any kind (see `logs/source.py`).

    Columns that are not named are those of the service's export. Actions are whatever the log calls them: words, or
    numbers such as 3, 17 and 99. `decided` and `observed` are times or round numbers, read as `bl.audit` reads them;
    without `decided` decisions are in order, without `observed` feedback is taken to have come at once. A decision with
    a time of observation and no reward was cancelled or has expired then; one with neither is still open. Rewards lie
    in `reward_range`. A `context` of words is a 1 in a place for each word; learners of contexts get its number.
    With `bl.Features` it is what these make of the columns that they name.

    `feedback` is another table with the columns `observed` and `reward`, joined by the id `on`; `watched` and `window`
    say until when feedback counts. `default` is the reward of a decision that was watched to the end in vain (no sale:
    0); decisions that could not be watched for so long have then none, whatever has come.
    """
    named = {"action": action, "probability": probability, "reward": reward, "decided": decided, "observed": observed}
    reading: dict[str, Any] = {"feedback": feedback, "on": on, "watched": watched, "window": window, "unit": unit}
    reading |= {"time_format": time_format, "file_format": format, "text": columns.context_names(context)}
    table = logs.open_table(source, named, columns.NEEDED, **reading)
    with logs.plain_reading(source):
        frame = logs.collect(table.frame)
    called = table.names
    low, high = require.reals("reward_range", reward_range, low=-1e300, high=1e300, least=2)[:2]
    require.real("reward_range[1]", high, above=low)
    if not len(frame):
        raise InvalidArgument("the log is empty")
    columns.check_marks(frame)
    rewards = columns.read_rewards(frame, str(called["reward"]), low, high)
    times = columns.read_times(table, frame, rewards)
    known = None if default is None else require.real("default", default, low=low, high=high)
    rewards = _settled(table, frame, rewards, times, known)
    wait = times.wait if default is None else np.where(times.full, times.wait, NEVER)
    order = np.argsort(times.made, kind="stable")
    frame, rewards = frame[order].drop(OBSERVED, strict=False), (rewards[order] - low) / (high - low)
    numbers, labels, words, notes = columns.read_actions(frame, str(called["action"]))
    chances = columns.read_chances(frame, str(called["probability"]))
    seen, kinds = columns.read_contexts(frame, context)
    every = np.arange(len(frame))
    made = Log(numbers, chances, rewards, wait[order], seen, labels, every, low, high, frame=frame, order=order)
    made = replace(made, words=words, kinds=kinds)
    rows, left_out = _usable(made, table)
    made = replace(made, rows=rows, warnings=(*_said(table, times), *notes, *left_out))
    check_balance(made)
    check_same_world(made)
    return replace(made, warnings=(*made.warnings, *drift(made)))


def _settled(table: logs.Table, frame: Any, rewards: Floats, times: Times, default: float | None) -> Floats:
    """The rewards that count: those that came in time, and the default where a decision was watched in vain."""
    rewards = np.where(times.late, np.nan, rewards)
    missing = np.isnan(rewards)
    if default is None:
        if table.joined and missing.any() and len(np.unique(rewards[~missing])) == 1:
            raise Unsupported(
                f"all feedback has the reward {rewards[~missing][0]:g}, and {int(missing.sum())} decisions have none: "
                "say with default what no feedback is worth, such as 0, and with window for how long it is waited for"
            )
        return rewards
    if "o" in table.clocks and "w" not in table.clocks:
        raise InvalidArgument(
            "default needs to know when a decision has been watched for long enough: say with window or watched"
        )
    vain = missing & times.full
    if table.states:
        vain &= (frame["state"] != "cancelled").fill_null(True).to_numpy()
    return np.where(vain, default, np.where(times.full, rewards, np.nan))


def _said(table: logs.Table, times: Times) -> list[str]:
    """What must be said about how a log was read."""
    left_out = table.left_out | ({} if not times.late.any() else {LATE: int(times.late.sum())})
    notes = [f"left out: {logs.many(count, 'row')}, {reason}" for reason, count in left_out.items()]
    if "o" not in table.clocks:
        notes.append(
            f"the log has no times of observation (no column {logs.EXPORT['observed']!r}, and no other was named): all "
            "feedback is taken to have come at once"
        )
    return notes


def _usable(log: Log, table: logs.Table) -> tuple[Whole, list[str]]:
    """The decisions in which every action was possible, and what must be said about the others."""
    frame = log.frame
    if log.actions < 2:
        raise Unsupported(f"the log has one action, {log.labels[0]!r}: there is nothing to choose")
    certain = log.probability >= 1.0 - CERTAIN
    if certain.all():
        raise Unsupported(
            "all probabilities are 1: a logger that does not draw tells nothing about the actions that it did not take"
        )
    some = columns.read_restricted(frame, log.words, log.actions)
    notes = [
        f"{int(which.sum())} decisions {why}: they count for the logger, and cannot be weighed for others"
        for which, why in (
            (certain, "were certain (probability 1)"),
            (some, "were made among some of the actions only"),
        )
        if which.any()
    ]
    if table.states:
        default = int(((frame["state"] == "expired").fill_null(False).to_numpy() & ~np.isnan(log.reward)).sum())
        if default:
            notes.append(f"{default} rewards are what was learned by default on expiry; they count as observed")
    rows = np.flatnonzero(~certain & ~some)
    counts = per_action(log, rows[~np.isnan(log.reward[rows])])
    if not counts.all():
        raise Unsupported(f"action {log.labels[int(counts.argmin())]!r} has no reward in any round that can be used")
    return rows, notes
