"""The sockets of a port: one for each address of the host, or for each process one on each address."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from belated.errors import InvalidState

#: Connections that may wait.
BACKLOG = 2048
#: How often a port is looked for that is free at all addresses.
TRIES = 10


@contextmanager
def refused(host: str, port: int) -> Iterator[None]:
    """Say in one line that nobody can listen there."""
    try:
        yield
    except OSError as error:
        reason = str(error.strerror).partition(" (")[0]
        raise InvalidState(f"cannot listen on {host}, port {port}: {reason}") from None


def listen(host: str, port: int) -> list[socket.socket]:
    """A socket for each address of the host that this machine has."""
    made: list[socket.socket] = []
    missing = None
    with refused(host, port), ExitStack() as held:
        for family, address in _addresses(host, port):
            try:
                made.append(held.enter_context(socket.create_server(address, family=family, backlog=BACKLOG)))
            except OSError as error:
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                missing = error
        if not made and missing is not None:
            raise missing
        held.pop_all()
    return made


def listen_together(host: str, port: int, count: int) -> list[list[socket.socket]]:
    """The same for so many processes, which share a port that nobody else may have."""
    places = _alone(host, port) if port else _free(host)
    with refused(host, port), ExitStack() as held:
        made = [
            [
                held.enter_context(socket.create_server(place, family=family, backlog=BACKLOG, reuse_port=True))
                for family, place in places
            ]
            for _ in range(count)
        ]
        held.pop_all()
    return made


def _alone(host: str, port: int) -> list[tuple[socket.AddressFamily, Any]]:
    """The addresses, where nobody else is."""
    with ExitStack() as held:
        alone = [held.enter_context(each) for each in listen(host, port)]
        return [(each.family, each.getsockname()) for each in alone]


def _free(host: str) -> list[tuple[socket.AddressFamily, Any]]:
    """The same with one port of all that is free."""
    for _ in range(TRIES):
        port = _alone(host, 0)[0][1][1]
        with suppress(InvalidState):  # taken at another address
            return _alone(host, port)
    return _alone(host, port)


def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, Any]]:
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))
