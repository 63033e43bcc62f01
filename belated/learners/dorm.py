"""DORM: regret matching, told late."""

from __future__ import annotations

from dataclasses import dataclass

from belated.learners.hints import Hinted, add_regrets, draw_weighted, guess


@dataclass(frozen=True)
class DORM(Hinted):
    """Delayed optimistic regret matching: p_i ~ max(0, r_i + h_i), all alike if there is none above 0.

    r is the sum of the regrets that are in, <g, p> - g_i with the losses g = 1 - rewards and the p of their own round,
    which the memo keeps; feedback may come in any order. h guesses the sum of those that are missing, the round in
    progress included: 0 (`hint` "none"), so many times the last one that came ("last"), or their mean ("mean"). There
    is no rate to set. No bound is stated: none was proved here.

    Flaspohler, Orabona, Cohen, Mouatadid, Oprescu, Orenstein, Mackey, *Online learning with optimism and delay*, 2021;
    weights are those of their package poold.

    >>> import belated as bl
    >>> f = bl.Direct(bl.DORM(actions=2), seed=1)
    >>> f.update(f.predict().ticket, [1.0, 0.0])
    >>> f.predict()
    Decision(ticket=2, action=0, probability=1.0)
    """

    guarantee = "none proved here"

    @property
    def memo(self) -> int:  # type: ignore[override]
        return self.actions

    @staticmethod
    def predict(params, state, context, draw):
        guess(params, state)
        for i in range(len(state.weight)):
            state.weight[i] = max(state.total[i] + state.hint[i], 0.0)
        said = draw_weighted(state, draw)
        for i in range(len(state.weight)):
            state.memo[i] = state.weight[i]
        return said

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        add_regrets(state, feedback)
