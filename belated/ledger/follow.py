"""An event of a log lived through again: what was decided must come out."""

from __future__ import annotations

import json
import math

from belated.forecasters.room import Letter
from belated.ledger.errors import Damaged
from belated.ledger.experiment import Experiment
from belated.ledger.items import read_value
from belated.ledger.player import Decided, Rows, vector
from belated.ledger.store import DecisionRow, Event


def follow(room: Rows, event: Event, row: DecisionRow | None) -> Decided | None:
    """The next event of a state, with the decision that it is about; what was decided if it was a decision."""
    if event.kind in ("replace", "grow"):
        room.turn()
        return None
    where = f"instance {event.instance}, event {event.seq} ({event.kind})"
    if row is None:
        raise Damaged(f"{where}: its decision is missing")
    letter = letter_of(row, room.experiment, event.place)
    if event.kind == "decide":
        made = room.decide(letter.context, allowed_of(row), row.round)
        recorded = row.action if made.action == event.action else event.action
        if (made.action, made.number) != (recorded, row.number):
            raise Damaged(f"{where}: action {recorded} is recorded, {made.action} comes out")
        return made
    if event.kind in ("feedback", "default"):
        try:
            feedback = room.experiment.feedback(read_value(event.value), row.action)
        except ValueError as error:
            raise Damaged(f"{where}: its value cannot be what was told: {error}") from None
        room.feed(letter, feedback)
    elif event.kind in ("stale", "cancel", "drop"):
        room.release(letter)
    else:
        raise Damaged(f"{where}: there is no such kind of event")
    return None


def allowed_of(row: DecisionRow) -> list[int] | None:
    """The actions that could be chosen, where not all could."""
    try:
        return None if row.allowed is None else [int(each) for each in json.loads(row.allowed)]
    except (TypeError, ValueError):
        raise _unsound(row) from None


def letter_of(row: DecisionRow, experiment: Experiment, place: float) -> Letter:
    """A decision as what ends it at that place of the log needs it; a damaged one must not come near compiled code."""
    learner = experiment.learner
    try:
        letter = Letter(
            row.round,
            row.action,
            row.probability,
            vector(row.context),
            row.instance,
            row.number,
            vector(row.memo),
            is_stale(row, experiment, place),
        )
        context, memo = (0 if each is None else len(each) for each in (letter.context, letter.memo))
        sound = context == learner.context_size and memo in (0, learner.memo)
        sound = sound and 0 <= row.action < len(experiment.actions)
    except (TypeError, ValueError):
        sound = False
    if not sound:
        raise _unsound(row)
    return letter


def _unsound(row: DecisionRow) -> Damaged:
    return Damaged(f"the decision {row.ticket.hex()} cannot be what was decided")


def is_stale(row: DecisionRow, experiment: Experiment, place: float = math.inf) -> bool:
    """Whether the action of an open decision had been replaced when the event at that place came."""
    return bool(row.stale) or (bool(experiment.retired) and experiment.was_replaced(row.action, row.round, place))
