"""A report as one page of HTML that needs nothing else: style and figures are inside.

A page is sections; a section is blocks: text, formulas, figures, tables and findings. A finding is a statement with a
word that was computed from the data, never written by hand.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from belated.report.figures import rendered
from belated.report.files import write_whole
from belated.report.stats import number
from belated.report.words import ALARMS, ASIDE, TONES, explained, says, tallied
from belated.report.words import MEANING as MEANING
from belated.report.words import ORDER as ORDER
from belated.theory.verdicts import Verdict

#: Letters of an entry of a table from which on it may be broken into lines.
LONG = 30


@dataclass(frozen=True)
class Text:
    """Paragraphs of HTML."""

    html: str


@dataclass(frozen=True)
class Formula:
    """A formula in HTML, on a line of its own."""

    html: str


@dataclass(frozen=True)
class Drawing:
    """A figure; also written as figures/NAME.svg and .pdf."""

    name: str
    figure: Any
    caption: str


@dataclass(frozen=True)
class Rows:
    """A table. Numbers are shown short; a Verdict as its word; `folded` hides it behind its caption.

    Of an entry of several lines all but the first are shown small.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""
    folded: bool = False


@dataclass(frozen=True)
class Finding:
    """A statement, the word that the data gave it, and the figures behind the word."""

    statement: str
    word: str
    detail: str = ""


Block = Text | Formula | Drawing | Rows | Finding


@dataclass
class Section:
    """A part of a page."""

    name: str
    title: str
    blocks: list[Block] = field(default_factory=list)
    frames: dict[str, Any] = field(default_factory=dict)  #: polars frames, written as data/NAME.parquet
    short: Finding | None = None  #: its line of the summary
    main: Sequence[str] = ()  #: the figures, by name, that the summary shows too

    @property
    def findings(self) -> list[Finding]:
        return [block for block in self.blocks if isinstance(block, Finding)]

    @property
    def words(self) -> list[str]:
        """The words of verdicts that it uses, also in details and tables; some of these say more."""
        found = [self.short, *self.findings] if self.short else self.findings
        tables = [block for block in self.blocks if isinstance(block, Rows)]
        entries = [getattr(entry, "word", entry) for table in tables for row in table.rows for entry in row]
        said = [text for each in found for text in (each.word, each.detail)]
        return said + [entry for entry in entries if isinstance(entry, str) and entry in TONES]

    @property
    def drawings(self) -> list[Drawing]:
        return [block for block in self.blocks if isinstance(block, Drawing)]


def finding(statement: str, verdicts: Iterable[Verdict], note: str = "") -> Finding:
    """One finding from the verdicts on many cells: the worst word, how often each came, and the range of the ratio.

    Cells in which the bound says nothing are told apart. Where they are most of all, the finding is that it says
    nothing, unless one of the others is a warning.
    """
    given = list(verdicts)
    telling = [v for v in given if v.word not in ("vacuous", "no bound")]
    word = min((v.word for v in telling), key=ORDER.index, default="no bound")
    if any(v.word == "vacuous" for v in given) and 2 * len(telling) < len(given) and word not in ALARMS:
        word = "vacuous"
    parts = [counted([v.word for v in given])] if len(given) > 1 else []
    ratios = [v.ratio for v in telling if v.ratio is not None]
    if ratios:
        span = number(ratios[0]) if len(ratios) == 1 else f"{number(min(ratios))} to {number(max(ratios))}"
        parts.append(f"measured / bound {span}")
    open_ = [v for v in telling if v.needed is not None]
    if open_:
        needed, there = (
            _span([int(x or 0) for x in xs]) for xs in ([v.needed for v in open_], [v.count for v in open_])
        )
        parts.append(f"to be sure about {needed} replications are needed, there are {there}")
    level = min((v.level for v in given), default=1.0)
    if level < 1.0:
        parts.append(f"confidence {level:.0%}" + (" for all cells together" if len(given) > 1 else ""))
    return Finding(statement, word, "; ".join([*parts, note] if note else parts))


def identity(statement: str, word: str, detail: str = "") -> Finding:
    """A finding of what must be so by construction: an identity if it is, and else what the data gave."""
    return Finding(statement, "identity" if word in ("holds", "matches") else word, detail)


def worst(words: Iterable[str]) -> str:
    """What several words come to together."""
    return min(words, key=ORDER.index)


