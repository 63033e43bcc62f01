"""Reading for an hour beside a service that has to answer at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from belated.ledger.store import Reader, Store

#: Seconds that are waited at most.
LONGEST = 0.5


@contextmanager
def slice_of(store: Store) -> Iterator[Reader]:
    """A short look at the database; after it a server has as long a rest as it took.

    A process can be nice to others, but the server works for it at full priority.
    """
    started = time.perf_counter()
    with store.read() as session:
        yield session
    if not store.exclusive:
        time.sleep(min(LONGEST, time.perf_counter() - started))
