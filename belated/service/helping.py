"""Groups of commands whose help says of a flag what it does, not that it is a truth."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class Commands(TyperGroup):
    """A group of commands. (Typer shows the type of every option in `--help`, `<bool>` beside flags that take none.)"""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _without_types(command.get_params(ctx))
        return command


def _without_types(parameters: list[Any]) -> list[Any]:
    for each in parameters:
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
    return parameters
