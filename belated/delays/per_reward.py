"""A law of its own for each height of the reward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from belated.delays.law import Sampler
from belated.delays.per_action import Several, make_choice
from belated.kernels.compile import kernel
from belated.kernels.random import delay_draw
from belated.protocols import Floats


@dataclass(frozen=True)
class PerReward(Several):
    """The delay of a round follows the law of its reward: 0 to 1 is cut into as many equal parts as there are laws.

    With two laws, rewards below 1/2 follow the first, others the second. Sales that come late, while nobody says that
    there will be none, are `PerReward([Lossy(Constant(0), 1), Geometric(mean=50)])`. What is there early is then no
    fair sample, and theorems say so.

    >>> import belated as bl
    >>> bl.delays.PerReward([bl.delays.Constant(0), bl.delays.Constant(50)]).maximum
    50
    """

    depends_on_reward = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "depends_on_action", any(law.depends_on_action for law in self.laws))

    def params(self) -> Floats:
        """How many laws; for each which sampler, and where its numbers start; then the numbers."""
        return np.concatenate([[float(len(self.laws))], self._table(1)])

    @property
    def kernel(self) -> Callable[..., Any]:
        compiled: Callable[..., Any] = make_per_reward(self._samplers)
        return compiled

    def check_actions(self, actions: int) -> None:
        for law in self.laws:
            law.check_actions(actions)


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
