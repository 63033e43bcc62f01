"""What holds for all tests: who shares a process, which wait for CI, and what coverage need not look at."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from numba.core.ccallback import CFunc
from numba.core.dispatcher import Dispatcher

LINES = (Path(__file__).parent / "slow.txt").read_text().splitlines()
#: How the names of tests begin, and maybe end, that are too slow for every day.
SLOW = [line.partition("...")[::2] for line in LINES if line and not line.startswith("#")]


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a file run in one process, and of the contract checks those of a learner.

    What is compiled for one test then serves the next, and two processes do not compile the same.
    """
    for item in items:
        spec = getattr(item, "callspec", None)
        checked = spec.params.get("spec") if spec is not None and item.path.name == "test_checks.py" else None
        item.add_marker(pytest.mark.xdist_group(item.path.stem + (type(checked).__name__ if checked else "")))
        if any(item.nodeid.startswith(begin) and item.nodeid.endswith(end) for begin, end in SLOW):
            item.add_marker(pytest.mark.minutes)
        if os.environ.get("CI") != "true" and item.get_closest_marker("minutes") is not None:
            item.add_marker(pytest.mark.soak)


def pytest_collection_finish() -> None:
    """What is there by now stays: nobody need look through it for garbage, again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def catalog_as_before() -> Iterator[None]:
    """What a test enters in the catalog is gone after it: others look at everything that is there."""
    from belated.catalog import ENTERED

    before = {kind: dict(table) for kind, table in ENTERED.items()}
    yield
    for kind, table in ENTERED.items():
        if table != before[kind]:
            table.clear()
            table.update(before[kind])


def untraced(compiles: Callable[..., Any]) -> Callable[..., Any]:
    """Without coverage looking on: Numba's compiler is much Python, and takes 1.7 times as long when watched."""

    def run(*given: Any) -> Any:
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            return compiles(*given)
        finally:
            sys.settrace(tracer)

    return run


for compiler in (Dispatcher, CFunc):
    compiler.compile = untraced(compiler.compile)
