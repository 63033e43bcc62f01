"""belated's own cells: ``python ours.py CELL [ROUNDS] [REPEATS]`` prints one JSON line.

The library is imported inside the cells, because one of them times that very import.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from setting import ARMS, CHOICES, DELAY, FEATURES, MEANS, best_of, linear

REPLICATIONS = 64
"""Replications of the cells with many."""

Result = dict[str, float]


def play(learner: Any, delay: Any, rounds: int, replications: int = 1, threads: int = 1) -> Result:
    """Time one whole call of ``belated.play``, everything that a user waits for included."""
    import belated as bl

    start = perf_counter()
    bl.play(
        learner,
        bl.games.Bernoulli(MEANS),
        delay,
        rounds=rounds,
        replications=replications,
        seed=0,
        threads=threads,
        progress=False,
    )
    return {"decisions": rounds * replications, "seconds": perf_counter() - start}


def ucb(rounds: int) -> Result:
    """Delayed UCB1 under the constant delay: the game of the C++ loop and of every peer."""
    import belated as bl

    return play(bl.DelayedUCB1(actions=ARMS), bl.delays.Constant(DELAY), rounds)


def klucb(rounds: int) -> Result:
    """Delayed KL-UCB under the constant delay."""
    import belated as bl

    return play(bl.DelayedKLUCB(actions=ARMS), bl.delays.Constant(DELAY), rounds)


def exp3(rounds: int, replications: int = 1) -> Result:
    """BOLD over Exp3: about a hundred copies in play at once, and still one decision per round."""
    import belated as bl

    return play(bl.BOLD(bl.Exp3(actions=ARMS)), bl.delays.Geometric(mean=100), rounds, replications)


def qpmd(rounds: int, replications: int = 1) -> Result:
    """QPM-D over UCB1: feedback waits in queues."""
    import belated as bl

    return play(bl.QPMD(bl.UCB1(actions=ARMS)), bl.delays.Geometric(mean=100), rounds, replications)


def geometric(mean: int) -> Callable[[int], Result]:
    """UCB1 told of feedback as it comes, under geometric delays: the wait must not cost time."""

    def cell(rounds: int) -> Result:
        import belated as bl

        return play(bl.Direct(bl.UCB1(actions=ARMS)), bl.delays.Geometric(mean=mean), rounds)

    return cell


def threads(count: int) -> Callable[[int], Result]:
    """The UCB1 game in 64 replications, ``rounds`` each, on so many threads."""

    def cell(rounds: int) -> Result:
        import belated as bl

        return play(
            bl.DelayedUCB1(actions=ARMS),
            bl.delays.Constant(DELAY),
            rounds,
            replications=REPLICATIONS,
            threads=count,
        )

    return cell


def linucb(rounds: int, features: int = FEATURES) -> Result:
    """LinUCB on the linear game: the very contexts and rewards that the peer meets."""
    import belated as bl

    contexts, rewards = linear(rounds, features)
    game = bl.games.RewardTable(rewards, contexts=contexts)
    learner = bl.Direct(bl.LinUCB(CHOICES, features))
    start, busy = perf_counter(), process_time()
    played = bl.play(learner, game, bl.delays.Constant(DELAY), rounds=rounds, threads=1, progress=False)
    seconds, busy = perf_counter() - start, process_time() - busy
    return {"decisions": rounds, "seconds": seconds, "busy": busy, "regret": float(played.regret[0, -1])}


def features(rounds: int) -> Result:
    """How the time of LinUCB's decision, update included, grows with the number of features: like which power.

    Time of the processor: on a busy machine, waiting for it would hide the power.
    """
    import numpy as np

    sizes = [FEATURES * 2**step for step in range(4)]
    runs = [best_of(3, lambda d=d: linucb(rounds * FEATURES // d, d)) for d in sizes]  # type: ignore[misc]
    times = [1e6 * run["busy"] / run["decisions"] for run in runs]
    power = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
    totals = {key: sum(run[key] for run in runs) for key in ("decisions", "seconds")}
    return {**totals, "power": power, **{f"us {d}": time for d, time in zip(sizes, times, strict=True)}}


def memory(rounds: int) -> Result:
    """Peak memory of this process after one long play that records nothing by the round."""
    import belated as bl

    result = play(bl.DelayedUCB1(actions=ARMS), bl.delays.Constant(1_000), rounds)
    return {**result, "peak_mb": peak_mb()}


def peak_mb() -> float:
    """Largest resident size so far. Linux keeps it per program; ``ru_maxrss`` may still hold the parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024


CELLS: dict[str, Callable[[int], Result]] = {
    "ucb": ucb,
    "klucb": klucb,
    "exp3": exp3,
    "exp3-many": lambda rounds: exp3(rounds, REPLICATIONS),
    "qpmd": qpmd,
    "qpmd-many": lambda rounds: qpmd(rounds, REPLICATIONS),
    "geometric-10": geometric(10),
    "geometric-10000": geometric(10_000),
    "threads-1": threads(1),
    "threads-2": threads(2),
    "linucb": linucb,
    "features": features,
    "memory": memory,
}
"""The cell ``start`` is not here: it must not be warmed up."""


def main() -> None:
    """Run the named cell and print its result."""
    name = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 2_000_000
    repeats = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    if name == "start":
        start = perf_counter()
        ucb(rounds)
        print(json.dumps({"decisions": rounds, "seconds": perf_counter() - start}))
        return
    cell = CELLS[name]
    if name != "memory":
        cell(1_000)  # loads the compiled code
    print(json.dumps(best_of(repeats, lambda: cell(rounds))))


if __name__ == "__main__":
    main()
