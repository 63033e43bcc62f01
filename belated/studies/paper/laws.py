"""The i.i.d. laws of the lemma on G*, and their tails from the definition of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from belated.delays import Constant, Empirical, Geometric, Law, Pareto, Poisson, Uniform
from belated.protocols import Delays, Floats

#: What the sample law draws from, times the mean: half of the feedback is there at once, a tenth is four times as late.
SAMPLE = (0, 0, 0, 0, 0, 1, 1, 2, 2, 4)


def laws(mean: int) -> dict[str, Law]:
    """The i.i.d. laws of the catalog, all with this mean."""
    return {
        "constant": Constant(mean),
        "uniform": Uniform(0, 2 * mean),
        "geometric": Geometric(mean=mean),
        "Poisson": Poisson(mean=mean),
        "Pareto": Pareto(mean=mean, alpha=1.5),
        "sample": Empirical([mean * x for x in SAMPLE]),
    }


#: P(tau >= k) for k >= 1, from the definition of each law.
TAILS: dict[type[Law], Callable[[Any, Floats], Any]] = {
    Constant: lambda law, k: k <= law.d,
    Uniform: lambda law, k: (law.high + 1 - k) / (law.high + 1 - law.low),
    Geometric: lambda law, k: (law.mean / (1 + law.mean)) ** k,
    Poisson: lambda law, k: _poisson_tail(law.mean, k),
    Pareto: lambda law, k: (1 + k / law.scale) ** -law.alpha,
    Empirical: lambda law, k: (law.array[:, None] >= k).mean(axis=0),
}


#: The longest delay of a law that has one.
LONGEST: dict[type[Delays], Callable[[Any], float]] = {
    Constant: lambda law: law.d,
    Uniform: lambda law: law.high,
    Empirical: lambda law: law.array.max(),
}


def tails(law: Law, n: int) -> Floats:
    """P(tau >= k) for k = 1, ..., n."""
    chances: Floats = np.clip(np.asarray(TAILS[type(law)](law, np.arange(1.0, n + 1)), float), 0.0, 1.0)
    return chances


def _poisson_tail(mean: float, k: Floats) -> Any:
    from scipy.special import gammainc

    return gammainc(k, mean)  # P(tau >= k) = P(Gamma(k) <= mean)
