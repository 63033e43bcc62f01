"""Which neighbours a learner holds apart: patterns of declared signs, and what each leaves to play.

A pattern has two bits for each pair of neighbours: 0 (undecided), MORE (action i loses more than j) or LESS. What it
leaves alive is a question of geometry, which Python answers. The answers are kept in a table inside the learner's
params, found by the pattern (open addressing); a pattern that is not there is `NEEDED`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from belated.geometry import Structure
from belated.kernels.compile import kernel
from belated.protocols import NEEDED

MORE, LESS = 1, 2
#: Pairs that one word of a pattern holds.
PAIRS = 30
#: The most places of the table. (A prime, like the other.)
MOST_PLACES = 1021
SPREAD = 1_000_003
EMPTY = -1
#: What the table says of an action: it may be played, or it may be played to look (if it was not seen much).
PLAY, LOOK = 1, 2


def table(game: Structure) -> dict[str, Any]:
    """The fields of an empty table.

    >>> from belated.geometry import structure
    >>> {name: np.shape(field) for name, field in table(structure([[1, 0], [0, 1]], [[0, 0], [0, 1]])).items()}
    {'pattern': (1,), 'vacant': (), 'keys': (7, 1), 'role': (7, 2)}
    """
    pairs = max(1, len(game.pairs))
    words = -(-pairs // PAIRS)
    places = min(MOST_PLACES, 2 * 3 ** min(pairs, 9) + 1)
    return {
        "pattern": np.zeros(words, np.int64),  # the one at hand
        "vacant": 0,  # where it belongs, if it is not in the table
        "keys": np.full((places, words), EMPTY),
        "role": np.zeros((places, game.actions), np.int64),
    }


@kernel
def mark(params, pair, sign):
    """Let the pattern at hand say this of a pair."""
    at = 2 * (pair % PAIRS)
    word = params.pattern[pair // PAIRS]
    params.pattern[pair // PAIRS] = word - (((word >> at) & 3) << at) + (sign << at)


@kernel
def sign_of(lean):
    """What a difference of losses declares."""
    return MORE if lean > 0.0 else LESS


@kernel
def look_up(params):
    """The place of the pattern at hand; NEEDED if it has none."""
    place = 0
    for w in range(len(params.pattern)):
        place = (131 * place + params.pattern[w] % SPREAD) % len(params.keys)
    while params.keys[place, 0] != EMPTY:
        same = True
        for w in range(len(params.pattern)):
            same = same and params.keys[place, w] == params.pattern[w]
        if same:
            return place
        place = (place + 1) % len(params.keys)
    params.vacant = place
    return NEEDED


def enter(game: Structure, params: Any) -> None:
    """Put the pattern at hand into the table. A table that is full is emptied, and the pattern asked for again.

    Signs that no law of the outcome has, which chance can bring about, leave as much to play as no signs.
    """
    keys, role = params["keys"], params["role"]
    if (keys[:, 0] != EMPTY).sum() > 0.75 * len(keys):
        keys[:] = EMPTY
        return
    place = int(params["vacant"])
    actions, pairs = game.alive(_signs(game, params["pattern"]))
    if not actions:
        actions, pairs = game.alive({})
    role[place] = 0
    for pair in pairs:
        role[place, list(game.watch[pair])] = LOOK
    role[place, list(actions)] = PLAY
    for pair in pairs:
        role[place, list(game.plus[pair])] = PLAY
    keys[place] = params["pattern"]


def _signs(game: Structure, pattern: Any) -> dict[tuple[int, int], int]:
    told = [int(pattern[p // PAIRS]) >> (2 * (p % PAIRS)) & 3 for p in range(len(game.pairs))]
    return {pair: 1 if sign == MORE else -1 for pair, sign in zip(game.pairs, told, strict=True) if sign}
