"""Geometric delays."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from belated import require
from belated.delays.law import Law, Sampler
from belated.kernels.compile import kernel, plain
from belated.kernels.elementary import log1p
from belated.kernels.sampling import geometric
from belated.protocols import Floats


@dataclass(frozen=True)
class Geometric(Law):
    """P(tau = k) = p (1 - p)^k for k = 0, 1, ..., with p = 1 / (1 + mean).

    >>> import belated as bl
    >>> bl.delays.Geometric(mean=50).mean
    50
    """

    mean: float

    def __post_init__(self) -> None:
        require.real("mean", self.mean, low=0, high=1e15)

    def params(self) -> Floats:
        return np.array([-plain(log1p)(1.0 / self.mean) if self.mean > 1e-300 else -math.inf])

    @property
    def sampler(self) -> Sampler:
        return geometric_delay

    @property
    def maximum(self) -> int | None:
        return None if self.mean > 0 else 0


@kernel
def geometric_delay(params, start, draw, layer, round_, action):
    value, _index = geometric(draw, 0, params[start])
    return value
