"""A forecaster that lives on the rounds of a log: it is asked in each, and lives through those that are accepted.

In a round the forecaster proposes an action. The round is accepted if that is the logged action and a coin that shows
heads with probability c / p agrees, where p is the recorded probability and c at most the smallest one. Whatever the
forecaster proposes, the logger took that action with some probability p and the coin agreed with c / p, so a round is
accepted with probability c: always the same, whatever happened before. So the accepted rounds are rounds of the same
world, in which the forecaster had its way (Li et al. 2011; Dudik et al. 2012 for recorded probabilities). In a
round that is not accepted nothing happened: the forecaster is as it was before.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from math import isnan

import numpy as np
from numpy.typing import NDArray

from belated.forecasters import Forecaster
from belated.protocols import NEVER, Learner
from belated.replay.log import Log, Whole


@dataclass(frozen=True)
class Life:
    """What became of a forecaster: the action it proposed in each round, which rounds were accepted, its peak G*."""

    proposed: Whole
    accepted: Whole
    peak: int


def follow(forecaster: Forecaster, log: Log, rows: Whole, heads: NDArray[np.bool_], by_rounds: bool) -> Life:
    """Let a fresh forecaster live on these rows of the log; `heads` are its coins.

    Feedback comes after its recorded delay: `by_rounds` after as many accepted rounds as decisions were logged
    meanwhile; else when the log itself has passed its observation.
    """
    logged, places = log.action[rows].tolist(), rows.tolist()
    rewards, waits = log.reward[rows].tolist(), log.wait[rows].tolist()
    side = log.context_for(_size(forecaster))
    contexts = side[rows] if side is not None and _size(forecaster) else None
    count = len(places)
    spots: list[list[int]] = [[] for _ in range(log.actions)]
    for place in np.flatnonzero(heads).tolist():
        spots[logged[place]].append(place)
    proposed = np.empty(count, np.int64)
    accepted: list[int] = []
    due: list[tuple[int, int, int]] = []
    at = 0
    while at < count:
        now = len(accepted) if by_rounds else places[at]
        while due and due[0][0] < now:
            _, answered, ticket = heapq.heappop(due)
            if isnan(rewards[answered]):
                forecaster.cancel(ticket)
            else:
                forecaster.update(ticket, rewards[answered])
        # Up to `end` nothing changes what the forecaster proposes.
        end = count if by_rounds or not due else bisect_right(places, due[0][0])
        if contexts is not None:
            end = at + 1
        peak = forecaster.peak
        if end == count and contexts is None:
            # What is proposed now is proposed until it is accepted: there is nothing to take back but at the very end.
            decision, take_back = forecaster.predict(), None
        else:
            decision, take_back = forecaster.trial(None if contexts is None else contexts[at])
        fitting = spots[decision.action]
        place = bisect_left(fitting, at)
        found = fitting[place] if place < len(fitting) else count
        proposed[at : min(found + 1, end)] = decision.action
        if found >= end:
            if take_back is None:
                return Life(proposed, np.array(accepted, np.int64), peak)
            take_back()
            at = end
            continue
        if waits[found] < NEVER:
            heapq.heappush(due, ((now if by_rounds else places[found]) + waits[found], found, decision.ticket))
        accepted.append(found)
        at = found + 1
    return Life(proposed, np.array(accepted, np.int64), forecaster.peak)


def _size(forecaster: Forecaster) -> int:
    """How many numbers of side information it is given; -1 for whatever there is."""
    learner = forecaster.learner
    return learner.context_size if isinstance(learner, Learner) else -1
