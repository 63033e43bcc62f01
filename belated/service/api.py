"""Bodies of requests, strictly read, and what they become in the ledger; and how answers look."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qs

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from belated.errors import InvalidArgument, Unsupported
from belated.ledger.errors import Refused
from belated.ledger.experiment import FIXED, HIDDEN, RULES, Experiment, make
from belated.ledger.items import Cancel, Decide, Decided, Feedback, ticket_of
from belated.service import wrong

#: Decisions that one request may ask for, and feedback or cancellations that it may bring.
COUNT = 10_000
#: Lines of the log that are shown, and how many may be asked for.
LINES, MOST_LINES = 100, 10_000
#: What names of actions and tokens cannot have, for those who read the description.
SEEN = {"pattern": f"^[^{HIDDEN}]*$"}

Context = float | list[float] | dict[str, Any]
Value = float | str | list[float]


Name = Annotated[str, Meta(min_length=1, max_length=200, extra_json_schema=SEEN)]


class Limits(Struct, forbid_unknown_fields=True):
    """What keeps an experiment small."""

    outstanding: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 10_000_000


class NewExperiment(Struct, forbid_unknown_fields=True):
    """An experiment to create."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", examples=["ads"])]
    actions: Annotated[list[Name], Meta(min_length=1, max_length=1000)]
    forecaster: dict[str, Any] | str
    reward_range: Annotated[list[float], Meta(min_length=2, max_length=2)] = field(default_factory=lambda: [0.0, 1.0])
    expiry_seconds: float | None = None
    on_expiry: str | float = "drop"
    seed: Annotated[int, Meta(ge=0)] | None = None
    limits: Limits = field(default_factory=Limits)
    retention_seconds: float | None = None
    features: Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=1000)] | None = None


class NewLimits(Struct, forbid_unknown_fields=True):
    """The limits that are to be others; what is left out stays."""

    outstanding: Annotated[int, Meta(ge=1, le=1_000_000_000)] | UnsetType = UNSET


class NewRules(Struct, forbid_unknown_fields=True):
    """What of an experiment is to be another; what is left out stays."""

    expiry_seconds: float | UnsetType | None = UNSET
    on_expiry: str | float | UnsetType = UNSET
    limits: NewLimits | UnsetType = UNSET
    retention_seconds: float | UnsetType | None = UNSET


