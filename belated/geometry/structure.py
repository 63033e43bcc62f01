"""The structure of a finite game: which actions matter, which are neighbours, what can be told apart."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache
from itertools import compress
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from belated.errors import InvalidArgument
from belated.geometry.cells import TOLERANCE, in_span, least_squares, slack, smallest
from belated.geometry.check import Loss, Symbols, check_game
from belated.geometry.regions import Regions
from belated.protocols import Floats

Pair = tuple[int, int]
Kind = Literal["pareto", "duplicate", "degenerate", "dominated"]
Class = Literal["trivial", "easy", "hard", "hopeless"]
RATES: dict[Class, str] = {"trivial": "0", "easy": "n^(1/2)", "hard": "n^(2/3)", "hopeless": "n"}


def structure(loss: Any, symbols: Any) -> Structure:
    """The structure of the game with these matrices (actions x outcomes); worked out once for each game.

    >>> structure([[1, 0], [0, 1]], [["-", "-"], ["r", "g"]]).klass
    'easy'
    """
    return structure_of(*check_game(loss, symbols))


@lru_cache(maxsize=1024)
def structure_of(loss: Loss, symbols: Symbols) -> Structure:
    """`structure` of matrices that are as `check_game` makes them."""
    return Structure(loss, symbols)


class Structure:
    """What follows from a loss matrix L and a matrix of symbols H (N actions x M outcomes). Made by `structure`.

    The cell of an action is the set of laws p of the outcome for which it is best: L_i p <= L_k p for all k.

    * `loss`; `codes[k, x]`, the number of symbol H[k][x] among `names[k]`, in order of first appearance;
      `signals[k]`, the matrix S_k of zeros and ones (symbols of action k x outcomes);
    * `kinds[k]`: "pareto" (a cell of full dimension), "duplicate" (of an earlier Pareto action), "degenerate" (a
      smaller cell) or "dominated" (no cell); `duplicate_of[k]`, the first action with the same losses (itself, mostly);
      `pareto`, the Pareto actions;
    * `pairs`: neighbours i < j, whose cells share a border of dimension M - 2; for each, `plus`: the actions N+_ij that
      are best on all of that border; whether L_i - L_j can be told from the symbols of these (`locally`) or of all
      actions (`globally`); `watch`: V_ij, which is N+_ij, or all actions where that will not do; `observer`: for each k
      in V_ij the vector v_ijk with sum_k v_ijk[H[k][x]] = L_i[x] - L_j[x] for all x, the shortest such (empty if
      there is none);
    * `klass` and `rate`: how the least possible regret grows with n.

    >>> game = structure([[0, 1], [1, 0], [0.4, 0.4]], [["-", "-"], ["-", "-"], ["spam", "ham"]])
    >>> game.kinds, game.pairs, game.klass, game.rate
    (('pareto', 'pareto', 'pareto'), ((0, 2), (1, 2)), 'easy', 'n^(1/2)')
    >>> {k: v.round(4).tolist() for k, v in game.observer[0, 2].items()}
    {0: [0.0667], 2: [-0.4667, 0.5333]}
    """

    def __init__(self, loss: Loss, symbols: Symbols) -> None:
        self.loss: Floats = _fixed(np.array(loss, np.float64))
        self.actions, self.outcomes = self.loss.shape
        self.names: tuple[tuple[Hashable, ...], ...] = tuple(tuple(dict.fromkeys(row)) for row in symbols)
        numbers = [[names.index(word) for word in row] for names, row in zip(self.names, symbols, strict=True)]
        self.codes: NDArray[np.int64] = _fixed(np.array(numbers, np.int64))
        self.signals: list[Floats] = [
            _fixed((row == np.arange(len(names))[:, None]).astype(np.float64))
            for row, names in zip(self.codes, self.names, strict=True)
        ]
        self._scale(self.loss)
        self.duplicate_of: tuple[int, ...] = tuple(
            next(k for k in range(i + 1) if not self._apart(i, k)) for i in range(self.actions)
        )
        self.kinds: tuple[Kind, ...] = self._find_kinds()
        self.pareto: tuple[int, ...] = tuple(i for i, kind in enumerate(self.kinds) if kind == "pareto")
        self.plus: dict[Pair, tuple[int, ...]] = {}
        for i in self.pareto:
            for j in self.pareto:
                between = self._between(i, j) if i < j else ()
                if i < j and slack(self.outcomes, self._better(i, between), self._gap(i, j)) > TOLERANCE:
                    self.plus[i, j] = between
        self.pairs: tuple[Pair, ...] = tuple(self.plus)
        everyone = tuple(range(self.actions))
        self.locally = {pair: self._observable(pair, self.plus[pair]) for pair in self.pairs}
        self.globally = {pair: self.locally[pair] or self._observable(pair, everyone) for pair in self.pairs}
        self.watch = {pair: self.plus[pair] if self.locally[pair] else everyone for pair in self.pairs}
        self.observer = {pair: self._observer(pair) for pair in self.pairs}
        self.klass: Class = (
            "trivial"
            if len(self.pareto) == 1
            else "easy"
            if all(self.locally.values())
            else "hard"
            if all(self.globally.values())
            else "hopeless"
        )
        self.rate: str = RATES[self.klass]
        planes = np.array([self._gap(i, j) for i, j in self.pairs]).reshape(-1, self.outcomes)
        cells = [(self._better(i, (i,)), None) for i in self.pareto]
        borders = [(self._better(i, between), self._gap(i, j)) for (i, j), between in self.plus.items()]
        self._regions = Regions(planes, [*cells, *borders])
        self._alive: dict[tuple[tuple[Pair, int], ...], tuple[tuple[int, ...], tuple[Pair, ...]]] = {}
        self._differences: dict[int, Floats | None] = {}

    def alive(self, signs: Mapping[Pair, int]) -> tuple[tuple[int, ...], tuple[Pair, ...]]:
        """The Pareto actions and the neighbours that are left where sign * (L_i - L_j) p > 0 for the given pairs.

        Both are empty if no law has all these signs.

        >>> structure([[1, 0], [0, 1]], [["-", "-"], ["r", "g"]]).alive({(0, 1): -1})
        ((0,), ())
        """
        if not signs:
            return self.pareto, self.pairs
        key = tuple(sorted(signs.items()))
        if key not in self._alive:
            for pair, sign in key:
                if pair not in self.plus or sign not in (-1, 1):
                    raise InvalidArgument(f"signs must map neighbours {self.pairs} to -1 or 1, got {pair}: {sign!r}")
            sides = np.array([signs.get(pair, 0) for pair in self.pairs])
            left = self._regions.left(sides)
            self._alive[key] = (
                tuple(compress(self.pareto, left)),
                tuple(compress(self.pairs, left[len(self.pareto) :])),
            )
        return self._alive[key]

    def difference_observer(self, base: int) -> Floats | None:
        """w[a, c, s] with sum_c w[a, c, codes[c, x]] = L[a, x] - L[base, x] for all x, and the least max |w[a]|.

        None for a hopeless game. In the others all Pareto actions can be compared, from neighbour to neighbour, and so
        can actions of some N+_ij; a duplicate has the numbers of the first action with its losses. The numbers of
        another action that the symbols do not tell from `base` are NaN, since there is no such w: it is dominated, or
        degenerate with a cell smaller than the border of two others, and nobody need play it. If `base` is such an
        action itself, the numbers of all that is not told from it are NaN.

        >>> structure([[1, 0], [0, 1]], [["-", "-"], ["r", "g"]]).difference_observer(0)[1].tolist()
        [[0.0, 0.0], [-1.0, 1.0]]
        """
        if base not in self._differences:
            self._differences[base] = None if self.klass == "hopeless" else self._compare(base)
        return self._differences[base]

    def gaps(self, law: ArrayLike) -> Floats:
        """What each action loses a round against the best, under a law of the outcome.

        >>> structure([[1, 0], [0, 1]], [["-", "-"], ["r", "g"]]).gaps([0.25, 0.75]).tolist()
        [0.0, 0.5]
        """
        expected = self.loss @ np.asarray(law, np.float64)
        left: Floats = expected - expected.min()
        return left

    def _scale(self, loss: Floats) -> None:
        """What is common to all actions is taken out, and the rest brought to [0, 1]: tolerances need that."""
        regret = loss - loss.min(axis=0)
        top = regret.max()
        self._unit: Floats = regret / top if top > 0.0 else regret

    def _gap(self, i: int, j: int) -> Floats:
        difference: Floats = self._unit[i] - self._unit[j]
        return difference

    def _apart(self, i: int, j: int) -> bool:
        return bool(np.abs(self._gap(i, j)).max() > TOLERANCE)

    def _better(self, i: int, these: tuple[int, ...]) -> list[Floats]:
        """What is positive where i is better than all others but these, which lose as much there, and duplicates."""
        out = {self.duplicate_of[k] for k in these}
        others = [k for k in range(self.actions) if self.duplicate_of[k] == k and k not in out]
        return [self._gap(k, i) for k in others]

    def _find_kinds(self) -> tuple[Kind, ...]:
        kinds: list[Kind] = []
        for i, first in enumerate(self.duplicate_of):
            if first < i:
                kinds.append("duplicate" if kinds[first] == "pareto" else kinds[first])
                continue
            room = slack(self.outcomes, self._better(i, (i,)))
            kinds.append("pareto" if room > TOLERANCE else "degenerate" if room >= -TOLERANCE else "dominated")
        return tuple(kinds)

    def _between(self, i: int, j: int) -> tuple[int, ...]:
        """N+_ij: L_k = a L_i + (1 - a) L_j with 0 <= a <= 1."""
        way = self._gap(i, j)
        found = []
        for k in range(self.actions):
            apart = self._gap(k, j)
            share = min(max(float(apart @ way / (way @ way)), 0.0), 1.0)
            if np.abs(apart - share * way).max() <= TOLERANCE:
                found.append(k)
        return tuple(found)

    def _rows(self, actions: tuple[int, ...]) -> Floats:
        return np.vstack([self.signals[k] for k in actions])

    def _observable(self, pair: Pair, actions: tuple[int, ...]) -> bool:
        return in_span(self._rows(actions), self.loss[pair[0]] - self.loss[pair[1]])

    def _observer(self, pair: Pair) -> dict[int, Floats]:
        if not self.globally[pair]:
            return {}
        actions = self.watch[pair]
        vector = least_squares(self._rows(actions), self.loss[pair[0]] - self.loss[pair[1]])
        ends = np.cumsum([len(self.names[k]) for k in actions])[:-1]
        return {k: _fixed(part.copy()) for k, part in zip(actions, np.split(vector, ends), strict=True)}

    def _compare(self, base: int) -> Floats:
        everyone = tuple(range(self.actions))
        widths = [len(names) for names in self.names]
        weights = np.zeros((self.actions, self.actions, max(widths)))
        real = np.arange(max(widths)) < np.array(widths)[:, None]
        rows = self._rows(everyone)
        for a, first in enumerate(self.duplicate_of):
            found = smallest(rows, self.loss[first] - self.loss[self.duplicate_of[base]])
            weights[a][real] = np.nan if found is None else found
        return _fixed(weights)


def _fixed(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
