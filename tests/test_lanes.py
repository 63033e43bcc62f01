"""Replications side by side: whatever the number of lanes and threads, each plays as if it were alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import belated as bl
from belated import catalog
from belated.checks.contract import COMPARED, allowed, arena
from belated.engine import lanes, threads, workspace
from belated.errors import BadKernel, BadPrediction, InvalidArgument
from belated.kernels.compile import COMPILED, kernel
from belated.protocols import NEEDED
from tests.test_own_rules import Halves
from tests.test_supply import Needy

GAME = bl.games.Bernoulli([0.2, 0.5, 0.7])
ROUNDS = 150
SOON, LATE = bl.delays.Geometric(mean=4), bl.delays.Geometric(mean=40)

#: Who plays what under which delays, and how else the play is special.
PLAYS: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
    "Direct": (bl.Direct(bl.UCB1(3)), GAME, LATE, {}),
    "expiry": (bl.Direct(bl.UCB1(3)), GAME, bl.delays.Constant(7), {"expiry": 5}),
    "BOLD": (bl.BOLD(bl.Exp3(3)), GAME, LATE, {}),
    "BOLD, deterministic": (bl.BOLD(bl.UCB1(3)), GAME, LATE, {"expiry": 30}),
    "QPMD": (bl.QPMD(bl.UCB1(3)), GAME, LATE, {"expiry": 50}),
    "QPMD, drawing": (bl.QPMD(bl.Exp3(3)), GAME, LATE, {}),
    "Paced": (bl.Paced(bl.Hedge(3)), bl.games.Bernoulli([0.2, 0.5, 0.7], feedback="full"), SOON, {}),
    "SDB": (bl.SDB(bl.UCB1(3)), GAME, SOON, {}),
    "events": (bl.BOLD(bl.UCB1(3)), bl.games.Replaced(3, probability=0.05, announced=True), SOON, {}),
    "contexts": (bl.Direct(bl.LinUCB(3, 2)), None, LATE, {"expiry": 60}),
    "values": (bl.BOLD(bl.PerContext(bl.Exp3(3), 2), pools="value"), None, LATE, {}),
    "points": (bl.Direct(bl.GradientDescent(2)), None, SOON, {}),
    "default": (bl.Direct(bl.UCB1(3)), GAME, LATE, {"expiry": 20, "default": 0.0}),
    "supply": (bl.BOLD(Needy(3)), GAME, SOON, {}),
    "geometry": (bl.BOLD(bl.CBP.example()), None, SOON, {}),
    "never": (bl.Direct(bl.UCB1(3)), GAME, bl.delays.Lossy(bl.delays.Constant(3), 0.2), {"expiry": 9}),
}


def played(name: str, count: int, on: int, monkeypatch: pytest.MonkeyPatch, replications: int = 9) -> bl.Result:
    """A play with so many lanes on so many threads, whose memory grows and which pauses all the time."""
    forecaster, game, delays, special = PLAYS[name]
    monkeypatch.setattr(threads, "lanes_for", lambda *given: count)
    monkeypatch.setattr(lanes, "ROOM", 4)
    monkeypatch.setattr(lanes, "LANES_BYTES", 2**40)
    monkeypatch.setattr(workspace, "FIRST_CHUNK", 100)
    game = game or arena(forecaster.learner, ROUNDS)
    return bl.play(
        forecaster, game, delays, ROUNDS, replications=replications, seed=3, threads=on, record=True, **special
    )


def same(one: bl.Result, two: bl.Result) -> None:
    for name in COMPARED:
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    for name in one.pools:
        assert np.array_equal(one.pools[name], two.pools[name]), name
    for name in one.groups:
        assert np.array_equal(one.groups[name], two.groups[name]), name


@pytest.mark.parametrize("name", PLAYS)
def test_results_do_not_depend_on_lanes_and_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = played(name, 1, 1, monkeypatch)
    assert len({row.tobytes() for row in alone.delays}) > 1 or PLAYS[name][2].constant
    for count in (1, 2, 7, 16):
        for on in (1, 2):
            same(alone, played(name, count, on, monkeypatch))


class ByTurns(Halves):
    """Two instances, by the parity of the round; says that it keeps nothing beyond its time."""

    seats = 2
    keeps_letters = False

    def layout(self) -> None:
        return None

    def choose(self, room: Any, context: Any) -> Any:
        seat = room.seat(room.round % 2)
        return seat, *seat.ask(context)

    def deliver(self, room: Any, letter: Any, feedback: Any) -> None:
        room.seat(letter.seat).answer(letter, feedback)

    def kernels(self, parts: Any) -> Any:
        return super().kernels(parts)


#: Who is played by the loop for constant delays, and what.
IN_TURN: dict[str, tuple[Any, Any]] = {
    "Direct": (bl.Direct(bl.UCB1(3)), GAME),
    "BOLD": (bl.BOLD(bl.Exp3(3)), GAME),
    "BOLD, deterministic": (bl.BOLD(bl.KLUCB(3)), GAME),
    "contexts": (bl.BOLD(bl.LinUCB(3, 2)), None),
    "values": (bl.BOLD(bl.PerContext(bl.Exp3(3), 2), pools="value"), None),
    "points": (bl.Direct(bl.GradientDescent(2)), None),
    "memo": (bl.Direct(bl.DelayedHedge(3)), bl.games.Bernoulli([0.2, 0.5, 0.7], feedback="full")),
    "supply": (bl.BOLD(Needy(3)), GAME),
    "several instances": (ByTurns(bl.UCB1(3)), GAME),
}


@pytest.mark.parametrize("name", IN_TURN)
def test_the_loop_for_constant_delays_plays_as_the_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forecaster, game = IN_TURN[name]
    game = game or arena(forecaster.learner, ROUNDS)
    monkeypatch.setattr(lanes, "ROOM", 4)
    monkeypatch.setattr(workspace, "FIRST_CHUNK", 100)
    played: list[int] = []
    ring_of = workspace.ring_of
    monkeypatch.setattr(workspace, "ring_of", lambda *given: played.append(ring_of(*given)) or played[-1])
    for delay in (0, 1, 7, 8, ROUNDS - 1, ROUNDS, 2 * ROUNDS):
        found = []
        for long in (10**9, 0):
            monkeypatch.setattr(workspace, "LONG", long)
            law = bl.delays.Constant(delay)
            found.append(bl.play(forecaster, game, law, ROUNDS, replications=5, seed=3, threads=1))
        same(*found)
        assert played[-2:] == [-1, delay] and np.ptp(found[0].regret) > 0.0


@pytest.mark.skipif(COMPILED, reason="runs in the process that compiles nothing")
@pytest.mark.parametrize("name", sorted(catalog.LEARNERS))
def test_in_plain_python_it_does_so_for_every_learner(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = catalog.LEARNERS[name].example()
    game = arena(learner, 60)
    for forecaster in (rule(learner) for rule in allowed(learner) if not rule.keeps_letters):
        for delay in (0, 3):
            found = []
            for long in (10**9, 0):
                monkeypatch.setattr(workspace, "LONG", long)
                found.append(bl.play(forecaster, game, bl.delays.Constant(delay), 60, replications=2))
            same(*found)


def test_it_is_for_plain_plays_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "LONG", 0)

    def wait(forecaster: bl.Forecaster, delays: Any, game: Any = GAME, **more: Any) -> int:
        return workspace.ring_of(workspace.Setting(forecaster, game, delays, 10, 0, np.array([10]), **more), 1)

    five = bl.delays.Constant(5)
    assert wait(bl.Direct(bl.UCB1(3)), five) == wait(bl.BOLD(bl.Exp3(3)), five) == 5
    assert wait(bl.Direct(bl.UCB1(3)), bl.delays.Geometric(mean=5)) == -1
    assert wait(bl.QPMD(bl.UCB1(3)), five) == wait(bl.SDB(bl.UCB1(3)), five) == -1
    assert wait(bl.Direct(bl.UCB1(3)), five, expiry=9) == wait(bl.Direct(bl.UCB1(3)), five, record=True) == -1
    assert wait(bl.Direct(bl.UCB1(3)), five, bl.games.Replaced(3, 0.1, announced=True)) == -1


class Hoards(bl.BOLD):
    """Says that it keeps nothing, and keeps all."""

    grows = replaces = propensity = True
    numbers_letters = reads_probability = keeps_letters = False

    def kernels(self, parts: Any) -> Any:
        usual = super().kernels(parts)
        deliver = usual.deliver

        def keep(desk, rule, params, pool, marks, slab, contexts, context, entry):
            deliver(desk, rule, params, pool, marks, slab, contexts, context, entry)
            return True

        return usual._replace(deliver=kernel(keep))


def test_there_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "LONG", 0)
    with pytest.raises(BadKernel, match="keeps an entry, though keeps_letters is False, in round 4 of replication 0"):
        bl.play(Hoards(bl.Exp3(3)), GAME, bl.delays.Constant(3), 20, threads=1)


@pytest.mark.parametrize("name", ["Direct", "BOLD"])
def test_a_replication_is_the_same_among_any_others(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (played(name, 4, 1, monkeypatch, replications=n) for n in (3, 40))
    assert np.array_equal(few.actions, many.actions[:3]) and np.array_equal(few.regret, many.regret[:3])


def test_progress_tells_of_every_round_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "lanes_for", lambda *given: 4)
    monkeypatch.setattr(workspace, "FIRST_CHUNK", 300)
    told: list[int] = []
    bl.play(bl.BOLD(bl.Exp3(3)), GAME, LATE, 700, replications=11, threads=1, progress=lambda n, total: told.append(n))
    assert told == sorted(told) and told[-1] == 7700 and len(set(told)) > 3


def test_a_play_can_be_stopped_among_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "lanes_for", lambda *given: 5)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    for on in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            bl.play(bl.BOLD(bl.Exp3(3)), GAME, LATE, 10**7, replications=20, threads=on, progress=stop)


@dataclass(frozen=True)
class Flawed(bl.Learner):
    """Chooses an action that is not there, in a round that depends on what it draws; some say that in `update`."""

    actions: int

    def layout(self) -> Any:
        return np.dtype([("left", "i8")])

    @staticmethod
    def predict(params, state, context, draw):
        if state.predictions == 1:
            state.left = 40 + int(draw[0] % np.uint64(50))
        state.left -= 1
        return (7 if state.left == 0 else 0), 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback): ...


@dataclass(frozen=True)
class Wavering(bl.delays.Constant):
    """A law that gives a delay below 0, in a round that depends on the replication."""

    @staticmethod
    def kernel(params, k0, k1, round_, action):
        return -1 if round_ > 30 + int(k0 % np.uint64(20)) else 2


@pytest.mark.parametrize("kind", [bl.Direct, bl.BOLD])
def test_of_several_that_fail_the_first_replication_is_told_of(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for learner, law in ((Flawed(3), SOON), (bl.Exp3(3), Wavering(2)), (Flawed(3), Wavering(2))):
        said = set()
        for count in (1, 3, 16):
            monkeypatch.setattr(threads, "lanes_for", lambda *given, count=count: count)
            with pytest.raises((BadPrediction, InvalidArgument), match="of replication 0") as caught:
                bl.play(kind(learner), GAME, law, 500, replications=16, threads=1)
            said.add(str(caught.value))
        assert len(said) == 1


@dataclass(frozen=True)
class Insatiable(Needy):
    """One replication asks again and again, whatever it is given; others play on between."""

    @staticmethod
    def predict(params, state, context, draw):
        if state.predictions == 20:
            params.wanted = state.place
            return NEEDED, 0.5
        return 0, 1.0


def test_who_asks_for_ever_is_found_among_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "lanes_for", lambda *given: 4)
    with pytest.raises(BadPrediction, match="again and again"):
        bl.play(bl.Direct(Insatiable(3)), GAME, SOON, 100, replications=4, threads=1)


def test_lanes_are_few_where_their_memory_is_large() -> None:
    def count(forecaster: bl.Forecaster, delays: bl.delays.Delays, game: Any = GAME) -> int:
        return lanes.lanes_for(workspace.Setting(forecaster, game, delays, 10**6, 0, np.array([10**6])))

    assert count(bl.BOLD(bl.Exp3(3)), bl.delays.Geometric(mean=4)) > 1
    assert count(bl.Direct(bl.UCB1(3)), bl.delays.Constant(100)) > 1
    assert count(bl.Direct(bl.UCB1(3)), bl.delays.Constant(10**5)) == 1
    assert count(bl.BOLD(bl.Exp3(3)), bl.delays.Geometric(mean=10**4)) == 1
    wide = bl.LinUCB(3, 60)
    assert count(bl.Direct(wide), bl.delays.Constant(1), arena(wide, 5)) == 1


def test_lanes_that_have_grown_take_no_new_replications(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "ROOM", 4)
    checkpoints = np.array([2000])
    law = bl.delays.Trace(np.full(2000, 1500))  # nobody says how long before
    setting = workspace.Setting(bl.BOLD(bl.Exp3(3)), GAME, law, 2000, 0, checkpoints)
    tables = workspace.Tables.make(9, 3, 1, 2000, False)
    made = workspace.Workspace(setting, tables, 3)
    most: list[int] = []
    made.run(0, 9, lambda rounds: bool(most.append(int(made._crew[0]["lanes"])) or True))
    assert most[0] == 3 and most[-1] == 1
    assert (tables.summary["peak"] == 1500).all() and (tables.tally["pulls"].sum(axis=1) == 2000).all()
