"""Stochastic bandits with any laws of rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from belated import require
from belated.errors import InvalidArgument
from belated.games.account import check_feedback, gaps, head, pseudo_regret
from belated.games.laws import Law, reward
from belated.kernels.random import outcome_draw
from belated.protocols import Feedback, Floats, Game


@dataclass(frozen=True)
class Arms(Game):
    """The rewards of action i are independent draws from the i-th law (see `belated.games.laws`).

    Regret is the pseudo-regret sum_i (max mu - mu_i) T_i, with the exact means mu_i of the laws.

    >>> import belated as bl
    >>> from belated.games import laws
    >>> bl.games.Arms([laws.Beta(1, 3), laws.Uniform(0, 1), laws.Bernoulli(0.4)]).means
    (0.25, 0.5, 0.4)
    """

    stochastic = True
    comparator = "action"
    any_round = True
    laws: Sequence[Law]
    feedback: Feedback = "bandit"
    means: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "laws", tuple(require.sequence("laws", self.laws)))
        for i, law in enumerate(self.laws):
            if not isinstance(law, Law):
                raise InvalidArgument(f"laws[{i}] must be a law of belated.games.laws, got {law!r}")
        object.__setattr__(self, "means", tuple(float(law.mean) for law in self.laws))
        check_feedback(self.feedback)

    @property
    def actions(self) -> int:
        return len(self.laws)

    def params(self) -> Floats:
        numbers = [(law.kind, *law.numbers) for law in self.laws]
        return head(self.actions, self.feedback, gaps(self.means), numbers)

    def memory(self) -> int:
        return self.actions

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        memory[action] += 1.0
        count = int(params[0])
        if params[1] == 0.0:
            at = 2 + count + 3 * action
            draw = outcome_draw(k0, k1, round_, action)
            feedback[0] = reward(params[at], params[at + 1], params[at + 2], draw)
            return feedback[0]
        for i in range(count):
            at = 2 + count + 3 * i
            feedback[i] = reward(params[at], params[at + 1], params[at + 2], outcome_draw(k0, k1, round_, i))
        return feedback[action]

    regret = staticmethod(pseudo_regret)
