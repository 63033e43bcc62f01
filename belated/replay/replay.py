"""`replay`: what forecasters and policies would have earned, from a log of somebody else's decisions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated import catalog, notation, require
from belated.errors import InvalidArgument, Unsupported
from belated.forecasters import Forecaster
from belated.protocols import Floats, Learner
from belated.replay.answer import FEW, Answer, Replay
from belated.replay.estimate import ESTIMATORS, Parts, Rounds, difference, holds, plain, with_luck
from belated.replay.follow import Life, follow
from belated.replay.log import Log, Whole
from belated.replay.model import Forward
from belated.replay.policy import Policy, read_policies
from belated.report.stats import Interval, number

#: Lives of fewer rounds than this are refused: what a forecaster earns in them says nothing about it.
LEAST = 20
#: Points of a learning curve.
POINTS = 12
#: Above this share of rounds without a reward a warning is given.
MISSING = 0.01


def replay(
    log: Any,
    forecasters: Any = (),
    *,
    policies: Any = (),
    estimator: str = "dr",
    runs: int = 10,
    clock: str = "rounds",
    clip: float | None = None,
    level: float = 0.95,
    seed: int = 0,
    **columns: Any,
) -> Replay:
    """What forecasters and policies would have earned, from logged decisions with recorded probabilities and delays.

    `log` is what `read_log` takes (and `columns` are passed on to it): by default an export of the service.
    `forecasters` is one, or a list: text such as "bold(exp3)", or forecasters. `policies` do not learn, and their
    probabilities are known: "uniform", a column of the log, a table; one, a list, or a dictionary of names (see
    `policy.py`).

    **What is evaluated.** A forecaster learns, so it cannot be weighted afterwards: it must live through rounds. The
    log is dealt out to `runs` lives. Each starts fresh, is asked in every round of its share, and lives through those
    in which it proposes the logged action and a coin agrees (see `follow.py`). Every round is accepted with the same
    probability c, the smallest of any action, so a life is a play of the forecaster in the same world, of about
    c x (rounds of its share) rounds. Nothing about the forecaster need be known, and lives are independent.

    **What is estimated.** The expected mean reward of such a play: of a forecaster that starts without knowledge, not
    of one that has learned (see the curve for that). All rounds of the log are used for it, not only accepted ones: in
    each, the value of what was proposed is estimated by inverse propensity (ips), with normalised weights (snips),
    doubly robust (dr), or from accepted rounds only (replay); see `estimate.py` for which are unbiased. A policy is not
    asked but weighed, by the probability that it gives the logged action: dr, ips and snips use its whole distribution.

    **Intervals.** `lived` is for the rounds as they were lived through, and holds without any approximation (empirical
    Bernstein, see `estimate.holds`), on thin data and for rare rewards too; it covers more often than `level` says. For
    a policy that is all. What a forecaster earns also depends on the luck of its lives: `value`, `estimates` and
    `curve` are the wider of `lived` and Student's interval over lives, which is an approximation: what befalls fewer
    lives than one in `runs` is not seen. With runs=1 a life is as long as it can be, and the interval is for that one
    life. `rewards` says on how many rewards other than the most common one an estimate rests; fewer than 30 are thin.

    **Decisions that cannot be weighed** (certain ones, and those among some of the actions) count for the logger, whose
    mean is over all decisions with a reward, and for nobody else. Where they are visibly not like the others (what an
    action earns, the side information, or the actions in the others show it) the log is refused.

    **When it holds.** Rewards (with contexts and delays) are drawn independently in the same way in all rounds; the
    logger used the recorded probabilities, and gave no action a smaller one than the log shows (see `Log.least`);
    whether a reward was recorded does not depend on the reward, and whether a decision can be weighed not on what would
    come of it. A world that the logger's own actions change cannot be replayed.

    **Delays.** With clock="rounds" feedback comes after as many accepted rounds as decisions were logged while it was
    outstanding: the forecaster meets the recorded delays, and about as many outstanding feedbacks as the logger had.
    With clock="log" it comes when the log has passed its observation: a forecaster that decides for a random share
    c / runs of the traffic, to which delays are that much shorter in rounds of its own.

    **Small probabilities.** Their weights are large and c is small. `clip` is the largest weight: it makes lives longer
    and intervals shorter, and dr and ips biased, which no interval has in it. The estimators snips and replay hardly
    suffer from it where neither the logger nor the forecaster looks at side information: a proposal then stands until
    it is accepted, and what an action earns does not depend on when the logger took it.

    >>> import numpy as np, polars, belated as bl
    >>> draws = np.random.default_rng(0)
    >>> actions = draws.integers(2, size=4000)
    >>> rewards = (draws.random(4000) < np.where(actions == 1, 0.8, 0.2)).astype(float)
    >>> log = polars.DataFrame({"action": actions, "probability": 0.5, "value": rewards, "decided_at": range(4000)})
    >>> log = log.with_columns(closed_at=polars.col("decided_at") + 20)
    >>> answer = bl.replay(log, "qpmd(ucb1)").answers[0]
    >>> answer.peak, answer.difference.low > 0.1
    (20, True)
    >>> bl.replay(log, policies={"mostly 1": {0: 0.1, 1: 0.9}}).answers[0].value.contains(0.74)
    True
    """
    require.one_of("estimator", estimator, ESTIMATORS)
    require.one_of("clock", clock, ("rounds", "log"))
    require.integer("runs", runs, low=1)
    require.integer("seed", seed, low=0, high=2**64 - 1)
    require.real("level", level, above=0, below=1)
    from belated.replay.read import read_log

    known = log if isinstance(log, Log) else read_log(log, **columns)
    cut = math.inf if clip is None else require.real("clip", clip, low=1)
    given = list(forecasters) if isinstance(forecasters, list | tuple) else [forecasters]
    asked = read_policies(policies, known)
    if not given and not asked:
        raise InvalidArgument("forecasters or policies must name at least one, got none")
    if asked and estimator == "replay":
        raise InvalidArgument(
            "policies are weighed, they do not live: estimator must be dr, ips or snips, got 'replay'"
        )
    largest = min(cut, 1.0 / known.least)
    if given:
        _check_size(known, largest, runs)
    chosen = [_made(each, known) for each in given]
    plan = _Plan(known, Forward(known), estimator, runs, clock, cut, level, seed)
    answers = (*(plan.lives(each) for each in chosen), *(plan.policy(each) for each in asked))
    warnings = (*known.warnings, *_notes(known))
    return Replay(known, _scaled(known, plan.logger), answers, runs, clock, seed, level, 1 / largest, warnings)


def _check_size(log: Log, largest: float, runs: int) -> None:
    if len(log.rows) < LEAST * largest * runs:
        rounds, each = len(log.rows) / largest / runs, "one run" if runs == 1 else f"each of the {runs} runs"
        raise Unsupported(
            f"of {len(log.rows)} usable decisions 1 in {largest:.3g} is accepted (the smallest probability of an "
            f"action, as far as the log shows, is {log.least:.3g}), so that {each} would have {rounds:.2g} "
            f"rounds, fewer than {LEAST}: take a larger log, fewer runs, or clip the weights, which "
            "biases the estimates; or ask about a policy whose probabilities are known"
        )


@dataclass(frozen=True, eq=False)
class _Plan:
    """What all forecasters and policies share: the same rounds, coins and model."""

    log: Log
    model: Forward
    estimator: str
    runs: int
    clock: str
    cut: float
    level: float
    seed: int

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Which decisions have a reward."""
        return ~np.isnan(self.log.reward)

    @cached_property
    def logger(self) -> Interval:
        return holds(plain(self.log.reward[self.known]), self.level)

    def lives(self, forecaster: Forecaster) -> Answer:
        """A forecaster lives through the log."""
        log, rows = self.log, self.log.rows
        largest = min(self.cut, 1.0 / log.least)
        coins = np.random.default_rng([self.seed, 0x5EED]).random(len(rows))
        heads = coins * largest * log.probability[rows] < 1.0
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
        matched = proposed == log.action[rows]
        expected = self.model(proposed)
        every = Rounds(
            reward=log.reward[rows],
            weight=np.where(matched, np.minimum(1.0 / log.probability[rows], largest), 0.0),
            largest=largest,
            expected=expected,
            expected_logged=self.model(log.action[rows]),
            highest=expected,
            accepted=accepted == 1,
            cut=largest * log.least < 1.0 - 1e-12,
            run=np.arange(len(rows)) % self.runs,
            age=age,
        )
        found = self._answer(_text(forecaster), self.estimator, every, 1.0 / log.probability[rows])
        shortest = min(len(life.accepted) for life in lives)
        seen = every.only(self.known[rows])
        return replace(
            found,
            accepted=int(accepted.sum()),
            share=float(accepted.mean()),
            rounds=float(accepted.sum()) / self.runs,
            peak=max(life.peak for life in lives),
            curve=self._curve(seen, shortest),
            warnings=(*found.warnings, *self._about_lives(shortest)),
            proposed=proposed,
        )

    def policy(self, policy: Policy) -> Answer:
        """A policy whose probabilities are known is weighed by them."""
        log, rows = self.log, self.log.rows
        weight = policy.logged / log.probability[rows]
        largest = min(self.cut, max(policy.most / log.least, 1.0))
        expected, highest = (None, None) if policy.chances is None else self.model.under(policy.chances, policy.group)
        every = Rounds(
            reward=log.reward[rows],
            weight=np.minimum(weight, largest),
            largest=largest,
            expected=expected,
            expected_logged=self.model(log.action[rows]),
            highest=highest,
            accepted=None,
            cut=bool((weight > largest).any()),
            run=np.zeros(len(rows), np.int64),
            age=np.zeros(len(rows), np.int64),
        )
        if self.estimator == "dr" and expected is None:
            found = self._answer(policy.name, "ips", every, weight)
            note = "only the probability of the logged action is known: inverse propensity instead of doubly robust"
            return replace(found, warnings=(*found.warnings, note))
        return self._answer(policy.name, self.estimator, every, weight)

    def _answer(self, called: str, estimator: str, every: Rounds, uncut: Floats) -> Answer:
        log, level = self.log, self.level
        there = self.known[log.rows]
        seen = every.only(there)
        lives = seen.run if every.accepted is not None and self.runs > 1 else None
        lived, estimates = {}, {}
        for name in seen.estimators:
            parts = seen.parts(name)
            lived[name] = holds(parts, level)
            estimates[name] = with_luck(lived[name], parts.moved, lives, level)
        ends = [replace(every, reward=np.where(there, every.reward, r)).parts(estimator).value for r in (0.0, 1.0)]
        scale = log.high - log.low
        gain = self._gain(seen.parts(estimator), lives)
        counted = seen.weight > 0.0
        rare = counted & (seen.reward != log.usual)
        answer = Answer(
            forecaster=called,
            estimator=estimator,
            value=_scaled(log, estimates[estimator]),
            difference=Interval(scale * gain.mean, scale * gain.low, scale * gain.high),
            estimates={name: _scaled(log, found) for name, found in estimates.items()},
            lived={name: _scaled(log, found) for name, found in lived.items()},
            extremes=(log.low + scale * ends[0], log.low + scale * ends[1]),
            weighed=int(counted.sum()),
            rewards=int(rare.sum()),
            equal=seen.only(rare).effective,
            effective=seen.effective,
            weight=float(seen.weight.mean()),
            clipped=float((uncut > every.largest * (1 + 1e-12)).mean()),
            warnings=(),
        )
        return replace(answer, warnings=tuple(self._warnings(answer, every.largest)))

    def _gain(self, parts: Parts, lives: Whole | None) -> Interval:
        """The estimate minus what the logger earned, paired by round."""
        log, known = self.log, self.known
        usable = np.zeros(len(log), bool)
        usable[log.rows] = True
        both = difference(parts, usable[known], log.reward[known])
        run = None
        if lives is not None:
            run = np.arange(len(both.top)) % self.runs
            run[usable[known]] = lives
        return with_luck(holds(both, self.level, -1.0, 1.0), both.moved, run, self.level, least=-1.0)

    def _curve(self, seen: Rounds, shortest: int) -> tuple[tuple[float, Interval], ...]:
        """The estimate for stretches of rounds that all lives reached."""
        edges = np.unique(np.linspace(0, shortest, min(POINTS, max(shortest, 1)) + 1).round().astype(np.int64))
        whole = seen.parts(self.estimator)
        points = []
        for start, stop in pairwise(edges):
            which = np.flatnonzero((seen.age >= start) & (seen.age < stop))
            part = whole.only(which)
            run = seen.run[which] if self.runs > 1 else None
            found = with_luck(holds(part, self.level), part.moved, run, self.level)
            points.append((float(start + stop + 1) / 2, _scaled(self.log, found)))
        return tuple(points)

    def _warnings(self, answer: Answer, largest: float) -> list[str]:
        said = []
        if answer.thin:
            said.append(
                f"thin: rewards other than {number(self.log.usual_reward)} that the estimate rests on: {answer.rewards}"
                f" (with their weights worth {number(answer.equal)}), and an effective sample of "
                f"{number(answer.effective)} rounds"
            )
        if largest >= self.cut and answer.clipped:
            said.append(
                f"weights above {number(largest)} are cut, their sum is {answer.weight:.0%} of what it should be: dr "
                "and ips are biased, snips and replay are where the logger looked at side information; no interval has "
                "that bias in it"
            )
        elif not 0.8 < answer.weight < 1.25:
            said.append(
                f"the weights add up to {answer.weight:.0%} of what they are expected to: a few rounds decide, in "
                "which the logger hardly ever took what is asked about"
            )
        return said

    def _about_lives(self, shortest: int) -> list[str]:
        said = []
        if shortest < FEW:
            said.append(
                f"a life had {shortest} rounds: a forecaster learns little in them; take fewer runs, a larger log, "
                "or clip the weights, which biases the estimates"
            )
        if self.runs == 1:
            said.append("one life: the interval leaves out its luck, and holds for this life only")
        return said


