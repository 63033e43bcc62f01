"""The part on partial monitoring, in small; and that a broken learner turns the verdict."""

import pytest

import belated as bl
from belated.studies.paper import monitoring
from belated.studies.run import run_cells
from belated.studies.store import Store

SMALL = monitoring.Grid(rounds=4000, replications=12, often=60, delays=(0, 9, 999), horizons=(500, 4000))


def section(folder):
    done, _ = run_cells(monitoring.cells_of(SMALL), Store(folder))
    return monitoring.describe(done, SMALL)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return section(tmp_path_factory.mktemp("monitoring"))


def test_what_is_found(small):
    bold, adds = small.findings
    assert bold.word == "vacuous", "hardly a cell in which the bound says something"
    assert adds.word in ("likely holds", "unclear") and "of 6 cells" in adds.detail, "none is left out"
    assert len(small.drawings) == 4 and set(small.frames) == {"monitoring-cells", "monitoring-replications"}


def test_a_learner_that_learns_nothing_breaks_its_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(bl.GlobalExp3, "bound", lambda self, n: 0.02 * n**0.5)
    assert section(tmp_path).findings[0].word == "fails"
