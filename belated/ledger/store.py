"""What the ledger asks of a database: rows, and the few set-based verbs that read and write them.

A `Store` gives out sessions. `write()` is one transaction, committed at its end or rolled back as a whole; there is one
at a time in a process. `read()` is a consistent view that waits for nobody. Within a `write`, rows are locked in the
order of their keys, so that several processes never wait for each other in a circle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

#: Events of an experiment itself, and of none of its states, have this instance; those of all its states at once have
#: the other, where each state has a life of its own.
OWN, ALL = -1, -2
#: Seconds of a day, by which a large database is divided.
DAY = 86400.0


class ExperimentRow(NamedTuple):
    """An experiment as it is stored; `spec` is JSON."""

    id: int
    name: str
    spec: str
    version: int
    layout: str
    created_at: float
    archived_at: float | None


@dataclass(slots=True)
class State:
    """One learner state, as it is after the event at `place` of its experiment's log, the `seq`th of its own.

    `held` are the notes of the forecaster's rule, with the first state; `steps` is how often that was asked, where this
    is counted; `pool` is where the instance is free."""

    instance: int
    seq: int
    free: bool
    data: bytes
    held: bytes | None = None
    steps: int = 0
    pool: int = 0
    place: int = 0


def state_row(state: State) -> tuple[Any, ...]:
    """A state as its columns."""
    return (
        *(state.instance, state.seq, int(state.free), state.data),
        *(state.held, state.steps, state.pool, state.place),
    )


class Head(NamedTuple):
    """Where an experiment's log stands; who writes to it has this row locked.

    `written` is a place up to which all states are on record (each as it was then or later), `written_at` when that was
    so, and `counted` the place at which there were so many rounds, instances and open decisions. The row changes only
    when states are put on record: one that changed with every batch would be slow as long as anybody, such as a dump,
    looks at an old state of the database. `last`, the place of the last event, is found in the log.
    """

    experiment: int
    counted: int = 0
    written: int = 0
    written_at: float = 0.0
    rounds: int = 0
    instances: int = 0
    outstanding: int = 0
    last: int = 0


#: What of a head is stored.
HEAD = Head._fields[:-1]


class DecisionRow(NamedTuple):
    """A decision with all that its feedback will need; `context` and `memo` hold float64s, `allowed` is JSON."""

    ticket: bytes
    experiment: int
    round: int
    instance: int
    number: int
    action: int
    probability: float
    allowed: str | None
    context: bytes | None
    decided_at: float
    expires_at: float | None
    state: str = "open"
    value: str | None = None
    closed_at: float | None = None
    stale: int = 0
    memo: bytes | None = None


class Closing(NamedTuple):
    """How a decision ended."""

    state: str
    value: str | None
    closed_at: float
    stale: int
    ticket: bytes


class Event(NamedTuple):
    """A change of a learner state: decide, feedback, stale, default, cancel, drop, replace, grow or change.

    `stale` is feedback for an action that was replaced since; `grow` adds the action, which is the last one then;
    `change` is of the experiment's own rules, with its JSON as the value, and leaves the learner as it was; `delay` is
    how long a decision was open.
    """

    experiment: int
    place: int  #: in the experiment's log, from 1
    instance: int
    seq: int  #: among the events of that state, from 1
    kind: str
    ticket: bytes | None
    action: int | None
    probability: float | None
    value: str | None
    delay: float | None
    at: float


class Remark(NamedTuple):
    """Feedback that is on record and was not learned: late or conflict."""

    experiment: int
    ticket: bytes
    kind: str
    value: str
    at: float


class Queued(NamedTuple):
    """Feedback that waits in one of a rule's queues: float64s, see `player.py`."""

    experiment: int
    cell: int
    position: int
    value: bytes


class Key(NamedTuple):
    """An idempotency key with the digest of its request and the answer that was given (JSON)."""

    experiment: int
    key: str
    digest: bytes
    answer: str
    at: float


class Token(NamedTuple):
    """A bearer token, by its digest; `scopes` are words between spaces, `experiments` a JSON list (None: all), `rate`
    requests a second."""

    digest: bytes
    name: str
    scopes: str
    created_at: float
    revoked_at: float | None = None
    experiments: str | None = None
    rate: float | None = None
    expires_at: float | None = None
    used_at: float | None = None


class Note(NamedTuple):
    """A line of the log: who changed what, from where, or was turned away."""

    at: float
    who: str
    address: str
    what: str
    experiment: str | None
    detail: str


class Checkpoint(NamedTuple):
    """A state as it was, with the queues (see `upkeep.py`). `floor`: nothing before it can be replayed."""

    experiment: int
    state: State
    queue: bytes
    floor: bool
    at: float


class Old(NamedTuple):
    """What of an experiment is past its retention: events up to that place; of the rest what is before that time."""

    before: float
    place: int


