"""Replications over threads. Rows of the tables belong to replications, so results do not depend on the number."""

from __future__ import annotations

import os
import queue
import threading
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

from belated.engine.lanes import lanes_for
from belated.engine.plain import play_plainly
from belated.engine.progress import Progress
from belated.engine.workspace import Setting, Tables, Workspace, ring_of
from belated.kernels.blame import check_allowed

#: Tasks for each thread: enough to even out, few enough to cost nothing.
SHARE = 8


def run_compiled(setting: Setting, tables: Tables, threads: int | None, progress: Progress) -> None:
    """Play all replications with the compiled loop, several side by side on each thread."""
    replications = len(tables.regret)
    workers = min(int(threads or os.cpu_count() or 1), replications)
    share = -(-replications // workers)
    lanes = min(lanes_for(setting, ring_of(setting, replications)), share) if share > 1 else 1
    lanes = -(-share // -(-share // lanes))  # as many waves, and no lane is left alone at the end
    if workers == 1:

        def tell(rounds: int) -> bool:
            progress.add(rounds)
            progress.show()
            return True

        Workspace(setting, tables, lanes).run(0, replications, tell)
        return
    stop = threading.Event()

    def tick(rounds: int) -> bool:
        progress.add(rounds)
        return not stop.is_set()

    tasks: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
    step = min(share, lanes * max(1, replications // (workers * SHARE * lanes)))
    for first in range(0, replications, step):
        tasks.put((first, min(first + step, replications)))

    def work() -> None:
        workspace = Workspace(setting, tables, lanes)
        while not stop.is_set():
            try:
                first, last = tasks.get_nowait()
            except queue.Empty:
                return
            workspace.run(first, last, tick)

    with ThreadPoolExecutor(workers, thread_name_prefix="belated") as pool:
        futures: list[Future[None]] = [pool.submit(work) for _ in range(workers)]
        try:
            while wait(futures, timeout=0.1, return_when=FIRST_EXCEPTION).not_done:
                progress.show()
                if any(f.done() and f.exception() for f in futures):
                    break
        finally:
            stop.set()
        for future in futures:
            future.result()


def check_gpu() -> None:
    """Say in one line why plays cannot run on a GPU here, if they cannot."""
    from belated.engine.cuda.device import find

    find()


def run_on_gpu(setting: Setting, tables: Tables, progress: Progress) -> None:
    """Play all replications on a GPU, a thread each."""
    check_allowed(setting.forecaster.learner, setting.game, setting.delays)
    from belated.engine.cuda.device import find
    from belated.engine.cuda.waves import run_waves

    run_waves(find(), setting, tables, progress)


def run_plain(setting: Setting, tables: Tables, progress: Progress) -> None:
    """Play all replications in Python, one after the other."""

    def tick(rounds: int) -> bool:
        progress.add(rounds)
        progress.show()
        return True

    for replication in range(len(tables.regret)):
        play_plainly(setting, tables, replication, tick)
