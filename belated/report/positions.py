"""Where a cell stands on the x-axis of a figure: by its delays, by what was outstanding, by what is lost."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from belated.delays import Lossy
from belated.kernels.compile import kernel
from belated.kernels.random import key_of
from belated.protocols import NEVER, Delays

#: Draws by which quantiles and losses of a law are found.
DRAWS = 10_000


def title(x: Any) -> str:
    """What stands under the axis."""
    if isinstance(x, float):
        return "median delay" if x == 0.5 else f"{x:g}-quantile of the delay"
    return {
        "round": "round",
        "delay": "mean delay",
        "peak": "peak of outstanding feedback G* (mean)",
        "loss": "share of feedback that never comes",
    }[str(x)]


def position(cell: Any, result: Any, x: Any) -> float | str:
    """Where a cell stands: a number, infinity included; or why it stands nowhere."""
    law: Delays = cell.delays
    if x == "peak":
        return float(result.peak.mean())
    if x == "delay":
        mean = law.mean
        return "its mean is not known" if mean is None else float(mean)
    lost = _lost(law) if x == "loss" and _limit(cell) == NEVER else None
    if lost is not None:
        return lost
    if law.depends_on_action or law.depends_on_reward:
        return "its delays look at what is played"
    drawn = draws(law, min(DRAWS, law.longest() or DRAWS))
    if x == "loss":
        return float((drawn > min(_limit(cell), NEVER - 1)).mean())
    found = float(np.quantile(drawn, x, method="inverted_cdf"))
    return math.inf if found >= NEVER else found


def _limit(cell: Any) -> int:
    return NEVER if cell.expiry is None else int(cell.expiry)


def _lost(law: Delays) -> float | None:
    """The share that a law says it loses; None if it is not said."""
    if isinstance(law, Lossy):
        inner = _lost(law.law)
        return None if inner is None else 1.0 - (1.0 - law.p) * (1.0 - inner)
    return None if law.maximum == NEVER else 0.0


def draws(law: Delays, count: int) -> Any:
    """The first delays of a law, as a play with seed 0 meets them."""
    return _draws(repr(law), type(law), law.params().tobytes(), law.kernel, count)


@lru_cache(256)
def _draws(name: str, kind: type, params: bytes, delay: Any, count: int) -> Any:
    function, numbers, key = kernel(delay), np.frombuffer(params).copy(), key_of(0, 0)
    return np.array([function(numbers, *key, t, 0) for t in range(1, count + 1)], np.int64)
