"""The part on what came after 2013, in small; and that a world changes who wins."""

from functools import partial

import numpy as np
import pytest

import belated as bl
from belated.report.page import ORDER, Page
from belated.studies import cells, field
from belated.studies.paper import later
from belated.studies.paper.later import chart
from belated.studies.paper.later.families import FAMILIES
from belated.studies.paper.later.shared import LONG, SHORT, Size
from belated.studies.run import Local, run_cells
from belated.studies.store import Store
from tests.plainly import plain

pytestmark = plain

TINY = Size(rounds=8, replications=2, delays=(5,))


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """All cells of the tiny size, in plain Python: compiling three dozen loops would take minutes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "play", partial(bl.play, engine="python"))
        return run_cells(later.size_cells(TINY), Store(tmp_path_factory.mktemp("later")), Local(1))[0]


def test_the_page_has_the_map_and_every_family(done):
    section = later.size_section(done, TINY)
    names = [drawing.name for drawing in section.drawings]
    assert names == [
        *(f"later-map-{world.name}" for world in field.WORLDS),
        *(f"later-{family.name}" for family in FAMILIES),
    ]
    assert {f.word for f in section.findings} <= set(ORDER)
    page = Page("t", "l", [section]).html(dict.fromkeys(names, ""))
    assert page.count("<h3>") == len(FAMILIES) + 2
    assert "&lt;" not in page  # a tag where plain text is expected
    assert "nan" not in page.split("</style>")[1].split("base64")[0]
    count = len(field.WORLDS[0].candidates(30, 0))
    assert count >= 20 and section.frames["later-map"].height == 7 * count


def test_the_map_has_seven_worlds_eight_delays_and_every_candidate():
    plays = chart.plays(SHORT)
    names = set(field.WORLDS[0].candidates(SHORT.rounds, 0))
    assert len(plays) == 7 * 8 * len(names)
    assert {name for group in chart.GROUPS for name in group} == names
    assert LONG.rounds * LONG.replications > 5 * SHORT.rounds * SHORT.replications


@pytest.mark.parametrize("world", field.WORLDS, ids=lambda world: world.name)
def test_every_candidate_plays_in_every_world(world):
    for delay in (0, 3):
        game, law = world.game(12, delay), world.law(delay)
        for each in world.candidates(12, delay).values():
            assert bl.play(each.forecaster, game, law, 12, engine="python").certificate


def test_families_have_what_they_state():
    """Of each family that has a bound some cell says so, of the others none."""
    without = {"conversions", "drifting"}
    for family in FAMILIES:
        words = {
            bl.play(p.forecaster, p.game, p.delays, TINY.rounds, engine="python").bound is not None
            for p in family.plays(TINY).values()
        }
        assert (True in words) == (family.name not in without), family.name


def test_the_wave_changes_after_twice_the_delay():
    table = np.asarray(field.wave(200, 30).table)
    assert table[:60, 0].all() and table[60:120, 1].all() and table[120:180, 0].all() and (table.sum(axis=1) == 1).all()
    assert field.wave(100, 0).table[:20, 0].all() and not field.wave(100, 0).table[20:40, 0].any()


def test_ties_are_those_whose_intervals_overlap():
    rng = np.random.default_rng(1)
    regrets = {
        "a": rng.normal(10, 1, 40),
        "b": rng.normal(10.1, 1, 40),
        "c": rng.normal(30, 1, 40),
        "d": np.full(9, 7.0),
    }
    standing = field.ranked(regrets)
    assert standing[0][0] == "d" and field.tied(standing) == []  # all alike: exact
    del regrets["d"]
    assert field.tied(field.ranked(regrets)) == [field.ranked(regrets)[1][0]]
    assert field.tied(field.ranked({"a": [1.0], "b": [2.0]})) == ["b"]  # one run tells nothing
