"""What keeps a database for years: states of earlier versions, retention, and forgetting what is no longer needed.

Retention: every half of an experiment's `retention_seconds`, states that changed get a checkpoint. Events that lie
before a checkpoint older than `retention_seconds` are deleted, and with the event that ended it each decision, and
remarks of that age; `verify` starts at the checkpoint. What is open stays, and so do states and statistics.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from belated.forecasters.saving import dtype_of, migrated
from belated.kernels.states import state_dtype
from belated.ledger.errors import Damaged
from belated.ledger.experiment import Experiment
from belated.ledger.faults import Faults
from belated.ledger.folder import Folder
from belated.ledger.store import Checkpoint, ExperimentRow, Old, Queued, Reader, State, Store, Writer
from belated.protocols import Learner

#: Seconds that an idempotency key is kept.
KEYS_LIVE = 25 * 3600.0
#: States that are read at a time.
CHUNK = 2000


def tick(
    folder: Folder, experiments: Iterable[Experiment], session: Writer, now: float, limit: int, faults: Faults
) -> bool:
    """Save statistics, forget old keys, keep to the retention; whether more is to do."""
    kept = [each for each in experiments if each.retention is not None and each.trouble is None]
    folder.save(session)
    more = session.purge_keys(now - KEYS_LIVE, limit) == limit
    old: dict[int, Old] = {}
    for experiment in (each for each in kept if each.id not in folder.lost):
        key = ("retention", experiment.id)
        if faults.resting(key) is not None:
            continue
        try:
            more = _check(experiment, session, now, limit) or more
            covered = _covered(experiment, session, now)
            old[experiment.id] = Old(
                now - (experiment.retention or 0.0), min(covered, folder.saved_upto(experiment.id))
            )
            faults.worked(key)
        except ValueError as error:  # of what was read; what the database says is another matter
            faults.failed(key, experiment.name, error)
    return session.purge(old, now, limit) >= limit or more


def _check(experiment: Experiment, session: Writer, now: float, limit: int) -> bool:
    """Checkpoints of all states that changed, if it is time for that: some of them; whether more are to be made."""
    number, retention = experiment.id, experiment.retention or 0.0
    begun = session.meta(f"checking {number}")
    last = float(session.meta(f"checkpointed {number}") or experiment.created_at)
    if not begun and last <= now < last + retention / 2:  # one that is to come was made before the clock was set back
        return False
    head = session.heads([number])[number]
    after, upto = json.loads(begun) if begun else (-1, head.written)  # all states are on record as far as that
    states = session.unchecked(number, after, limit if experiment.apart else 10**9)
    queue = queue_bytes(experiment, session)
    session.add_checkpoints(Checkpoint(number, state, queue, False, now) for state in states)
    if experiment.apart and len(states) == limit:
        session.set_meta(f"checking {number}", json.dumps([states[-1].instance, upto]))
        return True
    session.set_meta(f"checking {number}", "")
    session.set_meta(f"checkpointed {number}", repr(now))
    made = json.loads(session.meta(f"covered {number}") or "[]")
    session.set_meta(f"covered {number}", json.dumps([*made, [now, upto]]))
    return True


def _covered(experiment: Experiment, session: Writer, now: float) -> int:
    """Up to which place of the log all events lie before checkpoints that are old enough to begin at."""
    number, before = experiment.id, now - (experiment.retention or 0.0)
    made = json.loads(session.meta(f"covered {number}") or "[]")
    old = [at for at, each in enumerate(made) if each[0] <= before]
    if old and old[-1]:
        session.set_meta(f"covered {number}", json.dumps(made[old[-1] :]))
    return int(made[old[-1]][1]) if old else 0


def queue_bytes(experiment: Experiment, session: Reader) -> bytes:
    """The queues of a rule as they are; empty where states have lives of their own."""
    if experiment.apart:
        return b""
    rows = session.queued(experiment.id)
    return json.dumps([[row.cell, row.position, row.value.hex()] for row in rows]).encode() if rows else b""


def queues_of(experiment: Experiment, checkpoint: Checkpoint) -> dict[int, deque[Queued]]:
    """The queues that `queue_bytes` wrote."""
    queues: dict[int, deque[Queued]] = {}
    for cell, position, value in json.loads(checkpoint.queue or b"[]"):
        queues.setdefault(cell, deque()).append(Queued(experiment.id, cell, position, bytes.fromhex(value)))
    return queues


# --- states of another version ---


def opened(store: Store, row: ExperimentRow) -> Experiment:
    """An experiment as it is stored, with its states brought up to date; read-only where that cannot be done."""
    experiment = Experiment.from_row(row)
    if experiment.stored is None:
        return experiment
    if not movable(experiment):
        return replace(experiment, trouble=mismatch(experiment))
    with store.read() as session:
        unsaved = _unsaved(experiment, session)
    if unsaved is not None:
        return unsaved
    if not store.migrates:
        said = "`belated migrate` or `belated serve --migrate` brings it up to date"
        return replace(experiment, trouble=f"{mismatch(experiment)}; {said}")
    with store.write(alone=True) as session:
        experiment = next(Experiment.from_row(now) for now in session.experiments() if now.id == row.id)
        if experiment.stored is None:
            return experiment
        return _unsaved(experiment, session) or _migrate(experiment, session)


def _unsaved(experiment: Experiment, session: Reader) -> Experiment | None:
    """The experiment as it must stay where what is on record of its states is older than its log."""
    head = session.heads([experiment.id])[experiment.id]
    if head.written == head.last:
        return None
    said = "it was not stopped in order: serve it with the version that wrote it, and stop that by SIGTERM"
    return replace(experiment, trouble=f"{mismatch(experiment)}; {said}")


def movable(experiment: Experiment) -> bool:
    """Whether stored states are of an earlier version that this one can bring up to date."""
    assert experiment.stored is not None
    return experiment.learner.migrate is not None and experiment.stored[0] <= experiment.learner.version


def mismatch(experiment: Experiment) -> str:
    """What is wrong with stored states of another version."""
    assert experiment.stored is not None
    version, layout = experiment.stored
    name, here = type(experiment.learner).__name__, experiment.learner.version
    if version != here:
        return f"{experiment.name} was stored by {name} version {version}, this is version {here}: it is read-only"
    now = replace(experiment, stored=None).row().layout
    return f"{experiment.name} was stored by {name} with the layout {layout}, here it is {now}: it is read-only"


def _migrate(experiment: Experiment, session: Writer) -> Experiment:
    """Rewrite all states by the learner's `migrate`. Nothing before can be replayed: each gets a checkpoint."""
    assert experiment.stored is not None
    version, layout = experiment.stored
    now, queue = session.now(), queue_bytes(experiment, session)
    changed: list[State] = []
    stored: list[State] = []
    while some := session.states_after(experiment.id, stored[-1].instance if stored else -1, CHUNK):
        stored += some
    records: dict[int, np.dtype[Any]] = {}  # by the number of actions that a state knows
    learners = {}
    for state in stored:
        # An action that was added changes a state when it is next used: until then it has one less.
        actions = experiment.size_at(state.place)
        if actions not in records:
            all_ = actions == len(experiment.actions)
            learners[actions] = (experiment if all_ else experiment.sized(experiment.actions[:actions])).learner
            records[actions] = _record(layout, experiment.learner, learners[actions], len(state.data))
        if len(state.data) != records[actions].itemsize:
            size = records[actions].itemsize
            raise Damaged(f"state {state.instance} has {len(state.data)} bytes, others have {size}")
        state.data = migrated(learners[actions], version, np.frombuffer(state.data, records[actions])[0]).tobytes()
        changed.append(state)
    session.put_states((experiment.id, state) for state in changed)
    session.add_checkpoints(Checkpoint(experiment.id, state, queue, True, now) for state in changed)
    moved = replace(experiment, stored=None)
    session.change_experiment(moved.row())
    return moved


