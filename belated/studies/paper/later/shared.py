"""How much of the part on what came after 2013 is played."""

from __future__ import annotations

from dataclasses import dataclass

from belated.studies.field import WORLDS

SEED = 21


@dataclass(frozen=True)
class Size:
    """Rounds, replications, delays and worlds of the map; families take the same delays."""

    rounds: int = 10_000
    replications: int = 20
    delays: tuple[int, ...] = (0, 3, 10, 30, 100, 300, 1000, 3000)
    worlds: tuple[str, ...] = tuple(world.name for world in WORLDS)


SHORT, LONG = Size(), Size(rounds=50_000, replications=60)
