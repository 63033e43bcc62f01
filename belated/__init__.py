"""belated: learning from feedback that comes late.

    import belated as bl

    f = bl.BOLD(bl.Exp3(actions=4), seed=7)
    d = f.predict()
    f.update(d.ticket, 1.0)

See `protocols.py` for the theory in one page.
"""

from typing import TYPE_CHECKING, Any

from belated import adapters, bounds, catalog, delays, errors, games, learners, studies
from belated.audit import audit
from belated.catalog import DelayedKLUCB, DelayedUCB1, from_bytes
from belated.engine.play import play
from belated.engine.result import Result
from belated.forecasters import BOLD, QPMD, Direct, Forecaster
from belated.kernels.compile import kernel
from belated.learners import *  # noqa: F403  (a new learner is one file and one line there)
from belated.protocols import NEVER, Decision, Delays, Game, Learner, PlainLearner
from belated.replay import replay

if TYPE_CHECKING:
    from belated.client import Client as Client

__version__ = "0.1.0"

__all__ = [
    *learners.__all__,
    "BOLD",
    "NEVER",
    "QPMD",
    "Decision",
    "DelayedKLUCB",
    "DelayedUCB1",
    "Delays",
    "Direct",
    "Forecaster",
    "Game",
    "Learner",
    "PlainLearner",
    "Result",
    "adapters",
    "audit",
    "bounds",
    "catalog",
    "delays",
    "errors",
    "from_bytes",
    "games",
    "kernel",
    "learners",
    "play",
    "replay",
    "studies",
]


def __getattr__(name: str) -> Any:
    """`bl.Client`, whose extra need not be installed."""
    if name == "Client":
        from belated.client import Client

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
