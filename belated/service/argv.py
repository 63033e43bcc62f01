"""Passwords that were given on the command line do not stay in the list of processes."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from pathlib import Path

from belated.ledger.database import secrets_in

#: Where /proc/PID/stat says where the arguments lie, counted after the name of the program.
START, END = 45, 46


def hide(database: str) -> None:
    """Write over the passwords of an address among this process's arguments, which the system shows to everybody."""
    masked = database
    for secret in secrets_in(database):
        for mark in (":", "="):
            masked = masked.replace(mark + secret, mark + "x" * len(secret))
    if masked == database:
        return
    with suppress(OSError, ValueError, IndexError):
        numbers = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(numbers[START]), int(numbers[END])
        if 0 < start < end:
            text = ctypes.string_at(start, end - start).replace(database.encode(), masked.encode())
            ctypes.memmove(start, text, min(len(text), end - start))
