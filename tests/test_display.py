"""What people see while a study runs and when it is done."""

import io

from rich.console import Console

from belated import printing
from belated.report.page import Finding, Section
from belated.studies import display
from belated.studies.run import State


def test_the_bar_shows_cells_share_and_titles():
    stream = io.StringIO()
    with display._Bar("study [x]", Console(file=stream, force_terminal=True, width=100)) as bar:
        state = State(cells=9, decisions=1000, reused=2, finished=3, played=500)
        state.running = {str(i): (f"cell {i} [/bold]", 10) for i in range(6)}
        bar(state)
        bar._live.refresh()
    shown = stream.getvalue()
    for part in ("5/9 cells", "56%", "cell 0 [/bold]", "and 3 more"):
        assert part in shown, part


def test_without_a_terminal_a_line_comes_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(display, "QUIET", 0.0)
    with display.display("mine [a]") as watch:
        watch(State(cells=4, decisions=100, finished=1, played=25))
    assert "mine [a]: 1 of 4 cells, 25% of 100 decisions" in capsys.readouterr().err


def test_findings_are_printed_without_tags(capsys):
    found = Finding("E G*<sub>n</sub> ≤ B &amp; [more]", "holds", "ratio 0.5")
    printing.print_findings([Section("peak", "The peak", [found, Finding("x", "fails")])])
    said = capsys.readouterr().out
    assert "E G*n ≤ B & [more]" in said and "ratio 0.5" in said and "fails" in said
