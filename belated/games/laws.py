"""The laws of i.i.d. rewards on [0, 1], for `Arms`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from belated import require
from belated.kernels.compile import kernel
from belated.kernels.random import uniform
from belated.kernels.sampling import beta, truncated_normal
from belated.spelling import Spelled

BERNOULLI, UNIFORM, BETA, TRUNCATED_NORMAL = 0.0, 1.0, 2.0, 3.0


class Law(Spelled, ABC):
    """A law of rewards: which of the kernel's branches it is, two numbers for it, and its exact mean."""

    kind: ClassVar[float]

    @property
    @abstractmethod
    def numbers(self) -> tuple[float, float]:
        """What the kernel `reward` takes as a and b."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """The expected reward."""


@dataclass(frozen=True)
class Bernoulli(Law):
    """1 with probability p, else 0.

    >>> Bernoulli(0.3).mean
    0.3
    """

    kind = BERNOULLI
    p: float

    def __post_init__(self) -> None:
        require.real("p", self.p, low=0, high=1)

    @property
    def numbers(self) -> tuple[float, float]:
        return self.p, 0.0

    @property
    def mean(self) -> float:
        return float(self.p)


@dataclass(frozen=True)
class Uniform(Law):
    """Uniform between low and high.

    >>> Uniform(0.25, 0.75).mean
    0.5
    """

    kind = UNIFORM
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        require.real("low", self.low, low=0, high=1)
        require.real("high", self.high, low=self.low, high=1)

    @property
    def numbers(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2


@dataclass(frozen=True)
class Beta(Law):
    """The Beta law, with density proportional to x^(a-1) (1-x)^(b-1).

    >>> Beta(1, 3).mean
    0.25
    """

    kind = BETA
    a: float
    b: float

    def __post_init__(self) -> None:
        require.real("a", self.a, above=0)
        require.real("b", self.b, above=0)

    @property
    def numbers(self) -> tuple[float, float]:
        return self.a, self.b

    @property
    def mean(self) -> float:
        return self.a / (self.a + self.b)


@dataclass(frozen=True)
class TruncatedNormal(Law):
    """A normal law with mean mu in [0, 1] and deviation sigma, given that it lies in [0, 1].

    >>> print(f"{TruncatedNormal(0.9, 0.2).mean:.4f}")
    0.7982
    """

    kind = TRUNCATED_NORMAL
    mu: float
    sigma: float

    def __post_init__(self) -> None:
        require.real("mu", self.mu, low=0, high=1)
        require.real("sigma", self.sigma, above=0)

    @property
    def numbers(self) -> tuple[float, float]:
        return self.mu, self.sigma

    @property
    def mean(self) -> float:
        if self.sigma >= 0.5:
            return self._mean_by_quadrature()
        low, high = -self.mu / self.sigma, (1.0 - self.mu) / self.sigma
        mass = (math.erf(high / math.sqrt(2.0)) - math.erf(low / math.sqrt(2.0))) / 2.0
        rise = (math.exp(-low * low / 2.0) - math.exp(-high * high / 2.0)) / math.sqrt(2.0 * math.pi)
        return self.mu + self.sigma * rise / mass

    def _mean_by_quadrature(self) -> float:
        """The closed form cancels for a large sigma; there the density is smooth and 40 nodes are exact."""
        nodes, weights = np.polynomial.legendre.leggauss(40)
        x = (nodes + 1.0) / 2.0
        density = weights * np.exp(-0.5 * ((x - self.mu) / self.sigma) ** 2)
        return float(density @ x / density.sum())


@kernel
def reward(kind, a, b, draw):
    """One reward from the law `kind` with the numbers a and b."""
    if kind <= UNIFORM:
        u = uniform(draw, 0)
        if kind == UNIFORM:
            return a + (b - a) * u
        return 1.0 if u < a else 0.0
    if kind == BETA:
        value, _index = beta(draw, 0, a, b)
        return value
    value, _index = truncated_normal(draw, 0, a, b)
    return value
