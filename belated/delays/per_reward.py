"""A law of its own for each height of the reward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from belated import require
from belated.delays.law import Law, Sampler, check_law
from belated.delays.per_action import make_choice
from belated.kernels.compile import kernel
from belated.kernels.random import delay_draw
from belated.protocols import NEVER, Delays, Floats


@dataclass(frozen=True)
class PerReward(Delays):
    """The delay of a round follows the law of its reward: 0 to 1 is cut into as many equal parts as there are laws.

    With two laws, rewards below 1/2 follow the first, others the second. Sales that come late, while nobody says that
    there will be none, are `PerReward([Lossy(Constant(0), 1), Geometric(mean=50)])`. What is there early is then no
    fair sample, and theorems say so.

    >>> import belated as bl
    >>> bl.delays.PerReward([bl.delays.Constant(0), bl.delays.Constant(50)]).maximum
    50
    """

    depends_on_reward = True
    laws: Sequence[Law]

    def __post_init__(self) -> None:
        object.__setattr__(self, "laws", tuple(require.sequence("laws", self.laws)))
        for i, law in enumerate(self.laws):
            check_law(f"laws[{i}]", law)
        object.__setattr__(self, "iid", all(law.iid for law in self.laws))
        object.__setattr__(self, "depends_on_action", any(law.depends_on_action for law in self.laws))

    @property
    def _samplers(self) -> tuple[Sampler, ...]:
        """Those that differ, in order of first appearance."""
        return tuple(dict.fromkeys(law.sampler for law in self.laws))

    def params(self) -> Floats:
        """How many laws; for each which sampler, and where its numbers start; then the numbers."""
        parts = [law.params() for law in self.laws]
        which = [self._samplers.index(law.sampler) for law in self.laws]
        starts = 1 + 2 * len(parts) + np.cumsum([0, *(len(part) for part in parts[:-1])])
        return np.concatenate([[float(len(parts))], np.column_stack([which, starts]).ravel(), *parts])

    @property
    def kernel(self) -> Callable[..., Any]:
        compiled: Callable[..., Any] = make_per_reward(self._samplers)
        return compiled

    def check_actions(self, actions: int) -> None:
        for law in self.laws:
            law.check_actions(actions)

    @property
    def maximum(self) -> int | None:
        largest = [law.maximum for law in self.laws]
        if NEVER in largest:
            return NEVER
        known = [m for m in largest if m is not None]
        return max(known) if len(known) == len(largest) else None

    def longest(self) -> int | None:
        return min((n for law in self.laws if (n := law.longest()) is not None), default=None)


@cache
def make_per_reward(samplers: tuple[Sampler, ...]) -> Any:
    """The kernel that looks up the law of the reward."""
    choose = make_choice(samplers)

    def per_reward(params, k0, k1, round_, action, reward):
        count = int(params[0])
        part = min(max(int(reward * count), 0), count - 1)
        draw = delay_draw(k0, k1, round_, action)
        return choose(int(params[1 + 2 * part]), params, int(params[2 + 2 * part]), draw, 0, round_, action)

    return kernel(per_reward)
