"""A client of the decision service, `bl.Client`: the verbs of its API, with timeouts and retries.

    import belated as bl

    with bl.Client("http://127.0.0.1:8000") as client:
        client.create("ads", ["red", "green", "blue"], "bold(exp3)", expiry_seconds=3600)
        decision = client.decide("ads")
        show(decision.name)
        client.feedback("ads", decision, 1.0)  # at any time, from any process

A call that gets no answer, or one that says "later", is made again, after waits that double; what could then happen
twice is not. A decision carries a key, so that the service gives the answer it gave before; feedback and cancellations
change nothing the second time.
"""

from __future__ import annotations

import json
import random
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self, TypeVar, overload
from urllib.parse import quote

from belated import catalog, require
from belated.errors import InvalidArgument, ServiceError
from belated.forecasters import Forecaster

try:
    import httpx
except ImportError as error:
    raise ImportError("bl.Client needs httpx: pip install 'belated[client]'") from error

#: Seconds before the second try, doubled before each further one, and the longest; up to a half is added at random.
FIRST_WAIT = 0.1
LONGEST_WAIT = 5.0
#: The longest that a service may tell us to wait.
PATIENCE = 30.0
#: Seconds that an idle connection is kept: less than the service does.
KEEP = 4.0
CONNECTIONS = 100

#: Answers that mean "later".
LATER = frozenset({429, 502, 503, 504})
#: Answers that mean that nothing was looked at.
UNTOUCHED = ("busy", "too_fast", "waited")
#: Failures after which the service has certainly seen nothing.
UNSEEN = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
#: Failures that another try cannot mend.
HOPELESS = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision: show the action called `name`, and report what came of it under `ticket`."""

    ticket: str
    action: int
    name: str
    probability: float | None  #: None where the learner does not state it
    round: int
    expires_at: float | None = None


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
class Health:
    """How the service is."""

    status: str
    version: str


def _made(kind: type[Made], data: dict[str, Any]) -> Made:
    """An answer, from what is known of it here: a newer service may say more."""
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in {**data, "data": data}.items() if name in names})


def _outcome(data: dict[str, Any]) -> Outcome:
    wrong = data.get("error")
    error = ServiceError(wrong["kind"], wrong["message"]) if wrong else None
    return Outcome(data["ticket"], data["status"], error)


Ticket = str | Decided | Record


def _ticket(given: Ticket) -> str:
    return given if isinstance(given, str) else given.ticket


def _plain(value: Any) -> Any:
    """NumPy's numbers and vectors as JSON knows them."""
    return value.tolist()


