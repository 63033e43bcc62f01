"""What comes first in a round: the side information, then what is announced, then the prediction, then the outcome."""

from dataclasses import dataclass

import numpy as np
import pytest

import belated as bl
from belated import checks
from belated.adapters.gymnasium import GameEnv

ROUNDS = 60


@dataclass(frozen=True)
class Herald(bl.Game):
    """Announces what it has just shown: memory holds the side information, the sum of what was replaced, the round."""

    actions: int = 3
    feedback = "bandit"
    comparator = "changing"
    announces = True
    context_size = 1

    def params(self):
        return np.array([float(self.actions)])

    def memory(self):
        return 3

    @staticmethod
    def observe(params, memory, k0, k1, round_, context):
        memory[0] = float(round_ * round_ % 7)
        memory[2] = round_
        context[0] = memory[0]

    @staticmethod
    def event(params, memory, k0, k1, round_):
        replaced = int(memory[0]) if memory[0] < params[0] else -1
        memory[1] += replaced * round_
        return replaced

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        # Nothing is paid where the side information of the round was not asked for.
        feedback[0] = float((round_ + action) % 2) if memory[2] == round_ else 0.0
        return feedback[0]

    @staticmethod
    def regret(params, memory):
        return memory[1]


@dataclass(frozen=True)
class Hasty(Herald):
    """Its broken twin: announces what was shown in the round before, as if it had been asked first."""

    @staticmethod
    def event(params, memory, k0, k1, round_):
        before = float((round_ - 1) * (round_ - 1) % 7)
        replaced = int(before) if before < params[0] else -1
        memory[1] += replaced * round_
        return replaced


def played(game, engine="compiled"):
    return bl.play(bl.Direct(bl.UCB1(3)), game, bl.delays.Constant(3), ROUNDS, record=True, engine=engine)


@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_the_side_information_comes_before_the_event(engine):
    shown = [t * t % 7 for t in range(1, ROUNDS + 1)]
    replaced = [t * (c if c < 3 else -1) for t, c in enumerate(shown, start=1)]
    assert played(Herald(), engine).regret[0, -1] == sum(replaced)
    assert played(Hasty(), engine).regret[0, -1] != sum(replaced), "the game makes the order visible"


def test_both_engines_play_it_alike():
    one, two = (played(Herald(), engine) for engine in ("compiled", "python"))
    assert np.array_equal(one.regret, two.regret) and np.array_equal(one.actions, two.actions)
    assert np.array_equal(one.dropped, two.dropped) and one.dropped.any()
    assert not np.array_equal(one.actions, played(Hasty()).actions)


def test_so_it_is_in_an_environment_of_gymnasium():
    env = GameEnv(Herald(), rounds=ROUNDS)
    _, info = env.reset(seed=0)
    told = [info["replaced"]]
    for _ in range(ROUNDS - 1):
        *_, info = env.step(0)
        told.append(info["replaced"])
    shown = [t * t % 7 for t in range(1, ROUNDS + 1)]
    assert told == [c if c < 3 else None for c in shown]


def test_the_checks_and_the_deal_ask_for_the_side_information_too():
    checks.check_game(Herald())
    dealt = bl.games.deal(Herald(), rounds=4)
    assert dealt.tolist() == [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]] * 2
