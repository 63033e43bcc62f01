"""What the ledger asks of a database: rows, and the few set-based verbs that read and write them.

A `Store` gives out sessions. `write()` is one transaction, committed at its end or rolled back as a whole; there is one
at a time in a process. `read()` is a consistent view that waits for nobody. Within a `write`, rows are locked in the
order of their keys, so that several processes never wait for each other in a circle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

#: Events of an experiment itself, and of none of its states, have this instance.
OWN = -1


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
    """One learner state. `held` are the notes of the forecaster's rule, with the first state; `steps` is how often that
    was asked, where this is counted; `pool` is where the instance is free."""

    instance: int
    seq: int
    free: bool
    data: bytes
    held: bytes | None = None
    steps: int = 0
    pool: int = 0


def state_row(state: State) -> tuple[Any, ...]:
    """A state as its columns."""
    return (
        *(state.instance, state.seq, int(state.free), state.data),
        *(state.held, state.steps, state.pool),
    )


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
    ticket: bytes


class Event(NamedTuple):
    """A change of a learner state: decide, feedback, stale, default, cancel, drop, replace, grow or change.

    `stale` is feedback for an action that was replaced since; `grow` adds the action, which is the last one then;
    `change` is of the experiment's own rules, with its JSON as the value, and leaves the learner as it was; `delay` is
    how long a decision was open.
    """

    experiment: int
    instance: int
    seq: int
    kind: str
    ticket: bytes | None
    action: int | None
    probability: float | None
    value: str | None
    delay: float | None
    at: float


class NumberedEvent(NamedTuple):
    """An event with its place in the order of all."""

    id: int
    event: Event


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


class Reader(Protocol):
    """What can be read."""

    def now(self) -> float:
        """The database's clock."""

    def ask(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """The rows of a statement that all dialects share, with `?` for each value."""

    def generation(self) -> int:
        """Another number whenever a process makes or changes an experiment, where several may."""

    def meta(self, key: str) -> str | None: ...

    def experiments(self) -> list[ExperimentRow]: ...

    def decisions(self, tickets: Sequence[bytes]) -> dict[bytes, DecisionRow]:
        """Those of the tickets that exist, locked in a `write`."""

    def states(self, experiment: int, instances: Sequence[int]) -> dict[int, State]:
        """These states, locked in a `write`."""

    def all_states(self, experiment: int) -> Iterator[State]: ...

    def events_of(self, experiment: int) -> Iterator[tuple[Event, DecisionRow | None]]:
        """All events by state and sequence number, with the decision that they are about."""

    def growths(self, experiment: int) -> dict[int, list[tuple[int, int]]]:
        """For each instance at which of its events an action was added, and the number of that action."""

    def events_after(self, id_: int, limit: int) -> list[NumberedEvent]:
        """The next events of all experiments, in an order that will not change any more."""

    def has_events(self, experiment: int, upto: int) -> bool:
        """Whether it has any up to that one."""

    def decisions_of(self, experiment: int, size: int) -> Iterator[list[DecisionRow]]:
        """All decisions by round, so many at a time."""

    def counters(self, experiment: int) -> dict[str, int]: ...

    def queue_lengths(self, experiment: int) -> dict[int, int]: ...

    def queued(self, experiment: int, cell: int, after: int, limit: int) -> list[Queued]: ...

    def outstanding(self, experiment: int) -> int: ...

    def remarks(self, ticket: bytes) -> list[Remark]:
        """What is on record about a decision and was not learned."""

    def folds(self, after: int = -1) -> dict[int, tuple[int, str]]:
        """Saved statistics that go further than that event."""

    def lag(self) -> float:
        """By how many seconds `events_after` lags behind what is committed."""

    def tokens(self) -> list[Token]: ...

    def checkpoints(self, experiment: int) -> dict[int, list[Checkpoint]]:
        """Those of each instance, oldest first."""


class Writer(Reader, Protocol):
    """What can be read and written, in one transaction."""

    def tell(self, sql: str, values: Sequence[Any] = ()) -> None:
        """A statement without rows; see `ask`."""

    def set_meta(self, key: str, value: str) -> None: ...

    def add_experiment(self, row: ExperimentRow, seats: int = 1) -> int | None:
        """Its id; None if the name is taken. (The id in `row` does not count.) So many states come with it."""

    def change_experiment(self, row: ExperimentRow) -> None: ...

    def remove_experiment(self, experiment: int) -> None:
        """It is gone, and its name is free. What belongs to it is left to `erase.py`."""

    def take_rounds(self, experiment: int, count: int) -> int:
        """The first of so many round numbers that nobody else gets."""

    def take_free(self, experiment: int, pool: int, count: int, besides: Sequence[int]) -> list[State]:
        """The lowest-numbered free states of a pool, at most so many, but not those that the caller has in hand."""

    def next_instance(self, experiment: int, count: int) -> int:
        """The first of so many new instance numbers."""

    def put_states(self, experiment: int, states: Iterable[State]) -> None:
        """Write states, new ones and known ones."""

    def add_decisions(self, rows: Iterable[DecisionRow]) -> None: ...

    def end(self, rows: Iterable[Closing]) -> None:
        """Write how decisions ended."""

    def make_stale(self, experiment: int, action: int) -> None:
        """Mark the open decisions for that action."""

    def due(self, experiment: int, now: float, limit: int) -> list[DecisionRow]:
        """Open decisions whose time has come, locked; those that another process has in hand are left to it."""

    def add_events(self, rows: Iterable[Event]) -> None: ...

    def add_remarks(self, rows: Iterable[Remark]) -> None: ...

    def count(self, experiment: int, kind: str, by: int) -> None: ...

    def push(self, rows: Iterable[Queued]) -> None: ...

    def pull(self, rows: Iterable[Queued]) -> None:
        """Feedback that was consumed leaves its queue."""

    def find_keys(self, wanted: Sequence[tuple[int, str]]) -> dict[tuple[int, str], Key]: ...

    def add_keys(self, rows: Iterable[Key]) -> None: ...

    def extend_key(self, row: Key, before: str) -> None:
        """A longer answer takes the place of `before`; Raced if another process was faster."""

    def purge_keys(self, before: float, limit: int) -> int: ...

    def put_folds(self, rows: Iterable[tuple[int, int, str]]) -> None: ...

    def add_token(self, token: Token) -> None: ...

    def revoke(self, name: str, at: float) -> int: ...

    def changed_since_checkpoint(self, experiment: int) -> Iterator[State]:
        """States that have no checkpoint of their present sequence number."""

    def add_checkpoints(self, rows: Iterable[Checkpoint]) -> None: ...

    def purge(self, experiment: int, before: float, limit: int) -> int:
        """Delete what lies before each state's newest checkpoint older than that time: events, at most so many and the
        oldest first, the contexts of the decisions that they closed, and in the end older checkpoints.

        Returns how many events went."""


class Store(Protocol):
    """A database."""

    #: True when no other process writes experiments: then counts may be kept in memory.
    exclusive: bool
    #: Whether states of earlier versions may be brought up to date.
    migrates: bool
    #: Errors after which a transaction can only be undone.
    spoils: tuple[type[Exception], ...]

    def write(self, *, alone: bool = False) -> AbstractContextManager[Writer]:
        """A transaction; `alone` where no other process may write meanwhile."""

    def read(self) -> AbstractContextManager[Reader]: ...

    def settle(self) -> None:
        """Wait a moment until what is committed has its place in the order of events."""

    def tend(self) -> None:
        """What a database needs every second or so, beside the work."""

    def backup(self, file: str) -> None: ...

    def close(self) -> None: ...
