"""What all adapters give to a forecaster, and what they are told."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from belated import require
from belated.errors import InvalidArgument, InvalidFeedback
from belated.protocols import PlainLearner

#: What models draw from, and how one is made from a seed.
GENERATORS: dict[type, Callable[[Any], Any]] = {
    random.Random: random.Random,
    np.random.Generator: np.random.default_rng,
    np.random.RandomState: np.random.RandomState,
}


class Weighted(NamedTuple):
    """Feedback that counts as much as `weight` ordinary ones, for models of other libraries that take weights.

    >>> import belated as bl
    >>> from sklearn.linear_model import SGDRegressor
    >>> f = bl.Direct(bl.adapters.sklearn.regressor(SGDRegressor()))
    >>> d = f.predict([1.0])
    >>> f.update(d.ticket, bl.adapters.Weighted(0.5, weight=3.0))
    """

    feedback: Any
    weight: float = 1.0


def weighed(model: str, feedback: Any, takes: bool) -> tuple[Any, float | None]:
    """The feedback itself and its weight, None without one; refused if the model takes none."""
    if not isinstance(feedback, Weighted):
        return feedback, None
    if not takes:
        raise InvalidFeedback(f"{model} takes no weights, got {feedback!r}")
    try:
        return feedback.feedback, require.real("weight", feedback.weight, above=0.0)
    except InvalidArgument as error:
        raise InvalidFeedback(str(error)) from None


class Copies:
    """Makes plain learners, each around a copy of its own of one model, as that was when it was given.

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


def copied(model: Any, number: int = 0, *parts: Any) -> Any:
    """A copy of a model with all that it has learned, which draws as the copy with that number is to draw.

    The generators that the model and these parts of it hold are replaced by others, wherever the model has them. Copy
    number 0 of a model with a seed goes on with the draws of that.
    """
    others = {}
    for part in (model, *parts):
        seed = getattr(part, "seed", getattr(part, "random_state", None))
        for value in getattr(part, "__dict__", {}).values():
            make = GENERATORS.get(type(value))
            if make and (seed is None or (number and type(seed) is int)):
                others[id(value)] = make(seed_of(seed, number))
    return copy.deepcopy(model, others)


def seed_of(seed: Any, number: int) -> Any:
    """The seed of the copy with that number, if the model has a whole number as seed; else the seed itself."""
    return (seed + number) % 2**32 if type(seed) is int and number else seed
