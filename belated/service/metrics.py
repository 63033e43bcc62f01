"""What Prometheus reads: counted here by plain additions, put into form when it is asked for."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)


class Histogram:
    """Counts by class, and the sum."""

    def __init__(self, ends: tuple[float, ...]) -> None:
        self.ends = ends
        self.counts = [0] * (len(ends) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.ends, value)] += 1
        self.total += value

    def family(self, name: str, text: str) -> HistogramMetricFamily:
        reached, buckets = 0, []
        for end, count in zip([*map(str, self.ends), "+Inf"], self.counts, strict=True):
            reached += count
            buckets.append((end, float(reached)))
        return HistogramMetricFamily(name, text, buckets=buckets, sum_value=self.total)


class Metrics(Collector):
    """The service in numbers."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.seconds = Histogram(SECONDS)
        self.outcomes: Counter[str] = Counter()
        self.batches = Histogram(SIZES)
        self.batch_seconds = Histogram(SECONDS)
        self.waiting: Callable[[], int] = lambda: 0
        self._lock = threading.Lock()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def batch(self, items: int, weight: int, seconds: float) -> None:
        """The writer served a batch."""
        with self._lock:
            self.batches.add(weight)
            self.batch_seconds.add(seconds)

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("belated_requests", "Requests by route and status.", labels=("route", "status"))
        for (route, status), count in sorted(self.requests.items()):
            requests.add_metric((route, str(status)), count)
        yield requests
        outcomes = CounterMetricFamily("belated_outcomes", "Decisions, and what became of feedback.", labels=("kind",))
        for kind, count in sorted(self.outcomes.items()):
            outcomes.add_metric((kind,), count)
        yield outcomes
        yield self.seconds.family("belated_request_seconds", "From the head of a request to its answer.")
        with self._lock:
            yield self.batches.family("belated_batch_size", "Decisions and feedback in one transaction.")
            yield self.batch_seconds.family("belated_batch_seconds", "A transaction, its commit included.")
        yield GaugeMetricFamily("belated_waiting", "Decisions and feedback that wait for the writer.", self.waiting())

    def text(self) -> bytes:
        """All of it, in Prometheus' format."""
        return generate_latest(self._registry)
