"""The bounds of learners that are told late, in many cells: waves, blocks and walks under all kinds of delays."""

from __future__ import annotations

import numpy as np
import pytest

import belated as bl
from belated.checks import learner
from belated.kernels.compile import COMPILED
from tests.plainly import plain

LEARNERS = [
    bl.DelayedExp3(4),
    bl.HybridFTRL(4),
    bl.HybridFTRL(4, caution=0.3),
    bl.HybridFTRL(4, skip=True),
    bl.CappedExp3(4, 4, 20),
    bl.DelayedExp4(4, 3),
]


def adversaries(actions, delay):
    """A wave that changes every 2 d rounds, blocks as long as the delay, a walk."""
    return [
        square_wave(actions, 2 * delay),
        bl.games.Block(actions, delay + 1, feedback="bandit"),
        bl.games.RandomWalk(actions, feedback="bandit"),
    ]


def square_wave(actions, half, rounds=2000):
    """The good action changes every `half` rounds, in turn."""
    table = np.zeros((rounds, actions))
    table[np.arange(rounds), (np.arange(rounds) // half) % actions] = 1.0
    return bl.games.RewardTable(table)


def laws(delay):
    """Delays that are at most twice as long, or heavy, or lost; all but the last two are bounded."""
    return [
        bl.delays.Constant(delay),
        bl.delays.Uniform(0, 2 * delay),
        bl.delays.Batched(2 * delay + 1),
        bl.delays.Geometric(mean=delay),
        bl.delays.Lossy(bl.delays.Pareto(mean=delay, alpha=1.5), 0.05),
    ]


#: Four experts, three of whom always advise the same action.
ADVICE = bl.games.Advice([0.2, 0.7, 0.4], [[1, 0, 0], [0.2, 0.3, 0.5], [0, 1, 0], [0, 0, 1]])


def cells(specs, delay, rounds, replications, **options):
    """Each learner in each game under each law in which it has a bound: the ratios of mean regret and bound."""
    for spec in specs:
        advised = isinstance(spec, bl.DelayedExp4)
        for game in [ADVICE] if advised else adversaries(spec.actions, delay):
            for law in laws(delay):
                if getattr(spec, "keeps", 0) and (law.maximum is None or law.maximum >= spec.keeps):
                    continue
                r = bl.play(bl.Direct(spec), game, law, rounds, replications=replications, **options)
                assert r.bound is not None, r.bound_reason
                ratio = r.regret[:, -1].mean() / r.bound
                assert ratio <= 1, (spec, game, law)
                yield ratio


@plain
@pytest.mark.parametrize("spec", LEARNERS, ids=repr)
def test_bounds_hold(spec):
    assert len(list(cells([spec], 10, 60, 1, engine="python"))) >= 5


@pytest.mark.soak
@pytest.mark.skipif(not COMPILED, reason="thirty million rounds")
def test_bounds_hold_in_a_thousand_cells():
    met = []
    for delay in (1, 2, 5, 10, 20, 30, 60, 100):
        for k in (2, 5):
            specs = [bl.DelayedExp3(k), bl.HybridFTRL(k), bl.HybridFTRL(k, 0.2), bl.HybridFTRL(k, skip=True)]
            met += cells([*specs, bl.CappedExp3(k, 5, 2 * delay)], delay, 1000, 20)
        met += cells([bl.DelayedExp4(4, 3)], delay, 1000, 20)
    assert len(met) >= 1000 and max(met) <= 1, (len(met), max(met))


@pytest.mark.skipif(not COMPILED, reason="both forms are compared")
def test_the_skipping_form_compiled():
    learner.compiled_is_python(bl.HybridFTRL(3, skip=True, window=40), [bl.Direct])
