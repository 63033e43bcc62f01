"""Rewards on the scale of other people's code, for learners of ours that take them in [0, 1]."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from belated import require
from belated.errors import InvalidArgument, InvalidFeedback
from belated.forecasters import Forecaster
from belated.protocols import Learner

UNIT = (0.0, 1.0)


def limits_of(reward_range: Any) -> tuple[float, float]:
    """The least and the greatest reward.

    >>> limits_of((5, 5))
    Traceback (most recent call last):
    belated.errors.InvalidArgument: reward_range must be (least, greatest), got (5, 5)
    """
    limits = require.reals("reward_range", reward_range, low=-math.inf, high=math.inf, least=2)
    if len(limits) != 2 or not 0.0 < limits[1] - limits[0] < math.inf:
        raise InvalidArgument(f"reward_range must be (least, greatest), got {reward_range!r}")
    return limits[0], limits[1]


def scaled(forecaster: Forecaster, reward: Any, reward_range: tuple[float, float]) -> Any:
    """The reward as the learner sees it. What is no number stays what it is: the forecaster says what is wrong with it.

    A plain learner may take any reward: it is scaled and checked only where a range was given.
    """
    learner = forecaster.learner
    if reward_range == UNIT and (not isinstance(learner, Learner) or learner.feedback == "symbol"):
        return reward
    try:
        given = np.asarray(reward)
    except ValueError:
        return reward
    if given.dtype.kind not in "biuf" or np.isnan(given).any():
        return reward
    low, high = reward_range
    if not ((given >= low) & (given <= high)).all():
        raise InvalidFeedback(
            f"a reward must lie in reward_range, which is [{low:g}, {high:g}], got {reward!r}: "
            "give reward_range=(least, greatest)"
        )
    return ((given - low) / (high - low)).tolist()
