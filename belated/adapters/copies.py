"""What all adapters give to a forecaster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from belated.protocols import PlainLearner


class Copies:
    """Makes plain learners, each around a fresh copy of one model.

    `make(number)` makes the learner with that number. Where a model draws from a seed s of its own, learner number 0
    draws as the model itself would, and learner number i from the seed s + i: instances of BOLD that all drew alike
    would explore in step. It can be pickled if `make` can (a `functools.partial` of a class can).
    """

    #: Forecasters hand out numbers, see `belated.forecasters.Forecaster`.
    numbered = True

    def __init__(self, name: str, make: Callable[[int], PlainLearner]) -> None:
        self.__name__ = name
        self.make = make

    def __call__(self, number: int = 0) -> PlainLearner:
        return self.make(number)

    def __repr__(self) -> str:
        return self.__name__


def seed_of(seed: Any, number: int) -> Any:
    """The seed of the copy with that number, if the model has a whole number as seed; else the seed itself."""
    return (seed + number) % 2**32 if type(seed) is int and number else seed
