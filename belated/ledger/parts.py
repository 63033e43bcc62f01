"""What a batch asks of an experiment, and how much of it is on record under its idempotency key."""

from __future__ import annotations

import json
from dataclasses import astuple
from typing import Any

from belated.ledger.errors import Refused
from belated.ledger.items import Decide, Decided, Item
from belated.ledger.store import Key
from belated.ledger.work import Work


class Part:
    """One item of a batch."""

    __slots__ = ("at", "contexts", "item", "known", "made")

    def __init__(self, at: int, item: Decide, known: Key | None) -> None:
        self.at = at
        self.item = item
        self.known = known
        self.made: list[Decided] = []
        self.contexts = item.contexts  #: what is still to be decided
        if known is not None:
            self.made = [Decided(*each) for each in json.loads(known.answer)]
            self.contexts = item.contexts[max(len(self.made) - item.before, 0) :]

    @property
    def done(self) -> bool:
        """Whether all of it is on record."""
        return self.known is not None and not self.contexts

    def answer(self, made: list[Decided]) -> list[Decided]:
        """The part of the answer that the item asks for, where these are new."""
        if self.known is None:
            return made
        item = self.item
        end = item.before + len(item.contexts) if item.after else None
        return [*self.made, *made][item.before : end]

    def keep(self, work: Work, made: list[Decided]) -> None:
        """Put the answer on record, as far as it goes: among new keys, or those that are extended."""
        item = self.item
        assert item.key is not None
        answer = json.dumps([astuple(each) for each in [*self.made, *made]])
        row = Key(work.experiment.id, item.key, item.digest, answer, work.now)
        (work.page.keys if self.known is None else work.page.extended).append(row)


def same_answer(item: Item, one: Item, answer: Any) -> Any:
    """What is asked twice in a batch, with the same key."""
    assert isinstance(item, Decide) and isinstance(one, Decide)
    if item.digest != one.digest:
        return other_body(item)
    if (item.before, len(item.contexts)) != (one.before, len(one.contexts)):
        return Refused("conflict", f"the key {item.key!r} is being answered; ask again")
    return answer


def other_body(item: Decide) -> Refused:
    """The key is taken."""
    return Refused("key_reused", f"the key {item.key!r} was used before with another body")
