"""Table 1 and the published table, in small; and that a broken twin turns the verdict."""

import re

import numpy as np
import pytest

import belated as bl
from belated.learners import ChernoffUCB, ThompsonBernoulli
from belated.studies.paper import published, table
from belated.studies.paper.table import Size
from belated.studies.run import run_cells
from belated.studies.store import Store


def played(tmp_path, size):
    grid = table.grid(size)
    done, _ = run_cells([cell for pair in grid.values() for cell in pair], Store(tmp_path))
    return {name: (pair, done[pair.delayed], done[pair.base]) for name, pair in grid.items()}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return played(tmp_path_factory.mktemp("table"), Size(20_000, 150))


def test_the_rows_that_can_be_measured_come_out(rows):
    section = table.describe(rows)
    words = {f.statement.split(":")[0]: f.word for f in section.findings}
    assert words == {
        "Weinberger, Ordentlich": "identity",
        "Neu et al.": "identity",
        "BOLD": "likely holds",
        "QPM-D": "likely holds",
        "Side information": "identity",
    }
    assert section.frames["table-cells"].shape[0] == 10


def test_instances_that_share_nothing_are_what_makes_it_match(rows):
    """With another delay than the one that the right-hand side is for, the two sides differ."""
    pair, late, base = rows["neu"]
    other = bl.play(pair.delayed.forecaster, late.setting.game, bl.delays.Constant(49), rounds=20_000, replications=150)
    section = table.describe(rows | {"neu": (pair, other, base)})
    assert [f.word for f in section.findings][1] == "likely fails"


@pytest.mark.minutes
def test_a_penalty_above_the_theorem_turns_the_verdict(rows):
    pair, late, base = rows["stochastic"]
    worse = bl.play(
        bl.QPMD(bl.Uniform(5)), late.setting.game, late.setting.delays, rounds=20_000, replications=150, seed=13
    )
    section = table.describe(rows | {"stochastic": (pair, worse, base)})
    assert [f.word for f in section.findings][3] == "fails"


# --- Chapelle and Li ---


def test_regret_goes_on_at_its_rate():
    game = bl.games.Replaced(10, probability=0.001, a=4.0, b=4.0, announced=True)
    whole = bl.play(bl.Direct(ChernoffUCB(10, "age")), game, bl.delays.Constant(10), rounds=1_000_000, replications=8)
    part = bl.play(bl.Direct(ChernoffUCB(10, "age")), game, bl.delays.Constant(10), rounds=300_000, replications=8)
    assert np.array_equal(published.million(whole), whole.regret[:, -1])
    assert published.million(part).mean() == pytest.approx(whole.mean_regret, rel=0.15)


def test_the_published_numbers_agree_with_themselves_and_with_nothing_far():
    reading = published.READINGS[0]
    spread = np.linspace(0.97, 1.03, 20)
    row = published.compare(reading, [p * spread for p in published.PUBLISHED["Thompson"]])
    assert all(row.agrees) and row.distance < 1e-9
    far = published.compare(reading, [1.2 * p * spread for p in published.PUBLISHED["Thompson"]])
    assert not any(far.agrees) and far.distance == pytest.approx(np.log(1.2))


def test_a_small_reproduction_has_every_reading(tmp_path):
    grid = published.grid(dict.fromkeys(published.PUBLISHED, published.Size(20_000, 3)))
    done, _ = run_cells([cell for row in grid.values() for cell in row], Store(tmp_path))
    section = published.describe({reading: [done[c] for c in row] for reading, row in grid.items()}, False)
    assert len(section.findings) == 4 and len(section.drawings) == 2
    assert section.frames["published-cells"].shape[0] == 6 * 7
    assert all(word in ("matches", "likely fails", "unclear", "shown") for word in (f.word for f in section.findings))


@pytest.mark.minutes
def test_without_replace_the_numbers_are_far_from_the_published():
    """What the retired items taught must be forgotten: a learner that is not told has several times the regret."""
    told, untold = (bl.games.Replaced(10, probability=0.001, a=4.0, b=4.0, announced=a) for a in (True, False))
    forecaster = bl.Direct(ThompsonBernoulli(10))
    good, bad = (
        bl.play(forecaster, g, bl.delays.Constant(1), rounds=200_000, replications=4).mean_regret
        for g in (told, untold)
    )
    assert 5 * good > 9105 > 4 * good and bad > 3 * good


# --- all parts together ---


def test_the_whole_study_is_large_enough_and_every_part_has_its_cells():
    from belated.studies.paper import PARTS

    cells = {cell.key: cell for part in PARTS for cell in part.cells(False)}
    assert sum(cell.decisions for cell in cells.values()) >= 1e9
    assert [part.name for part in PARTS] == [
        "bold",
        "peak",
        "stochastic",
        "contrast",
        "monitoring",
        "cost",
        "table",
        "related",
        "beyond",
        "later",
        "published",
    ]


def test_one_part_is_made_and_the_page_keeps_what_is_finished(tmp_path, monkeypatch):
    from belated.studies import paper

    small = table.Part(
        "table", "Table 1", lambda full: [c for p in table.grid(SMALL).values() for c in p], small_section
    )
    other = table.Part("other", "Another", small.cells, lambda done, full: table.Section("other", "Another"))
    late = table.Part(
        "late", "Late", lambda full: published.cells(False), lambda done, full: table.Section("late", "Late")
    )
    monkeypatch.setattr(paper, "PARTS", (small, other, late))
    page, sections, state = paper.run_paper(tmp_path, only=["table"])
    text = page.read_text()
    assert [s.name for s in sections] == ["table"] and state.finished == 10
    assert 'id="table"' in text and 'id="other"' in text and 'id="late"' not in text
    assert "Not on this page yet: late" in text and (tmp_path / "data" / "table-cells.parquet").exists()
    assert re.search(r"Seeds: table 13; other 13; .* computed on \d{4}-\d\d-\d\d \(UTC\)", text)
    again, _, state = paper.run_paper(tmp_path, only=["table"])
    assert state.reused == 10 and again.read_text() == text, "the date is that of the cells: a second run says the same"


SMALL = Size(1000, 2)


def small_section(done, full):
    return table.describe({name: (p, done[p.delayed], done[p.base]) for name, p in table.grid(SMALL).items()})
