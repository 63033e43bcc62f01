"""The host's part: replications in waves of lanes, in launches that are short enough to be stopped between them.

All lanes of a wave have arrays of the same size. When one of them is full, all get twice the room. What a replication
draws depends on its number only, so a wave that no longer fits into the memory is played again in smaller ones.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

import numpy as np

from belated.engine import round as rounds
from belated.engine.cuda import laid, spread, turns
from belated.engine.lanes import AHEAD, RING, Lane, check_ring
from belated.engine.progress import Progress
from belated.engine.records import DESK, TALLY
from belated.engine.views import Arrays, Played, Written
from belated.engine.workspace import Setting, Tables, asked_of, fixed_of, kernels_of, lean_shape, refuse, wait_of
from belated.errors import Unsupported
from belated.forecasters.instance import supply
from belated.kernels.random import seed_words
from belated.kernels.reading import attribute_line
from belated.protocols import Learner

#: A launch should take so many seconds: longer ones are no faster, and Ctrl-C waits for their end.
LAUNCH = 0.08
#: Rounds of the first launch, before its speed is known.
FIRST_LAUNCH = 64
#: Bytes that a thread may have close by, of what all its neighbours have there; and numbers that are its own.
NEAR_BYTES, OWN = 568, 64
#: What is written once, or now and then.
ROWS = ("tally", "summary", "regret")
#: Rounds up to which they take half a cell.
FEW_ROUNDS = 2**30
#: What of a state, of a letter and of the scalars is a number of rounds or smaller.
STATE = ("predictions", "answering", "open")
LETTER = ("due", "round", "number")
SUMS = ("due_sum", "came_sum", "closed_sum", "probability")
SCALARS = tuple(name for name in DESK.names or () if name not in SUMS)
#: The share of the free memory that a wave may take, and how many times its lanes it is given: they will grow.
SHARE, SPARE = 0.8, 3


def run_waves(device: Any, setting: Setting, tables: Tables, progress: Progress) -> None:
    """Play all replications on a device."""
    replications = len(tables.regret)
    plan = Plan(setting, device.is_gpu)
    row = sum(array.nbytes for array in written_of(setting, tables)) // replications
    fit = int(SHARE * device.free) // (SPARE * plan.sample.size + row)
    lanes = max(1, min(replications, device.lanes(plan.bytes_near), fit))

    def tell(rounds: int) -> None:
        progress.add(rounds)
        progress.show()

    first = 0
    wave: Wave | None = None
    while first < replications:
        count = min(lanes, replications - first)
        try:
            wave = wave or Wave(device, plan, lanes)
            wave.play(first, count, tell)
        except MemoryError:
            if lanes == 1:
                raise Unsupported(f"one replication of {setting.forecaster!r} does not fit into the GPU") from None
            progress.add(-wave.done if wave else 0)
            wave, lanes = None, (lanes + 1) // 2
            continue
        wave.read(tables, first, count)
        first += count


def written_of(setting: Setting, tables: Tables) -> Written:
    """What is written, of tables."""
    kept = (tables.actions, tables.points, tables.delays, tables.probabilities)
    return Written(tables.whole, tables.pools, tables.summary, tables.regret, setting.checkpoints, *kept)


class Plan:
    """How a setting is played: what is compiled for it, how large a lane is, and how it is laid out."""

    def __init__(self, setting: Setting, is_gpu: bool = True) -> None:
        rule, law = setting.forecaster, setting.delays
        learner, kernels = rule.learner, kernels_of(rule)
        assert isinstance(learner, Learner) and kernels is not None
        self.setting, self.kernels, self.learner = setting, kernels, learner
        in_turn = wait_of(setting)
        self.delay = -1 if in_turn < 0 else int(law.maximum or 0)
        self.shape = lean_shape(setting)
        self.sample = Lane(setting, 1 if is_gpu else AHEAD, in_turn)
        self._few = setting.rounds < FEW_ROUNDS
        self._idle = [name for name in self.sample.arrays.pool.dtype.names if is_gpu and name in learner.unused_on_gpu]
        self._together = spread.TOGETHER if self.shape.in_turn else 1
        self._lay_out()

    def _lay_out(self) -> None:
        """Records of random delays are read by one thread at a time, others by all neighbours together."""
        arrays, shape, learner = self.sample.arrays, self.shape, self.learner
        small = (*STATE, *learner.counters) if self._few else ()
        counted = (TALLY.names or ()) if self._few else ()
        idle = {name: self._idle[0] for name in self._idle[1:]}  # what nobody looks at has one place
        pool = spread.spread(arrays.pool.dtype, self._together, small, idle)
        desk, count = (spread.spread(kind, spread.TOGETHER, names) for kind, names in ((DESK, ()), (TALLY, counted)))
        self.kinds = turns.Kinds(desk, pool, self._letters(), count, shape.in_turn)

        # What cannot be anything but zero has one place close by.
        zeros = [] if shape.ends else ["cancelled"]
        zeros += [] if shape.announces else ["dropped", "since"]
        zeros += self._unnamed("base")
        near_count = spread.spread(TALLY, spread.TOGETHER, counted, dict.fromkeys(zeros[1:], (zeros or [""])[0]))
        near_pool = spread.spread(arrays.pool.dtype, spread.TOGETHER, small, idle)
        # What is looked at most comes first.
        room, grows = Room(NEAR_BYTES), self.setting.forecaster.grows
        instances = 0 if grows else room.take(len(arrays.pool), spread.size(near_pool))
        # Of our own forecasters it is known that they write into their marks only: others are watched where they write.
        ours = type(self.setting.forecaster).__module__.startswith("belated.")
        marks = room.take(len(arrays.marks), spread.CELL) if ours and not grows and not shape.in_turn else 0
        counts = room.take(len(arrays.counts), spread.size(near_count))
        memory = room.take(len(arrays.memory), spread.CELL)
        own = [len(vector) if len(vector) <= OWN else -1 for vector in (arrays.feedback, arrays.context, arrays.waits)]
        scalars = self._desk(), self._letter(self._few)
        self.near = turns.Near(
            instances, near_pool, marks, counts, near_count, memory, own[0], own[1], own[2], *scalars
        )
        self.bytes_near = NEAR_BYTES - room.left

    def _unnamed(self, *names: str) -> list[str]:
        """Those fields that the forecaster's kernels do not name."""
        return [name for name in names if not any(attribute_line(each, name) for each in self.kernels)]

    def _letters(self) -> Any:
        """How letters are laid out. A probability that nobody reads has the place of something else."""
        instead = {} if self.shape.states else {"probability": "feedback"}
        return spread.spread(self._letter(few=False), self._together, LETTER if self._few else (), instead)

    def _letter(self, few: bool) -> Any:
        """A letter, without what is not there."""
        shape, dtype = self.shape, self.sample.arrays.slab.dtype
        gone = {"due", "next"} if shape.in_turn else set()
        gone |= {"cancelled"} if shape.in_turn and not shape.ends else set()
        order = ["feedback", *(name for name in dtype.names if name not in gone | {"feedback"})]
        return halved([(name, dtype[name].base, dtype[name].shape) for name in order], LETTER if few else ())

    def _desk(self) -> Any:
        """The scalars, without those that nobody looks at."""
        shape = self.shape
        unread = ["hint", "steps"]
        unread += [] if shape.informs or shape.announces else ["announced"]
        unread += [] if shape.values else ["value"]
        unread += [] if shape.ends else ["defaulted"]
        unread += ["drawn", "free"] if shape.in_turn else []
        gone = self._unnamed(*unread)
        return halved(
            [(name, DESK[name]) for name in DESK.names or () if name not in gone], SCALARS if self._few else ()
        )


