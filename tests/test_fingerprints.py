"""A learner that changes its layout or behaviour must raise its version: saved states depend on it.

After a change that is meant: raise the version, then `python -m tests.test_fingerprints` writes the file anew.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from pathlib import Path

import numpy as np
import pytest

import belated as bl
from belated.checks.contract import arena, choice_of, context_of, feedback_of
from belated.forecasters import saving
from belated.forecasters.instance import Instance

FILE = Path(__file__).parent / "fingerprints.json"


def fingerprint(learner: bl.Learner) -> str:
    """Layout and 400 decisions under Direct-like late updates, with probabilities and points to ten digits."""
    game = arena(learner, 400)
    instance = Instance(learner, (np.uint64(12), np.uint64(34)), 5)
    said = [saving.layout_text(learner)]
    late = []
    for t in range(400):
        context = context_of(game, learner, t)
        action, probability = instance.predict(context)
        said.append(f"{action} {probability:.10g}")
        if learner.point_size:
            said.append(" ".join(f"{x:.10g}" for x in choice_of(instance, action)))
        feedback = feedback_of(game, learner, t, action)
        late.append((instance.predictions, context, action, probability, feedback, instance.memo))
        if len(late) > 3 and t % 7:
            number, *rest = late.pop(0)
            instance.answer(number, *rest)
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]


def chosen(make: type[bl.Learner]) -> bl.Learner:
    needed = [p.name for p in inspect.signature(make).parameters.values() if p.default is p.empty]
    return make(actions=4) if needed == ["actions"] else make.example()


def everything() -> dict[str, dict[str, str]]:
    found = {}
    for name, make in bl.catalog.LEARNERS.items():
        learner = chosen(make)
        found[name] = {"version": learner.version, "fingerprint": fingerprint(learner)}
    return found


@pytest.mark.parametrize("name", bl.catalog.LEARNERS)
def test_version_is_raised_with_layout_and_behaviour(name):
    kept = json.loads(FILE.read_text())
    assert name in kept, f"{name} is new: run python -m tests.test_fingerprints"
    learner = chosen(bl.catalog.LEARNERS[name])
    now = {"version": learner.version, "fingerprint": fingerprint(learner)}
    if now["version"] == kept[name]["version"]:
        assert now == kept[name], f"{name} changed: raise its version, then run python -m tests.test_fingerprints"
    else:
        assert now["fingerprint"] != kept[name]["fingerprint"], f"{name}: a new version that changes nothing"
        pytest.fail(f"{name} has a new version: run python -m tests.test_fingerprints")


def test_a_changed_learner_is_noticed():
    class UCB1(bl.UCB1):
        @staticmethod
        def predict(params, state, context, draw):
            state.predicted[0] += 1
            return 0, 1.0

    assert fingerprint(UCB1(4)) != fingerprint(bl.UCB1(4))


if __name__ == "__main__":
    FILE.write_text(json.dumps(everything(), indent=1) + "\n")
