"""Our engines against a second, plain implementation of the rules (reference.py), round for round."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import belated as bl
from belated.engine import lanes, workspace
from belated.kernels.compile import COMPILED
from tests import reference
from tests.reference import FORECASTERS, INDEX, LEARNERS, simulate

NEVER = bl.NEVER
ROOT = Path(bl.__file__).parents[1]
#: What is compiled here, for three actions; all other combinations are met in plain Python below.
PAIRS = [
    ("Direct", "UCB1"),
    ("BOLD", "UCB1"),
    ("QPMD", "UCB1"),
    ("Direct", "KLUCB"),
    ("Direct", "ChernoffUCB"),
    ("QPMD", "Exp3"),
    ("Direct", "Exp3IX"),
    ("BOLD", "Hedge"),
    ("BOLD", "TsallisINF"),
    ("QPMD", "EpsilonGreedy"),
]
in_plain_python = pytest.mark.skipif(COMPILED, reason="runs in the process that compiles nothing")
examples = settings(max_examples=40, derandomize=True, deadline=None, database=None)


def forecaster(kind, learner, actions, **options):
    return getattr(bl, kind)(getattr(bl, learner)(actions=actions, **options))


def feedback_of(learner):
    return getattr(bl, learner).feedback


def check(kind, learner, table, taus, *, engine, seed=0, expiry=None, replications=1, options=None):
    """Play both and compare everything there is to compare."""
    table, taus = np.asarray(table, float), np.asarray(taus, np.int64)
    rounds, actions = table.shape
    full = feedback_of(learner) == "full"
    game = bl.games.RewardTable(table, feedback="full" if full else "bandit")
    ours = bl.play(
        forecaster(kind, learner, actions, **(options or {})),
        game,
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
        reference = simulate(
            kind, learner, table, taus, seed=seed, replication=r, expiry=limit, full=full, options=options
        )
        assert ours.actions[r].tolist() == reference.actions
        np.testing.assert_allclose(ours.probabilities[r], reference.probabilities, rtol=1e-6, atol=0)
        for name in ("peak", "outstanding", "instances", "steps"):
            assert int(getattr(ours, name)[r]) == getattr(reference, name), name
        for name in ("peaks", "pulls", "observed", "cancelled", "base_pulls"):
            assert getattr(ours, name)[r].tolist() == getattr(reference, name), name
        expected = [reference.regret[t - 1] for t in ours.checkpoints]
        np.testing.assert_allclose(ours.regret[r], expected, rtol=0, atol=1e-9)
        if np.ndim(taus) == 1:
            assert ours.delays[r].tolist() == taus.tolist()
        else:
            assert ours.delays[r].tolist() == [int(taus[t, a]) for t, a in enumerate(reference.actions)]
    return ours


delays = st.one_of(st.integers(0, 3), st.integers(0, 3), st.integers(0, 40), st.sampled_from([2**40, 2**53, NEVER]))


@st.composite
def cases(draw, actions=3, longest=30):
    """A table of rewards, delays (of each round, or of each round and action), a seed and an expiry."""
    rounds = draw(st.integers(1, longest))
    rewards = draw(st.sampled_from([st.sampled_from([0.0, 1.0]), st.integers(0, 64).map(lambda i: i / 64)]))
    row = st.lists(rewards, min_size=actions, max_size=actions)
    table = draw(st.lists(row, min_size=rounds, max_size=rounds))
    of_a_round = draw(st.sampled_from([delays, st.lists(delays, min_size=actions, max_size=actions)]))
    taus = draw(st.lists(of_a_round, min_size=rounds, max_size=rounds))
    expiry = draw(st.none() | st.integers(0, 8))
    return table, taus, draw(st.integers(0, 2**64 - 1)), expiry


def random_case(seed, rounds, actions=3):
    """The same, longer and drawn with NumPy: Bernoulli or continuous rewards, one of four laws of delay."""
    rng = np.random.default_rng(seed)
    means = rng.random(actions)
    binary = rng.random((rounds, actions)) < means
    table = binary.astype(float) if seed % 2 else 0.5 * means + 0.5 * rng.random((rounds, actions))
    shape = (rounds, actions) if seed % 3 == 0 else (rounds,)
    laws = (
        lambda: rng.geometric(1 / 21, shape) - 1,
        lambda: rng.integers(0, 3, shape),
        lambda: np.where(rng.random(shape) < 0.05, NEVER, rng.integers(0, 60, shape)),
        lambda: np.minimum(rng.pareto(0.8, shape) * 5, 2**40).astype(np.int64),
    )
    taus = laws[(seed // 2) % 4]()
    expiry = int(rng.integers(0, 60)) if seed % 5 == 0 else None
    return table, taus, seed, expiry


# --- against the reference ---


@pytest.mark.parametrize(("kind", "learner"), PAIRS)
@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_small_plays_agree_with_the_reference(kind, learner, engine):
    @examples
    @given(cases())
    def agree(case):
        table, taus, seed, expiry = case
        check(kind, learner, table, taus, engine=engine, seed=seed, expiry=expiry)

    agree()


@pytest.mark.parametrize(("kind", "learner"), PAIRS)
@pytest.mark.parametrize("seed", range(10))
def test_longer_plays_agree_with_the_reference(kind, learner, seed):
    table, taus, seed, expiry = random_case(seed, rounds=250)
    check(kind, learner, table, taus, engine="compiled", seed=seed, expiry=expiry, replications=2)


@pytest.mark.parametrize(("kind", "learner"), PAIRS)
def test_the_python_engine_agrees_on_longer_plays(kind, learner):
    table, taus, seed, expiry = random_case(30, rounds=250)
    check(kind, learner, table, taus, engine="python", seed=seed, expiry=expiry, replications=2)


@pytest.mark.parametrize("kind", FORECASTERS)
def test_more_outstanding_feedback_than_a_fresh_mailbox_or_pool_holds(kind):
    table, _, _, _ = random_case(1, rounds=1400)
    taus = np.full(1400, 700)
    taus[::7] = NEVER
    ours = check(kind, "UCB1", table, taus, engine="compiled")
    assert ours.peak[0] > 2 * lanes.ROOM


@pytest.mark.parametrize("kind", FORECASTERS)
@pytest.mark.parametrize("seed", range(4))
def test_growth_and_pauses_anywhere_change_nothing(kind, seed, monkeypatch):
    monkeypatch.setattr(lanes, "ROOM", 2)
    monkeypatch.setattr(workspace, "FIRST_CHUNK", 1 + seed)
    table, taus, seed, expiry = random_case(seed, rounds=250)
    check(kind, "UCB1", table, taus, engine="compiled", seed=seed, expiry=expiry, replications=2)


def test_klucb_agrees_over_thousands_of_rounds():
    rng = np.random.default_rng(5)
    table = (rng.random((1500, 3)) < [0.5, 0.45, 0.02]).astype(float)
    check("Direct", "KLUCB", table, rng.integers(0, 100, 1500), engine="compiled")


@pytest.mark.parametrize("value", [0.0, 1.0, 0.5])
@pytest.mark.parametrize(("kind", "learner"), [(k, n) for k, n in PAIRS if getattr(reference, n) in INDEX])
def test_ties_go_to_the_action_predicted_fewest_times(kind, learner, value):
    taus = np.random.default_rng(3).integers(0, 30, 200)
    check(kind, learner, np.full((200, 3), value), taus, engine="compiled")


@pytest.mark.parametrize(("kind", "learner"), [(k, n) for k, n in PAIRS if getattr(reference, n) in INDEX])
def test_indices_are_tied_within_a_billionth_and_not_beyond(kind, learner):
    plays = []
    for apart in (0.0, 5e-10, 3e-9):
        table = np.full((60, 3), 0.5) + np.array([0.0, apart, 0.0])
        plays.append(check(kind, learner, table, np.zeros(60, int), engine="compiled").actions[0].tolist())
    assert plays[0] == plays[1] != plays[2]


# --- the same without compilation, for any number of actions ---


@in_plain_python
@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_in_plain_python_small_plays_agree_for_every_learner_forecaster_and_number_of_actions(engine):
    @settings(examples, max_examples=250)
    @given(st.data(), st.sampled_from(sorted(FORECASTERS)), st.sampled_from(sorted(LEARNERS)), st.integers(1, 6))
    def agree(data, kind, learner, actions):
        table, taus, seed, expiry = data.draw(cases(actions, longest=20))
        check(kind, learner, table, taus, engine=engine, seed=seed, expiry=expiry)

    agree()


@in_plain_python
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("kind", FORECASTERS)
@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_in_plain_python_longer_plays_agree(kind, learner, engine):
    actions = 2 + (sorted(LEARNERS).index(learner) + sorted(FORECASTERS).index(kind)) % 5
    for seed in (0, 3):
        table, taus, seed, expiry = random_case(seed, 80, actions)
        check(kind, learner, table, taus, engine=engine, seed=seed, expiry=expiry)


@in_plain_python
@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_in_plain_python_bold_plays_with_many_instances(engine):
    """More than the bits of a word, and all of them come back."""
    taus = np.r_[np.full(140, 70), np.random.default_rng(2).integers(0, 140, 260)]
    ours = check("BOLD", "UCB1", random_case(5, 400)[0], taus, engine=engine)
    assert ours.instances[0] > 70


@in_plain_python
@pytest.mark.parametrize(
    ("learner", "options"),
    [
        ("KLUCB", {"c": 0.0}),
        ("KLUCB", {"c": 1.5}),
        ("ChernoffUCB", {"clock": "age"}),
        ("EpsilonGreedy", {"epsilon": 0.0}),
        ("EpsilonGreedy", {"epsilon": 1.0}),
    ],
)
def test_in_plain_python_options_of_learners_agree(learner, options):
    for kind in FORECASTERS:
        table, taus, seed, expiry = random_case(7, 80, 4)
        check(kind, learner, table, taus, engine="python", seed=seed, expiry=expiry, options=options)


@pytest.mark.skipif(not COMPILED, reason="this process compiles nothing already")
def test_everything_runs_and_agrees_without_compilation():
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-W", "error", __file__]
    done = subprocess.run(
        [*command, "-k", "in_plain_python"],
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
