"""One wrong object for each check of what learners ask for and are promised."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import belated as bl
from belated.checks import bounds, environment, learner, promises
from belated.kernels.compile import kernel
from belated.kernels.random import uniform
from belated.protocols import Delays
from tests import ticket_learners as own

# --- learners ---


@dataclass(frozen=True)
class AddsToItsMemo(own.BanditDiary):
    """Counts in its memo: under delay there is another prediction's."""

    @staticmethod
    def predict(params, state, context, draw):
        state.memo[0] += 1.0
        return int(state.memo[0]) % params.actions, 1.0


@dataclass(frozen=True)
class KeepsMore(bl.UCB1):
    """Learns from what it says that it has forgotten."""

    keeps = 5


@dataclass(frozen=True)
class LeavesTheMemo(own.BanditDiary):
    """Writes a part of its memo only."""

    @staticmethod
    def predict(params, state, context, draw):
        state.memo[0] = state.predictions
        return 0, 1.0


@dataclass(frozen=True)
class CountsItself(own.BanditDiary):
    """Counts down what is open, which is done already."""

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.open -= 1


@dataclass(frozen=True)
class ForgetsLosses(own.BanditDiary):
    """Counts what is lost as open still."""

    @staticmethod
    def lost(params, state, context, action, probability):
        state.open += 1


@dataclass(frozen=True)
class TurnsBack(own.BanditDiary):
    """Starts its clock anew."""

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        if state.predictions == 50:
            state.predictions = 0


@dataclass(frozen=True)
class TrustsTheAction(own.BanditDiary):
    """Takes the action of what is lost for the number of an action: it is -1 where that was replaced."""

    def layout(self) -> np.dtype[Any]:
        return np.dtype([*super().layout().descr, ("missed", "i8", (self.actions,))])

    @staticmethod
    def lost(params, state, context, action, probability):
        state.missed[action] += 1


@dataclass(frozen=True)
class FliesOff(own.Descends):
    """Divides by a number that becomes zero."""

    @staticmethod
    def predict(params, state, context, draw):
        for i in range(len(state.memo)):
            state.memo[i] = math.inf if state.predictions > 9 else 0.0
        return 0, 1.0


@dataclass(frozen=True)
class SaysHalf(own.Descends):
    """States a probability for its point."""

    @staticmethod
    def predict(params, state, context, draw):
        for i in range(len(state.memo)):
            state.memo[i] = 0.0
        return 0, 0.5


@dataclass(frozen=True)
class ConvexInTotal(bl.DelayedHedge):
    """A bound under delay to which Jensen does not apply."""

    def bound_under_delay(self, n: int, total: float) -> float:
        return n + total * total


@dataclass(frozen=True)
class FallsInTotal(bl.DelayedHedge):
    """A bound that is smaller the more is outstanding."""

    def bound_under_delay(self, n: int, total: float) -> float:
        return n + 1e6 - total


@dataclass(frozen=True)
class WeighsSecretly(own.BanditDiary):
    """Uses the probability of a prediction, and does not say so."""

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.digest = int(1000.0 * probability)


class WeighsSeldom(WeighsSecretly):
    """Does so now and then only."""

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        if state.predictions % 7 == 3 and action == 1:
            state.digest = int(1000.0 * probability)


@dataclass(frozen=True)
class DrawsByReaders(bl.Uniform):
    """Plays otherwise where nobody reads its probabilities."""

    @staticmethod
    def predict(params, state, context, draw):
        return 0 if params.unread else int(3.0 * uniform(draw, 0)), 1.0 / 3.0


# --- forecasters ---


class AnswersTheLast(bl.Direct):
    """Tells of the last prediction, whichever is answered."""

    def deliver(self, room: Any, letter: Any, feedback: Any) -> None:
        room.seat().tell(letter.context, letter.action, letter.probability, feedback)


class CompiledWithoutMemo(bl.Direct):
    """A compiled form that leaves the memo of the last prediction."""

    def kernels(self, parts: Any) -> Any:
        tell = parts.tell

        def deliver(desk, rule, params, pool, marks, slab, contexts, context, entry):
            letter = slab[entry]
            tell(params, pool[0], context, letter.round, letter.action, letter.probability, letter.feedback)
            return False

        return super().kernels(parts)._replace(deliver=kernel(deliver))


