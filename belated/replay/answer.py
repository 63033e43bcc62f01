"""What a replay found."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from belated import catalog
from belated.errors import InvalidArgument
from belated.replay.log import Log, Whole
from belated.report.stats import Interval

#: Below so many effective rounds in all, or accepted rounds in one life, data are thin,
FEW = 100
#: and below so many rewards that are not the most common one.
RARE = 30


@dataclass(frozen=True, eq=False)
class Answer:
    """What is known about one forecaster, or one policy. Rewards are in the units of the log."""

    forecaster: str
    estimator: str
    value: Interval  #: the expected mean reward, by the estimator that was asked for
    difference: Interval  #: the same minus what the logger earned in all its decisions
    estimates: dict[str, Interval]  #: the same by every estimator
    lived: dict[str, Interval]  #: for the lives as they were, without their luck; no approximation is in it
    extremes: tuple[float, float]  #: the estimate if all rewards that are missing were the lowest, or the highest
    weighed: int  #: rounds with a reward and a weight above 0
    rewards: int  #: rewards in these that are not the most common one of the log: what the estimate rests on
    equal: float  #: how many rewards with equal weights would tell as much as these
    effective: float  #: the effective sample size, (sum w)^2 / sum w^2
    weight: float  #: the mean of w, which is 1 but for chance and weights that were cut
    clipped: float  #: the share of rounds whose weight was cut
    warnings: tuple[str, ...]
    # What follows is about lives: a policy has none.
    accepted: int | None = None  #: accepted rounds, of all lives
    share: float | None = None  #: of the usable rounds
    rounds: float | None = None  #: accepted rounds of one life, on average: the horizon
    peak: int | None = None  #: the most feedbacks outstanding in any life
    curve: tuple[tuple[float, Interval], ...] = ()  #: (middle of a stretch of rounds, mean reward there)
    proposed: Whole | None = field(default=None, repr=False)  #: the action it proposed in each usable round

    @property
    def thin(self) -> bool:
        """Whether the estimate rests on little."""
        return self.effective < FEW or self.equal < RARE

    def data(self) -> dict[str, Any]:
        return {
            "forecaster": self.forecaster,
            "estimator": self.estimator,
            **interval_data(self.value),
            "difference": interval_data(self.difference),
            "estimates": {name: interval_data(found) for name, found in self.estimates.items()},
            "lived": {name: interval_data(found) for name, found in self.lived.items()},
            "extremes": list(self.extremes),
            "weighed": self.weighed,
            "rewards": self.rewards,
            "effective_rewards": self.equal,
            "thin": self.thin,
            "effective_sample_size": self.effective,
            "mean_weight": self.weight,
            "accepted": self.accepted,
            "accepted_share": self.share,
            "rounds": self.rounds,
            "peak": self.peak,
            "clipped": self.clipped,
            "curve": [{"round": at, **interval_data(found)} for at, found in self.curve],
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, repr=False, eq=False)
class Replay:
    """The answers for all forecasters and policies, beside what the logger earned."""

    log: Log
    logger: Interval  #: over all decisions with a reward, those that cannot be weighed too
    answers: tuple[Answer, ...]
    runs: int
    clock: str
    seed: int
    level: float
    rate: float  #: c, the probability with which a round is accepted
    warnings: tuple[str, ...]

    def __getitem__(self, name: str) -> Answer:
        for answer in self.answers:
            if answer.forecaster == name:
                return answer
        hint = catalog.nearest(name, [a.forecaster for a in self.answers]) or "it was not replayed"
        raise InvalidArgument(f"there is no answer for {name!r}; {hint}")

    def __repr__(self) -> str:
        said = "; ".join(
            f"{a.forecaster} {a.value}{f', thin: {a.rewards} rewards' if a.thin else ''}" for a in self.answers
        )
        return f"<replay of {len(self.log):,} decisions, which earned {self.logger}: {said}>"

    def data(self) -> dict[str, Any]:
        """Everything as plain data."""
        log = self.log
        return {
            "decisions": len(log),
            "usable": len(log.rows),
            "without_reward": int(np.isnan(log.reward[log.rows]).sum()),
            "actions": list(log.labels),
            "runs": self.runs,
            "clock": self.clock,
            "seed": self.seed,
            "level": self.level,
            "rate": self.rate,
            "logger": {
                **interval_data(self.logger),
                "weighed": int((~np.isnan(log.reward)).sum()),
                "rewards": log.rewards,
                "peak": log.outstanding,
            },
            "forecasters": [answer.data() for answer in self.answers],
            "warnings": list(self.warnings),
        }

    def report(self, out: str | Path) -> Path:
        """Write a page with figures, and replay.json beside it; the path of the page."""
        from belated.replay.report import write_report

        return write_report(self, Path(out))


def interval_data(found: Interval) -> dict[str, float | None]:
    return {
        name: float(x) if np.isfinite(x) else None
        for name, x in (("mean", found.mean), ("low", found.low), ("high", found.high))
    }
