"""Run the cells of a study on a Ray cluster: each cell is one task, and this process alone writes to the store.

Workers send what they computed and need no shared disk. belated must be installed where they run, and this process
must run on one of the cluster's machines.
"""

from __future__ import annotations

import importlib
import io
import itertools
import logging
import os
import pickle
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from numba.core.dispatcher import Dispatcher

from belated import imports
from belated.errors import BelatedError, InvalidArgument, Unsupported
from belated.kernels.compile import identity, kernel
from belated.studies.cells import Cell, Table
from belated.studies.run import State, Watch, compute, played_on_gpu
from belated.studies.store import Store

#: How often a cell is tried again after its worker or node died.
RETRIES = 10
#: Cells in flight for each core of the cluster: enough that none is idle, few enough to hold.
DEPTH = 3
#: Seconds between two looks at what has come, and at how large the cluster is.
PAUSE, LOOK = 0.1, 1.0
#: What workers take over from the environment here.
PASSED = ("BELATED_CACHE_DIR", "NUMBA_DISABLE_JIT", "NUMBA_ENABLE_CUDASIM")
#: How a client of gRPC begins; the server answers with its settings, a frame of type 4.
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


@dataclass(frozen=True)
class OnRay:
    """A Ray cluster: that at `address` ("host:port", or "auto" for the one on this machine), else at RAY_ADDRESS.

    Without either, a cluster of this machine alone is started for the time of the run. A connection that is there
    already is used, and left as it is. `patience` is how many seconds a cluster may take to answer.
    """

    address: str | None = None
    patience: float = 10.0
    gpu: bool = False  #: whether cells are played on GPUs, one for each worker

    def run(self, cells: Sequence[Cell], store: Store, state: State, watch: Watch) -> None:
        ray = load()
        address = self.address or os.environ.get("RAY_ADDRESS") or "local"
        if address not in ("auto", "local") and not ray.is_initialized():
            reach(address, self.patience)
        for cell in (c for c in cells if c.exclusive):
            compute(cell, store, state, threading.Lock(), lambda done, total: watch(state))
        shared: Sequence[Cell] = [c for c in cells if not c.exclusive]
        if self.gpu:
            shared = played_on_gpu(shared)
        if shared:
            with connected(ray, address) as ours:
                if self.gpu and not ray.cluster_resources().get("GPU"):
                    raise Unsupported(f"the Ray cluster {address!r} has no GPU")
                Flight(ray, store, state, watch, ours, "GPU" if self.gpu else "CPU").run(shared)


def load() -> Any:
    """The package, or one clear line."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise Unsupported(f"a study on a cluster needs Ray ({error}): install belated[ray]") from None


def reach(address: str, patience: float) -> None:
    """Make sure that a cluster answers there; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdigit():
        raise InvalidArgument(f"the address of a Ray cluster is host:port or auto, got {address!r}")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), patience) as probe:
            if os.environ.get("RAY_USE_TLS", "0") != "0":
                return
            probe.sendall(HELLO)
            if probe.recv(9)[3:4] != b"\x04":
                raise InvalidArgument(f"what answers at {address!r} is not a Ray cluster")
    except (OSError, OverflowError) as error:
        raise InvalidArgument(f"no Ray cluster can be reached at {address!r}: {error}") from None


@contextmanager
def connected(ray: Any, address: str) -> Iterator[bool]:
    """A connection to the cluster; True when it is ours, and ends with the run (and a local cluster with it)."""
    if ray.is_initialized():
        yield False
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options["include_dashboard"] = False
    try:
        try:
            ray.init(address=address, **options)
        except Exception as error:
            raise InvalidArgument(f"the Ray cluster {address!r} cannot be used: {first_line(error)}") from error
        yield True
    finally:
        ray.shutdown()


