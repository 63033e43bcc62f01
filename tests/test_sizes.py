"""Learners with other numbers of actions than the one that is compiled for the checks: in plain Python only."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import belated as bl
from belated.checks import learner
from belated.kernels.compile import COMPILED

pytestmark = pytest.mark.skipif(COMPILED, reason="run without compilation, by the second half of make test")


def needs(cls: Any) -> list[str]:
    """The arguments that a learner cannot do without."""
    return [p.name for p in inspect.signature(cls).parameters.values() if p.default is p.empty]


SIZED = [cls for cls in bl.catalog.LEARNERS.values() if needs(cls) == ["actions"]]


@pytest.mark.parametrize("spec", [cls(actions=k) for k in (1, 2, 7) for cls in SIZED], ids=repr)
def test_learner_with_other_numbers_of_actions(spec: Any) -> None:
    for check in (learner.is_a_spec, learner.accepts_skipped_rounds, learner.no_delay_is_the_base):
        check(spec)
