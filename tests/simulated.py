"""What tests/test_cuda.py runs in a process of its own, which is Numba's simulator of a GPU."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import belated as bl
from belated.checks.contract import COMPARED, allowed, arena, laws
from belated.engine import lanes
from belated.engine.cuda import device, waves
from belated.engine.workspace import Setting
from belated.errors import BadKernel, BadPrediction, Unsupported
from belated.studies.cells import Play
from belated.studies.on_ray import OnRay
from belated.studies.run import OnGPU, run_cells
from belated.studies.store import Store

GAME = bl.games.Bernoulli([0.2, 0.5, 0.9])
FEW = (bl.Direct(bl.UCB1(3)), bl.BOLD(bl.Exp3(3)), bl.QPMD(bl.UCB1(3)))
PAIRS = [(name, f) for name, make in bl.catalog.LEARNERS.items() for f in allowed(make.example())]
#: Learners with a supply, values of side information, numbers of it, points.
VARIED = ("cbp", "percontext", "linucb", "gradientdescent")

few = pytest.mark.parametrize("forecaster", FEW, ids=lambda f: type(f).__name__)


def both(*what: Any, engine: str = "compiled", **how: Any) -> tuple[Any, Any]:
    """The same play on a GPU and on the CPU."""
    how = {"replications": 5, "seed": 3, "record": True} | how
    return bl.play(*what, engine="cuda", **how), bl.play(*what, engine=engine, **how)


def same(one: Any, two: Any) -> None:
    for name in COMPARED:
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    for name in (*one.groups, *one.pools):
        table = "groups" if name in one.groups else "pools"
        assert np.array_equal(getattr(one, table)[name], getattr(two, table)[name]), name
    assert one.certificate and two.certificate


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mailboxes, pools, waves and launches as small as they can be: all of them grow, or are many."""
    monkeypatch.setattr(lanes, "ROOM", 2)
    monkeypatch.setattr(lanes, "MOST_BYTES", 64)
    monkeypatch.setattr(device.Host, "most", 2)
    monkeypatch.setattr(device, "BLOCK", 2)
    monkeypatch.setattr(waves, "FIRST_LAUNCH", 5)
    monkeypatch.setattr(waves, "LAUNCH", 0.01)