def _span(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def counted(words: Sequence[str]) -> str:
    """How often each word came, of the cells in which the bound says something.

    >>> counted(["holds", "holds", "likely holds", "vacuous"])
    'of 3 cells: 1 x likely holds, 2 x holds; in 1 more the bound is vacuous'
    """
    telling = [word for word in words if word not in ("vacuous", "no bound")]
    parts = [f"of {len(telling)} cell{'' if len(telling) == 1 else 's'}: {tallied(telling)}"] if telling else []
    for word, said in (("vacuous", "the bound is vacuous"), ("no bound", "there is no bound")):
        if word in words:
            parts.append(f"in {words.count(word)} {'more ' if telling else ''}{said}")
    return "; ".join(parts)


@dataclass
class Page:
    """A report: a title, an introduction and sections.

    Where sections have a line for it, the page begins with a summary: the lines, what their words say, and the main
    figures; all verdicts of several sections stand in tables at its end. Else these are the summary.
    """

    title: str
    lead: str
    sections: list[Section]
    notes: list[str] = field(default_factory=list)

    def write(self, out: str | Path) -> Path:
        """Write index.html, figures/*.svg, *.pdf and data/*.parquet into a folder; return the path of the page."""
        folder = Path(out)
        drawings = [drawing for section in self.sections for drawing in section.drawings]
        images = {}
        if drawings:
            (folder / "figures").mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        for drawing in drawings:
            for kind in ("svg", "pdf"):
                data = rendered(drawing.figure, kind)
                write_whole(folder / "figures" / f"{drawing.name}.{kind}", data)
                if kind == "svg":
                    images[drawing.name] = base64.b64encode(data).decode()
        frames = {name: frame for section in self.sections for name, frame in section.frames.items()}
        if frames:
            (folder / "data").mkdir(exist_ok=True)
        for name, frame in frames.items():
            stream = io.BytesIO()
            frame.write_parquet(stream)
            write_whole(folder / "data" / f"{name}.parquet", stream.getvalue())
        path = folder / "index.html"
        write_whole(path, self.html(images).encode())
        return path

    def html(self, images: dict[str, str]) -> str:
        style = resources.files("belated.report").joinpath("page.css").read_text(encoding="utf-8")
        body = [f"<h1>{escape(self.title)}</h1>", f'<p class="lead">{self.lead}</p>', *self._summary(images)]
        several = len(self.sections) > 1
        found = [(section.name, each) for section in self.sections for each in section.findings] if several else []
        if several:
            listed = "".join(f'<li><a href="#{s.name}">{escape(s.title)}</a></li>' for s in self.sections)
            last = '<li><a href="#verdicts">All verdicts</a></li>' if found and self._lines else ""
            body.append(f"<nav><ol>{listed}{last}</ol></nav>")
        if found and not self._lines:
            body += ["<h3>All verdicts</h3>", _found(found, "All verdicts")]
        for number_, section in enumerate(self.sections, start=1):
            heading = f"{number_}. {section.title}" if several else section.title
            body.append(f'<h2 id="{section.name}">{escape(heading)}</h2>')
            body += _blocks(section.blocks, images)
        if found and self._lines:
            body += _verdicts(found)
        notes = "".join(f"<p>{note}</p>" for note in self.notes)
        body.append(f"<footer>{notes}<p>{made_by()}</p></footer>")
        joined = "\n".join(body)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n{joined}\n</main>\n</body>\n</html>\n"
        )

    @property
    def _lines(self) -> list[tuple[Section, Finding]]:
        return [(section, section.short) for section in self.sections if section.short]

    def _summary(self, images: dict[str, str]) -> list[str]:
        """The lines of the sections, what all words of the page say, and the main figures."""
        if not self._lines:
            return []
        lines = "".join(
            f'<li>{_word(line.word)}<span>{line.statement} (<a href="#{each.name}">{escape(each.name)}</a>)</span></li>'
            for each, line in self._lines
        )
        words = explained(" ".join(each for section in self.sections for each in section.words))
        said = "".join(f"<dt>{_word(word, told=False)}</dt><dd>{meaning}</dd>" for word, meaning in words.items())
        chosen = [each for section in self.sections for each in section.drawings if each.name in section.main]
        return [
            f'<h2 id="short">In short</h2><ul class="short">{lines}</ul>',
            f'<h3 id="words">What the words say</h3><dl class="words">{said}</dl>',
            *_blocks(chosen, images),
        ]


