"""The part of the paper's study about G*: small versions, and what makes its verdicts turn."""

import numpy as np
import pytest

from belated.delays import Constant, Geometric, Pareto
from belated.studies.paper import laws, peak
from belated.studies.run import Done, run_cells
from belated.studies.store import Store
from belated.theory import bounds

GRID = peak.Grid(
    means=(3, 300),
    horizons={100: 60, 1000: 20, 10_000: 12},
    law_means=(3,),
    law_rounds=60,
    law_replications=4000,
    batches=(10,),
    batch_rounds=1000,
    losses=(0.1, 0.5),
    lossy_rounds=(2000, 4000, 8000),
    lossy_replications=40,
)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    return run_cells(peak.cells_of(GRID), Store(tmp_path_factory.mktemp("peak")))[0]


def words(done: Done) -> list[str]:
    return [finding.word for finding in peak.section_of(done, GRID).findings]


def test_findings(done: Done):
    assert words(done) == ["likely holds", "identity", "identity", "no bound", "identity"]


def test_section_is_whole(done: Done):
    section = peak.section_of(done, GRID)
    assert section.name == "peak"
    assert set(section.frames) == {"peak-cells", "peak-replications", "peak-law"}
    assert len(section.frames["peak-cells"]) == len(peak.lemma_cells(GRID))
    counts = section.frames["peak-law"].group_by("delays").sum()
    assert (counts["count"] == GRID.law_replications).all()
    np.testing.assert_allclose(counts["probability"], 1.0)


def test_half_the_bound_fails(done: Done, monkeypatch: pytest.MonkeyPatch):
    whole = bounds.outstanding
    monkeypatch.setattr(bounds, "outstanding", lambda n, mean: whole(n, mean) / 2)
    assert words(done)[0] == "fails"


def test_wrong_tails_fail(done: Done, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(laws.TAILS, Geometric, lambda law, k: (law.mean / (1 + law.mean)) ** (k - 1))
    assert words(done)[1] == "fails"


def test_slightly_wrong_tails_fail(done: Done, monkeypatch: pytest.MonkeyPatch):
    right = laws.TAILS[Pareto]
    monkeypatch.setitem(laws.TAILS, Pareto, lambda law, k: 0.9 * right(law, k))
    assert words(done)[1] == "fails"


def test_longer_batches_fail(done: Done, monkeypatch: pytest.MonkeyPatch):
    long = {10: peak._cell(Constant(10), 1000, 2)}
    run_cells(long.values(), done._store)
    monkeypatch.setattr(peak, "batch_cells", lambda grid: long)
    assert words(done)[2] == "fails"


def test_other_losses_fail(done: Done, monkeypatch: pytest.MonkeyPatch):
    mistaken = {0.12: peak.lossy_cells(GRID)[0.1]}
    monkeypatch.setattr(peak, "lossy_cells", lambda grid: mistaken)
    assert words(done)[4] == "likely fails"


@pytest.mark.parametrize("name", laws.laws(30))
def test_tails_are_those_of_the_mean(name: str):
    """E tau is the sum of P(tau >= k); what is left of Pareto's lies between two integrals."""
    law, n = laws.laws(30)[name], 200_000
    left = 0.0
    if isinstance(law, Pareto):
        left = law.scale / (law.alpha - 1) * (1 + (n + 0.5) / law.scale) ** (1 - law.alpha)
    assert laws.tails(law, n).sum() + left == pytest.approx(30, rel=1e-6)


def test_union_bound_lies_between(done: Done):
    cell = peak.lemma_cells(GRID)["geometric", 300, 10_000]
    (exact,) = peak.union_bound(laws.tails(Geometric(mean=300), 12_000), [10_000])
    assert done[cell].peak.mean() < exact < bounds.outstanding(10_000, 300)


def test_the_study_simulates_enough():
    cells = peak.PART.cells(False)
    assert len({cell.key for cell in cells}) == len(cells)
    assert 4e8 < sum(cell.decisions for cell in cells) < 1.4e9
    assert sum(cell.decisions for cell in peak.PART.cells(True)) > 5e9
