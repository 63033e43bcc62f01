"""Which processes get new connections: as many workers as can run at once, the others stand by.

Workers that take turns on a processor find its caches full of what the one before had there: on two processors four of
them took half as much time again for a request as one that is alone. Nor does one of them pay beside the writer there:
handing over takes more than it spares. So with one or two processors the writer itself has the connections, with more
of them as many workers as there are processors beside its own. The kernel is told which sockets of the port it may
choose from (a filter of a few instructions, on Linux). If one of these processes dies or gives no sign, others take its
place at once.
"""

from __future__ import annotations

import ctypes
import math
import os
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

#: Linux's SO_ATTACH_REUSEPORT_CBPF, which Python does not name.
ATTACH = 51
#: Where Linux says in which group a process is, and what that may use.
GROUP, LIMITS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
#: Instructions of such a filter: a random number; what is left of it by a division; a jump if it is equal; an answer.
RANDOM, REMAINDER, JUMP_IF, ANSWER = (0x20, 0xFFFFF000 + 56), 0x94, 0x15, 0x06


def processors() -> int:
    """How many this process may use; as many as a container, or systemd's CPUQuota, gives it time of."""
    known = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # other systems, older ones, or no limit
        group = GROUP.read_text().rpartition("::")[2].strip().lstrip("/")
        quota, period = (LIMITS / group / "cpu.max").read_text().split()
        known = min(known, math.ceil(int(quota) / int(period)))
    return known


def spare() -> int:
    """How many workers pay beside the writer: none on one or two processors."""
    known = processors()
    return known - 1 if known > 2 else 0


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
    """Who gets connections, of the sockets on one port: the first is the writer's, the others are workers'."""

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self._listening = sockets[0]
        self._spare = spare()
        self._chosen: list[int] = []
        self.choose(range(len(sockets)))

    def choose(self, able: Sequence[int]) -> None:
        """Of those that can serve the first few workers; where none of them pays, or can, the writer; and one worker
        where the writer cannot. If nobody can, all stays as it is."""
        workers = [number for number in able if number]
        chosen = workers[: self._spare] or list(able[:1])
        if chosen and chosen != self._chosen:
            steer(self._listening, chosen)
            self._chosen = chosen
