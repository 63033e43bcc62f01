"""Statistics, folded from the events: counts, the peak, delays, rewards, and how they went over time.

A `Fold` is what is known of one experiment up to some event. The `Folder` keeps one for each in memory, catches up when
it is asked, and saves them now and then, so that a restart need not read all events again.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from belated.ledger import advice
from belated.ledger.errors import Refused
from belated.ledger.experiment import Experiment
from belated.ledger.items import read_value
from belated.ledger.price import Met, price
from belated.ledger.store import Event, Reader, Store

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
#: Events that are read at a time.
CHUNK = 2000
#: Width of an interval for a mean, in standard errors: 95%.
ERRORS = 1.959963984540054
#: The chance that is left outside of it; and the relative variance of rewards that are alike but for rounding.
UNSEEN = 0.05
ALIKE = 1e-12
#: What can happen to actions.
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
        self.rewards: list[list[float]] = []  # count, sum, sum of squares
        self.waits: list[list[float]] = []  # see advice.Waits
        self.symbols: dict[str, int] = {}
        self.delays: dict[str, int] = {}
        self.longest = 0.0
        self.series: list[list[float]] = []
        self.spacing = 1.0
        if data is not None:
            self.__dict__.update({"total": None} | data)
        self._have(actions)

    def _have(self, actions: int) -> None:
        """Room for so many actions."""
        for counts in (self.pulls, self.before, self.open, self.peaks):
            counts.extend([0] * (actions - len(counts)))
        for _ in range(len(self.rewards), actions):
            self.rewards.append([0, 0.0, 0.0])
            self.waits.append([0, 0.0, 0.0, 0.0, 0.0, 0.0])

    def add(self, event: Event) -> None:
        """The next event."""
        kind, action = event.kind, event.action or 0
        if kind == "change":
            return
        if kind in ("replace", "grow"):
            if event.instance == 0:
                self.kinds[kind] = self.kinds.get(kind, 0) + 1
                self._have(action + 1)
                self.before[action] = self.pulls[action]
                self.rewards[action] = [0, 0.0, 0.0]
                self.waits[action] = [0, 0.0, 0.0, 0.0, 0.0, 0.0]
            return
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
        except (ValueError, TypeError, AttributeError):
            return 0
        if found != FORMAT:
            return found if isinstance(found, int) else 0
        return cls(0, data=data) if data.keys() <= cls(0).__dict__.keys() else 0

    def statistics(self, experiment: Experiment, counters: dict[str, int], queues: dict[int, int]) -> dict[str, Any]:
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
            "queues": [queues.get(cell, 0) for cell in range(cells)] if cells else None,
            "series": {
                "columns": ["at", "outstanding", "peak", "decisions", "feedback"],
                "points": self.series,
            },
            "expired_share": expired / decisions if decisions else 0.0,
            "price": asdict(price(experiment, self._met(experiment, counts))),
            "warnings": advice.warnings(experiment, counts["feedback"] + expired, expired, counts["late"], waits),
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
            "late": counters.get("late", 0),
            "expired": kinds("drop", 0) + kinds("default", 0),
            "cancelled": kinds("cancel", 0),
            "conflicts": counters.get("conflict", 0),
            "duplicates": counters.get("duplicate", 0),
            "unknown": counters.get("unknown", 0),
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
        interval = [experiment.low, experiment.high]
        if mean is not None and count > 1:
            variance = squares / count - mean * mean
            width = ERRORS * math.sqrt(max(variance, 0.0) / (count - 1))
            interval = [max(experiment.low, mean - width), min(experiment.high, mean + width)]
            if variance <= ALIKE * mean * mean:  # all alike: so many others may exist, and none of them be seen
                unseen = 1.0 - UNSEEN ** (1.0 / count)
                interval = [mean + unseen * (end - mean) for end in (experiment.low, experiment.high)]
        return {
            "name": experiment.actions[action],
            "pulls": self.pulls[action] - self.before[action],
            "rewards": count,
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


class Folder:
    """The folds of all experiments. Safe to call from several threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._folds: dict[int, Fold] = {}
        self._changed: set[int] = set()
        self._saving: set[int] = set()
        self._upto: int | None = None
        #: Experiments whose statistics another version saved, and whose events are not all there any more: why.
        self.lost: dict[int, str] = {}
        #: How many events were folded since the last save.
        self.unsaved = 0

    def catch_up(self) -> None:
        """Fold what happened since."""
        with self._lock:
            while self._next():
                pass

    def _next(self) -> bool:
        with self._store.read() as session:
            if self._upto is None or not self._store.exclusive:
                stored = session.folds(-1 if self._upto is None else self._upto)  # others may have come further
                self._upto = max((upto for upto, _ in stored.values()), default=self._upto or 0)
                found = {number: Fold.from_json(text) for number, (_, text) in stored.items()}
                self._folds |= {number: fold for number, fold in found.items() if isinstance(fold, Fold)}
                others = {number: fold for number, fold in found.items() if not isinstance(fold, Fold)}
                if others:
                    self._fold_again(session, others, self._upto)
            events = session.events_after(self._upto, CHUNK)
            if any(event.experiment not in self._folds for _, event in events):
                for row in session.experiments():
                    self._folds.setdefault(row.id, _empty(Experiment.from_row(row)))
        for number, event in events:
            if event.experiment in self._folds:  # others were deleted
                self._folds[event.experiment].add(event)
                self._changed.add(event.experiment)
            self._upto = number
        self.unsaved += len(events)
        return len(events) == CHUNK

    def _fold_again(self, session: Reader, formats: dict[int, int], upto: int) -> None:
        """Fold all events of experiments whose saved statistics are of another version."""
        known = {row.id: Experiment.from_row(row) for row in session.experiments() if row.id in formats}
        folds = {number: _empty(experiment) for number, experiment in known.items()}
        begun: set[tuple[int, int]] = set()
        at = 0
        while at < upto and (events := session.events_after(at, CHUNK)):
            for number, event in events:
                at = number
                if number <= upto and event.experiment in folds:
                    begun |= {(event.experiment, event.instance)} if event.seq == 1 else set()
                    folds[event.experiment].add(event)
        for number, experiment in known.items():
            gone = [at for at in session.checkpoints(number) if (number, at) not in begun]
            if gone:
                self.lost[number] = (
                    f"the statistics of {experiment.name} were saved in format {formats[number]} by another version of "
                    f"belated, this one reads format {FORMAT}; they cannot be made again, since some of their events "
                    "were deleted after the retention time"
                )
            else:
                self.lost.pop(number, None)
            self._folds[number] = folds[number]
            self._changed.add(number)

    def forget(self, experiments: set[int]) -> None:
        """These are gone."""
        with self._lock:
            for number in experiments:
                self._folds.pop(number, None)
                self.lost.pop(number, None)
            self._changed -= experiments
            self._saving -= experiments

    def to_save(self) -> list[tuple[int, int, str]]:
        """Rows that say what is known here; call `saved` once they are committed."""
        with self._lock:
            self._saving |= self._changed
            self._changed = set()
            self.unsaved, upto = 0, self._upto or 0
            return [(each, upto, self._folds[each].to_json()) for each in sorted(self._saving - self.lost.keys())]

    def saved(self) -> None:
        """What `to_save` gave is committed."""
        with self._lock:
            self._saving.clear()

    def statistics(self, experiment: Experiment) -> dict[str, Any]:
        """The statistics of one experiment, up to the last commit."""
        self._store.settle()
        self.catch_up()
        with self._store.read() as session:
            counters = session.counters(experiment.id)
            queues = session.queue_lengths(experiment.id) if experiment.forecaster.queues() else {}
            now = session.now()
        with self._lock:
            if experiment.id in self.lost:
                raise Refused("unsupported", self.lost[experiment.id])
            fold = self._folds.get(experiment.id) or _empty(experiment)
            known = fold.statistics(experiment, counters, queues) | {"at": now}
            return json.loads(json.dumps(known))  # type: ignore[no-any-return]

    def overview(self, experiments: Sequence[Experiment]) -> dict[str, Any]:
        """A few numbers of each experiment, up to the last commit; `trouble` says where they cannot be known."""
        self._store.settle()
        self.catch_up()
        with self._store.read() as session:
            counters = [session.counters(experiment.id) for experiment in experiments]
            now = session.now()
        with self._lock:
            folds = [
                _empty(each) if each.id in self.lost else self._folds.get(each.id) or _empty(each)
                for each in experiments
            ]
            known = [
                fold.brief(of, counts) | ({"trouble": self.lost[of.id]} if of.id in self.lost else {})
                for fold, of, counts in zip(folds, experiments, counters, strict=True)
            ]
            return {"at": now, "experiments": json.loads(json.dumps(known))}


def _empty(experiment: Experiment) -> Fold:
    made = Fold(len(experiment.actions), experiment.learner.feedback == "symbol")
    made.instances = made.seats = experiment.forecaster.seats
    return made
