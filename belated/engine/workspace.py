"""The memory of one worker, and the call that drives the compiled loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.engine import loop, mailbox
from belated.errors import BadKernel, BadPrediction, InvalidArgument, InvalidFeedback
from belated.forecasters import Forecaster
from belated.forecasters.base import check_one_hot
from belated.forecasters.instance import parts_of, supply
from belated.forecasters.room import Kernels
from belated.kernels import pointers, states
from belated.kernels.compile import COMPILED, pointer
from belated.kernels.random import seed_words
from belated.protocols import NEVER, Delays, Game, Learner

#: The loop comes back to Python about this often, in seconds.
CHUNK = 0.05
#: Rounds of the first chunk, before its speed is known.
FIRST_CHUNK = 20_000 if COMPILED else 100
#: Delays drawn in one call.
AHEAD = 64
#: Numbers on either side of a forecaster's marks by which writing outside them is found, and what they are.
RING, TRACELESS = 16, np.int64(-0x0DDBA11)
#: Entries of a fresh mailbox and instances of a fresh pool, at least; and what they may take before there is a need.
ROOM, MOST_BYTES = 256, 2**25


@dataclass
class Tables:
    """What a run writes: rows are replications, so the number of threads changes nothing."""

    whole: Any  # the tallies of all actions, then those of each value of the side information
    tally: Any
    groups: Any  # (replications, values, actions)
    pools: Any  # (replications, values)
    summary: Any
    regret: Any
    actions: Any
    points: Any  # (replications, rounds, numbers), where actions are points
    delays: Any
    probabilities: Any

    @classmethod
    def make(
        cls,
        replications: int,
        actions: int,
        checkpoints: int,
        rounds: int,
        record: bool,
        values: int = 0,
        point_size: int = 0,
    ) -> Tables:
        kept = (replications, rounds) if record else (0, 0)
        width = actions * (values + 1)
        whole = states.records(loop.TALLY, replications * width).reshape(replications, width)
        return cls(
            whole=whole,
            tally=whole[:, :actions],
            groups=whole[:, actions:].reshape(replications, values, actions),
            pools=states.records(loop.POOL, replications * values).reshape(replications, values),
            summary=states.records(loop.SUMMARY, replications),
            regret=np.zeros((replications, checkpoints)),
            actions=np.zeros(kept if not point_size else (0, 0), np.int32),
            points=np.zeros((*kept, point_size)),
            delays=np.zeros(kept, np.int64),
            probabilities=np.zeros(kept),
        )


@dataclass(frozen=True)
class Setting:
    """One cell of simulation: who plays what, for how long."""

    forecaster: Forecaster
    game: Game
    delays: Delays
    rounds: int
    seed: int
    checkpoints: Any
    expiry: int = NEVER
    record: bool = False
    default: float | None = None

    @property
    def feedback_range(self) -> tuple[float, float]:
        """Between which finite numbers feedback must lie."""
        most = float(np.finfo(np.float64).max)
        return max(float(self.game.smallest), -most), min(float(self.game.largest), most)

    @property
    def context_limit(self) -> float:
        """How large numbers of the side information may be; infinite if the learner does not say, or does not look."""
        learner = self.forecaster.learner
        return float(learner.context_limit) if isinstance(learner, Learner) and learner.context_size else math.inf


class Workspace:
    """All that the loop works on, grown when it asks."""

    def __init__(self, setting: Setting, tables: Tables) -> None:
        learner = setting.forecaster.learner
        assert isinstance(learner, Learner)
        self._setting = setting
        self._tables = tables
        rule, game, law = setting.forecaster, setting.game, setting.delays
        entry = game.feedback_size, learner.memo, rule.numbers_letters
        self._loop = loop_of(rule, game)
        self._desk = states.records(loop.DESK, 1)
        self._desk["actions"] = learner.actions
        instances = ROOM if rule.grows else rule.seats
        self._pool = states.records(states.state_dtype(learner), instances)
        self._marks = ringed(np.zeros(max(rule.marks(instances), 1), np.int64))
        room = _room(setting, mailbox.entry_dtype(*entry).itemsize)
        self._slab = mailbox.make_slab(room, *entry)
        self._wheel = mailbox.make_wheel(room)
        self._budget = max(1, FIRST_CHUNK // learner.actions)
        by_action = law.depends_on_action or law.depends_on_reward
        default = (float(rule.scaled(setting.default or 0.0)), setting.default is not None)
        seed = seed_words(setting.seed)
        taken = (float(learner.smallest), float(learner.largest))
        maps = (rule.reward_range or taken, taken)
        self._fixed_head = (
            setting.rounds,
            setting.expiry,
            *default,
            by_action,
            *seed,
            *setting.feedback_range,
            setting.context_limit,
            *maps,
        )
        self._game = (
            pointer(game.outcome, pointers.OUTCOME_SIGNATURE),
            pointer(game.regret, pointers.REGRET_SIGNATURE),
            game.params(),
            np.zeros(game.memory()),
            bool(game.announces),
            pointer(game.event, pointers.EVENT_SIGNATURE) if game.announces else 0,
            pointer(pointers.observer(game.observe), pointers.OBSERVE_SIGNATURE) if game.context_size else 0,
        )
        fill = pointers.law_filler(law.kernel, law.depends_on_reward)
        self._law = (pointer(fill, pointers.LAW_SIGNATURE), law.params())
        self._learner = (states.as_record(rule.params()), states.params(learner), states.blank(learner))
        self._learner[1]["unread"] = not (setting.record or learner.weighs or rule.reads_probability)
        self._asked: tuple[Any, int] = ((), 0)
        self._contexts = np.zeros((room, game.context_size))
        self._buffers = (
            np.zeros(AHEAD, np.int64),
            np.zeros(max(game.feedback_size, game.point_size)),
            np.zeros(game.context_size),
        )

    def run(self, first: int, last: int, tick: Callable[[int], bool]) -> None:
        """Play replications first..last-1. `tick(rounds)` is told of progress; when it says False, stop."""
        desk = self._desk[0]
        desk["replication"], desk["last"], desk["round"], desk["instances"] = first, last, 0, 0
        seen = 0
        while True:
            began = time.perf_counter()
            reason = self._advance()
            elapsed = time.perf_counter() - began
            check_ring(self._marks, self._setting.forecaster)
            done = (int(desk["replication"]) - first) * self._setting.rounds + int(desk["round"])
            if reason == loop.BUDGET and elapsed > 0:
                self._budget = int(min(max(self._budget * CHUNK / elapsed, 100), 4 * self._budget))
            if not tick(done - seen) or reason == loop.DONE:
                return
            seen = done
            if reason == loop.MAILBOX_FULL:
                self._slab, self._wheel, desk["free"] = mailbox.grow(self._slab, self._wheel)
                self._contexts = np.concatenate([self._contexts, np.zeros_like(self._contexts)])
            elif reason == loop.POOL_FULL:
                self._grow_pool()
            elif reason == loop.SUPPLY:
                self._supply(desk)
            elif reason != loop.BUDGET:
                self._refuse(reason, desk)

    def _advance(self) -> int:
        setting, tables = self._setting, self._tables
        return int(
            self._loop(
                self._budget,
                *self._fixed_head,
                self._desk,
                tables.whole,
                tables.pools,
                tables.summary,
                tables.regret,
                setting.checkpoints,
                *self._game,
                *self._law,
                *self._learner,
                self._pool,
                self._marks,
                self._slab,
                self._wheel,
                self._contexts,
                *self._buffers,
                tables.actions,
                tables.points,
                tables.delays,
                tables.probabilities,
                setting.record,
            )
        )

    def _supply(self, desk: Any) -> None:
        """The learner cannot predict without something that Python must compute."""
        state = self._pool[int(desk["instance"])]
        asking = int(desk["replication"]), int(desk["instance"]), int(state["predictions"])
        self._asked = (asking, self._asked[1] + 1 if self._asked[0] == asking else 1)
        learner = self._setting.forecaster.learner
        assert isinstance(learner, Learner)
        supply(learner, self._learner[1], state, self._asked[1])

    def _grow_pool(self) -> None:
        larger = states.records(self._pool.dtype, 2 * len(self._pool))
        larger[: len(self._pool)] = self._pool
        self._pool = larger
        missing = self._setting.forecaster.marks(len(larger)) - len(self._marks)
        self._marks = ringed(np.concatenate([self._marks, np.zeros(max(0, missing), np.int64)]))

    def _refuse(self, reason: int, desk: Any) -> None:
        setting = self._setting
        where = f"in round {int(desk['round']) + 1} of replication {int(desk['replication'])}"
        if reason == loop.BAD_DELAY:
            raise InvalidArgument(f"{setting.delays!r} gave a delay below 0, {where}")
        if reason == loop.BAD_FEEDBACK:
            check_told(setting, self._buffers[1][: setting.game.feedback_size], where)
        if reason == loop.BAD_CONTEXT:
            raise bad_context(setting, self._buffers[2], where)
        if reason == loop.BAD_POINT:
            point = self._buffers[1][: setting.game.point_size].tolist()
            learner = setting.forecaster.learner
            raise BadPrediction(f"{learner!r} chose the point {point}, which is not finite, {where}")
        action, top = int(desk["action"]), setting.game.actions - 1
        if reason == loop.BAD_EVENT:
            raise InvalidArgument(f"{setting.game!r} replaced action {action}, outside 0..{top}, {where}")
        if not 0 <= action <= top:
            raise BadPrediction(f"{setting.forecaster!r}: the learner chose action {action}, outside 0..{top}, {where}")
        chance = float(desk["probability"])
        raise BadPrediction(f"{setting.forecaster!r}: the learner gave probability {chance}, outside (0, 1], {where}")


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


def bad_context(setting: Setting, context: Any, where: str) -> InvalidArgument:
    """Side information that the learner cannot take."""
    most = f"{setting.context_limit:g}"
    return InvalidArgument(
        f"{setting.game!r} gave the context {context.tolist()}, {setting.forecaster.learner!r} takes finite numbers of "
        f"at most {most} (scale the features), {where}"
    )


def check_told(setting: Setting, feedback: Any, where: str) -> None:
    """Refuse feedback that the game does not say it gives, or the learner not that it takes."""
    game, (smallest, largest) = setting.game, setting.feedback_range
    if not ((feedback >= smallest) & (feedback <= largest)).all():
        said = f"[{game.smallest:g}, {game.largest:g}]"
        raise InvalidFeedback(f"{game!r} gave feedback outside {said}, {feedback.tolist()}, {where}")
    rule = setting.forecaster
    if getattr(rule.learner, "one_hot", False):
        check_one_hot(f"{where} the feedback of {game!r} to {rule!r}", feedback, rule.learner, rule.reward_range)


_kernels: dict[Any, Any] = {}


def kernels_of(rule: Forecaster) -> Kernels | None:
    """The kernels of a forecaster over its learner; the same objects for the same rule, parameters and learner."""
    learner = rule.learner
    if not isinstance(learner, Learner):
        return None
    parts = parts_of(learner, rule.numbers_letters)
    key = (type(rule), tuple(rule.parameters().items()), parts)
    if key not in _kernels:
        _kernels[key] = rule.kernels(parts)
    found: Kernels | None = _kernels[key]
    return found


def loop_of(rule: Forecaster, game: Game) -> Any:
    """The loop of a forecaster on games like this."""
    kernels, learner = kernels_of(rule), rule.learner
    assert kernels is not None and isinstance(learner, Learner)
    maps = rule.reward_range is not None
    asked = learner.values, learner.memo, learner.point_size
    shape = loop.Shape(rule.grows, game.context_size > 0, *asked, maps, rule.numbers_letters, learner.one_hot)
    return loop.make_loop(kernels, shape)


def _room(setting: Setting, size: int) -> int:
    """Entries that the mailbox will probably need: a power of two above the mean delay, within reason."""
    mean = setting.delays.mean
    if mean is None or not math.isfinite(mean):
        return ROOM
    expected = min(1.25 * mean, setting.rounds, setting.expiry, MOST_BYTES / size)
    return max(ROOM, 1 << math.ceil(math.log2(max(expected, 1))))
