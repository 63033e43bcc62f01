"""Clients of the decision service, `bl.Client` and `bl.AsyncClient`: the verbs of its API, with timeouts and retries.

    import belated as bl

    with bl.Client("http://127.0.0.1:8000", deadline=2.0) as client:
        client.create("ads", ["red", "green", "blue"], "bold(exp3)", expiry_seconds=3600)
        decision = client.decide("ads", fallback="red")
        show(decision.name)
        if not decision.fallback:
            client.feedback("ads", decision, 1.0)  # at any time, from any process

A call that gets no answer, or one that says "later", is made again, after waits that double; what could then happen
twice is not. A decision carries a key, so that the service gives the answer it gave before; feedback and cancellations
change nothing the second time.
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("httpx") is None:
    raise ImportError("bl.Client needs httpx: pip install 'belated[client]'")

from belated.client.answers import Decided, Experiment, Health, Line, Outcome, Record, Statistics
from belated.client.awaited import AsyncClient
from belated.client.waiting import Client

__all__ = ["AsyncClient", "Client", "Decided", "Experiment", "Health", "Line", "Outcome", "Record", "Statistics"]
