"""Studies on a Ray cluster of two nodes, each with a raylet and workers of its own, one of them killed on the way."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

import belated as bl
from belated.errors import InvalidArgument, Unsupported
from belated.kernels.compile import identity
from belated.studies import on_ray
from belated.studies.cells import Play
from belated.studies.on_ray import OnRay
from belated.studies.run import CellsFailed, Local, run_cells
from belated.studies.store import Store

MEMORY = 100 * 2**20


@dataclass(frozen=True, eq=False)
class Noted(Play):
    """A play that leaves a note when it begins and when it ends: who computed what."""

    notes: str = ""

    def compute(self, tell):
        self.note("begins")
        table = super().compute(tell)
        self.note("ends")
        return table

    def note(self, word):
        with open(Path(self.notes) / self.key, "a") as file:
            file.write(f"{word} {os.getpid()}\n")


@dataclass(frozen=True, eq=False)
class Timed(Noted):
    exclusive: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class Failing(Noted):
    """Raises on every attempt, or ends its worker."""

    error: type[BaseException] = ZeroDivisionError

    def compute(self, tell):
        self.note("begins")
        if self.error is SystemExit:
            os._exit(1)
        raise self.error("it cannot be")


@dataclass
class Ours:
    """The cluster of this file: a head with one core, and a second node with another."""

    address: str
    raylet: int  #: the process of the second node


@pytest.fixture(scope="module")
def ours():
    from ray.cluster_utils import Cluster

    # Under /tmp, because the path of a socket must be short. RAY_TMPDIR, because Ray also notes the address in its
    # default folder, which it does not make, and which may hold the address of another cluster.
    folder = tempfile.mkdtemp(prefix="bl", dir="/tmp")
    patch = pytest.MonkeyPatch()
    patch.setenv("RAY_TMPDIR", folder)
    cluster = Cluster()
    try:
        size = {"num_cpus": 1, "object_store_memory": MEMORY}
        cluster.add_node(**size, include_dashboard=False)
        second = cluster.add_node(**size)
        yield Ours(cluster.address, second.all_processes["raylet"][0].process.pid)
    finally:
        kinds = [kind for node in cluster.list_all_nodes() for kind in node.all_processes.values()]
        started = [info.process.pid for kind in kinds for info in kind]
        below = [pid for parent in started for pid in _below(parent)]
        cluster.shutdown()
        for pid in started + below:
            _signal(pid, signal.SIGKILL)
        patch.undo()
        shutil.rmtree(folder, ignore_errors=True)


def _below(parent):
    """The processes that a process has started, and theirs."""
    parents = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit():
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = [parent]
    for pid in found:
        found.extend(child for child, of in parents.items() if of == pid)
    return found[1:]


def _signal(pid, what):
    with suppress(ProcessLookupError):
        os.kill(pid, what)


def wait_for(happened, seconds=60):
    end = time.monotonic() + seconds
    while not happened() and time.monotonic() < end:
        time.sleep(0.05)
    return happened()


def some_cells(notes, rounds=800_000, make=Noted):
    """Fourteen cells, of two learners, three forecasters and several laws; the last is large."""
    game = bl.games.Bernoulli([0.2, 0.5, 0.9])
    laws = [bl.delays.Constant(100), bl.delays.Geometric(mean=50), bl.delays.Pareto(mean=50, alpha=1.5)]
    who = [bl.BOLD(bl.Exp3(actions=3)), bl.QPMD(bl.UCB1(actions=3)), bl.Direct(bl.UCB1(actions=3))]
    grid = [(f, law, rounds + 1000 * i, 4) for i, law in enumerate(laws) for f in who]
    grid += [(who[1], laws[0], rounds // 10, n) for n in range(1, 5)]
    grid += [(who[1], laws[0], rounds // 100, 400)]
    return [make(f, game, law, n, replications, 3, notes=str(notes)) for f, law, n, replications in grid]


def notes_of(folder):
    return {file.name: [tuple(line.split()) for line in file.read_text().splitlines()] for file in folder.iterdir()}


def assert_same(cells, one, other):
    for cell in cells:
        expected, got = one.load(cell.key).columns, other.load(cell.key).columns
        assert list(expected) == list(got)
        for name, column in expected.items():
            assert column.dtype == got[name].dtype and column.shape == got[name].shape
            assert column.tobytes() == got[name].tobytes(), (cell.title, name)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The cells as this machine computes them."""
    notes = tmp_path_factory.mktemp("notes")
    store = Store(tmp_path_factory.mktemp("local"))
    run_cells(some_cells(notes), store, Local(2))
    return store


