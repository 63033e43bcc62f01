"""Pending feedback: a hashed timing wheel over a slab of entries.

An entry waits in the list of slot `due mod size`; lists begin with the last that was posted, and who takes what is due
turns it round, so entries due at one time come out in order of their rounds. With as many slots as entries a round
looks at one entry on average, whatever the delays: O(1) time per feedback and O(peak) memory. Free entries are linked
through the same field, and so are the queues of QPM-D, so that feedback never moves. Entries are numbered; -1 ends a
list.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from belated.kernels.compile import kernel
from belated.kernels.natural import natural
from belated.kernels.states import Records, records

Wheel = np.ndarray[Any, np.dtype[np.int32]]


def entry_dtype(feedback: int, memo: int = 0, numbers: bool = False) -> np.dtype[Any]:
    """One pending feedback, `feedback` numbers long, with a memo and the number of its prediction where they matter."""
    fields: list[Any] = [("due", "i8"), ("round", "i8"), ("probability", "f8"), ("feedback", "f8", (feedback,))]
    if memo:
        fields.append(("memo", "f8", (memo,)))
    if numbers:
        fields.append(("number", "i8"))
    fields += [("action", "i4"), ("instance", "i4"), ("next", "i4"), ("cancelled", "i4")]
    return np.dtype(fields, align=True)


def make_slab(size: int, feedback: int, memo: int = 0, numbers: bool = False) -> Records:
    """Room for `size` entries; a power of two."""
    return records(entry_dtype(feedback, memo, numbers), size)


def make_wheel(size: int) -> Wheel:
    """The first entry of each slot; a power of two."""
    return np.full(size, -1, np.int32)


@kernel
def clear(slab, wheel):
    """Forget everything; return the first free entry."""
    for slot in range(len(wheel)):
        wheel[slot] = -1
    for entry in range(len(slab)):
        slab[entry].next = entry + 1
    slab[len(slab) - 1].next = -1
    return 0


@kernel
def post(slab, wheel, entry, due):
    """Put an entry into the wheel, before those posted earlier."""
    slot = natural(due & (len(wheel) - 1))
    slab[entry].due = due
    slab[entry].next = wheel[slot]
    wheel[slot] = entry


@kernel
def take(slab, wheel, due):
    """Take what is due out of the wheel: the first of a list in the order of posting; -1 if nothing is."""
    slot = natural(due & (len(wheel) - 1))
    first, kept = -1, -1
    entry = wheel[slot]
    while entry >= 0:
        letter = slab[natural(entry)]
        following = letter.next
        if letter.due != due:
            kept = entry
        else:
            letter.next = first
            first = entry
            if kept < 0:
                wheel[slot] = following
            else:
                slab[natural(kept)].next = following
        entry = following
    return first


@kernel
def move(slab, wheel, wider):
    """Put the entries of a wheel into one twice its size, those posted first before the others."""
    for slot in range(len(wheel)):
        entry, first = wheel[slot], -1
        while entry >= 0:
            following = slab[entry].next
            slab[entry].next = first
            first, entry = entry, following
        while first >= 0:
            following = slab[first].next
            post(slab, wider, first, slab[first].due)
            first = following


def grow(slab: Records, wheel: Wheel) -> tuple[Records, Wheel, int]:
    """Twice the room. Entries keep their numbers; returns slab, wheel and the first of the new free entries."""
    size = len(slab)
    larger = records(slab.dtype, 2 * size)
    larger[:size] = slab
    larger["next"][size:-1] = np.arange(size + 1, 2 * size)
    larger["next"][-1] = -1
    wider = make_wheel(2 * len(wheel))
    move(larger, wheel, wider)
    return larger, wider, size
