"""A Markov decision process whose rewards change."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from belated import require
from belated.errors import InvalidArgument
from belated.games.reward_table import same_arrays
from belated.kernels.random import event_draw, uniform
from belated.protocols import Floats, Game
from belated.theory.markov import array_of, best_frequencies, inside, transitions_of

#: Of a grid: its transitions take 32 million bytes.
MOST_CELLS = 1000


@dataclass(frozen=True, eq=False, repr=False)
class MDP(Game):
    """Actions lead from state to state, by known chances, and pay by a table that changes from round to round.

    `transitions` is P(y | x, a), states x actions x states; `rewards` tables x states x actions, each in [0, 1];
    `which` the table of each round, with the last of which the game ends. It begins in state 0, and the state is the
    side information. Since the course depends on what was played, only `Direct` plays it.

    Regret is realised, against the long run of one stationary policy: sum_t (rho_t - r_t(x_t, a_t)), rho_t what that
    policy earns a round in the long run by the table of round t. It is the best one from state 0 for **all** of
    `which`: with fewer rounds it is against the same. What the policy loses on its way from state 0 to its long run is
    not counted, which is a number that does not grow with the rounds.

    Even-Dar, Kakade, Mansour, *Online Markov decision processes*, 2009; Neu, Gyorgy, Szepesvari, Antos, *Online Markov
    decision processes under bandit feedback*, 2010.

    >>> import belated as bl
    >>> there, back = [[0, 0], [1, 1]], [[0, 1], [0, 0]]
    >>> game = bl.games.MDP([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [there, back], which=[0, 0, 0, 1])
    >>> game, game.best
    (MDP(2 states x 2 actions, 2 tables, 4 rounds), 0.75)
    """

    context_size = 1
    feedback = "bandit"
    comparator = "map"
    reactive = True
    transitions: ArrayLike
    rewards: ArrayLike
    which: ArrayLike

    def __post_init__(self) -> None:
        chances = transitions_of(self.transitions)
        tables = array_of("rewards", self.rewards, "tables x states x actions")
        if tables.shape[1:] != chances.shape[:2]:
            known = f"tables of {chances.shape[0]} states x {chances.shape[1]} actions, as transitions"
            raise InvalidArgument(f"rewards must be {known}, got shape {tables.shape}")
        inside("rewards", tables)
        which = array_of("which", self.which, "rounds")
        wrong = np.flatnonzero((which != np.round(which)) | (which < 0) | (which >= len(tables)))
        if len(wrong):
            known = f"a table from 0 to {len(tables) - 1}"
            raise InvalidArgument(f"which[{wrong[0]}] must be {known}, got {float(which[wrong[0]]):g}")
        numbers = which.astype(np.int64)
        numbers.flags.writeable = False
        for name, value in (("transitions", chances), ("rewards", tables), ("which", numbers)):
            object.__setattr__(self, name, value)

    @property
    def _chances(self) -> Floats:
        return cast(Floats, self.transitions)

    @property
    def _tables(self) -> Floats:
        return cast(Floats, self.rewards)

    @property
    def values(self) -> int:  # type: ignore[override]
        return int(self._chances.shape[0])

    @property
    def actions(self) -> int:
        return int(self._chances.shape[1])

    def longest(self) -> int:
        return len(np.asarray(self.which))

    @cached_property
    def frequencies(self) -> Floats:
        """How often the policy that regret is against is in each state and plays each action there, in the long run."""
        shares = np.bincount(np.asarray(self.which), minlength=len(self._tables)) / self.longest()
        return best_frequencies(self._chances, np.tensordot(shares, self._tables, axes=1))

    @property
    def gains(self) -> Floats:
        """What that policy earns a round in the long run, by each table."""
        earned: Floats = np.tensordot(self._tables, self.frequencies, axes=2)
        return earned

    @property
    def best(self) -> float:
        """What it earns a round, over all of `which`."""
        return float(self.gains[np.asarray(self.which)].mean())

    def params(self) -> Floats:
        """The sizes, cumulated chances, tables, gains, and the table of each round."""
        sizes = np.array([self.values, self.actions, len(self._tables)], float)
        reached = np.cumsum(self._chances, axis=2)
        parts = (reached / reached[:, :, -1:], self._tables, self.gains, np.asarray(self.which, float))
        return np.concatenate([sizes, *(part.ravel() for part in parts)])

    def memory(self) -> int:
        """The state, and the regret so far."""
        return 2

    @staticmethod
    def observe(params, memory, k0, k1, round_, context):
        context[0] = memory[0]

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        states = int(params[0])
        tables = int(params[2])
        cells = states * int(params[1])
        cell = int(memory[0]) * int(params[1]) + action
        paid = 3 + cells * states
        gains = paid + tables * cells
        table = int(params[gains + tables + round_ - 1])
        feedback[0] = params[paid + table * cells + cell]
        memory[1] += params[gains + table] - feedback[0]
        place = uniform(event_draw(k0, k1, round_), 0)
        state = 0
        while state < states - 1 and place >= params[3 + cell * states + state]:
            state += 1
        memory[0] = state
        return feedback[0]

    @staticmethod
    def regret(params, memory):
        return memory[1]

    def __eq__(self, other: object) -> bool:
        return same_arrays(self, other)

    def __hash__(self) -> int:
        parts: tuple[Any, ...] = (self.transitions, self.rewards, self.which)
        return hash(tuple(np.asarray(part).tobytes() for part in parts))

    def __repr__(self) -> str:
        sizes = f"{self.values} states x {self.actions} actions, {len(self._tables)} tables, {self.longest()} rounds"
        return f"MDP({sizes})"


def grid_world(rows: int, cols: int, slip: float) -> Floats:
    """The transitions of a walk on a grid: up, right, down or left, and into a wall is to stay.

    States are its cells, row by row. With probability `slip` the move is any of the four, each as likely.

    >>> grid_world(2, 3, slip=0.2)[0].round(3).tolist()[1]  # from the first cell to the right
    [0.1, 0.85, 0.0, 0.05, 0.0, 0.0]
    """
    require.integer("rows", rows, low=1)
    require.integer("cols", cols, low=1)
    require.real("slip", slip, low=0, high=1)
    require.integer("rows x cols", rows * cols, high=MOST_CELLS)
    goes = np.zeros((rows * cols, 4, rows * cols))
    for cell in range(rows * cols):
        row, col = divmod(cell, cols)
        for action, (down, right) in enumerate([(-1, 0), (0, 1), (1, 0), (0, -1)]):
            y, x = row + down, col + right
            goes[cell, action, y * cols + x if 0 <= y < rows and 0 <= x < cols else cell] = 1.0
    moves: Floats = (1.0 - slip) * goes + slip * goes.mean(axis=1, keepdims=True)
    return moves