class Silent(bl.Direct):
    """Does not tell of what is lost."""

    def release(self, room: Any, letter: Any) -> None:
        pass


class TellsTwice(bl.Direct):
    """Tells of feedback, and that it is lost."""

    def deliver(self, room: Any, letter: Any, feedback: Any) -> None:
        super().deliver(room, letter, feedback)
        room.seat().lost(letter)


class Hasty(bl.Direct):
    """Tells as it comes, whatever the learner asked for."""

    in_order = False  # type: ignore[assignment]


# --- games and laws ---


@dataclass(frozen=True)
class SecretLift(own.Lift):
    """Does not say that its course depends on what is played."""

    reactive: bool = False


@dataclass(frozen=True)
class SecretSight(SecretLift):
    """Only its side information does."""

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        feedback[0] = 0.5
        memory[0] += action
        return feedback[0]


@dataclass(frozen=True)
class Drags(own.Targets):
    """A game of points whose losses depend on the point before."""

    def memory(self) -> int:
        return 4 + self.size

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        loss = feedback[0] * memory[0]
        memory[0] = feedback[0]
        memory[1] += 1.0
        for i in range(int(params[0])):
            feedback[i] = 1.0
        return -loss


@dataclass(frozen=True)
class Steep(own.Targets):
    """Gradients that are not finite."""

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        memory[1] += 1.0
        for i in range(int(params[0])):
            feedback[i] = math.inf
        return 0.0


@dataclass(frozen=True)
class Overpays(own.Prices):
    """Pays more than it says."""

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        feedback[0] = params[0] + 1.0
        return feedback[0]


@dataclass(frozen=True)
class BeforeTheReward(own.GoodNewsLast):
    """A delay below 0 for a large reward."""

    @property
    def kernel(self) -> Any:
        return before_the_reward


@kernel
def before_the_reward(params, k0, k1, round_, action, reward):
    return 3 - int(5.0 * reward)


@dataclass(frozen=True)
class BeyondItsMaximum(own.GoodNewsLast):
    """Large rewards come later than it says."""

    maximum = 19


@dataclass(frozen=True)
class SecretlyByReward(Delays):
    """Takes the reward, and does not say so."""

    def params(self) -> Any:
        return np.array([20.0])

    @property
    def kernel(self) -> Any:
        return own.good_news_last


HEDGE = bl.DelayedHedge(3)
#: Each check with what it must fail on.
TWINS = [
    (learner.says_whether_it_weighs, WeighsSecretly()),
    (learner.says_whether_it_weighs, WeighsSeldom()),
    (promises.spares_only_the_probability, DrawsByReaders(3)),
    (promises.writes_its_memo_anew, AddsToItsMemo()),
    (promises.writes_its_memo_anew, LeavesTheMemo()),
    (promises.forgets_when_it_says, KeepsMore(3)),
    (promises.leaves_the_counts_alone, CountsItself()),
    (promises.leaves_the_counts_alone, ForgetsLosses()),
    (promises.leaves_the_counts_alone, TurnsBack()),
    (bounds.stays_in_its_arrays, TrustsTheAction()),
    (promises.plays_points, FliesOff()),
    (promises.plays_points, SaysHalf()),
    (promises.bound_under_delay_is_a_bound, ConvexInTotal(3)),
    (promises.bound_under_delay_is_a_bound, FallsInTotal(3)),
    (promises.gives_back_the_memo, AnswersTheLast(HEDGE)),
    (promises.gives_back_the_memo, CompiledWithoutMemo(HEDGE)),
    (promises.ends_every_prediction, Silent(HEDGE)),
    (promises.ends_every_prediction, TellsTwice(HEDGE)),
    (promises.keeps_the_order, Hasty(HEDGE)),
    (environment.outcomes_ignore_play, SecretLift()),
    (environment.outcomes_ignore_play, SecretSight()),
    (environment.outcomes_ignore_play, Drags()),
    (environment.rewards_are_in_range, Steep()),
    (environment.rewards_are_in_range, Overpays()),
    (environment.delays_are_delays, BeforeTheReward()),
    (environment.delays_are_delays, BeyondItsMaximum()),
    (bounds.keeps_to_the_rules, SecretlyByReward()),
]
