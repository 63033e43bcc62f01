"""Paced, SDB and BOLD with a pool for each value against the second reading of the rules (reference.py)."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import belated as bl
from belated.engine import lanes, workspace
from belated.kernels.compile import COMPILED
from tests.reference import NEVER, simulate
from tests.test_oracle import cases, examples, feedback_of, in_plain_python, random_case

ROOT = Path(bl.__file__).parents[1]
VALUE = {"pools": "value"}
PRIOR = {"prior": ((0, 1.0), (2, 0.0), (0, 0.25), (1, 0.5), (0, 0.0))}
#: forecaster, its parameters, learner, and how many values of side information (0: none). These are compiled.
PAIRS = [
    ("Paced", {}, "Hedge", 0),
    ("Paced", {}, "DelayedHedge", 0),
    ("Paced", {}, "Hedge", 3),
    ("SDB", {}, "UCB1", 0),
    ("SDB", PRIOR, "UCB1", 0),
    ("SDB", {}, "UCB1", 3),
    ("BOLD", VALUE, "Exp3", 3),
    ("BOLD", VALUE, "UCB1", 1),
]
#: And these in plain Python, with any number of actions.
ALL = [
    *[("Paced", {}, learner, values) for learner in ("RoundRobin", "Hedge") for values in (0, 1, 3)],
    ("Paced", {}, "DelayedHedge", 0),
    *[("SDB", {}, learner, values) for learner in ("RoundRobin", "UCB1", "EpsilonGreedy") for values in (0, 1, 3)],
    *[("SDB", {}, learner, 0) for learner in ("KLUCB", "ChernoffUCB", "Hedge", "DelayedHedge")],
    *[("BOLD", VALUE, learner, values) for learner in ("UCB1", "Exp3", "Exp3IX", "Hedge") for values in (1, 2, 5)],
    *[("QPMD", {}, learner, 3) for learner in ("UCB1", "Exp3")],
    *[("BOLD", {}, learner, 3) for learner in ("UCB1", "Exp3IX")],
    ("Direct", {}, "Exp3", 3),
    *[("Direct", {}, learner, 0) for learner in ("DelayedHedge", "DelayedExp3")],
]
pairs = pytest.mark.parametrize(("kind", "rule", "learner", "values"), PAIRS)


def sides(seed, rounds, values):
    """Which value comes in each round; the last may never come."""
    if not values:
        return None
    rng = np.random.default_rng(seed % 2**32)
    return np.minimum(rng.integers(0, values, rounds), rng.integers(0, values, rounds)).tolist()


def made(kind, rule, learner, actions, values):
    spec = getattr(bl, learner)(actions=actions)
    return getattr(bl, kind)(bl.PerContext(spec, values) if values else spec, **rule)


def check(kind, rule, learner, values, table, taus, *, engine, seed=0, expiry=None, replications=1):
    """Play both and compare everything there is to compare."""
    table, taus = np.asarray(table, float), np.asarray(taus, np.int64)
    rounds, actions = table.shape
    full = feedback_of(learner) == "full"
    contexts = sides(seed, rounds, values)
    if contexts is not None:
        contexts[-1] = values - 1  # the game shows as many values as it has met
    ours = bl.play(
        made(kind, rule, learner, actions, values),
        bl.games.RewardTable(
            table, "full" if full else "bandit", None if contexts is None else [[float(c)] for c in contexts]
        ),
        bl.delays.Trace(taus),
        rounds=rounds,
        seed=seed,
        replications=replications,
        expiry=expiry,
        record=True,
        engine=engine,
        threads=1,
    )
    for r in range(replications):
        limit = NEVER if expiry is None else expiry
        read = simulate(
            *(kind, learner, table, taus),
            seed=seed,
            replication=r,
            expiry=limit,
            full=full,
            rule=rule,
            contexts=contexts,
            values=values,
        )
        assert ours.actions[r].tolist() == read.actions
        np.testing.assert_allclose(ours.probabilities[r], read.probabilities, rtol=1e-6, atol=0)
        for name in ("peak", "outstanding", "instances", "steps"):
            assert int(getattr(ours, name)[r]) == getattr(read, name), name
        for name in ("peaks", "pulls", "observed", "cancelled", "base_pulls"):
            assert getattr(ours, name)[r].tolist() == getattr(read, name), name
        for name in ("rounds", "peak") + (("instances",) if rule == VALUE else ()):
            if values:
                assert ours.pools[name][r].tolist() == [getattr(pool, name) for pool in read.pools], name
        if rule == VALUE:
            met = [pool for pool in read.pools if pool.rounds]
            assert all(pool.instances == pool.peak + 1 for pool in met)
            assert read.instances == sum(pool.instances for pool in read.pools)
    return ours


@pairs
@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_small_plays_agree_with_the_reference(kind, rule, learner, values, engine):
    @examples
    @given(cases())
    def agree(case):
        table, taus, seed, expiry = case
        check(kind, rule, learner, values, table, taus, engine=engine, seed=seed, expiry=expiry)

    agree()


@pairs
@pytest.mark.parametrize("seed", range(10))
def test_longer_plays_agree_with_the_reference(kind, rule, learner, values, seed):
    table, taus, seed, expiry = random_case(seed, rounds=200)
    for engine in ("compiled", "python") if seed % 5 == 0 else ("compiled",):
        check(kind, rule, learner, values, table, taus, engine=engine, seed=seed, expiry=expiry, replications=2)


@pairs
def test_more_outstanding_feedback_than_a_fresh_mailbox_or_pool_holds(kind, rule, learner, values):
    table, _, _, _ = random_case(1, rounds=900)
    taus = np.full(900, 700)
    taus[::7] = NEVER
    taus[700:] = 0  # and then all of it at once, and more
    ours = check(kind, rule, learner, values, table, taus, engine="compiled")
    assert ours.peak[0] > 2 * lanes.ROOM


@pairs
@pytest.mark.parametrize("seed", range(3))
def test_growth_and_pauses_anywhere_change_nothing(kind, rule, learner, values, seed, monkeypatch):
    monkeypatch.setattr(lanes, "ROOM", 2)
    monkeypatch.setattr(workspace, "FIRST_CHUNK", 1 + seed)
    table, taus, seed, expiry = random_case(seed, rounds=200)
    check(kind, rule, learner, values, table, taus, engine="compiled", seed=seed, expiry=expiry, replications=2)


# --- the same without compilation, for any number of actions ---


@in_plain_python
@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_in_plain_python_small_plays_agree_for_every_rule_learner_and_number_of_actions(engine):
    @examples
    @given(st.data(), st.sampled_from(ALL), st.integers(1, 5))
    def agree(data, pair, actions):
        table, taus, seed, expiry = data.draw(cases(actions, longest=20))
        check(*pair, table, taus, engine=engine, seed=seed, expiry=expiry)

    agree()


@in_plain_python
@pytest.mark.parametrize("engine", ["compiled", "python"])
@pytest.mark.parametrize("pair", ALL, ids=str)
def test_in_plain_python_longer_plays_agree(pair, engine):
    for seed in range(5):
        table, taus, seed, expiry = random_case(seed, 80, 1 + (ALL.index(pair) + seed) % 5)
        check(*pair, table, taus, engine=engine, seed=seed, expiry=expiry)


@pytest.mark.skipif(not COMPILED, reason="this process compiles nothing already")
def test_everything_runs_and_agrees_without_compilation():
    more = [str(Path(__file__).with_name(f"test_{name}.py")) for name in ("new_forecasters", "own_rules")]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-W", "error"]
    done = subprocess.run(
        [*command, __file__, *more, "-k", "in_plain_python"],
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
