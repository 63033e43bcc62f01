"""Regions of the simplex that planes cut, and what the chosen sides of the planes leave of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from belated.geometry.cells import TOLERANCE, widest
from belated.protocols import Floats

#: One number for each plane c.p = 0: 1 (where c.p > 0), -1 (where c.p < 0) or 0 (either).
Sides = NDArray[np.int64]


class Regions:
    """Sets of laws p with a.p > 0 for all `strict` a (and b.p = 0), cut by planes c.p = 0, one a row of `planes`.

    A linear program tells more than it was asked. A point that is left is left by all sides that it lies on. If nothing
    is left, then because of the sides that hold the best point down, and these leave nothing whatever else is chosen.
    Both are noted, so that few questions need a program.

    >>> regions = Regions(np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]), [([np.array([1.0, 0.0, -1.0])], None)])
    >>> regions.left(np.array([1, 0])).tolist(), regions.left(np.array([-1, -1])).tolist()
    ([True], [False])
    """

    def __init__(self, planes: Floats, regions: Sequence[tuple[Sequence[Floats], Floats | None]]) -> None:
        self._planes: Floats = planes / np.abs(planes).max(axis=1, keepdims=True)
        self._regions = regions
        # Rows: the number of a region, then sides. Replaced as a whole, since several threads may ask.
        self._points: NDArray[np.int16] = np.empty((0, 1 + len(planes)), np.int16)
        self._clashes = self._points

    def left(self, sides: Sides) -> NDArray[np.bool_]:
        """For each region, whether it has points strictly on all these sides: then on a set of its own dimension."""
        points, clashes = self._points, self._clashes
        chosen = np.flatnonzero(sides)
        found = np.zeros(len(self._regions), np.bool_)
        empty = found.copy()
        found[points[(points[:, 1 + chosen] == sides[chosen]).all(axis=1), 0]] = True
        empty[clashes[((clashes[:, 1:] == sides) | (clashes[:, 1:] == 0)).all(axis=1), 0]] = True
        for region in np.flatnonzero(~found & ~empty).tolist():
            found[region] = self._solve(region, sides, chosen)
        return found

    def _solve(self, region: int, sides: Sides, chosen: NDArray[np.intp]) -> bool:
        strict, border = self._regions[region]
        cuts = self._planes[chosen] * sides[chosen, None]
        room, point, weights = widest(self._planes.shape[1], [*strict, *cuts], border)
        note = np.zeros((1, 1 + len(sides)), np.int16)
        note[0, 0] = region
        if room > TOLERANCE:
            lies = self._planes @ point
            note[0, 1:] = np.sign(lies) * (np.abs(lies) > TOLERANCE)
            self._points = np.vstack([self._points, note])
            return True
        needed = chosen[weights[len(strict) :] != 0.0]
        note[0, 1 + needed] = sides[needed]
        self._clashes = np.vstack([self._clashes, note])
        return False