class Room:
    """Bytes that can be given away."""

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, count: int, size: int) -> int:
        """Room for so many of a size, if there is enough for all; else for none."""
        taken = count if count * size <= self.left else 0
        self.left -= taken * size
        return taken


def halved(fields: list[Any], small: Collection[str]) -> np.dtype[Any]:
    """A dtype, with some whole numbers in half the room."""
    half = {"i": "i4", "u": "u4"}
    made = [(name, half[np.dtype(kind).kind] if name in small else kind, *more) for name, kind, *more in fields]
    return np.dtype(made, align=True)


class Wave:
    """Lanes on a device. The arrays of each are as large as those of a sample, which grows with them."""

    def __init__(self, device: Any, plan: Plan, lanes: int) -> None:
        setting = plan.setting
        self._device, self._plan, self._setting, self._sample, self._count = device, plan, setting, plan.sample, lanes
        rule, game, law = setting.forecaster, setting.game, setting.delays
        self.turn = turns.make_play(plan.kernels, plan.shape, turns.calls_of(game, law), plan.near, plan.kinds)
        self.move_mailbox, self.move_pool = turns.make_move(plan.kinds)
        self._lanes = self._room(**plan.sample.arrays._asdict())
        asked = asked_of(setting)
        # What is supplied is put into the learner's constants, and its kernels may write there.
        own = lanes if type(rule.learner).supply is not Learner.supply else 1
        params = np.repeat(asked.params, own).view(type(asked.params))
        self._asked = type(asked)(*map(device.put, asked._replace(params=params)))
        announces = bool(game.announces)
        params, law_params = device.put(game.params()), device.put(law.params())
        self._played = Played(0, 0, params, announces, 0, 0, 0, law_params)
        far = FEW_ROUNDS if setting.rounds < FEW_ROUNDS else rounds.FAR
        self._fixed = fixed_of(setting)._replace(far=far, delay=plan.delay)
        self._budget = FIRST_LAUNCH
        self.done = 0  #: rounds of this wave
        self.written = self._write()

    def _room(self, **arrays: Any) -> Any:
        """Room for all lanes, where one would have these arrays; with what is in them, where that matters."""
        made: dict[str, Any] = {}
        device, kinds = self._device, self._plan.kinds
        for name, array in arrays.items():
            if name == "desk":
                made[name] = device.put(laid.filled(kinds.desk, array, self._count))
            elif name in turns.Kinds._fields:
                made[name] = device.room(*laid.blank(getattr(kinds, name), len(array), self._count))
            elif name == "marks":
                axis = int(kinds.abreast)
                made[name] = device.put(np.repeat(np.expand_dims(array.base, axis), self._count, axis=axis))
            else:
                first = (len(array), self._count) if kinds.abreast else (self._count, len(array))
                made[name] = device.room((*first, *array.shape[1:]), array.dtype)
        return Arrays(**made) if len(made) == len(Arrays._fields) else made

    def begin(self, first: int) -> None:
        """Be ready to play replications from `first` on, one a lane."""
        self._told = self._device.put(np.array([[turns.FRESH] * self._count, [0] * self._count]))
        if self.written.pools.size:
            self._device.set(self.written.pools, self._no_pools)
        self._first, self.done = first, 0
        self._asking: dict[int, tuple[Any, int]] = {}

    def _write(self) -> Any:
        """Room for what is written. What is once or now and then goes row by row, what neighbours write in each round
        lies side by side."""
        setting, device = self._setting, self._device
        values = getattr(setting.forecaster.learner, "values", 0)
        shape = len(setting.checkpoints), setting.rounds, setting.record, values, setting.game.point_size
        like = written_of(setting, Tables.make(1, setting.game.actions, *shape))._asdict()
        made = {name: device.room((self._count, *like[name].shape[1:]), like[name].dtype) for name in ROWS}
        made["checkpoints"] = device.put(setting.checkpoints)
        for name in like.keys() - made.keys():
            made[name] = device.put(self._zeros(like[name]))
        self._no_pools = self._zeros(like["pools"])
        return Written(**made)

    def _zeros(self, like: Any) -> Any:
        """An array of so many rows like this one's, with what neighbours write side by side."""
        return np.zeros((self._count, *like.shape[1:]), like.dtype, order="F").view(type(like))

    @property
    def work(self) -> turns.Work:
        """What the threads are given."""
        words = seed_words(self._setting.seed)
        mine = self._lanes, self._asked, self._played, self.written, self._told
        return turns.Work(self._budget, self._first, (int(words[0]), int(words[1])), self._fixed, *mine)

    def play(self, first: int, count: int, tell: Any) -> None:
        """Play so many replications from `first` on. `tell(rounds)` is told of progress."""
        self.begin(first)
        refused: Exception | None = None
        while count:
            began = time.perf_counter()
            self._device.run(self.turn, count, self.work)
            reasons, played = self._device.get(self._told)
            faster = LAUNCH / max(time.perf_counter() - began, 1e-6)
            self._budget = min(max(1, int(self._budget * min(faster, 4.0))), self._setting.rounds)
            before, self.done = self.done, int(played.sum())
            tell(self.done - before)
            for lane in np.flatnonzero((reasons[:count] < rounds.PLAYED) | (reasons[:count] >= rounds.SUPPLY)):
                try:
                    self._serve(int(reasons[lane]), int(lane))
                except Exception as error:
                    # Of several replications that cannot go on people hear of the first: those before it play on.
                    refused, count = error, int(lane)
                    break
            reasons = reasons[:count]
            if (reasons == rounds.MAILBOX_FULL).any():
                self._sample.grow_mailbox()
                self._move(count, self.move_mailbox, "slab", "wheel", "contexts")
            if (reasons == rounds.POOL_FULL).any():
                self._sample.grow_pool()
                self._move(count, self.move_pool, "pool", "marks")
            if (reasons == rounds.DONE).all():
                break
        if refused is not None:
            raise refused

    def _serve(self, reason: int, lane: int) -> None:
        """Do what a lane needs before it can go on, or raise what is wrong with it."""
        desk = laid.get(self._device, self._plan.kinds.desk, self._lanes.desk, 0, lane, DESK)
        if reason == rounds.SUPPLY:
            self._supply(lane, int(desk["instance"][0]))
            return
        if reason == turns.TORN:
            check_ring(self._vector("marks", lane)[RING:-RING], self._setting.forecaster)
        desk["replication"] += self._first
        feedback, context = self._vector("feedback", lane), self._vector("context", lane)
        refuse(self._setting, reason, self._sample.arrays._replace(desk=desk, feedback=feedback, context=context))

    def _vector(self, name: str, lane: int) -> Any:
        """A vector of a lane."""
        found = self._device.get(getattr(self._lanes, name))
        return found[:, lane].copy() if self._plan.kinds.abreast else found[lane].copy()

    def _supply(self, lane: int, instance: int) -> None:
        """The learner cannot predict without something that Python must compute."""
        device, learner = self._device, self._setting.forecaster.learner
        assert isinstance(learner, Learner)
        own = min(lane, len(self._asked.params) - 1)
        kind, dtype = self._plan.kinds.pool, self._sample.arrays.pool.dtype
        state = laid.get(device, kind, self._lanes.pool, instance, lane, dtype)
        there = self._asked.params[own : own + 1]
        params = device.get(there)
        asking = instance, int(state["predictions"][0])
        before, times = self._asking.get(lane, ((), 0))
        self._asking[lane] = asking, times + 1 if before == asking else 1
        supply(learner, params, state[0], self._asking[lane][1])
        laid.put(device, kind, self._lanes.pool, instance, lane, state)
        device.set(there, params)

    def read(self, tables: Tables, first: int, count: int) -> None:
        """Take over what was written by so many lanes, which played the replications from `first` on."""
        for name, here in written_of(self._setting, tables)._asdict().items():
            if name != "checkpoints" and here.size:
                self._device.read(getattr(self.written, name), here[first : first + count])

    def _move(self, count: int, turn: Any, *names: str) -> None:
        """Give all lanes the room that the sample has by now, of some arrays. Only those that play have anything."""
        wider = self._lanes._replace(**self._room(**{name: getattr(self._sample.arrays, name) for name in names}))
        self._device.run(turn, count, turns.Moved(self._lanes, wider))
        self._lanes = wider
