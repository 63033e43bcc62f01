"""The host's part: replications in waves of lanes, in launches that are short enough to be stopped between them.

All lanes of a wave have arrays of the same size. When one of them is full, all get twice the room. What a replication
draws depends on its number only, so a wave that no longer fits into the memory is played again in smaller ones.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from belated.engine import round as rounds
from belated.engine.cuda import turns
from belated.engine.lanes import RING, Lane, check_ring
from belated.engine.progress import Progress
from belated.engine.records import TALLY
from belated.engine.views import Arrays, Played, Written
from belated.engine.workspace import Setting, Tables, asked_of, fixed_of, kernels_of, refuse, shape_of
from belated.errors import Unsupported
from belated.forecasters.instance import supply
from belated.kernels.random import seed_words
from belated.protocols import Learner

#: A launch should take so many seconds: longer ones are no faster, and Ctrl-C waits for their end.
LAUNCH = 0.08
#: Rounds of the first launch, before its speed is known.
FIRST_LAUNCH = 64
#: What a thread may have with itself of its pool, and of its counts.
NEAR_BYTES = 2048
#: The share of the free memory that a wave may take, and how many times its lanes it is given: they will grow.
SHARE, SPARE = 0.8, 3


def run_waves(device: Any, setting: Setting, tables: Tables, progress: Progress) -> None:
    """Play all replications on a device."""
    replications = len(tables.regret)
    sample = Lane(setting)
    row = sum(array.nbytes for array in written_of(setting, tables)) // replications
    fit = int(SHARE * device.free) // (SPARE * sample.size + row)
    lanes = max(1, min(replications, device.lanes, fit))

    def tell(rounds: int) -> None:
        progress.add(rounds)
        progress.show()

    first = 0
    wave: Wave | None = None
    while first < replications:
        count = min(lanes, replications - first)
        try:
            wave = wave or Wave(device, setting, sample, lanes)
            wave.play(first, count, tell)
        except MemoryError:
            if lanes == 1:
                raise Unsupported(f"one replication of {setting.forecaster!r} does not fit into the GPU") from None
            progress.add(-wave.done if wave else 0)
            wave, lanes = None, (lanes + 1) // 2
            continue
        for there, here in zip(wave.written, written_of(setting, tables), strict=True):
            if here is not setting.checkpoints:
                here[first : first + count] = device.get(there)[:count]
        first += count


def written_of(setting: Setting, tables: Tables) -> Written:
    """What is written, of tables."""
    kept = (tables.actions, tables.points, tables.delays, tables.probabilities)
    return Written(tables.whole, tables.pools, tables.summary, tables.regret, setting.checkpoints, *kept)


def near_of(setting: Setting, sample: Lane) -> turns.Near:
    """What a thread should have with itself: pools that do not grow and the counts, unless they are too large."""
    rule, pool = setting.forecaster, sample.arrays.pool
    counts = setting.game.actions * (getattr(rule.learner, "values", 0) + 1)
    return turns.Near(
        0 if rule.grows or pool.nbytes > NEAR_BYTES else len(pool),
        0 if counts * TALLY.itemsize > NEAR_BYTES else counts,
    )


class Wave:
    """Lanes on a device. The arrays of each are as large as those of a sample, which grows with them."""

    def __init__(self, device: Any, setting: Setting, sample: Lane, lanes: int) -> None:
        self._device, self._setting, self._sample, self._count = device, setting, sample, lanes
        rule, game, law = setting.forecaster, setting.game, setting.delays
        kernels = kernels_of(rule)
        assert kernels is not None
        near = near_of(setting, sample)
        self.turn = turns.make_play(kernels, shape_of(rule, game), turns.calls_of(game, law), near)
        self._lanes = self._room(**sample.arrays._asdict())
        asked = asked_of(setting)
        # What is supplied is put into the learner's constants, and its kernels may write there.
        own = lanes if type(rule.learner).supply is not Learner.supply else 1
        params = np.repeat(asked.params, own).view(type(asked.params))
        self._asked = type(asked)(*map(device.put, asked._replace(params=params)))
        announces = bool(game.announces)
        params, law_params = device.put(game.params()), device.put(law.params())
        self._played = Played(0, 0, params, announces, 0, 0, 0, law_params)
        self._fixed = fixed_of(setting)
        self._budget = FIRST_LAUNCH
        self.done = 0  #: rounds of this wave

    def _room(self, **arrays: Any) -> Any:
        """Room for all lanes, where one would have these arrays; with what is in them, where that matters."""
        made: dict[str, Any] = {}
        for name, array in arrays.items():
            array = array.base if name == "marks" else array
            if name in ("desk", "marks"):
                made[name] = self._device.put(np.repeat(array[:, None], self._count, axis=1).view(type(array)))
            else:
                made[name] = self._device.room((len(array), self._count, *array.shape[1:]), array.dtype)
        return Arrays(**made) if len(made) == len(Arrays._fields) else made

    def begin(self, first: int) -> None:
        """Be ready to play replications from `first` on, one a lane."""
        setting, put = self._setting, self._device.put
        values = getattr(setting.forecaster.learner, "values", 0)
        shape = len(setting.checkpoints), setting.rounds, setting.record, values, setting.game.point_size
        blank = written_of(setting, Tables.make(self._count, setting.game.actions, *shape))
        # As with the lanes' own arrays, what neighbours write in a round lies side by side.
        self.written = Written(*(put(np.array(array, order="F", subok=True)) for array in blank))
        self._told = put(np.array([[turns.FRESH] * self._count, [0] * self._count]))
        self._first, self.done = first, 0
        self._asking: dict[int, tuple[Any, int]] = {}

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
                self._move(count, turns.move_mailbox, "slab", "wheel", "contexts")
            if (reasons == rounds.POOL_FULL).any():
                self._sample.grow_pool()
                self._move(count, turns.move_pool, "pool", "marks")
            if (reasons == rounds.DONE).all():
                break
        if refused is not None:
            raise refused

    def _serve(self, reason: int, lane: int) -> None:
        """Do what a lane needs before it can go on, or raise what is wrong with it."""
        get, lanes = self._device.get, self._lanes
        desk = get(lanes.desk[0, lane : lane + 1])
        if reason == rounds.SUPPLY:
            self._supply(lane, int(desk["instance"][0]))
            return
        if reason == turns.TORN:
            check_ring(get(lanes.marks)[:, lane].copy()[RING:-RING], self._setting.forecaster)
        desk["replication"] += self._first
        feedback, context = get(lanes.feedback)[:, lane], get(lanes.context)[:, lane]
        refuse(self._setting, reason, self._sample.arrays._replace(desk=desk, feedback=feedback, context=context))

    def _supply(self, lane: int, instance: int) -> None:
        """The learner cannot predict without something that Python must compute."""
        device, learner = self._device, self._setting.forecaster.learner
        assert isinstance(learner, Learner)
        own = min(lane, len(self._asked.params) - 1)
        there = self._lanes.pool[instance, lane : lane + 1], self._asked.params[own : own + 1]
        state, params = map(device.get, there)
        asking = instance, int(state["predictions"][0])
        before, times = self._asking.get(lane, ((), 0))
        self._asking[lane] = asking, times + 1 if before == asking else 1
        supply(learner, params, state[0], self._asking[lane][1])
        for array, values in zip(there, (state, params), strict=True):
            device.set(array, values)

    def _move(self, count: int, turn: Any, *names: str) -> None:
        """Give all lanes the room that the sample has by now, of some arrays. Only those that play have anything."""
        wider = self._lanes._replace(**self._room(**{name: getattr(self._sample.arrays, name) for name in names}))
        self._device.run(turn, count, turns.Moved(self._lanes, wider))
        self._lanes = wider
