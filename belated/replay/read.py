"""A log, read from a file or a frame, checked, and put into the order in which decisions were made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from belated import require
from belated.errors import InvalidArgument, Unsupported
from belated.replay import columns
from belated.replay.checks import check_balance, check_same_world, drift
from belated.replay.columns import Whole
from belated.replay.log import Log, per_action

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
    context: str | Sequence[str] | None = None,
    reward_range: Sequence[float] = (0.0, 1.0),
) -> Log:
    """A log from a Parquet, CSV or JSON lines file, or from a polars frame.

    Columns that are not named are those of the service's export. Actions are whatever the log calls them: words, or
    numbers such as 3, 17 and 99. `decided` and `observed` are times or round numbers; without `decided` decisions are
    in order, without `observed` feedback is taken to have come at once. A decision with a time of observation and no
    reward was cancelled or has expired then; one with neither is still open. Rewards lie in `reward_range`.
    """
    frame = columns.read_frame(source)
    named = {"action": action, "probability": probability, "reward": reward, "decided": decided, "observed": observed}
    called = {role: columns.find_column(frame, role, name) for role, name in named.items()}
    low, high = require.reals("reward_range", reward_range, low=-1e300, high=1e300, least=2)[:2]
    require.real("reward_range[1]", high, above=low)
    if not len(frame):
        raise InvalidArgument("the log is empty")
    columns.check_marks(frame)
    rewards = columns.read_rewards(frame, str(called["reward"]), low, high)
    order, wait, warnings = columns.read_times(frame, called["decided"], called["observed"], rewards)
    frame, rewards = frame[order], (rewards[order] - low) / (high - low)
    numbers, labels, words, notes = columns.read_actions(frame, str(called["action"]))
    chances = columns.read_chances(frame, str(called["probability"]))
    seen = columns.read_contexts(frame, context)
    every = np.arange(len(frame))
    made = Log(numbers, chances, rewards, wait, seen, labels, every, low, high, frame=frame, order=order, words=words)
    rows, left_out = _usable(frame, made)
    made = replace(made, rows=rows, warnings=(*warnings, *notes, *left_out))
    check_balance(made)
    check_same_world(made)
    return replace(made, warnings=(*made.warnings, *drift(made)))


def _usable(frame: Any, log: Log) -> tuple[Whole, list[str]]:
    """The decisions in which every action was possible, and what must be said about the others."""
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
    if "state" in frame.columns:
        default = int(((frame["state"] == "expired").fill_null(False).to_numpy() & ~np.isnan(log.reward)).sum())
        if default:
            notes.append(f"{default} rewards are what was learned by default on expiry; they count as observed")
    rows = np.flatnonzero(~certain & ~some)
    counts = per_action(log, rows[~np.isnan(log.reward[rows])])
    if not counts.all():
        raise Unsupported(f"action {log.labels[int(counts.argmin())]!r} has no reward in any round that can be used")
    return rows, notes
