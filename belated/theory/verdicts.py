"""A bound against what was measured, with confidence.

`low` and `high` of a verdict are an interval that holds whatever the law of what was measured (`intervals.sure`).
Where it does not decide, Student's interval may: then the word begins with "likely".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from belated.protocols import Floats
from belated.theory.intervals import UNKNOWN, Ends, enough, half_width, reach, sure

__all__ = ["LEVEL", "Verdict", "certain", "direction", "half_width", "judge", "judge_paired", "side"]

#: Confidence of a verdict, unless another is asked for.
LEVEL = 0.99
#: A bound that is so far above what was measured says little.
UNINFORMATIVE = 0.05
#: What the approximation says where the sure interval does not decide.
LIKELY = "likely "


@dataclass(frozen=True)
class Verdict:
    """What the data say of an upper bound.

    | word | when |
    |---|---|
    | holds | the whole interval from `low` to `high` is at most the bound |
    | likely holds | it is not, but the whole of Student's interval is, an approximation |
    | unclear | both contain the bound |
    | likely fails | the whole of Student's interval is above the bound |
    | fails | the whole interval from `low` to `high` is |
    | vacuous | nothing that can be measured is above the bound |
    | no bound | no theorem speaks |

    Where it holds, "uninformative" is added if measured / bound is below 0.05. The error of the bound itself, whose
    peaks were measured too, is allowed for: `margin`, by Student's interval. It is no part of `low` and `high`.
    """

    word: str
    measured: float
    low: float
    high: float
    bound: float | None
    level: float
    count: int = 1  #: how many values were measured
    margin: float = 0.0  #: how far the bound itself may be off
    needed: int | None = None  #: about how many values would decide for sure, where these do not

    @property
    def ratio(self) -> float | None:
        """measured / bound."""
        return self.measured / self.bound if self.bound else None

    @property
    def sure(self) -> bool:
        """Whether it rests on no approximation."""
        return not self.word.startswith(LIKELY)

    def __str__(self) -> str:
        said = [] if self.ratio is None else [f"measured / bound = {self.ratio:.2g}"]
        if self.needed is not None:
            said.append(f"about {self.needed:,} replications would decide for sure, there are {self.count:,}")
        return f"{self.word} ({'; '.join(said)})" if said else self.word


def judge(
    values: Floats,
    bound: float | None,
    least: float,
    most: float,
    *,
    error: float = 0.0,
    level: float = LEVEL,
    family: int = 1,
) -> Verdict:
    """Compare the mean of independent values in [least, most] with an upper bound on their expectation.

    `error` is the standard error of the bound itself. With `family` verdicts given together, each is held to a stricter
    level, so that all are right together with probability `level` (Bonferroni).

    >>> judge(np.tile([30.0, 50.0], 50), 100.0, 0.0, 1000.0).word
    'holds'
    >>> judge(np.tile([30.0, 50.0], 5), 100.0, 0.0, 1000.0).word
    'likely holds'
    """
    data = np.asarray(values, float)
    mean = float(data.mean())
    ends = sure(data, least, most, level, family)
    margin = half_width(error, len(data), level, family) if error else 0.0
    if bound is None:
        return Verdict("no bound", mean, *ends, None, level, len(data))
    word = _word(mean, ends, _near(data, level, family), bound, margin, most)
    needed = None
    if word == "unclear" or word.startswith(LIKELY):
        needed = enough(data, bound + (margin if mean > bound else -margin), least, most, level, family)
    return Verdict(word, mean, *ends, bound, level, len(data), margin, _rounded(needed, len(data)))


def judge_paired(
    values: Floats,
    allowed: Floats,
    least: float,
    most: float,
    *,
    most_allowed: float,
    level: float = LEVEL,
    family: int = 1,
) -> Verdict:
    """The same where the bound is the mean of values as well, 0 to `most_allowed`, one beside each that is measured."""
    extra, bound = np.asarray(values, float), float(np.mean(allowed))
    ends = sure(extra, least, most, level, family)
    over = judge(extra - allowed, 0.0, least - most_allowed, most, level=level, family=family)
    mean, word = float(extra.mean()), over.word
    if bound >= most:
        word = "vacuous"
    elif word.endswith("holds, uninformative") and mean >= UNINFORMATIVE * bound:
        word = word.removesuffix(", uninformative")
    return Verdict(word, mean, *ends, bound, level, len(extra), needed=over.needed)


def certain(measured: float, bound: float, most: float = math.inf) -> Verdict:
    """The verdict on what was counted, and left nothing to chance."""
    ends = Ends(measured, measured)
    return Verdict(_word(measured, ends, ends, bound, 0.0, most), measured, *ends, bound, 1.0)


def side(values: Floats, least: float, most: float, level: float = LEVEL, family: int = 1) -> tuple[str, Ends]:
    """Whether the mean of values in [least, most] is above or below 0: "above", "likely above", ... or "unclear"."""
    data = np.asarray(values, float)
    ends = sure(data, least, most, level, family)
    return direction(ends, _near(data, level, family)), ends


def direction(ends: Ends, near: Ends) -> str:
    """On which side of 0 a sure interval lies, or else an approximate one."""
    for word, (low, high) in (("", ends), (LIKELY, near)):
        if low > 0:
            return f"{word}above"
        if high < 0:
            return f"{word}below"
    return "unclear"


def _near(values: Floats, level: float, family: int) -> Ends:
    width, mean = reach(values, level, family), float(values.mean())
    return Ends(mean - width, mean + width) if math.isfinite(width) else UNKNOWN


def _word(mean: float, ends: Ends, near: Ends, bound: float, margin: float, most: float) -> str:
    if bound >= most * (1 - 1e-12) and not math.isinf(most):
        return "vacuous"
    for word, (low, high) in (("", ends), (LIKELY, near)):
        if high <= bound - margin:
            return f"{word}holds" + (", uninformative" if mean < UNINFORMATIVE * bound else "")
        if low > bound + margin:
            return f"{word}fails"
    return "unclear"


def _rounded(needed: int | None, count: int) -> int | None:
    """Up to two digits, and more than there are."""
    if needed is None:
        return None
    needed = max(needed, count + 1)
    unit: int = 10 ** max(0, len(str(needed)) - 2)
    return -(-needed // unit) * unit