@dataclass
class Flight:
    """The cells that were sent and have not come back, in the order in which they start."""

    ray: Any
    store: Store
    state: State
    watch: Watch
    ours: bool  #: whether the connection ends with the run, and with it whatever still runs on the cluster
    takes: str = "CPU"  #: what a cell needs one of
    cores: int = 1
    looked: float = -LOOK
    sent: dict[Any, Cell] = field(default_factory=dict)

    def run(self, cells: Sequence[Cell]) -> None:
        """Compute them all. Whatever ends it early, nothing stays behind on the cluster."""
        send = self._task()
        waiting = iter(cells)
        try:
            while self._more(waiting, send):
                self._tell()
                for ref in self._back():
                    self._land(ref)
        finally:
            if not self.ours:
                self._cancel()
            self.state.running = {}

    def _task(self) -> Any:
        """What runs on a worker: tried again when the worker dies, not when the cell fails."""
        passed = {name: os.environ[name] for name in PASSED if os.environ.get(name)}
        options: dict[str, Any] = {"runtime_env": {"env_vars": passed}} if passed else {}
        options["num_gpus"] = int(self.takes == "GPU")
        return self.ray.remote(num_cpus=1, max_retries=RETRIES, retry_exceptions=False, **options)(attempt).remote

    def _more(self, waiting: Iterator[Cell], send: Any) -> bool:
        """Send as many as there is room for; False when none is left."""
        if time.monotonic() - self.looked > LOOK:
            self.cores = max(1, int(self.ray.cluster_resources().get(self.takes, 1)))
            self.looked = time.monotonic()
        for cell in itertools.islice(waiting, max(0, DEPTH * self.cores - len(self.sent))):
            self.sent[send(pack(cell))] = cell
        return bool(self.sent)

    def _tell(self) -> None:
        first = itertools.islice(self.sent.values(), self.cores)
        self.state.running = {cell.key: (cell.title, 0) for cell in first}
        self.watch(self.state)

    def _back(self) -> list[Any]:
        """What has come back, after a short wait for the first."""
        refs = list(self.sent)
        if self.ray.wait(refs, num_returns=1, timeout=PAUSE)[0]:
            return list(self.ray.wait(refs, num_returns=len(refs), timeout=0)[0])
        return []

    def _cancel(self) -> None:
        # Not those that are back: Ray can crash when it is asked to cancel what has just finished.
        if self.sent:
            for ref in self.ray.wait(list(self.sent), num_returns=len(self.sent), timeout=0)[1]:
                self.ray.cancel(ref)

    def _land(self, ref: Any) -> None:
        """Keep a cell that came back and count it, or note why it cannot be."""
        errors = self.ray.exceptions
        try:
            came = self.ray.get(ref, timeout=PAUSE)
        except errors.GetTimeoutError:
            return  # its node died meanwhile: it is computed again
        except errors.RayTaskError:
            raise
        except errors.RayError as error:
            came = first_line(error)
        cell = self.sent.pop(ref)
        if isinstance(came, str):
            self.state.failed[cell.title] = came
        else:
            table, seconds = came
            self.store.save(cell.key, table)
            self.state.finished += 1
            self.state.played += cell.decisions
            self.state.seconds += seconds
        self._tell()


def attempt(packed: bytes) -> tuple[Table, float] | str:
    """Compute a cell on a worker: the table and the seconds it took, or the reason why there is none."""
    cell: Cell = pickle.loads(packed)
    began = time.perf_counter()
    try:
        return cell.compute(lambda done, total: None), time.perf_counter() - began
    except (BelatedError, ArithmeticError, MemoryError) as error:
        return str(error) or type(error).__name__


def pack(cell: Cell) -> bytes:
    """A cell as bytes. Classes that workers cannot import, as those of a script or notebook, go along whole.

    So do those of modules that were brought (`belated.imports`).
    """
    for name in imports.BROUGHT.keys() & sys.modules.keys():
        load().cloudpickle.register_pickle_by_value(sys.modules[name])
    return packed(cell, packers()[0])


def packed(thing: Any, packer: Any) -> bytes:
    buffer = io.BytesIO()
    packer(buffer).dump(thing)
    return buffer.getvalue()


@cache
def unpack(thing: bytes) -> Any:
    """A class that came along; the same object each time, so that a worker compiles its kernels only once."""
    return pickle.loads(thing)


@cache
def packers() -> tuple[Any, Any]:
    """Ray's pickler twice: for cells, with each class that goes along in bytes of its own; and for such a class."""
    base: Any = load().cloudpickle.CloudPickler

    class Whole(base):  # type: ignore[misc]
        def reducer_override(self, thing: Any) -> Any:
            # A kernel must be one again, with its identity: else what it is part of would not be cached.
            if isinstance(thing, Dispatcher) and identity(thing) is not None:
                return kernel_again, (thing.py_func, thing.targetoptions["inline"] == "always")
            return super().reducer_override(thing)

    class Outer(Whole):
        def reducer_override(self, thing: Any) -> Any:
            reduced = super().reducer_override(thing)
            if isinstance(thing, type) and reduced is not NotImplemented:
                return unpack, (packed(thing, Whole),)
            return reduced

    return Outer, Whole


def kernel_again(function: Any, inline: bool) -> Any:
    return kernel(function, inline=inline)


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
