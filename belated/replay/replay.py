"""`replay`: what forecasters would have earned, from a log of somebody else's decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from belated import catalog, notation, require
from belated.errors import InvalidArgument, Unsupported
from belated.forecasters import Forecaster
from belated.protocols import Floats, Learner
from belated.replay.estimate import ESTIMATORS, Rounds, around, mean, sure
from belated.replay.follow import Life, follow
from belated.replay.log import Log, Whole, read_log
from belated.replay.model import Forward
from belated.studies.stats import Interval, number

#: Below so many effective rounds in all, or accepted rounds in one life, a warning is given.
FEW = 100
#: Lives of fewer rounds than this are refused: what a forecaster earns in them says nothing about it.
LEAST = 20
#: Points of a learning curve.
POINTS = 12
#: Above this share of rounds without a reward a warning is given.
MISSING = 0.01


@dataclass(frozen=True, eq=False)
class Answer:
    """What is known about one forecaster. Rewards are in the units of the log."""

    forecaster: str
    estimator: str
    value: Interval  #: the expected mean reward, by the estimator that was asked for
    difference: Interval  #: the same minus what the logger earned, paired by round
    estimates: dict[str, Interval]  #: the same by every estimator
    lived: dict[str, Interval]  #: for the lives as they were, without their luck: the normal martingale interval
    sure: dict[str, Interval]  #: the same by empirical Bernstein, which needs no approximation
    extremes: tuple[float, float]  #: the estimate if all rewards that are missing were the lowest, or the highest
    effective: float  #: the effective sample size, (sum w)^2 / sum w^2
    weight: float  #: the mean of w, which is 1 but for chance and weights that were cut
    accepted: int  #: accepted rounds, of all lives
    share: float  #: of the usable rounds
    rounds: float  #: accepted rounds of one life, on average: the horizon
    peak: int  #: the most feedbacks outstanding in any life
    clipped: float  #: the share of rounds whose weight was cut
    curve: tuple[tuple[float, Interval], ...]  #: (middle of a stretch of rounds, mean reward there)
    warnings: tuple[str, ...]
    proposed: Whole = field(repr=False)  #: the action it proposed in each usable round


@dataclass(frozen=True, repr=False, eq=False)
class Replay:
    """The answers for all forecasters, beside what the logger earned."""

    log: Log
    logger: Interval
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
        said = "; ".join(f"{a.forecaster} {a.value}" for a in self.answers)
        return f"<replay of {len(self.log):,} decisions, which earned {self.logger}: {said}>"

    def data(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "decisions": len(self.log),
            "usable": len(self.log.rows),
            "without_reward": int(np.isnan(self.log.reward[self.log.rows]).sum()),
            "actions": list(self.log.labels),
            "runs": self.runs,
            "clock": self.clock,
            "seed": self.seed,
            "level": self.level,
            "rate": self.rate,
            "logger": {**_data(self.logger), "peak": self.log.outstanding},
            "forecasters": [_answer_data(answer) for answer in self.answers],
            "warnings": list(self.warnings),
        }

    def report(self, out: str | Path) -> Path:
        """Write a page with figures, and replay.json beside it; the path of the page."""
        from belated.replay.report import write_report

        return write_report(self, Path(out))


def replay(
    log: Any,
    forecasters: Any,
    *,
    estimator: str = "dr",
    runs: int = 10,
    clock: str = "rounds",
    clip: float | None = None,
    level: float = 0.95,
    seed: int = 0,
    **columns: Any,
) -> Replay:
    """What forecasters would have earned, from logged decisions with recorded probabilities and delays.

    `log` is what `read_log` takes (and `columns` are passed on to it): by default an export of the service.
    `forecasters` is one, or a list: text such as "bold(exp3)", or forecasters.

    **What is evaluated.** A forecaster learns, so it cannot be weighted afterwards: it must live through rounds. The
    log is dealt out to `runs` lives. Each starts fresh, is asked in every round of its share, and lives through those
    in which it proposes the logged action and a coin agrees (see `follow.py`). Every round is accepted with the same
    probability c, the smallest recorded one, so a life is a play of the forecaster in the same world, of about
    c x (rounds of its share) rounds. Nothing about the forecaster need be known, and lives are independent.

    **What is estimated.** The expected mean reward of such a play: of a forecaster that starts without knowledge, not
    of one that has learned (see the curve for that). All rounds of the log are used for it, not only accepted ones: in
    each, the value of what was proposed is estimated by inverse propensity (ips), with normalised weights (snips),
    doubly robust (dr), or from accepted rounds only (replay); see `estimate.py` for which are unbiased. `value` has
    Student's interval over lives. With runs=1 a life is as long as it can be, and the interval is the normal one of a
    martingale: it holds for that one life, whose luck is not in it. `sure` has intervals of the latter kind without
    normal approximation.

    **When it holds.** Rewards (with contexts and delays) are drawn independently in the same way in all rounds; the
    logger used the recorded probabilities, and never gave any action a smaller one than the smallest recorded; whether
    a reward was recorded does not depend on the reward. A world that the logger's own actions change cannot be
    replayed.

    **Delays.** With clock="rounds" feedback comes after as many accepted rounds as decisions were logged while it was
    outstanding: the forecaster meets the recorded delays, and about as many outstanding feedbacks as the logger had.
    With clock="log" it comes when the log has passed its observation: a forecaster that decides for a random share
    c / runs of the traffic, to which delays are that much shorter in rounds of its own.

    **Small probabilities.** Their weights are large and c is small. `clip` is the largest weight: it makes lives longer
    and intervals shorter, and dr and ips biased. The estimators snips and replay hardly suffer from it where neither
    the logger nor the forecaster looks at side information: a proposal then stands until it is accepted, and what an
    action earns does not depend on when the logger took it.

    >>> import numpy as np, polars, belated as bl
    >>> draws = np.random.default_rng(0)
    >>> actions = draws.integers(2, size=4000)
    >>> rewards = (draws.random(4000) < np.where(actions == 1, 0.8, 0.2)).astype(float)
    >>> log = polars.DataFrame({"action": actions, "probability": 0.5, "value": rewards, "decided_at": range(4000)})
    >>> log = log.with_columns(closed_at=polars.col("decided_at") + 20)
    >>> answer = bl.replay(log, "qpmd(ucb1)").answers[0]
    >>> answer.peak, answer.difference.low > 0.1
    (20, True)
    """
    require.one_of("estimator", estimator, ESTIMATORS)
    require.one_of("clock", clock, ("rounds", "log"))
    require.integer("runs", runs, low=1)
    require.integer("seed", seed, low=0, high=2**64 - 1)
    require.real("level", level, above=0, below=1)
    known = log if isinstance(log, Log) else read_log(log, **columns)
    largest = 1.0 / known.least if clip is None else min(require.real("clip", clip, low=1), 1.0 / known.least)
    if len(known.rows) < LEAST * largest * runs:
        rounds = len(known.rows) / largest / runs
        raise Unsupported(
            f"of {len(known.rows)} usable decisions 1 in {largest:.3g} is accepted (the smallest probability is "
            f"{known.least:.3g}), so that each of the {runs} runs would have {rounds:.2g} rounds, "
            f"fewer than {LEAST}: take a larger log, fewer runs, or clip the weights"
        )
    given = forecasters if isinstance(forecasters, list | tuple) else [forecasters]
    if not given:
        raise InvalidArgument("forecasters must name at least one, got none")
    chosen = [_made(each, known) for each in given]
    model = Forward(known)
    rewards = known.reward[known.rows]
    there = ~np.isnan(rewards)
    logger, moved = mean(rewards[there], np.ones(int(there.sum())), None, level)
    plan = _Plan(known, model, estimator, runs, clock, largest, level, seed, logger.mean, moved)
    answers = tuple(plan.answer(each) for each in chosen)
    return Replay(
        known, _scaled(known, logger), answers, runs, clock, seed, level, 1 / largest, (*known.warnings, *_notes(known))
    )


@dataclass(frozen=True, eq=False)
class _Plan:
    """What all forecasters share: the same rounds, coins and model."""

    log: Log
    model: Forward
    estimator: str
    runs: int
    clock: str
    largest: float
    level: float
    seed: int
    earned: float
    moved: Floats  # what each round moves the logger's mean by

    def answer(self, forecaster: Forecaster) -> Answer:
        log, rows, level = self.log, self.log.rows, self.level
        coins = np.random.default_rng([self.seed, 0x5EED]).random(len(rows))
        heads = coins * self.largest * log.probability[rows] < 1.0
        proposed, age, accepted = (np.zeros(len(rows), np.int64) for _ in range(3))
        lives: list[Life] = []
        for run in range(self.runs):
            mine = slice(run, None, self.runs)
            fresh = forecaster.fresh(seed=self.seed, replication=run)
            life = follow(fresh, log, rows[mine], heads[mine], self.clock == "rounds")
            lives.append(life)
            proposed[mine] = life.proposed
            marks = np.zeros(len(life.proposed), np.int64)
            marks[life.accepted] = 1
            accepted[mine], age[mine] = marks, np.cumsum(marks) - marks
        rewards = log.reward[rows]
        there = ~np.isnan(rewards)
        filled = [self._rounds(np.where(there, rewards, r), proposed, age, accepted) for r in (0.0, 1.0)]
        seen = _only(filled[0], there)
        clusters = seen.run if self.runs > 1 else None
        estimates, lived, certain = {}, {}, {}
        moved = {}
        for name in ESTIMATORS:
            top, bottom = seen.parts(name)
            estimates[name], moved[name] = mean(top, bottom, clusters, level)
            lived[name] = mean(top, bottom, None, level)[0]
            if name != "snips":
                kept = top[seen.accepted] if name == "replay" else top
                width = {"replay": 1.0, "ips": self.largest, "dr": 2 * self.largest - 1}[name]
                certain[name] = sure(kept, width, level)
        value = estimates[self.estimator]
        gain = around(value.mean - self.earned, moved[self.estimator] - self.moved, clusters, level)
        ends = [mean(*each.parts(self.estimator), None, level)[0].mean for each in filled]
        scale = log.high - log.low
        return Answer(
            forecaster=_text(forecaster),
            estimator=self.estimator,
            value=_scaled(log, value),
            difference=Interval(scale * gain.mean, scale * gain.low, scale * gain.high),
            estimates={name: _scaled(log, found) for name, found in estimates.items()},
            lived={name: _scaled(log, found) for name, found in lived.items()},
            sure={name: _scaled(log, found) for name, found in certain.items()},
            extremes=(log.low + scale * ends[0], log.low + scale * ends[1]),
            effective=seen.effective,
            weight=float(seen.weight.mean()),
            accepted=int(accepted.sum()),
            share=float(accepted.mean()),
            rounds=float(accepted.sum()) / self.runs,
            peak=max(life.peak for life in lives),
            clipped=float((log.probability[rows] * self.largest < 1 - 1e-12).mean()),
            curve=self._curve(seen, min(len(life.accepted) for life in lives)),
            warnings=tuple(self._warnings(seen, lives)),
            proposed=proposed,
        )

    def _rounds(self, rewards: Floats, proposed: Whole, age: Whole, accepted: Whole) -> Rounds:
        log, rows = self.log, self.log.rows
        weight = np.where(proposed == log.action[rows], np.minimum(1.0 / log.probability[rows], self.largest), 0.0)
        run = np.arange(len(rows)) % self.runs
        expected = self.model(proposed), self.model(log.action[rows])
        return Rounds(rewards, weight, accepted == 1, *expected, run, age, self.largest)

    def _curve(self, seen: Rounds, shortest: int) -> tuple[tuple[float, Interval], ...]:
        """The estimate for stretches of rounds that all lives reached."""
        edges = np.unique(np.linspace(0, shortest, min(POINTS, max(shortest, 1)) + 1).round().astype(np.int64))
        points = []
        for start, stop in pairwise(edges):
            part = _only(seen, (seen.age >= start) & (seen.age < stop))
            found, _ = mean(*part.parts(self.estimator), part.run if self.runs > 1 else None, self.level)
            points.append((float(start + stop + 1) / 2, _scaled(self.log, found)))
        return tuple(points)

    def _warnings(self, seen: Rounds, lives: Sequence[Life]) -> list[str]:
        said = []
        if seen.effective < FEW:
            said.append(f"the effective sample size is {number(seen.effective)}: the intervals are not to be trusted")
        shortest = min(len(life.accepted) for life in lives)
        if shortest < FEW:
            said.append(
                f"a life had {shortest} rounds: a forecaster learns little in them; take fewer runs, a larger log, "
                "or clip the weights"
            )
        if self.largest * self.log.least < 1 - 1e-12:
            said.append(
                f"weights above {number(self.largest)} are cut, their sum is {seen.weight.mean():.0%} of what it "
                "should be: dr and ips are biased, snips and replay are where the logger looked at side information"
            )
        if self.runs == 1:
            said.append("one life: the interval leaves out its luck, and holds for this life only")
        return said


def _made(given: Any, log: Log) -> Forecaster:
    """A forecaster over the actions and contexts of the log."""
    if not isinstance(given, Forecaster):
        width = 0 if log.context is None else log.context.shape[1]
        values = log.context is not None and width == 1 and (log.context >= 0).all() and (log.context % 1 == 0).all()
        known = {
            "actions": log.actions,
            "features": max(1, width),
            "experts": max(1, width // log.actions),
            "contexts": int(log.context.max()) + 1 if values and log.context is not None else 1,
        }
        data = notation.filled("forecaster", notation.read("forecaster", given), known)
        given = catalog.from_data("forecaster", data)
    made: Forecaster = given
    if made.actions != log.actions:
        raise InvalidArgument(
            f"{made!r} has {made.actions} actions, the log has {log.actions}: {', '.join(log.labels)}"
        )
    if made.reward_range is not None:
        raise InvalidArgument(f"reward_range is the log's own, not of {made!r}")
    learner = made.learner
    if isinstance(learner, Learner):
        if learner.feedback == "bandit" and not learner.smallest <= 0.0 < 1.0 <= learner.largest:
            raise Unsupported(
                f"{learner!r} takes feedback in [{learner.smallest:g}, {learner.largest:g}]: rewards of a log are told "
                "from 0 to 1"
            )
        if learner.feedback not in ("bandit", "any"):
            raise Unsupported(
                f"{learner!r} learns from {learner.feedback} feedback: a log has the reward of one action"
            )
        width = 0 if log.context is None else log.context.shape[1]
        if learner.context_size not in (0, width):
            raise Unsupported(f"{learner!r} needs a context of {learner.context_size} numbers, the log has {width}")
    return made


def _only(rounds: Rounds, which: Any) -> Rounds:
    names = ("reward", "weight", "accepted", "expected", "expected_logged", "run", "age")
    return changed(rounds, **{name: getattr(rounds, name)[which] for name in names})


def _text(forecaster: Forecaster) -> str:
    is_spec = isinstance(forecaster.learner, Learner)
    return notation.text("forecaster", forecaster) if is_spec else repr(forecaster)


def _notes(log: Log) -> list[str]:
    missing = float(np.isnan(log.reward[log.rows]).mean())
    if missing <= MISSING:
        return []
    return [
        f"{missing:.1%} of the rounds have no reward and are left out of the estimates: right only if whether one was "
        "recorded does not depend on it, nor on the action; the extremes show what it could matter"
    ]


def _scaled(log: Log, found: Interval) -> Interval:
    scale = log.high - log.low
    return Interval(*(log.low + scale * x for x in (found.mean, found.low, found.high)))


def _data(found: Interval) -> dict[str, float | None]:
    return {
        name: float(x) if np.isfinite(x) else None
        for name, x in (("mean", found.mean), ("low", found.low), ("high", found.high))
    }


def _answer_data(answer: Answer) -> dict[str, Any]:
    return {
        "forecaster": answer.forecaster,
        "estimator": answer.estimator,
        **_data(answer.value),
        "difference": _data(answer.difference),
        "estimates": {name: _data(found) for name, found in answer.estimates.items()},
        "lived": {name: _data(found) for name, found in answer.lived.items()},
        "sure": {name: _data(found) for name, found in answer.sure.items()},
        "extremes": list(answer.extremes),
        "effective_sample_size": answer.effective,
        "mean_weight": answer.weight,
        "accepted": answer.accepted,
        "accepted_share": answer.share,
        "rounds": answer.rounds,
        "peak": answer.peak,
        "clipped": answer.clipped,
        "curve": [{"round": at, **_data(found)} for at, found in answer.curve],
        "warnings": list(answer.warnings),
    }
