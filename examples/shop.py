"""A small shop that learns which banner sells, while its sales come late, out of order, or never.

    belated serve                                # in one terminal
    python examples/shop.py                      # in another; --help shows what can be changed

For every visitor it asks the service which banner to show. A visitor who buys does so seconds later; one who has gone
without buying is reported after a while, as a 0; some are never heard of again (a tab stays open, a tracker is
blocked), and their decisions expire. Watch it at http://127.0.0.1:8000/.
"""

from __future__ import annotations

import argparse
import heapq
import random
import time

import belated as bl
from belated.client import Decided

BANNERS = {"spring sale": 0.05, "free delivery": 0.30, "new arrivals": 0.12}  # how often each sells
VANISHED = 0.1  # visitors who are never heard of again
EXPIRY = 20.0  # seconds after which a decision is given up


def visit(draws: random.Random, banner: str) -> tuple[float, float] | None:
    """What comes of showing a banner: seconds until it is known, and 1 or 0; None if it never is."""
    if draws.random() < VANISHED:
        return None
    if draws.random() < BANNERS[banner]:
        return draws.expovariate(1 / 1.5), 1.0
    return 2.0 + draws.expovariate(1.0), 0.0


def run(client: bl.Client, visitors: int, pause: float, seed: int | None) -> None:
    """Open the shop."""
    draws = random.Random(seed)
    name = f"shop-{int(time.time())}"
    client.create(name, list(BANNERS), "direct(thompsonbernoulli)", expiry_seconds=EXPIRY)
    print(f"experiment {name}: {visitors} visitors, three banners, feedback seconds later")
    known: list[tuple[float, int, Decided, float]] = []  # what will be known, soonest first
    sold = 0

    def report() -> None:
        """Tell the service what is known by now, all of it in one request."""
        nonlocal sold
        ready = []
        while known and known[0][0] <= time.monotonic():
            ready.append(heapq.heappop(known))
        if ready:
            outcomes = client.feedback(name, [(decision, value) for _, _, decision, value in ready])
            sold += sum(value == 1.0 for _, _, _, value in ready)
            order = ", ".join(str(visitor) for _, visitor, _, _ in ready)
            print(f"  heard of visitor {order}: {', '.join(sorted({outcome.status for outcome in outcomes}))}")

    for visitor in range(1, visitors + 1):
        decision = client.decide(name)
        came = visit(draws, decision.name)
        print(f"visitor {visitor} sees {decision.name!r}" + (" and vanishes" if came is None else ""))
        if came is not None:
            heapq.heappush(known, (time.monotonic() + came[0], visitor, decision, came[1]))
        time.sleep(pause)
        report()
    while known:
        time.sleep(max(0.0, known[0][0] - time.monotonic()))
        report()

    found = client.statistics(name)
    print(f"\n{visitors} shown, {sold} sold; still open {found.outstanding}, at most {found.peak} at once")
    for action in found.data["actions"]:
        rate = "nothing known" if action["mean"] is None else f"sells {action['mean']:.0%}"
        print(f"  {action['name']:15} shown {action['pulls']:4}, {rate} (in truth {BANNERS[action['name']]:.0%})")


def main() -> None:
    parser = argparse.ArgumentParser(description="A small shop that learns which banner sells.")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--token", help="where the service wants one, with the scope admin")
    parser.add_argument("--visitors", type=int, default=500)
    parser.add_argument("--pause", type=float, default=0.04, help="seconds between visitors")
    parser.add_argument("--seed", type=int, help="for the same visitors every time")
    args = parser.parse_args()
    try:
        with bl.Client(args.url, args.token, retries=3) as client:
            run(client, args.visitors, args.pause, args.seed)
    except bl.errors.ServiceError as error:
        hint = "\nis the service running? start it with `belated serve`" if error.kind == "unreachable" else ""
        raise SystemExit(f"{error}{hint}") from None


if __name__ == "__main__":
    main()
