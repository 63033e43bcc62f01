"""Reading for an hour beside a service that has to answer at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from belated.ledger.store import Reader, Store

#: A rest is so many times as long as has been worked since the last, and so many seconds at most.
REST = 3.0
LONGEST = 1.0
#: Bytes that a server may write in a second while it is not busy: a dozen decisions, or its own tidying up.
QUIET = 20_000


@dataclass
class _Pace:
    """When the last rest ended; how much the server had written at the last look, and when that was; and whether it is
    at work for others."""

    rested: float
    looked: float
    written: int = 0
    disturbs: bool = True


_paces: WeakKeyDictionary[Store, _Pace] = WeakKeyDictionary()


@contextmanager
def slice_of(store: Store) -> Iterator[Reader]:
    """A short look at a database. Before the next there is a rest, if it is a server's that others write to meanwhile.

    A process can be nice to others, but the server works for it at full priority, and both take the caches from those
    who answer: a loop that did nothing at the lowest priority cost a service on two processors a sixth of its requests.
    """
    if store.exclusive:
        with store.read() as session:
            yield session
        return
    now = time.perf_counter()
    pace = _paces.setdefault(store, _Pace(now, now))
    if pace.disturbs:
        time.sleep(min(LONGEST, REST * (now - pace.rested)))
    pace.rested = time.perf_counter()
    with store.read() as session:
        before, since, pace.looked = pace.written, pace.looked, time.perf_counter()
        pace.written = session.written()
        pace.disturbs = pace.written - before > QUIET * (pace.looked - since)
        yield session