class Client:
    """A decision service at a URL. Threads may share a client; it keeps connections open until `close`.

    `timeout` is in seconds and for each try; after the first there are up to `retries` more. What fails in the end is
    a `ServiceError`: with the service's own `kind` and message, or of the kind "unreachable".
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 10.0, retries: int = 6) -> None:
        self.url = url.rstrip("/")
        if token is not None and not (isinstance(token, str) and token.isascii() and token.isprintable()):
            raise InvalidArgument("the token must be of printable ASCII characters; one was given that is not")
        self._timeout = require.real("timeout", timeout, above=0)
        self._retries = require.integer("retries", retries, low=0)
        self._http = httpx.Client(
            headers={"authorization": f"Bearer {token}"} if token else {},
            timeout=self._timeout,
            limits=httpx.Limits(
                max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS, keepalive_expiry=KEEP
            ),
        )

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the connections go."""
        self._http.close()

    # --- experiments ---

    def create(
        self, name: str, actions: Sequence[str], forecaster: Forecaster | dict[str, Any] | str, **more: Any
    ) -> Experiment:
        """A new experiment. `more` are reward_range, expiry_seconds, on_expiry, seed, limits and retention_seconds.

        The forecaster is one of ours, such as `bl.BOLD(bl.Exp3(actions=3), seed=7)`, or as the catalog writes it.
        """
        if isinstance(forecaster, Forecaster):
            data = catalog.to_data(forecaster)
            given = {"reward_range": data.pop("reward_range")} if "reward_range" in data else {}
            more = {"seed": forecaster.seed, **given, **more}
            forecaster = data
        body = {"name": name, "actions": list(actions), "forecaster": forecaster, **more}
        return _made(Experiment, self._call("POST", "/v1/experiments", body, again=False))

    def experiments(self) -> list[Experiment]:
        """All experiments, oldest first."""
        return [_made(Experiment, each) for each in self._call("GET", "/v1/experiments")["experiments"]]

    def experiment(self, name: str) -> Experiment:
        """One experiment."""
        return _made(Experiment, self._call("GET", _path(name)))

    def archive(self, name: str) -> Experiment:
        """No more decisions; open ones may still end."""
        return _made(Experiment, self._call("POST", _path(name, "archive")))

    def unarchive(self, name: str) -> Experiment:
        """Decisions again."""
        return _made(Experiment, self._call("POST", _path(name, "unarchive")))

    def change(self, name: str, **rules: Any) -> Experiment:
        """Other rules: any of expiry_seconds, on_expiry, limits and retention_seconds. The others stay.

        Decisions that are open keep the time when they expire.
        """
        return _made(Experiment, self._call("PATCH", _path(name), rules))

    def delete(self, name: str, *, confirm: str) -> None:
        """Delete an experiment with all its data, for good; `confirm` is its name again."""
        if confirm != name:
            raise InvalidArgument(f"to delete {name!r} with all its data, confirm must be that name, got {confirm!r}")
        self._call("DELETE", _path(name), again=False)

    def replace(self, name: str, action: str, new: str) -> Experiment:
        """Retire an action; a new one takes its place."""
        body = {"action": action, "new": new}
        return _made(Experiment, self._call("POST", _path(name, "replacements"), body, again=False))

    def add_action(self, name: str, new: str) -> Experiment:
        """One more action, unknown to the learner. Not every learner can do it."""
        return _made(Experiment, self._call("POST", _path(name, "actions"), {"name": new}, again=False))

    def statistics(self, name: str) -> Statistics:
        """How an experiment went so far."""
        return _made(Statistics, self._call("GET", _path(name, "statistics")))

    # --- decisions ---

    @overload
    def decide(
        self, name: str, context: Any = ..., *, allowed: Sequence[str] | None = ..., key: str | None = ...
    ) -> Decided: ...

    @overload
    def decide(
        self, name: str, *, count: int, allowed: Sequence[str] | None = ..., key: str | None = ...
    ) -> list[Decided]: ...

    @overload
    def decide(
        self, name: str, *, contexts: Sequence[Any], allowed: Sequence[str] | None = ..., key: str | None = ...
    ) -> list[Decided]: ...

    def decide(
        self,
        name: str,
        context: Any = None,
        *,
        count: int | None = None,
        contexts: Sequence[Any] | None = None,
        allowed: Sequence[str] | None = None,
        key: str | None = None,
    ) -> Decided | list[Decided]:
        """One decision; with `count` or `contexts` a list of them. `allowed` names the actions that are eligible now.

        The same `key` gets the same decisions again, for a day at least; without one each call has its own.
        """
        given = {"context": context, "count": count, "contexts": contexts, "allowed": allowed}
        body = {part: value for part, value in given.items() if value is not None}
        answer = self._call("POST", _path(name, "decisions"), body, key=key or secrets.token_hex(16))
        if "decisions" in answer:
            return [_made(Decided, each) for each in answer["decisions"]]
        return _made(Decided, answer)

    @overload
    def feedback(self, name: str, ticket: Ticket, value: Any) -> Outcome: ...

    @overload
    def feedback(self, name: str, ticket: Sequence[tuple[Ticket, Any]]) -> list[Outcome]: ...

    def feedback(self, name: str, ticket: Any, value: Any = None) -> Outcome | list[Outcome]:
        """The value of a decision; or a list of pairs of ticket and value, where a bad one harms no other.

        If the answer to a first try was lost, the status is "duplicate": the value is learned once.
        """
        if isinstance(ticket, Ticket):
            return _outcome(self._call("POST", _path(name, "feedback"), {"ticket": _ticket(ticket), "value": value}))
        body = [{"ticket": _ticket(each), "value": one} for each, one in ticket]
        return [_outcome(each) for each in self._call("POST", _path(name, "feedback"), body)["results"]]

    @overload
    def cancel(self, name: str, ticket: Ticket) -> Outcome: ...

    @overload
    def cancel(self, name: str, ticket: list[str] | list[Decided]) -> list[Outcome]: ...

    def cancel(self, name: str, ticket: Any) -> Outcome | list[Outcome]:
        """The decision was never shown: nothing is learned. Or a list of tickets."""
        if isinstance(ticket, Ticket):
            return _outcome(self._call("POST", _path(name, "cancellations"), {"ticket": _ticket(ticket)}))
        body = [{"ticket": _ticket(each)} for each in ticket]
        return [_outcome(each) for each in self._call("POST", _path(name, "cancellations"), body)["results"]]

    def decision(self, name: str, ticket: Ticket) -> Record:
        """A decision as it is on record, with its feedback if there is any."""
        return _made(Record, self._call("GET", _path(name, "decisions", _ticket(ticket))))

    def health(self) -> Health:
        """How the service is; it needs no token."""
        return _made(Health, self._call("GET", "/health"))

    # --- how a call is made ---

    def _call(self, method: str, path: str, body: Any = None, *, key: str | None = None, again: bool = True) -> Any:
        """The answer as data. Without `again` a call is repeated only if the service has certainly done nothing."""
        content = None if body is None else json.dumps(body, default=_plain).encode()
        headers = {} if key is None else {"idempotency-key": key}
        tries = 0
        while True:
            wait = 0.0
            try:
                answer = self._http.request(method, self.url + path, content=content, headers=headers)
            except httpx.TransportError as error:
                failure = ServiceError(
                    "unreachable", f"no answer from {self.url}: {str(error) or type(error).__name__}"
                )
                hope = isinstance(error, UNSEEN) or (again and not isinstance(error, HOPELESS))
            else:
                if answer.is_success:
                    return _data(answer)
                failure = _failure(answer)
                hope = answer.status_code in LATER and (again or failure.kind in UNTOUCHED)
                wait = _told(answer)
            if not hope or tries == self._retries:
                raise failure
            time.sleep(max(wait, min(FIRST_WAIT * 2**tries, LONGEST_WAIT)) * random.uniform(1.0, 1.5))
            tries += 1


def _path(name: str, *more: str) -> str:
    return "/".join(["/v1/experiments", *(quote(part, safe="") for part in (name, *more))])


def _told(answer: httpx.Response) -> float:
    """How many seconds the service tells us to wait."""
    text = answer.headers.get("retry-after", "")
    return min(float(text), PATIENCE) if text.isdigit() else 0.0


def _data(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        raise _strange(answer) from None


def _failure(answer: httpx.Response) -> ServiceError:
    """What the service says is wrong."""
    try:
        wrong = answer.json()["error"]
        return ServiceError(wrong["kind"], wrong["message"], answer.status_code)
    except (ValueError, TypeError, LookupError):
        return _strange(answer)


def _strange(answer: httpx.Response) -> ServiceError:
    said = f"{answer.url} answered {answer.status_code}, and nothing that belated would say: {answer.text[:200]!r}"
    return ServiceError("unexpected", said, answer.status_code)
