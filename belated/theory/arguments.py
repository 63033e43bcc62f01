"""What the functions of `bounds` do with their arguments."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from belated import require
from belated.errors import InvalidArgument


def whole(name: str, value: float, least: int) -> int:
    """A whole number, given as any number."""
    if not require.real(name, value, low=least).is_integer():
        raise InvalidArgument(f"{name} must be a whole number, got {value}")
    return int(value)


def vector(name: str, values: ArrayLike, most: float = math.inf) -> NDArray[np.float64]:
    """A number or several as a vector of finite numbers, from 0 to `most`."""
    try:
        found = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        raise InvalidArgument(f"{name} must be numbers, got {values!r}") from None
    if found.ndim != 1 or found.size == 0:
        raise InvalidArgument(f"{name} must be a number or a non-empty vector, got shape {found.shape}")
    wrong = found[~(np.isfinite(found) & (found >= 0) & (found <= most))]
    if wrong.size:
        wanted = "finite and >= 0" if most == math.inf else f"in [0, {most:g}]"
        raise InvalidArgument(f"{name} must be {wanted}, got {wrong[0]}")
    return found


def per_action(name: str, values: ArrayLike, actions: int) -> NDArray[np.float64]:
    """One number for each action; a single one stands for all."""
    found = vector(name, values)
    if found.size not in (1, actions):
        raise InvalidArgument(f"{name} must have 1 value or one per action ({actions}), got {found.size}")
    return np.broadcast_to(found, (actions,))


def lost(n: float, gaps: NDArray[np.float64], plays: ArrayLike) -> float:
    """sum_i Delta_i min(n, E T_i), and n max_i Delta_i at most: T_i <= n for each action, sum_i T_i = n for all.

    In n it stays concave and nondecreasing where the bounds on E T_i are, as BOLD's theorem wants it.
    """
    return min(float(gaps @ np.minimum(plays, n)), n * float(gaps.max(initial=0.0)))
