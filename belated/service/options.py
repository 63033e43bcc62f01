"""How the service is run, beside what it serves and where: what `belated serve` can be told, with its defaults."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from belated.errors import InvalidArgument

#: What stands before all paths: nothing, or /words/like/these.
ROOT = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")
ANY = "*"


class Level(StrEnum):
    """From which on lines are logged."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


class Format(StrEnum):
    """How a line of the log looks; auto is for people on a terminal, and JSON elsewhere."""

    auto = "auto"
    json = "json"
    console = "console"


@dataclass(frozen=True)
class Options:
    """Seconds are for: an idle connection, a request to come, those under way to end after SIGTERM."""

    keep_alive: float = 5.0
    read_timeout: float = 20.0
    grace: float = 7.0
    connections: int = 2_000
    root_path: str = ""
    proxies: tuple[str, ...] = ()
    log_level: Level = Level.info
    log_format: Format = Format.auto
    access_log: bool = False
    traces: bool = False


def root_path(text: str) -> str:
    """The path under which a proxy shows the service, without a slash at its end.

    >>> root_path("/belated/"), root_path("/")
    ('/belated', '')
    """
    path = text.rstrip("/")
    if not ROOT.fullmatch(path):
        raise InvalidArgument(
            f"a root path is like /belated: letters, digits and . _ ~ - between slashes, got {text!r}"
        )
    return path


def proxies(given: Iterable[str]) -> tuple[str, ...]:
    """Addresses and networks of proxies; commas divide them too.

    >>> proxies(["10.0.0.0/8,::1", "127.0.0.1"])
    ('10.0.0.0/8', '::1', '127.0.0.1')
    """
    found = tuple(part for text in given for part in text.replace(",", " ").split())
    for each in found:
        try:
            if each != ANY:
                ipaddress.ip_network(each)
        except ValueError as error:
            raise InvalidArgument(f"{each!r} is no address and no network of a proxy: {error}") from None
    return found
