"""What a game or a delay law states of itself makes sense, before it is handed to compiled code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.protocols import Delays, Game

FEEDBACK = ("bandit", "full", "symbol", "gradient")
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
