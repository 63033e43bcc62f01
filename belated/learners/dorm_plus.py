"""DORMPlus: regret matching that forgets what is below 0, told late."""

from __future__ import annotations

from dataclasses import dataclass

from belated.learners.dorm import DORM
from belated.learners.hints import add_regrets, draw_weighted, guess


@dataclass(frozen=True)
class DORMPlus(DORM):
    """Delayed optimistic regret matching+: q_i <- max(0, q_i + r_i + h_i - h_i'), p ~ q, all alike if q is 0.

    r is the sum of the regrets that came since the last prediction, h the hint and h' that of the last prediction; both
    are as in `DORM`. In which order feedback comes within a round makes no difference. No bound is stated: none was
    proved here.

    Flaspohler et al., *Online learning with optimism and delay*, 2021; weights are those of their package poold, where
    one feedback comes a round.

    >>> import belated as bl
    >>> f = bl.Direct(bl.DORMPlus(actions=2), seed=1)
    >>> f.update(f.predict().ticket, [1.0, 0.0])
    >>> f.predict()
    Decision(ticket=2, action=0, probability=1.0)
    """

    guarantee = "none proved here"
    more = ("weight", "kept", "fresh", "before")

    @staticmethod
    def predict(params, state, context, draw):
        guess(params, state)
        for i in range(len(state.weight)):
            state.kept[i] = max(state.kept[i] + state.fresh[i] + state.hint[i] - state.before[i], 0.0)
            state.fresh[i] = 0.0
            state.before[i] = state.hint[i]
            state.weight[i] = state.kept[i]
        said = draw_weighted(state, draw)
        for i in range(len(state.weight)):
            state.memo[i] = state.weight[i]
        return said

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        add_regrets(state, feedback)
        for i in range(len(state.fresh)):
            state.fresh[i] += state.last[i]
