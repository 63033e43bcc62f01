"""Statistics, folded from the events: counts, the peak, delays, rewards, and how they went over time.

A `Fold` is what is known of one experiment up to some event; `folder.py` keeps one for each.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from belated.ledger import advice
from belated.ledger.errors import Damaged
from belated.ledger.experiment import Experiment
from belated.ledger.items import read_value
from belated.ledger.price import Met, price
from belated.ledger.store import ALL, Event
from belated.theory.intervals import from_sums

#: Raised whenever what a saved fold holds, or means, changes. Those that say nothing are of the first.
FORMAT = 1
#: Delays are counted in classes; each ends 2^(1/4) times as late as the one before. Class 0 ends at a millisecond.
LEAST_DELAY = 0.001
PER_DOUBLING = 4
QUANTILES = (0.5, 0.9, 0.99)
#: Points of a series, of which every other is dropped when there are more.
POINTS = 500
#: Points of the series in an overview.
FEW = 60
#: The level of the interval of a mean reward.
LEVEL = 0.95
#: What can happen to a decision, and to actions.
KINDS = frozenset({"decide", "feedback", "stale", "default", "drop", "cancel"})
CHANGES = {"replace": "replaced", "grow": "added"}


class Fold:
    """What is known of one experiment."""

    def __init__(self, actions: int, symbolic: bool = False, data: dict[str, Any] | None = None) -> None:
        self.symbolic = symbolic
        self.kinds: dict[str, int] = {}
        self.outstanding = 0
        self.peak = 0
        self.total: int | None = 0  # the sum of G_t; None where earlier versions did not count it
        self.instances = self.seats = 1  # how many there are, and were at first
        self.pulls: list[int] = []
        self.before: list[int] = []  # pulls of actions that had the number earlier
        self.open: list[int] = []
        self.peaks: list[int] = []
        self.rewards: list[list[float]] = []  # count, sum, sum of squares; what was learned by default is among them
        self.defaults: list[int] | None = []  # how many of those were learned by default; None: they are not among them
        self.waits: list[list[float]] = []  # see advice.Waits
        self.symbols: dict[str, int] = {}
        self.delays: dict[str, int] = {}
        self.longest = 0.0
        self.series: list[list[float]] = []
        self.spacing = 1.0
        self.at = 0.0  # when the last event was
        if data is not None:
            earlier: list[int] | None = None if data.get("kinds", {}).get("default") else []
            self.__dict__.update({"total": None, "defaults": earlier} | data)
        self._have(actions)

    def _have(self, actions: int) -> None:
        """Room for so many actions."""
        for counts in (self.pulls, self.before, self.open, self.peaks, self.defaults):
            if counts is not None:
                counts.extend([0] * (actions - len(counts)))
        for _ in range(len(self.rewards), actions):
            self.rewards.append([0, 0.0, 0.0])
            self.waits.append([0, 0.0, 0.0, 0.0, 0.0, 0.0])

    def add(self, event: Event) -> None:
        """The next event."""
        kind, action = event.kind, event.action or 0
        self.at = event.at
        if kind == "change":
            return
        if kind in ("replace", "grow"):
            if event.instance in (0, ALL):
                self.kinds[kind] = self.kinds.get(kind, 0) + 1
                self._have(action + 1)
                self.before[action] = self.pulls[action]
                self.rewards[action] = [0, 0.0, 0.0]
                self.waits[action] = [0, 0.0, 0.0, 0.0, 0.0, 0.0]
                if self.defaults is not None:
                    self.defaults[action] = 0
            return
        if kind not in KINDS or not 0 <= action < len(self.pulls):
            raise Damaged(f"an event that is {kind!r} of action {event.action}")
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if kind == "decide":
            self.peak = max(self.peak, self.outstanding)
            self.total = None if self.total is None else self.total + self.outstanding
            self.outstanding += 1
            self.instances += event.instance >= self.seats and event.seq == 1  # numbers may have gaps
            self.pulls[action] += 1
            self.peaks[action] = max(self.peaks[action], self.open[action])
            self.open[action] += 1
        else:
            self.outstanding -= 1
            self.open[action] -= 1
            if kind == "feedback":
                self._reward(event)
            if kind == "default" and self.defaults is not None:
                self.defaults[action] += 1
                self._count(action, read_value(event.value))
            if kind in ("feedback", "stale"):
                self._delay(event.delay or 0.0)
        self._point(event.at)

    def _reward(self, event: Event) -> None:
        value = read_value(event.value)
        self._wait(event.action or 0, event.delay or 0.0, value if isinstance(value, float | int) else 0.0)
        if self.symbolic:
            key = f"{event.action}:{value}"
            self.symbols[key] = self.symbols.get(key, 0) + 1
            return
        numbers = enumerate(value) if isinstance(value, list) else ((event.action or 0, value),)
        for action, number in numbers:
            self._count(action, number)

    def _count(self, action: int, number: float) -> None:
        reward = self.rewards[action]
        reward[0] += 1
        reward[1] += number
        reward[2] += number * number

    def _wait(self, action: int, delay: float, reward: float) -> None:
        x = math.log(max(delay, LEAST_DELAY))
        number, sum_x, sum_xx, sum_xy, sum_y, sum_yy = self.waits[action]
        sums = [sum_x + x, sum_xx + x * x, sum_xy + x * reward, sum_y + reward, sum_yy + reward * reward]
        self.waits[action] = [number + 1, *sums]

    def _delay(self, delay: float) -> None:
        step = math.ceil(PER_DOUBLING * math.log2(delay / LEAST_DELAY)) if delay > LEAST_DELAY else 0
        self.delays[str(step)] = self.delays.get(str(step), 0) + 1
        self.longest = max(self.longest, delay)

    def _point(self, at: float) -> None:
        last = self.series[-1] if self.series else None
        if last is None or at >= last[0] + self.spacing:
            last = [at, 0, 0, 0, 0]
            self.series.append(last)
        last[1:] = [self.outstanding, self.peak, self.kinds.get("decide", 0), self.kinds.get("feedback", 0)]
        if len(self.series) > POINTS:
            self.series = self.series[::2]
            self.spacing = max(2.0 * self.spacing, (at - self.series[0][0]) / len(self.series))

    # --- as data ---

    def to_json(self) -> str:
        """As it is saved."""
        return json.dumps({"format": FORMAT, **self.__dict__})

    @classmethod
    def from_json(cls, text: str) -> Fold | int:
        """What was saved; the format it was saved in if that is another (0 if it cannot be read at all)."""
        try:
            data = json.loads(text)
            found = data.pop("format", 1)
            if found != FORMAT:
                return found if isinstance(found, int) else 0
            made = cls(0, data=data)
            return made if made._sound() else 0
        except (ValueError, TypeError, AttributeError):
            return 0

    def _sound(self) -> bool:
        """Whether everything is of the kind that it must be: a damaged one is made again from the events."""
        blank = Fold(0).__dict__
        if self.__dict__.keys() != blank.keys():
            return False
        lists = (self.pulls, self.before, self.open, self.peaks, [] if self.defaults is None else self.defaults)
        wide = ((self.rewards, 3), (self.waits, 6), (self.series, 5))
        numbers = [self.outstanding, self.peak, self.total or 0, self.longest, self.spacing, self.at]
        numbers += [self.seats, self.instances]
        numbers += [each for some in (self.kinds, self.symbols, self.delays) for each in some.values()]
        numbers += [each for some in lists for each in some]
        numbers += [each for rows, width in wide for row in rows for each in row if len(row) == width]
        return (
            all(isinstance(each, float | int) for each in numbers)
            and all(len(some) == len(self.pulls) for some in (*lists[:4], self.rewards, self.waits))
            and all(len(row) == width for rows, width in wide for row in rows)
        )

    def statistics(
        self, experiment: Experiment, counters: dict[str, int], queues: dict[int, int] | None
    ) -> dict[str, Any]:
        """All of it, for people and programs."""
        self._have(len(experiment.actions))
        cells = experiment.forecaster.queues()
        counts = self.counts(counters)
        expired, decisions = counts["expired"], counts["decisions"]
        waits = self._waits()
        return counts | {
            "plays": experiment.plays,
            "rule": {name: getattr(experiment.forecaster, name) for name in ("grows", "formula", "about")},
            "dropped": self.kinds.get("stale", 0),
            "replacements": len(experiment.retired),
            "additions": self.kinds.get("grow", 0),
            "pulls": self.pulls,
            "actions": [self._action(experiment, action) for action in range(len(experiment.actions))],
            "symbols": self.symbols,
            "delays": self._delays(),
            "queues": [queues.get(cell, 0) for cell in range(cells)] if cells and queues is not None else None,
            "series": {
                "columns": ["at", "outstanding", "peak", "decisions", "feedback"],
                "points": self.series,
            },
            "expired_share": expired / decisions if decisions else 0.0,
            "price": asdict(price(experiment, self._met(experiment, counts))),
            "warnings": [
                *advice.defaults(experiment, self.outstanding, counts["feedback"] + expired, self.defaults),
                *advice.warnings(experiment, counts["feedback"] + expired, expired, counts["late"], waits),
            ],
            "notes": advice.notes(experiment),
        }

    def counts(self, counters: dict[str, int]) -> dict[str, int]:
        """How often what happened."""
        kinds = self.kinds.get
        return {
            "decisions": kinds("decide", 0),
            "feedback": kinds("feedback", 0) + kinds("stale", 0),
            "outstanding": self.outstanding,
            "peak": self.peak,
            "instances": self.instances,
            "late": int(counters.get("late", 0)),
            "expired": kinds("drop", 0) + kinds("default", 0),
            "cancelled": kinds("cancel", 0),
            "conflicts": int(counters.get("conflict", 0)),
            "duplicates": int(counters.get("duplicate", 0)),
            "unknown": int(counters.get("unknown", 0)),
        }

    def brief(self, experiment: Experiment, counters: dict[str, int]) -> dict[str, Any]:
        """What one line of an overview shows: counts, how many warnings, and the outstanding over time."""
        counts = self.counts(counters)
        expired = counts["expired"]
        said = advice.warnings(experiment, counts["feedback"] + expired, expired, counts["late"], self._waits())
        every = -(-len(self.series) // FEW) or 1
        return counts | {
            "plays": experiment.plays,
            "warnings": len(said),
            "outstanding_series": [point[:2] for point in self.series[::-every][::-1]],
        }

    def _waits(self) -> list[advice.Waits]:
        return [advice.Waits(int(count), *sums) for count, *sums in self.waits]

    def _met(self, experiment: Experiment, counts: dict[str, int]) -> Met:
        """What the theorems want to know."""
        width = experiment.high - experiment.low
        means = None
        if experiment.learner.feedback != "symbol" and all(count for count, _, _ in self.rewards):
            means = tuple((total / count - experiment.low) / width for count, total, _ in self.rewards)
        lost = [(counts["expired"], "expired"), (counts["cancelled"], "were cancelled")]
        said = [f"{count:,} of the decisions {kind}" for count, kind in lost if count]
        said += [f"actions were {word}" for kind, word in CHANGES.items() if self.kinds.get(kind)]
        waits = self._waits()
        if experiment.takes_numbers and advice.by_reward(waits) is not None:
            said.append("delays go with rewards")
        if "action" in experiment.forecaster.excludes and advice.by_action(waits):
            said.append("delays go with actions")
        lost_words = " and ".join(said) or None
        return Met(counts["decisions"], self.peak, tuple(self.peaks), means, lost_words, self.total)

    def _action(self, experiment: Experiment, action: int) -> dict[str, Any]:
        count, total, squares = self.rewards[action]
        mean = total / count if count else None
        # It holds at all times together: how often a learner plays an action depends on what that has paid.
        ends = (experiment.low, experiment.high)
        interval = list(from_sums(int(count), total, squares, *ends, LEVEL))
        default, waiting = experiment.on_expiry, self.open[action]
        if default is not None and waiting and mean is not None:  # all that is open may end by default
            sums = (total + waiting * default, squares + waiting * default * default)
            other = from_sums(int(count) + waiting, *sums, *ends, LEVEL)
            interval = [min(interval[0], other[0]), max(interval[1], other[1])]
        return {
            "name": experiment.actions[action],
            "pulls": self.pulls[action] - self.before[action],
            "rewards": count,
            "defaults": None if self.defaults is None else self.defaults[action],
            "mean": mean,
            "interval": interval,
            "open": self.open[action],
            "peak": self.peaks[action],
            "typical_delay": advice.Waits(*self.waits[action]).typical,  # type: ignore[arg-type]
        }

    def _delays(self) -> dict[str, Any]:
        steps = sorted((int(step), count) for step, count in self.delays.items())
        total = sum(count for _, count in steps)
        ends = [[LEAST_DELAY * 2.0 ** (step / PER_DOUBLING), count] for step, count in steps]
        found = {}
        for q in QUANTILES:
            reached, wanted = 0, q * total
            for end, count in ends:
                reached += count
                if reached >= wanted:
                    found[str(q)] = min(end, self.longest)
                    break
        return {"histogram": ends, "quantiles": found, "longest": self.longest if total else None}


def empty(experiment: Experiment) -> Fold:
    """Nothing is known yet."""
    made = Fold(len(experiment.actions), experiment.learner.feedback == "symbol")
    made.instances = made.seats = experiment.forecaster.seats
    return made
