"""Poisson delays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from belated import require
from belated.delays.law import Law, Sampler
from belated.kernels.compile import kernel
from belated.kernels.sampling import poisson
from belated.protocols import Floats


@dataclass(frozen=True)
class Poisson(Law):
    """P(tau = k) = e^-mean mean^k / k! for k = 0, 1, ...

    >>> import belated as bl
    >>> bl.delays.Poisson(mean=7.5).mean
    7.5
    """

    mean: float

    def __post_init__(self) -> None:
        require.real("mean", self.mean, low=0, high=1e15)

    def params(self) -> Floats:
        return np.array([self.mean], np.float64)

    @property
    def sampler(self) -> Sampler:
        return poisson_delay

    @property
    def maximum(self) -> int | None:
        return None if self.mean > 0 else 0


@kernel
def poisson_delay(params, start, draw, layer, round_, action):
    value, _index = poisson(draw, 0, params[start])
    return value
