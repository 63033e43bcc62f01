"""What a learner, a game or a delay law states of itself makes sense, before it is handed to compiled code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.protocols import Delays, Game, Learner

FEEDBACK = ("bandit", "full", "symbol", "gradient")
#: What numbers in a state may be: whole ones, floats that kernels can compute with, truths.
NUMBERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16", "b1")
COMPARATORS = ("action", "expert", "map", "policy", "truth", "changing")


def check_stated(spec: Game | Delays) -> None:
    """Refuse, by name, what a game or a law of somebody's own cannot be."""
    if isinstance(spec, Game):
        _check_game(spec)
    given: Any = spec.params()
    name = type(spec).__name__
    if not isinstance(given, np.ndarray) or given.dtype != np.float64 or given.ndim != 1:
        what = f"{given.dtype} of shape {given.shape}" if isinstance(given, np.ndarray) else repr(given)
        raise InvalidArgument(f"params() of {name} must be one flat vector of float64, got {what}")


def check_learner(learner: Learner) -> None:
    """Refuse, by name, what a learner of somebody's own cannot be."""
    name = type(learner).__name__
    require.integer(f"actions of {name}", learner.actions, low=1)
    require.one_of(f"feedback of {name}", learner.feedback, (*FEEDBACK, "any"))
    if not _ordered(learner.smallest, learner.largest) or learner.smallest == learner.largest:
        raise InvalidArgument(f"smallest of {name} must be below largest, got {learner.smallest} and {learner.largest}")
    if learner.one_hot and learner.feedback != "full":
        raise InvalidArgument(f"one_hot of {name} is about full feedback, it learns from {learner.feedback} feedback")
    for what in ("version", "memo", "point_size", "context_size", "values", "keeps"):
        require.integer(f"{what} of {name}", getattr(learner, what), low=0)
    require.real(f"context_limit of {name}", learner.context_limit, above=0)
    if learner.point_size > learner.memo:
        raise InvalidArgument(
            f"{name} has a memo of {learner.memo} numbers, and its point of {learner.point_size} is the first of them"
        )
    if learner.point_size and learner.actions != 1:
        raise InvalidArgument(f"{name} plays points, which count as one action: actions is {learner.actions!r}")
    for kernel in ("lost", "replace", "predict_among"):
        if getattr(learner, kernel) is not None and not callable(getattr(learner, kernel)):
            raise InvalidArgument(f"{kernel} of {name} must be a kernel, got {getattr(learner, kernel)!r}")


def of_numbers(dtype: np.dtype[Any]) -> bool:
    """Whether there are only numbers in a dtype, in the order of bytes of this machine."""
    base = dtype.base
    if base.names is not None:
        return all(of_numbers(base[name]) for name in base.names)
    return base.str[1:] in NUMBERS and base.isnative


def _check_game(game: Game) -> None:
    name = type(game).__name__
    require.integer(f"actions of {name}", game.actions, low=1)
    require.one_of(f"feedback of {name}", game.feedback, FEEDBACK)
    if game.comparator is not None:
        require.one_of(f"comparator of {game!r}", game.comparator, COMPARATORS)
    if not _ordered(game.smallest, game.largest):
        raise InvalidArgument(f"smallest of {name} is {game.smallest!r}, above largest, {game.largest!r}")
    endless = bool(game.point_size) or math.isinf(game.largest - game.smallest)
    require.real(f"scale of {name}", game.scale, low=0, infinite=endless)
    require.integer(f"memory() of {name}", game.memory(), low=0)
    for kernel in ("outcome", "regret"):
        if not callable(getattr(game, kernel)):
            raise InvalidArgument(f"{kernel} of {name} must be a kernel, got {getattr(game, kernel)!r}")
    if game.means is None:
        return
    try:
        means = np.asarray(game.means, float)
    except (TypeError, ValueError):
        means = np.zeros(0)
    shapes = ((game.actions,), (game.values, game.actions)) if game.values else ((game.actions,),)
    if means.shape not in shapes or not np.isfinite(means).all():
        raise InvalidArgument(
            f"means of {name} must be {game.actions} finite numbers, one an action, got {game.means!r}"
        )


def _ordered(smallest: Any, largest: Any) -> bool:
    """Whether these may be the ends of a range; infinite ones are welcome."""
    try:
        return bool(smallest <= largest)
    except TypeError:
        return False
