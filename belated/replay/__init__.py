"""What would another forecaster have earned? Answered from logged decisions with recorded probabilities and delays.

`read.py` reads and checks a log, `follow.py` lets a forecaster live on its rounds, `policy.py` knows the probabilities
of a policy, `estimate.py` turns either into estimates with intervals, `replay.py` puts them together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from belated.replay.answer import Answer, Replay
from belated.replay.log import Log
from belated.replay.replay import replay

if TYPE_CHECKING:
    from belated.replay.read import read_log

__all__ = ["Answer", "Log", "Replay", "read_log", "replay"]


def __getattr__(name: str) -> Any:
    """`read_log` needs polars, which is loaded when it is."""
    if name == "read_log":
        from belated.replay.read import read_log

        return read_log
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
