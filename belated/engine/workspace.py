"""The memory of one worker, and the call that drives the compiled loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.engine import loop
from belated.engine import round as rounds
from belated.engine.lanes import LANES_BYTES, Lane, check_ring
from belated.engine.records import CREW, POOL, SUMMARY, TALLY
from belated.engine.views import Arrays, Asked, Fixed, Played, Written, address_table
from belated.errors import BadKernel, BadPrediction, InvalidArgument, InvalidFeedback
from belated.forecasters import Forecaster
from belated.forecasters.base import check_one_hot
from belated.forecasters.instance import parts_of, supply
from belated.forecasters.room import Kernels
from belated.kernels import pointers, states
from belated.kernels.compile import COMPILED, address
from belated.kernels.random import seed_words
from belated.protocols import NEVER, Delays, Game, Learner

#: The loop comes back to Python about this often, in seconds.
CHUNK = 0.05
#: Rounds of all replications from which on it pays to compile a loop for constant delays, which is quicker.
LONG = 1_000_000
#: Rounds of the first chunk, before its speed is known.
FIRST_CHUNK = 20_000 if COMPILED else 100


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
        whole = states.records(TALLY, replications * width).reshape(replications, width)
        return cls(
            whole=whole,
            tally=whole[:, :actions],
            groups=whole[:, actions:].reshape(replications, values, actions),
            pools=states.records(POOL, replications * values).reshape(replications, values),
            summary=states.records(SUMMARY, replications),
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

    def __init__(self, setting: Setting, tables: Tables, lanes: int = 1) -> None:
        learner = setting.forecaster.learner
        assert isinstance(learner, Learner)
        self._setting = setting
        self._tables = tables
        rule, game, law = setting.forecaster, setting.game, setting.delays
        in_turn = ring_of(setting, len(tables.regret))
        self._loop = loop_of(rule, game) if in_turn < 0 else loop.make_loop(kernels_of(rule), lean_shape(setting))
        self._lanes = [Lane(setting, in_turn=in_turn) for _ in range(lanes)]
        self._crew = states.records(CREW, 1)
        self._order = np.arange(lanes)
        self._budget = max(1, FIRST_CHUNK // learner.actions)
        self._asked = asked_of(setting)
        fill = pointers.law_filler(law.kernel, law.depends_on_reward)
        played = Played(
            address(game.outcome, pointers.OUTCOME_SIGNATURE),
            address(game.regret, pointers.REGRET_SIGNATURE),
            game.params(),
            bool(game.announces),
            address(game.event, pointers.EVENT_SIGNATURE) if game.announces else 0,
            address(pointers.observer(game.observe), pointers.OBSERVE_SIGNATURE) if game.context_size else 0,
            address(fill, pointers.LAW_SIGNATURE),
            law.params(),
        )
        kept = (tables.actions, tables.points, tables.delays, tables.probabilities)
        written = Written(tables.whole, tables.pools, tables.summary, tables.regret, setting.checkpoints, *kept)
        self._shared = (seed_words(setting.seed), fixed_of(setting, in_turn), self._asked, played, written)
        self._look()

    def _look(self) -> None:
        """Where the arrays of the lanes are now."""
        arrays = [lane.arrays for lane in self._lanes]
        self._addresses, self._like = address_table(arrays), arrays[0]

    def run(self, first: int, last: int, tick: Callable[[int], bool]) -> None:
        """Play replications first..last-1. `tick(rounds)` is told of progress; when it says False, stop."""
        crew = self._crew[0]
        crew["next"], crew["last"], crew["playing"], crew["at"] = first, last, 0, 0
        crew["lanes"] = len(self._lanes)
        seen = 0
        refused: Exception | None = None
        while True:
            began = time.perf_counter()
            mine = (self._crew, self._order, self._addresses, self._like)
            reason = int(self._loop(self._budget, *mine, *self._shared))
            elapsed = time.perf_counter() - began
            for lane in self._lanes:
                check_ring(lane.arrays.marks, self._setting.forecaster)
            if reason == rounds.BUDGET and elapsed > 0:
                self._budget = int(min(max(self._budget * CHUNK / elapsed, 100), 4 * self._budget))
            done = self._done(first)
            if not tick(done - seen):
                return
            seen = done
            if reason == rounds.DONE:
                break
            if reason != rounds.BUDGET:
                lane = self._lanes[self._order[crew["at"]]]
                try:
                    self._serve(reason, lane)
                except Exception as error:
                    refused = error
                    self._dismiss(int(lane.desk["replication"]))
        if refused is not None:
            raise refused

    def _done(self, first: int) -> int:
        """Rounds that were played so far."""
        crew = self._crew[0]
        playing = self._order[: crew["playing"]]
        finished = int(crew["next"]) - first - len(playing)
        return finished * self._setting.rounds + sum(int(self._lanes[i].desk["round"]) for i in playing)

    def _serve(self, reason: int, lane: Lane) -> None:
        """Do what a lane needs before it can go on."""
        if reason == rounds.MAILBOX_FULL:
            lane.grow_mailbox()
        elif reason == rounds.POOL_FULL:
            lane.grow_pool()
        elif reason == rounds.SUPPLY:
            self._supply(lane)
            return
        else:
            refuse(self._setting, reason, lane.arrays)
        self._look()
        # Lanes that have grown too large for each other's company take no new replications.
        crew = self._crew[0]
        crew["lanes"] = min(int(crew["lanes"]), max(1, LANES_BYTES // lane.size))

    def _dismiss(self, refused: int) -> None:
        """Of several replications that cannot go on people hear of the first: those before it play on."""
        crew = self._crew[0]
        playing = [int(i) for i in self._order[: crew["playing"]]]
        going = [i for i in playing if self._lanes[i].desk["replication"] < refused]
        others = [i for i in range(len(self._lanes)) if i not in going]
        self._order[:] = going + others
        crew["playing"], crew["at"], crew["last"] = len(going), 0, crew["next"]

    def _supply(self, lane: Lane) -> None:
        """The learner cannot predict without something that Python must compute."""
        desk = lane.desk
        state = lane.arrays.pool[int(desk["instance"])]
        asking = int(desk["replication"]), int(desk["instance"]), int(state["predictions"])
        lane.asked = (asking, lane.asked[1] + 1 if lane.asked[0] == asking else 1)
        learner = self._setting.forecaster.learner
        assert isinstance(learner, Learner)
        supply(learner, self._asked.params, state, lane.asked[1])


def fixed_of(setting: Setting, delay: int = -1) -> Fixed:
    """What a play is set to; with the delay of all rounds, where letters wait in a ring."""
    rule, law = setting.forecaster, setting.delays
    learner = rule.learner
    assert isinstance(learner, Learner)
    taken = (float(learner.smallest), float(learner.largest))
    return Fixed(
        setting.rounds,
        setting.expiry,
        float(rule.scaled(setting.default or 0.0)),
        setting.default is not None,
        law.depends_on_action or law.depends_on_reward,
        *setting.feedback_range,
        setting.context_limit,
        *(rule.reward_range or taken, taken),
        setting.record,
        rounds.FAR,
        delay,
    )


def asked_of(setting: Setting) -> Asked:
    """Who is asked."""
    rule, learner = setting.forecaster, setting.forecaster.learner
    assert isinstance(learner, Learner)
    asked = Asked(states.as_record(rule.params()), states.params(learner), states.blank(learner))
    asked.params["unread"] = not (setting.record or learner.weighs or rule.reads_probability)
    return asked


def refuse(setting: Setting, reason: int, arrays: Arrays) -> None:
    """Raise what is wrong with the round of a lane."""
    desk = arrays.desk[0]
    where = f"in round {int(desk['round']) + 1} of replication {int(desk['replication'])}"
    if reason == rounds.BAD_DELAY:
        raise InvalidArgument(f"{setting.delays!r} gave a delay below 0, {where}")
    if reason == rounds.BAD_FEEDBACK:
        check_told(setting, arrays.feedback[: setting.game.feedback_size], where)
    if reason == rounds.BAD_CONTEXT:
        raise bad_context(setting, arrays.context, where)
    if reason == rounds.BAD_POINT:
        point = arrays.feedback[: setting.game.point_size].tolist()
        learner = setting.forecaster.learner
        raise BadPrediction(f"{learner!r} chose the point {point}, which is not finite, {where}")
    action, top = int(desk["action"]), setting.game.actions - 1
    if reason == rounds.BAD_KEEPING:
        raise BadKernel(f"{setting.forecaster!r}: `deliver` keeps an entry, though keeps_letters is False, {where}")
    if reason == rounds.BAD_EVENT:
        raise InvalidArgument(f"{setting.game!r} replaced action {action}, outside 0..{top}, {where}")
    if not 0 <= action <= top:
        raise BadPrediction(f"{setting.forecaster!r}: the learner chose action {action}, outside 0..{top}, {where}")
    chance = float(desk["probability"])
    raise BadPrediction(f"{setting.forecaster!r}: the learner gave probability {chance}, outside (0, 1], {where}")


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
    kernels = kernels_of(rule)
    assert kernels is not None
    return loop.make_loop(kernels, shape_of(rule, game))


def shape_of(rule: Forecaster, game: Game) -> rounds.Shape:
    """What such a loop does beside the kernels."""
    learner = rule.learner
    assert isinstance(learner, Learner)
    maps = rule.reward_range is not None
    asked = learner.values, learner.memo, learner.point_size
    says = maps, rule.numbers_letters, learner.one_hot, learner.weighs
    return rounds.Shape(rule.grows, game.context_size > 0, *asked, *says)


def lean_shape(setting: Setting) -> rounds.Shape:
    """The same without what cannot happen in this play."""
    learner, rule, law = setting.forecaster.learner, setting.forecaster, setting.delays
    assert isinstance(learner, Learner)
    return shape_of(rule, setting.game)._replace(
        ends=setting.expiry < NEVER,
        announces=bool(setting.game.announces),
        records=setting.record,
        states=setting.record or learner.weighs or rule.reads_probability,
        looks=law.depends_on_action or law.depends_on_reward,
        several=rule.grows or rule.seats > 1 or wait_of(setting) < 0,
        in_turn=wait_of(setting) >= 0,
    )


def wait_of(setting: Setting) -> int:
    """How many rounds all feedback waits, if it is as many for all of it and nobody keeps it longer; else -1."""
    law = setting.delays
    if not law.constant or setting.forecaster.keeps_letters or law.maximum is None or law.maximum >= NEVER:
        return -1
    return int(min(law.maximum, setting.expiry))


def ring_of(setting: Setting, replications: int) -> int:
    """The same where the loop for it is worth its compilation. A pair has one more: for plays without anything else."""
    plain = setting.expiry == NEVER and not setting.record and not setting.game.announces
    return wait_of(setting) if plain and setting.rounds * replications >= LONG else -1
