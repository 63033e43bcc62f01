# ruff: noqa: F811  (fixtures are imported)
"""What only reads runs on a hot standby, while the primary serves; what writes says that it cannot."""

import time
from contextlib import closing

import pyarrow.parquet as pq

from belated.ledger.database import open_store
from belated.ledger.items import Decide, Probe, Save
from belated.ledger.ledger import Ledger
from tests.postgres import cluster  # noqa: F401
from tests.test_grow import create, decide, feed, opened
from tests.test_service import said


def test_a_standby_is_read(cluster, tmp_path):
    url = cluster.new()
    ledger = opened(url)
    known = create(ledger, "bold(ucb1)")
    made = [decide(ledger, known) for _ in range(5)]
    ledger.serve([Save()])
    with cluster.standby() as at:
        there = at(url)
        assert [feed(ledger, known, each, 0.5) for each in made[:3]] == ["applied"] * 3
        ledger.serve([Decide(known, [None] * 4)])  # which the standby hears of
        deadline = time.monotonic() + 20
        with closing(open_store(there)) as store:
            while True:
                with store.read() as session:
                    (head,) = session.heads().values()
                if head.last == 12:
                    break
                assert time.monotonic() < deadline
                time.sleep(0.05)
        assert said("verify", "--database", there).startswith("ads: identical, 6 states, 12 events")
        assert "9 decisions" in said("export", "ads", tmp_path / "a.parquet", "--database", there)
        assert pq.read_table(tmp_path / "a.parquet").num_rows == 9
        said("backup", tmp_path / "a.dump", "--database", there)
        assert (tmp_path / "a.dump").stat().st_size > 1000
        assert said("log", "--database", there).count("created") == 1
        assert said("migrate", "--check", there) == "nothing is to be done\n"
        with closing(open_store(there, serve=True)) as store:
            (answer,) = Ledger(store, lambda *_: None).serve([Probe()])
            assert str(answer) == "the database does not take writes"
    ledger.store.close()