def _record(layout: str, learner: Learner, fewer: Learner, size: int) -> np.dtype[Any]:
    """The record of a state of so many bytes that knows the actions of `fewer` only, the first ones of `learner`."""
    if fewer.actions == learner.actions:
        return dtype_of(layout, size)
    whole, kinds = dtype_of(layout, 1 << 30), (state_dtype(learner), state_dtype(fewer))
    for axes in (None, 1):  # a matrix may have as many features as there are actions
        found = _shorter(whole, *kinds, learner.actions, fewer.actions, axes)
        if found.itemsize == size:
            return found
    raise Damaged(f"a state of {fewer.actions} of its {learner.actions} actions has {size} bytes")


def _shorter(
    record: np.dtype[Any], now: np.dtype[Any], less: np.dtype[Any], all_: int, actions: int, axes: int | None
) -> np.dtype[Any]:
    """The same record with fewer actions.

    A field that the learner still has tells which of its axes are actions, by what it is `now` and with `less` of them.
    Of others those are, of all axes or the first so many, that are as long as there are actions.
    """
    fields: list[Any] = []
    for name in record.names or ():
        base, shape = record[name].base, record[name].shape
        known = name in (now.names or ()) and now[name].shape == shape
        kinds = (now[name].base, less[name].base) if known else (base, base)
        inner = base if base.names is None else _shorter(base, *kinds, all_, actions, axes)
        first = shape if axes is None else shape[:axes]
        guess = (*(actions if size == all_ else size for size in first), *shape[len(first) :])
        fields.append((name, inner, less[name].shape if known else guess))
    return np.dtype(fields, align=True)
