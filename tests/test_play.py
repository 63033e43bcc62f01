"""`play`: its arguments, its results, and how it is stopped."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars
import pytest

import belated as bl
from belated.engine.result import Result
from belated.errors import InvalidArgument
from belated.kernels import compile as compiling
from belated.studies import Study

ROOT = Path(bl.__file__).parents[1]
KINDS = [bl.Direct, bl.BOLD, bl.QPMD]
kinds = pytest.mark.parametrize("kind", KINDS)
engines = pytest.mark.parametrize("engine", ["compiled", "python"])


def table(rounds=50, actions=3):
    return bl.games.RewardTable(np.random.default_rng(rounds).integers(0, 2, (rounds, actions)).astype(float))


def play(forecaster=None, game=None, delays=None, rounds=50, **options):
    """A small play, of which each test changes what it is about."""
    return bl.play(
        forecaster or bl.Direct(bl.UCB1(actions=3)), game or table(), delays or bl.delays.Constant(2), rounds, **options
    )


# --- arguments ---


@engines
@pytest.mark.parametrize(
    "given",
    [
        {"rounds": 0},
        {"rounds": -5},
        {"rounds": 1.5},
        {"rounds": "10"},
        {"rounds": True},
        {"rounds": None},
        {"rounds": 51},
        {"replications": 0},
        {"replications": 2.0},
        {"replications": 2**60},
        {"seed": -1},
        {"seed": 2**64},
        {"seed": 0.5},
        {"seed": None},
        {"threads": 0},
        {"threads": -1},
        {"threads": 1.5},
        {"expiry": -1},
        {"expiry": 2.5},
        {"expiry": "3"},
        {"game": 3.5},
        {"delays": 17},
        {"forecaster": bl.UCB1(actions=3)},
    ],
    ids=repr,
)
def test_a_bad_argument_is_named_before_anything_starts(given, engine):
    started = []
    with pytest.raises(InvalidArgument) as caught:
        play(**given, engine=engine, progress=lambda done, total: started.append(done))
    ((name, value),) = given.items()
    assert name in str(caught.value)
    assert repr(value * 50 if name == "replications" and value == 2**60 else value) in str(caught.value)
    assert started == []


def test_an_unknown_engine_is_named():
    with pytest.raises(InvalidArgument, match="'gpu'"):
        play(engine="gpu")


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({"game": table(actions=2)}, ("3", "2")),
        ({"forecaster": bl.BOLD(bl.Hedge(actions=3))}, ("full", "bandit")),
        ({"game": bl.games.RewardTable(np.ones((50, 3)), feedback="full")}, ("bandit", "full")),
        ({"delays": bl.delays.Trace([1] * 49)}, ("49", "50")),
        ({"game": table(40)}, ("40", "50")),
        ({"delays": bl.delays.Trace(np.ones((50, 2), int))}, ("2", "3")),
        ({"delays": bl.delays.Trace(np.ones((50, 1), int))}, ("1", "3")),
    ],
)
def test_what_does_not_fit_together_is_refused_with_both_sides(given, values):
    with pytest.raises(InvalidArgument) as caught:
        play(**given)
    assert all(value in str(caught.value) for value in values)


def test_a_trace_may_be_longer_than_the_play():
    r = play(delays=bl.delays.Trace([3] * 500), game=table(500), rounds=10)
    assert (r.peak[0], r.outstanding[0]) == (3, 3)


@engines
@pytest.mark.parametrize("expiry", [bl.NEVER - 1, bl.NEVER, bl.NEVER + 1, 2**64, 10**30])
def test_an_expiry_beyond_every_delay_changes_nothing(expiry, engine):
    delays = bl.delays.Trace([1, bl.NEVER, 2**53, 0, 4] * 10)
    r, free = play(delays=delays, expiry=expiry, engine=engine), play(delays=delays, engine=engine)
    assert r.cancelled.sum() == 0
    assert r.outstanding[0] == free.outstanding[0]
    assert r.peak[0] == free.peak[0]


@pytest.mark.parametrize("number", [np.int64, np.int32, np.uint8])
def test_numbers_of_numpy_are_numbers(number):
    r = play(rounds=number(40), replications=number(2), seed=number(1), threads=number(1), expiry=number(5))
    assert r.regret.shape[0] == 2
    np.testing.assert_array_equal(r.regret, play(rounds=40, replications=2, seed=1, expiry=5).regret)


# --- results ---


@engines
@pytest.mark.parametrize("rounds", [1, 2, 59, 60, 61, 500])
def test_checkpoints_rise_to_the_horizon(rounds, engine):
    r = play(game=table(500), rounds=rounds, replications=3, engine=engine)
    steps = r.checkpoints
    assert steps[0] == 1
    assert steps[-1] == rounds
    assert (np.diff(steps) > 0).all()
    assert len(steps) <= 60
    assert r.regret.shape == (3, len(steps))
    assert (r.rounds, r.replications) == (rounds, 3)


@kinds
@engines
def test_a_single_round_is_a_play(kind, engine):
    r = play(kind(bl.UCB1(actions=3)), rounds=1, engine=engine, record=True)
    assert r.actions.tolist() == [[0]]
    assert (r.peak[0], r.outstanding[0], r.instances[0]) == (0, 1, 1)
    assert r.steps[0] == (1 if kind is bl.QPMD else 0)


@engines
def test_rounds_are_kept_only_when_asked_for(engine):
    r = play(engine=engine)
    assert (r.actions, r.delays, r.probabilities) == (None, None, None)
    r = play(engine=engine, record=True, replications=2)
    assert r.actions.shape == r.delays.shape == r.probabilities.shape == (2, 50)
    assert (r.probabilities == 1.0).all()
    assert (r.delays == 2).all()


@kinds
@engines
def test_tickets_expire_after_so_many_rounds(kind, engine):
    """Delay 5 and expiry 2: the tickets of rounds 1..8 end without feedback at the end of rounds 3..10."""
    r = play(kind(bl.UCB1(actions=3)), delays=bl.delays.Constant(5), rounds=10, expiry=2, engine=engine)
    assert r.cancelled.sum() == 8
    assert r.observed.sum() == 0
    assert (r.peak[0], r.outstanding[0]) == (2, 2)
    assert r.instances[0] == (3 if kind is bl.BOLD else 1)
    assert r.bound is None


@kinds
@engines
def test_feedback_that_comes_with_the_expiry_counts(kind, engine):
    given = {"delays": bl.delays.Trace([3, 4] * 25), "rounds": 50, "engine": engine, "record": True}
    r = play(kind(bl.UCB1(actions=3)), expiry=3, **given)
    assert r.observed.sum() == 24
    assert r.cancelled.sum() == 23
    free = play(kind(bl.UCB1(actions=3)), expiry=4, **given)
    np.testing.assert_array_equal(free.actions, play(kind(bl.UCB1(actions=3)), **given).actions)


@kinds
@engines
def test_feedback_that_never_comes_stays_outstanding(kind, engine):
    r = play(kind(bl.UCB1(actions=3)), delays=bl.delays.Trace([bl.NEVER] * 50), engine=engine)
    assert (r.peak[0], r.outstanding[0], r.observed.sum()) == (49, 50, 0)
    assert r.instances[0] == (50 if kind is bl.BOLD else 1)
    r = play(kind(bl.UCB1(actions=3)), delays=bl.delays.Trace([bl.NEVER] * 50), engine=engine, expiry=0)
    assert (r.peak[0], r.outstanding[0], r.cancelled.sum()) == (0, 0, 50)


@kinds
@engines
def test_the_forecaster_given_is_not_touched_and_its_seed_is_ignored(kind, engine):
    f = kind(bl.Exp3(actions=3), seed=1)
    f.update(f.predict().ticket, 1.0)
    f.predict()
    before = f.to_bytes()
    r = play(f, engine=engine, record=True, seed=4)
    assert f.to_bytes() == before
    other = play(kind(bl.Exp3(actions=3), seed=2), engine=engine, record=True, seed=4)
    np.testing.assert_array_equal(r.actions, other.actions)


def test_a_plain_learner_plays_in_python():
    class Second:
        actions = 3

        def __init__(self):
            self.seen = []

        def predict(self, context):
            return 1, 1.0

        def update(self, context, action, probability, feedback):
            self.seen.append((context, action, probability, feedback))

    made = []
    r = play(bl.BOLD(lambda: made.append(Second()) or made[-1]), record=True)
    assert set(r.actions[0]) == {1}
    assert r.instances[0] == 3
    rewards = np.asarray(table().table)[:, 1]
    seen = [entry for learner in made for entry in learner.seen]
    assert len(seen) == 48
    assert all(entry[:3] == (None, 1, 1.0) and type(entry[3]) is float for entry in seen)
    assert sum(entry[3] for entry in seen) == rewards[:48].sum()
    assert "plain" in r.bound_reason


def test_the_frame_has_a_row_for_each_checkpoint_of_each_replication():
    r = play(bl.BOLD(bl.UCB1(actions=3)), replications=4)
    frame = r.frame()
    assert isinstance(frame, polars.DataFrame)
    assert frame.shape == (4 * len(r.checkpoints), 7)
    assert frame.columns == ["forecaster", "replication", "round", "regret", "peak", "instances", "bound"]
    np.testing.assert_array_equal(frame["regret"].to_numpy().reshape(r.regret.shape), r.regret)
    np.testing.assert_array_equal(frame["round"].to_numpy().reshape(r.regret.shape), [r.checkpoints] * 4)
    assert frame["replication"].unique().sort().to_list() == [0, 1, 2, 3]
    assert frame["bound"].dtype == polars.Float64
    assert frame["forecaster"].unique().to_list() == ["BOLD(UCB1(actions=3))"]


def test_the_frame_holds_the_bound_where_there_is_one():
    r = play(bl.QPMD(bl.UCB1(actions=3)), bl.games.Bernoulli([0.1, 0.5, 0.9]), rounds=2000, replications=2)
    np.testing.assert_array_equal(r.frame()["bound"].to_numpy(), np.tile(r.bound_curve, 2))
    assert r.bound_curve[-1] == r.bound
    assert (np.diff(r.bound_curve) >= 0).all()


@pytest.mark.parametrize("replications", [1, 5])
def test_plots_are_written_as_pictures(tmp_path, replications):
    r = play(replications=replications)
    other = play(bl.QPMD(bl.UCB1(actions=3)), bl.games.Bernoulli([0.1, 0.5, 0.9]), rounds=2000)
    file = tmp_path / "regret.png"
    figure = r.plot(file, other)
    assert file.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert len(figure.axes) == 2, "another game, another panel"
    assert len(r.plot(None, other, by=[]).axes[0].get_lines()) >= 2 and r.plot() is not None
    r.plot(str(tmp_path / "regret.svg"))
    assert "<svg" in (tmp_path / "regret.svg").read_text()


def test_a_result_tells_its_story_in_one_line():
    r = play(replications=2)
    assert isinstance(r, Result)
    assert repr(r).startswith("<Direct(UCB1(actions=3)) after 50 rounds x 2: regret ")
    assert "\n" not in repr(r)
    assert r.standard_error >= 0
    assert r.seconds > 0


def test_playing_again_compiles_and_keeps_nothing_more():
    play(replications=4, threads=2)
    before = len(compiling._kernels)
    for seed in range(5):
        play(replications=4, threads=2, seed=seed)
    assert len(compiling._kernels) == before


# --- progress ---


@pytest.mark.parametrize("given", [{"threads": 1}, {"threads": 2}, {"engine": "python"}], ids=repr)
@pytest.mark.parametrize("rounds", [37, 400, 450])
def test_progress_rises_to_the_total(given, rounds):
    told = []
    play(
        game=table(450), rounds=rounds, replications=6, progress=lambda done, total: told.append((done, total)), **given
    )
    dones = [done for done, _ in told]
    assert {total for _, total in told} == {6 * rounds}
    assert dones == sorted(dones)
    assert dones[-1] == 6 * rounds


@pytest.mark.parametrize("given", [{"threads": 1}, {"threads": 2}, {"engine": "python"}], ids=repr)
def test_an_error_in_the_progress_function_stops_the_play(given):
    def stop(done, total):
        raise StopIteration("enough")

    began = time.monotonic()
    with pytest.raises((StopIteration, RuntimeError), match="enough"):
        play(game=bl.games.Bernoulli([0.1, 0.2, 0.3]), rounds=10**9, replications=8, progress=stop, **given)
    assert time.monotonic() - began < 20


def test_a_bar_goes_to_stderr_and_nothing_to_stdout(capsys):
    play(progress=True)
    play(progress=False)
    play()
    assert capsys.readouterr().out == ""


# --- the outside ---

LONG = """
import sys
import belated as bl