@pytest.fixture
def grown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which turns are taken that move something."""
    seen: list[str] = []
    run = device.Device.run

    def watched(self: Any, turn: Any, count: int, work: Any) -> None:
        seen.append(turn.__name__)
        run(self, turn, count, work)

    monkeypatch.setattr(device.Device, "run", watched)
    return seen


@few
@pytest.mark.parametrize("law", [bl.delays.Geometric(mean=5), bl.delays.Constant(20)], ids=repr)
def test_plays_are_those_of_the_cpu(forecaster: Any, law: Any) -> None:
    same(*both(forecaster, GAME, law, 50))


@pytest.mark.parametrize(
    "forecaster",
    [*FEW, bl.Direct(bl.KLUCB(3)), bl.QPMD(bl.KLUCB(3)), bl.Direct(bl.SlidingUCB(3, 50))],
    ids=repr,
)
@pytest.mark.parametrize("law", [bl.delays.Geometric(mean=5), bl.delays.Constant(3)], ids=repr)
def test_what_kernels_do_on_a_gpu_only_gives_the_same(
    forecaster: Any, law: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    game = bl.games.Bernoulli([0.2, 0.5, 0.5])  # many ties
    how = {"replications": 3, "seed": 2, "record": True}
    here = bl.play(forecaster, game, law, 120, engine="compiled", **how)
    changed = [each for name, each in sys.modules.items() if name.startswith("belated.") and hasattr(each, "on_gpu")]
    assert len(changed) > 5
    for each in changed:
        monkeypatch.setattr(each, "on_gpu", lambda: True)
    same(bl.play(forecaster, game, law, 120, engine="cuda", **how), here)


@few
def test_everything_grows_and_nothing_changes(forecaster: Any, small: None, grown: list[str]) -> None:
    same(*both(forecaster, GAME, bl.delays.Uniform(0, 40), 50))
    assert "move_mailbox" in grown and ("move_pool" in grown) == isinstance(forecaster, bl.BOLD)


@pytest.mark.parametrize(("law", "expiry"), list(laws(50)), ids=lambda each: f"{each!r:.30}")
def test_laws_and_expiry(law: Any, expiry: Any, small: None) -> None:
    for forecaster in FEW:
        same(*both(forecaster, GAME, law, 50, expiry=expiry, replications=3))
        if expiry is not None:
            same(*both(forecaster, GAME, law, 50, expiry=expiry, default=0.25, replications=3))


@pytest.mark.parametrize(
    ("name", "forecaster"),
    [pytest.param(name, f, marks=() if name in VARIED else pytest.mark.minutes) for name, f in PAIRS],
    ids=[f"{name}-{f.__name__}" for name, f in PAIRS],
)
def test_every_pair(name: str, forecaster: Any, small: None) -> None:
    learner = bl.catalog.LEARNERS[name].example()
    same(*both(forecaster(learner), arena(learner, 30), bl.delays.Geometric(mean=4), 30, replications=3))


@pytest.mark.parametrize("forecaster", [bl.Direct, bl.BOLD])
def test_a_game_that_announces(forecaster: Any) -> None:
    game = bl.games.Replaced(3, 0.2, announced=True)
    same(*both(forecaster(bl.UCB1(3)), game, bl.delays.Geometric(mean=5), 50))


def test_a_wave_that_does_not_fit_is_played_again(monkeypatch: pytest.MonkeyPatch, small: None) -> None:
    monkeypatch.setattr(device.Host, "most", 5)
    whole, told = device.Host.room, []

    def room(self: Any, shape: Any, dtype: Any) -> Any:
        if "feedback" in (dtype.names or ()) and shape[0] * shape[1] > 64:
            raise MemoryError
        return whole(self, shape, dtype)

    monkeypatch.setattr(device.Host, "room", room)
    law = bl.delays.Uniform(0, 40)
    same(*both(FEW[0], GAME, law, 50, progress=lambda done, total: told.append(done)))
    assert told[-1] == 250 and any(after < before for before, after in pairwise(told))
    with pytest.raises(Unsupported, match=r"one replication of Direct.* does not fit into the GPU"):
        bl.play(FEW[0], GAME, bl.delays.Constant(100), 200, engine="cuda")


def test_it_can_be_stopped(small: None) -> None:
    def stop(done: int, total: int) -> None:
        if done > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bl.play(FEW[0], GAME, bl.delays.Constant(5), 1000, 2, progress=stop, engine="cuda")


class Wrong(bl.UCB1):
    """Chooses an action that there is not, in some replications and not at once."""

    @staticmethod
    def predict(params, state, context, draw):
        return 0 if state.predictions < 7 or draw[0] % 2 else 99, 1.0


class Greedy(bl.Direct):
    """Writes outside its marks."""

    def kernels(self, parts: Any) -> Any:
        made = super().kernels(parts)
        begin = made.begin

        def wide(desk, rule, params, blank, pool, marks, context, k0, k1):
            begin(desk, rule, params, blank, pool, marks, context, k0, k1)
            if desk.replication == 1:
                marks.base[1, 0] = 5

        return made._replace(begin=wide)


def test_errors_are_those_of_the_cpu(small: None) -> None:
    said = []
    for engine in ("cuda", "compiled"):
        with pytest.raises(BadPrediction) as caught:
            bl.play(bl.Direct(Wrong(3)), GAME, bl.delays.Constant(5), 20, 6, threads=1, engine=engine)
        said.append(str(caught.value))
    assert said[0] == said[1] and "action 99" in said[0] and "in round 7" in said[0]


class Helpless(bl.UCB1):
    """Needs something, and has no supply."""

    @staticmethod
    def predict(params, state, context, draw):
        return bl.protocols.NEEDED if state.predictions > 4 and draw[0] % 2 else 0, 1.0


def test_who_needs_something_and_has_no_supply(small: None) -> None:
    said = []
    for engine in ("cuda", "compiled"):
        with pytest.raises(BadPrediction, match="it has no supply") as caught:
            bl.play(bl.Direct(Helpless(3)), GAME, bl.delays.Constant(5), 20, 6, threads=1, engine=engine)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_lanes_that_do_not_play_are_left_alone(small: None) -> None:
    wave = wave_of(bl.BOLD(bl.UCB1(3)), GAME, 4)
    for name in ("slab", "wheel", "marks"):
        array = getattr(wave._lanes, name)
        array.view(np.ndarray).view("u1")[...] = 0  # whatever was there before: here lists without an end
    wave._lanes.marks[:, : lanes.RING] = wave._lanes.marks[:, -lanes.RING :] = lanes.TRACELESS
    wave.play(0, 2, lambda rounds: None)
    assert len(wave._lanes.slab) > 4 < len(wave._lanes.pool)


def test_writing_outside_marks_is_found() -> None:
    with pytest.raises(BadKernel, match="write outside `marks`"):
        bl.play(Greedy(bl.UCB1(3)), GAME, bl.delays.Constant(5), 20, 3, engine="cuda")


def test_cells_are_those_of_any_other_engine(tmp_path: Path) -> None:
    cells = [Play(f, GAME, bl.delays.Geometric(mean=5), 40, 3, 1) for f in FEW]
    assert [replace(cell, engine="cuda").key for cell in cells] == [cell.key for cell in cells]
    there, state = run_cells(cells, Store(tmp_path / "gpu"), OnGPU())
    assert (state.finished, state.reused) == (3, 0)
    here, _ = run_cells(cells, Store(tmp_path / "cpu"))
    for cell in cells:
        for name in (name for name in COMPARED if name not in ("actions", "probabilities", "delays")):
            assert np.array_equal(getattr(there[cell], name), getattr(here[cell], name))
    assert run_cells(cells, Store(tmp_path / "gpu"))[1].reused == 3


@pytest.mark.minutes
def test_a_cluster_whose_workers_have_a_gpu_each(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    cells = [Play(f, GAME, bl.delays.Geometric(mean=5), 40, 3, 1) for f in FEW]
    size: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "include_dashboard": False}
    for gpus in (0, 1):
        with ray.init(address="local", num_gpus=gpus, log_to_driver=False, logging_level="ERROR", **size):
            if not gpus:
                with pytest.raises(Unsupported, match="has no GPU"):
                    run_cells(cells, Store(tmp_path / "ray"), OnRay(gpu=True))
                continue
            there, state = run_cells(cells, Store(tmp_path / "ray"), OnRay(gpu=True))
    assert state.finished == 3
    here, _ = run_cells(cells, Store(tmp_path / "cpu"))
    assert all(np.array_equal(there[cell].regret, here[cell].regret) for cell in cells)


def wave_of(forecaster: Any, game: Any, lanes: int) -> Any:
    setting = Setting(forecaster, game, bl.delays.Uniform(9, 12), 30, 0, np.array([30]))
    return waves.Wave(device.Host(), waves.Plan(setting, is_gpu=False), lanes)


def test_a_mailbox_that_is_half_full_loses_no_room() -> None:
    wave = wave_of(FEW[0], GAME, 2)
    wave.begin(0)
    device.Host().run(wave.turn, 2, wave.work._replace(budget=3))
    lanes = wave.work.lanes
    before, size = free(lanes, 1), len(lanes.slab)
    assert 0 < len(before) < size
    wave._sample.grow_mailbox()
    wave._move(2, wave.move_mailbox, "slab", "wheel", "contexts")
    assert sorted(free(wave.work.lanes, 1)) == sorted([*before, *range(size, 2 * size)])


def free(lanes: Any, lane: int) -> list[int]:
    """The free entries of a mailbox."""
    found, entry = [], int(lanes.desk["free"][0, lane])
    while entry >= 0:
        found.append(entry)
        entry = int(lanes.slab["next"][entry, lane])
    return found


class Notes(bl.UCB1):
    """Writes into its constants, as those do that are supplied."""

    def params(self) -> dict[str, Any]:
        return {"note": 0.0}

    def supply(self, params: Any, state: Any) -> None:
        pass

    @staticmethod
    def predict(params, state, context, draw):
        params.note += state.predictions
        return 0, 1.0


def test_who_writes_into_constants_has_its_own() -> None:
    wave = wave_of(bl.Direct(Notes(3)), GAME, 3)
    wave.play(0, 3, lambda rounds: None)
    assert wave._asked.params["note"].tolist() == [465.0] * 3
    assert len(wave_of(FEW[0], GAME, 3)._asked.params) == 1


def write(folder: str) -> None:
    """What the simulator plays, for the process that started it."""
    for forecaster in FEW:
        r = bl.play(forecaster, GAME, bl.delays.Geometric(mean=9), 60, 4, 8, record=True, engine="cuda")
        np.savez(Path(folder) / f"{type(forecaster).__name__}.npz", **{name: getattr(r, name) for name in COMPARED})
