"""A learner of one's own, as a spec with kernels: from a file, by exec, from standard input."""

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import belated as bl
from belated.kernels.compile import kernel

KINDS = [bl.Direct, bl.BOLD, bl.QPMD]
ROOT = Path(bl.__file__).parents[1]
kinds = pytest.mark.parametrize("kind", KINDS)


OWN = """
from dataclasses import dataclass
import numpy as np
import belated as bl


@dataclass(frozen=True)
class Own(bl.Learner):
    actions: int

    def layout(self):
        return np.dtype([("total", "f8", (self.actions,))])

    @staticmethod
    def predict(params, state, context, draw):
        return int(np.argmax(state.total)), 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.total[action] += feedback[0] - 0.5
"""
PLAY = """
table = np.array([[1.0, 0.0, 0.0]] * 5 + [[0.0, 1.0, 0.0]] * 25)
given = (bl.Direct(Own(actions=3)), bl.games.RewardTable(table), bl.delays.Constant(1), 30)
compiled = bl.play(*given, record=True, engine="compiled").actions[0].tolist()
plain = bl.play(*given, record=True, engine="python").actions[0].tolist()
assert compiled == plain
"""


@kernel
def poor(reward):
    return reward < 0.5


@dataclass(frozen=True)
class Lazy(bl.Learner):
    """Stays with an action while it earns, else goes to the next; written in this file."""

    actions: int

    def layout(self):
        return np.dtype([("at", "i8")])

    @staticmethod
    def predict(params, state, context, draw):
        return state.at, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        if action == state.at and poor(feedback[0]):
            state.at = (state.at + 1) % 3


@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_a_learner_of_ones_own_plays_compiled(engine):
    rewards = np.random.default_rng(0).integers(0, 2, (60, 3)).astype(float)
    taus = np.random.default_rng(1).integers(0, 6, 60)
    r = bl.play(
        bl.Direct(Lazy(3)), bl.games.RewardTable(rewards), bl.delays.Trace(taus), 60, record=True, engine=engine
    )
    at, expected, due = 0, [], {}
    for t in range(60):
        expected.append(at)
        due.setdefault(t + taus[t], []).append(t)
        for s in due.pop(t, []):
            if expected[s] == at and rewards[s, at] < 0.5:
                at = (at + 1) % 3
    assert r.actions[0].tolist() == expected


def test_a_learner_defined_by_exec_plays_compiled():
    space = {"__name__": "notebook"}
    exec(OWN + PLAY, space)
    assert space["compiled"][:5] == [0] * 5
    assert set(space["compiled"]) == {0, 1}


def test_two_learners_of_one_name_defined_by_exec_are_two():
    """As in a notebook whose cell is run again after a change."""
    plays = []
    for change in ("argmax", "argmin"):
        space = {"__name__": "notebook"}
        exec(OWN.replace("argmax", change) + PLAY, space)
        plays.append(space["compiled"])
    assert plays[0] != plays[1]


def test_a_learner_typed_into_python_plays_compiled(tmp_path):
    done = subprocess.run(
        [sys.executable, "-"],
        input=OWN + textwrap.dedent(PLAY) + "\nprint('played', sorted(set(compiled)))\n",
        env={**os.environ, "PYTHONPATH": str(ROOT), "BELATED_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("played [0")
