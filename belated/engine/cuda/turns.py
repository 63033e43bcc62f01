"""What a thread does: it plays the replication of its lane, or moves the lane into wider arrays.

The rounds are those of the CPU (`round.make_round`), with direct calls of the game and the law. Arrays are shared by
all lanes, so that what neighbours look at in a round lies side by side: the second axis of vectors is the lane, records
are laid out as `spread.py` says. What a thread needs all the time it has close by while it plays.

A turn is a kernel like any other, of the lane's number and one tuple. Nothing in it knows CUDA: it runs on a CPU, too.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from belated.engine.cuda import spread
from belated.engine.lanes import RING, TRACELESS
from belated.engine.loop import finish_replication, start_replication
from belated.engine.mailbox import clear, move
from belated.engine.round import DONE, ONCE_MORE, PLAYED, Calls, Shape, make_round
from belated.engine.views import Arrays, Asked
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


class Lane(NamedTuple):
    """The arrays of a lane, as `views.Arrays` has them, and the letter that comes in the round."""

    desk: Any
    pool: Any
    marks: Any
    slab: Any
    wheel: Any
    contexts: Any
    memory: Any
    waits: Any
    feedback: Any
    context: Any
    counts: Any
    came: Any


class Moved(NamedTuple):
    """What a thread is given to move."""

    lanes: Arrays
    wider: Arrays


class Kinds(NamedTuple):
    """How the records of all lanes are laid out, and whether the numbers of vectors lie beside those of neighbours:
    where these are in the same round, they need the same at once. Else what a lane has is in one place."""

    desk: Any
    pool: Any
    slab: Any
    counts: Any
    abreast: bool


class Near(NamedTuple):
    """What a thread has close by while it plays: so many of these. Others stay where all lanes have theirs: 0, or -1
    where there may be none."""

    instances: int  # all of the pool
    pool: Any  # and how they are laid out there
    marks: int  # of the forecaster's
    counts: int  # all of them
    count: Any  # and how they are laid out there
    memory: int  # numbers of the game's
    feedback: int  # numbers of the round
    context: int
    waits: int
    desk: Any  # how the scalars are laid out there
    letter: Any  # and a letter


@cache
def make_lane_of(kinds: Kinds) -> Any:
    """The kernel that finds the arrays of a lane."""
    desk_of, pool_of, slab_of, counts_of = (spread.view(kind) for kind in kinds[:4])

    def abreast(lanes, i):
        return Arrays(
            desk_of(lanes.desk, i),
            pool_of(lanes.pool, i),
            lanes.marks[RING : len(lanes.marks) - RING, i],
            slab_of(lanes.slab, i),
            lanes.wheel[:, i],
            lanes.contexts[:, i],
            lanes.memory[:, i],
            lanes.waits[:, i],
            lanes.feedback[:, i],
            lanes.context[:, i],
            counts_of(lanes.counts, i),
        )

    def apart(lanes, i):
        return Arrays(
            desk_of(lanes.desk, i),
            pool_of(lanes.pool, i),
            lanes.marks[i, RING : lanes.marks.shape[1] - RING],
            slab_of(lanes.slab, i),
            lanes.wheel[i],
            lanes.contexts[i],
            lanes.memory[i],
            lanes.waits[i],
            lanes.feedback[i],
            lanes.context[i],
            counts_of(lanes.counts, i),
        )

    return kernel(abreast if kinds.abreast else apart)


@cache
def make_torn(abreast: bool) -> Any:
    """The kernel that says whether somebody wrote just outside the marks of a lane."""

    def torn(marks, i):
        ring = marks[:, i] if abreast else marks[i]
        found = False
        last = len(ring) - 1
        for j in range(RING):
            found = found or ring[j] != TRACELESS or ring[last - j] != TRACELESS
        return found

    return kernel(torn)


@cache
def make_near(kind: Any, count: int) -> tuple[Any, Any]:
    """Kernels that bring so many records of an array close to the thread, and take them back; with 0 they stay."""
    room, put = spread.nearby(kind, count), spread.assign

    def stay(far, i):
        return far

    def leave(near, far):
        pass

    def bring(far, i):
        near = room(i)
        for j in range(count):
            put(near, j, far[j])
        return near

    def take(near, far):
        for j in range(count):
            put(far, j, near[j])

    return (kernel(bring), kernel(take)) if count else (kernel(stay), kernel(leave))


@cache
def make_own(count: int) -> tuple[Any, Any]:
    """The same for numbers, which the thread has for itself; -1 where they stay."""

    def stay(far):
        return far

    def leave(near, far):
        pass

    def bring(far):
        near = nearby(far, count)
        for j in range(count):
            near[j] = far[j]
        return near

    def take(near, far):
        for j in range(count):
            far[j] = near[j]

    return (kernel(bring), kernel(take)) if count >= 0 else (kernel(stay), kernel(leave))


@cache
def make_numbers(count: int, dtype: str = "f8") -> tuple[Any, Any]:
    """The same for numbers that neighbours have in turn."""
    kind = spread.spread(np.dtype([("numbers", dtype, (max(count, 1),))]), spread.TOGETHER)
    room = spread.nearby(kind, 1)

    def stay(far, i):
        return far

    def leave(near, far):
        pass

    def bring(far, i):
        near = room(i)[0].numbers
        for j in range(count):
            near[j] = far[j]
        return near

    def take(near, far):
        for j in range(count):
            far[j] = near[j]

    return (kernel(bring), kernel(take)) if count else (kernel(stay), kernel(leave))


@cache
def make_rounds(kernels: Kernels, shape: Shape, calls: Calls) -> Any:
    """The kernel that plays so many rounds, or until something is needed or wrong."""
    choose, settle = make_round(kernels, shape, calls)

    def rounds(left, fixed, lane, asked, played, written):
        reason = PLAYED
        while reason == PLAYED and left > 0:
            reason, action, probability = choose(fixed, lane, asked, played, written)
            if reason == PLAYED:
                left -= 1
                reason = settle(natural(action), probability, fixed, lane, asked, played, written)
            elif reason == ONCE_MORE:
                reason = PLAYED
        return reason

    return kernel(rounds)


@cache
def make_play(kernels: Kernels, shape: Shape, calls: Calls, near: Near, kinds: Kinds) -> Any:
    """The turn that plays so many rounds of a lane, or until something is needed or wrong."""
    begin = kernels.begin
    lane_of, torn = make_lane_of(kinds), make_torn(kinds.abreast)
    bring_pool, take_pool = make_near(near.pool, near.instances)
    bring_counts, take_counts = make_near(near.count, near.counts)
    bring_marks, take_marks = make_numbers(near.marks, "i8")
    bring_memory, take_memory = make_numbers(near.memory)
    bring_feedback, take_feedback = make_own(near.feedback)
    bring_context, take_context = make_own(near.context)
    bring_waits, take_waits = make_own(near.waits)
    in_turn, put = shape.in_turn, spread.assign
    own_desk, own_letter = spread.own(near.desk, 1), spread.own(near.letter, 1)

    def start(i, work, lane, asked):
        desk = lane.desk[0]
        free = 0
        if in_turn:
            for entry in range(len(lane.slab)):
                lane.slab[entry].instance = 0
        else:
            free = clear(lane.slab, lane.wheel)
        start_replication(desk, i, len(lane.waits), free, asked.blank, lane.pool, lane.memory, lane.counts)
        k0, k1 = replication_key(np.uint64(work.seed[0]), np.uint64(work.seed[1]), work.first + i)
        desk.key0 = k0
        desk.key1 = k1
        begin(desk, asked.rule[0], asked.params[0], asked.blank, lane.pool, lane.marks, lane.context, k0, k1)

    start = kernel(start)

    play_on = make_rounds(kernels, shape, calls._replace(far=shape.grows))

    def play(i, work):
        reason = work.told[0, i]
        if reason == DONE:
            return
        fixed, played, tables = work.fixed, work.played, work.written
        far = lane_of(work.lanes, i)
        one = min(i, len(work.asked.params) - 1)
        asked = Asked(work.asked.rule, work.asked.params[one : one + 1], work.asked.blank)
        if reason == FRESH:
            start(i, work, far, asked)
        desk = own_desk(i)
        put(desk, 0, far.desk[0])
        lane = Lane(
            desk,
            bring_pool(far.pool, i),
            bring_marks(far.marks, i),
            far.slab,
            far.wheel,
            far.contexts,
            bring_memory(far.memory, i),
            bring_waits(far.waits),
            bring_feedback(far.feedback),
            bring_context(far.context),
            bring_counts(far.counts, i),
            own_letter(i),
        )
        reason = play_on(work.budget, fixed, lane, asked, played, tables)
        put(far.desk, 0, desk[0])
        take_pool(lane.pool, far.pool)
        take_marks(lane.marks, far.marks)
        take_memory(lane.memory, far.memory)
        take_waits(lane.waits, far.waits)
        take_feedback(lane.feedback, far.feedback)
        take_context(lane.context, far.context)
        take_counts(lane.counts, far.counts)
        if reason == DONE:
            finish_replication(far.desk[0], far.counts, tables.summary)
            row = tables.tally[i]
            for j in range(len(row)):
                put(row, j, far.counts[j])
        if torn(work.lanes.marks, i):
            reason = TORN
        work.told[0, i] = reason
        work.told[1, i] = far.desk[0].round

    return kernel(play)


@cache
def make_move(kinds: Kinds) -> tuple[Any, Any]:
    """The turns that put the mailbox of a lane into one twice its size, and the instances into a larger pool."""
    lane_of = make_lane_of(kinds)

    def move_mailbox(i, moved):
        old = lane_of(moved.lanes, i)
        new = lane_of(moved.wider, i)
        desk = old.desk[0]
        size = len(old.slab)
        for entry in range(size):
            new.slab[entry] = old.slab[entry]
            for j in range(new.contexts.shape[1]):
                new.contexts[entry, j] = old.contexts[entry, j]
        # The new entries are the first of the free ones.
        for entry in range(size, 2 * size):
            new.slab[entry].next = entry + 1
        new.slab[2 * size - 1].next = desk.free
        desk.free = size
        for slot in range(len(new.wheel)):
            new.wheel[slot] = -1
        move(new.slab, old.wheel, new.wheel)

    def move_pool(i, moved):
        old = lane_of(moved.lanes, i)
        new = lane_of(moved.wider, i)
        for instance in range(len(old.pool)):
            new.pool[instance] = old.pool[instance]
        for j in range(len(new.marks)):  # and the marks that go with them
            new.marks[j] = old.marks[j] if j < len(old.marks) else 0

    return kernel(move_mailbox), kernel(move_pool)


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
        spread.assign,
        spread.soon,
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
