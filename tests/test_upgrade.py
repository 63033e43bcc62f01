"""Databases of earlier versions open, go on and verify; newer ones are refused; states of others are left alone."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

psycopg = pytest.importorskip("psycopg")

from typer.testing import CliRunner  # noqa: E402

import belated as bl  # noqa: E402
from belated.cli import app  # noqa: E402
from belated.errors import InvalidArgument, InvalidState  # noqa: E402
from belated.forecasters.instance import Instance  # noqa: E402
from belated.forecasters.saving import layout_text  # noqa: E402
from belated.kernels import states  # noqa: E402
from belated.kernels.states import state_dtype  # noqa: E402
from belated.ledger import schema  # noqa: E402
from belated.ledger.database import open_store  # noqa: E402
from belated.ledger.errors import Refused  # noqa: E402
from belated.ledger.items import Archive, Cancel, Decide, Feedback, Replace, Sweep, Upkeep  # noqa: E402
from belated.ledger.ledger import Ledger  # noqa: E402
from belated.ledger.upkeep import _record  # noqa: E402
from belated.ledger.verify import verify  # noqa: E402
from tests.databases.make import HERE, found  # noqa: E402
from tests.postgres import Cluster, cluster  # noqa: E402, F401

#: The experiments of each kept database whose learners have another version now.
LATER = {3: {"second"}, 4: {"second", "changed"}, 5: {"second", "changed", "grown"}}
EARLIER = {
    version: {"line", "queues", "default", "archived"} | LATER.get(version, {"replaced"}) for version in range(1, 6)
} | {6: set()}
VERSIONS = [int(file.stem[1:]) for file in sorted(HERE.glob("v*.json"))]


class Kept:
    """A copy of a database that was kept."""

    def __init__(self, address: str) -> None:
        self.address = address

    def execute(self, sql: str) -> list[Any]:
        if self.address.startswith("postgresql"):
            with psycopg.connect(self.address, autocommit=True) as connection:
                done = connection.execute(sql)
                return list(done.fetchall()) if done.description else []
        with closing(sqlite3.connect(self.address, isolation_level=None)) as connection:
            return list(connection.execute(sql).fetchall())


@pytest.fixture(params=["sqlite", "postgresql"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Makes such copies."""
    if request.param == "sqlite":
        return lambda version: Kept(str(shutil.copy(HERE / f"v{version}.sqlite", tmp_path / "copy.db")))
    server: Cluster = request.getfixturevalue("cluster")

    def restored(version: int) -> Kept:
        made = Kept(server.new())
        made.execute((HERE / f"v{version}.sql").read_text())
        return made

    return restored


def test_every_version_was_kept() -> None:
    assert list(range(1, schema.SCHEMA + 1)) == VERSIONS, "python -m tests.databases.make"
    for version in VERSIONS:
        for end in ("sqlite", "sql"):
            assert (HERE / f"v{version}.{end}").exists()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_database_of_an_earlier_version_goes_on(kept: Any, version: int) -> None:
    copy = kept(version)
    copy.execute("UPDATE decisions SET expires_at = 1.0 WHERE state = 'open' AND experiment = 1")
    store = open_store(copy.address, serve=True, migrate=True)
    try:
        unlike = [report for report in verify(store) if report.verdict not in ("identical", "equal to rounding")]
        # what a learner of an earlier version did is not replayed; its states go on all the same
        assert {report.experiment for report in unlike} == EARLIER.get(version, set())
        assert {report.verdict for report in unlike} <= {"not replayed"}
        expected = json.loads((HERE / f"v{version}.json").read_text())
        now = found(store)
        assert now.keys() == expected.keys()
        for name, known in expected.items():
            assert [each[0] for each in now[name]["next"]] == [each[0] for each in known["next"]]
            assert known["spec"].items() <= now[name]["spec"].items()
            assert (now[name]["statistics"], now[name]["key"]) == (known["statistics"], known["key"]), name
        ledger = Ledger(store)
        while ledger.serve([Sweep()])[0]:
            pass
        ledger.folder.catch_up()
        while ledger.serve([Upkeep()])[0]:
            pass
        statistics = ledger.statistics(ledger.find("pool"))
        assert statistics["outstanding"] == 3 and statistics["expired"] == 5  # they were open since then
        with store.read() as session:
            assert session.meta("schema") == str(schema.SCHEMA)
            assert [token.name for token in session.tokens()] == ["web"]
        reports = list(verify(store))
        assert {report.verdict for report in reports} <= {"identical", "equal to rounding"}
        assert len(reports) == len(expected)
    finally:
        store.close()


