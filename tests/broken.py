"""One wrong object for each contract check: the check must fail on it, or it does not count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import belated as bl
from belated.kernels.compile import kernel
from belated.kernels.random import uniform
from belated.protocols import NEVER, Delays, Game, Learner


class Wrong(Learner):
    """A small learner that its subclasses spoil: follows the reward of the last feedback."""

    actions: int

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("last", "f8"), ("count", "i8")])

    def params(self) -> dict[str, Any]:
        return {"actions": self.actions, "hidden": np.zeros(1)}

    @staticmethod
    def predict(params, state, context, draw):
        return state.predictions % params.actions, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.last = feedback[0]


@dataclass
class Changeable(Wrong):
    """Not frozen."""

    actions: int
    __hash__ = object.__hash__


@dataclass(frozen=True)
class Boasts(Wrong):
    """Draws at random and says probability one."""

    actions: int

    @staticmethod
    def predict(params, state, context, draw):
        return int(uniform(draw, 0) * params.actions), 1.0


@dataclass(frozen=True)
class OutOfRange(Wrong):
    """Predicts action K now and then."""

    actions: int

    @staticmethod
    def predict(params, state, context, draw):
        return state.predictions % (params.actions + 1), 1.0


@dataclass(frozen=True)
class Hides(Wrong):
    """Keeps a count in what should be constant."""

    actions: int

    @staticmethod
    def predict(params, state, context, draw):
        params.hidden[0] += 1.0
        return int(params.hidden[0]) % params.actions, 1.0


@dataclass(frozen=True)
class NeedsAnswers(Wrong):
    """Loses its way when a round is skipped."""

    actions: int

    @staticmethod
    def predict(params, state, context, draw):
        state.count += 1
        return (0 if state.count == 1 else -1), 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.count = 0


@dataclass(frozen=True)
class Dissolves(Wrong):
    """inf - inf once a reward of 1 has come."""

    actions: int

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.last = math.inf * feedback[0] if feedback[0] > 0.0 else 0.0
        state.last = state.last - state.last


@dataclass(frozen=True)
class Fragile(Wrong):
    """Says that it tolerates no delay (and so must be refused by Direct)."""

    actions: int
    tolerates_delay = False


@kernel
def age(state):
    return float(state.answering)


@dataclass(frozen=True)
class Peeks(Wrong):
    """Reads the number of the prediction that it answers, in a kernel that it calls, and says that it does not."""

    reads_answering = False
    actions: int

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.last += feedback[0] / age(state)


@dataclass(frozen=True)
class Convex(Wrong):
    """A bound that grows faster and faster."""

    actions: int

    def bound(self, n: float) -> float:
        return n * n


@dataclass(frozen=True)
class Remembers(bl.UCB1):
    """Forgets nothing of an action that is replaced."""

    @staticmethod
    def replace(params, state, action):
        state.predicted[action] = 0


@dataclass(frozen=True)
class StartsAnew(bl.RoundRobin):
    """Forgets how often it has predicted when an action is replaced."""

    @staticmethod
    def replace(params, state, action):
        state.predictions = 0


@dataclass(frozen=True)
class Muddles(Wrong):
    """Says that it can grow, and keeps counts behind sums: where they lie depends on the number of actions."""

    actions: int
    can_grow = True

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("sums", "f8", (2 * self.actions,))])

    @staticmethod
    def predict(params, state, context, draw):
        best = 0
        for i in range(params.actions):
            count, most = state.sums[params.actions + i], state.sums[params.actions + best]
            if count == 0.0 or (most > 0.0 and state.sums[i] / count > state.sums[best] / most):
                best = i
        return best, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.sums[action] += feedback[0]
        state.sums[params.actions + action] += 1.0

    @staticmethod
    def replace(params, state, action):
        state.sums[action] = 0.0
        state.sums[params.actions + action] = 0.0


@dataclass(frozen=True)
class Loosens(bl.KLUCB):
    """Has another constant once it has grown."""

    def with_actions(self, actions: int) -> bl.KLUCB:
        return bl.KLUCB(actions, self.c / 3.0 if actions > 3 else self.c)


@dataclass(frozen=True)
class GrowsTwice(bl.UCB1):
    """Gets two actions for one."""

    def with_actions(self, actions: int) -> bl.UCB1:
        return bl.UCB1(2 * actions)


class LearnsTooLate(bl.Direct):
    """Learns from feedback for an action that was replaced (in Python)."""

    def replace(self, action: int) -> None:
        super().replace(action)
        self._room.stale.clear()


class Tolerant(bl.Direct):
    """A Direct that refuses nobody."""

    def check(self, learner: Any) -> None:
        pass


class Skips(bl.Direct):
    """Asks the learner twice for each prediction."""

    def choose(self, room: Any, context: Any) -> Any:
        room.seat().ask(context)
        return super().choose(room, context)


class Shares(bl.BOLD):
    """All instances are one."""

    def choose(self, room: Any, context: Any) -> Any:
        seat = room.lowest_free()
        seat.learner = room.seat(0).learner
        return seat, *seat.ask(context)


class OtherKernels(bl.Direct):
    """A compiled form that forgets every third feedback."""

    def kernels(self, parts: Any) -> Any:
        answer = parts.answer

        def deliver(desk, rule, params, pool, marks, slab, contexts, context, entry):
            letter = slab[entry]
            if letter.round % 3:
                answer(params, pool[0], context, letter)
            return False

        return super().kernels(parts)._replace(deliver=kernel(deliver))


class Forgets(bl.BOLD):
    """Saves everything but the open tickets."""

    def to_bytes(self) -> bytes:
        kept = dict(self._room.pending)
        self._room.pending.clear()
        try:
            return super().to_bytes()
        finally:
            self._room.pending.update(kept)


@dataclass(frozen=True)
class WrongGame(Game):
    """A fair game for its subclasses to spoil."""

    feedback = "bandit"
    count: int = 2

    @property
    def actions(self) -> int:
        return self.count

    def params(self) -> Any:
        return np.zeros(1)

    def memory(self) -> int:
        return 1

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        feedback[0] = float((round_ + action) % 2)
        return feedback[0]

    @staticmethod
    def regret(params, memory):
        return memory[0]


@dataclass(frozen=True)
class Generous(WrongGame):
    """Rewards of 2."""

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        feedback[0] = 2.0
        return 2.0


@dataclass(frozen=True)
class CountsCents(WrongGame):
    """Regret in another unit than its scale says."""

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        feedback[0] = float((round_ + action) % 2)
        memory[0] += 100.0
        return feedback[0]


@dataclass(frozen=True)
class Reacts(WrongGame):
    """Pays an action only if it was not played before: not oblivious."""

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        feedback[0] = 1.0 if memory[0] != action else 0.0
        memory[0] = action
        return feedback[0]


@dataclass(frozen=True)
class Surprises(WrongGame):
    """Pays by what was announced."""

    announces = True

    @staticmethod
    def event(params, memory, k0, k1, round_):
        memory[0] = round_
        return -1

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        feedback[0] = 1.0 if memory[0] == 0.0 else 0.0
        return feedback[0]


@dataclass(frozen=True)
class Wanders(WrongGame):
    """Pays by how often it was asked, and says that it may be asked for any round."""

    any_round = True

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        memory[0] += 1.0
        feedback[0] = 1.0 if memory[0] % 5 == 0 else 0.0
        return feedback[0]


@dataclass(frozen=True)
class Overreaches(WrongGame):
    """Replaces an action that does not exist."""

    announces = True

    @staticmethod
    def event(params, memory, k0, k1, round_):
        return 2 if round_ == 3 else -1


@dataclass(frozen=True)
class Loses(WrongGame):
    """Does not come back from JSON: a field that is not what it was given."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", self.count + 1)


@dataclass(frozen=True)
class WrongLaw(Delays):
    """A fixed delay of one, for its subclasses to spoil."""

    d: int = 1

    def params(self) -> Any:
        return np.zeros(1)

    @property
    def kernel(self) -> Any:
        return one


def one(params, k0, k1, round_, action):
    return 1


@kernel
def mostly_one(params, k0, k1, round_, action):
    return NEVER if round_ % 100 == 0 else 1


def negative(params, k0, k1, round_, action):
    return -1


class Early(WrongLaw):
    """Negative delays."""

    @property
    def kernel(self) -> Any:
        return negative


class TooLate(WrongLaw):
    """Above its stated maximum."""

    maximum = 0


class Misstates(WrongLaw):
    """A mean that is not its mean."""

    mean = 3.0


class Exaggerates(WrongLaw):
    """An infinite mean, though every delay is one."""

    mean = np.inf


class Contradicts(Exaggerates):
    """An infinite mean, and a largest delay."""

    maximum = 10**6


class Understates(WrongLaw):
    """A finite mean, though some feedback never comes."""

    mean = 1.0

    @property
    def kernel(self) -> Any:
        return mostly_one
