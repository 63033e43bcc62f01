"""Bernoulli bandits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from belated import require
from belated.games.account import check_feedback, gaps, head, pseudo_regret
from belated.kernels.compile import routine
from belated.kernels.random import OUTCOME, fill_uniform, outcome_draw, uniform
from belated.kernels.sampling import pair
from belated.kernels.target import on_gpu
from belated.protocols import Feedback, Floats, Game

#: Rounds whose numbers are drawn together: 32 take twice as long as one.
SHIFT = 5
AHEAD = 1 << SHIFT


@dataclass(frozen=True)
class Bernoulli(Game):
    """Action i pays 1 with probability p_i, else 0, independently of everything else.

    Regret is the pseudo-regret sum_i (max p - p_i) T_i, with T_i plays of action i. The reward of an action
    in a round is the same whether or not it is played, and under either kind of feedback.

    >>> import belated as bl
    >>> bl.games.Bernoulli([0.2, 0.5, 0.9]).actions
    3
    """

    stochastic = True
    comparator = "action"
    any_round = True
    means: Sequence[float]
    feedback: Feedback = "bandit"

    def __post_init__(self) -> None:
        object.__setattr__(self, "means", require.reals("means", self.means, low=0, high=1))
        check_feedback(self.feedback)

    @property
    def actions(self) -> int:
        return len(self.means)

    def params(self) -> Floats:
        return head(self.actions, self.feedback, gaps(self.means), self.means, AHEAD)

    def memory(self) -> int:
        """Plays of each action; for each, the rounds it has numbers for and the numbers; what was drawn last."""
        return self.actions * (1 + 1 + AHEAD) + 1

    def least_memory(self) -> int:
        return self.actions

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        count = int(params[0])
        if params[1] == 0.0 and on_gpu():
            played = memory[action]
            u = uniform(outcome_draw(k0, k1, round_, 0), action)
            feedback[0] = 1.0 if u < params[2 + count + action] else 0.0
            # One more. What is added hangs on the draw, else the compiler would add first, and wait for `played`.
            memory[action] = played + (1.0 if u >= 0.0 else 0.0)
            return feedback[0]
        memory[action] += 1.0
        if params[1] == 0.0:
            at = count + action * (1 + AHEAD)
            if memory[at] == float(1 + (round_ >> SHIFT)):
                u = memory[at + 1 + (round_ & (AHEAD - 1))]
            else:
                u = drawn(params, memory, k0, k1, round_, action)
            feedback[0] = 1.0 if u < params[2 + count + action] else 0.0
            return feedback[0]
        draw_all(params, k0, k1, round_, feedback)
        return feedback[action]

    regret = staticmethod(pseudo_regret)


# What is seldom needed is a routine, so that the rest is short.


@routine
def drawn(params, memory, k0, k1, round_, action):
    """The number of an action in a round. If it is drawn for the third time in a row, so are those of more rounds."""
    count = int(params[0])
    last = count * (2 + AHEAD)
    if memory[last] != action + count:
        memory[last] = action + count if memory[last] == action else action
        return uniform(outcome_draw(k0, k1, round_, 0), action)
    group = round_ >> SHIFT
    at = count + action * (1 + AHEAD)
    memory[at] = float(1 + group)
    # A number of turns that is not known beforehand lets the compiler use vector instructions.
    fill_uniform(memory, at + 1, int(params[2 + 2 * count]), k0, k1, group << SHIFT, 0, OUTCOME, action)
    return memory[at + 1 + (round_ & (AHEAD - 1))]


@routine
def draw_all(params, k0, k1, round_, feedback):
    """The rewards of all actions in a round."""
    count = int(params[0])
    draw = outcome_draw(k0, k1, round_, 0)
    for i in range(0, count, 2):
        u, v = pair(draw, i // 2)
        feedback[i] = 1.0 if u < params[2 + count + i] else 0.0
        if i + 1 < count:
            feedback[i + 1] = 1.0 if v < params[3 + count + i] else 0.0
    return 0
