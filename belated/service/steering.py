"""Which workers get new connections: as many as can run at once, the others stand by.

Workers that take turns on a processor find its caches full of what the one before had there: on two processors four of
them took half as much time again for a request as one that is alone. So the kernel is told which sockets of the port it
may choose from (a filter of a few instructions, on Linux). If one of these workers dies or gives no sign, another takes
its place at once.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress

#: Linux's SO_ATTACH_REUSEPORT_CBPF, which Python does not name.
ATTACH = 51
#: Instructions of such a filter: a random number; what is left of it by a division; a jump if it is equal; an answer.
RANDOM, REMAINDER, JUMP_IF, ANSWER = (0x20, 0xFFFFF000 + 56), 0x94, 0x15, 0x06


def spare() -> int:
    """How many workers can run beside the writer; one at least."""
    known = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return max(1, len(known) - 1)


def program(chosen: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """The filter that answers one of these numbers, each as often as the others.

    >>> program([2])
    [(32, 0, 0, 4294963256), (148, 0, 0, 1), (6, 0, 0, 2)]
    """
    load, at = RANDOM
    steps = [(load, 0, 0, at), (REMAINDER, 0, 0, len(chosen))]
    for i, number in enumerate(chosen[:-1]):
        steps += [(JUMP_IF, 0, 1, i), (ANSWER, 0, 0, number)]
    return [*steps, (ANSWER, 0, 0, chosen[-1])]


def steer(listening: socket.socket, chosen: Sequence[int]) -> None:
    """Give new connections to these of the sockets that share a port, counted in the order in which they listened."""
    steps = b"".join(struct.pack("HBBI", *each) for each in program(chosen))
    room = ctypes.create_string_buffer(steps)
    given = struct.pack("HP", len(steps) // 8, ctypes.addressof(room))
    with suppress(OSError):  # on other systems connections go to all
        listening.setsockopt(socket.SOL_SOCKET, ATTACH, given)


class Steering:
    """Who gets connections, of the sockets on one port."""

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self._sockets = sockets
        self._most = min(len(sockets), spare())
        self._chosen: list[int] = []
        self.choose(range(len(sockets)))

    def choose(self, able: Sequence[int]) -> None:
        """Of those that can serve the first few; if none can, all stays as it is."""
        chosen = list(able[: self._most])
        if chosen and chosen != self._chosen and self._most < len(self._sockets):
            steer(self._sockets[0], chosen)
            self._chosen = chosen
