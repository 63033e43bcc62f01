"""The paper's study on BOLD, and BOLD beside the additive rules: verdicts follow the data."""

from dataclasses import replace

import numpy as np
import pytest

from belated.learners import Hedge
from belated.report.page import Page
from belated.report.stats import Fit
from belated.studies.paper import adversaries, bold, contrast
from belated.studies.run import run_cells
from belated.studies.store import Store
from belated.theory import bounds
from belated.theory.verdicts import judge_paired

SMALL = bold.Scale(3_000, (3, 10), dict.fromkeys(adversaries.learners(), 30), 2_048, (1, 4), 400)
NARROW = contrast.Scale(4_096, {"UCB1": (1, 16, 256)}, {"UCB1": 60})


def backwards(params, state, context, action, probability, feedback):
    for i in range(len(state.loss)):
        state.loss[i] += feedback[i]


def described(part, scale, folder):
    """The section of a small grid."""
    cells = contrast.cells_of(scale) if part is contrast else [point.cell for point in part.grid(scale)]
    done, _ = run_cells(cells, Store(folder))
    return part.describe(done, scale)


def words(section):
    """The words of the findings, by the beginning of the statement."""
    return {found.statement.split(":")[0]: found.word for found in section.findings}


@pytest.fixture
def only_hedge(monkeypatch):
    monkeypatch.setattr(adversaries, "learners", lambda: {"Hedge": Hedge(adversaries.ACTIONS)})


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return described(bold, SMALL, tmp_path_factory.mktemp("bold"))


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    return described(contrast, NARROW, tmp_path_factory.mktemp("contrast"))


def test_a_small_grid_gives_the_whole_section(small, tmp_path):
    found = words(small)
    assert [found[f"Theorem 1, {game} adversary"] for game in bold.GAMES] == ["likely holds"] * 3
    assert found["Corollary"] == "likely holds"
    assert found["On the block adversary regret equals the exact lower bound, that of every forecaster."] == "identity"
    assert "fails" not in found.values()
    count = len(bold.grid(SMALL))
    assert small.frames["bold-cells"].height == count == 3 * (2 * 9 + 2)
    assert set(small.frames) == {"bold-cells", "bold-curves", "bold-replications"}
    path = Page("a page", "with one part", [small]).write(tmp_path)
    assert len(list((tmp_path / "figures").glob("bold-*.svg"))) == 9
    assert path.read_text(encoding="utf-8").count("<figure>") == 9 + 1, "the main one twice"


@pytest.mark.usefixtures("only_hedge")
def test_a_broken_learner_fails_but_not_where_nobody_can_learn(monkeypatch, tmp_path):
    scale = replace(SMALL, means=(3,), block_replications=100)
    kept = [f"Theorem 1, {game} adversary" for game in bold.GAMES]
    assert all("holds" in words(described(bold, scale, tmp_path))[name] for name in kept)
    monkeypatch.setattr(Hedge, "update", staticmethod(backwards))
    section = described(bold, scale, tmp_path)
    assert [words(section)[name] for name in kept] == ["likely fails", "likely fails", "likely holds"]
    assert words(section)["Corollary"] == "likely fails"
    assert words(section)["On the block adversary regret equals the exact lower bound, that of every forecaster."] == (
        "identity"
    )


@pytest.mark.usefixtures("only_hedge")
@pytest.mark.parametrize(("factor", "word"), [(1.0, "identity"), (1.1, "likely fails"), (0.9, "likely fails")])
def test_a_wrong_lower_bound_is_found_out(monkeypatch, tmp_path_factory, factor, word):
    right = bounds.block_adversary
    monkeypatch.setattr(bounds, "block_adversary", lambda *args: factor * right(*args))
    scale = replace(SMALL, means=(), rounds=100, replications={"Hedge": 2}, block_replications=2_000)
    done, _ = run_cells([p.cell for p in bold.grid(scale)], Store(tmp_path_factory.getbasetemp() / "exact"))
    block = [p for p in bold.judged(done, scale) if p.point.game == "block"]
    assert bold.exactness(block).word == word


def test_an_exponent_is_judged_by_its_interval():
    assert bold.growth_word(Fit(0.51, 0.48, 0.54, 0.0, 6)) == "matches"
    assert bold.growth_word(Fit(0.55, 0.52, 0.58, 0.0, 6)) == "likely fails"
    assert bold.growth_word(Fit(0.50, 0.30, 0.70, 0.0, 6)) == "unclear"
    assert bold.growth_word(None) == "unclear"


def test_the_exact_law_of_the_block_adversary_has_the_exponent_one_half():
    for scale in (bold.SHORT, bold.FULL):
        exact = [
            bounds.block_adversary(scale.block_rounds, length - 1, adversaries.ACTIONS) for length in scale.lengths
        ]
        fit = bold.power_fit(scale.lengths, [[value] for value in exact])
        assert fit.slope == pytest.approx(0.5, abs=2e-4)


def test_both_versions_are_of_the_promised_size():
    short, full = ([part.cells(full) for part in (bold.PART, contrast.PART)] for full in (False, True))
    assert sum(cell.decisions for cell in short[0]) > 1.5e8
    for few, many in zip(short, full, strict=True):
        assert sum(c.decisions for c in many) > 4 * sum(c.decisions for c in few)
    for cells in (*short, *full):
        assert len({cell.key for cell in cells}) == len(cells)


def test_what_multiplies_and_what_adds(narrow):
    found = words(narrow)
    assert found["BOLD multiplies"] == "identity"
    assert found["At every delay BOLD's regret exceeds that of QPM-D and of the base played directly."] == "holds"
    assert "fails" not in found.values()
    assert narrow.frames["contrast-cells"].height == 9
    assert [d.name for d in narrow.drawings] == ["contrast-regret-ucb1", "contrast-price-ucb1"]


def test_the_contrast_sees_when_the_rules_are_exchanged(tmp_path):
    points = contrast.grid(NARROW)
    done, _ = run_cells(contrast.cells_of(NARROW), Store(tmp_path))
    results = {p[:3]: done[p.cell] for p in points}
    swap = {"BOLD": "QPM-D", "QPM-D": "BOLD"}
    exchanged = {(base, swap.get(rule, rule), delay): r for (base, rule, delay), r in results.items()}
    assert contrast.dearer(exchanged).word == "fails"
    assert contrast.multiplies(exchanged).word == "likely fails"
    assert contrast.slopes(exchanged).word == "likely fails"
    multiplied = {(base, d): (results[base, "BOLD", d], results[base, "BOLD", 0]) for base, _, d in results if d}
    assert contrast.penalty(multiplied).word.endswith("fails")


def test_a_refuted_penalty_is_never_left_out(narrow, monkeypatch):
    """However small the penalty is beside the noise: a cell that is above it is counted."""
    none = judge_paired(50.0 + np.arange(400) % 60, np.zeros(400), -400.0, 400.0, most_allowed=400.0)
    assert none.word == "fails"
    monkeypatch.setattr(contrast, "added", lambda late, base, family: none)
    assert contrast.penalty({("UCB1", 3): (None, None)}).word == "fails"
