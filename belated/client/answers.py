"""What a service answers, as data."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from belated.errors import InvalidArgument, ServiceError

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision: show the action called `name`, and report what came of it under `ticket`.

    Where `fallback` is true the service had no part in it: the ticket is empty and nothing can be reported.
    """

    ticket: str
    action: int  #: -1 for a fallback
    name: str
    probability: float | None  #: None where the learner does not state it
    round: int
    expires_at: float | None = None
    fallback: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of feedback ("applied", "duplicate" or "late") or of a cancellation ("cancelled").

    In a list an item may be refused: its status is "error", and `error` says why.
    """

    ticket: str | None
    status: str
    error: ServiceError | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A decision as it is on record; `state` is "open", "closed", "expired" or "cancelled"."""

    ticket: str
    action: int
    name: str
    probability: float | None  #: None where the learner does not state it
    round: int
    state: str
    context: list[float] | None
    allowed: list[str] | None
    value: Any
    decided_at: float
    expires_at: float | None
    closed_at: float | None


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment; `data` is everything that the service says of it."""

    name: str
    actions: list[str]
    forecaster: dict[str, Any]
    archived_at: float | None
    warnings: list[str]
    data: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Statistics:
    """How an experiment went; `data` is everything that the service says of it."""

    decisions: int
    feedback: int
    outstanding: int
    peak: int
    instances: int
    late: int
    expired: int
    conflicts: int
    duplicates: int
    pulls: list[int]
    data: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log: who changed what, from where, or was turned away."""

    at: float
    who: str
    address: str
    what: str
    experiment: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class Health:
    """How the service is."""

    status: str
    version: str


def made(kind: type[Made], data: dict[str, Any]) -> Made:
    """An answer, from what is known of it here: a newer service may say more."""
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in {**data, "data": data}.items() if name in names})


def decided(answer: dict[str, Any]) -> Decided | list[Decided]:
    """One decision or several."""
    if "decisions" in answer:
        return [made(Decided, each) for each in answer["decisions"]]
    return made(Decided, answer)


def outcome(data: dict[str, Any]) -> Outcome:
    """What became of one."""
    wrong = data.get("error")
    error = ServiceError(wrong["kind"], wrong["message"]) if wrong else None
    return Outcome(data["ticket"], data["status"], error)


Ticket = str | Decided | Record
OWN = "this decision is a fallback: the service did not make it, and can learn nothing from it"


def ticket_of(given: Ticket) -> str:
    """The ticket itself; a fallback has none."""
    text = given if isinstance(given, str) else given.ticket
    if not text:
        raise InvalidArgument(OWN)
    return text


class Listed:
    """A list of feedback or cancellations. Fallbacks in it are refused here, each for itself; the others are sent."""

    def __init__(self, entries: list[tuple[Ticket, dict[str, Any]]]) -> None:
        self.body: list[dict[str, Any]] = []
        self._sent: list[bool] = []
        for given, more in entries:
            text = given if isinstance(given, str) else given.ticket
            self._sent.append(bool(text))
            if text:
                self.body.append({"ticket": text, **more})

    @property
    def idle(self) -> bool:
        """Whether nothing of it is to be sent."""
        return bool(self._sent) and not self.body

    def outcomes(self, results: list[dict[str, Any]]) -> list[Outcome]:
        """What became of each, in their order."""
        found = map(outcome, results)
        own = Outcome(None, "error", ServiceError("fallback", OWN))
        return [next(found) if sent else own for sent in self._sent]
