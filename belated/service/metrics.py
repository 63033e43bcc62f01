"""What Prometheus reads: counted here by plain additions, put into form when it is asked for.

Where several workers serve one port, a scrape meets any of them. So each leaves its numbers in a folder that they
share, and all are added up; a worker that takes the place of another goes on with that one's numbers.
"""

from __future__ import annotations

import json
import os
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
#: Name, text, labels.
COUNTERS = (
    ("requests", "Requests by route and status, on this machine.", ("route", "status")),
    ("outcomes", "Decisions, and what became of feedback and cancellations, on this machine.", ("kind",)),
    ("experiment_outcomes", "The same, of each experiment.", ("experiment", "kind")),
)
#: Name, text, ends of classes, labels.
HISTOGRAMS: tuple[tuple[str, str, Sequence[float], tuple[str, ...]], ...] = (
    ("request_seconds", "From the head of a request to its answer.", SECONDS, ("route",)),
    ("batch_size", "Decisions and feedback in one transaction.", SIZES, ()),
    ("batch_seconds", "A transaction, its commit included.", SECONDS, ()),
)
ENDS = {name: ends for name, _, ends, _ in HISTOGRAMS}
CLASSES = {name: [*map(str, ends), "+Inf"] for name, ends in ENDS.items()}
#: Of each experiment, the same on every machine (so not to be summed over them): name, whether it only rises, text.
EXPERIMENTS = (
    ("decisions", True, "Decisions made."),
    ("feedback", True, "Decisions whose feedback came in time."),
    ("expired", True, "Decisions that expired."),
    ("late", True, "Feedback that came after expiry."),
    ("outstanding", False, "Decisions that wait for feedback: G."),
    ("peak", False, "The most that did so when a decision was made: G*."),
)
#: Seconds after which what another worker said of its queue says nothing any more.
OLD = 5.0


class Numbers(NamedTuple):
    """What the database says: numbers of experiments, which can be used, and by how many seconds they lag."""

    experiments: Sequence[Mapping[str, Any]] = ()
    usable: Mapping[str, bool] = {}
    lag: float = 0.0


NOTHING = Numbers()


class Place(NamedTuple):
    """Where a worker leaves its numbers for the others."""

    folder: Path
    number: int

    @property
    def file(self) -> Path:
        return self.folder / f"{self.number}.json"

    @property
    def writer(self) -> str:
        """Where the writer listens."""
        return str(self.folder / "writer")

    def begin(self) -> None:
        """A worker is to have this place."""
        (self.folder / f"{self.number}.ends").unlink(missing_ok=True)

    def end(self) -> None:
        """Show that the worker takes no more connections."""
        (self.folder / f"{self.number}.ends").touch()

    def ends(self) -> bool:
        """Whether it takes none any more."""
        return (self.folder / f"{self.number}.ends").exists()

    def beat(self) -> None:
        """Show that the worker is not stopped."""
        (self.folder / f"{self.number}.alive").touch()

    def beats(self) -> int:
        """Something that changes with every beat; 0 before the first."""
        try:
            return (self.folder / f"{self.number}.alive").stat().st_mtime_ns
        except OSError:
            return 0


