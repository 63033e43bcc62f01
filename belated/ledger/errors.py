"""How the ledger says no."""

from __future__ import annotations

from typing import Literal

from belated.errors import BelatedError

Kind = Literal[
    "unknown_experiment",
    "unknown_ticket",
    "conflict",
    "cancelled",
    "expired",
    "closed",
    "exists",
    "archived",
    "read_only",
    "invalid",
    "unsupported",
    "key_reused",
    "too_many_outstanding",
    "damaged",
    "waited",
    "internal",
    "storage",
]


class Refused(BelatedError):
    """A request that cannot be done; `kind` is for programs, the message for people."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind

    def __reduce__(self) -> tuple[type[Refused], tuple[Kind, str]]:
        return Refused, (self.kind, str(self))


class Damaged(BelatedError):
    """What is stored of an experiment cannot be what was written."""


class Raced(BelatedError):
    """Another process was faster, and the transaction was undone. The same again will do."""


class Outdated(Raced):
    """An experiment is another than was known here; nothing was begun."""


class StorageError(BelatedError):
    """The database did not do its part: disk full, locked for too long, gone."""
