"""Feedback that may get lost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from belated import require
from belated.delays.law import Law, Sampler, check_law
from belated.kernels.compile import kernel
from belated.kernels.random import uniform
from belated.protocols import NEVER, Floats

#: Numbers of a draw from here on decide losses: the laws' own samplers stay far below.
LOSSES = 2**20


@dataclass(frozen=True)
class Lossy(Law):
    """With probability p the feedback never comes; else its delay follows the law.

    Whether it is lost is drawn apart, so that what does come has the same delays as under the law alone.

    >>> import belated as bl
    >>> bl.delays.Lossy(bl.delays.Constant(3), p=0.25).mean
    inf
    """

    law: Law
    p: float

    def __post_init__(self) -> None:
        check_law("law", self.law)
        require.real("p", self.p, low=0, high=1)
        object.__setattr__(self, "depends_on_action", self.law.depends_on_action)
        object.__setattr__(self, "iid", self.law.iid)

    def params(self) -> Floats:
        return np.concatenate([[float(self.p)], self.law.params()])

    @property
    def sampler(self) -> Sampler:
        return make_lossy(self.law.sampler)

    @property
    def actions(self) -> int | None:
        return self.law.actions

    def check_actions(self, actions: int) -> None:
        self.law.check_actions(actions)

    @property
    def mean(self) -> float | None:
        return math.inf if self.p > 0 else self.law.mean

    def mean_of(self, action: int) -> float | None:
        return math.inf if self.p > 0 else self.law.mean_of(action)

    @property
    def maximum(self) -> int | None:
        return NEVER if self.p > 0 else self.law.maximum

    def longest(self) -> int | None:
        return self.law.longest()


@cache
def make_lossy(inner: Sampler) -> Any:
    """The sampler around the law's own."""

    def lossy(params, start, draw, layer, round_, action):
        if uniform(draw, LOSSES + layer) < params[start]:
            return NEVER
        return inner(params, start + 1, draw, layer + 1, round_, action)

    return kernel(lossy)
