"""What belated's own elementary functions cost, beside the system's: nanoseconds a call, in a compiled loop.

    python benchmarks/elementary.py

In the first two columns calls follow one another, in the last two each waits for the one before.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from belated.kernels import elementary

SIZE, TIMES = 20_000, 20


def loops(function: Any) -> tuple[Any, Any]:
    """Both kinds of loop around a function."""

    @numba.njit(error_model="numpy")
    def one_by_one(xs):
        total = 0.0
        for x in xs:
            total += function(x)
        return total

    @numba.njit(error_model="numpy")
    def waiting(xs):
        last = 0.0
        for x in xs:
            last = function(x + last * 1e-300)
        return last

    return one_by_one, waiting


def nanoseconds(loop: Callable[[Any], float], xs: Any) -> float:
    """The best of several passes."""
    loop(xs)
    best = math.inf
    for _ in range(TIMES):
        began = time.perf_counter()
        loop(xs)
        best = min(best, time.perf_counter() - began)
    return best / len(xs) * 1e9


def called(function: Any) -> Any:
    """A function of the system's, called from compiled code."""
    return numba.njit(lambda x: function(x))


def pairs() -> dict[str, tuple[Any, Any, Any]]:
    """For each function: the system's, ours, and arguments such as kernels give it."""
    u = np.random.default_rng(0).random(SIZE)
    cos, sin, turns = math.cos, math.sin, elementary.sin_cos_turns
    found = {
        name: (called(getattr(math, name)), getattr(elementary, name), xs)
        for name, xs in {
            "log": 100.0 * u + 1e-9, "log1p": 2.0 * u - 0.9, "exp": -30.0 * u, "expm1": -3.0 * u,
            "erf": 4.0 * u - 2.0, "erfc": 12.0 * u - 2.0,
        }.items()
    }  # fmt: skip
    angle = elementary.TWO_PI
    both = numba.njit(lambda x: cos(angle * x) + sin(angle * x))

    @numba.njit
    def ours(x):
        sine, cosine = turns(x)
        return sine + cosine

    found["sin and cos"] = (both, ours, u)
    return found


def main() -> None:
    print(f"{'':12}{'system':>8}{'ours':>8}{'system':>10}{'ours':>8}   ns")
    for name, (system, own, xs) in pairs().items():
        times = [nanoseconds(loop, xs) for pair in zip(loops(system), loops(own), strict=True) for loop in pair]
        print(f"{name:12}{times[0]:8.1f}{times[1]:8.1f}{times[2]:10.1f}{times[3]:8.1f}")


if __name__ == "__main__":
    main()
