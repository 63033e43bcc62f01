"""The command line."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from belated import __version__, catalog
from belated.errors import BelatedError

app = typer.Typer(
    name="belated", no_args_is_help=True, help="Learning from feedback that comes late.", pretty_exceptions_enable=False
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"belated {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Learning from feedback that comes late."""


@app.command()
def paper(
    out: Annotated[Path, typer.Option(help="Where table and figure go.")] = Path("results/paper"),
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each replication.")] = 50_000,
    replications: Annotated[int, typer.Option(min=1, help="Replications of each cell.")] = 40,
) -> None:
    """A first study of the price of delay: a table, a figure and the numbers as Parquet."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from belated.studies import first

    console = Console()
    try:
        out.mkdir(parents=True, exist_ok=True)
        columns = (TextColumn("playing"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("playing", total=1.0)
            played = list(first.run(rounds, replications, lambda done, of: bar.update(task, completed=done / of)))
        frame = first.table(played)
        frame.write_parquet(out / "regret.parquet")
        first.figure(played, out / "regret.png")
    except (BelatedError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    for problem in frame["problem"].unique(maintain_order=True):
        console.print(_rich_table(problem, frame.filter(frame["problem"] == problem).rows(named=True)))
    decisions = sum(r.rounds * r.replications for _, r in played)
    seconds = sum(r.seconds for _, r in played)
    console.print(f"{decisions:,} decisions in {seconds:.1f} s; figure and numbers in {out}")


def _rich_table(problem: str, rows: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    shown = Table(title=f"regret under constant delay: {problem}", title_justify="left")
    shown.add_column("forecaster", no_wrap=True)
    for name in ("delay", "regret", "G*", "bound"):
        shown.add_column(name, justify="right")
    shown.add_column("verdict")
    for row in sorted(rows, key=lambda r: (r["forecaster"], r["delay"])):
        bound = "-" if row["bound"] is None else f"{row['bound']:.0f}"
        regret = f"{row['regret']:.1f} ± {1.96 * row['standard error']:.1f}"
        shown.add_row(row["forecaster"], str(row["delay"]), regret, f"{row['peak']:.0f}", bound, row["verdict"])
    return shown


@app.command("catalog")
def show_catalog() -> None:
    """What there is, with one line each."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    for kind, entries in catalog.TABLES.items():
        shown = Table(title=kind, title_justify="left", show_header=False, box=None, padding=(0, 2))
        for name, thing in sorted(entries.items()):
            arguments = ", ".join(str(p).partition(":")[0] for p in inspect.signature(thing).parameters.values())
            shown.add_row(name, escape(f"({arguments})"), escape(_first_line(thing)))
        console.print(shown)


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")


if __name__ == "__main__":
    app()
