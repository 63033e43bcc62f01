"""Bernoulli bandits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from belated import require
from belated.games.account import check_feedback, gaps, head, pseudo_regret
from belated.kernels.random import OUTCOME, fill_uniform, outcome_draw, uniform
from belated.kernels.sampling import pair
from belated.kernels.target import on_gpu
from belated.protocols import Feedback, Floats, Game

#: Rounds whose numbers are drawn together: eight cost little more than one.
SHIFT = 3
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
        """Plays of each action; for each, the rounds it has numbers for and the numbers; the action played last."""
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
            # An action that is played again has the numbers of eight rounds drawn at once.
            group = round_ >> SHIFT
            at = count + action * (1 + AHEAD)
            last = count * (2 + AHEAD)
            if memory[at] == 1.0 + group:
                u = memory[at + 1 + (round_ & (AHEAD - 1))]
            elif memory[last] == action:
                memory[at] = 1.0 + group
                first = group << SHIFT
                # A number of turns that is not known beforehand lets the compiler use vector instructions.
                fill_uniform(memory, at + 1, int(params[2 + 2 * count]), k0, k1, first, 0, OUTCOME, action)
                u = memory[at + 1 + (round_ & (AHEAD - 1))]
            else:
                u = uniform(outcome_draw(k0, k1, round_, 0), action)
            memory[last] = action
            feedback[0] = 1.0 if u < params[2 + count + action] else 0.0
            return feedback[0]
        draw = outcome_draw(k0, k1, round_, 0)
        for i in range(0, count, 2):
            u, v = pair(draw, i // 2)
            feedback[i] = 1.0 if u < params[2 + count + i] else 0.0
            if i + 1 < count:
                feedback[i + 1] = 1.0 if v < params[3 + count + i] else 0.0
        return feedback[action]

    regret = staticmethod(pseudo_regret)
