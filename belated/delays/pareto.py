"""Delays with a heavy tail."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from belated import require
from belated.delays.law import Law, Sampler
from belated.errors import InvalidArgument
from belated.kernels.compile import kernel
from belated.kernels.elementary import exp, log
from belated.kernels.random import uniform
from belated.kernels.sampling import LARGEST
from belated.protocols import Floats


@dataclass(frozen=True, init=False, repr=False)
class Pareto(Law):
    """The integer part of a Lomax (shifted Pareto) variable: P(tau >= k) = (1 + k / scale)^-alpha.

    Give the scale, or the mean: then the scale is solved so that E tau = sum_{k >= 1} (1 + k / scale)^-alpha =
    scale^alpha zeta(alpha, scale + 1) is the one that was asked for. The variance is infinite where alpha <= 2, and so
    is the mean where alpha <= 1: all feedback comes, and yet E tau = inf. Such a law takes its scale.

    Lomax, *Business failures: another example of the analysis of failure data*, 1954.

    >>> import belated as bl
    >>> law = bl.delays.Pareto(mean=100, alpha=1.5)
    >>> print(f"{law.scale:.3f}")
    50.249
    >>> bl.delays.Pareto(scale=10, alpha=0.8).mean
    inf
    """

    given: tuple[str, float]  #: what was given: "mean" or "scale", and the number
    alpha: float

    def __init__(self, *, mean: float | None = None, scale: float | None = None, alpha: float = 1.5) -> None:
        if (mean is None) == (scale is None):
            raise InvalidArgument(f"Pareto takes either a mean or a scale, got mean={mean!r} and scale={scale!r}")
        require.real("alpha", alpha, above=0, high=20)
        if mean is not None:
            require.real("mean", mean, low=1e-9, high=1e12)
            if alpha <= 1:
                raise InvalidArgument(
                    f"alpha must be > 1, got {alpha!r}: else the mean is infinite, and scale= is given"
                )
        else:
            require.real("scale", scale, above=0, high=1e15)
        object.__setattr__(self, "given", ("scale", scale) if mean is None else ("mean", mean))
        object.__setattr__(self, "alpha", alpha)

    def to_fields(self) -> dict[str, float]:
        """What the constructor takes."""
        name, value = self.given
        return {name: value, "alpha": self.alpha}

    def __repr__(self) -> str:
        return f"Pareto({', '.join(f'{name}={value!r}' for name, value in self.to_fields().items())})"

    @property
    def mean(self) -> float:
        """E tau; infinite where alpha <= 1."""
        name, value = self.given
        if name == "mean":
            return value
        if self.alpha <= 1:
            return math.inf
        from scipy.special import zeta

        return math.exp(self.alpha * math.log(value) + math.log(zeta(self.alpha, value + 1.0)))

    @property
    def scale(self) -> float:
        """The scale of the Lomax law."""
        name, value = self.given
        if name == "scale":
            return value
        from scipy.optimize import brentq
        from scipy.special import zeta

        def surplus(log_scale: float) -> float:
            scale = math.exp(log_scale)
            return self.alpha * log_scale + math.log(zeta(self.alpha, scale + 1.0)) - math.log(value)

        # scale / (alpha - 1) - 1 < E tau < scale / (alpha - 1); and E tau >= P(tau >= 1) for a small scale.
        high = math.log((self.alpha - 1.0) * (value + 1.0))
        found = math.exp(brentq(surplus, -100.0, high, xtol=1e-15, rtol=1e-15))
        return float(f"{found:.12g}")  # the same on every machine

    def params(self) -> Floats:
        return np.array([self.scale, -1.0 / self.alpha])

    @property
    def sampler(self) -> Sampler:
        return pareto


@kernel
def pareto(params, start, draw, layer, round_, action):
    lomax = params[start] * (exp(log(1.0 - uniform(draw, 0)) * params[start + 1]) - 1.0)
    return int(min(lomax, LARGEST))
