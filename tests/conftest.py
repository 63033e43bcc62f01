"""Which tests run in one process: those of a file, and of the contract checks those of a learner.

What is compiled for one test then serves the next, and two processes do not compile the same.
"""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        spec = getattr(item, "callspec", None)
        checked = spec.params.get("spec") if spec is not None and item.path.name == "test_checks.py" else None
        item.add_marker(pytest.mark.xdist_group(item.path.stem + (type(checked).__name__ if checked else "")))
