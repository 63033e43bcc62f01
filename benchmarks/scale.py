"""The service at scale: workers, machines, experiments, states, open decisions and years. Each part is a figure or two.

    python benchmarks/service.py --only hot [--only linucb] [--seconds 4] [--rounds 5] [--quick]

Each decision is followed by its feedback, 64 connections. Load, PostgreSQL and service share the processors of one
machine. `CPU` is the processor time of the service's own processes, `WAL` what PostgreSQL writes to its log.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar

from serving import (
    CONNECTIONS,
    DECISIONS,
    HERE,
    Address,
    Row,
    Table,
    cluster,
    load,
    loaded,
    loading,
    opened,
    ours,
    server,
)

from belated.client import Client

MANY = 100
EACH = "/v1/experiments/e{}/decisions"
UCB1 = "direct(ucb1)"
ARMS = [f"a{number}" for number in range(20)]
FEATURES = 50
#: A short retention is allowed, and looked after at once.
SHORTLY = """
import belated.require as require, belated.service.desk as desk
real, desk.UPKEEP = require.real, 0.2
require.real = lambda name, value, **limits: real(name, value, **({} if name == "retention_seconds" else limits))
from belated.cli import app; app()
"""


@contextmanager
def many(
    database: str, *options: str, count: int = 1, forecaster: str = UCB1, program: str = "", **more: Any
) -> Iterator[Address]:
    """Our service with so many experiments: e0, e1, ..."""
    with opened(database, *options, **({"program": program} if program else {})) as url:
        with Client(url) as client:
            known = {each.name for each in client.experiments()}
            for number in range(count):
                if f"e{number}" not in known:
                    client.create(f"e{number}", ARMS, forecaster, **more)
        time.sleep(2.0)  # what has to be compiled is, beside the service
        yield url


def wal(database: str) -> int:
    """Bytes that PostgreSQL has written to its log since it was made."""
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        return int(connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')").fetchall()[0][0])


def stored(database: str) -> int:
    """Bytes of all rows that there are more of with every decision; states and statistics stay."""
    import psycopg
    from psycopg import sql

    tables = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
    tables += " AND relname ~ '^(decisions|events|remarks|keys)_'"
    with psycopg.connect(database, autocommit=True) as connection:
        names = [name for (name,) in connection.execute(tables).fetchall()]
        sizes = sql.SQL("SELECT coalesce(sum(pg_column_size(t.*)), 0) FROM {} t")
        return sum(int(connection.execute(sizes.format(sql.Identifier(name))).fetchall()[0][0]) for name in names)


class Scale(Table):
    """Figures about size."""

    PARTS: ClassVar[list[str]] = [
        "hot", "writers", "hundred", "hundred_workers", "linucb", "sqlite", "verify", "outstanding", "retention",
    ]  # fmt: skip
    #: Open decisions of the part of that name.
    outstanding_most = 1_000_000

    def ask(self, name: str, url: Address, database: str = "", experiments: int = 1, body: str = "{}") -> float:
        """Requests a second; the CPU and the WAL of a decision are kept too."""
        before, log = url.processor(), wal(database) if database else 0
        told = loaded(loading(f"{url}{EACH}", body, CONNECTIONS, self.seconds, 0, experiments))
        made = told["decisions"]
        self.cells.setdefault(f"{name} CPU", []).append(1e6 * (url.processor() - before) / made)
        if database:
            self.cells.setdefault(f"{name} WAL", []).append((wal(database) - log) / made)
        return float(told["rate"])

    def cpu(self, what: str, one: str, other: str, limit: float | None = None) -> None:
        """A row: processor time of a decision."""
        sides = [self.cells[f"{side} CPU"] for side in (one, other)]
        ratio = statistics.median(a / b for a, b in zip(*sides, strict=True))
        said = [f"{statistics.median(side):,.0f} us" for side in sides]
        self.add(Row(f"{what}: CPU a decision", *said, ratio, limit, limit, small=True))

    def hot(self) -> None:
        """One Direct experiment, more workers."""
        with cluster() as new, many(new()) as one, many(new(), "--workers", "4") as four:
            self.rates({"hot 4": lambda: self.ask("hot 4", four), "hot 1": lambda: self.ask("hot 1", one)})
        what = "PostgreSQL, one hot Direct experiment, 4 workers: 1"
        self.against(what, "hot 4", "hot 1", 0.9, 1.2)
        self.cpu(what, "hot 4", "hot 1")

    def writers(self) -> None:
        """Two machines on one database."""
        with cluster() as new, ExitStack() as stack:
            shared = new()
            one = stack.enter_context(many(new()))
            two = [stack.enter_context(many(shared)) for _ in range(2)]

            def both() -> float:
                given = ("{}", CONNECTIONS // 2, self.seconds, 0, 1)
                return sum(float(loaded(each)["rate"]) for each in [loading(f"{url}{EACH}", *given) for url in two])

            self.rates({"two writers": both, "one writer": lambda: self.ask("one writer", one)})
        self.against("PostgreSQL, one hot Direct experiment, two writers: one", "two writers", "one writer", 0.7, 1.0)

    def hundred(self) -> None:
        """Many experiments, one worker."""
        with cluster() as new, many(new()) as one, many(new(), count=MANY) as all_:
            self.rates(
                {
                    "100 experiments": lambda: self.ask("100 experiments", all_, experiments=MANY),
                    "1 experiment": lambda: self.ask("1 experiment", one),
                }
            )
        what = f"PostgreSQL, {MANY} Direct experiments: 1, one worker"
        self.against(what, "100 experiments", "1 experiment", 0.8, 1.0)
        self.cpu(what, "100 experiments", "1 experiment")

    def hundred_workers(self) -> None:
        """Many experiments, more workers."""
        with cluster() as new, many(new(), count=MANY) as one, many(new(), "--workers", "4", count=MANY) as four:
            self.rates(
                {
                    "100 by 4": lambda: self.ask("100 by 4", four, experiments=MANY),
                    "100 by 1": lambda: self.ask("100 by 1", one, experiments=MANY),
                }
            )
        what = f"PostgreSQL, {MANY} Direct experiments, 4 workers: 1"
        self.against(what, "100 by 4", "100 by 1", 0.9, 1.2)
        self.cpu(what, "100 by 4", "100 by 1", 1.3)

    def linucb(self) -> None:
        """A state of 400 KB."""
        body = json.dumps({"context": [round(0.01 * number, 2) for number in range(FEATURES)]})
        with cluster() as new, ExitStack() as stack:
            databases = [new(), new()]
            small = stack.enter_context(many(databases[0]))
            large = stack.enter_context(many(databases[1], forecaster=f"direct(linucb(features={FEATURES}))"))
            self.rates(
                {
                    "linucb": lambda: self.ask("linucb", large, databases[1], body=body),
                    "ucb1": lambda: self.ask("ucb1", small, databases[0]),
                }
            )
        what = f"PostgreSQL, LinUCB, {FEATURES} features and {len(ARMS)} actions: UCB1"
        self.against(what, "linucb", "ucb1", 0.5, 0.8)
        self.cpu(what, "linucb", "ucb1")
        written = [self.middle(f"{side} WAL") / 1000 for side in ("linucb", "ucb1")]
        said = [f"{each:.2f} KB" for each in written]
        self.add(Row(f"{what}: WAL a decision", *said, written[0], 3.0, 2.0, unit=" KB", small=True))

    def sqlite(self) -> None:
        """SQLite, decisions alone."""
        bare = server(sys.executable, str(HERE / "bare.py"), str(self.folder / "plain.db"))
        with bare as other, ours(self.folder / "group.db") as url:
            self.rates(
                {
                    "group": lambda: float(load(url + DECISIONS, self.seconds)["rate"]),
                    "plain": lambda: float(load(f"{other}/decisions", self.seconds)["rate"]),
                }
            )
        self.against("SQLite: a bare endpoint that commits in groups", "group", "plain", 0.65, 0.9)

    def verify(self) -> None:
        """BOLD while all of it is replayed."""
        with cluster() as new:
            database = new()
            with many(database, forecaster="bold(exp3)") as url:
                loaded(loading(f"{url}{EACH}", "{}", CONNECTIONS, 2 * self.seconds, 0, 1))  # something to replay
                command = [sys.executable, "-m", "belated.cli", "verify", "--database", database]

                def verified() -> float:
                    asked = loading(f"{url}{EACH}", "{}", CONNECTIONS, self.seconds, 0, 1)
                    while asked.poll() is None:
                        with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=HERE.parent) as beside:
                            while asked.poll() is None and beside.poll() is None:
                                time.sleep(0.02)
                            beside.terminate()
                    return float(loaded(asked)["rate"])

                self.rates({"during verify": verified, "live": lambda: self.ask("live", url)})
        self.against("PostgreSQL, BOLD during `verify`: without", "during verify", "live", 0.8, 0.95)

    def outstanding(self) -> None:
        """Many open decisions."""
        with cluster() as new, ExitStack() as stack:
            few, much = [stack.enter_context(many(new(), forecaster="bold(exp3)")) for _ in range(2)]
            for url, count in ((few, 100), (much, self.outstanding_most)):
                with Client(url, timeout=60) as client:
                    for _ in range(max(1, count // 10_000)):
                        client.decide("e0", count=min(count, 10_000))
            self.rates({"much": lambda: self.ask("much", much), "few": lambda: self.ask("few", few)})
        ratio = statistics.median(a / b for a, b in zip(self.cells["few"], self.cells["much"], strict=True))
        said = [f"{1e6 / self.middle(side):,.0f} us a request" for side in ("much", "few")]
        what = f"PostgreSQL, BOLD, {self.outstanding_most:,} outstanding: 100"
        self.add(Row(f"{what}, time a request", *said, ratio, 1.3, 1.1, small=True))
        self.cpu(what, "much", "few")

    def retention(self) -> None:
        """What stays of decisions that are over."""
        with cluster() as new:
            database = new()
            with many(database, program=SHORTLY, retention_seconds=2.0) as url:
                self.ask("retention", url)
                before = stored(database)
                made = Client(url).statistics("e0").decisions
                left, since = before, time.monotonic()
                while time.monotonic() < since + 10.0:
                    now = stored(database)
                    if now < left:
                        left, since = now, time.monotonic()
                    time.sleep(0.5)
        kept = round(left / made)
        said = [f"{left / made:,.1f} bytes", f"{before / made:,.0f} bytes before"]
        self.add(Row("PostgreSQL, bytes of rows a decision after retention", *said, kept, 0, 0, unit=" B", small=True))
