"""belated: learning from feedback that comes late.

    import belated as bl

    f = bl.BOLD(bl.Exp3(actions=4), seed=7)
    d = f.predict()
    f.update(d.ticket, 1.0)

See `protocols.py` for the theory in one page.
"""

from typing import TYPE_CHECKING, Any

from belated import adapters, catalog, delays, errors, features, forecasters, games, kernels, learners, studies
from belated.advise import advise
from belated.audit import audit
from belated.catalog import DelayedKLUCB, DelayedUCB1, from_bytes
from belated.engine.play import play
from belated.engine.result import Result
from belated.features import Features
from belated.forecasters import *  # noqa: F403  (a new forecaster is one file and one line there)
from belated.forecasters.batches import batches
from belated.kernels.compile import kernel
from belated.learners import *  # noqa: F403  (a new learner is one file and one line there)
from belated.protocols import NEVER, Decision, Delays, Game, Learner, PlainLearner
from belated.replay import replay
from belated.theory import bounds
from belated.version import __version__ as __version__

if TYPE_CHECKING:
    from belated.client import AsyncClient as AsyncClient
    from belated.client import Client as Client


__all__ = [
    *forecasters.__all__,
    *learners.__all__,
    "NEVER",
    "Decision",
    "DelayedKLUCB",
    "DelayedUCB1",
    "Delays",
    "Features",
    "Game",
    "Learner",
    "PlainLearner",
    "Result",
    "adapters",
    "advise",
    "audit",
    "batches",
    "bounds",
    "catalog",
    "delays",
    "errors",
    "features",
    "forecasters",
    "from_bytes",
    "games",
    "kernel",
    "kernels",
    "learners",
    "play",
    "replay",
    "studies",
]


def __getattr__(name: str) -> Any:
    """`bl.Client` and `bl.AsyncClient`, whose extra need not be installed."""
    if name in ("AsyncClient", "Client"):
        from belated import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
