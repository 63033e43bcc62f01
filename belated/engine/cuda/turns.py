"""What a thread does: it plays the replication of its lane, or moves the lane into wider arrays.

The rounds are those of the CPU (`round.make_round`), with direct calls of the game and the law. Arrays are shared by
all lanes, and the second axis of each is the lane: what neighbours look at in a round lies side by side.

A turn is a kernel like any other, of the lane's number and one tuple. Nothing in it knows CUDA: it runs on a CPU, too.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from belated.engine.lanes import RING, TRACELESS
from belated.engine.loop import finish_replication, start_replication
from belated.engine.mailbox import move
from belated.engine.round import DONE, PLAYED, Calls, Shape, make_round
from belated.engine.views import Arrays, Asked, Written
from belated.forecasters.room import Kernels
from belated.kernels import pointers
from belated.kernels.compile import kernel
from belated.kernels.natural import natural
from belated.kernels.random import replication_key
from belated.kernels.scratch import nearby
from belated.protocols import Delays, Game

#: What lanes say beside the reasons of `round`: not started yet; the forecaster wrote outside its marks.
FRESH, TORN = -1, -2


class Work(NamedTuple):
    """What a thread is given to play."""

    budget: int  # rounds
    first: int  # the replication of lane 0
    seed: tuple[int, int]  # its words
    fixed: Any
    lanes: Arrays
    asked: Any  # the learner's constants: one for all lanes, or one for each
    played: Any
    written: Any  # rows are lanes
    told: Any  # of each lane why it stopped, and how many rounds it has played


class Moved(NamedTuple):
    """What a thread is given to move."""

    lanes: Arrays
    wider: Arrays


@kernel
def lane_of(lanes, i):
    """The arrays of a lane."""
    return Arrays(
        lanes.desk[:, i],
        lanes.pool[:, i],
        lanes.marks[RING : len(lanes.marks) - RING, i],
        lanes.slab[:, i],
        lanes.wheel[:, i],
        lanes.contexts[:, i],
        lanes.memory[:, i],
        lanes.waits[:, i],
        lanes.feedback[:, i],
        lanes.context[:, i],
    )


@kernel
def torn(marks, i):
    """Whether somebody wrote just outside the marks of a lane."""
    found = False
    last = len(marks) - 1
    for j in range(RING):
        found = found or marks[j, i] != TRACELESS or marks[last - j, i] != TRACELESS
    return found


class Near(NamedTuple):
    """How many records a thread has with itself while it plays; the others stay where all lanes have theirs.

    A thread's own memory is laid out by the device so that neighbours do not disturb each other.
    """

    instances: int  # all of the pool, or 0
    counts: int  # all of a row of the tally, or 0


@cache
def make_near(count: int) -> tuple[Any, Any]:
    """Kernels that bring so many records of an array to the thread, and take them back; with 0 they stay."""

    def stay(far):
        return far

    def leave(near, far):
        pass

    def bring(far):
        near = nearby(far, count)
        for i in range(count):
            near[i] = far[i]
        return near

    def take(near, far):
        for i in range(count):
            far[i] = near[i]

    return (kernel(bring), kernel(take)) if count else (kernel(stay), kernel(leave))


@cache
def make_near_row(count: int) -> tuple[Any, Any]:
    """The same for a row of a table."""

    def stay(far, row):
        return far

    def leave(near, far, row):
        pass

    def bring(far, row):
        near = nearby(far, count)
        for i in range(count):
            near[row, i] = far[row, i]
        return near

    def take(near, far, row):
        for i in range(count):
            far[row, i] = near[row, i]

    return (kernel(bring), kernel(take)) if count else (kernel(stay), kernel(leave))


@cache
def make_play(kernels: Kernels, shape: Shape, calls: Calls, near: Near) -> Any:
    """The turn that plays so many rounds of a lane, or until something is needed or wrong."""
    begin = kernels.begin
    choose, settle = make_round(kernels, shape, calls)
    bring_desk, take_desk = make_near(1)
    bring_pool, take_pool = make_near(near.instances)
    bring_row, take_row = make_near_row(near.counts)

    def start(i, work, lane, asked):
        desk = lane.desk[0]
        start_replication(desk, i, len(lane.waits), asked.blank, lane.pool, lane.memory, lane.slab, lane.wheel)
        k0, k1 = replication_key(np.uint64(work.seed[0]), np.uint64(work.seed[1]), work.first + i)
        desk.key0 = k0
        desk.key1 = k1
        begin(desk, asked.rule[0], asked.params[0], asked.blank, lane.pool, lane.marks, lane.context, k0, k1)

    start = kernel(start)

    def play(i, work):
        reason = work.told[0, i]
        if reason == DONE:
            return
        fixed, played = work.fixed, work.played
        far = lane_of(work.lanes, i)
        own = min(i, len(work.asked.params) - 1)
        asked = Asked(work.asked.rule, work.asked.params[own : own + 1], work.asked.blank)
        if reason == FRESH:
            start(i, work, far, asked)
        lane = Arrays(
            bring_desk(far.desk),
            bring_pool(far.pool),
            far.marks,
            far.slab,
            far.wheel,
            far.contexts,
            far.memory,
            far.waits,
            far.feedback,
            far.context,
        )
        tables = work.written
        written = Written(
            bring_row(tables.tally, i),
            tables.pools,
            tables.summary,
            tables.regret,
            tables.checkpoints,
            tables.actions,
            tables.points,
            tables.delays,
            tables.probabilities,
        )
        reason = PLAYED
        left = work.budget
        while reason == PLAYED and left > 0:
            left -= 1
            reason, action, probability = choose(fixed, lane, asked, played, written)
            if reason == PLAYED:
                reason = settle(natural(action), probability, fixed, lane, asked, played, written)
        if reason == DONE:
            finish_replication(lane.desk[0], written.tally[i], written.summary)
        take_desk(lane.desk, far.desk)
        take_pool(lane.pool, far.pool)
        take_row(written.tally, tables.tally, i)
        if torn(work.lanes.marks, i):
            reason = TORN
        work.told[0, i] = reason
        work.told[1, i] = lane.desk[0].round

    return kernel(play)


@kernel
def move_mailbox(i, moved):
    """Put the mailbox of a lane into one twice its size. The new entries are the first of the free ones."""
    old = lane_of(moved.lanes, i)
    new = lane_of(moved.wider, i)
    desk = old.desk[0]
    size = len(old.slab)
    for entry in range(size):
        new.slab[entry] = old.slab[entry]
        for j in range(new.contexts.shape[1]):
            new.contexts[entry, j] = old.contexts[entry, j]
    for entry in range(size, 2 * size):
        new.slab[entry].next = entry + 1
    new.slab[2 * size - 1].next = desk.free
    desk.free = size
    for slot in range(len(new.wheel)):
        new.wheel[slot, 0] = -1
        new.wheel[slot, 1] = -1
    move(new.slab, old.wheel, new.wheel)


@kernel
def move_pool(i, moved):
    """Put the instances of a lane into a larger pool, and the marks that go with it."""
    old = lane_of(moved.lanes, i)
    new = lane_of(moved.wider, i)
    for instance in range(len(old.pool)):
        new.pool[instance] = old.pool[instance]
    for j in range(len(new.marks)):
        new.marks[j] = old.marks[j] if j < len(old.marks) else 0


@cache
def direct_calls(outcome: Any, regret: Any, event: Any, observe: Any, law: Any) -> Calls:
    """How a round calls the kernels of a game and a law where there are no addresses: it takes no notice of them."""

    def call_outcome(address, params, memory, k0, k1, round_, action, feedback):
        return outcome(params, memory, k0, k1, round_, action, feedback)

    def call_regret(address, params, memory):
        return regret(params, memory)

    def call_law(address, params, k0, k1, first, action, reward, count, delays):
        return law(params, k0, k1, first, action, reward, count, delays)

    def call_event(address, params, memory, k0, k1, round_):
        return event(params, memory, k0, k1, round_)

    def call_observe(address, params, memory, k0, k1, round_, context):
        return observe(params, memory, k0, k1, round_, context)

    def nothing(address, params, memory, k0, k1, round_):
        return -1

    def unseen(address, params, memory, k0, k1, round_, context):
        return 0

    return Calls(
        kernel(call_outcome),
        kernel(call_regret),
        kernel(call_law),
        kernel(nothing if event is None else call_event),
        kernel(unseen if observe is None else call_observe),
    )


def calls_of(game: Game, law: Delays) -> Calls:
    """The same for a game and a law."""
    return direct_calls(
        kernel(game.outcome),
        kernel(game.regret),
        kernel(game.event) if game.announces else None,
        pointers.observer(game.observe) if game.context_size else None,
        pointers.law_filler(law.kernel, law.depends_on_reward),
    )
