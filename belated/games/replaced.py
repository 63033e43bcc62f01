"""Arms that are replaced at random times."""

from __future__ import annotations

from dataclasses import dataclass

from belated import require
from belated.games.account import head
from belated.kernels.compile import kernel, plain
from belated.kernels.elementary import log1p
from belated.kernels.random import event_draw, outcome_draw, uniform
from belated.kernels.sampling import beta, geometric
from belated.protocols import Feedback, Floats, Game


@dataclass(frozen=True)
class Replaced(Game):
    """Bernoulli arms, one of which is now and then replaced by a new one.

    All means are drawn from Beta(a, b). At the start of each round after the first, before its prediction is
    paid, one arm, uniform over all, gets a new mean with the given probability. Replacements do not look at
    what is played. Regret is the sum of gaps to the arm that is best **in that round**,
    sum_t (max_i mu_{i,t} - mu_{a_t,t}): a comparator that changes with the arms, not a fixed action.
    Feedback is bandit. If `announced`, the forecaster is told of each replacement before it predicts
    (`Forecaster.replace`); the arms and what they pay are the same.

    >>> import belated as bl
    >>> bl.games.Replaced(actions=10, probability=0.001).memory()
    13
    """

    comparator = "changing"
    actions: int
    probability: float = 0.001
    a: float = 1.0
    b: float = 1.0
    feedback: Feedback = "bandit"
    announced: bool = False

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        require.real("probability", self.probability, low=0, high=1)
        require.real("a", self.a, above=0)
        require.real("b", self.b, above=0)
        require.one_of("feedback", self.feedback, ("bandit",))
        require.boolean("announced", self.announced)

    @property
    def announces(self) -> bool:
        return self.announced

    def params(self) -> Floats:
        stay = plain(log1p)(-self.probability)
        return head(self.actions, self.feedback, stay, self.a, self.b)

    def memory(self) -> int:
        return 3 + self.actions

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        if round_ == 1 or round_ >= memory[1]:
            replace(params, memory, event_draw(k0, k1, round_), round_)
        mean = memory[3 + action]
        memory[0] += memory[2] - mean
        feedback[0] = 1.0 if uniform(outcome_draw(k0, k1, round_, 0), action) < mean else 0.0
        return feedback[0]

    @staticmethod
    def event(params, memory, k0, k1, round_):
        # All arms are new in round 1, which is nothing to announce. Later `outcome` finds that it is done.
        if round_ == 1 or round_ < memory[1]:
            return -1
        return replace(params, memory, event_draw(k0, k1, round_), round_)

    @staticmethod
    def regret(params, memory):
        return memory[0]


@kernel
def replace(params, memory, event, round_):
    """Draw all means in round 1, else one, and say which; find the best and the round of the next replacement.

    Memory: regret, that round, the best mean, the K means.
    """
    count = int(params[0])
    wait, index = geometric(event, 0, params[2])
    memory[1] = float(round_ + 1 + wait)
    first = 0 if round_ == 1 else int(uniform(event, 1) * count)
    for i in range(first, count if round_ == 1 else first + 1):
        memory[3 + i], index = beta(event, index, params[3], params[4])
    memory[2] = memory[3]
    for i in range(1, count):
        memory[2] = max(memory[2], memory[3 + i])
    return first
