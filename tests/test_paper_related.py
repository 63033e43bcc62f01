"""The part on the other systems of table 1, in small; and that a broken twin turns each verdict."""

import dataclasses
import math

import numpy as np
import pytest

from belated.report.page import ORDER, Page
from belated.studies.paper import related, table
from belated.studies.paper.related import agarwal, desautels, dudik, langford, mesterharm, neu, outage, weinberger
from belated.studies.paper.related.shared import Found, Series
from belated.studies.run import run_cells
from belated.studies.store import Store
from belated.theory.related import subsampling

TINY = {
    "weinberger": weinberger.Size(rounds=64, delays=(0, 3), sequences=9),
    "langford": langford.Size(rounds=4096, delays=(0, 3, 7, 15), halves=(1, 4, 8, 16, 24, 32, 36, 48, 64)),
    "mesterharm": mesterharm.Size(experts=16, delays=(0, 3), rows=300, runs=16, late=(0, 7, 31)),
    "agarwal": agarwal.Size(horizons=((1_000, 20), (10_000, 6)), workers=4),
    "desautels": desautels.Size(rounds=80, runs=6, longer=2, batched=2),
    "neu": neu.Size(rounds=2_000, rate=0.01, runs=3),
    "dudik": dudik.Size(rounds=2_000, runs=4),
    "outage": outage.Size(points=4, replications=12),
}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return run_cells(related.cells_of(TINY), Store(tmp_path_factory.mktemp("related")))[0]


def words(done, system, name=None):
    """The words of a system's findings by the beginnings of their statements."""
    blocks = system.SYSTEM.blocks(done, TINY[name or system.SYSTEM.name])
    return {f.statement: f.word for f in related.Section("", "", blocks).findings}


def word(done, system, start):
    (found,) = [said for statement, said in words(done, system).items() if statement.startswith(start)]
    return found


# --- the whole part ---


def test_every_system_has_a_claim_a_formula_an_experiment_a_figure_and_a_verdict(done, tmp_path):
    section = related.describe(done, TINY)
    assert {f.word for f in section.findings} <= set(ORDER)
    for system in related.SYSTEMS:
        own = related.Section("", "", system.blocks(done, TINY[system.name]))
        text = "".join(block.html for block in own.blocks if hasattr(block, "html"))
        assert own.findings and own.drawings and "<b>Claim.</b>" in text and "<b>Experiment.</b>" in text
        assert any(type(block).__name__ == "Formula" for block in own.blocks)
    names = [d.name for d in section.drawings]
    assert len(set(names)) == len(names) >= 8 and all(name.startswith("related-") for name in names)
    page = Page("t", "l", [section]).write(tmp_path).read_text(encoding="utf-8")
    assert page.count("<h3>") == len(related.SYSTEMS) == 8
    assert "nan" not in page.split("</style>")[1].split("base64")[0]
    assert section.frames["related-series"].height > 100 and section.frames["related-cells"].height > 30


def test_table_1_has_a_measured_entry_for_every_row(done):
    measured = {*table.grid(table.Size(1000, 2)), *related.table_rows(False)}
    assert {name for *_, name in table.ROWS} == measured
    needed = {cell.key for cells, _ in related.table_rows(False).values() for cell in cells}
    assert needed <= {cell.key for cell in related.PART.cells(False)} and needed <= {c.key for c in table.cells(False)}
    for system in related.SYSTEMS:
        for _, make in system.rows(TINY[system.name]).values():
            entry = make(done)
            assert entry.word in ORDER and entry.regret > 0 and ("proved here" in entry.side)


def test_the_long_version_is_longer():
    short, long = (sum(c.decisions for c in related.cells_of(related.sizes_of(full))) for full in (False, True))
    assert long / short > 5


def test_a_series_knows_its_games(done):
    cell = Series(outage.PLAYERS["BOLD"], outage.Circle(), outage.late(), (10, 20))
    assert cell.key != dataclasses.replace(cell, numbers=(10, 21)).key
    assert (
        cell.key
        != dataclasses.replace(cell, make=langford.Waves(20), forecaster=langford.RULES["BOLD(adaptive)"](0)).key
    )
    assert cell.decisions == 30


# --- Weinberger, Ordentlich ---


def test_bits(done, monkeypatch):
    found = words(done, weinberger)
    assert list(found.values()) == ["identity", "matches", "holds", "holds", "shown"]
    cover = done[weinberger.plays(TINY["weinberger"])[weinberger.COVER, 3]]
    assert np.abs(cover.regret - subsampling(64, 3)).max() < 1e-12
    assert cover.bound == pytest.approx(subsampling(64, 3)), "what BOLD over Cover states is what it has"
    hedge = done[weinberger.plays(TINY["weinberger"])[weinberger.POOL, 3]]
    assert hedge.regret.max() > subsampling(64, 3) + 0.1 > hedge.regret.min()
    monkeypatch.setattr(weinberger, "subsampling", lambda n, d: subsampling(n, d) + 1e-6)
    assert word(done, weinberger, "BOLD(Cover)") == word(done, weinberger, "Nobody") == "fails"


# --- Langford, Smola, Zinkevich ---