def _verdicts(found: Sequence[tuple[str, Finding]]) -> list[str]:
    """All findings, by the names of sections: verdicts on claims first, and apart from them what is none."""
    claims = [row for row in found if row[1].word not in ASIDE]
    body = ['<h2 id="verdicts">All verdicts</h2>']
    if claims:
        tally = tallied([each.word for _, each in claims])
        body += [f"<p>{len(claims)} verdicts on claims: {tally}.</p>", _found(claims, "All verdicts")]
    for word, title in zip(ASIDE, ("without a bound", "identities", "shown without a claim"), strict=True):
        rows = [row for row in found if row[1].word == word]
        if rows:
            title = f"No verdicts, {title}: {len(rows)}"
            body.append(f"<details><summary>{title}</summary>{_found(rows, title)}</details>")
    return body


def made_by() -> str:
    """Which versions made a page."""
    from importlib.metadata import version
    from platform import python_version

    from belated.version import __version__

    needed = ("numpy", "numba", "scipy", "matplotlib", "polars", "pyarrow")
    used = ", ".join(f"{name} {version(name)}" for name in needed)
    return f"Made by belated {__version__} with Python {python_version()}, {used}."


def _found(rows: Sequence[tuple[str, Finding]], name: str) -> str:
    """Findings as a table: the word, the statement and the name of the section."""
    lines = "".join(
        f'<tr><td class="words">{_word(found.word)}</td>'
        f'<td class="words wide">{found.statement}{_detail(found)}</td>'
        f'<td class="words part"><a href="#{section}">{escape(section)}</a></td></tr>'
        for section, found in rows
    )
    head = "".join(f'<th scope="col" class="words {name}">{name}</th>' for name in ("verdict", "statement", "part"))
    return _scroll(f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>", name)


def _word(word: str, told: bool = True) -> str:
    """A word of a verdict; what it says comes up beside it."""
    said = re.sub(r"<[^>]+>", "", says(word)) if told else ""
    title = f' title="{escape(said, quote=True)}"' if said else ""
    return f'<span class="word {TONES.get(word, "told")}"{title}>{escape(word)}</span>'


def _blocks(blocks: Sequence[Block], images: dict[str, str]) -> list[str]:
    lines: list[str] = []
    inside = False  # a row of figures
    for block in blocks:
        if isinstance(block, Drawing) != inside:
            lines.append("</div>" if inside else '<div class="figures">')
            inside = not inside
        lines.append(_block(block, images))
    return [*lines, "</div>"] if inside else lines


def _block(block: Block, images: dict[str, str]) -> str:
    if isinstance(block, Text):
        return block.html if block.html.lstrip().startswith("<") else f"<p>{block.html}</p>"
    if isinstance(block, Formula):
        return f'<div class="formula">{block.html}</div>'
    if isinstance(block, Drawing):
        alt = f"Figure: {escape(block.name, quote=True)}"
        image = f'<img alt="{alt}" src="data:image/svg+xml;base64,{images[block.name]}">'
        return f"<figure>{image}<figcaption>{escape(block.caption)}</figcaption></figure>"
    if isinstance(block, Finding):
        return f'<div class="finding">{_word(block.word)}<div>{block.statement}{_detail(block)}</div></div>'
    return _table(block)


def _table(block: Rows) -> str:
    words = [any(isinstance(row[j], str | Verdict) for row in block.rows) for j in range(len(block.header))]
    head = "".join(f'<th scope="col"{_class(w)}>{escape(h)}</th>' for h, w in zip(block.header, words, strict=True))
    rows = "".join(
        "<tr>" + "".join(_entry(value, w) for value, w in zip(row, words, strict=True)) + "</tr>" for row in block.rows
    )
    caption = f"<caption>{escape(block.caption)}</caption>" if block.caption and not block.folded else ""
    inside = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    table = _scroll(inside, block.caption or "table")
    return f"<details><summary>{escape(block.caption)}</summary>{table}</details>" if block.folded else table


def _scroll(table: str, name: str) -> str:
    """A box that scrolls sideways, by keyboard too."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name, quote=True)}">{table}</div>'


def _detail(found: Finding) -> str:
    return f"<small>{found.detail}</small>" if found.detail else ""


def _entry(value: Any, words: bool) -> str:
    if isinstance(value, Verdict):
        shown = _word(value.word)
    elif isinstance(value, str):
        shown = _word(value) if value in TONES else _lines(value)
    elif isinstance(value, bool):
        shown = "yes" if value else "no"
    elif isinstance(value, int):
        shown = f"{value:,}"
    else:
        shown = number(value)
    return f"<td{_class(words, len(shown) > LONG and not shown.startswith('<'))}>{shown}</td>"


def _lines(value: str) -> str:
    first, *more = map(escape, value.split("\n"))
    return first + "".join(f"<small>{line}</small>" for line in more)


def _class(words: bool, long: bool = False) -> str:
    return f' class="words{" long" if long else ""}"' if words else ""
