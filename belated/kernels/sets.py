"""The sets that points lie in, and the nearest point of each."""

from __future__ import annotations

import math
from typing import Any

from belated.kernels.compile import kernel

#: Numbers beyond this are as good as this: its square is finite.
FAR = 1e150
#: The sets by name, in the order of their numbers.
BALL, BOX, SIMPLEX = 0, 1, 2
SETS = ("ball", "box", "simplex")


def width(domain: str, size: int, radius: float) -> float:
    """F, the largest |x - x'| / sqrt 2 in the set.

    >>> width("ball", 5, 1.0) ** 2, round(width("box", 2, 1.0), 9), width("simplex", 5, 1.0)
    (2.0000000000000004, 2.0, 1.0)
    """
    return radius * {"ball": math.sqrt(2.0), "box": math.sqrt(2.0 * size), "simplex": 1.0 if size > 1 else 0.0}[domain]


def set_of(thing: Any) -> tuple[str, float] | None:
    """The set that a learner's points lie in, or a game's may lie in, by name and radius; None if it does not say."""
    domain, radius = getattr(thing, "domain", None), getattr(thing, "radius", None)
    return None if domain is None or radius is None else (str(domain), float(radius))


def within(inner: tuple[str, float], outer: tuple[str, float], size: int) -> bool:
    """Whether a set of points of that size lies in another.

    >>> within(("box", 1.0), ("ball", 1.0), 3), within(("ball", 1.0), ("box", 1.0), 3)
    (False, True)
    """
    (name, radius), (around, most) = inner, outer
    if around == "simplex":
        return inner == outer
    return radius * (math.sqrt(size) if (name, around) == ("box", "ball") else 1.0) <= most * (1 + 1e-12)


@kernel
def into_ball(point, radius):
    """The nearest point of the ball around 0; radius inf is the whole space."""
    squares = 0.0
    for i in range(len(point)):
        point[i] = min(max(point[i], -FAR), FAR)
        squares += point[i] * point[i]
    if squares > radius * radius:
        shrink = radius / math.sqrt(squares)
        for i in range(len(point)):
            point[i] *= shrink


@kernel
def into_simplex(point, radius):
    """The nearest point of {x >= 0, sum x = radius}: max(x_i - shift, 0).

    The shift is found by leaving out what falls below 0, again and again.

    Michelot, *A finite algorithm for finding the projection of a point onto the canonical simplex*, 1986.
    """
    size = len(point)
    count = size
    top = point[0]
    for i in range(size):
        point[i] = min(max(point[i], -FAR), FAR)
        top = point[i] if i == 0 else max(top, point[i])
    for i in range(size):
        point[i] -= top  # which moves nothing, and keeps what follows exact near the largest
    shift = -math.inf
    for _ in range(size):
        total = 0.0
        left = 0
        for i in range(size):
            if point[i] > shift:
                total += point[i]
                left += 1
        shift = (total - radius) / left
        if left == count and _ > 0:
            break
        count = left
    for i in range(size):
        point[i] = max(point[i] - shift, 0.0)


@kernel
def into_set(point, domain, radius):
    """The nearest point of a set, by its number."""
    if domain == BALL:
        into_ball(point, radius)
    elif domain == BOX:
        for i in range(len(point)):
            point[i] = min(max(point[i], -radius), radius)
    else:
        into_simplex(point, radius)