@pytest.mark.parametrize(
    "learner",
    [
        bl.KLUCB(3), bl.UCB1(3), bl.ThompsonBernoulli(3), bl.TSPM.example(), bl.GlobalExp3.example(),
        bl.PerContext(bl.KLUCB(3), 2),
    ],
    ids=lambda learner: type(learner).__name__,
)  # fmt: skip
def test_a_version_that_computes_otherwise_takes_the_state_as_it_is(learner: bl.Learner) -> None:
    instance = Instance(learner, (np.uint64(1), np.uint64(2)), 0)
    context = learner.example_context(np.random.default_rng(0)) if learner.context_size else None
    for _ in range(20):
        instance.update(context, *instance.predict(context), np.zeros(1))
    fresh = states.blank(learner)
    for name in ("predictions", "answering"):
        fresh[name] = instance.state[name]
    assert fresh.tobytes() != instance.state.tobytes()
    learner.migrate(learner.version - 1, instance.state[0], fresh[0])
    assert fresh.tobytes() == instance.state.tobytes()


@pytest.mark.parametrize(
    "make",
    [
        bl.UCB1,
        lambda actions: bl.LinUCB(actions, 2),
        lambda actions: bl.LinUCB(actions, 4),
        lambda actions: bl.LinearThompson(actions, 3),
        lambda actions: bl.SlidingUCB(actions, 4),
        lambda actions: bl.PerContext(bl.KLUCB(actions), 4),
        lambda actions: bl.PerContext(bl.LinUCB(actions, 2), 4),
    ],
)
def test_the_record_of_a_state_with_fewer_actions_is_known(make: Callable[[int], bl.Learner]) -> None:
    """Whatever else has as many numbers as there are actions."""
    for actions in (1, 2, 3, 4):
        try:
            fewer, learner = make(actions), make(4)
        except InvalidArgument:  # one action is too few for some
            continue
        expected = state_dtype(fewer)
        found = _record(layout_text(learner), learner, fewer, expected.itemsize)
        assert {name: found.fields[name] for name in found.names} == dict(expected.fields)


def test_a_newer_schema_is_refused(kept: Any) -> None:
    copy = kept(VERSIONS[-1])
    copy.execute(f"UPDATE meta SET value = '{schema.SCHEMA + 1}' WHERE key = 'schema'")
    before = copy.execute("SELECT count(*) FROM events")
    told = f"has schema {schema.SCHEMA + 1}, this version of belated reads up to {schema.SCHEMA}"
    for serve in (False, True):
        with pytest.raises(InvalidState, match=told):
            open_store(copy.address, serve=serve)
    for command in ("serve", "verify"):
        result = CliRunner().invoke(app, [command, "--database", copy.address])
        assert result.exit_code == 1 and told in result.output and "Traceback" not in result.output
    assert copy.execute("SELECT count(*) FROM events") == before


@pytest.mark.parametrize("what", ["version", "layout"])
def test_states_of_another_learner_are_read_only(kept: Any, what: str) -> None:
    copy = kept(VERSIONS[-1])
    here = bl.Exp3.version if what == "version" else layout_text(bl.Exp3(3))
    there = bl.Exp3.version + 1 if what == "version" else '[["weights", "<f4", 0]]'
    value = there if what == "version" else f"'{there}'"
    copy.execute(f"UPDATE experiments SET {what} = {value} WHERE name = 'pool'")
    tables = {
        name: copy.execute(f"SELECT * FROM {name} ORDER BY 1, 2, 3") for name in ("states", "events", "decisions")
    }
    store = open_store(copy.address, serve=True)
    try:
        ledger = Ledger(store)
        pool = ledger.find("pool")
        assert pool.trouble is not None and "read-only" in pool.trouble
        assert str(here) in pool.trouble and str(there) in pool.trouble and "pool" in pool.trouble
        ((ticket,), *_) = copy.execute("SELECT ticket FROM decisions WHERE state = 'open' AND experiment = 1")
        items = [Decide(pool, [None]), Feedback(pool, [(ticket, 1.0)]), Cancel(pool, [ticket])]
        items += [Replace(pool, "a", "z"), Archive(pool)]  # type: ignore[list-item]
        for answer in ledger.serve(items):
            assert isinstance(answer, Refused) and answer.kind == "read_only" and str(answer) == pool.trouble
        ledger.serve([Sweep()])  # what is due stays open
        assert ledger.decision(pool, ticket)["action"] in (0, 1, 2)
        assert ledger.statistics(pool)["decisions"] == 15
        for name, rows in tables.items():
            assert [row for row in copy.execute(f"SELECT * FROM {name} ORDER BY 1, 2, 3") if row in rows] == rows
        assert len(ledger.serve([Decide(ledger.find("counts"), [None])])[0]) == 1
        reports = {report.experiment: report for report in verify(store)}
        assert reports["pool"].verdict == "not replayed" and reports["pool"].message == pool.trouble
        others = {report.verdict for name, report in reports.items() if name not in EARLIER[VERSIONS[-1]] | {"pool"}}
        assert others <= {"identical", "equal to rounding"}
    finally:
        store.close()
