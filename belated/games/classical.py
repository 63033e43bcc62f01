"""The classical games of partial monitoring, by name.

Each takes `law` and `trace` as `Monitoring` does. Bartok, Foster, Pal, Rakhlin, Szepesvari 2014 and Lattimore,
Szepesvari, *Bandit Algorithms*, chapter 37, have most of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated import require
from belated.games.monitoring import Monitoring
from belated.protocols import Floats

BLIND = ["-", "-"]
#: Bits of an outcome, at most.
MOST = 12

Law = Sequence[float] | Floats | None
Trace = Sequence[int] | NDArray[np.integer] | None


def apple_tasting(*, law: Law = None, trace: Trace = None) -> Monitoring:
    """Sell an apple unseen, or taste it (outcomes: rotten, good); only tasting tells. Easy.

    Helmbold, Littlestone, Long, *Apple tasting*, 2000.

    >>> apple_tasting().structure.klass
    'easy'
    """
    return Monitoring([[1, 0], [0, 1]], [BLIND, ["rotten", "good"]], law, trace)


def label_efficient(*, law: Law = None, trace: Trace = None) -> Monitoring:
    """Predict one of two labels unseen, or pay to see it: action 0 is dominated and tells everything. Hard.

    Helmbold, Panizza, *Some label efficient learning results*, 1997; matrices as in Heuillet, Ahmad, Durand, 2024.

    >>> label_efficient().structure.kinds
    ('dominated', 'pareto', 'pareto')
    """
    return Monitoring([[1, 1], [1, 0], [0, 1]], [["a", "b"], BLIND, BLIND], law, trace)


def spam(cost: float = 0.25, *, law: Law = None, trace: Trace = None) -> Monitoring:
    """Let a letter pass, drop it, or look at a cost (outcomes: good, spam). Easy up to cost 1/2, then hard.

    >>> [spam(cost=c).structure.klass for c in (0, 0.25, 0.5, 0.75)]
    ['trivial', 'easy', 'easy', 'hard']
    """
    require.real("cost", cost, low=0)
    return Monitoring([[0, 1], [1, 0], [cost, cost]], [BLIND, BLIND, ["good", "spam"]], law, trace)


def dynamic_pricing(
    prices: int = 5, values: int = 5, cost: float = 2.0, *, law: Law = None, trace: Trace = None
) -> Monitoring:
    """Offer price i to a buyer whose value is j: a sale (i <= j) loses j - i, none costs `cost`. Hard from 3 prices on.

    Kleinberg, Leighton, *The value of knowing a demand curve*, 2003.

    >>> [dynamic_pricing(prices=n, values=n).structure.klass for n in (2, 3)]
    ['easy', 'hard']
    """
    require.integer("prices", prices, low=2)
    require.integer("values", values, low=1)
    require.real("cost", cost, low=0)
    loss = [[float(j - i) if i <= j else cost for j in range(values)] for i in range(prices)]
    return Monitoring(loss, [["yes" if i <= j else "no" for j in range(values)] for i in range(prices)], law, trace)


def bandit(actions: int = 2, *, law: Law = None, trace: Trace = None) -> Monitoring:
    """The Bernoulli bandit: an outcome is a bit for each action, 2^K in all (00..0 first), and one's own is seen. Easy.

    >>> bandit(actions=3).structure.pairs
    ((0, 1), (0, 2), (1, 2))
    """
    worlds = _worlds("actions", actions)
    loss = [[1.0 - bits[i] for bits in worlds] for i in range(actions)]
    return Monitoring(loss, [[bits[i] for bits in worlds] for i in range(actions)], law, trace)


def full_information(actions: int = 2, *, law: Law = None, trace: Trace = None) -> Monitoring:
    """Guess which of K horses wins; the winner is seen whatever one guesses. Easy.

    >>> full_information(actions=3).loss
    ((0.0, 1.0, 1.0), (1.0, 0.0, 1.0), (1.0, 1.0, 0.0))
    """
    require.integer("actions", actions, low=2)
    loss = [[float(i != x) for x in range(actions)] for i in range(actions)]
    return Monitoring(loss, [list(range(actions))] * actions, law, trace)


def bartok(*, law: Law = None, trace: Trace = None) -> Monitoring:
    """Bartok's 3 x 3 game ("three states"): each action tells one outcome from the other two. Easy.

    >>> bartok().structure.pairs
    ((0, 1), (0, 2), (1, 2))
    """
    symbols = [["a", "b", "b"], ["b", "a", "b"], ["b", "b", "a"]]
    return Monitoring([[1, 1, 0], [0, 1, 1], [1, 0, 1]], symbols, law, trace)


def dueling(items: int = 3, *, law: Law = None, trace: Trace = None) -> Monitoring:
    """The utility dueling bandit: show two items i <= j, lose 1 - (x_i + x_j) / 2, see win, loss or tie. Easy.

    An outcome is a bit for each item, as in `bandit`. A pair of different items is degenerate, and yet it is needed.

    >>> dueling(items=3).structure.plus
    {(0, 3): (0, 1, 3), (0, 5): (0, 2, 5), (3, 5): (3, 4, 5)}
    """
    worlds = _worlds("items", items)
    duels = list(combinations_with_replacement(range(items), 2))
    loss = [[1.0 - (bits[i] + bits[j]) / 2 for bits in worlds] for i, j in duels]
    names: list[list[Hashable]] = [
        [{1: "win", -1: "loss", 0: "tie"}[bits[i] - bits[j]] for bits in worlds] for i, j in duels
    ]
    return Monitoring(loss, names, law, trace)


def differences(*, law: Law = None, trace: Trace = None) -> Monitoring:
    """Two actions whose losses nobody can tell, but their difference. Easy. (*Bandit Algorithms*, section 37.2)

    >>> differences().structure.locally
    {(0, 1): True}
    """
    return Monitoring([[0, 1, 1, 2], [1, 0, 2, 1]], [[1, 2, 1, 2], [2, 1, 2, 1]], law, trace)


def hopeless(*, law: Law = None, trace: Trace = None) -> Monitoring:
    """Matching pennies in the dark.

    >>> hopeless().structure.klass
    'hopeless'
    """
    return Monitoring([[1, 0], [0, 1]], [BLIND, BLIND], law, trace)


def trivial(*, law: Law = None, trace: Trace = None) -> Monitoring:
    """One action costs nothing, the other always 1.

    >>> trivial().structure.klass
    'trivial'
    """
    return Monitoring([[0, 0], [1, 1]], [BLIND, BLIND], law, trace)


def detective(*, law: Law = None, trace: Trace = None) -> Monitoring:
    """One action with a known loss of 1/2, and one that pays or not and tells. Easy.

    >>> detective().structure.pairs
    ((0, 1),)
    """
    return Monitoring([[0, 1], [0.5, 0.5]], [["a", "b"], BLIND], law, trace)


#: All of them, by name.
CLASSICAL: dict[str, Any] = {
    game.__name__: game
    for game in (
        apple_tasting,
        label_efficient,
        spam,
        dynamic_pricing,
        bandit,
        full_information,
        bartok,
        dueling,
        differences,
        hopeless,
        trivial,
        detective,
    )
}


def _worlds(name: str, count: int) -> list[tuple[int, ...]]:
    require.integer(name, count, low=2, high=MOST)
    return list(product((0, 1), repeat=count))