class Reader(Protocol):
    """What can be read."""

    def now(self) -> float:
        """The database's clock."""

    def ask(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """The rows of a statement that all dialects share, with `?` for each value."""

    def written(self) -> int:
        """Bytes of log that the server of the database has written; 0 where others cannot write: on a standby, say."""

    def generation(self) -> int:
        """Another number whenever a process makes or changes an experiment, where several may."""

    def meta(self, key: str) -> str | None: ...

    def experiments(self) -> list[ExperimentRow]: ...

    def heads(self, experiments: Sequence[int] | None = None) -> dict[int, Head]:
        """Where these logs stand, or all."""

    def decisions(self, tickets: Sequence[bytes]) -> dict[bytes, DecisionRow]:
        """Those of the tickets that exist."""

    def states(self, experiment: int, instances: Sequence[int]) -> dict[int, State]: ...

    def states_after(self, experiment: int, instance: int, limit: int) -> list[State]:
        """The next states by instance."""

    def free(self, experiment: int) -> list[tuple[int, int]]:
        """Pool and instance of the states that are on record as free."""

    def events_since(self, experiment: int, place: int, limit: int, at: float = 0.0) -> list[Event]:
        """The next events of a log. None that is wanted happened long before `at`."""

    def events_of(self, experiment: int, instance: int, seq: int, limit: int) -> list[Event]:
        """The next events by instance and sequence number, after that one."""

    def growths(self, experiment: int) -> dict[int, list[tuple[int, int, int]]]:
        """For each instance at which of its events an action was added, the number of that action, and the place."""

    def due(self, now: float, limit: int, besides: Sequence[int] = ()) -> list[tuple[int, bytes]]:
        """Experiment and ticket of open decisions whose time has come, but of these experiments."""

    def decisions_after(self, experiment: int, round_: int, limit: int, since: float = 0.0) -> list[DecisionRow]:
        """The next decisions by round, of those that were made, have ended, or were remarked upon since then."""

    def counters(self, experiment: int) -> dict[str, int]: ...

    def queued(self, experiment: int) -> list[Queued]:
        """All that waits, in order."""

    def remarks(self, tickets: Sequence[bytes]) -> list[Remark]:
        """What is on record about decisions and was not learned, in the order in which it came."""

    def folds(self) -> dict[int, tuple[int, str]]:
        """Saved statistics: up to which event, and what they are."""

    def tokens(self) -> list[Token]: ...

    def checkpoints(self, experiment: int, instances: Sequence[int] | None = None) -> dict[int, list[Checkpoint]]:
        """Those of each instance, oldest first."""


class Writer(Reader, Protocol):
    """What can be read and written, in one transaction.

    It is the `turn`th of this process, and nobody else has had one from the turn `since` on: a log that was had here
    since then ends where it did (see `turns.py`). Both are known once the clock is.
    """

    @property
    def turn(self) -> int: ...

    @property
    def since(self) -> int: ...

    def look(
        self, experiments: Sequence[int], tickets: Sequence[bytes], keys: Sequence[tuple[int, str]]
    ) -> tuple[dict[int, Head], dict[bytes, DecisionRow], dict[tuple[int, str], Key]]:
        """All that a batch needs to begin with."""

    def tell(self, sql: str, values: Sequence[Any] = ()) -> None:
        """A statement without rows; see `ask`."""

    def set_meta(self, key: str, value: str) -> None: ...

    def add_experiment(self, row: ExperimentRow) -> int | None:
        """Its id; None if the name is taken. (The id in `row` does not count.)"""

    def change_experiment(self, row: ExperimentRow) -> None: ...

    def remove_experiment(self, experiment: int) -> None:
        """It is gone, and its name is free. What belongs to it is left to `erase.py`."""

    def put_heads(self, rows: Iterable[Head]) -> None: ...

    def put_states(self, states: Iterable[tuple[int, State]]) -> None:
        """Write states of experiments, new ones and known ones."""

    def add_decisions(self, rows: Sequence[DecisionRow]) -> None: ...

    def end(self, rows: Iterable[Closing]) -> None:
        """Write how decisions ended."""

    def add_events(self, rows: Sequence[Event]) -> None: ...

    def add_remarks(self, rows: Iterable[Remark]) -> None: ...

    def count(self, counts: dict[tuple[int, str], int]) -> None:
        """So many more, for each experiment and kind."""

    def push(self, rows: Iterable[Queued]) -> None:
        """Write what waits in queues; what is there already is left."""

    def pull(self, rows: Iterable[tuple[int, int, int]]) -> None:
        """Feedback that was consumed (experiment, cell, position) leaves its queue, if it is on record there."""

    def add_keys(self, rows: Iterable[Key]) -> None: ...

    def extend_key(self, row: Key) -> None:
        """A longer answer takes the place of the one before."""

    def purge_keys(self, before: float, limit: int) -> int: ...

    def put_folds(self, rows: Iterable[tuple[int, int, str]]) -> None:
        """Save statistics, where none are saved that go further."""

    def add_token(self, token: Token) -> None: ...

    def revoke(self, name: str, at: float) -> int: ...

    def unchecked(self, experiment: int, instance: int, limit: int) -> list[State]:
        """The next states by instance that have no checkpoint of their present sequence number."""

    def add_checkpoints(self, rows: Iterable[Checkpoint]) -> None: ...

    def purge(self, old: dict[int, Old], now: float, limit: int) -> int:
        """Delete what is past the retention of these experiments: events from the first on, each decision with the
        event that ended it, remarks, and checkpoints that are older than one at which all can begin. What goes is found
        by its place in the log, and not by its time: clocks are set back.

        At most about so many rows; returns how many went."""


class Store(Protocol):
    """A database."""

    #: True when no other process writes.
    exclusive: bool
    #: Whether states of earlier versions may be brought up to date.
    migrates: bool
    #: Errors after which a transaction can only be undone.
    spoils: tuple[type[Exception], ...]

    def write(self, *, alone: bool = False, lock: Sequence[int] = ()) -> AbstractContextManager[Writer]:
        """A transaction; `alone` where no other process may write meanwhile, else these experiments are its own."""

    def read(self) -> AbstractContextManager[Reader]: ...

    def tend(self) -> None:
        """What a database needs every second or so, beside the work."""

    def backup(self, file: str) -> None: ...

    def close(self) -> None: ...


def ended(events: Iterable[tuple[bytes | None, str]]) -> list[tuple[bytes]]:
    """The tickets of those decisions that ended by these events, of which ticket and kind are given."""
    return [(ticket,) for ticket, kind in events if ticket is not None and kind != "decide"]


def day_of(at: float) -> int:
    """The day of a moment, counted from 1970."""
    return int(at // DAY)
