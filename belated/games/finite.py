"""What finite games of partial monitoring share: a matrix of losses, a matrix of symbols."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated import require
from belated.errors import InvalidArgument
from belated.games.description import Description
from belated.geometry import Structure, check_game, structure
from belated.protocols import Floats, Game


@dataclass(frozen=True)
class Finite(Game):
    """In a round with outcome x, action i costs loss[i][x], and all that is seen is symbols[i][x]."""

    loss: Sequence[Sequence[float]] | Floats
    symbols: Sequence[Sequence[Hashable]] | NDArray[Any]
    feedback = "symbol"

    def __post_init__(self) -> None:
        loss, symbols = check_game(self.loss, self.symbols)
        object.__setattr__(self, "loss", loss)
        object.__setattr__(self, "symbols", symbols)

    @property
    def actions(self) -> int:
        return len(self.loss)

    @property
    def outcomes(self) -> int:
        """M, the number of outcomes."""
        return len(self.loss[0])

    @property
    def structure(self) -> Structure:
        """Cells, neighbours and observers of the game."""
        return structure(self.loss, self.symbols)

    def describe(self) -> Description:
        """What the game is; it prints, and with two or three outcomes it can be drawn.

        >>> import belated as bl
        >>> print(bl.games.hopeless().describe())  # doctest: +ELLIPSIS
        hopeless: regret grows like n, whatever is played
        ...
        """
        return Description(self.structure)

    @property
    def scale(self) -> float:  # type: ignore[override]
        """The largest loss less the smallest."""
        return float(max(map(max, self.loss)) - min(map(min, self.loss)))

    @property
    def largest(self) -> float:  # type: ignore[override]
        return max(len(set(row)) for row in self.symbols) - 1.0

    def decode(self, action: int, code: float) -> Hashable:
        symbol: Hashable = list(dict.fromkeys(self.symbols[action]))[int(code)]
        return symbol

    def codes(self) -> Floats:
        """The numbers of the symbols, by first appearance in their rows."""
        return np.array([[list(dict.fromkeys(row)).index(word) for word in row] for row in self.symbols], np.float64)


def checked_law(name: str, law: Any, outcomes: int) -> tuple[float, ...]:
    """The probabilities of all outcomes, or what is wrong with them."""
    chances = require.reals(name, law, low=0, high=1)
    if len(chances) != outcomes:
        raise InvalidArgument(f"{name} must have a probability for each of the {outcomes} outcomes, got {len(chances)}")
    if abs(math.fsum(chances) - 1.0) > 1e-9:
        raise InvalidArgument(f"{name} must sum to 1, got {math.fsum(chances):.12g}")
    return chances
