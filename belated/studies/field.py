"""The field: who there is to play under delay, worlds to play in, and who is best where.

`belated paper --only later` draws its map from this, and `belated advise` answers for a world of one's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.delays import Constant, Geometric, Lossy, Pareto, PerAction, PerReward
from belated.forecasters import BOLD, QPMD, SDB, Direct, Forecaster, Paced
from belated.games import Bernoulli, RandomWalk, RewardTable
from belated.learners import (
    DORM,
    KLUCB,
    UCB1,
    AdaHedgeD,
    BoBW24,
    CappedExp3,
    Conversions,
    DelayedExp3,
    DelayedHedge,
    DelayedSAPO,
    DiscountedThompson,
    DiscountedUCB,
    DORMPlus,
    Exp3,
    Hedge,
    HybridFTRL,
    OptimisticPessimistic,
    PatientBandits,
    PhasedElimination,
    SlidingUCB,
    SuccessiveElimination,
    ThompsonBernoulli,
    TsallisINF,
)
from belated.protocols import NEVER, Delays, Game
from belated.report.stats import Interval, mean_interval

#: Of so many predictions a learner for rewards that drift takes account, unless it is known how fast they do.
MEMORY = 1000
#: How many rounds `CappedExp3` keeps track of.
CAPACITY = 32
#: The level of each interval, alone.
LEVEL = 0.95
#: Windows in the states of learners: as many sizes as powers of two from here to there, each compiled once.
WINDOWS = (64, 4096)
#: The tail of the heavy delays, as P(delay > d) ~ d^-TAIL: no mean.
TAIL = 0.8


@dataclass(frozen=True)
class Candidate:
    """A forecaster that plays, and how: with an expiry, tickets end by learning `default`."""

    forecaster: Forecaster
    expiry: int | None = None
    default: float | None = None


# --- who plays ---


def candidates(feedback: str, actions: int, rounds: int, late: int, memory: int = MEMORY) -> dict[str, Candidate]:
    """Who may play, by what they are called: the likeliest to do well first.

    `late`: delays are hardly ever longer. `memory`: so many rounds say something of what comes next, if rewards drift.

    >>> list(candidates("full", actions=3, rounds=1000, late=10))[:2]
    ['Direct(Hedge)', 'DelayedHedge']
    """
    made = {"bandit": _bandit, "full": _full, "conversions": _conversions}[feedback](actions, rounds, late, memory)
    return {name: each if isinstance(each, Candidate) else Candidate(each) for name, each in made.items()}


def _bandit(actions: int, rounds: int, late: int, memory: int) -> Mapping[str, Forecaster | Candidate]:
    fade, horizon = 1.0 - 1.0 / memory, max(rounds, 2)
    return {
        "Direct(Thompson)": Direct(ThompsonBernoulli(actions)),
        "Delayed-UCB1": Direct(UCB1(actions)),
        "Delayed-KL-UCB": Direct(KLUCB(actions)),
        "Direct(Tsallis-INF)": Direct(TsallisINF(actions)),
        "Direct(Exp3)": Direct(Exp3(actions)),
        "HybridFTRL": Direct(HybridFTRL(actions)),
        "HybridFTRL, skipping": Direct(HybridFTRL(actions, skip=True)),
        "DelayedExp3": Direct(DelayedExp3(actions)),
        "DiscountedThompson": Direct(DiscountedThompson(actions, fade)),
        "DiscountedUCB": Direct(DiscountedUCB(actions, fade)),
        "SlidingUCB": Direct(SlidingUCB(actions, memory)),
        "SDB(Thompson)": SDB(ThompsonBernoulli(actions)),
        "QPM-D(Thompson)": QPMD(ThompsonBernoulli(actions)),
        "QPM-D(UCB1)": QPMD(UCB1(actions)),
        "BOLD(Exp3)": BOLD(Exp3(actions)),
        "BOLD(Tsallis-INF)": BOLD(TsallisINF(actions)),
        "SuccessiveElimination": Direct(SuccessiveElimination(actions, horizon)),
        "PhasedElimination": Direct(PhasedElimination(actions, horizon)),
        "OptimisticPessimistic": Direct(OptimisticPessimistic(actions, horizon)),
        "PatientBandits": Direct(PatientBandits(actions, horizon, TAIL)),
        "CappedExp3": Direct(CappedExp3(actions, CAPACITY, late)),
        "BoBW24": Direct(BoBW24(actions)),
        "DelayedSAPO": Direct(DelayedSAPO(actions, horizon)),
    }


def _full(actions: int, rounds: int, late: int, memory: int) -> Mapping[str, Forecaster | Candidate]:
    return {
        "Direct(Hedge)": Direct(Hedge(actions)),
        "DelayedHedge": Direct(DelayedHedge(actions)),
        "AdaHedgeD": Direct(AdaHedgeD(actions)),
        "DORM+": Direct(DORMPlus(actions)),
        "DORM+, hint mean": Direct(DORMPlus(actions, hint="mean")),
        "DORM": Direct(DORM(actions)),
        "Paced(Hedge)": Paced(Hedge(actions)),
        "BOLD(Hedge)": BOLD(Hedge(actions)),
    }


def _conversions(actions: int, rounds: int, late: int, memory: int) -> Mapping[str, Forecaster | Candidate]:
    window = window_of(late)
    return {
        "Conversions": Direct(Conversions(actions, window)),
        "Conversions, kl": Direct(Conversions(actions, window, rule="kl")),
        "Conversions, ucb": Direct(Conversions(actions, window, rule="ucb")),
        "Thompson that waits": Candidate(Direct(ThompsonBernoulli(actions)), window, 0.0),
        "PatientBandits": Direct(PatientBandits(actions, max(rounds, 2), TAIL)),
        "Thompson, told of sales": Direct(ThompsonBernoulli(actions)),
    }


def window_of(late: int) -> int:
    """A power of two that is no less, as far as windows go."""
    low, high = WINDOWS
    return min(max(low, 1 << max(late - 1, 0).bit_length()), high)


def late_of(law: Delays, rounds: int) -> int:
    """About the longest delay to expect: the law's own largest, or five times its mean, or a tenth of all rounds."""
    longest, mean = law.maximum, law.mean
    if longest is not None and longest != NEVER:
        return longest
    return math.ceil(5.0 * mean) if mean is not None and math.isfinite(mean) else max(1, rounds // 10)


def only_sales(law: Any) -> PerReward:
    """Feedback 1 comes by the law, feedback 0 never."""
    return PerReward([Lossy(Constant(0), 1.0), law])


# --- worlds ---


@dataclass(frozen=True)
class World:
    """A game and a law of delays, both for a delay of which the world has its own idea."""

    name: str
    title: str
    delay: str  #: what is meant by delay
    game: Callable[[int, int], Game]  #: of rounds and the delay
    law: Callable[[int], Delays]
    constant: bool = False

    def candidates(self, rounds: int, delay: int) -> dict[str, Candidate]:
        return candidates("bandit", ACTIONS, rounds, delay if self.constant else 5 * delay)


MEANS = (0.3, 0.4, 0.5, 0.6, 0.7)
ACTIONS = len(MEANS)
BEST = MEANS.index(max(MEANS))
STEP = 0.01  #: of the walk
LOST = 0.1
#: The square wave has half waves of twice the delay, and no shorter ones than so.
SHORTEST = 20


def wave(rounds: int, delay: int) -> RewardTable:
    """Rewards 1 and 0: of two actions one pays, the other one after twice the delay; the rest never do."""
    half = max(2 * delay, SHORTEST)
    paying = np.arange(rounds) // half % 2
    table = np.zeros((rounds, ACTIONS))
    table[np.arange(rounds), paying] = 1.0
    return RewardTable(table)


def _arms(rounds: int, delay: int) -> Game:
    return Bernoulli(MEANS)


def _walk(rounds: int, delay: int) -> Game:
    return RandomWalk(ACTIONS, step=STEP, feedback="bandit", dynamic=True)


def _geometric(delay: float) -> Geometric:
    return Geometric(mean=delay)


def _lossy(delay: int) -> Lossy:
    return Lossy(_geometric(delay), LOST)


def _slow_best(delay: int) -> PerAction:
    return PerAction([_geometric(delay if i == BEST else delay / 10) for i in range(ACTIONS)])


MEAN_DELAY = "mean delay, geometric"
WORLDS = (
    World("iid", "i.i.d. rewards", MEAN_DELAY, _arms, _geometric),
    World(
        "wave",
        "a square wave",
        f"delay, constant; half a wave takes twice as long, {SHORTEST} rounds at least",
        wave,
        Constant,
        constant=True,
    ),
    World("walk", "a random walk", MEAN_DELAY, _walk, _geometric),
    World("lossy", "lossy feedback", "mean delay of what comes, geometric", _arms, _lossy),
    World(
        "heavy",
        "a heavy tail",
        "scale of the Pareto law",
        _arms,
        lambda d: Pareto(scale=d, alpha=TAIL) if d else Constant(0),
    ),
    World(
        "reward",
        "delays that depend on rewards",
        "mean delay of a reward of 1; 0 comes at once",
        _arms,
        lambda d: PerReward([Constant(0), _geometric(d)]),
    ),
    World("action", "a slow best action", "mean delay of the best action; others': a tenth", _arms, _slow_best),
)


# --- who is best ---


def interval(regrets: Any) -> Interval:
    """The mean with its approximate 95% interval; where all are alike, and they are several, the mean alone."""
    data = np.asarray(regrets, float)
    if len(data) > 3 and np.ptp(data) == 0:
        return Interval(float(data[0]), float(data[0]), float(data[0]))
    return mean_interval(data, LEVEL)


def ranked(regrets: Mapping[str, Any]) -> list[tuple[str, Interval]]:
    """From the least mean regret to the largest."""
    return sorted(((name, interval(each)) for name, each in regrets.items()), key=lambda pair: pair[1].mean)


def tied(standing: list[tuple[str, Interval]]) -> list[str]:
    """Who cannot be told apart from the first: their intervals overlap.

    >>> tied(ranked({"a": [1.0, 2.0, 3.0], "b": [2.0, 3.0, 4.0], "c": [98.0, 99.0, 100.0]}))
    ['b']
    """
    (_, best), *others = standing
    return [name for name, each in others if not each.low > best.high]
