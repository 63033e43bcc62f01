"""Reading for an hour beside a service that has to answer at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from belated.ledger.store import Reader, Store

#: Seconds that are waited at most.
LONGEST = 1.0

#: When the last rest ended.
_rested: WeakKeyDictionary[Store, float] = WeakKeyDictionary()


@contextmanager
def slice_of(store: Store) -> Iterator[Reader]:
    """A short look at a database that is a server's. Before the next there is as long a rest as has been worked since
    the last.

    A process can be nice to others, but the server works for it at full priority, and both take the caches from those
    who answer: a loop that did nothing at the lowest priority cost a service on two processors a sixth of its requests.
    """
    if not store.exclusive:
        now = time.perf_counter()
        time.sleep(min(LONGEST, now - _rested.get(store, now)))
        _rested[store] = time.perf_counter()
    with store.read() as session:
        yield session
