"""Where no token is needed, only programs of this machine may come in, and no page of another site through a browser.

A page from anywhere can make the browser send requests to loopback: to a name of its own that it lets point there, or
blindly, without reading the answer. The first gives itself away by `Host`, the second by `Origin` or `Sec-Fetch-Site`,
which pages cannot forge. And a proxy brings strangers: there tokens are needed.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Awaitable
from functools import lru_cache

from belated.service.asgi import Application, Receive, Scope, Send
from belated.service.auth import is_loopback
from belated.service.endpoint import refuse
from belated.service.metrics import Metrics

log = logging.getLogger("belated")

#: Seconds between lines in the log about requests that are turned away.
SAID = 10.0

#: What only a proxy adds.
FORWARDED = (b"forwarded", b"via", b"x-real-ip")
FORWARDED_BEGIN = b"x-forwarded-"
#: What programs send that says nothing here.
PLAIN = frozenset(
    [
        b"content-length",
        b"content-type",
        b"accept",
        b"accept-encoding",
        b"user-agent",
        b"connection",
        b"idempotency-key",
    ]
)
#: What else is looked at.
LOOKED_AT = frozenset([b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode"])
#: What `Sec-Fetch-Site` may be: our own page, or an address that a person typed.
OWN = (b"same-origin", b"none")
#: Pages that links may lead to from anywhere: they show nothing that others could read.
PAGES = ("/", "/docs")
#: Letters that a name of loopback has at most.
LONGEST = 300
#: A name or an address, and maybe a port.
AUTHORITY = re.compile(r"(?:\[([^\]]*)\]|([^:\[\]]*))(?::[0-9]*)?")


def host_of(authority: str) -> str:
    """The name in a Host header, in small letters; nothing if it is not written as one.

    >>> host_of("LocalHost.:8000"), host_of("[::1]:8000"), host_of("127.0.0.1"), host_of("localhost:80@evil.example")
    ('localhost', '::1', '127.0.0.1', '')
    """
    found = AUTHORITY.fullmatch(authority)
    return "" if found is None else (found[1] or found[2] or "").rstrip(".").lower()


@lru_cache(1000)
def is_own(authority: bytes) -> bool:
    """Whether a Host header names this machine, as it calls itself."""
    return len(authority) <= LONGEST and is_loopback(host_of(authority.decode("latin-1")))


def is_plain(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether there is nothing to look at: what a program of this machine sends."""
    hosted = False
    for name, value in headers:
        if name in PLAIN:
            continue
        if name != b"host" or hosted or not is_own(value):
            return False
        hosted = True
    return hosted


def trouble(method: str, path: str, headers: list[tuple[bytes, bytes]]) -> str | None:
    """Why a request that has no token must not come in; None if it may.

    >>> trouble("GET", "/health", [(b"host", b"localhost:8000")])
    >>> trouble("GET", "/health", [(b"host", b"evil.example:8000")])
    "without tokens this service is for this machine only: Host is 'evil.example:8000', which is no name of loopback"
    """
    if is_plain(headers):
        return None
    given: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        if name in FORWARDED or name.startswith(FORWARDED_BEGIN):
            said = name.decode("latin-1")
            return f"this came through a proxy ({said}), and strangers need a token: start it with --require-token"
        if name in LOOKED_AT:
            given.setdefault(name, []).append(value)
    named = given.get(b"host", [b""])
    hosts = [value.decode("latin-1") for value in named]
    if len(hosts) > 1 or not is_own(named[0]):
        said = ", ".join(hosts)
        return f"without tokens this service is for this machine only: Host is {said!r}, which is no name of loopback"
    for origin in given.get(b"origin", ()):
        if origin.decode("latin-1").lower() != f"http://{hosts[0].lower()}":
            return f"without tokens no page of another origin may ask: Origin is {origin.decode('latin-1')!r}"
    link = method == "GET" and path in PAGES and given.get(b"sec-fetch-mode") == [b"navigate"]
    for site in given.get(b"sec-fetch-site", ()):
        if site not in OWN and not link:
            return f"without tokens no page of another site may ask: Sec-Fetch-Site is {site.decode('latin-1')!r}"
    return None


class Loopback:
    """An application for this machine only."""

    def __init__(self, application: Application, metrics: Metrics) -> None:
        self._application = application
        self._metrics = metrics
        self._said = -SAID

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        why = None if scope["type"] == "lifespan" else trouble(scope.get("method", ""), scope["path"], scope["headers"])
        if why is None:
            return self._application(scope, receive, send)
        if time.monotonic() >= self._said + SAID:
            self._said = time.monotonic()
            log.warning("a request was turned away: %s", why)
        return refuse("forbidden", self._metrics, scope, send, message=why)
