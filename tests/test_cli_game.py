"""`belated game`: files, names and mistakes."""

from pathlib import Path

import pytest

import belated as bl
from tests.test_cli import said

ROOT = Path(__file__).resolve().parent.parent


def test_a_file_is_described_and_drawn(tmp_path):
    text = said("game", str(ROOT / "examples" / "game.toml"), "--plot", str(tmp_path / "cells.png"))
    assert text.startswith("easy: regret grows like n^(1/2)") and "dominated" in text and "local" in text
    assert "drawn to" in text and (tmp_path / "cells.png").stat().st_size > 5000
    assert bl.games.Monitoring.read(ROOT / "examples" / "game.toml").law == (0.2, 0.5, 0.3)


@pytest.mark.parametrize(
    ("name", "words"),
    [("apple_tasting", "easy"), ("spam(cost=0.7)", "hard"), ("dynamic_pricing(3, 3)", "hard"), ("hopeless", "none")],
)
def test_names_and_arguments(name, words):
    assert words in said("game", name)


def test_rewards_may_stand_instead_of_losses(tmp_path):
    (tmp_path / "g.toml").write_text('reward = [[0, 1], [1, 0]]\nsymbols = [["-", "-"], ["r", "g"]]\n')
    assert bl.games.Monitoring.read(tmp_path / "g.toml").loss == bl.games.apple_tasting().loss
    assert said("game", str(tmp_path / "g.toml")).startswith("easy")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loss = [[1, 0], [0]]\nsymbols = [['a', 'b'], ['a', 'b']]", "loss must have rows of one length"),
        ("loss = [[1, 0], [0, 1]]", "must have a matrix called symbols"),
        ("symbols = [['a', 'b'], ['a', 'b']]", "must have a matrix called loss, or one called reward"),
        ("loss = [[1]]\nreward = [[1]]\nsymbols = [['a']]", "must have a matrix called loss, or one called reward"),
        ("loss = [[1, 0], [0, 1]]\nsymbol = [['a', 'b']]", "there is no setting 'symbol'; there are loss, reward,"),
        ("loss = [[1, nan], [0, 1]]\nsymbols = [['a', 'b'], ['a', 'b']]", "loss[0][1] must be finite, got nan"),
        ("reward = [[1, 'x'], [0, 1]]\nsymbols = [['a', 'b'], ['a', 'b']]", "reward must be rows of numbers"),
        ("loss = [[1, 0]", "is not TOML"),
    ],
)
def test_mistakes_in_files_are_one_line(text, message, tmp_path):
    (tmp_path / "g.toml").write_text(text)
    answer = said("game", str(tmp_path / "g.toml"), code=1)
    assert answer.startswith("error: ") and "g.toml'" in answer and message in answer and answer.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.toml"], "there is no file 'nothing.toml'"),
        (["games/nothing"], "there is no file 'games/nothing'"),
        (["apple_tasting.json"], "there is no file 'apple_tasting.json'"),
        (["aple_tasting"], "no game is called 'aple_tasting'; did you mean 'apple_tasting'?"),
        (["aple"], "no game is called 'aple'; did you mean 'apple_tasting'?"),
        (["spm(cost=0.3)"], "no game is called 'spm'; did you mean 'spam'?"),
        (["xyz"], "no game is called 'xyz'; there are apple_tasting, bandit"),
        (["bernoulli([0.5])"], "is not a game of partial monitoring; there are apple_tasting, bandit"),
        (["differences", "--plot", "x.png"], "two or three outcomes; this one has 4"),
        (["bartok", "--plot", "x.xyz"], "'x.xyz' must end in one of"),
    ],
)
def test_mistakes_are_one_line(arguments, message):
    assert message in said("game", *arguments, code=1)
