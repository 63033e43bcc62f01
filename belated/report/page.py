"""A report as one page of HTML that needs nothing else: style and figures are inside.

A page is sections; a section is blocks: text, formulas, figures, tables and findings. A finding is a statement with a
word that was computed from the data, never written by hand.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from belated.report.figures import rendered
from belated.report.files import write_whole
from belated.report.stats import number
from belated.theory.verdicts import Verdict

#: How a word is shown.
TONES = {
    "holds": "good",
    "holds, uninformative": "weak",
    "likely holds": "weak",
    "likely holds, uninformative": "weak",
    "matches": "good",
    "vacuous": "dull",
    "no bound": "dull",
    "unclear": "doubt",
    "likely fails": "bad",
    "fails": "bad",
    "shown": "told",
    "bound": "good",
    "doubtful": "doubt",
    "no sign": "good",
    "too few": "dull",
    "depends slightly": "doubt",
    "depends": "bad",
}
#: From bad to good: what many verdicts come to together.
ORDER = (
    "fails",
    "likely fails",
    "unclear",
    "likely holds",
    "holds",
    "matches",
    "likely holds, uninformative",
    "holds, uninformative",
    "vacuous",
    "no bound",
    "shown",
)
#: What of it is a warning, however few of the cells it comes from.
ALARMS = ORDER[:3]
#: What every page with verdicts and bands says of them.
MEANING = (
    "Bands, and what stands behind ±, are 95% intervals of a mean alone: Student's, longer where values are skewed, an "
    "approximation. <i>Low</i> and <i>high</i> are intervals that hold whatever the law of what was measured, because "
    "it is bounded, for all cells of the verdict together with 99% confidence. <i>Holds</i> and <i>fails</i> rest on "
    "them; <i>likely</i> says that they do not decide, and that the approximation does, at the same level. "
    "<i>Matches</i> says that an approximate interval contains the number. A bound more than twenty times what was "
    "measured is called uninformative, one that cannot be broken (regret is at most n times the largest gap, or n "
    "times the range of the rewards) vacuous."
)


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
    """A table. Numbers are shown short; a Verdict as its word; `folded` hides it behind its caption."""

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

    @property
    def findings(self) -> list[Finding]:
        return [block for block in self.blocks if isinstance(block, Finding)]

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
    word = min((v.word for v in telling), key=ORDER.index, default=given[0].word if given else "no bound")
    if 2 * len(telling) < len(given) and word not in ALARMS:
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


def _span(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def counted(words: Sequence[str]) -> str:
    """How often each word came, of the cells in which the bound says something.

    >>> counted(["holds", "holds", "likely holds", "vacuous"])
    'of 3 cells: 1 x likely holds, 2 x holds; in 1 more the bound is vacuous'
    """
    telling = [word for word in words if word not in ("vacuous", "no bound")]
    told = ", ".join(f"{telling.count(word)} x {word}" for word in ORDER if word in telling)
    parts = [f"of {len(telling)} cell{'' if len(telling) == 1 else 's'}: {told}"] if telling else []
    for word, said in (("vacuous", "the bound is vacuous"), ("no bound", "there is no bound")):
        if word in words:
            parts.append(f"in {words.count(word)} {'more ' if telling else ''}{said}")
    return "; ".join(parts)


@dataclass
class Page:
    """A report: a title, an introduction and sections."""

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
        from belated.version import __version__

        style = resources.files("belated.report").joinpath("page.css").read_text(encoding="utf-8")
        body = [f"<h1>{escape(self.title)}</h1>", f'<p class="lead">{self.lead}</p>']
        if len(self.sections) > 1:
            listed = "".join(f'<li><a href="#{s.name}">{escape(s.title)}</a></li>' for s in self.sections)
            body.append(f"<nav><ol>{listed}</ol></nav>")
            body += self._summary()
        for number_, section in enumerate(self.sections, start=1):
            heading = f"{number_}. {section.title}" if len(self.sections) > 1 else section.title
            body.append(f'<h2 id="{section.name}">{escape(heading)}</h2>')
            body += _blocks(section.blocks, images)
        notes = "".join(f"<p>{note}</p>" for note in self.notes)
        body.append(f"<footer>{notes}<p>Made by belated {__version__}.</p></footer>")
        joined = "\n".join(body)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n{joined}\n</main>\n</body>\n</html>\n"
        )

    def _summary(self) -> list[str]:
        rows = [
            f'<tr><td class="words">{_word(found.word)}</td>'
            f'<td class="words wide">{found.statement}{_detail(found)}</td>'
            f'<td class="words part"><a href="#{section.name}">{escape(section.name)}</a></td></tr>'
            for section in self.sections
            for found in section.findings
        ]
        if not rows:
            return []
        head = "".join(f'<th scope="col" class="words {name}">{name}</th>' for name in ("verdict", "statement", "part"))
        table = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
        return ["<h3>All verdicts</h3>", _scroll(f"<table>{table}</table>", "All verdicts")]


def _word(word: str) -> str:
    return f'<span class="word {TONES.get(word, "told")}">{escape(word)}</span>'


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
        shown = _word(value) if value in TONES else escape(value)
    elif isinstance(value, bool):
        shown = "yes" if value else "no"
    elif isinstance(value, int):
        shown = f"{value:,}"
    else:
        shown = number(value)
    return f"<td{_class(words, len(shown) > LONG and not shown.startswith('<'))}>{shown}</td>"


def _class(words: bool, long: bool = False) -> str:
    return f' class="words{" long" if long else ""}"' if words else ""
