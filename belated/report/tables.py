"""Tables of sentences."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from belated.report.page import Text

#: On narrow screens the cells of a row are below each other, each with its name.
STACKED = (
    "@media (max-width: 34rem) { .stacked thead { display: none; } .stacked tr, .stacked td { display: block; } "
    ".stacked tr { border-bottom: 1px solid var(--line); padding: .5rem 0; } "
    ".stacked td { border: 0; padding: .1rem 0; } "
    ".stacked td:not(:first-child)::before { content: attr(data-name) ': '; color: var(--soft); } "
    ".stacked td:first-child { font-weight: bold; } } .stacked td { overflow-wrap: anywhere; }"
)


def sentences(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> Text:
    """A table of sentences, whose cells break into lines, and are below each other on narrow screens."""
    head = "".join(f'<th scope="col" class="words">{escape(name)}</th>' for name in header)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td class="words wide" data-name="{escape(name, quote=True)}">{escape(value)}</td>'
            for name, value in zip(header, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    label = escape(caption or header[0], quote=True)
    return Text(
        f"<style>{STACKED}</style>"
        f'<div class="scroll stacked" tabindex="0" role="region" aria-label="{label}">'
        f"<table>{said}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