def tell(done, total):
    if not told:
        told.append(True)
        print("started", flush=True)

told = []
try:
    bl.play(bl.Direct(bl.UCB1(actions=3)), bl.games.Bernoulli([0.2, 0.5, 0.9]), bl.delays.Constant(10),
            rounds=10**12, replications=4, progress=tell, {options})
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise
"""


@pytest.mark.parametrize("options", ["threads=1", "threads=2", "engine='python'"])
def test_ctrl_c_ends_a_long_play_at_once(options):
    child = subprocess.Popen(
        [sys.executable, "-c", LONG.replace("{options}", options)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout.readline() == "started\n"
        time.sleep(0.2)
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=20)
        assert time.monotonic() - began < 3
    finally:
        child.kill()
        child.wait()
    assert out == "interrupted\n"
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert child.returncode in (-signal.SIGINT, 130)


def loaded_after(code):
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


HEAVY = {"matplotlib", "polars", "pyarrow", "typer", "rich", "pandas", "ray", "starlette"}


def test_importing_belated_loads_nothing_heavy():
    loaded = loaded_after("import belated")
    assert not loaded & (HEAVY | {"scipy.optimize", "scipy.special", "scipy.stats", "scipy.linalg"})


def test_playing_loads_nothing_heavy():
    code = "import belated as bl\nbl.play(bl.Direct(bl.UCB1(actions=3)), bl.games.Bernoulli([.1, .2, .3]),"
    assert not loaded_after(code + " bl.delays.Constant(1), rounds=10)") & HEAVY


IDLE = [
    (bl.SlidingUCB(3, window=20), 20),
    (bl.Conversions(3, window=20), 20),
    (bl.HybridFTRL(3, skip=True, window=21), 20),
]


@pytest.mark.parametrize(("learner", "keeps"), IDLE, ids=[type(each).__name__ for each, _ in IDLE])
def test_who_will_learn_nothing_says_so(learner, keeps):
    """All feedback is later than it looks back: it plays, and says before that it learns nothing."""
    game = bl.games.Bernoulli([0.1, 0.5, 0.9])
    said = rf"will learn nothing: all feedback is {keeps} rounds late by Constant\(d={keeps}\), and what is {keeps} "
    for make in (
        lambda: bl.play(bl.Direct(learner, seed=1), game, bl.delays.Constant(keeps), rounds=200),
        lambda: Study.make(forecasters=[bl.Direct(learner)], games=game, delays=bl.delays.Constant(keeps), rounds=200),
    ):
        with pytest.warns(UserWarning, match=said):
            make()
    ways = [bl.play(bl.Direct(learner, seed=1), game, bl.delays.Constant(keeps - 1), rounds=200)]  # without a word
    ways.append(bl.play(bl.BOLD(learner), game, bl.delays.Constant(keeps), rounds=200))
    ways.append(bl.play(bl.Direct(learner), game, bl.delays.Uniform(0, keeps + 5), rounds=200))
    ways.append(bl.play(bl.Direct(bl.UCB1(3)), game, bl.delays.Constant(keeps), rounds=200))
    assert all(ways)
