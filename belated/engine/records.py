"""The records that the compiled loop works on."""

from __future__ import annotations

import numpy as np

#: The scalars of a replication in progress.
DESK = np.dtype(
    [
        ("replication", "i8"),  # the one in progress
        ("round", "i8"),  # rounds finished in it
        ("checkpoint", "i8"),  # the next one
        ("until", "i8"),  # before that round nobody looks for one
        ("outstanding", "i8"),  # G_t, then G_{t+1}
        ("peak", "i8"),  # max of G_1..G_t
        ("free", "i8"),  # first free entry of the mailbox
        ("instances", "i8"),  # M
        ("hint", "i8"),  # BOLD: no free instance below this word
        ("probability", "f8"),  # a bad one, for the error
        ("action", "i8"),  # what was predicted last
        ("steps", "i8"),  # QPM-D: n', how often the base was asked
        ("due_count", "i8"),  # feedback due by the horizon: how many, and the sum of their rounds
        ("due_sum", "i8"),
        ("came_sum", "i8"),  # the sum of the rounds whose tickets ended
        ("closed_sum", "i8"),  # and of the rounds in which they ended
        ("instance", "i8"),  # who predicted last
        ("announced", "i8"),  # the last round whose event was asked for
        ("value", "i8"),  # the value of the side information of that round
        ("actions", "i8"),  # K
        ("defaulted", "i8"),  # defaults that were delivered
        ("drawn", "i8"),  # the round before the first whose delay waits drawn
        ("key0", "u8"),  # what the replication draws by
        ("key1", "u8"),
    ],
    align=True,
)

#: Who plays: the lanes at work are the first of an order.
CREW = np.dtype(
    [
        ("next", "i8"),  # the replication that the next lane takes
        ("last", "i8"),  # one behind the last to play
        ("lanes", "i8"),  # how many may be at work
        ("playing", "i8"),  # how many are
        ("at", "i8"),  # whose turn it is
    ],
    align=True,
)

#: What is counted for each action of each replication.
TALLY = np.dtype(
    [
        ("pulls", "i8"),
        ("observed", "i8"),
        ("cancelled", "i8"),
        ("peak", "i8"),
        ("base", "i8"),
        ("dropped", "i8"),  # feedback that came for a replaced action
        ("since", "i8"),  # the round in which the action was replaced last; 0: never
    ],
    align=True,
)

#: What is kept of each finished replication.
SUMMARY = np.dtype(
    [
        ("peak", "i8"),
        ("outstanding", "i8"),  # G_{n+1}
        ("instances", "i8"),
        ("steps", "i8"),
        ("due_count", "i8"),
        ("due_sum", "i8"),
        ("came_count", "i8"),
        ("came_sum", "i8"),
        ("total", "i8"),  # the sum of G_1..G_n
        ("defaulted", "i8"),  # defaults that were delivered for feedback that had not come
    ],
    align=True,
)

#: What is counted for each value of the side information of each replication.
POOL = np.dtype(
    [
        ("rounds", "i8"),  # n_c
        ("open", "i8"),  # G_c now
        ("peak", "i8"),  # G*_c: the most when one of its own rounds predicted
        ("instances", "i8"),  # M_c: made in its rounds
    ],
    align=True,
)
