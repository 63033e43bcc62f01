"""What it costs to turn an object of 20 features into its vector. `python benchmarks/features.py`

Beside it, in turn, in one run: scikit-learn's DictVectorizer on the same object, flat; and what the service does with
a body that has the object, against a body that has its 138 numbers as a list. Medians of the ratios.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from sklearn.feature_extraction import DictVectorizer

import belated as bl
from belated.ledger.experiment import make
from belated.service import api

BLOCK, BLOCKS = 200, 50
VALUES = [f"v{number}" for number in range(8)]
STATED: list[dict[str, Any]] = [
    *({"name": f"n{i}", "kind": "number", "low": 0, "high": 10} for i in range(5)),
    *({"name": f"c{i}", "kind": "category", "values": VALUES, "unknown": "slot"} for i in range(5)),
    *({"name": f"h{i}", "kind": "hashed", "slots": 16, "signed": True} for i in range(4)),
    *({"name": f"b{i}", "kind": "boolean"} for i in range(3)),
    {"name": "user.plan", "kind": "category", "values": ["a", "b"], "missing": "slot"},
    {"name": "user.age", "kind": "number", "missing": "slot"},
    {"name": "tags", "kind": "hashed", "slots": 16, "many": True},
]
CONTEXT: dict[str, Any] = {f"n{i}": 3.5 for i in range(5)} | {f"c{i}": "v3" for i in range(5)}
CONTEXT |= {f"h{i}": "some text" for i in range(4)} | {f"b{i}": True for i in range(3)}
CONTEXT |= {"user": {"plan": "a"}, "tags": ["x", "y", "z"]}
FLAT = {key: value for key, value in CONTEXT.items() if key != "user"} | {"user.plan": "a"}


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(BLOCK):
        work()
    return (time.perf_counter() - start) / BLOCK


def beside(ours: Callable[[], object], other: Callable[[], object]) -> tuple[float, float, float]:
    """Microseconds of both (medians), and the median of the ratios."""
    times = [(seconds(ours), seconds(other)) for _ in range(BLOCKS)]
    one, two = zip(*times, strict=True)
    ratio = statistics.median(b / a for a, b in times)
    return statistics.median(one) * 1e6, statistics.median(two) * 1e6, ratio


def main() -> None:
    features = bl.Features(STATED)
    sparse = DictVectorizer(sparse=False).fit([FLAT | {f"c{i}": value for i in range(5)} for value in VALUES])
    ours, theirs, ratio = beside(lambda: features.vector(CONTEXT), lambda: sparse.transform([FLAT]))
    print(f"20 features, {features.size} numbers: {ours:.1f} us; DictVectorizer {theirs:.1f} us, {ratio:.1f} times")
    named = make("named", ["a", "b"], "direct(linucb)", features=STATED)
    plain = make("plain", ["a", "b"], f"direct(linucb(features={features.size}))")
    objects = json.dumps({"context": CONTEXT}).encode()
    numbers = json.dumps({"context": features.vector(CONTEXT).tolist()}).encode()
    ours, theirs, ratio = beside(lambda: api.decide(named, objects, None), lambda: api.decide(plain, numbers, None))
    print(f"a body with the object {ours:.1f} us; with the numbers {theirs:.1f} us, {ratio:.2f} times")


if __name__ == "__main__":
    main()
