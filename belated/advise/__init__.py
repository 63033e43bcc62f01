"""What should I use? The candidates are simulated in a world that the user describes, for as long as is given.

    advice = bl.advise(actions=10, delays="geometric(100)", seconds=60)
    print(advice.summary())

`world.py` makes the game and the law of delays from the description, `race.py` simulates, `report.py` is what is found,
`command.py` the command line. Who the candidates are stands in `belated.studies.field`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from belated.advise.report import Advice

__all__ = ["advise"]


def advise(
    actions: int | None = None,
    delays: Any = None,
    *,
    log: Any = None,
    decided: str | None = None,
    observed: str | None = None,
    action: str | None = None,
    reward: str | None = None,
    unit: str | None = None,
    drift: str = "none",
    every: int | None = None,
    rewards: Sequence[float] | None = None,
    rounds: int = 10_000,
    feedback: str = "bandit",
    seconds: float = 60.0,
    forecasters: Sequence[Any] = (),
    seed: int = 0,
    threads: int | None = None,
    progress: bool | Callable[[str], Any] | None = None,
) -> Advice:
    """Simulate who may play in the world described, and rank them by regret.

    * `delays`: a law, such as "geometric(100)" or `bl.delays.Lossy(...)`. Or `log`, a file or frame as `bl.audit` takes
      it, with its columns `decided` and `observed`: delays are drawn from it, in decisions; with `action` and `reward`
      it also says how many actions there are and what they pay.
    * `drift`: "none", "switching" (another action becomes the best one every so many rounds, on average) or "walk"
      (rewards wander from one end to the other in about so many); how many is `every`, by itself 1,000.
    * `rewards`: what the actions pay on average, from 0 to 1, if that is known.
    * `feedback`: "bandit" (the reward of the action), "full" (those of all), "conversions" (only sales are told: then a
      decision of the log without feedback is one that did not sell, and the log says how often each action sells).
    * `seconds`: for simulating; what is played for the first time is compiled before, some seconds each.
    * `forecasters`: who plays in the place of the candidates that there are: "bold(exp3)", or specs.

    Ctrl-C ends it early, with what there is by then.

    >>> import belated as bl
    >>> bl.advise(delays="constant(5)", actions=1)
    Traceback (most recent call last):
    belated.errors.InvalidArgument: actions must be >= 2, got 1
    """
    from belated.advise.race import race
    from belated.advise.world import describe

    world = describe(
        actions, delays, log, decided, observed, action, reward, unit, drift, every, rewards, rounds, feedback
    )
    return race(world, seconds, forecasters, seed, threads, progress)
