"""Cover's forecaster of bits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.compile import kernel
from belated.kernels.random import uniform
from belated.protocols import Game, Learner
from belated.theory import related

#: What is left of a tail below this does not change a probability.
NOTHING = 1e-17
#: Products of so many fractions are multiplied out.
SHORT = 32
PI = 3.141592653589793


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
        return {"horizon": self.horizon}

    @staticmethod
    def predict(params, state, context, draw):
        left = max(0, params.horizon - state.predictions)
        chance = above_zero(state.ahead, left)
        if uniform(draw, 0) < 1.0 - chance:
            return 0, 1.0 - chance
        return 1, chance

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        if feedback[1] != feedback[0]:
            state.ahead += 1.0 if feedback[1] > feedback[0] else -1.0


@kernel
def middle(left):
    """C(l, floor(l / 2)) / 2^l: the product of (2i - 1) / (2i) for i = 1..h, h = ceil(l / 2).

    For a large h it is that series of n = h + 1/4 over sqrt(pi n); what is left out of it is below 1e-17.

    >>> [middle(left) for left in range(5)], round(middle(10_000_000) * (math.pi * 5_000_000) ** 0.5, 9)
    ([1.0, 0.5, 0.5, 0.375, 0.375], 0.999999975)
    """
    half = (left + 1) // 2
    if half < SHORT:
        found = 1.0
        for i in range(1, half + 1):
            found *= (2.0 * i - 1.0) / (2.0 * i)
        return found
    n = half + 0.25
    x = 1.0 / (n * n)
    series = 1.0 - x * (1.0 / 64.0 - x * (21.0 / 8192.0 - x * (671.0 / 524288.0 - x * 180323.0 / 134217728.0)))
    return series / math.sqrt(PI * n)


@kernel
def above_zero(ahead, left):
    """P(s + S > 0) + P(s + S = 0) / 2, S a sum of `left` fair signs.

    From the middle outwards, with the chances of whole numbers of ones each from the one before.
    """
    far = abs(ahead)
    if far > left:
        return 1.0 if ahead > 0.0 else 0.0
    # ones among `left`: those above `line` make the sum point the other way than `ahead`
    line = (left + far) / 2.0
    j = left - left // 2
    chance = middle(left)
    tail = 0.0
    while j <= left and chance > NOTHING:
        if j > line:
            tail += chance
        elif j == line:
            tail += chance / 2.0
        chance *= (left - j) / (j + 1.0)
        j += 1
    return 1.0 - tail if ahead > 0.0 else tail if ahead < 0.0 else 0.5
