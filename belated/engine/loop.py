"""The loop: one forecaster plays one game under one delay law, several replications side by side.

The loop is compiled for a learner and a forecaster. Each **lane** plays a replication in arrays of its own; the lanes
take turns, a round each, so that a processor works on one while it waits for another. A lane that is done takes the
next replication. Lanes share nothing that changes, so how many there are changes no result.

It is resumable: all its state lives in the arrays passed in, and it returns after a budget of rounds or with a reason.
Python then grows what is full, shows progress or stops, and calls again.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from belated.engine.mailbox import clear
from belated.engine.records import DESK, POOL, SUMMARY, TALLY
from belated.engine.round import BUDGET, DONE, PLAYED, SUPPLY, Shape, make_round
from belated.engine.views import borrowed, open_lane
from belated.forecasters.room import Kernels
from belated.kernels.compile import kernel, routine
from belated.kernels.natural import natural
from belated.kernels.random import replication_key

__all__ = ["DESK", "POOL", "SUMMARY", "TALLY", "make_loop"]


@kernel
def start_replication(desk, replication, ahead, free, blank, pool, memory, counts):
    """Everything as it is before round 1; `free` is the first free entry of a mailbox that was cleared."""
    for i in range(len(memory)):
        memory[i] = 0.0
    for i in range(len(counts)):
        count = counts[i]
        count.pulls = 0
        count.observed = 0
        count.cancelled = 0
        count.peak = 0
        count.base = 0
        count.dropped = 0
        count.since = 0
    pool[0] = blank[0]
    desk.replication = replication
    desk.round = 0
    desk.drawn = -ahead
    desk.free = free
    desk.checkpoint = 0
    desk.until = 1
    desk.outstanding = 0
    desk.peak = 0
    desk.instances = 1
    desk.instance = 0
    desk.hint = 0
    desk.steps = 0
    desk.action = 0
    desk.announced = 0
    desk.due_count = 0
    desk.due_sum = 0
    desk.came_sum = 0
    desk.closed_sum = 0
    desk.defaulted = 0


@routine
def finish_replication(desk, counts, summary):
    """Keep the counts of the replication."""
    done = summary[desk.replication]
    done.peak = desk.peak
    done.outstanding = desk.outstanding
    done.instances = desk.instances
    done.steps = desk.steps
    done.due_count = desk.due_count
    done.due_sum = desk.due_sum
    done.came_sum = desk.came_sum
    came = 0
    for action in range(desk.actions):
        came += counts[action].observed + counts[action].cancelled + counts[action].dropped
    done.came_count = came
    # G_t counts the rounds before t less those that had ended by then.
    n = desk.round
    done.total = n * (n - 1) // 2 - (came * n - desk.closed_sum)
    done.defaulted = desk.defaulted


@kernel
def retire(finished, crew, order, lanes, like, horizon, written):
    """Keep the counts of so many lanes that are done. The last of those that play takes the place of each."""
    i = crew.playing
    while finished > 0:
        i -= 1
        lane = open_lane(lanes, order[natural(i)], like)
        desk = lane.desk[0]
        if desk.round == horizon:
            finish_replication(desk, lane.counts, written.summary)
            row = written.tally[natural(desk.replication)]
            for j in range(len(row)):
                row[j] = lane.counts[j]
            finished -= 1
            crew.playing -= 1
            free = order[i]
            order[i] = order[crew.playing]
            order[crew.playing] = free
            if crew.at == crew.playing:
                crew.at = i


@cache
def make_loop(kernels: Kernels, shape: Shape) -> Any:
    """Compose the loop from a forecaster's kernels over a learner's.

    Apart, all lanes choose before one settles: the processor works on as many choices as it can look ahead, which pays
    where a choice is long. Else what a lane chose is settled while it is at hand.
    """
    begin = kernels.begin
    choose, settle, *_ = make_round(kernels, shape)

    def enter(crew, order, lanes, like, seed, asked):
        while crew.playing < crew.lanes and crew.next < crew.last:
            lane = open_lane(lanes, order[crew.playing], like)
            desk = lane.desk[0]
            free = clear(lane.slab, lane.wheel)
            start_replication(desk, crew.next, len(lane.waits), free, asked.blank, lane.pool, lane.memory, lane.counts)
            k0, k1 = replication_key(seed[0], seed[1], crew.next)
            desk.key0 = k0
            desk.key1 = k1
            begin(desk, asked.rule[0], asked.params[0], asked.blank, lane.pool, lane.marks, lane.context, k0, k1)
            crew.next += 1
            crew.playing += 1

    enter = routine(enter)

    def together(budget, crew_array, order, lanes, likes, seed, fixed, ask, play, write):
        crew = crew_array[0]
        like, asked, played, written = borrowed(likes), borrowed(ask), borrowed(play), borrowed(write)
        while True:
            if crew.playing < crew.lanes and crew.next < crew.last:
                enter(crew, order, lanes, like, seed, asked)
            if crew.playing == 0:
                return DONE
            if budget <= 0:
                return BUDGET
            budget -= crew.playing - crew.at
            finished = 0
            reason = PLAYED
            for i in range(crew.at, crew.playing):
                lane = open_lane(lanes, order[natural(i)], like)
                reason, action, probability = choose(fixed, lane, asked, played, written)
                if reason == PLAYED:
                    reason = settle(natural(action), probability, fixed, lane, asked, played, written)
                if reason == DONE:
                    finished += 1
                elif reason != PLAYED:
                    crew.at = i
                    break
            if reason <= DONE:
                crew.at = 0
            if finished > 0:
                retire(finished, crew, order, lanes, like, fixed.horizon, written)
            if reason > DONE:
                return reason

    def apart(budget, crew_array, order, lanes, likes, seed, fixed, ask, play, write):
        crew = crew_array[0]
        like, asked, played, written = borrowed(likes), borrowed(ask), borrowed(play), borrowed(write)
        while True:
            if crew.playing < crew.lanes and crew.next < crew.last:
                enter(crew, order, lanes, like, seed, asked)
            if crew.playing == 0:
                return DONE
            if budget <= 0:
                return BUDGET
            first, last = crew.at, crew.playing
            budget -= last - first
            reason = PLAYED
            for i in range(first, last):
                lane = open_lane(lanes, order[natural(i)], like)
                reason, _, probability = choose(fixed, lane, asked, played, written)
                if reason != PLAYED:
                    last = i  # those before it go on with their round
                    break
                lane.desk[0].probability = probability
            crew.at = 0 if reason == PLAYED else last
            finished = 0
            for i in range(first, last):
                lane = open_lane(lanes, order[natural(i)], like)
                desk = lane.desk[0]
                found = settle(natural(desk.action), desk.probability, fixed, lane, asked, played, written)
                if found == DONE:
                    finished += 1
                elif found != PLAYED:
                    # The others finish their round. Of several with something wrong the first replication is told of.
                    other = open_lane(lanes, order[crew.at], like).desk[0].replication
                    if reason <= SUPPLY or desk.replication < other:
                        crew.at = i
                        reason = found
            if finished > 0:
                retire(finished, crew, order, lanes, like, fixed.horizon, written)
            if reason != PLAYED:
                return reason

    return kernel(apart if shape.apart else together)
