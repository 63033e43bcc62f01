"""What games, laws and learners of somebody's own state of themselves: nonsense is refused by name."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

import belated as bl
from belated.checks import CheckFailed, check_delays, check_game, environment
from belated.checks.bounds import stays_in_its_arrays
from belated.checks.learner import is_a_spec
from belated.errors import BadKernel, InvalidArgument
from belated.kernels.random import outcome_draw, uniform


@dataclass(frozen=True)
class Coin(bl.Game):
    """One action pays 1 by a coin, the other always 1/2."""

    chance: float = 0.8
    actions = 2
    feedback = "bandit"
    comparator = "action"
    stochastic = True

    @property
    def means(self):
        return (self.chance, 0.5)

    def params(self):
        return np.array([self.chance, 0.5])

    def memory(self):
        return 2

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        memory[action] += 1.0
        coin = 1.0 if uniform(outcome_draw(k0, k1, round_, 0), 0) < params[0] else 0.0
        feedback[0] = coin if action == 0 else 0.5
        return feedback[0]

    @staticmethod
    def regret(params, memory):
        return (max(params[0], params[1]) - params[0]) * memory[0] + (max(params[0], params[1]) - params[1]) * memory[1]


def also(**stated):
    """The same game, with something else stated."""
    return type("Stated", (Coin,), stated)()


REFUSED = [
    ({"actions": None}, "actions of Stated must be a whole number, got None"),
    ({"feedback": "bandt"}, "feedback of Stated must be one of bandit, full, symbol, gradient, got 'bandt'"),
    (
        {"comparator": "acton"},
        "comparator of .* must be one of action, expert, map, policy, truth, .*, got 'acton'",
    ),
    ({"smallest": 1.0, "largest": 0.0}, "smallest of Stated is 1.0, above largest, 0.0"),
    ({"smallest": "a"}, "smallest of Stated is 'a', above largest"),
    ({"scale": -1}, "scale of Stated must be >= 0, got -1"),
    ({"means": (0.8, 0.5, 0.2)}, "means of Stated must be 2 finite numbers"),
    ({"means": (0.8, float("nan"))}, "means of Stated must be 2 finite numbers"),
    ({"means": "ab"}, "means of Stated must be 2 finite numbers, one an action, got 'ab'"),
    ({"memory": lambda self: -2}, r"memory\(\) of Stated must be >= 0, got -2"),
    ({"params": lambda self: [1, 2]}, r"params\(\) of Stated must be one flat vector of float64, got \[1, 2\]"),
    ({"params": lambda self: np.ones((2, 2))}, r"got float64 of shape \(2, 2\)"),
    ({"params": lambda self: np.ones(2, int)}, r"got int64 of shape \(2,\)"),
    ({"outcome": None}, "outcome of Stated must be a kernel, got None"),
]


@pytest.mark.parametrize(("stated", "says"), REFUSED, ids=lambda x: "".join(x) if isinstance(x, dict) else None)
def test_a_game_that_states_nonsense_is_refused(stated, says):
    game = also(**stated)
    with pytest.raises(CheckFailed, match=says):
        check_game(game)
    with pytest.raises(InvalidArgument, match=says):
        bl.play(bl.QPMD(bl.UCB1(2)), game, bl.delays.Constant(1), rounds=10, engine="python")


def test_means_are_stated_and_true():
    environment.means_are_the_means(Coin())
    with pytest.raises(CheckFailed, match=r"action 0: mean 0.1 is stated, 0.7.* is paid in 2000 rounds"):
        environment.means_are_the_means(also(means=(0.1, 0.9)))
    with pytest.raises(CheckFailed, match=r"action 1: its gap is 0.3 by the means, its regret -0.0005 a round"):
        environment.means_are_the_means(
            also(regret=staticmethod(lambda params, memory: -1.0), stochastic=True, comparator="action")
        )
    with pytest.raises(CheckFailed, match="says stochastic = True: state its means too"):
        environment.states_what_it_is(also(means=None))


def test_the_message_about_another_range_says_how_it_is_mapped():
    with pytest.raises(InvalidArgument, match=r"gives \[-10, 10\]; reward_range=\(...\) maps them"):
        bl.play(bl.QPMD(bl.UCB1(2)), also(smallest=-10.0, largest=10.0), bl.delays.Constant(1), rounds=10)


# --- laws and learners ---


@dataclass(frozen=True)
class Halves(bl.Delays):
    depends_on_action = True

    def params(self):
        return np.zeros(1)

    @property
    def kernel(self):
        return halves


@bl.kernel
def halves(params, k0, k1, round_, action):
    return 1.5


def test_a_delay_is_a_whole_number():
    with pytest.raises(CheckFailed, match=r"a delay must be a whole number, it returned 1.5"):
        check_delays(Halves())
    with pytest.raises(BadKernel, match=r"Halves\(\), kernel, .*a delay must be a whole number"):
        bl.play(bl.Direct(bl.UCB1(2)), bl.games.Bernoulli([0.2, 0.5]), Halves(), rounds=10, engine="python")


@dataclass(frozen=True)
class Mean(bl.Learner):
    """Divides by a count that is 0 at first."""

    actions: int = 2

    def layout(self):
        return np.dtype([("total", "f8"), ("count", "f8")])

    @staticmethod
    def predict(params, state, context, draw):
        return int(state.total / state.count > 0.5), 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.total += feedback[0]
        state.count += 1.0


def test_a_division_by_a_count_of_zero_is_found():
    with pytest.raises(CheckFailed, match=r"predict, .*, line \d+: FloatingPointError.*guard x / 0"):
        stays_in_its_arrays(Mean())


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"smallest": 1.0}, "smallest of Stated must be below largest, got 1.0 and 1.0"),
        ({"smallest": 2.0}, "smallest of Stated must be below largest, got 2.0 and 1.0"),
        ({"feedback": "bandits"}, "feedback of Stated must be one of bandit, full, .* got 'bandits'"),
        ({"context_size": -1}, "context_size of Stated must be >= 0, got -1"),
        ({"context_limit": math.nan}, "context_limit of Stated must be finite, got nan"),
        ({"version": "1"}, "version of Stated must be a whole number, got '1'"),
        ({"lost": 3}, "lost of Stated must be a kernel, got 3"),
        ({"layout": lambda self: None}, "layout.. of Stated must be a dtype with named fields of numbers, got None"),
        ({"layout": lambda self: np.dtype("f8")}, "must be a dtype with named fields of numbers, got dtype"),
        ({"layout": lambda self: [("total", "O")]}, "must be a dtype with named fields of numbers, got .*'O'"),
        ({"layout": lambda self: [("total", ">f8")]}, "must be a dtype with named fields of numbers, got .*'>f8'"),
        ({"params": lambda self: [1.0]}, r"params\(\) of Stated must be a dictionary, got \[1.0\]"),
        (
            {"params": lambda self: {"rate": "1"}},
            "of Stated must be numbers and arrays of them by name, got 'rate': '1'",
        ),
        ({"params": lambda self: {"rows": [[1], [2, 3]]}}, "must be numbers and arrays of them by name, got 'rows'"),
        ({"params": lambda self: {"large": 2**63}}, "must be numbers and arrays of them by name, got 'large'"),
        (
            {"__init__": lambda self: object.__setattr__(self, "actions", "3")},
            "actions of Stated must be a whole number",
        ),
    ],
)
def test_a_learner_that_states_nonsense_is_refused(stated, says):
    with pytest.raises(InvalidArgument, match=says):
        bl.Direct(type("Stated", (Mean,), stated)())


class NoData(bl.Learner):
    layout, predict, update, actions = Mean.layout, Mean.predict, Mean.update, 2


@dataclass
class NotFrozen(Mean.__mro__[1]):  # type: ignore[misc]
    actions: int = 2
    layout, predict, update = Mean.layout, Mean.predict, Mean.update


@pytest.mark.parametrize(("kind", "says"), [(NoData, "is not a dataclass"), (NotFrozen, "is not frozen")])
def test_a_spec_is_a_frozen_dataclass(kind, says):
    with pytest.raises(CheckFailed, match=rf"{says}: write @dataclass\(frozen=True\)"):
        is_a_spec(kind())