def test_a_cluster_gives_what_this_machine_gives(ours, expected, tmp_path, monkeypatch):
    seen, sent = [], []
    tell = on_ray.Flight._tell
    monkeypatch.setattr(on_ray.Flight, "_tell", lambda flight: (sent.append(len(flight.sent)), tell(flight)))
    monkeypatch.setenv("RAY_ADDRESS", ours.address)

    def watch(state):
        seen.append((threading.current_thread(), len(state.running), state.finished))

    (tmp_path / "notes").mkdir()
    cells = some_cells(tmp_path / "notes")
    store = Store(tmp_path / "cells")
    _, state = run_cells(cells, store, OnRay(), watch)
    assert_same(cells, expected, store)
    assert {file.name for file in store.folder.iterdir()} == {file.name for file in expected.folder.iterdir()}
    assert (state.finished, state.reused, state.running, state.failed) == (14, 0, {}, {})
    assert state.played == sum(cell.decisions for cell in cells) and state.seconds > 0
    assert {thread for thread, _, _ in seen} == {threading.main_thread()}
    assert max(running for _, running, _ in seen) == 2 and max(sent) == 2 * on_ray.DEPTH
    assert [finished for _, _, finished in seen] == sorted(finished for _, _, finished in seen)
    workers = {pid for lines in notes_of(tmp_path / "notes").values() for _, pid in lines}
    assert len(workers) >= 2 and str(os.getpid()) not in workers


def test_the_cluster_keeps_its_address_to_itself(ours):
    assert Path(os.environ["RAY_TMPDIR"], "ray", "ray_current_cluster").read_text() == ours.address


def interrupt(state):
    if state.finished >= 2:
        raise KeyboardInterrupt


@pytest.mark.minutes
def test_an_interrupted_study_goes_on_where_it_was(ours, expected, tmp_path):
    (tmp_path / "notes").mkdir()
    cells = some_cells(tmp_path / "notes")
    store = Store(tmp_path / "cells")

    with pytest.raises(KeyboardInterrupt):
        run_cells(cells, store, OnRay(ours.address), interrupt)
    busy = {lines[-1][1] for lines in notes_of(tmp_path / "notes").values() if lines[-1][0] == "begins"}
    assert wait_for(lambda: not any(Path("/proc", pid).exists() for pid in busy))
    kept = [cell for cell in cells if store.has(cell.key)]
    assert len(kept) == len(list(store.folder.iterdir())) == 2
    _, state = run_cells(cells, store, OnRay(ours.address))
    assert (state.reused, state.finished) == (2, 12)
    assert_same(cells, expected, store)
    # Nothing is left to do, so nobody is asked.
    _, state = run_cells(cells, store, OnRay("127.0.0.1:1"))
    assert (state.reused, state.finished) == (14, 0)


@pytest.mark.minutes
def test_a_connection_of_ones_own_is_used_and_kept(ours, tmp_path):
    import ray

    (tmp_path / "notes").mkdir()
    cells = some_cells(tmp_path / "notes")
    ray.init(ours.address, log_to_driver=False, logging_level="ERROR")
    try:
        with pytest.raises(KeyboardInterrupt):
            run_cells(cells, Store(tmp_path / "cells"), OnRay("127.0.0.1:1"), interrupt)
        assert ray.is_initialized()
        assert wait_for(lambda: ray.available_resources().get("CPU") == 2)
        assert len(notes_of(tmp_path / "notes")) < len(cells)
    finally:
        ray.shutdown()


@pytest.mark.minutes
def test_a_cell_that_fails_does_not_stop_the_others(ours, tmp_path, monkeypatch):
    monkeypatch.setattr(on_ray, "RETRIES", 1)
    notes = tmp_path / "notes"
    notes.mkdir()
    good = some_cells(notes, rounds=1000)[:3]
    timed = Timed(good[0].forecaster, good[0].game, good[0].delays, 500, notes=str(notes))
    errors = [InvalidArgument, ZeroDivisionError, MemoryError, SystemExit]
    bad = [
        Failing(good[0].forecaster, good[0].game, good[0].delays, 2000 + i, notes=str(notes), error=error)
        for i, error in enumerate(errors)
    ]
    store = Store(tmp_path / "cells")
    with pytest.raises(CellsFailed, match="4 of 8 cells failed") as caught:
        run_cells([*good, *bad, timed], store, OnRay(ours.address))
    assert str(caught.value).count("it cannot be") == 3 and "worker" in str(caught.value)
    assert all(store.has(cell.key) for cell in [*good, timed]) and not any(store.has(cell.key) for cell in bad)
    wrote = notes_of(notes)
    assert [len(wrote[cell.key]) for cell in bad] == [1, 1, 1, 2]
    assert wrote[timed.key] == [("begins", str(os.getpid())), ("ends", str(os.getpid()))]


def test_an_unforeseen_error_is_raised(ours, tmp_path):
    cell = some_cells(tmp_path, rounds=1000)[0]
    bad = Failing(cell.forecaster, cell.game, cell.delays, 1000, notes=str(tmp_path), error=TypeError)
    with pytest.raises(TypeError, match="it cannot be"):
        run_cells([bad], Store(tmp_path / "cells"), OnRay(ours.address))


