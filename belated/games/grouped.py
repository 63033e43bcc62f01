"""A game of its own for each value of the side information."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.kernels.compile import kernel
from belated.kernels.pointers import behind
from belated.kernels.random import event_draw, replication_key, uniform
from belated.protocols import Feedback, Floats, Game

#: Which number of the round's event draw decides the context: the games' own stay far below.
WHICH = 2**20


@dataclass(frozen=True)
class Grouped(Game):
    """Before each round a context is drawn, c with probability `shares[c]`, and the game of that context is played.

    The games are of one class, with the same number of actions and the same kind of feedback. A game whose rewards have
    a course (a random walk) goes on only when its context is drawn: its first round is the first one with that context,
    whichever that is, and its random numbers are its own. The side information is the number of the context.

    Regret is the sum of the games' own: the comparator is the best map from contexts to actions. See `PerContext` for
    learners. With `policies`, a table of the action that each takes in each context, it is the best of these: the one
    that earns most in the mean over contexts (of several the first). The games must have a law then, and regret is the
    sum of what that policy earns more in the mean, in the contexts that came. See `PolicyElimination`.

    >>> import belated as bl
    >>> game = bl.games.Grouped([bl.games.Bernoulli([.2, .8]), bl.games.Bernoulli([.7, .3])])
    >>> game.values, game.actions, game.means
    (2, 2, ((0.2, 0.8), (0.7, 0.3)))
    >>> bl.games.Grouped(game.games, policies=[[0, 0], [1, 1], [0, 1]]).best
    (1, 1)
    """

    context_size = 1
    games: Sequence[Game]
    shares: Sequence[float] | None = None
    policies: Sequence[Sequence[int]] | None = None

    def __post_init__(self) -> None:
        games = tuple(require.sequence("games", self.games))
        for i, game in enumerate(games):
            _check(i, game, games[0])
        object.__setattr__(self, "games", games)
        if self.shares is not None:
            object.__setattr__(self, "shares", require.shares("shares", self.shares, len(games)))
        if self.policies is not None:
            policies = require.choices("policies", self.policies, self.actions, len(games))
            if self.means is None or any(game.comparator != "action" for game in games):
                raise InvalidArgument(f"policies need games with a law, whose actions have means, got {games[0]!r}")
            object.__setattr__(self, "policies", policies)

    @property
    def values(self) -> int:  # type: ignore[override]
        return len(self.games)

    @property
    def actions(self) -> int:
        return self.games[0].actions

    @property
    def feedback(self) -> Feedback:  # type: ignore[override]
        return self.games[0].feedback

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        return all(game.stochastic for game in self.games)

    @property
    def comparator(self) -> Any:  # type: ignore[override]
        """The best policy of a table; else the best map, if each game's own is the best action."""
        if self.policies is not None:
            return "policy"
        theirs = {game.comparator for game in self.games}
        return "map" if theirs == {"action"} else None if None in theirs else "changing"

    @property
    def means(self) -> Any:
        """Those of each game, one row a context."""
        rows = tuple(game.means for game in self.games)
        return None if None in rows else rows

    @property
    def chances(self) -> Floats:
        """The probability of each context."""
        return np.asarray(self.shares or [1.0 / len(self.games)] * len(self.games))

    @property
    def best(self) -> tuple[int, ...] | None:
        """The policy that earns most in the mean, of several the first; None without policies."""
        if self.policies is None:
            return None
        values = [self.chances @ row for row in self._rewards(np.asarray(self.policies))]
        return tuple(self.policies[int(np.argmax(values))])

    def _rewards(self, policies: Any) -> Floats:
        """What policies earn in the mean in each context."""
        return np.asarray(np.asarray(self.means)[np.arange(len(self.games)), policies], np.float64)

    @property
    def scale(self) -> float:  # type: ignore[override]
        return max(game.scale for game in self.games)

    @property
    def smallest(self) -> float:  # type: ignore[override]
        return self.games[0].smallest

    @property
    def largest(self) -> float:  # type: ignore[override]
        return self.games[0].largest

    @property
    def reactive(self) -> bool:  # type: ignore[override]
        return any(game.reactive for game in self.games)

    @property
    def loss(self) -> Any:
        """Of games of partial monitoring."""
        return self.games[0].loss

    @property
    def symbols(self) -> Any:
        """Likewise."""
        return self.games[0].symbols

    def decode(self, action: int, code: float) -> Any:
        return self.games[0].decode(action, code)

    def longest(self) -> int | None:
        return min((n for game in self.games if (n := game.longest()) is not None), default=None)

    def check_playable(self) -> None:
        for game in self.games:
            game.check_playable()

    def params(self) -> Floats:
        """How many games, the room for the parameters and for the memory of one; cumulated shares; the parameters.

        With policies: what the best action of each context earns more than the best policy.
        """
        parts = [np.asarray(game.params(), float) for game in self.games]
        room = max(map(len, parts))
        padded = [np.concatenate([part, np.zeros(room - len(part))]) for part in parts]
        spared = np.empty(0) if self.best is None else np.max(self.means, axis=1) - self._rewards(self.best)
        return np.concatenate([[len(parts), room, self._room], np.cumsum(self.chances), *padded, spared])

    @property
    def any_round(self) -> bool:  # type: ignore[override]
        return all(game.any_round for game in self.games)

    @property
    def _counts(self) -> bool:
        return not self.any_round or self.policies is not None

    @property
    def _room(self) -> int:
        # A game whose rounds are counted has the count behind its memory.
        return max(game.memory() for game in self.games) + self._counts

    def memory(self) -> int:
        """The memory of each game."""
        return self._room * len(self.games)

    @staticmethod
    def observe(params, memory, k0, k1, round_, context):
        context[0] = drawn(params, k0, k1, round_)

    @property
    def outcome(self) -> Any:
        if not self.any_round:
            return _make_outcome_in_turn(self.games[0].outcome)
        return _make_outcome(self.games[0].outcome, self._counts)

    @property
    def regret(self) -> Any:
        return _make_regret(self.games[0].regret, self.policies is not None)


