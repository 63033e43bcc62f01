"""PatientBandits: heavy-tailed delays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.compile import kernel, plain
from belated.kernels.elementary import exp, log
from belated.kernels.ties import largest_among, largest_index
from belated.protocols import Learner


@dataclass(frozen=True)
class PatientBandits(Learner):
    """Plays the largest S / m + sqrt(2 ln(2 K T^3) / m) + 2 m^-min(alpha, 1/2), with m predictions of the action.

    S is the sum of its rewards that have come: what is missing counts as 0, so that zeros need not be reported. T is
    the horizon. Delays have a tail of exponent `alpha`: P(delay > d) is at most d^-alpha, whatever the action. An
    action that was never predicted has index +inf.

    Gael, Vernade, Carpentier, Valko, *Stochastic bandits with arm-dependent delays*, 2020. No bound is stated here.

    >>> import belated as bl
    >>> f = bl.Direct(bl.PatientBandits(actions=2, horizon=1000, alpha=0.5))
    >>> for reward in (0.0, 1.0):
    ...     f.update(f.predict().ticket, reward)
    >>> f.predict().action
    1
    """

    guarantee = "none stated"
    reads_answering = False
    actions: int
    horizon: int
    alpha: float

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        require.integer("horizon", self.horizon, low=1, high=2**63 - 1)
        require.real("alpha", self.alpha, above=0)

    @classmethod
    def example(cls) -> PatientBandits:
        """Three actions, 200 rounds, a tail of exponent 0.4."""
        return cls(3, 200, 0.4)

    def layout(self) -> np.dtype[Any]:
        k = (self.actions,)
        return np.dtype([*((name, "f8", k) for name in ("total", "bonus", "index")), ("predicted", "i8", k)])

    def params(self) -> dict[str, Any]:
        ln = plain(log)
        square = 2.0 * (ln(2.0 * self.actions) + 3.0 * ln(float(self.horizon)))
        return {"square": square, "power": -min(float(self.alpha), 0.5)}

    def start(self, state: Any) -> None:
        state["index"][:] = math.inf

    @staticmethod
    def predict(params, state, context, draw):
        action = largest_index(state.index, state.predicted)
        count(params, state, action)
        return action, 1.0

    @staticmethod
    def predict_among(params, state, context, allowed, draw):
        action = largest_among(state.index, state.predicted, allowed)
        count(params, state, action)
        return action, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.total[action] += feedback[0]
        if state.predicted[action] > 0:
            state.index[action] = state.total[action] / float(state.predicted[action]) + state.bonus[action]

    @staticmethod
    def replace(params, state, action):
        state.total[action] = 0.0
        state.bonus[action] = 0.0
        state.index[action] = math.inf
        state.predicted[action] = 0


@kernel
def count(params, state, action):
    """The action is predicted once more."""
    state.predicted[action] += 1
    plays = float(state.predicted[action])
    state.bonus[action] = math.sqrt(params.square / plays) + 2.0 * exp(params.power * log(plays))
    state.index[action] = state.total[action] / plays + state.bonus[action]
