"""An adversary whose best action changes."""

from __future__ import annotations

from dataclasses import dataclass

from belated import require
from belated.games.account import Drifting, check_feedback, enter, head
from belated.kernels.compile import plain
from belated.kernels.elementary import log1p
from belated.kernels.random import block, event_draw, outcome_draw, uniform
from belated.kernels.sampling import geometric
from belated.protocols import Feedback, Floats

#: 2^32, the range of a word.
WORDS = 4294967296.0


@dataclass(frozen=True)
class Switching(Drifting):
    """One action pays 1 with probability `good`, all others with probability `bad`; which one changes.

    The first best action is uniform. Before each later round, with the given probability, another one is
    drawn, uniform over the rest: 1 / probability is the mean time between switches. Outcomes do not look at
    what is played. Regret is realised: max_i sum_s r_{i,s} - sum_s r_{a_s,s}; with dynamic=True it is against the
    action that is best in each round: good - bad for every round in which another was played. (Coins have 32 bits, so
    that `good` and `bad` hold to 2^-32.)

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
    dynamic: bool = False

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=2)
        require.real("probability", self.probability, low=0, high=1)
        require.real("good", self.good, low=0, high=1)
        require.real("bad", self.bad, low=0, high=self.good)
        check_feedback(self.feedback)
        require.boolean("dynamic", self.dynamic)

    def params(self) -> Floats:
        stay = plain(log1p)(-self.probability)
        coins = (self.good * WORDS, self.bad * WORDS)
        return head(self.actions, self.feedback, float(self.dynamic), stay, *coins, self.good - self.bad)

    def memory(self) -> int:
        return super().memory() + 2

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        count = int(params[0])
        best = 2 + count
        when = 3 + count
        # The time to the next switch is drawn at once: it is geometric, as with one coin a round.
        if round_ == 1 or round_ >= memory[when]:
            event = event_draw(k0, k1, round_)
            wait, _index = geometric(event, 0, params[3])
            memory[when] = float(round_ + 1 + wait)
            u = uniform(event, 1)
            if round_ == 1:
                memory[best] = float(int(u * count))
            else:
                memory[best] = float((int(memory[best]) + 1 + int(u * (count - 1))) % count)
        leader = int(memory[best])
        if action != leader:
            memory[1 + count] += params[6]
        draw = outcome_draw(k0, k1, round_, 0)
        earned = 0.0
        for first in range(0, count, 4):
            w0, w1, w2, w3 = block(draw, first // 4)
            for i in range(first, min(first + 4, count)):
                reward = 1.0 if float(w0) < (params[4] if i == leader else params[5]) else 0.0
                earned += enter(params, memory, feedback, action, i, reward)
                w0, w1, w2 = w1, w2, w3
        return earned