def _made(given: Any, log: Log) -> Forecaster:
    """A forecaster over the actions and contexts of the log."""
    if not isinstance(given, Forecaster):
        width = 0 if log.context is None else log.context.shape[1]
        one = log.context_for(1)
        values = one is not None and one.shape[1] == 1 and (one >= 0).all() and (one % 1 == 0).all()
        known = {
            "actions": log.actions,
            "features": max(1, width),
            "experts": max(1, width // log.actions),
            "contexts": int(one.max()) + 1 if values and one is not None else 1,
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
        if learner.steers:
            raise Unsupported(f"{learner!r} steers what comes next, and a log shows what others' actions led to")
        if learner.feedback == "bandit" and not learner.smallest <= 0.0 < 1.0 <= learner.largest:
            raise Unsupported(
                f"{learner!r} takes feedback in [{learner.smallest:g}, {learner.largest:g}]: rewards of a log are told "
                "from 0 to 1"
            )
        if learner.feedback not in ("bandit", "any"):
            raise Unsupported(
                f"{learner!r} learns from {learner.feedback} feedback: a log has the reward of one action"
            )
        side = log.context_for(learner.context_size)
        width = 0 if side is None else side.shape[1]
        if learner.context_size not in (0, width):
            raise Unsupported(f"{learner!r} needs a context of {learner.context_size} numbers, the log has {width}")
    return made


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
