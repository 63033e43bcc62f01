"""Learners, games and laws that ask for more than a reward: one for each thing that a learner may ask for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import belated as bl
from belated.kernels.compile import kernel
from belated.kernels.random import delay_draw, outcome_draw, uniform
from belated.protocols import NEEDED, Delays, Game, Learner

#: Entries of a diary; what is beyond is not written.
PAGES = 1000


@kernel
def note(state, what, number):
    """Remember what happened, so that what is played later depends on it."""
    state.digest = (state.digest * 31 + what * 7 + number) % 1_000_003


@dataclass(frozen=True)
class Diary(Learner):
    """Writes down what it finds: `open` at each prediction, which predictions end, how, and with whose memo."""

    actions: int = 3
    feedback = "full"
    memo = 3
    counts_open = True

    def layout(self) -> np.dtype[Any]:
        pages = [(name, "i8", (PAGES,)) for name in ("opened", "told", "lost", "without")]
        return np.dtype([*pages, ("answers", "i8"), ("losses", "i8"), ("wrong", "i8"), ("digest", "i8")])

    def params(self) -> dict[str, Any]:
        return {"actions": self.actions}

    @staticmethod
    def predict(params, state, context, draw):
        if state.predictions < PAGES:
            state.opened[state.predictions] = state.open
        note(state, 1, state.open)
        action = (state.digest + int(uniform(draw, 0) * params.actions)) % params.actions
        state.memo[0] = state.predictions
        state.memo[1] = state.digest  # depends on all that it was told before
        state.memo[2] = action
        return action, 1.0 / params.actions

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        if state.answers < PAGES:
            state.told[state.answers] = state.answering
        state.answers += 1
        state.wrong += int(state.memo[0] != state.answering or state.memo[2] != action)
        note(state, 2, state.answering + int(state.memo[1]) + int(100.0 * feedback[0]))

    @staticmethod
    def lost(params, state, context, action, probability):
        if state.losses < PAGES:
            state.lost[state.losses] = state.answering
            state.without[state.losses] = action
        state.losses += 1
        state.wrong += int(state.memo[0] != state.answering or (action >= 0 and state.memo[2] != action))
        note(state, 3, state.answering + int(state.memo[1]) + action)


@dataclass(frozen=True)
class BanditDiary(Diary):
    """The same with one reward, and actions that can be replaced."""

    feedback = "bandit"

    @staticmethod
    def replace(params, state, action):
        state.digest = action  # all else is forgotten


@dataclass(frozen=True)
class OrderedDiary(Diary):
    """The same, told in order."""

    in_order = True


@dataclass(frozen=True)
class PlainDiary(Diary):
    """The same without a memo, with one reward."""

    feedback = "bandit"
    memo = 0

    @staticmethod
    def predict(params, state, context, draw):
        if state.predictions < PAGES:
            state.opened[state.predictions] = state.open
        note(state, 1, state.open)
        return state.digest % params.actions, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        note(state, 2, state.answering + int(100.0 * feedback[0]))

    @staticmethod
    def lost(params, state, context, action, probability):
        note(state, 3, state.answering + action)


@dataclass(frozen=True)
class Recalls(Learner):
    """As a diary, for a copy of `PerContext`: knows the prediction that ends by its memo alone."""

    actions: int = 3
    feedback = "full"
    memo = 2
    counts_open = True
    reads_answering = False

    def layout(self) -> np.dtype[Any]:
        return np.dtype([(name, "i8") for name in ("wrong", "ended", "below", "most", "digest")])

    def params(self) -> dict[str, Any]:
        return {"actions": self.actions}

    @staticmethod
    def predict(params, state, context, draw):
        state.most = max(state.most, state.open)
        note(state, 1, state.open)
        state.memo[0] = (state.digest + int(uniform(draw, 0) * params.actions)) % params.actions
        state.memo[1] = state.digest
        return int(state.memo[0]), 1.0 / params.actions

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.below = min(state.below, state.open)
        state.wrong += int(state.memo[0] != action)
        state.ended += 1
        note(state, 2, int(state.memo[1]) + int(100.0 * feedback[0]))

    @staticmethod
    def lost(params, state, context, action, probability):
        state.wrong += int(action >= 0 and state.memo[0] != action)
        state.ended += 1
        note(state, 3, int(state.memo[1]) + action)


@dataclass(frozen=True)
class OrderedRecalls(Recalls):
    """The same, told in order."""

    in_order = True


@dataclass(frozen=True)
class Needs(Learner):
    """Counts what is open, and now and then needs something first."""

    actions: int = 3
    feedback = "full"
    counts_open = True

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("digest", "i8"), ("below", "i8")])

    def params(self) -> dict[str, Any]:
        return {"actions": self.actions, "have": 0}

    @staticmethod
    def predict(params, state, context, draw):
        if params.have < state.predictions:
            return NEEDED, 1.0
        note(state, 1, state.open)
        return state.digest % params.actions, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.below = min(state.below, state.open)
        note(state, 2, state.answering)

    def supply(self, params: Any, state: Any) -> None:
        params["have"] = state["predictions"] + 5


@dataclass(frozen=True)
class Descends(Learner):
    """Gradient descent in [0, 1]^size with step `rate` / sqrt(t): its point is its whole memo."""

    size: int = 3
    rate: float = 0.5
    actions = 1
    feedback = "gradient"
    smallest = -math.inf
    largest = math.inf

    @property
    def memo(self) -> int:  # type: ignore[override]
        return self.size

    @property
    def point_size(self) -> int:  # type: ignore[override]
        return self.size

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("point", "f8", (self.size,))])

    def params(self) -> dict[str, Any]:
        return {"rate": self.rate}

    @staticmethod
    def predict(params, state, context, draw):
        for i in range(len(state.point)):
            state.memo[i] = state.point[i]
        return 0, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        step = params.rate / math.sqrt(float(state.answering))
        for i in range(len(state.point)):
            state.point[i] = min(max(state.point[i] - step * feedback[i], 0.0), 1.0)

    def bound(self, n: float) -> float:
        """3/2 D G sqrt(n) with the step D / (G sqrt t): D^2 = size, and G = 2 / sqrt(size) in `Targets`."""
        return 3.0 * math.sqrt(n)


@dataclass(frozen=True)
class Targets(Game):
    """The loss of x in round t is |x - b_t|^2 / size, b_t uniform in [0, 1]^size; regret against the best fixed x."""

    size: int = 3
    actions = 1
    feedback = "gradient"
    smallest = -math.inf
    largest = math.inf
    comparator = "action"

    @property
    def point_size(self) -> int:  # type: ignore[override]
        return self.size

    def params(self) -> Any:
        return np.array([float(self.size)])

    def memory(self) -> int:
        return 3 + self.size

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        size = int(params[0])
        draw = outcome_draw(k0, k1, round_, 0)
        loss = 0.0
        for i in range(size):
            target = uniform(draw, i)
            away = feedback[i] - target
            loss += away * away / size
            memory[2] += target * target
            memory[3 + i] += target
            feedback[i] = 2.0 * away / size
        memory[0] += loss
        memory[1] += 1.0
        return -loss

    @staticmethod
    def regret(params, memory):
        """Against the mean of the b_t, which loses (sum |b|^2 - |sum b|^2 / n) / size."""
        squares = 0.0
        for i in range(int(params[0])):
            squares += memory[3 + i] * memory[3 + i]
        return memory[0] - (memory[2] - squares / memory[1]) / params[0]


@dataclass(frozen=True)
class Wide(bl.EpsilonGreedy):
    """Takes rewards from 0 to 10."""

    largest = 10.0


@dataclass(frozen=True)
class Prices(Game):
    """Rewards from 0 to `top`."""

    top: float = 10.0
    actions = 2
    feedback = "bandit"

    @property
    def largest(self) -> float:  # type: ignore[override]
        return self.top

    @property
    def scale(self) -> float:  # type: ignore[override]
        return self.top

    def params(self) -> Any:
        return np.array([self.top])

    def memory(self) -> int:
        return 1

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        feedback[0] = params[0] * uniform(outcome_draw(k0, k1, round_, action), 0) * (1.0 + action) / 2.0
        memory[0] += (1.0 - action) * params[0] / 4.0
        return feedback[0]

    @staticmethod
    def regret(params, memory):
        return memory[0]


@dataclass(frozen=True)
class Lift(Game):
    """A course that is decided by what is played: action 0 climbs, action 1 pays by the height and falls to the ground.

    The height is the side information.
    """

    actions = 2
    feedback = "bandit"
    reactive: bool = True
    context_size = 1

    def params(self) -> Any:
        return np.zeros(1)

    def memory(self) -> int:
        return 2

    @staticmethod
    def observe(params, memory, k0, k1, round_, context):
        context[0] = memory[0]

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        feedback[0] = 0.0
        if action == 1:
            feedback[0] = min(memory[0] / 5.0, 1.0)
            memory[0] = 0.0
        else:
            memory[0] += 1.0
        memory[1] += 1.0 - feedback[0]
        return feedback[0]

    @staticmethod
    def regret(params, memory):
        return memory[1]


@dataclass(frozen=True)
class GoodNewsLast(Delays):
    """Rewards above 1/2 come `d` rounds later, others within `d` rounds."""

    d: int = 20
    depends_on_reward = True
    iid = False

    def params(self) -> Any:
        return np.array([float(self.d)])

    @property
    def kernel(self) -> Any:
        return good_news_last


@kernel
def good_news_last(params, k0, k1, round_, action, reward):
    if reward > 0.5:
        return int(params[0])
    return int(params[0] * uniform(delay_draw(k0, k1, round_, action), 0))