class NewDecisions(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One decision; or `count` of them; or one for each of `contexts`."""

    context: Context | None = None
    count: Annotated[int, Meta(ge=1, le=COUNT)] | None = None
    contexts: Annotated[list[Context], Meta(min_length=1, max_length=COUNT)] | None = None
    allowed: Annotated[list[str], Meta(min_length=1)] | None = None


class NewFeedback(Struct, forbid_unknown_fields=True):
    """The value of a decision: a reward; for learners of full information all rewards; or a symbol."""

    ticket: Any
    value: Value


class Cancellation(Struct, forbid_unknown_fields=True):
    """A decision that was never shown."""

    ticket: Any


class Replacement(Struct, forbid_unknown_fields=True):
    """A new action takes the place of an old one."""

    action: str
    new: Name


class NewAction(Struct, forbid_unknown_fields=True):
    """One more action."""

    name: Name


Body = TypeVar("Body")
_decisions = msgspec.json.Decoder(NewDecisions)
_feedback = msgspec.json.Decoder(NewFeedback)
_any = msgspec.json.Decoder()
encode = msgspec.json.Encoder().encode
#: The same for the same object, in whatever order its keys came.
_sorted = msgspec.json.Encoder(order="deterministic").encode
#: What reading may raise: bytes within a text that are no UTF-8 have an error of their own.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Malformed(Exception):
    """A body that is no JSON."""


def limit(query: bytes) -> int:
    """How many lines of the log are asked for.

    >>> limit(b""), limit(b"limit=7")
    (100, 7)
    """
    given = parse_qs(query.decode("latin-1"), keep_blank_values=True).get("limit", [str(LINES)])
    text = given[0] if len(given) == 1 else " and ".join(given)
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MOST_LINES):
        raise Refused("invalid", f"limit must be a number from 1 to {MOST_LINES}, got {text[:100]!r}")
    return int(text)


def read(body: bytes, *, items: bool = False) -> Any:
    """A body as data. NaN, infinite and too large numbers are read, so that they can be refused by name.

    Halves of characters, which JSON can write and nobody can send back, are refused; among `items` they become question
    marks, so that the others are read.
    """
    try:
        return _any.decode(body)
    except UNREADABLE:
        pass
    try:
        data = json.loads(body, parse_int=_whole)
        text = json.dumps(data, ensure_ascii=False).encode(errors="replace" if items else "strict")
        return json.loads(text, parse_int=_whole) if items else data
    except UnicodeDecodeError:
        raise Malformed("the body is not JSON: it is no UTF-8 text (one that is packed cannot be read)") from None
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the body is not JSON: {error}") from None


def read_items(body: bytes) -> Any:
    """A body that may be a list, which may not be too long."""
    data = read(body, items=True)
    if isinstance(data, list) and len(data) > COUNT:
        raise Refused("invalid", f"a list may have {COUNT} items, got {len(data)}")
    return data


def _whole(digits: str) -> int | float:
    """A whole number; one that Python takes too long to read is infinite, and so refused by name."""
    return int(digits) if len(digits) < 1000 else float(digits)


def parse(body: bytes, kind: type[Body]) -> Body:
    """A body of a kind; Malformed if it is no JSON, a refusal if it is something else."""
    return convert(read(body), kind)


def convert(data: Any, kind: type[Body]) -> Body:
    """Data of a kind."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise Refused("invalid", wrong.plain(error, data, kind)) from None


# --- from bodies to items ---


def experiment(body: bytes) -> Experiment:
    """The experiment that a body describes."""
    new = parse(body, NewExperiment)
    given = msgspec.structs.asdict(new) | {"limits": msgspec.structs.asdict(new.limits)}
    try:
        return make(**given)
    except InvalidArgument as error:
        raise refusal(error) from None


def rules(body: bytes) -> dict[str, Any]:
    """The rules that a body gives."""
    data = read(body)
    fixed = next((name for name in data if name in FIXED), None) if isinstance(data, dict) else None
    if fixed is not None:
        can = ", ".join(RULES)
        raise Refused("invalid", f"{fixed!r} cannot be changed: {FIXED[fixed]}; these can: {can}")
    given: dict[str, Any] = msgspec.to_builtins(convert(data, NewRules))
    return given


def decide(to: Experiment, body: bytes, key: str | None) -> tuple[Decide, bool]:
    """The decisions that a body asks for, and whether it asks for a list."""
    try:
        asked = _decisions.decode(body or b"{}")
    except UNREADABLE:
        asked = parse(body, NewDecisions)
    try:
        contexts, several = _contexts(to, asked)
        if asked.allowed is not None:
            to.check_allowed()
    except InvalidArgument as error:
        raise refusal(error) from None
    if key is None:
        return Decide(to, contexts, asked.allowed), several
    if not 1 <= len(key) <= 200:
        raise Refused("invalid", f"an Idempotency-Key has 1 to 200 characters, got {len(key)}")
    return Decide(to, contexts, asked.allowed, key, _digest(asked)), several


def _digest(asked: NewDecisions) -> bytes:
    try:
        return hashlib.sha256(_sorted(asked)).digest()
    except RecursionError:  # in what is ignored of a context
        raise Malformed("the body is nested too deep") from None


def _contexts(to: Experiment, asked: NewDecisions) -> tuple[list[Any], bool]:
    if (asked.context is not None) + (asked.count is not None) + (asked.contexts is not None) > 1:
        raise InvalidArgument("one of context, count and contexts may be given")
    if asked.contexts is not None:
        return [_context(to, number, context) for number, context in enumerate(asked.contexts)], True
    if asked.count is not None:
        return [to.context(None)] * asked.count, True
    return [to.context(asked.context)], False


def _context(to: Experiment, number: int, given: Any) -> Any:
    """One of several contexts; what is wrong with it names it."""
    try:
        return to.context(given)
    except InvalidArgument as error:
        raise type(error)(f"contexts[{number}]: {error}") from None


def feedback(to: Experiment, body: bytes) -> tuple[Feedback, list[Any] | None]:
    """The feedback in a body, and the tickets of a list (None for a single one)."""
    try:
        one = _feedback.decode(body)
    except UNREADABLE:
        data = read_items(body)
        if isinstance(data, list):
            return Feedback(to, [_entry(to, each) for each in data]), [_ticket_text(each) for each in data]
        one = convert(data, NewFeedback)
    try:
        to.check(one.value)
    except InvalidArgument as error:
        raise refusal(error) from None
    return Feedback(to, [(ticket_of(one.ticket), one.value)]), None


def _entry(to: Experiment, data: Any) -> tuple[bytes | None, Any]:
    """One of a list: what is wrong with it is its own affair."""
    try:
        one = convert(data, NewFeedback)
        to.check(one.value)
    except InvalidArgument as error:
        return _entry_ticket(data), refusal(error)
    except Refused as error:
        return _entry_ticket(data), error.with_traceback(None)
    return ticket_of(one.ticket), one.value


def _entry_ticket(data: Any) -> bytes | None:
    return ticket_of(data.get("ticket")) if isinstance(data, dict) else None


def _ticket_text(data: Any) -> Any:
    ticket = data.get("ticket") if isinstance(data, dict) else None
    return ticket if isinstance(ticket, str) else None


def cancel(to: Experiment, body: bytes) -> tuple[Cancel, list[Any] | None]:
    """The cancellations in a body, and the tickets of a list (None for a single one)."""
    data = read_items(body)
    if isinstance(data, list):
        return Cancel(to, [_cancelled(each) for each in data]), [_ticket_text(each) for each in data]
    return Cancel(to, [ticket_of(convert(data, Cancellation).ticket)]), None


def _cancelled(data: Any) -> bytes | Refused | None:
    """One of a list: what is wrong with it is its own affair."""
    try:
        return ticket_of(convert(data, Cancellation).ticket)
    except Refused as error:
        return error.with_traceback(None)


def refusal(error: InvalidArgument) -> Refused:
    """An error of an argument as a refusal."""
    return Refused("unsupported" if isinstance(error, Unsupported) else "invalid", str(error))


# --- from answers to bodies ---


def decided(answer: list[Decided], several: bool) -> bytes:
    """The body that tells of decisions."""
    return encode({"decisions": answer} if several else answer[0])


def outcome(ticket: Any, answer: str | Refused) -> dict[str, Any]:
    """One item of a list of feedback or cancellations."""
    if isinstance(answer, Refused):
        return {"ticket": ticket, "status": "error", "error": {"kind": answer.kind, "message": str(answer)}}
    return {"ticket": ticket, "status": answer}


def described(experiment: Experiment) -> dict[str, Any]:
    """An experiment as people see it."""
    return {
        "name": experiment.name,
        "features": None,
        **experiment.spec(),
        "context_size": experiment.learner.context_size,
        "created_at": experiment.created_at,
        "archived_at": experiment.archived_at,
        "read_only": experiment.trouble,
        "propensity": experiment.propensity,
        "warnings": experiment.warnings,
    }
