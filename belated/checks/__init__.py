"""Contract checks: what every learner, forecaster, game and delay law must do. Run them on your own.

    from belated import checks
    checks.check_learner(MyLearner(actions=3))       # raises CheckFailed with what is wrong
    checks.check_forecaster(MyForecaster(bl.UCB1(actions=3)))
    checks.check_game(MyGame(...)); checks.check_delays(MyLaw(...))
    checks.check_plain(lambda: MyPlainLearner(3))    # what a forecaster takes that is no spec

A check takes one spec and raises `CheckFailed`. A pair of forecaster and learner that must be refused is checked for
being refused.
"""

from belated.checks.contract import CheckFailed
from belated.checks.environment import DELAY_CHECKS, GAME_CHECKS, check_delays, check_game
from belated.checks.forecaster import FORECASTER_CHECKS, check_forecaster
from belated.checks.learner import LEARNER_CHECKS, check_learner
from belated.checks.plain import PLAIN_CHECKS, check_plain

__all__ = [
    "DELAY_CHECKS",
    "FORECASTER_CHECKS",
    "GAME_CHECKS",
    "LEARNER_CHECKS",
    "PLAIN_CHECKS",
    "CheckFailed",
    "check_delays",
    "check_forecaster",
    "check_game",
    "check_learner",
    "check_plain",
]
