"""The page of the paper: what comes first and last, what its words say, and prose that fits the code beside it."""

import re
from pathlib import Path

import pytest

import belated.studies.paper as paper
from belated.report import figures
from belated.report.page import Drawing, Finding, Page, Rows, Section, Text, identity
from belated.report.prose import Prose
from belated.report.words import ASIDE, ORDER, SAYS, explained, says

ROOT = Path(paper.__file__).parent
FILES = [ROOT.with_suffix(".html"), *sorted(ROOT.rglob("*.html"))]


def code_of(file):
    """The module of a file of prose; of a package all that is in it, where its prose is shared."""
    if file.with_suffix(".py").exists():
        return file.with_suffix(".py").read_text()
    return "".join(path.read_text() for path in sorted(file.with_suffix("").glob("*.py")))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_piece_of_prose_is_used_and_every_used_one_is_there(file):
    pieces = Prose("some.module", file.read_text(encoding="utf-8")).pieces
    code = code_of(file)
    assert pieces and all(pieces.values())
    named = {name for name in pieces if f'"{name}"' in code}
    made = {
        name for name in pieces if f"}} {name.rpartition(' ')[2]}" in code and f'"{name.rpartition(" ")[0]}"' in code
    }
    assert set(pieces) - named - made == set()
    used = set(re.findall(r'WORDS(?:\.text|\.formula)?\(\s*"([\w -]+)"', code))
    others = {
        name for path in file.with_suffix("").glob("*.html") for name in re.findall(r"(?m)^\[(.+)\]$", path.read_text())
    }
    assert used <= set(pieces) | others


def test_every_part_has_its_prose():
    modules = [path for path in ROOT.rglob("*.py") if "WORDS = Prose(" in path.read_text()]
    assert len(modules) == len(FILES)
    for path in modules:
        for line in path.read_text().splitlines():
            assert not re.search(r'(Text|Formula)\(\s*f?"', line), f"{path.name}: prose in code: {line}"


def test_a_piece_that_is_missing_or_a_number_that_is_not_given_is_an_error():
    words = Prose("some.module", "[one]\n{count:,} cells\n")
    assert words("one", count=1000) == "1,000 cells"
    with pytest.raises(KeyError):
        words("two")
    with pytest.raises(KeyError, match="count"):
        words("one")


def sections():
    figure, axes = figures.panel("a picture")
    axes.plot([0, 1], [0, 1])
    blocks = [
        Text("Some text."),
        Finding("It is below.", "likely holds, uninformative", "of 2 cells: 1 x unclear, 1 x likely holds"),
        identity("It is the same.", "matches"),
        Finding("So it was.", "shown"),
        Drawing("picture", figure, "A picture."),
        Rows(("what", "number"), [["first\nsecond <line>", 1.0], ["no bound", 2.0]], "A table"),
    ]
    short = Finding("In a line.", "likely holds")
    return [
        Section("one", "The first", blocks, short=short, main=["picture"]),
        Section("two", "The second", [Text("x")]),
    ]


def test_the_summary_comes_first_and_all_verdicts_last(tmp_path):
    text = Page("A title", "A lead.", sections(), ["A note."]).write(tmp_path).read_text(encoding="utf-8")
    places = [
        'id="short"',
        "In a line.",
        'id="words"',
        "<figure>",
        "<nav>",
        'id="one"',
        'id="two"',
        'id="verdicts"',
        "<footer>",
    ]
    assert [text.index(place) for place in places] == sorted(text.index(place) for place in places)
    assert text.count("<figure>") == 2, "the main figure stands in its section, too"
    assert "1 verdicts on claims: 1 x likely holds (uninformative)." in text, "identities are none"
    assert "No verdicts, identities: 1" in text and "No verdicts, shown without a claim: 1" in text
    assert "first<small>second &lt;line&gt;</small>" in text
    assert re.search(r"Made by belated \S+ with Python 3\.\d+\.\d+, numpy \S+, numba", text)


def test_without_lines_for_a_summary_all_verdicts_are_it(tmp_path):
    plain = [Section(each.name, each.title, each.blocks) for each in sections()]
    text = Page("A title", "A lead.", plain).write(tmp_path).read_text(encoding="utf-8")
    assert text.index("<nav>") < text.index("All verdicts") < text.index('id="one"')
    assert text.count("All verdicts</h") == 1 and 'id="verdicts"' not in text and 'id="short"' not in text


def test_every_word_of_the_page_is_explained_where_the_summary_uses_it(tmp_path):
    text = Page("A title", "A lead.", sections()).write(tmp_path).read_text(encoding="utf-8")
    told = text[text.index('id="words"') : text.index("<nav>")]
    for word in ("holds", "likely holds", "uninformative", "unclear", "no bound", "identity", "shown"):
        assert f">{word}</span></dt>" in told
    assert ">vacuous<" not in told, "only words of the page"
    assert set(ASIDE) <= set(ORDER) and all(says(word) for word in ORDER)
    assert list(explained(" ".join(ORDER))) == list(SAYS)


def test_an_identity_that_is_broken_is_no_identity():
    assert [identity("s", word).word for word in ("holds", "matches", "fails", "likely fails", "unclear")] == [
        *("identity", "identity", "fails", "likely fails", "unclear")
    ]
