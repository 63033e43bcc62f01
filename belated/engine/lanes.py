"""Lanes: the memory of replications in progress, one beside the other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.engine import mailbox
from belated.engine.records import DESK, TALLY
from belated.engine.views import Arrays
from belated.errors import BadKernel
from belated.forecasters import Forecaster
from belated.kernels import states
from belated.protocols import Learner

if TYPE_CHECKING:
    from belated.engine.workspace import Setting

#: What the replications that a thread plays side by side may take together: more than the caches next to a core hold
#: would make each of them slower.
LANES_BYTES = 2**18
#: How many pay, as measured. A processor looks some 450 instructions ahead, and a round is about as long. Where choices
#: are long, and all lanes choose before one settles (`Shape.apart`), it works on several; else only the end of a round
#: overlaps with the next, unless random delays make it guess wrong.
FOR_CHOICES, FOR_ROUNDS, FOR_GUESSES = 4, 2, 1
#: Delays drawn in one call.
AHEAD = 64
#: Numbers on either side of a forecaster's marks by which writing outside them is found, and what they are.
RING, TRACELESS = 16, np.int64(-0x0DDBA11)
#: Entries of a fresh mailbox and instances of a fresh pool, at least; and what they may take before there is a need.
ROOM, MOST_BYTES = 256, 2**25


class Lane:
    """The memory of one replication in progress."""

    def __init__(self, setting: Setting, ahead: int = AHEAD, in_turn: int = -1) -> None:
        """`in_turn`: all feedback waits so many rounds, in a ring."""
        rule, game, learner = setting.forecaster, setting.game, setting.forecaster.learner
        assert isinstance(learner, Learner)
        self._rule = rule
        entry = game.feedback_size, learner.memo, rule.numbers_letters
        size = mailbox.entry_dtype(*entry).itemsize
        room = _room(setting, size) if in_turn < 0 else _power(min(in_turn, setting.rounds) + 1)
        instances = ROOM if rule.grows else rule.seats
        self.asked: tuple[Any, int] = ((), 0)
        self.arrays = Arrays(
            desk=states.records(DESK, 1),
            pool=states.records(states.state_dtype(learner), instances),
            marks=ringed(np.zeros(max(rule.marks(instances), 1), np.int64)),
            slab=mailbox.make_slab(room, *entry),
            wheel=mailbox.make_wheel(room if in_turn < 0 else 1),
            contexts=np.zeros((room, game.context_size)),
            memory=np.zeros(game.memory() if ahead > 1 else game.least_memory()),
            waits=np.zeros(ahead, np.int64),
            feedback=np.zeros(max(game.feedback_size, game.point_size)),
            context=np.zeros(game.context_size),
            counts=states.records(TALLY, learner.actions * (1 + learner.values)),
        )
        self.arrays.desk["actions"] = learner.actions

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(int(array.nbytes) for array in self.arrays)

    @property
    def desk(self) -> Any:
        return self.arrays.desk[0]

    def grow_mailbox(self) -> None:
        slab, wheel, self.desk["free"] = mailbox.grow(self.arrays.slab, self.arrays.wheel)
        contexts = np.concatenate([self.arrays.contexts, np.zeros_like(self.arrays.contexts)])
        self.arrays = self.arrays._replace(slab=slab, wheel=wheel, contexts=contexts)

    def grow_pool(self) -> None:
        pool, marks = self.arrays.pool, self.arrays.marks
        larger = states.records(pool.dtype, 2 * len(pool))
        larger[: len(pool)] = pool
        missing = self._rule.marks(len(larger)) - len(marks)
        wider = ringed(np.concatenate([marks, np.zeros(max(0, missing), np.int64)]))
        self.arrays = self.arrays._replace(pool=larger, marks=wider)


def lanes_for(setting: Setting, in_turn: int = -1) -> int:
    """How many replications pay side by side, as far as is known before they start."""
    weighs = getattr(setting.forecaster.learner, "weighs", False)
    most = FOR_CHOICES if weighs else FOR_ROUNDS if setting.delays.constant else FOR_GUESSES
    return min(most, max(1, LANES_BYTES // Lane(setting, in_turn=in_turn).size)) if most > 1 else 1


def _room(setting: Setting, size: int) -> int:
    """Entries that the mailbox will probably need: a power of two above the mean delay, within reason."""
    mean = setting.delays.mean
    if mean is None or not math.isfinite(mean):
        return ROOM
    return max(ROOM, _power(min(1.25 * mean, setting.rounds, setting.expiry, MOST_BYTES / size)))


def _power(least: float) -> int:
    """A power of two that is no less."""
    return 1 << math.ceil(math.log2(max(least, 1)))


def ringed(marks: Any) -> Any:
    """The same vector between numbers that nobody has a reason to write."""
    whole = np.full(len(marks) + 2 * RING, TRACELESS)
    whole[RING:-RING] = marks
    return whole[RING:-RING]


def check_ring(marks: Any, rule: Forecaster) -> None:
    """Compiled code checks no index: find what a forecaster's kernels wrote just outside their marks."""
    whole = marks.base
    if (whole[:RING] == TRACELESS).all() and (whole[-RING:] == TRACELESS).all():
        return
    raise BadKernel(
        f"{rule!r}: its kernels write outside `marks`, which has {len(marks)} numbers: marks(instances) says how many "
        "they need"
    )