def _check(i: int, game: Any, first: Any) -> None:
    if not isinstance(game, Game):
        raise InvalidArgument(f"games[{i}] must be a game such as Bernoulli([.2, .8]), got {game!r}")
    if game.context_size or game.announces:
        raise InvalidArgument(f"games[{i}] must have no side information and no events of its own, got {game!r}")
    if game.point_size:
        raise InvalidArgument(f"games[{i}] must have actions, not points, got {game!r}")
    same = type(game) is type(first) and game.outcome is first.outcome
    alike = ("actions", "feedback", "smallest", "largest")
    if not same or any(getattr(game, name) != getattr(first, name) for name in alike):
        raise InvalidArgument(
            f"games[{i}] must be of the class, size and feedback of games[0], {first!r}; got {game!r}"
        )
    if game.feedback == "symbol" and (game.loss, game.symbols) != (first.loss, first.symbols):
        raise InvalidArgument(f"games[{i}] must have the matrices of games[0], {first!r}; got {game!r}")


@kernel
def drawn(params, k0, k1, round_):
    """The context of a round."""
    place = uniform(event_draw(k0, k1, round_), WHICH)
    value = 0
    while value < int(params[0]) - 1 and place >= params[3 + value]:
        value += 1
    return value


@cache
def _make_outcome(outcome: Any, counts: bool) -> Any:
    inner = kernel(outcome)

    def grouped(params, memory, k0, k1, round_, action, feedback):
        value = drawn(params, k0, k1, round_)
        own_params = behind(params, 3 + int(params[0]) + value * int(params[1]))
        own_memory = behind(memory, value * int(params[2]))
        if counts:
            memory[(value + 1) * int(params[2]) - 1] += 1.0
        return inner(own_params, own_memory, k0, k1, round_, action, feedback)

    return grouped


@cache
def _make_outcome_in_turn(outcome: Any) -> Any:
    """For games that must be asked for rounds 1, 2, 3, ...: each has its own count of rounds, and its own key."""
    inner = kernel(outcome)

    def grouped(params, memory, k0, k1, round_, action, feedback):
        value = drawn(params, k0, k1, round_)
        own_params = behind(params, 3 + int(params[0]) + value * int(params[1]))
        own_memory = behind(memory, value * int(params[2]))
        count = (value + 1) * int(params[2]) - 1
        memory[count] += 1.0
        if value > 0:
            k0, k1 = replication_key(k0, k1, value)
        return inner(own_params, own_memory, k0, k1, int(memory[count]), action, feedback)

    return grouped


@cache
def _make_regret(regret: Any, judged: bool) -> Any:
    """The sum of the games' own; with policies less what the best of them loses in each context."""
    inner = kernel(regret)

    def grouped(params, memory):
        total = 0.0
        for value in range(int(params[0])):
            own_params = behind(params, 3 + int(params[0]) + value * int(params[1]))
            total += inner(own_params, behind(memory, value * int(params[2])))
            if judged:
                spared = params[3 + int(params[0]) + int(params[0]) * int(params[1]) + value]
                total -= memory[(value + 1) * int(params[2]) - 1] * spared
        return total

    return grouped