class Metrics(Collector):
    """The service in numbers."""

    def __init__(self, place: Place | None = None) -> None:
        self.counts: Counter[tuple[str, ...]] = Counter()
        self.waiting: Callable[[], int] = lambda: 0
        self._lock = threading.Lock()
        self._place = place
        self._known: Numbers | None = Numbers()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        if place is None:
            ProcessCollector(registry=self._registry)
        else:
            self.counts.update(_read(place.file)[0])

    def count(self, *key: str, by: int = 1) -> None:
        """So many more of a counter, named with its labels."""
        self.counts[key] += by

    def observe(self, name: str, value: float, *labels: str) -> None:
        """One more in a histogram."""
        self.counts[name, *labels, CLASSES[name][bisect_left(ENDS[name], value)]] += 1
        self.counts[name, *labels, "sum"] += value  # type: ignore[assignment]

    def request(self, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        counts = self.counts
        counts["requests", route, str(status)] += 1
        counts["request_seconds", route, CLASSES["request_seconds"][bisect_left(SECONDS, seconds)]] += 1
        counts["request_seconds", route, "sum"] += seconds  # type: ignore[assignment]

    def outcome(self, experiment: str, kind: str, by: int = 1) -> None:
        """So many more decisions, or so much more feedback, of one experiment."""
        counts = self.counts
        counts["outcomes", kind] += by
        counts["experiment_outcomes", experiment, kind] += by

    def batch(self, items: int, weight: int, seconds: float) -> None:
        """The writer served a batch."""
        with self._lock:
            self.observe("batch_size", weight)
            self.observe("batch_seconds", seconds)

    def share(self) -> None:
        """Leave the numbers where the other workers find them."""
        if self._place is not None:
            with self._lock:
                known = list(self.counts.items())
            new = self._place.file.with_suffix(".new")
            new.write_text(json.dumps([known, self.waiting(), time.time()]))
            os.replace(new, self._place.file)

    def _sum(self) -> tuple[Counter[tuple[str, ...]], int]:
        """The numbers of all workers, and how much waits."""
        with self._lock:
            counts, waiting = self.counts.copy(), self.waiting()
        if self._place is not None:
            for file in self._place.folder.glob("*.json"):
                if file != self._place.file:
                    others, theirs = _read(file)
                    counts.update(others)
                    waiting += theirs
        return counts, waiting

    def collect(self) -> Iterator[Metric]:
        counts, waiting = self._sum()
        for name, text, labels in COUNTERS:
            family = CounterMetricFamily(f"belated_{name}", text, labels=labels)
            for key, count in sorted(pair for pair in counts.items() if pair[0][0] == name):
                family.add_metric(key[1:], count)
            yield family
        for name, text, ends, by in HISTOGRAMS:
            histogram = HistogramMetricFamily(f"belated_{name}", text, labels=by)
            for values in sorted({key[1:-1] for key in counts if key[0] == name} | ({()} if not by else set())):
                reached, buckets = 0, []
                for end in [*map(str, ends), "+Inf"]:
                    reached += counts[name, *values, end]
                    buckets.append((end, float(reached)))
                histogram.add_metric(values, buckets, counts[name, *values, "sum"])
            yield histogram
        yield GaugeMetricFamily("belated_waiting", "Decisions and feedback that wait for the writer.", waiting)
        known = self._known
        yield GaugeMetricFamily("belated_database_up", "Whether the database answers.", known is not None)
        if known is None:
            return
        yield GaugeMetricFamily("belated_statistics_lag_seconds", "How old the numbers below are.", known.lag)
        usable = GaugeMetricFamily("belated_experiment_usable", "0: see /v1/overview for why.", labels=("experiment",))
        for name, good in sorted(known.usable.items()):
            usable.add_metric((name,), good)
        yield usable
        for name, rises, text in EXPERIMENTS:
            kind = CounterMetricFamily if rises else GaugeMetricFamily
            each = kind(f"belated_experiment_{name}", text, labels=("experiment",))
            for experiment in known.experiments:
                each.add_metric((experiment["name"],), experiment[name])
            yield each

    def text(self, known: Numbers | None = NOTHING) -> bytes:
        """All of it, in Prometheus' format, with what the database says; None where it does not answer."""
        self._known = known
        with suppress(OSError):  # others then see what was shared last
            self.share()
        return generate_latest(self._registry)


def _read(file: Path) -> tuple[Counter[tuple[str, ...]], int]:
    """What a worker left: its counts, and how much waits for it; nothing if it left nothing."""
    try:
        known, waiting, at = json.loads(file.read_text())
    except OSError:
        return Counter(), 0
    return Counter({tuple(key): count for key, count in known}), waiting if time.time() - at < OLD else 0
