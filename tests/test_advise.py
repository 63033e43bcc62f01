"""`bl.advise` and `belated advise`: what should I use?"""

import json

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

import belated as bl
from belated.advise import race as races
from belated.advise.report import Advice
from belated.advise.world import describe
from belated.audit import log as logs
from belated.audit.law import law_of, law_of_sales
from belated.cli import app
from belated.errors import InvalidArgument
from belated.studies import field
from tests.plainly import plain

pytestmark = plain

#: Who is compiled anyhow.
TWO = ["direct(ucb1)", "direct(exp3)"]


class Clock:
    """It goes on by 10 ms each time somebody looks."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        self.now += 0.01
        return self.now


@pytest.fixture(autouse=True)
def in_python(monkeypatch):
    """Nothing is compiled here, and nothing waits for time to pass."""
    real = bl.play
    monkeypatch.setattr(races, "play", lambda *args, **more: real(*args, **more, engine="python"))
    monkeypatch.setattr(races, "time", Clock())


def ask(**more):
    return bl.advise(**({"rewards": [0.1, 0.9], "delays": "constant(3)", "rounds": 60, "seconds": 0.5} | more))


def test_it_ranks_and_says_what_it_is():
    found = ask(forecasters=[*TWO, "direct(uniform)"], seconds=1.0)
    best = found.best
    assert best.spec in TWO and best.low < best.regret < best.high and best.replications >= 8
    assert found.entries[-1].spec == "direct(uniform)" and found.entries[-1].name not in found.tied
    assert found.entries[-1].replications <= best.replications
    text = str(found)
    assert "not of yours" in text and "2 actions, 60 rounds" in text and "constant(3)" in text and "95%" in text
    assert found.frame().height == 3 and json.loads(found.to_json())["entries"][0]["spec"] == best.spec
    (uniform,) = [e for e in found.entries if e.name == "direct(uniform)"]
    assert uniform.bound is None and uniform.reason and uniform.states == 1 and uniform.bytes > 0


def test_what_was_not_reached_is_named():
    found = ask(forecasters=TWO, rounds=3000, seconds=1e-6)
    assert found.best is None and found.missed == TWO and "more seconds" in str(found)


def test_ctrl_c_gives_what_there_is():
    said = []

    def tell(text):
        said.append(text)
        if "turn 1: direct(exp3)" in text:
            raise KeyboardInterrupt

    found = ask(forecasters=TWO, progress=tell, seconds=60)
    assert found.stopped and [e.spec for e in found.entries] == ["direct(ucb1)"] and found.missed == ["direct(exp3)"]
    assert "Stopped after" in str(found) and "getting ready" in said[0]


@pytest.mark.parametrize("drift", ["none", "switching", "walk"])
@pytest.mark.parametrize("feedback", ["bandit", "full", "conversions"])
def test_every_candidate_fits_its_world(feedback, drift):
    more = dict.fromkeys(("log", "decided", "observed", "action", "reward", "unit", "rewards"))
    given = {"actions": 3, "delays": "geometric(20)", "drift": drift, "rounds": 50, "feedback": feedback}
    given["every"] = None if drift == "none" else 100
    if (feedback, drift) == ("conversions", "walk"):
        with pytest.raises(InvalidArgument, match="in between"):
            describe(**given, **more)
        return
    world = describe(**given, **more)
    for each in world.candidates().values():
        ends = {"expiry": each.expiry, "default": each.default}
        bl.play(each.forecaster, world.game, world.delays, 20, **ends, engine="python")


def test_conversions_are_told_of_sales_only():
    found = ask(feedback="conversions", forecasters=["direct(conversions(window=64))"], rewards=[0.2, 0.8], seconds=0.3)
    assert found.best.spec == "direct(conversions(window=64))" and "told: sales" in found.world
    law = field.only_sales(bl.delays.Constant(2))
    r = bl.play(bl.Direct(bl.RoundRobin(2)), bl.games.Bernoulli([0.0, 1.0]), law, 20, engine="python")
    assert r.observed.tolist() == [[0, 9]]  # the last arrives in round 22


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"delays": None}, "either delays"),
        ({"log": "x.csv"}, "either delays"),
        ({"decided": "d"}, "about a log"),
        ({"delays": None, "log": "x.csv"}, "x.csv"),
        ({"delays": "geometrical(3)"}, "did you mean 'geometric'"),
        ({"rewards": None}, "how many actions"),
        ({"rewards": [0.5]}, ">= 2, got 1"),
        ({"actions": 3}, "rewards must be 3"),
        ({"rewards": [0.5, 1.5]}, "1.5"),
        ({"drift": "walk"}, "has none"),
        ({"drift": "slow"}, "slow"),
        ({"every": 100}, "every is about drift, and there is none: every=100"),
        ({"drift": "switching", "every": 1}, "every must be >= 2, got 1"),
        ({"feedback": "some"}, "some"),
        ({"seconds": 0}, "seconds"),
        ({"forecasters": "direct(ucb1)"}, "must be a list"),
        ({"forecasters": ["direct(ucb)"]}, "did you mean"),
        ({"delays": "peraction([constant(1)])", "forecasters": TWO}, "1 actions"),
        ({"progress": 3}, "progress"),
    ],
)
def test_errors_say_what_is_wrong(given, said):
    with pytest.raises(InvalidArgument, match=said):
        ask(**given)


def test_the_command_line():
    run = CliRunner().invoke
    asked = ["advise", "--rewards", "0.1,0.9", "--delays", "constant(3)", "--rounds", "50", "--seconds", "0.3"]
    told = run(app, [*asked, "--forecaster", "direct(ucb1)", "--forecaster", "direct(uniform)"])
    assert told.exit_code == 0 and "rank" in told.output and "direct(ucb1)" in told.output
    told = run(app, [*asked, "--forecaster", "direct(ucb1)", "--json"])
    assert json.loads(told.stdout)["entries"][0]["bound"] > 0
    told = run(app, ["advise", "--rewards", "a,b", "--delays", "constant(3)"])
    assert told.exit_code == 1 and "numbers with commas" in told.output
    assert "Ctrl-C" in run(app, ["advise", "--help"]).output


# --- delays from a log ---


def log_of(delays, lost=()):
    """A decision each second; feedback comes so many seconds and a half later."""
    decided = 1_700_000_000 + np.arange(len(delays))
    observed = [None if i in lost else d + wait + 0.5 for i, (d, wait) in enumerate(zip(decided, delays, strict=True))]
    frame = polars.DataFrame({"d": decided.astype(float), "o": observed}, strict=False)
    return frame.with_columns(o=polars.when(polars.col("o") <= frame["d"].max()).then("o"))


def test_delays_are_drawn_from_a_log_in_decisions():
    law = law_of(logs.read(log_of([5] * 400), "d", "o"))
    assert set(law.array.tolist()) == {5}
    waits = np.random.default_rng(1).geometric(1 / 30, 4000) - 1
    drawn = law_of(logs.read(log_of(waits), "d", "o")).array
    assert abs(np.mean(drawn[drawn < bl.NEVER]) - waits.mean()) < 2 and np.mean(drawn == bl.NEVER) < 0.01
    lost = set(range(0, 4000, 5))
    assert 0.17 < np.mean(law_of(logs.read(log_of(waits, lost), "d", "o")).array == bl.NEVER) < 0.23


def test_a_log_says_delays_actions_and_rewards(tmp_path):
    frame = log_of([7] * 300).with_columns(ad=polars.Series(["a", "b", "c"] * 100), paid=polars.Series([0, 1, 2] * 100))
    frame.write_csv(tmp_path / "log.csv")
    columns = {"decided": "d", "observed": "o", "action": "ad", "reward": "paid"}
    found = bl.advise(log=tmp_path / "log.csv", **columns, rounds=50, seconds=0.2, forecasters=TWO)
    assert "3 actions" in found.world and "means 0, 0.5, 1" in found.world and "300 decisions of the log" in found.world
    with pytest.raises(InvalidArgument, match="no feedback had come"):
        logs.read(log_of([500] * 50), "d", "o")


def sales_log(folder):
    """Action a sells in half of all cases, b in a fifth, two decisions later; nobody says who does not buy."""
    sells = [(i % 2 == 0 and i % 4 == 0) or (i % 2 == 1 and i % 10 == 1) for i in range(2000)]
    frame = log_of([2] * 2000, {i for i, sold in enumerate(sells) if not sold})
    frame = frame.with_columns(
        ad=polars.Series(["a", "b"] * 1000), paid=polars.Series([1.0 if s else None for s in sells])
    )
    frame.write_csv(folder / "sales.csv")
    return {"log": folder / "sales.csv", "decided": "d", "observed": "o", "action": "ad", "rounds": 50, "seconds": 0.2}


@pytest.mark.parametrize("reward", [None, "paid"])
def test_a_log_of_sales_says_how_often_and_how_late_each_action_sells(tmp_path, reward):
    found = bl.advise(**sales_log(tmp_path), reward=reward, feedback="conversions", forecasters=TWO)
    assert "means 0.501, 0.2" in found.world and " 0.0% never" in found.world and "35.1% sell" in found.world
    law, share = law_of_sales(logs.read(tmp_path / "sales.csv", "d", "o"))
    assert set(law.array.tolist()) == {2} and share == pytest.approx(0.35, abs=0.001)


def test_a_log_of_sales_is_not_taken_for_one_of_rewards(tmp_path):
    given = sales_log(tmp_path)
    with pytest.raises(InvalidArgument, match=r"every action pays 1 on average.*feedback='conversions'"):
        bl.advise(**given, reward="paid", forecasters=TWO)
    assert "64.9% never" in (world := bl.advise(**given, forecasters=TWO).world) and "'conversions'" in world


def test_a_walk_takes_the_delays_of_a_log_and_not_its_rewards(tmp_path):
    frame = log_of([7] * 300).with_columns(ad=polars.Series(["a", "b", "c"] * 100), paid=polars.Series([0, 1, 2] * 100))
    more = {"decided": "d", "observed": "o", "action": "ad", "reward": "paid", "rounds": 50, "seconds": 0.2}
    assert "rewards wander" in bl.advise(log=frame, **more, drift="walk", forecasters=TWO).world


def test_a_bound_that_nobody_can_break_is_called_vacuous():
    found = ask(forecasters=["bold(exp3)", "direct(exp3)"], rounds=20, seconds=0.3)
    bold, direct = sorted(found.entries, key=lambda entry: entry.spec)
    assert bold.vacuous and bold.data()["vacuous"] and not direct.vacuous and direct.bound is None
    assert str(found).count("vacuous") == 1


def test_windows_are_powers_of_two():
    assert [field.window_of(late) for late in (0, 64, 65, 10**9)] == [64, 64, 128, 4096]
    assert field.late_of(bl.delays.Constant(7), 100) == 7 and field.late_of(bl.delays.Geometric(mean=4), 100) == 20
    assert field.late_of(bl.delays.Lossy(bl.delays.Constant(1), 0.5), 100) == 10


def test_nobody_is_an_answer():
    assert "Nobody" in Advice("a world", [], [], {}, False, 0.0).verdict()
