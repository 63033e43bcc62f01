"""Long forms, run by `make soak`."""

from __future__ import annotations

import subprocess
import sys

import pytest

import belated as bl
from belated.checks.contract import allowed, arena
from belated.checks.learner import predicts_honestly
from tests.test_oracle import PAIRS, check, random_case

pytestmark = pytest.mark.soak


@pytest.mark.parametrize(("kind", "learner"), PAIRS)
def test_sixty_long_plays_agree_with_the_reference(kind, learner):
    # Importance weights blow up rounding: two exact programs part ways after some thousand rounds (see the reference).
    rounds = 600 if learner in ("UCB1", "ChernoffUCB", "KLUCB", "EpsilonGreedy") else 300
    for seed in range(100, 160):
        table, taus, seed, expiry = random_case(seed, rounds=rounds)
        check(kind, learner, table, taus, engine="compiled", seed=seed, expiry=expiry)


@pytest.mark.parametrize("name", bl.catalog.LEARNERS)
def test_compiled_is_python_over_ten_thousand_rounds(name):
    learner = bl.catalog.LEARNERS[name].example()
    game = arena(learner, 10_000)
    for forecaster in allowed(learner):
        for law in (bl.delays.Geometric(mean=100), bl.delays.Lossy(bl.delays.Pareto(mean=50, alpha=1.2), 0.01)):
            one, two = (
                bl.play(forecaster(learner), game, law, rounds=10_000, record=True, expiry=2000, engine=e)
                for e in ("compiled", "python")
            )
            assert (one.actions == two.actions).all()
            assert (one.regret == two.regret).all()


BARTOK = bl.games.bartok()
STATING = [make.example() for make in bl.catalog.LEARNERS.values()] + [
    bl.RandCBP(BARTOK.loss, BARTOK.symbols),
    bl.RandCBPside(BARTOK.loss, BARTOK.symbols, features=2, ridge=0.01),
    bl.PerContext(bl.ThompsonBernoulli(3), 2),
]


@pytest.mark.parametrize("learner", STATING, ids=lambda learner: type(learner).__name__)
def test_one_may_divide_by_every_probability_that_is_stated(learner):
    """1{A = a} / p averages to one, early and late, among all actions and among some."""
    assert learner.states_probability
    predicts_honestly(learner, after=(0, 10, 40, 150), tries=20_000)
    if learner.predict_among is not None:
        predicts_honestly(learner, after=(10, 150), tries=20_000, among=(0, learner.actions - 1))


def test_memory_stays_flat_over_a_billion_rounds():
    program = """
import resource, sys
import belated as bl
def play(rounds):
    game = bl.games.Bernoulli([.1 * i for i in range(10)])
    bl.play(bl.DelayedUCB1(10), game, bl.delays.Constant(1000), rounds=rounds)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
play(1000)
before = play(10**6)
print(play(10**9) - before)
"""
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert int(ran.stdout) < 20_000  # kilobytes


def test_a_hundred_interruptions_stop_at_once(tmp_path):
    program = """
import os, signal, threading, time
import belated as bl
worst = 0.0
for i in range(100):
    threading.Timer(0.2 + 0.01 * (i % 7), lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        bl.play(bl.BOLD(bl.Exp3(4)), bl.games.Bernoulli([.1, .2, .3, .4]), bl.delays.Geometric(mean=50),
                rounds=10**10, replications=2, threads=1 + i % 2)
    except KeyboardInterrupt:
        pass
    assert threading.active_count() <= 2, threading.enumerate()
print("stopped")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ran.stdout.strip() == "stopped", ran.stderr


def test_the_whole_paper_survives_kills(tmp_path):
    """Killed three times, then finished: no verdict against the paper's theorems."""
    command = [sys.executable, "-m", "belated.cli", "paper", "--out", str(tmp_path)]
    for seconds in (8, 20, 35):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=seconds)
        process.kill()
        process.wait()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert " reused" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    fails = [row for row in rows if "fails" in row[:2]]
    assert len(fails) <= 1 and "published" in (tmp_path / "index.html").read_text()
