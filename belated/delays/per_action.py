"""A law of its own for each action."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from belated import require
from belated.delays.law import Law, Sampler, check_law
from belated.errors import InvalidArgument
from belated.kernels.compile import kernel
from belated.protocols import NEVER, Delays, Floats


@dataclass(frozen=True)
class Several(Delays):
    """Delays by one of several laws."""

    laws: Sequence[Law]

    def __post_init__(self) -> None:
        object.__setattr__(self, "laws", tuple(require.sequence("laws", self.laws)))
        for i, law in enumerate(self.laws):
            check_law(f"laws[{i}]", law)
        object.__setattr__(self, "iid", all(law.iid for law in self.laws))

    @property
    def _samplers(self) -> tuple[Sampler, ...]:
        """Those that differ, in order of first appearance."""
        return tuple(dict.fromkeys(law.sampler for law in self.laws))

    def _table(self, start: int) -> Floats:
        """For each law which sampler, and where its numbers start, if the table starts there; then the numbers."""
        parts = [law.params() for law in self.laws]
        which = [self._samplers.index(law.sampler) for law in self.laws]
        starts = start + 2 * len(parts) + np.cumsum([0, *(len(part) for part in parts[:-1])])
        return np.concatenate([np.column_stack([which, starts]).ravel(), *parts])

    @property
    def maximum(self) -> int | None:
        largest = [law.maximum for law in self.laws]
        if NEVER in largest:
            return NEVER
        known = [m for m in largest if m is not None]
        return max(known) if len(known) == len(largest) else None

    def longest(self) -> int | None:
        return min((n for law in self.laws if (n := law.longest()) is not None), default=None)


@dataclass(frozen=True)
class PerAction(Several, Law):
    """The delay of a round follows the law of the action that was played.

    >>> import belated as bl
    >>> law = bl.delays.PerAction([bl.delays.Constant(3), bl.delays.Geometric(mean=50)])
    >>> law.mean_of(1)
    50
    """

    depends_on_action = True

    def params(self) -> Floats:
        """For each action which sampler, and where its numbers start, counted from here; then the numbers."""
        return self._table(0)

    @property
    def sampler(self) -> Sampler:
        return make_per_action(self._samplers)

    @property
    def actions(self) -> int:
        return len(self.laws)

    def check_actions(self, actions: int) -> None:
        """The laws are as many as the actions, and each of them is made for as many."""
        super().check_actions(actions)
        for i, law in enumerate(self.laws):
            try:
                law.check_actions(actions)
            except InvalidArgument as error:
                raise InvalidArgument(f"laws[{i}] of {self!r} does not fit: {error}") from None

    @property
    def mean(self) -> float | None:
        means = {law.mean for law in self.laws}
        return means.pop() if len(means) == 1 else None

    def mean_of(self, action: int) -> float | None:
        return self.laws[action].mean_of(action)


@cache
def make_per_action(samplers: tuple[Sampler, ...]) -> Any:
    """The sampler that looks up the action's own."""
    choose = make_choice(samplers)

    def per_action(params, start, draw, layer, round_, action):
        at = start + 2 * action
        return choose(int(params[at]), params, start + int(params[at + 1]), draw, layer, round_, action)

    return kernel(per_action)


@cache
def make_choice(samplers: tuple[Sampler, ...]) -> Any:
    """The kernel that calls one of the samplers by its number: the first, or one of the rest."""
    first = samplers[0]
    if len(samplers) == 1:

        def only(which, params, start, draw, layer, round_, action):
            return first(params, start, draw, layer, round_, action)

        return kernel(only)
    rest = make_choice(samplers[1:])

    def choose(which, params, start, draw, layer, round_, action):
        if which == 0:
            return first(params, start, draw, layer, round_, action)
        return rest(which - 1, params, start, draw, layer, round_, action)

    return kernel(choose)