SCRIPT = """
import sys
from dataclasses import dataclass
import numpy as np
import belated as bl
from belated.kernels.compile import kernel
from belated.studies.cells import Play
from belated.studies.on_ray import OnRay
from belated.studies.run import Local, run_cells
from belated.studies.store import Store

@kernel
def poor(reward):
    return reward < 0.5

@dataclass(frozen=True)
class Lazy(bl.Learner):
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

game = bl.games.Bernoulli([0.2, 0.5, 0.9])
cells = [Play(bl.BOLD(Lazy(3)), game, bl.delays.Constant(d), 1000) for d in (1, 2, 3, 4)]
stores = [Store(name) for name in ("local", "cluster")]
for engine, store in zip((Local(), OnRay()), stores):
    done, state = run_cells(cells, store, engine)
    assert state.finished == 4
for cell in cells:
    one, other = (store.load(cell.key).columns for store in stores)
    assert all(one[name].tobytes() == other[name].tobytes() for name in one)
print("the same")
"""


@pytest.mark.minutes
def test_a_learner_of_a_script_on_a_cluster_for_the_time_of_the_run(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    with tempfile.TemporaryDirectory(prefix="bl", dir="/tmp", ignore_cleanup_errors=True) as short:
        environment["RAY_TMPDIR"] = short
        ran = subprocess.run(
            [sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
    assert (ran.stdout, ran.stderr) == ("the same\n", "")


def test_a_class_that_workers_cannot_import_is_the_same_for_all_its_cells(tmp_path):
    namespace = {"__name__": "__main__"}
    exec(SCRIPT.partition("game =")[0], namespace)
    lazy = namespace["Lazy"](3)
    cell = some_cells(tmp_path)[0]
    packed = [on_ray.pack(Play(bl.BOLD(lazy), cell.game, cell.delays, rounds)) for rounds in (10, 20)]
    updates = [pickle.loads(one).forecaster.learner.update for one in packed]
    assert updates[0] is updates[1]  # so that it is compiled once
    assert identity(updates[0].__globals__["poor"]) == identity(namespace["poor"]) is not None


def test_without_ray_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(Unsupported, match=r"install belated\[ray\]$"):
        run_cells(some_cells(tmp_path)[:1], Store(tmp_path / "cells"), OnRay())


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "nobody.invalid:6379", "localhost:99999", "nowhere", "ray://a:1", ""]
)
def test_an_address_where_nobody_is_is_named(tmp_path, address, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "nowhere-else:x")
    with pytest.raises(InvalidArgument) as caught:
        run_cells(some_cells(tmp_path)[:1], Store(tmp_path / "cells"), OnRay(address, patience=5.0))
    assert repr(address or "nowhere-else:x") in str(caught.value) and "\n" not in str(caught.value)


def test_an_address_of_something_else_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(InvalidArgument, match=f"no Ray cluster can be reached at '{address}'"):
            run_cells(some_cells(tmp_path)[:1], Store(tmp_path / "cells"), OnRay(address, patience=0.5))


def test_an_answer_of_something_else_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"

        def answer():
            with other.accept()[0] as peer:
                peer.recv(100)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(InvalidArgument, match=f"what answers at '{address}' is not a Ray cluster"):
            run_cells(some_cells(tmp_path)[:1], Store(tmp_path / "cells"), OnRay(address))
        thread.join()


def test_a_cluster_that_cannot_be_used_is_named(tmp_path, monkeypatch):
    import ray

    def refuse(**options):
        raise RuntimeError("Version mismatch\nand much more")

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(InvalidArgument, match=r"'auto' cannot be used: Version mismatch$"):
        run_cells(some_cells(tmp_path)[:1], Store(tmp_path / "cells"), OnRay("auto"))


def test_an_attempt_gives_a_table_or_a_reason(tmp_path):
    cell = some_cells(tmp_path, rounds=1000)[0]
    bad = Failing(cell.forecaster, cell.game, cell.delays, 1000, notes=str(tmp_path))
    table, seconds = on_ray.attempt(on_ray.pack(cell))
    assert len(table.columns["peak"]) == cell.replications and seconds > 0
    assert on_ray.attempt(on_ray.pack(bad)) == "it cannot be"


@pytest.mark.minutes
def test_a_killed_node_costs_only_time(ours, expected, tmp_path):
    """The last test of the file: from here on the cluster has one node."""
    notes = tmp_path / "notes"
    notes.mkdir()
    cells = some_cells(notes)
    store = Store(tmp_path / "cells")
    lost = []

    def running_there():
        there = {str(pid) for pid in _below(ours.raylet)}
        return [key for key, lines in notes_of(notes).items() if lines[-1][0] == "begins" and lines[-1][1] in there]

    def kill(state):
        if lost or state.finished < 1 or not running_there():
            return
        # All of the node stands still: what has not ended by now never will.
        node = [ours.raylet, *_below(ours.raylet)]
        for pid in node:
            _signal(pid, signal.SIGSTOP)
        lost.extend(running_there())
        for pid in node:
            _signal(pid, signal.SIGKILL if lost else signal.SIGCONT)

    _, state = run_cells(cells, store, OnRay(ours.address), kill)
    assert (state.finished, state.reused, state.failed) == (14, 0, {})
    assert_same(cells, expected, store)
    assert len(lost) == 1
    for cell in cells:
        words = [word for word, _ in notes_of(notes)[cell.key]]
        assert words == (["begins", "begins", "ends"] if cell.key in lost else ["begins", "ends"])
