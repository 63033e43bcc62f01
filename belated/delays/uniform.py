"""Uniform delays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from belated import require
from belated.delays.law import LONGEST, Law, Sampler
from belated.kernels.compile import kernel
from belated.kernels.random import uniform
from belated.protocols import Floats


@dataclass(frozen=True)
class Uniform(Law):
    """A whole number between low and high, both included, each with the same probability.

    >>> import belated as bl
    >>> bl.delays.Uniform(0, 5).mean
    2.5
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        require.integer("low", self.low, low=0)
        require.integer("high", self.high, low=self.low, high=LONGEST - 1)

    def params(self) -> Floats:
        return np.array([self.low, self.high - self.low + 1], np.float64)

    @property
    def sampler(self) -> Sampler:
        return between

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2

    @property
    def maximum(self) -> int:
        return int(self.high)


@kernel
def between(params, start, draw, layer, round_, action):
    return int(params[start]) + int(params[start + 1] * uniform(draw, 0))
