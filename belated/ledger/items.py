"""What the ledger can be asked to do, and what it answers. Items are checked before they come here."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from belated.ledger.errors import Refused
from belated.ledger.experiment import Experiment
from belated.ledger.player import Player
from belated.ledger.store import Note
from belated.protocols import Floats

_CLAIM = threading.Lock()


class By(NamedTuple):
    """Who asks, for the log: the name of a token, and an address."""

    who: str = "anybody"
    address: str = ""


ANYBODY = By()


@dataclass(slots=True, eq=False)
class Asked:
    """What somebody waits for, `until` a moment of `time.monotonic()`: after that it is not begun any more."""

    until: float = field(default=math.inf, kw_only=True)
    begun: bool = field(default=False, kw_only=True)

    def begin(self) -> bool:
        """Whether somebody still waits: then it is done."""
        return self.begin_all([self])[0]

    @staticmethod
    def begin_all(items: Sequence[Asked]) -> list[bool]:
        """The same for many."""
        with _CLAIM:
            now, waits = time.monotonic(), []
            for item in items:
                begun = item.until > now
                item.begun = item.begun or begun
                waits.append(begun)
            return waits

    def leave(self) -> bool:
        """Nobody waits any more. Whether it will not be done; what has begun may be."""
        with _CLAIM:
            self.until = 0.0
            return not self.begun


@dataclass(slots=True, eq=False)
class Create(Asked):
    """A new experiment, with the player that `Ledger.prepare` made for it. Answer: the experiment."""

    experiment: Experiment
    player: Player
    by: By = ANYBODY


@dataclass(slots=True, eq=False)
class Archive(Asked):
    """No more decisions; open ones may still end. Or, to `undo` it, decisions again. Answer: the experiment."""

    experiment: Experiment
    by: By = ANYBODY
    undo: bool = False


@dataclass(slots=True, eq=False)
class Change(Asked):
    """Other rules for an experiment, see `Experiment.changed_to`. Answer: the experiment."""

    experiment: Experiment
    rules: dict[str, Any]
    by: By = ANYBODY


@dataclass(slots=True, eq=False)
class Delete(Asked):
    """The experiment is gone, and its name free; its data goes with `Erase`. Answer: the experiment as it was."""

    experiment: Experiment
    by: By = ANYBODY


@dataclass(slots=True, eq=False)
class Erase:
    """Some of the data of deleted experiments goes. Answer: whether more is left."""

    limit: int = 5000


@dataclass(slots=True, eq=False)
class Replace(Asked):
    """An action is retired and a new one takes its number. Answer: the experiment."""

    experiment: Experiment
    action: str
    new: str
    by: By = ANYBODY


@dataclass(slots=True, eq=False)
class Grow(Asked):
    """One more action, with the player that `Ledger.prepare` made for it. Answer: the experiment."""

    experiment: Experiment
    new: str
    player: Player
    by: By = ANYBODY


@dataclass(slots=True, eq=False)
class Decide(Asked):
    """One decision for each context (None where there is none). Answer: a list of `Decided`, or `Again`.

    `allowed` names the actions that may be chosen. They are looked up when the decision is made: another process may
    have replaced some since. A `key` makes it safe to ask again: the same `digest` gets the same answer, another one is
    refused.

    It may be a slice of a larger request: `before` decisions of it were made already, `after` will be asked for later.
    The experiment's limit is looked at once, for all of them. With a key the answer is on record as far as it goes, and
    who asks again goes on from there.
    """

    experiment: Experiment
    contexts: Sequence[Floats | None]
    allowed: Sequence[str] | None = None
    key: str | None = None
    digest: bytes = b""
    before: int = 0
    after: int = 0


@dataclass(slots=True)
class Decided:
    """A decision as it was given out."""

    ticket: str
    action: int
    name: str
    probability: float | None  #: None where the learner does not state it
    round: int
    expires_at: float | None

    def __reduce__(self) -> tuple[Any, ...]:
        """By position, which takes half of the time."""
        return Decided, (self.ticket, self.action, self.name, self.probability, self.round, self.expires_at)


def waited() -> Refused:
    """What is answered to what was not begun."""
    return Refused("waited", "this waited for too long and was not begun; it is safe to ask again")


class Again(list[Decided]):
    """The answer to a key that was used before: nothing was decided now."""


@dataclass(slots=True, eq=False)
class Feedback(Asked):
    """Values for tickets (None: no ticket of ours). Answer: for each 'applied', 'duplicate', 'late', or a refusal.

    A value that is a refusal itself was found wrong before, and comes back.
    """

    experiment: Experiment
    entries: Sequence[tuple[bytes | None, Any]]


@dataclass(slots=True, eq=False)
class Cancel(Asked):
    """Decisions that were never shown. Answer: for each 'cancelled' or a refusal.

    What is wrong with one may stand in the place of its ticket, and is the answer to it.
    """

    experiment: Experiment
    tickets: Sequence[bytes | Refused | None]


@dataclass(slots=True, eq=False)
class Sweep:
    """End what has expired, the longest due first, at most `limit` decisions. Answer: whether more may be due.

    `only` is one experiment, by its number; 0 is none.
    """

    limit: int = 500
    only: int | None = None


@dataclass(slots=True, eq=False)
class Save:
    """Put learner states on record, about so many: of the experiments at work here, or of all. Answer: whether more are
    to be written. `last`: this process stops then. `only` is one experiment, by its number; 0 is none."""

    limit: int = 500
    all: bool = False
    last: bool = False
    only: int | None = None


@dataclass(slots=True, eq=False)
class Upkeep:
    """Save statistics, forget old idempotency keys, and what is past its retention. Answer: whether more is to do.

    `only` is the one experiment, by its number, whose retention is looked at; 0 is none.
    """

    limit: int = 5000
    only: int | None = None


@dataclass(slots=True, eq=False)
class Probe(Asked):
    """Write something small. Answer: True, once it is on disk."""


@dataclass(slots=True, eq=False)
class Record:
    """When tokens were last used (digests and times), and lines of the log. Answer: None."""

    uses: dict[bytes, float]
    notes: Sequence[Note] = ()


#: What changes an experiment, and so is done while nobody else writes.
Administration = Create | Archive | Change | Delete | Replace | Grow
#: What shares a transaction.
SHARED = (Decide, Feedback, Cancel)
Item = Administration | Erase | Decide | Feedback | Cancel | Sweep | Save | Upkeep | Record | Probe
Outcome = str | Refused


def ticket_of(text: Any) -> bytes | None:
    """The 16 bytes of a ticket; None if it cannot be one.

    >>> ticket_of("00112233445566778899aabbccddeeff").hex()
    '00112233445566778899aabbccddeeff'
    >>> ticket_of("zz") is None
    True
    """
    if not isinstance(text, str) or len(text) != 32:
        return None
    try:
        ticket = bytes.fromhex(text)
    except ValueError:
        return None
    return ticket if len(ticket) == 16 else None


def write_value(value: Any) -> str:
    """A value as it is stored: JSON, numbers always as floats."""
    if isinstance(value, str):
        return json.dumps(value)
    return repr(float(value)) if not isinstance(value, list) else json.dumps([float(each) for each in value])


def read_value(text: str | None) -> Any:
    """What `write_value` wrote."""
    return None if text is None else json.loads(text)
