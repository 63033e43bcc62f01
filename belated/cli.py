"""The command line."""

from __future__ import annotations

import inspect
import json
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from belated import catalog
from belated.advise import command as advising
from belated.errors import BelatedError, InvalidArgument
from belated.service import cli as service
from belated.service.cli import Imports
from belated.service.helping import Commands
from belated.version import __version__

app = typer.Typer(
    name="belated",
    cls=Commands,
    no_args_is_help=True,
    help="Learning from feedback that comes late.",
    pretty_exceptions_enable=False,
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


def _as_options(text: str) -> str:
    """Names of arguments, such as time_format, as the command line has them.

    >>> _as_options("say which with time_format='%Y%m%d' or unit='rounds'")
    "say which with --time-format '%Y%m%d' or --unit 'rounds'"
    """
    text = re.sub(r"\b(time_format|as_of|unit)='", lambda name: f"--{name[1].replace('_', '-')} '", text)
    return re.sub(r"(?<![\w'\"-])(time_format|as_of)(?![\w'\"])", lambda name: f"--{name[1].replace('_', '-')}", text)


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Errors that we raise on purpose are one message, not a traceback; and so are warnings, once each."""
    told: set[str] = set()

    def warn(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in told:
            typer.echo(f"warning: {message}", err=True)
        told.add(str(message))

    try:
        with warnings.catch_warnings():
            warnings.showwarning = warn
            yield
    except (BelatedError, OSError) as error:
        typer.echo(f"error: {_as_options(str(error))}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("stopped; what is finished is kept, run the same command again to go on", err=True)
        raise typer.Exit(130) from None


# --- what the shell completes ---


def _names(kind: str) -> Any:
    def complete(incomplete: str) -> list[str]:
        head, bracket, tail = incomplete.rpartition("(")
        inner = "learner" if kind == "forecaster" else kind
        names = sorted(catalog.TABLES[inner if bracket else kind])
        return [f"{head}{bracket}{name}" for name in names if name.startswith(tail.lower())]

    return complete


def _parts(incomplete: str) -> list[str]:
    from belated.studies.paper import PARTS

    return [part.name for part in PARTS if part.name.startswith(incomplete)]


def _finite_games(incomplete: str) -> list[str]:
    from belated.games.classical import CLASSICAL

    files = [str(path) for path in sorted(Path().glob("*.toml"))]
    return [name for name in [*sorted(CLASSICAL), *files] if name.startswith(incomplete)]


def _one_of(*names: str) -> Any:
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


Engine = Annotated[str, typer.Option(help="Where cells run: local or ray.", autocompletion=_one_of("local", "ray"))]
Address = Annotated[
    str | None, typer.Option(help="A Ray cluster (host:port, or auto); implies --engine ray, or with cuda its GPUs.")
]
Feedback = Annotated[
    str | None, typer.Option(help="Another table, with the columns observed and reward; joined by the column --on.")
]
On = Annotated[str | None, typer.Option(help="The id by which feedback is joined: click_id, or click_id=id.")]
Watched = Annotated[str | None, typer.Option(help="Column: until when the decision was watched for its feedback.")]
Window = Annotated[str | None, typer.Option(help="How long feedback counts: 7d, 36h, 30min, or rounds.")]
Unit = Annotated[str | None, typer.Option(help="What numbers are, if not obvious: rounds, s, ms, us, ns.")]
TimeFormat = Annotated[str | None, typer.Option(help='How times are written, if not ISO: "%d/%m/%Y %H:%M", "%Y%m%d".')]
Format = Annotated[str | None, typer.Option(help="csv, parquet or jsonl, where the name does not say.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Cells at a time; all cores if not given.")]


@app.command()
def paper(
    out: Annotated[Path, typer.Option(help="Where page, figures and data go.")] = Path("results/paper"),
    full: Annotated[bool, typer.Option("--full", help="The long version.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="One part, or several: bold,peak.", autocompletion=_parts)
    ] = None,
    threads: Threads = None,
    engine: Engine = "local",
    address: Address = None,
) -> None:
    """Joulani, György, Szepesvári 2013 as a study: each claim, its experiment, figures and a computed verdict.

    A second run reuses what is finished, and so does one after an interruption.
    """
    from belated.printing import print_end, print_findings
    from belated.studies.display import display
    from belated.studies.paper import run_paper

    chosen = [name for given in only or () for name in given.split(",")]
    with _plain_errors(), display("the paper") as watch:
        page, sections, state = run_paper(out, full, chosen, _engine(engine, address, threads), watch)
    print_findings(sections)
    print_end(state, page)


@app.command()
def run(
    study: Annotated[Path, typer.Argument(help="A TOML file: forecasters, games, delays, rounds, replications.")],
    out: Annotated[Path | None, typer.Option(help="Where results go; results/NAME if not given.")] = None,
    threads: Threads = None,
    engine: Annotated[
        str,
        typer.Option(
            help="Where cells run: local, ray, or cuda (a GPU).", autocompletion=_one_of("local", "ray", "cuda")
        ),
    ] = "local",
    address: Address = None,
    modules: Imports = None,
) -> None:
    """Run a study of your own and write its report.

    A second run reuses what is finished. See the README for the format, or try: belated run examples/study.toml
    """
    from belated.printing import print_cells, print_end
    from belated.studies.display import display
    from belated.studies.study import Study

    with _plain_errors():
        chosen = Study.read(study)
        folder = out or Path("results") / study.stem
        with display(chosen.title) as watch:
            results = chosen.run(folder, _engine(engine, address, threads, gpu=True), watch)
        page = results.report(folder)
    print_cells(results.frame())
    print_end(results.state, page)


@app.command()
def play(
    forecaster: Annotated[str, typer.Argument(help='Such as "bold(exp3)".', autocompletion=_names("forecaster"))],
    game: Annotated[
        str, typer.Option(help='Such as "randomwalk(5)".', autocompletion=_names("game"))
    ] = "bernoulli([0.3, 0.4, 0.5, 0.6, 0.7])",
    delay: Annotated[
        str, typer.Option(help='Such as "geometric(50)".', autocompletion=_names("delays"))
    ] = "constant(100)",
    rounds: Annotated[int, typer.Option(min=1)] = 100_000,
    replications: Annotated[int, typer.Option(min=1)] = 20,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    expiry: Annotated[int | None, typer.Option(min=0, help="Cancel tickets after so many rounds.")] = None,
    default: Annotated[float | None, typer.Option(help="The reward that is learned at expiry, instead.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="All cores if not given.")] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="What plays: compiled, python, or cuda (a GPU).", autocompletion=_one_of("compiled", "python", "cuda")
        ),
    ] = "auto",
    plot: Annotated[Path | None, typer.Option(help="Draw regret against the round into this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    modules: Imports = None,
) -> None:
    """Play one forecaster on one game under one delay law, and show regret, bound and peak.

    Learners take the number of actions from the game, games give the feedback that the learner needs.
    """
    from belated.engine.play import play as simulate
    from belated.printing import print_play, summary
    from belated.report.plots import check_picture
    from belated.studies.study import fit

    with _plain_errors():
        if plot is not None:
            check_picture(plot)
        names = forecaster, game, delay
        chosen, played, law = fit(*names)
        result = simulate(
            chosen,
            played,
            law,
            rounds,
            replications,
            seed,
            threads,
            expiry=expiry,
            default=default,
            progress=False if as_json else None,
            engine=engine,
        )
        if plot is not None:
            result.plot(plot)
    if as_json:
        typer.echo(json.dumps(summary(result, names), indent=2, allow_nan=False))
    else:
        print_play(result, names)
        if plot is not None:
            typer.echo(f"drawn to {plot}")


@app.command()
def replay(
    log: Annotated[str, typer.Argument(help="Logged decisions: an export of the service, a file, folder or pattern.")],
    forecaster: Annotated[
        list[str] | None,
        typer.Option(help='Such as "bold(exp3)"; several may be given.', autocompletion=_names("forecaster")),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="One that does not learn: uniform, a column with its probabilities, or a file with the columns "
            "action, probability, and others of the log that it goes by; several may be given."
        ),
    ] = None,
    action: Annotated[
        str | None,
        typer.Option(
            help="Column of the action. Columns that are not given are those of an export: action, probability, value, "
            "decided_at, closed_at, context."
        ),
    ] = None,
    probability: Annotated[str | None, typer.Option(help="Column of the probability it was chosen with.")] = None,
    reward: Annotated[str | None, typer.Option(help="Column of the reward.")] = None,
    decided: Annotated[str | None, typer.Option(help="Column of the time or round of the decision.")] = None,
    observed: Annotated[str | None, typer.Option(help="Column of the time or round of the feedback.")] = None,
    context: Annotated[list[str] | None, typer.Option(help="Columns of side information.")] = None,
    features: Annotated[
        typer.FileText | None,
        typer.Option(help="A JSON file: the features that contexts are made of, from columns of their names."),
    ] = None,
    reward_range: Annotated[tuple[float, float], typer.Option("--range", help="Where rewards lie.")] = (0.0, 1.0),
    feedback: Feedback = None,
    on: On = None,
    watched: Watched = None,
    window: Window = None,
    default: Annotated[float | None, typer.Option(help="The reward of a decision that was watched in vain.")] = None,
    unit: Unit = None,
    time_format: TimeFormat = None,
    format: Format = None,
    estimator: Annotated[str, typer.Option(help="dr, ips, snips or replay.")] = "dr",
    runs: Annotated[int, typer.Option(min=1, help="Fresh starts that the log is dealt out to.")] = 10,
    clock: Annotated[str, typer.Option(help="What delays are counted in: rounds, log.")] = "rounds",
    clip: Annotated[float | None, typer.Option(min=1, help="The largest weight 1/probability; biases.")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="Write a page with figures into this folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    modules: Imports = None,
) -> None:
    """What other forecasters and policies would have earned, from logged decisions with probabilities and delays."""
    from belated.replay import replay as replayed
    from belated.replay.report import print_replay

    with _plain_errors():
        found = replayed(
            log,
            forecaster or [],
            policies=policy or [],
            estimator=estimator,
            runs=runs,
            clock=clock,
            clip=clip,
            seed=seed,
            action=action,
            probability=probability,
            reward=reward,
            decided=decided,
            observed=observed,
            context=(context or None) if features is None else _features(features, context),
            reward_range=reward_range,
            feedback=feedback,
            on=on,
            watched=watched,
            window=window,
            default=default,
            unit=unit,
            time_format=time_format,
            format=format,
        )
        page = None if out is None else found.report(out)
    if as_json:
        typer.echo(json.dumps(found.data(), indent=2, allow_nan=False))
        return
    print_replay(found)
    if page is not None:
        typer.echo(f"the page is {page}")


def _features(file: Any, context: list[str] | None) -> Any:
    """The features of a file."""
    from belated.features import Features

    if context:
        raise InvalidArgument("--features says which columns contexts are made of: leave --context away")
    try:
        given = json.load(file)
    except ValueError as error:
        raise InvalidArgument(f"{file.name} is not JSON: {error}") from None
    return Features(given)


@app.command()
def audit(
    log: Annotated[str, typer.Argument(help="A row for each decision, in any order: a file, folder or pattern.")],
    decided: Annotated[
        str | None,
        typer.Option(help="Column: when the decision was made (a time, or a round); decided_at if not given."),
    ] = None,
    observed: Annotated[
        str | None, typer.Option(help="Column: when its feedback came; empty if it has not; closed_at if not given.")
    ] = None,
    action: Annotated[str | None, typer.Option(help="Column: the action.")] = None,
    reward: Annotated[str | None, typer.Option(help="Column: the reward, or outcome.")] = None,
    learner: Annotated[
        str, typer.Option(help="What the theorems are asked about.", autocompletion=_names("learner"))
    ] = "ucb1",
    gap: Annotated[float, typer.Option(help="How much worse the other actions are than the best, from 0 to 1.")] = 0.1,
    as_of: Annotated[str | None, typer.Option(help="When the log was taken; its latest time if not given.")] = None,
    level: Annotated[float, typer.Option(help="The level of all tests together.")] = 0.01,
    feedback: Feedback = None,
    on: On = None,
    watched: Watched = None,
    window: Window = None,
    unit: Unit = None,
    time_format: TimeFormat = None,
    format: Format = None,
    out: Annotated[Path | None, typer.Option(help="Write the page, its figures and data here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    modules: Imports = None,
) -> None:
    """What does delay cost me? From a log of decisions and of when their feedback came.

    Try: belated audit events.parquet --decided decided_at --observed converted_at --out results/audit, or
    belated audit clicks.csv --feedback sales.csv --on click_id --decided clicked_at --observed sold_at --window 30d
    """
    from belated.audit import audit as audited

    with _plain_errors():
        found = audited(
            log,
            decided=decided,
            observed=observed,
            action=action,
            reward=reward,
            learner=learner,
            gap=gap,
            as_of=as_of,
            level=level,
            feedback=feedback,
            on=on,
            watched=watched,
            window=window,
            unit=unit,
            time_format=time_format,
            format=format,
        )
        page = None if out is None else found.page(out)
    typer.echo(found.to_json() if as_json else found.summary())
    if page is not None:
        typer.echo(f"the page is {page}", err=as_json)


@app.command("game")
def show_game(
    game: Annotated[
        str,
        typer.Argument(
            help='A TOML file with loss and symbols, or a name such as apple_tasting or "spam(cost=0.3)".',
            autocompletion=_finite_games,
        ),
    ],
    plot: Annotated[Path | None, typer.Option(help="Draw the cells into this file (two or three outcomes).")] = None,
) -> None:
    """What a finite game of partial monitoring is: its class, actions, neighbours and what can be told apart.

    Try: belated game examples/game.toml
    """
    from belated.notation import finite_game
    from belated.printing import print_game
    from belated.report.plots import check_picture

    with _plain_errors():
        if plot is not None:
            check_picture(plot)
        found = finite_game(game).describe()
        if plot is not None:
            found.plot(plot)
    print_game(found)
    if plot is not None:
        typer.echo(f"drawn to {plot}")


@app.command("catalog")
def show_catalog(
    name: Annotated[
        str | None, typer.Argument(help="Show everything about one.", autocompletion=_names("learner"))
    ] = None,
    modules: Imports = None,
) -> None:
    """What there is, with one line each and the bound."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    if name is not None:
        with _plain_errors():
            return _show_entry(name.lower())
    for kind, entries in catalog.TABLES.items():
        shown = Table(title=kind, title_justify="left", show_header=False, box=None, padding=(0, 2))
        for entry, thing in sorted(entries.items()):
            line = escape(_first_line(thing))
            if hasattr(thing, "guarantee"):
                line += f"\n[dim]bound: {escape(thing.guarantee)}[/dim]"
            shown.add_row(f"[bold]{entry}[/bold]{escape(_arguments(thing))}", line)
        console.print(shown)
        console.print()
    return None


def _show_entry(name: str) -> None:
    found = [(kind, table[name]) for kind, table in catalog.TABLES.items() if name in table]
    if not found:
        from belated.errors import InvalidArgument

        near = catalog.nearest(name, [n for table in catalog.TABLES.values() for n in table])
        raise InvalidArgument(f"the catalog has nothing called {name!r}; {near or 'belated catalog lists all'}")
    for kind, thing in found:
        typer.echo(f"{kind} {name}{_arguments(thing)}\n\n{inspect.getdoc(thing) or ''}\n")
        if hasattr(thing, "guarantee"):
            typer.echo(f"bound: {thing.guarantee}\n")


def _arguments(thing: Any) -> str:
    parameters = inspect.signature(thing).parameters.values()
    shown = [
        p.name if p.default is inspect.Parameter.empty else f"{p.name}={p.default!r}"
        for p in parameters
        if p.name != "seed"
    ]
    return f"({', '.join(shown)})" if shown else ""


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")


service.mount(app)
advising.mount(app, _plain_errors)

# --- where studies run ---


def _engine(name: str, address: str | None, threads: int | None, gpu: bool = False) -> Any:
    from belated.errors import InvalidArgument
    from belated.studies.run import Local, OnGPU

    known = ("local", "ray", "cuda") if gpu else ("local", "ray")
    if name not in known:
        hint = catalog.nearest(name, known) or f"there are {', '.join(known[:-1])} and {known[-1]}"
        raise InvalidArgument(f"no engine is called {name!r}; {hint}")
    if name == "cuda" and threads is not None:
        raise InvalidArgument(f"--threads {threads} is not for --engine cuda: a GPU plays one cell at a time")
    if name == "cuda" and address is None:
        return OnGPU()
    if name == "ray" or address is not None:
        from belated.studies.on_ray import OnRay

        return OnRay(address, gpu=name == "cuda")
    return Local(threads)


if __name__ == "__main__":
    sys.exit(app())
