"""Delays with a heavy tail."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from belated import require
from belated.delays.law import Law, Sampler
from belated.kernels.compile import kernel
from belated.kernels.elementary import exp, log
from belated.kernels.random import uniform
from belated.kernels.sampling import LARGEST
from belated.protocols import Floats


@dataclass(frozen=True, kw_only=True)
class Pareto(Law):
    """The integer part of a Lomax (shifted Pareto) variable: P(tau >= k) = (1 + k / scale)^-alpha.

    The mean is finite because alpha > 1; the variance is infinite where alpha <= 2. The scale is solved so
    that the mean E tau = sum_{k >= 1} (1 + k / scale)^-alpha = scale^alpha zeta(alpha, scale + 1) is the one
    that was asked for.

    Lomax, *Business failures: another example of the analysis of failure data*, 1954.

    >>> import belated as bl
    >>> law = bl.delays.Pareto(mean=100, alpha=1.5)
    >>> print(f"{law.scale:.3f}")
    50.249
    """

    mean: float
    alpha: float = 1.5

    def __post_init__(self) -> None:
        require.real("mean", self.mean, low=1e-9, high=1e12)
        require.real("alpha", self.alpha, above=1, high=20)

    @property
    def scale(self) -> float:
        """The scale of the Lomax law."""
        from scipy.optimize import brentq
        from scipy.special import zeta

        def surplus(log_scale: float) -> float:
            scale = math.exp(log_scale)
            return self.alpha * log_scale + math.log(zeta(self.alpha, scale + 1.0)) - math.log(self.mean)

        # scale / (alpha - 1) - 1 < E tau < scale / (alpha - 1); and E tau >= P(tau >= 1) for a small scale.
        high = math.log((self.alpha - 1.0) * (self.mean + 1.0))
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
