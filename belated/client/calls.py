"""How a call is made, whoever waits for it: what is sent, how often, how long, and what is done without an answer."""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import httpx

from belated import catalog, require
from belated.client.answers import Decided
from belated.errors import InvalidArgument, ServiceError
from belated.forecasters import Forecaster

log = logging.getLogger("belated.client")

#: Seconds before the second try, doubled before each further one, and the longest; up to a half is added at random.
FIRST_WAIT = 0.1
LONGEST_WAIT = 5.0
#: The longest that a service may tell us to wait.
PATIENCE = 30.0
#: Seconds that an idle connection is kept: less than the service does.
KEEP = 4.0
CONNECTIONS = 100
#: Seconds between lines in the log about fallbacks.
SAID = 10.0

#: Answers that mean "later".
LATER = frozenset({429, 502, 503, 504})
#: Answers that mean that nothing was looked at.
UNTOUCHED = ("busy", "too_fast", "waited")
#: Failures after which the service has certainly seen nothing.
UNSEEN = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
#: Failures that another try cannot mend.
HOPELESS = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
#: How the service learns how often its clients did without it.
FALLBACKS = "x-belated-fallbacks"


class Common:
    """What both clients are."""

    def __init__(self, url: str, token: str | None, timeout: float, retries: int, deadline: float | None) -> None:
        if not (isinstance(url, str) and url.startswith(("http://", "https://"))):
            raise InvalidArgument(f"url must begin with http:// or https://, got {url!r}")
        self.url = url.rstrip("/")
        if token is not None and not (isinstance(token, str) and token.isascii() and token.isprintable()):
            raise InvalidArgument("the token must be of printable ASCII characters; one was given that is not")
        self._timeout = require.real("timeout", timeout, above=0)
        self._retries = require.integer("retries", retries, low=0)
        self._deadline = None if deadline is None else require.real("deadline", deadline, above=0)
        #: How often a fallback was given in the place of a decision.
        self.fallbacks = 0
        self._owed: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._said = -SAID
        self._settings: dict[str, Any] = {
            "headers": {"authorization": f"Bearer {token}"} if token else {},
            "timeout": self._timeout,
            "limits": httpx.Limits(
                max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS, keepalive_expiry=KEEP
            ),
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _tries(self, again: bool, deadline: float | None) -> Tries:
        return Tries(self.url, again, self._retries, self._timeout, self._deadline if deadline is None else deadline)

    def _take_owed(self, name: str) -> dict[str, str]:
        """How often an experiment was done without since the service was last told, as a header."""
        if name not in self._owed:
            return {}
        with self._lock:
            count = self._owed.pop(name, 0)
        return {FALLBACKS: str(count)} if count else {}

    def _owe(self, name: str, headers: dict[str, str]) -> None:
        """It could not be told."""
        if headers:
            with self._lock:
                self._owed[name] += int(headers[FALLBACKS])

    def _fall_back(self, name: str, action: str, count: int | None, error: ServiceError) -> Decided | list[Decided]:
        """What is played without the service."""
        with self._lock:
            self.fallbacks += count or 1
            self._owed[name] += count or 1
            total = self.fallbacks
        if time.monotonic() >= self._said + SAID:
            self._said = time.monotonic()
            log.warning("%s: no decision (%s), so %r is played; fallbacks until now: %d", name, error, action, total)
        one = Decided("", -1, action, None, 0, fallback=True)
        return one if count is None else [one] * count


class Tries:
    """The tries of one call."""

    def __init__(self, url: str, again: bool, retries: int, timeout: float, deadline: float | None) -> None:
        self._url = url
        self._again = again
        self._left = retries
        self._timeout = timeout
        self._deadline = deadline
        self._until = None if deadline is None else time.monotonic() + deadline
        self._made = 0

    @property
    def seconds(self) -> float:
        """How long the next try may take."""
        if self._until is None:
            return self._timeout
        return max(min(self._timeout, self._until - time.monotonic()), 0.001)

    def failed(self, error: Exception) -> float:
        """There was no answer: the seconds to wait before the next try, or the failure."""
        late = self._until is not None and time.monotonic() >= self._until
        when = f" within {self._deadline:g} s" if late else ""
        why = "timed out" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
        failure = ServiceError("unreachable", f"no answer from {self._url}{when}: {why}")
        failure.__cause__ = error
        hope = isinstance(error, UNSEEN) or (self._again and not isinstance(error, HOPELESS))
        return self._wait(failure, hope, 0.0)

    def refused(self, answer: httpx.Response) -> float:
        """The service will not: the seconds to wait before it is asked again, or the failure."""
        failure = _failure(answer)
        hope = answer.status_code in LATER and (self._again or failure.kind in UNTOUCHED)
        return self._wait(failure, hope, _told(answer))

    def _wait(self, failure: ServiceError, hope: bool, told: float) -> float:
        wait = max(told, min(FIRST_WAIT * 2.0**self._made, LONGEST_WAIT)) * random.uniform(1.0, 1.5)
        in_time = self._until is None or time.monotonic() + wait < self._until
        if not (hope and self._left and in_time):
            raise failure
        self._left -= 1
        self._made += 1
        return wait


def is_silent(error: ServiceError) -> bool:
    """Whether a fallback helps: the service does not answer, fails, or says "later"; the call itself was right."""
    if error.status is None:
        return error.kind == "unreachable" and not isinstance(error.__cause__, HOPELESS)
    return error.status == 429 or error.status >= 500


def content_of(body: Any) -> bytes | None:
    """A body as it is sent; NumPy's numbers and vectors as JSON knows them."""
    return None if body is None else json.dumps(body, default=_plain).encode()


def _plain(value: Any) -> Any:
    return value.tolist()


def new_experiment(
    name: str, actions: Sequence[str], forecaster: Forecaster | dict[str, Any] | str, more: dict[str, Any]
) -> dict[str, Any]:
    """The body that makes an experiment."""
    if isinstance(forecaster, Forecaster):
        data = catalog.to_data(forecaster)
        given = {"reward_range": data.pop("reward_range")} if "reward_range" in data else {}
        more = {"seed": forecaster.seed, **given, **more}
        forecaster = data
    return {"name": name, "actions": list(actions), "forecaster": forecaster, **more}


def new_decisions(
    context: Any,
    count: int | None,
    contexts: Sequence[Any] | None,
    allowed: Sequence[str] | None,
    fallback: str | None,
    deadline: float | None,
) -> tuple[dict[str, Any], int | None]:
    """The body that asks for decisions, and how many they are; None for one that is not in a list."""
    if fallback is not None and allowed is not None and fallback not in allowed:
        raise InvalidArgument(f"the fallback {fallback!r} is not among the allowed {list(allowed)}")
    if deadline is not None:
        require.real("deadline", deadline, above=0)
    given = {"context": context, "count": count, "contexts": contexts, "allowed": allowed}
    body = {part: value for part, value in given.items() if value is not None}
    return body, len(contexts) if contexts is not None else count


def path(name: str, *more: str) -> str:
    """Where something of an experiment is."""
    return "/".join(["/v1/experiments", *(quote(part, safe="") for part in (name, *more))])


def _told(answer: httpx.Response) -> float:
    """How many seconds the service, or a proxy before it, tells us to wait: a number, or until when."""
    text = answer.headers.get("retry-after", "")
    if text.isdigit():
        return min(float(text), PATIENCE)
    try:
        seconds = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        return 0.0
    return min(max(seconds, 0.0), PATIENCE)


def data_of(answer: httpx.Response) -> Any:
    """What the service says."""
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
