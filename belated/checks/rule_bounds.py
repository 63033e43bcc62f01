"""The kernels of a forecaster keep to their arrays. They run in plain Python over guards, so nothing can crash."""

from __future__ import annotations

from typing import Any

import numpy as np

from belated.checks.contract import CheckFailed, arena, context_of, feedback_of
from belated.engine import loop, mailbox
from belated.engine.workspace import kernels_of
from belated.forecasters import Forecaster
from belated.forecasters.instance import supply
from belated.forecasters.room import Kernels
from belated.kernels import guard, states
from belated.kernels.compile import plain
from belated.kernels.random import key_of
from belated.protocols import NEEDED, Learner

ROUNDS = 150
#: How late feedback is; 25 is beyond what is waited for.
DELAYS = (0, 0, 1, 3, 10, 25)
KEY = key_of(0, 0)


def kernels_stay_in_their_arrays(forecaster: Forecaster) -> None:
    """No kernel of it reads or writes outside marks, slab, pool, contexts and tally, negative indices included."""
    kernels, learner = kernels_of(forecaster), forecaster.learner
    if kernels is None or not isinstance(learner, Learner):
        return
    try:
        with np.errstate(all="ignore"):
            _Table(forecaster, learner, kernels).play()
    except CheckFailed:
        raise
    except Exception as error:
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
            if not where.tb_frame.f_code.co_filename.endswith("guard.py"):
                place = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}, in {where.tb_frame.f_code.co_name}"
        what = str(error) if isinstance(error, guard.Outside | AttributeError) else f"{type(error).__name__}: {error}"
        raise CheckFailed(f"the kernels of {forecaster!r}: {what} ({place})") from error


def _records(made: Any, name: str) -> guard.GuardedRecords:
    return guard.GuardedRecords(made, name)


class _Table:
    """What the loop does, a round at a time, with guarded arrays."""

    def __init__(self, rule: Forecaster, learner: Learner, kernels: Kernels) -> None:
        self.learner, self.game = learner, arena(learner, ROUNDS)
        calls = [plain(each, {}) for each in kernels]
        self.begin, self.choose, self.deliver, self.release, self.back, _ = calls
        self.seats = ROUNDS + 1 if rule.grows else max(rule.seats, 1)
        self.own = states.params(learner), states.records(states.state_dtype(learner), self.seats)
        size = 1 << (ROUNDS - 1).bit_length()
        made = mailbox.make_slab(size, learner.feedback_size, learner.memo, rule.numbers_letters)
        made["next"] = np.arange(1, size + 1)
        made["next"][-1] = -1
        self.slab, self.pool = _records(made, "slab"), _records(self.own[1], "pool")
        self.desk = _records(states.records(loop.DESK, 1), "desk")[0]
        self.desk.actions, self.desk.instances = learner.actions, 1
        self.rule = _records(states.as_record(rule.params()), "rule")[0]
        self.params = _records(self.own[0], "params")[0]
        self.blank = _records(states.blank(learner), "blank")
        self.marks = guard.Guarded.over(np.zeros(max(rule.marks(self.seats), 1), np.int64), "marks")
        self.contexts = guard.Guarded.over(np.zeros((size, learner.context_size)), "contexts")
        self.tally = _records(states.records(loop.TALLY, learner.actions * (1 + learner.values)), "tally")

    def play(self) -> None:
        rng, due = np.random.default_rng(2), dict[int, list[tuple[int, bool]]]()
        self.pool[0] = self.blank[0]
        self.begin(*(self.desk, self.rule, self.params, self.blank, self.pool, self.marks, self._context(0)), *KEY)
        for t in range(1, ROUNDS + 1):
            entry = self._round(t)
            delay = int(rng.choice(DELAYS))
            due.setdefault(t + min(delay, 20), []).append((entry, delay > 20))
            for waiting, lost in due.pop(t, []):
                self._end(waiting, lost)

    def _context(self, t: int) -> guard.Guarded:
        given = context_of(self.game, self.learner, t)
        return guard.Guarded.over(np.zeros(0) if given is None else given, "context")

    def _round(self, t: int) -> int:
        desk, context = self.desk, self._context(t - 1)
        desk.value = int(context[0]) if self.learner.values else 0
        for times in range(1, 10_000):
            action, probability = self.choose(
                *(desk, self.rule, self.params, self.blank, self.pool, self.marks, self.slab, self.contexts, context),
                *(*KEY, t, self.tally),
            )
            if action != NEEDED:
                break
            self.pool[desk.instance].predictions -= 1
            self.back(desk, self.marks)
            supply(self.learner, self.own[0], self.own[1][int(desk.instance)], times)
        entry = int(desk.free)
        letter, state = self.slab[entry], self.pool[desk.instance]
        desk.free, desk.outstanding = letter.next, desk.outstanding + 1
        letter.round, letter.action, letter.probability, letter.instance = t, action, probability, desk.instance
        letter.cancelled = 0
        if "number" in letter._row.dtype.names:
            letter.number = state.predictions
        if self.learner.memo:
            letter.memo[:] = state.memo
        letter.feedback[:] = feedback_of(self.game, self.learner, t - 1, int(action))
        if len(context):
            self.contexts[entry] = context
        return entry

    def _end(self, entry: int, lost: bool) -> None:
        desk, context = self.desk, self.contexts[entry]
        desk.outstanding -= 1
        given = (desk, self.rule, self.params, self.pool, self.marks, self.slab, self.contexts, context, entry)
        stays = self.release(*given, self.slab[entry].action) if lost else self.deliver(*given)
        if not stays:
            self.slab[entry].next = desk.free
            desk.free = entry
