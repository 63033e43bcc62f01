"""What learners of partial monitoring share: they are made for one game, and learn from its symbols."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from belated.geometry import Structure, check_game, structure_of
from belated.protocols import Learner


@dataclass(frozen=True)
class ForGame(Learner):
    """A learner for the game with these matrices, actions x outcomes."""

    feedback = "symbol"
    reads_answering = False
    loss: Any
    symbols: Any
    actions: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        loss, symbols = check_game(self.loss, self.symbols)
        for name, value in (("loss", loss), ("symbols", symbols), ("actions", len(loss))):
            object.__setattr__(self, name, value)

    @property
    def game(self) -> Structure:
        """The structure of the game."""
        return structure_of(self.loss, self.symbols)
