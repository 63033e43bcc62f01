"""Simulate the candidates for a while; who is clearly worse than the best need not go on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from belated import notation, require
from belated.advise.report import Advice, Entry
from belated.advise.world import World
from belated.engine.play import play
from belated.engine.result import Result
from belated.errors import BelatedError, InvalidArgument
from belated.studies.field import Candidate, ranked, tied

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Replications of the first turn and, each twice that of the one before, of a later one at most.
FIRST, MOST = 4, 64


class TimeUp(BaseException):
    """Raised inside a play to end it."""


def race(
    world: World,
    seconds: float = 60.0,
    forecasters: Sequence[Any] = (),
    seed: int = 0,
    threads: int | None = None,
    progress: bool | Callable[[str], Any] | None = None,
) -> Advice:
    """Play all candidates, and turn by turn those that may be the best, until the time is up or Ctrl-C is pressed.

    All of a turn meet the same outcomes and delays.
    """
    require.real("seconds", seconds, above=0)
    require.integer("seed", seed, low=0)
    running = _Race(world, _chosen(world, forecasters), seed, threads)
    with _shown(progress) as tell:
        try:
            running.prepare(tell)
            running.run(seconds, tell)
        except KeyboardInterrupt:
            running.stopped = True
            if not running.results:
                raise
    return running.advice()


def _chosen(world: World, forecasters: Sequence[Any]) -> dict[str, Candidate]:
    if isinstance(forecasters, str):
        raise InvalidArgument(f"forecasters must be a list, such as ['bold(exp3)'], got {forecasters!r}")
    if not len(forecasters):
        return world.candidates()
    made = [notation.forecaster(each, world.game.actions, world.game) for each in forecasters]
    return {notation.text("forecaster", each, world.game): Candidate(each) for each in made}


class _Race:
    def __init__(self, world: World, who: dict[str, Candidate], seed: int, threads: int | None) -> None:
        self.world, self.who, self.seed, self.threads = world, who, seed, threads
        self.results: dict[str, list[Result]] = {}
        self.refused: dict[str, str] = {}
        self.stopped = False
        self.seconds = 0.0

    def prepare(self, tell: Callable[[str], Any]) -> None:
        """Compile who was never played before; who cannot play here says why."""
        for place, name in enumerate(self.who, start=1):
            tell(f"getting ready, the first time ever some seconds each: {place} of {len(self.who)}, {name}")
            try:
                self._play(name, 1, 0, None, rounds=2)
            except BelatedError as error:
                self.refused[name] = str(error)
        if len(self.refused) == len(self.who):
            raise InvalidArgument(next(iter(self.refused.values())))

    def run(self, seconds: float, tell: Callable[[str], Any]) -> None:
        began = time.perf_counter()
        going, turn, often = [name for name in self.who if name not in self.refused], 0, FIRST
        try:
            while len(going) > 1 or turn < 2:
                for name in going:
                    tell(f"{time.perf_counter() - began:.0f} of {seconds:g} s, turn {turn + 1}: {name}")
                    played = self._play(name, often, turn, began + seconds)
                    self.results.setdefault(name, []).append(played)
                turn, often = turn + 1, min(2 * often, MOST)
                standing = ranked(self.regrets())
                going = [standing[0][0], *tied(standing)]
        except TimeUp:
            pass
        finally:
            self.seconds = time.perf_counter() - began

    def _play(self, name: str, often: int, turn: int, end: float | None, rounds: int | None = None) -> Result:
        def tell(done: int, total: int) -> None:
            if end is not None and time.perf_counter() > end:
                raise TimeUp

        tell(0, 0)
        each, world = self.who[name], self.world
        return play(
            each.forecaster,
            world.game,
            world.delays,
            rounds or world.rounds,
            often,
            self.seed + turn,
            self.threads,
            progress=tell,
            expiry=each.expiry,
            default=each.default,
        )

    def regrets(self) -> dict[str, list[float]]:
        return {n: [float(x) for r in each for x in r.regret[:, -1]] for n, each in self.results.items()}

    def advice(self) -> Advice:
        found = self.regrets()
        entries = [
            Entry.of(name, self.who[name], self.results[name], each, len(found[name])) for name, each in ranked(found)
        ]
        missed = [name for name in self.who if name not in found and name not in self.refused]
        return Advice(self.world.said, entries, missed, self.refused, self.stopped, self.seconds)


@contextmanager
def _shown(wish: bool | Callable[[str], Any] | None) -> Iterator[Callable[[str], Any]]:
    """What tells how far it is: a line in a terminal, a function, or nothing."""
    if not (wish is None or isinstance(wish, bool) or callable(wish)):
        raise InvalidArgument(f"progress must be None, True, False or a function, got {wish!r}")
    if callable(wish):
        yield wish
    elif wish or (wish is None and sys.stderr.isatty()):
        from rich.console import Console

        with Console(stderr=True).status("") as status:
            yield status.update
    else:
        yield lambda text: None
