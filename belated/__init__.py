"""belated: learning from feedback that comes late.

    import belated as bl

    f = bl.BOLD(bl.Exp3(actions=4), seed=7)
    d = f.predict()
    f.update(d.ticket, 1.0)

See `protocols.py` for the theory in one page.
"""

from belated import bounds, catalog, delays, errors, games
from belated.catalog import DelayedKLUCB, DelayedUCB1, from_bytes
from belated.engine.play import play
from belated.engine.result import Result
from belated.forecasters import BOLD, QPMD, Direct, Forecaster
from belated.learners import (
    KLUCB,
    UCB1,
    EpsilonGreedy,
    Exp3,
    Exp3IX,
    Hedge,
    RoundRobin,
    ThompsonBernoulli,
    TsallisINF,
    Uniform,
)
from belated.protocols import NEVER, Decision, Delays, Game, Learner, PlainLearner

__version__ = "0.1.0"

__all__ = [
    "BOLD",
    "KLUCB",
    "NEVER",
    "QPMD",
    "UCB1",
    "Decision",
    "DelayedKLUCB",
    "DelayedUCB1",
    "Delays",
    "Direct",
    "EpsilonGreedy",
    "Exp3",
    "Exp3IX",
    "Forecaster",
    "Game",
    "Hedge",
    "Learner",
    "PlainLearner",
    "Result",
    "RoundRobin",
    "ThompsonBernoulli",
    "TsallisINF",
    "Uniform",
    "bounds",
    "catalog",
    "delays",
    "errors",
    "from_bytes",
    "games",
    "play",
]
