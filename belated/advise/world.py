"""A user's world: what pays, how late it is told, and for how long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from belated import notation, require
from belated.audit import log as logs
from belated.audit.law import law_of, law_of_sales
from belated.errors import InvalidArgument
from belated.games import Bernoulli, RandomWalk, Switching
from belated.logs import collect
from belated.protocols import Delays, Game
from belated.report.stats import number
from belated.studies import field

#: What actions pay where nobody says, from the worst to the best.
BANDIT, SALES = (0.3, 0.7), (0.02, 0.1)
FEEDBACK = ("bandit", "full", "conversions")
DRIFT = ("none", "switching", "walk")
#: Rounds from one switch to the next where nobody says.
EVERY = 1000
ONLY_SALES = "if feedback comes of sales only, say feedback='conversions'"


@dataclass(frozen=True)
class World:
    """What is simulated."""

    game: Game
    delays: Delays
    rounds: int
    feedback: str
    late: int  #: about the longest delay to expect
    memory: int  #: about how many rounds say something of what comes next
    said: str  #: the world in words

    def candidates(self) -> dict[str, field.Candidate]:
        return field.candidates(self.feedback, self.game.actions, self.rounds, self.late, self.memory)


def describe(
    actions: int | None,
    delays: Any,
    log: Any,
    decided: str | None,
    observed: str | None,
    action: str | None,
    reward: str | None,
    unit: str | None,
    drift: str,
    every: int | None,
    rewards: Sequence[float] | None,
    rounds: int,
    feedback: str,
) -> World:
    """See `belated.advise.advise`; what makes no sense is refused."""
    require.one_of("drift", drift, DRIFT)
    require.one_of("feedback", feedback, FEEDBACK)
    if every is not None and drift == "none":
        raise InvalidArgument(f"every is about drift, and there is none: every={every!r}; say drift='switching'")
    every = EVERY if every is None else require.integer("every", every, low=2)
    require.integer("rounds", rounds, low=2)
    if (delays is None) == (log is None):
        raise InvalidArgument("give either delays, such as 'geometric(100)', or a log to draw them from")
    columns = {"decided": decided, "observed": observed, "action": action, "reward": reward, "unit": unit}
    if log is None:
        for name, value in columns.items():
            if value is not None:
                raise InvalidArgument(f"{name} is about a log, and none is given: {name}={value!r}")
        law, told = notation.delays(delays), notation.brief("delays", notation.delays(delays))
    else:
        read = logs.read(log, decided, observed, action, reward, unit=unit)
        law, told, paid = _from_log(read, feedback)
        actions = (len(read.actions) or None) if actions is None else actions
        rewards = paid if rewards is None and len(read.actions) == actions else rewards
        if drift == "walk" and rewards is paid:
            rewards = None  # it has no means
    if actions is None and rewards is not None:
        actions = len(rewards)
    if actions is None:
        raise InvalidArgument("say how many actions there are: actions=10, or rewards for each of them")
    require.integer("actions", actions, low=2)
    means = _means(actions, rewards, drift, feedback)
    game, pays = _game(means, drift, every, feedback)
    late = field.late_of(law, rounds)
    law = field.only_sales(law) if feedback == "conversions" else law
    law.check_actions(actions)
    kinds = {"bandit": "the reward of the action played", "full": "the rewards of all actions", "conversions": "sales"}
    said = f"{actions} actions, {rounds:,} rounds; {pays}; told: {kinds[feedback]}; delays: {told}"
    return World(game, law, rounds, feedback, late, every if drift != "none" else field.MEMORY, said)


def _from_log(read: logs.Log, feedback: str) -> tuple[Delays, str, tuple[float, ...] | None]:
    """The delays of a log, the same in words, and what its actions pay, if it says so."""
    drawn = f"drawn from {read.decisions:,} decisions of the log"
    if feedback == "conversions":
        law, sold = law_of_sales(read)
        return law, f"{_shown(law)}, {drawn}, of which {sold:.1%} sell", _sold(read, sold)
    law, paid = law_of(read), _paid(read)
    if paid is not None and min(paid) == max(paid):
        raise InvalidArgument(
            f"in the log every action pays {number(paid[0])} on average, so that all are the best; {ONLY_SALES}"
        )
    told = f"{_shown(law)}, {drawn}"
    return law, told if _lost(law) < 0.5 else f"{told} ({ONLY_SALES})", paid


def _sold(read: logs.Log, sold: float) -> tuple[float, ...] | None:
    """What the actions of a log sell on average, where they share the delays; with rewards, what that is worth."""
    if not read.actions:
        return None
    came = collect(read.frame.filter(pl.col("o").is_not_null()).select("a"))["a"].to_numpy()
    shares = np.bincount(came, minlength=len(read.actions)) / np.array(read.counts)
    rates = np.minimum(shares * (sold * read.decisions / read.came), 1.0)
    worth = np.array(_paid(read) or 1.0)
    return tuple(float(rate) for rate in (rates * worth).round(6))


def _lost(law: Any) -> float:
    return float(np.mean(np.isinf(law.params()[1:])))


def _shown(law: Any) -> str:
    """The quartiles of delays, and how many never come."""
    quartiles = np.quantile(law.array.astype(float), (0.25, 0.5, 0.75), method="lower")
    shown = [number(q) if q < 2**53 else "never" for q in quartiles]
    return f"quartiles {', '.join(shown)} decisions, {_lost(law):.1%} never"


def _paid(read: logs.Log) -> tuple[float, ...] | None:
    """What the actions of a log pay on average, from 0 to 1."""
    if read.means is None or read.spread is None or not all(map(math.isfinite, read.means)):
        return None
    low, high = min(0.0, read.spread[0]), max(1.0, read.spread[1])
    return tuple((mean - low) / (high - low) for mean in read.means)


def _means(actions: int, rewards: Any, drift: str, feedback: str) -> tuple[float, ...]:
    if rewards is None:
        low, high = SALES if feedback == "conversions" else BANDIT
        return tuple(float(mean) for mean in np.linspace(low, high, actions).round(4))
    means = require.reals("rewards", rewards, low=0, high=1)
    if len(means) != actions:
        raise InvalidArgument(f"rewards must be {actions}, one an action, got {len(means)}")
    if drift == "walk":
        raise InvalidArgument("rewards are means, and drift='walk' has none: leave them out, or say 'switching'")
    return means


def _game(means: tuple[float, ...], drift: str, every: int, feedback: str) -> tuple[Game, str]:
    """The game, and what it pays in words."""
    actions, seen = len(means), "full" if feedback == "full" else "bandit"
    if drift == "none":
        listed = ", ".join(number(mean) for mean in means[:10]) + (", ..." if actions > 10 else "")
        return Bernoulli(means, seen), f"rewards 1 or 0, independent, with means {listed}"  # type: ignore[arg-type]
    if drift == "walk":
        if feedback == "conversions":
            raise InvalidArgument("conversions are 0 or 1, and drift='walk' has rewards in between: say 'switching'")
        step = min(1.0, 1.0 / math.sqrt(every))
        walk = RandomWalk(actions, step, feedback=seen, dynamic=True)  # type: ignore[arg-type]
        return walk, f"rewards wander by {number(step)} a round; regret is against the best of each round"
    good, bad = max(means), min(means)
    switching = Switching(actions, 1.0 / every, good, bad, seen, dynamic=True)  # type: ignore[arg-type]
    pays = f"one action pays {number(good)} on average, others {number(bad)}; which one changes every {every:,} rounds"
    return switching, f"{pays}; regret is against the best of each round"
