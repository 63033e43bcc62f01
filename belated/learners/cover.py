"""Cover's forecaster of bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.compile import kernel
from belated.kernels.random import uniform
from belated.protocols import Floats, Game, Learner
from belated.theory import related

#: What is left of a tail below this does not change a probability.
NOTHING = 1e-17


@dataclass(frozen=True)
class Cover(Learner):
    """Guesses bits, of which there will be `horizon`: nobody can promise less regret.

    With s the ones less the zeros seen, and l rounds left after this one, it says 1 with the probability that s and l
    fair signs add up to more than 0, and half of that that they add up to 0. Then its expected loss over `horizon`
    rounds is that of the better constant guess plus `bounds.subsampling(horizon, 0)`, on **every** sequence. Under a
    constant delay d, BOLD over it is as good as anybody can be (`bounds.subsampling(n, d)`) when each instance has
    `horizon` rounds; in fewer it pays at most `bounds.cover`. After that it guesses what it has seen more of, without a
    bound.

    Feedback is full: (0, 1) for the bit 1, (1, 0) for 0. With delays that vary nobody knows the rounds of an instance:
    use Hedge or DelayedHedge then.

    Cover, *Behavior of sequential predictors of binary sequences*, 1965; under delay Weinberger, Ordentlich 2002.

    >>> import belated as bl
    >>> f = bl.Direct(bl.Cover(horizon=3), seed=1)
    >>> first = f.predict()
    >>> first.probability
    0.5
    >>> f.update(first.ticket, [0.0, 1.0])
    >>> second = f.predict()
    >>> second.action, second.probability
    (1, 0.75)
    """

    guarantee = "V(m) = E|S_m| / 2 exactly in m = horizon rounds, on every sequence of bits; minimax"
    horizon: int
    actions = 2
    feedback = "full"
    one_hot = True
    reads_answering = False

    def __post_init__(self) -> None:
        require.integer("horizon", self.horizon, low=1, high=10_000_000)

    @classmethod
    def example(cls) -> Cover:
        """A thousand bits."""
        return cls(1000)

    def facing(self, game: Game) -> Learner | str:
        table = getattr(game, "table", None)
        if table is None or not np.isin(table, (0.0, 1.0)).all() or (np.sum(table, axis=1) != 1.0).any():
            return f"its bound is for bits, rewards (1, 0) or (0, 1), and {type(game).__name__} does not say that"
        return self

    def bound_in(self, n: int) -> float | None:
        return related.cover(self.horizon, n) if n <= self.horizon else None

    def bound_at_peak(self, n: int, peak: float, constant: bool) -> float | None:
        return self.bound_in(n) if peak == 0.0 else None

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("ahead", "f8")])

    def params(self) -> dict[str, Any]:
        return {"horizon": self.horizon, "centre": centres(self.horizon)}

    @staticmethod
    def predict(params, state, context, draw):
        left = max(0, params.horizon - state.predictions)
        chance = above_zero(state.ahead, left, params.centre[left])
        if uniform(draw, 0) < 1.0 - chance:
            return 0, 1.0 - chance
        return 1, chance

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        if feedback[1] != feedback[0]:
            state.ahead += 1.0 if feedback[1] > feedback[0] else -1.0


def centres(most: int) -> Floats:
    """C(l, floor(l / 2)) / 2^l for l = 0..most - 1, each from the one before.

    >>> centres(5).tolist()
    [1.0, 0.5, 0.5, 0.375, 0.375]
    """
    steps = np.ones(max(most, 1))
    odd = np.arange(1, most)
    steps[1:] = np.where(odd % 2 == 1, odd / (odd + 1.0), 1.0)
    found: Floats = np.cumprod(steps, dtype=np.float64)
    return found


@kernel
def above_zero(ahead, left, centre):
    """P(s + S > 0) + P(s + S = 0) / 2, S a sum of `left` fair signs; `centre` is the chance of its middle.

    From the middle outwards, with the chances of whole numbers of ones each from the one before.
    """
    far = abs(ahead)
    if far > left:
        return 1.0 if ahead > 0.0 else 0.0
    # ones among `left`: those above `line` make the sum point the other way than `ahead`
    line = (left + far) / 2.0
    j = left - left // 2
    chance = centre
    tail = 0.0
    while j <= left and chance > NOTHING:
        if j > line:
            tail += chance
        elif j == line:
            tail += chance / 2.0
        chance *= (left - j) / (j + 1.0)
        j += 1
    return 1.0 - tail if ahead > 0.0 else tail if ahead < 0.0 else 0.5
