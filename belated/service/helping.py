"""What the commands have in common: help that says of a flag what it does, and options that come by the environment."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from belated.errors import InvalidArgument
from belated.spelling import nearest

#: How the names of our environment variables begin.
PREFIX = "BELATED"
#: Secrets, which may also come in a file: its name is in the variable with this at the end.
SECRETS = ("BELATED_DATABASE", "BELATED_TOKEN", "PGPASSWORD")
FILE = "_FILE"
#: What other commands take by these names, and what Kubernetes calls the port of a service called belated.
ELSEWHERE = ("BELATED_DATABASE", "BELATED_URL", "BELATED_TOKEN", "BELATED_IMPORT", "BELATED_PORT")


class Commands(TyperGroup):
    """A group of commands. (Typer shows the type of every option in `--help`, `<bool>` beside flags that take none.)"""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _without_types(command.get_params(ctx))
        return command


class Command(TyperCommand):
    """A command of the service: every option may come by an environment variable.

    Its name is BELATED, the words of the command and the option: BELATED_SERVE_PORT. (Not BELATED_PORT: Kubernetes sets
    that for every service called belated, to something else.) Options that state a variable of their own keep it.
    """

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        take_secrets()
        words = [info_name]
        above = parent
        while above is not None and above.parent is not None:  # the first is the program
            words.insert(0, above.info_name)
            above = above.parent
        for each in self.params:
            name_variable(each, words)
        warn_of_misspelt("_".join([PREFIX, *map(str, words), ""]).upper(), self.params)
        try:
            return super().make_context(info_name, args, parent, **extra)
        except typer.BadParameter as error:
            name_value(error)
            raise


def name_variable(option: Any, words: list[str | None]) -> None:
    """Say by which variable an option may come, if it does not say so itself."""
    if getattr(option, "allow_from_autoenv", False) and option.envvar is None:
        long = max(option.opts, key=len).strip("-")
        option.envvar = "_".join([PREFIX, *map(str, words), long]).replace("-", "_").upper()
        option.show_envvar = True


def warn_of_misspelt(beginning: str, options: list[Any]) -> None:
    """Say which variables look like ours and are not: what one of them should have set has its default.

    Those are all that begin like ours, and those that left out the words of the command.
    """
    known = {str(each.envvar) for each in options if each.envvar}
    for name in sorted(os.environ):
        if name in known or name in ELSEWHERE or not name.startswith(PREFIX + "_"):
            continue
        full = beginning + name.removeprefix(PREFIX + "_")
        if name.startswith(beginning) or full in known:
            hint = f"did you mean '{full}'?" if full in known else nearest(name, known)
            typer.echo(f"warning: the variable {name} sets nothing here{f'; {hint}' if hint else ''}", err=True)


def name_value(error: typer.BadParameter) -> None:
    """Say what is in the variable that is wrong, unless it is a secret."""
    name = getattr(error.param, "envvar", None)
    value = os.environ.get(str(name), "")
    if value and name not in SECRETS and repr(value) not in error.message:
        error.message += f", got {value!r}"


def checked(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A check of ours as that of an option."""

    def run(given: Any) -> Any:
        try:
            return given if given is None else check(given)
        except InvalidArgument as error:
            raise typer.BadParameter(str(error)) from None

    return run


def take_secrets() -> None:
    """What is in files, such as those that Docker and systemd give, into the variables of this process."""
    for name in SECRETS:
        file = os.environ.get(name + FILE)
        if not file:
            continue
        if os.environ.get(name):
            raise typer.BadParameter(f"{name} and {name}{FILE} are both set; which is it?")
        try:
            os.environ[name] = Path(file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "no text"
            raise typer.BadParameter(f"{name}{FILE} names {file!r}, which cannot be read: {reason}") from None
        del os.environ[name + FILE]


def _without_types(parameters: list[Any]) -> list[Any]:
    for each in parameters:
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
    return parameters
