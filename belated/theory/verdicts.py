"""A bound against what was measured, with confidence."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Confidence of a verdict, unless another is asked for.
LEVEL = 0.99
#: A bound that is so far above what was measured says little.
UNINFORMATIVE = 0.05


@dataclass(frozen=True)
class Verdict:
    """What the data say of an upper bound.

    | word | when |
    |---|---|
    | holds | the whole confidence interval is at most the bound |
    | holds, uninformative | the same, and measured / bound is below 0.05 |
    | vacuous | the bound says no more than the trivial one |
    | unclear | the interval contains the bound |
    | fails | the whole interval is above the bound |
    | no bound | no theorem speaks |
    """

    word: str
    measured: float
    low: float
    high: float
    bound: float | None
    level: float

    @property
    def ratio(self) -> float | None:
        """measured / bound."""
        return self.measured / self.bound if self.bound else None

    def __str__(self) -> str:
        return self.word if self.ratio is None else f"{self.word} (measured / bound = {self.ratio:.2g})"


def judge(
    measured: float,
    error: float,
    count: int,
    bound: float | None,
    *,
    trivial: float = math.inf,
    level: float = LEVEL,
    family: int = 1,
) -> Verdict:
    """Compare a mean of `count` values and its standard error with an upper bound on its expectation.

    With `family` verdicts given together, each is held to a stricter level, so that all are right together with
    probability `level` (Bonferroni). One value alone has no interval, and decides nothing.

    >>> judge(40.0, 2.0, 100, 100.0).word
    'holds'
    >>> judge(101.0, 2.0, 100, 100.0).word
    'unclear'
    """
    width = half_width(error, count, level, family)
    low, high = measured - width, measured + width
    return Verdict(_word(measured, low, high, bound, trivial), measured, low, high, bound, level)


def half_width(error: float, count: int, level: float = LEVEL, family: int = 1) -> float:
    """How far Student's interval reaches from a mean of `count` values with this standard error."""
    if count < 2:
        return math.inf
    if error == 0.0:
        return 0.0
    from scipy.special import stdtrit

    return error * float(stdtrit(count - 1, 1.0 - (1.0 - level) / (2.0 * family)))


def _word(measured: float, low: float, high: float, bound: float | None, trivial: float) -> str:
    if bound is None:
        return "no bound"
    if bound >= trivial:
        return "vacuous"
    if high <= bound:
        return "holds, uninformative" if measured < UNINFORMATIVE * bound else "holds"
    return "fails" if low > bound else "unclear"
