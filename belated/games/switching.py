"""An adversary whose best action changes."""

from __future__ import annotations

from dataclasses import dataclass

from belated import require
from belated.games.account import Realised, check_feedback, enter, head
from belated.kernels.compile import plain
from belated.kernels.elementary import log1p
from belated.kernels.random import block, event_draw, outcome_draw, uniform
from belated.kernels.sampling import geometric
from belated.protocols import Feedback, Floats

#: 2^32, the range of a word.
WORDS = 4294967296.0


@dataclass(frozen=True)
class Switching(Realised):
    """One action pays 1 with probability `good`, all others with probability `bad`; which one changes.

    The first best action is uniform. Before each later round, with the given probability, another one is
    drawn, uniform over the rest: 1 / probability is the mean time between switches. Outcomes do not look at
    what is played. Regret is realised: max_i sum_s r_{i,s} - sum_s r_{a_s,s}. (Coins have 32 bits, so that
    `good` and `bad` hold to 2^-32.)

    Auer, Cesa-Bianchi, Freund, Schapire, *The nonstochastic multiarmed bandit problem*, 2002, section 8.

    >>> import belated as bl
    >>> game = bl.games.Switching(actions=3, probability=0.5, good=1, bad=0)
    >>> bl.games.deal(game, rounds=6).argmax(axis=1).tolist()
    [0, 1, 1, 1, 2, 0]
    """

    actions: int
    probability: float = 0.001
    good: float = 0.9
    bad: float = 0.1
    feedback: Feedback = "bandit"

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=2)
        require.real("probability", self.probability, low=0, high=1)
        require.real("good", self.good, low=0, high=1)
        require.real("bad", self.bad, low=0, high=self.good)
        check_feedback(self.feedback)

    def params(self) -> Floats:
        stay = plain(log1p)(-self.probability)
        return head(self.actions, self.feedback, stay, self.good * WORDS, self.bad * WORDS)

    def memory(self) -> int:
        return 3 + self.actions

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        count = int(params[0])
        best = 1 + count
        when = 2 + count
        # The time to the next switch is drawn at once: it is geometric, as with one coin a round.
        if round_ == 1 or round_ >= memory[when]:
            event = event_draw(k0, k1, round_)
            wait, _index = geometric(event, 0, params[2])
            memory[when] = float(round_ + 1 + wait)
            u = uniform(event, 1)
            if round_ == 1:
                memory[best] = float(int(u * count))
            else:
                memory[best] = float((int(memory[best]) + 1 + int(u * (count - 1))) % count)
        leader = int(memory[best])
        draw = outcome_draw(k0, k1, round_, 0)
        earned = 0.0
        for first in range(0, count, 4):
            w0, w1, w2, w3 = block(draw, first // 4)
            for i in range(first, min(first + 4, count)):
                reward = 1.0 if float(w0) < (params[3] if i == leader else params[4]) else 0.0
                earned += enter(params, memory, feedback, action, i, reward)
                w0, w1, w2 = w1, w2, w3
        return earned
