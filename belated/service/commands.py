"""`belated experiment`: what can be done to the experiments of a running service, from the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from belated.errors import BelatedError
from belated.service.helping import Command, Commands

if TYPE_CHECKING:
    from belated.client import Client

experiment = typer.Typer(
    cls=Commands, no_args_is_help=True, help="Experiments of a running service: create, list, change, archive, delete."
)

Url = Annotated[str, typer.Option(help="Where the service is.", envvar="BELATED_URL")]
Name = Annotated[str, typer.Argument(help="The experiment.")]
#: A token is not an option: those are in the list of processes.
TOKEN = "BELATED_TOKEN"
LOCAL = "http://127.0.0.1:8000"
NEVER = "never"


@contextmanager
def _client(url: str) -> Iterator[Client]:
    try:
        from belated.client import Client

        with Client(url, os.environ.get(TOKEN)) as client:
            yield client
    except (BelatedError, ImportError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None


@experiment.command("list", cls=Command)
def list_(url: Url = LOCAL) -> None:
    """All experiments, with their forecasters. The token, where one is needed, is in BELATED_TOKEN."""
    with _client(url) as client:
        for each in client.experiments():
            state = "active" if each.archived_at is None else "archived"
            actions = f"{len(each.actions)} action{'s' * (len(each.actions) != 1)}"
            typer.echo(f"{each.name}\t{state}\t{each.forecaster['name']}\t{actions}")


@experiment.command(cls=Command)
def change(
    name: Name,
    expiry_seconds: Annotated[str | None, typer.Option(help="After which a new decision expires, or never.")] = None,
    on_expiry: Annotated[str | None, typer.Option(help="drop, or the reward that is learned then.")] = None,
    outstanding: Annotated[int | None, typer.Option(help="The most open decisions.")] = None,
    retention_seconds: Annotated[str | None, typer.Option(help="After which events go, or never.")] = None,
    url: Url = LOCAL,
) -> None:
    """Change when decisions expire, what happens then, how many may be open, and how long events are kept."""
    given: dict[str, Any] = {"expiry_seconds": expiry_seconds, "retention_seconds": retention_seconds}
    rules: dict[str, Any] = {
        key: None if value == NEVER else _number(value) for key, value in given.items() if value is not None
    }
    if on_expiry is not None:
        rules["on_expiry"] = _number(on_expiry)
    if outstanding is not None:
        rules["limits"] = {"outstanding": outstanding}
    with _client(url) as client:
        data = client.change(name, **rules).data
    typer.echo(json.dumps({key: data[key] for key in ("expiry_seconds", "on_expiry", "limits", "retention_seconds")}))


def _number(text: str) -> float | str:
    """A number where it is one: the service says what is wrong with other words."""
    try:
        return float(text)
    except ValueError:
        return text


@experiment.command(cls=Command)
def archive(name: Name, url: Url = LOCAL) -> None:
    """No more decisions; open ones may still end."""
    with _client(url) as client:
        client.archive(name)
    typer.echo(f"{name} is archived")


@experiment.command(cls=Command)
def unarchive(name: Name, url: Url = LOCAL) -> None:
    """Decisions again."""
    with _client(url) as client:
        client.unarchive(name)
    typer.echo(f"{name} is active")


@experiment.command(cls=Command)
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    url: Url = LOCAL,
) -> None:
    """Delete an experiment with all its data: decisions, feedback, states. It cannot be undone."""
    if not yes and typer.prompt(f"All data of {name} will be lost. Its name again") != name:
        typer.echo("error: that is another name; nothing was deleted", err=True)
        raise typer.Exit(1)
    with _client(url) as client:
        client.delete(name, confirm=name)
    typer.echo(f"{name} is deleted")


@experiment.command(cls=Command)
def create(
    name: Name,
    forecaster: Annotated[str, typer.Argument(help="Who decides, as the catalog writes it, such as 'bold(exp3)'.")],
    action: Annotated[list[str], typer.Option(help="The name of an action; once for each.")],
    features: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A JSON file: the features of which contexts are made.")
    ] = None,
    reward_range: Annotated[tuple[float, float], typer.Option(help="The smallest and the largest reward.")] = (0, 1),
    expiry_seconds: Annotated[
        float | None, typer.Option(help="After which a decision expires. Without it: never.")
    ] = None,
    on_expiry: Annotated[str, typer.Option(help="drop, or the reward that is learned then.")] = "drop",
    seed: Annotated[int | None, typer.Option(help="What learners draw by. Without it: a fresh one.")] = None,
    outstanding: Annotated[int | None, typer.Option(help="The most open decisions. Without it: 10,000,000.")] = None,
    retention_seconds: Annotated[
        float | None, typer.Option(help="After which events and ended decisions go. Without it: never.")
    ] = None,
    url: Url = LOCAL,
) -> None:
    """Create an experiment. The number of features that its learner takes may be left out: it is that of the file."""
    more: dict[str, Any] = {"reward_range": list(reward_range), "on_expiry": _number(on_expiry)}
    limits = None if outstanding is None else {"outstanding": outstanding}
    given = {"expiry_seconds": expiry_seconds, "seed": seed, "limits": limits, "retention_seconds": retention_seconds}
    more |= {key: value for key, value in given.items() if value is not None}
    if features is not None:
        try:
            more["features"] = json.loads(features.read_text())
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else f"no JSON: {error}"
            typer.echo(f"error: --features names {str(features)!r}, which cannot be read: {why}", err=True)
            raise typer.Exit(1) from None
    with _client(url) as client:
        made = client.create(name, action, forecaster, **more)
    typer.echo(json.dumps(made.data))
