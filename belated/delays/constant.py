"""Delays without chance: always the same, and in batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from belated import require
from belated.delays.law import LONGEST, Law, Sampler
from belated.kernels.compile import kernel
from belated.protocols import Floats


@dataclass(frozen=True)
class Constant(Law):
    """Every delay is d. With d = 0 feedback comes before the next prediction: the classical case.

    >>> import belated as bl
    >>> bl.delays.Constant(100).mean
    100.0
    """

    constant = True
    d: int

    def __post_init__(self) -> None:
        require.integer("d", self.d, low=0, high=LONGEST)

    def params(self) -> Floats:
        return np.array([self.d], np.float64)

    @property
    def sampler(self) -> Sampler:
        return constant

    @property
    def mean(self) -> float:
        return float(self.d)

    @property
    def maximum(self) -> int:
        return int(self.d)


@dataclass(frozen=True)
class Batched(Law):
    """Round s's feedback arrives at the end of the first round >= s that is a multiple of d.

    The delay of round s is -s mod d, at most d - 1. It repeats with period d and is not i.i.d.

    >>> import belated as bl
    >>> bl.delays.Batched(10).maximum
    9
    """

    iid = False
    d: int

    def __post_init__(self) -> None:
        require.integer("d", self.d, low=1, high=LONGEST)

    def params(self) -> Floats:
        return np.array([self.d], np.float64)

    @property
    def sampler(self) -> Sampler:
        return batched

    @property
    def maximum(self) -> int:
        return int(self.d) - 1


@kernel
def constant(params, start, draw, layer, round_, action):
    return int(params[start])


@kernel
def batched(params, start, draw, layer, round_, action):
    size = int(params[start])
    return size - 1 - (round_ - 1) % size
