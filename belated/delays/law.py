"""What all laws of delay share: how their kernels are put together.

A law gives a **sampler**, a kernel `sampler(params, start, draw, layer, round_, action) -> int`, whose
numbers begin at `params[start]`. So a law that contains others hands their samplers the same vector and
another start. `layer` counts the losses drawn around a law, so that each of them has a random number of its
own. `Law.kernel` is the sampler from the start, with the draw that belongs to the round.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any

from belated.errors import InvalidArgument
from belated.kernels.compile import kernel
from belated.kernels.random import delay_draw
from belated.protocols import NEVER, Delays

Sampler = Any

#: The largest delay that ends: float64 holds every whole number up to here.
LONGEST = 2**53


class Law(Delays):
    """A law of delay: a frozen dataclass with a sampler."""

    @property
    @abstractmethod
    def sampler(self) -> Sampler:
        """The kernel `sampler(params, start, draw, layer, round_, action) -> int`."""

    @property
    def kernel(self) -> Callable[..., Any]:
        return from_the_start(self.sampler)

    @property
    def actions(self) -> int | None:
        """How many actions the law is written for; None if for any number."""
        return None

    def check_actions(self, actions: int) -> None:
        if self.actions is not None and self.actions != actions:
            raise InvalidArgument(f"the delays are given for {self.actions} actions, the game has {actions}")


@cache
def from_the_start(sampler: Sampler) -> Callable[..., Any]:
    """The kernel `delay(params, k0, k1, round_, action)` of a sampler."""

    def delay(params, k0, k1, round_, action):
        return sampler(params, 0, delay_draw(k0, k1, round_, action), 0, round_, action)

    compiled: Callable[..., Any] = kernel(delay)
    return compiled


@kernel
def whole(value):
    """A delay as it stands in `params`: a whole number, or infinity for NEVER."""
    if value > LONGEST:
        return NEVER
    return int(value)


def check_law(name: str, law: Any) -> None:
    if not isinstance(law, Law):
        raise InvalidArgument(f"{name} must be a law of belated.delays, got {law!r}")
