"""Which theorem covers a run, or why none does: what all theorems want first, then what the forecaster's own says."""

from __future__ import annotations

from typing import Any

import numpy as np

from belated.errors import InvalidArgument
from belated.protocols import Delays, Game, Learner
from belated.theory.case import Case, Counts, unit_of
from belated.theory.theorems import Theorem

_COMPARATORS = {
    "action": "the best action",
    "expert": "the best expert",
    "map": "the best map from values of the side information to actions",
    "policy": "the best policy of its table",
    "truth": "the truth",
}


def covering(rule: Any, game: Game, delays: Delays, counts: Counts) -> Theorem | str:
    """The theorem that covers a run of a forecaster on a game, or the reason why none does."""
    learner = rule.learner
    reason = _outside(learner, game, counts)
    if reason is not None:
        return reason
    learner = learner.facing(game)
    if isinstance(learner, str):
        return learner
    if not isinstance(learner, Learner):
        raise InvalidArgument(f"facing(game) of {rule.learner!r} must return a learner, or why not, got {learner!r}")
    low, scale, unit = _scale(rule, game)
    means = np.asarray(game.means, float) if game.stochastic and game.means is not None else None  # of each value, too
    pools = counts.pools
    case = Case(
        learner=learner,
        n=counts.n,
        peak=np.asarray(counts.summary["peak"], float),
        peaks=np.asarray(counts.cells["peak"], float),
        means=None if means is None else (means / unit - low) * unit / (scale or 1.0),
        scale=scale,
        total=np.asarray(counts.summary["total"], float),
        pool_rounds=np.asarray(pools["rounds"], float) if pools.size else None,
        pool_peaks=np.asarray(pools["peak"], float) if pools.size else None,
        by_action=delays.depends_on_action and game.actions > 1,
        by_reward=delays.depends_on_reward,
        constant=delays.constant,
        longest=delays.maximum,
    )
    found: Theorem | str = rule.theorem(case)
    if not isinstance(found, Theorem | str):
        raise InvalidArgument(f"theorem of {rule!r} must return a Theorem, or why there is none, got {found!r}")
    return found


def _scale(rule: Any, game: Game) -> tuple[float, float, float]:
    """What 0 and 1 of the learner's bounds are: the least reward, the range, and what one of feedback is in regret.

    A learner that is given rewards as they come knows nothing of a smaller range than its own: its bound is in that.
    """
    learner, wide = rule.learner, float(game.largest - game.smallest)
    low, high = rule.reward_range or (learner.smallest, learner.largest)
    if game.feedback not in ("bandit", "full") or not 0.0 < wide < np.inf or not np.isfinite(high - low):
        return 0.0, unit_of(game), 1.0
    unit = float(game.scale) / wide or 1.0
    return float(low), (high - low) * unit, unit


def _outside(learner: Any, game: Game, counts: Counts) -> str | None:
    """What no theorem covers."""
    if not isinstance(learner, Learner):
        return "a plain learner has no stated bound"
    if counts.summary["defaulted"].any():
        return "a default was learned for feedback that did not come in time, which the theorems do not cover"
    if counts.tally["cancelled"].any():
        return "tickets were cancelled, which the theorems do not cover"
    if counts.tally["dropped"].any():
        return "actions were replaced and their feedback dropped, which the theorems do not cover"
    if game.reactive:
        said = learner.facing(game)
        if isinstance(said, str):
            return said
        return f"what {type(game).__name__} does depends on what was played, which the theorems do not cover"
    if getattr(game, "law", None) is not None and getattr(game, "trace", None) is not None:
        return "the regret is that under the law, the outcomes are a given sequence: no theorem speaks of both"
    if game.comparator is None:
        return f"{type(game).__name__} does not say what its regret is against (comparator)"
    if game.comparator == "changing":
        return f"the regret of {type(game).__name__} is against a changing action, the theorems are about a fixed one"
    if learner.comparator != game.comparator:
        theirs, ours = _COMPARATORS[learner.comparator], _COMPARATORS[game.comparator]
        name = type(learner).__name__
        return f"the bound of {name} is against {theirs}, the regret of {type(game).__name__} is against {ours}"
    return None