def test_gradients(done, monkeypatch):
    found = words(done, langford)
    assert [w for s, w in found.items() if s.startswith("Gradient descent")] == ["holds"] * 3
    assert word(done, langford, "Steps that are not slowed break the bound") == "holds"
    slow = {key: Found(0.1 * f.regret, f.bound) for key, f in _waves(done).items()}
    assert langford._breaks(slow, TINY["langford"]).word == "fails"
    linear = {(name, d): Found(np.array([d + 1.0]), np.array([9.0])) for name, d in _waves(done)}
    assert langford.slope(linear, TINY["langford"], langford.SLOWED) == pytest.approx(1.0)


def _waves(done):
    return {key: done[cell] for key, cell in langford.plays(TINY["langford"]).items()}


def test_square_waves_have_the_regret_that_they_have(tmp_path):
    cells = langford.plays(langford.Size(16_384, (7,), (8, 36, 68)))
    done, _ = run_cells(cells.values(), Store(tmp_path))
    worst = {name: float(done[cell].regret.max()) for (name, _), cell in cells.items()}
    expected = (1793.243, 589.143, 591.703, 503.847)
    assert list(worst.values()) == pytest.approx(expected, abs=6e-4)


# --- Mesterharm ---


def test_labels(done, monkeypatch):
    assert next(iter(words(done, mesterharm).values())) == "matches"
    assert word(done, mesterharm, "By chance, Paced") in ("likely holds", "unclear")
    assert word(done, mesterharm, "By chance, told directly") == "matches"
    size = TINY["mesterharm"]
    for (_, d), cell in mesterharm.halving_plays(size).items():
        assert done[cell].regret[0] == 4 * (d + 1)
    pool, told = (done[mesterharm.sphere_plays(size)[name, 31]].regret.mean() for name in ("BOLD", "told directly"))
    assert pool > 2 * told
    chance = {key: done[cell] for key, cell in mesterharm.sphere_plays(size).items()}
    assert mesterharm.added(chance["BOLD", 31].regret, chance["BOLD", 0].regret, 31, size).word == "likely fails"
    monkeypatch.setattr(mesterharm, "FIRST", 0.0)
    assert mesterharm.shifted(chance, size).word == "likely fails"


# --- Agarwal, Duchi ---


def test_smooth_losses(done, monkeypatch):
    found = list(words(done, agarwal).values())
    assert found[0] == "holds" and found[1] == "likely holds" and found[-1] == "holds"
    clear = [done[play].mean_regret for play in agarwal.clear_plays().values()]
    assert clear == pytest.approx([1.1595, 12.1284, 121.8485, 1218.9289], abs=1.5e-4)
    speed = agarwal.speeds(done, TINY["agarwal"])
    assert speed[1].mean == 1.0 and 1.5 < speed[4].mean < 2.5 and 3 < speed[16].mean < 5
    assert word(done, agarwal, "With noise, the longer") == "likely holds"
    swapped = {(11_000 - n, tau): r for (n, tau), r in _noisy(done).items() if tau in (0, 100)}
    assert agarwal.forgotten(swapped, TINY["agarwal"]).word == "likely fails"
    monkeypatch.setattr(agarwal, "hasty_play", lambda: agarwal.clear_plays()[0])
    assert word(done, agarwal, "A step that ignores") == "fails"


def _noisy(done):
    return {key: done[play] for key, play in agarwal.noisy_plays(TINY["agarwal"]).items()}


# --- Desautels, Krause, Burdick ---


def test_points_of_a_gaussian_process(done):
    found = list(words(done, desautels).values())
    assert found[0] in ("vacuous", "likely holds", "likely holds, uninformative") and found[3:] == ["shown", "shown"]
    assert found[2] in ("likely holds", "unclear")
    size = TINY["desautels"]
    batched = done[desautels.Batches(size.rounds, size.batched)]
    assert (batched.batches < size.rounds).all() and (batched.regret > 0).all()


# --- Neu, Gyorgy, Szepesvari, Antos ---


def test_states(done, monkeypatch):
    assert list(words(done, neu).values()) == ["no bound", "identity", "shown"]
    assert neu.game(20_000).best == pytest.approx(0.532063, abs=1e-4)
    monkeypatch.setattr(neu, "FREE", (0, 4, 5))
    assert word(done, neu, "Delays below N") == "fails"


# --- Dudik et al. ---


def test_policies(done, monkeypatch):
    assert dudik.game().best == dudik.policies()[0]
    assert word(done, dudik, "PolicyElimination: mean regret") == "vacuous"
    assert word(done, dudik, "PolicyElimination: a round of delay").startswith(("likely holds", "unclear"))
    monkeypatch.setattr(dudik, "UNIFORM", -0.1)
    assert word(done, dudik, "PolicyElimination: a round of delay") in ("fails", "likely fails")


# --- an outage ---


def test_an_outage(done, monkeypatch):
    found = words(done, outage)
    assert list(found.values()) == ["holds", "holds", "likely holds", "likely holds"]
    told, pool = (done[cell] for cell in outage.curves(TINY["outage"]).values())
    assert pool.regret[-1] > 50 * told.regret[-1]
    assert told.bound[-1] == pytest.approx(2 * math.sqrt(2 * (10_000 + 999 * 1000)))
    assert pool.bound[-1] == pytest.approx(2 * math.sqrt(2 * 1000 * 10_000))
    monkeypatch.setattr(outage, "PLAYERS", dict.fromkeys(outage.PLAYERS, outage.PLAYERS[outage.POOL]))
    assert word(done, outage, "Through the outage") == "fails"
