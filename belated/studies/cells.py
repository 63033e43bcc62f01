"""Cells: the pieces of work of a study, each with a key that names it for good.

The key is a digest of what is to be computed (plain data) and of the code that computes it. So a cell that was
finished once is never computed again, and a change of a learner, game, law or engine makes new cells of the old ones.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np

from belated import catalog
from belated.engine.certificate import Certificate, certify, counts_of
from belated.engine.play import SUMMARISED, TALLIED, checkpoints_of, gather, play
from belated.engine.result import Result
from belated.engine.workspace import Setting, Tables, kernels_of, loop_of
from belated.errors import InvalidArgument, Unsupported
from belated.forecasters import Forecaster, factories
from belated.kernels import blame, states
from belated.kernels.compile import identity
from belated.protocols import NEVER, Delays, Game, Learner

#: Raised when the way in which cells are stored changes.
FORMAT = 1

#: What columns begin with that say, for each replication, whether an identity held.
CERTIFIED = "certified: "

Tell = Callable[[int, int], Any]


@dataclass(frozen=True)
class Table:
    """What a cell computed: named arrays with one row each for the same things, and plain data about them."""

    columns: dict[str, np.ndarray[Any, Any]]
    about: dict[str, Any] = field(default_factory=dict)


class Cell(ABC):
    """A piece of work. Subclasses are dataclasses that can be pickled."""

    #: Raised when `compute` changes in a way that `code` does not see.
    version: ClassVar[int] = 1
    #: True when nothing else may run meanwhile, as for a measurement of time.
    exclusive: ClassVar[bool] = False

    @property
    @abstractmethod
    def title(self) -> str:
        """What progress displays call it."""

    @property
    @abstractmethod
    def decisions(self) -> int:
        """How many decisions it simulates."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What is computed, as plain data."""

    @abstractmethod
    def code(self) -> list[Any]:
        """What decides the numbers apart from `describe`: identities of kernels, constants."""

    @abstractmethod
    def compute(self, tell: Tell) -> Table:
        """Do the work on one core; `tell(done, total)` may raise to stop it."""

    @abstractmethod
    def read(self, table: Table) -> Any:
        """What the study sees of a finished cell."""

    @cached_property
    def key(self) -> str:
        """The name of the cell, from what it computes and how."""
        what = [FORMAT, type(self).__name__, self.version, self.describe(), self.code()]
        return hashlib.sha256(json.dumps(what, sort_keys=True, default=repr).encode()).hexdigest()[:32]


@dataclass(frozen=True, eq=False)
class Play(Cell):
    """Who plays what under which delays, for how long and how often: `bl.play` as data."""

    forecaster: Forecaster
    game: Game
    delays: Delays
    rounds: int
    replications: int = 1
    seed: int = 0
    expiry: int | None = None
    #: What plays it: no part of the key, since all engines give the same results.
    engine: str = "auto"

    @property
    def title(self) -> str:
        return f"{self.forecaster!r} on {type(self.game).__name__}, {self.delays!r}, {self.rounds:,} rounds"

    @property
    def decisions(self) -> int:
        return self.rounds * self.replications

    def describe(self) -> dict[str, Any]:
        return {
            "forecaster": _forecaster_data(self.forecaster),
            "game": catalog.to_data(self.game),
            "delays": catalog.to_data(self.delays),
            "rounds": self.rounds,
            "replications": self.replications,
            "seed": self.seed,
            "expiry": self.expiry,
        }

    @property
    def _values(self) -> int:
        return getattr(self.forecaster.learner, "values", 0)

    def code(self) -> list[Any]:
        return [*code_of(self.forecaster, self.game, self.delays), checkpoints_of(self.rounds).tolist()]

    def compute(self, tell: Tell) -> Table:
        result = self.play(tell)
        columns = {name: getattr(result, name) for name in SUMMARISED} | {"regret": result.regret}
        for name in TALLIED:
            columns[name] = getattr(result, name)
            if self._values:
                columns[f"{name}_by_value"] = result.groups[name].reshape(self.replications, -1)
        columns |= {f"pool_{name}": counts for name, counts in result.pools.items() if self._values}
        columns |= {f"{CERTIFIED}{name}": result.certificate[name] for name in result.certificate}
        return Table(columns, {"seconds": result.seconds})

    def play(self, tell: Tell, record: bool = False) -> Result:
        """Play it now, on one core or on a GPU."""
        return play(
            self.forecaster,
            self.game,
            self.delays,
            rounds=self.rounds,
            replications=self.replications,
            seed=self.seed,
            expiry=self.expiry,
            threads=1,
            record=record,
            progress=tell,
            engine=self.engine,
        )

    def read(self, table: Table) -> Result:
        columns = table.columns
        limit = NEVER if self.expiry is None else self.expiry
        spread = checkpoints_of(self.rounds)
        setting = Setting(self.forecaster, self.game, self.delays, self.rounds, self.seed, spread, limit)
        tables = Tables.make(self.replications, self.game.actions, len(spread), self.rounds, False, self._values)
        tables.regret[:] = columns["regret"]
        for name in SUMMARISED:
            tables.summary[name] = columns[name]
        for name in tables.pools.dtype.names if self._values else ():
            tables.pools[name] = columns[f"pool_{name}"]
        for name, stored in TALLIED.items():
            tables.tally[stored] = columns[name]
            if self._values:
                tables.groups[stored] = columns[f"{name}_by_value"].reshape(tables.groups.shape)
        known = {name.removeprefix(CERTIFIED): each for name, each in columns.items() if name.startswith(CERTIFIED)}
        # Cells of earlier versions hold no certificate: what their counts tell is certified again, and no more.
        certificate = Certificate(known) if known else certify(setting, counts_of(setting, tables), followed=False)
        return gather(setting, tables, float(table.about["seconds"]), certificate)


def code_of(forecaster: Forecaster, game: Game, delays: Delays) -> list[Any]:
    """What decides the course of a play apart from its data: kernels, constants, first states."""
    learner = forecaster.learner
    kernels = {
        f"{type(game).__name__}.outcome": game.outcome,
        f"{type(game).__name__}.regret": game.regret,
        f"{type(game).__name__}.event": game.event,
        f"{type(game).__name__}.observe": game.observe,
        f"the kernel of {type(delays).__name__}": delays.kernel,
    }
    spec = isinstance(learner, Learner)
    return [
        learner.version if spec else factories.digest(learner),
        *rule_of(forecaster, game),
        *(_identity(name, compiled) for name, compiled in kernels.items()),
        _digest(states.params(learner).tobytes(), states.blank(learner).tobytes()) if spec else None,
        _digest(states.as_record(forecaster.params()).tobytes()),
        _digest(np.asarray(game.params()).tobytes(), np.asarray(delays.params()).tobytes()),
    ]


def rule_of(forecaster: Forecaster, game: Game) -> list[str | None]:
    """What decides the course of a play on the forecaster's side: its compiled loop, or its rule in Python, with the
    kernels that the rule asks; and the whole class where that is not belated's, whose code no version stands for."""
    kind, learner = type(forecaster), forecaster.learner
    own = [] if factories.is_installed(kind) else [factories.digest(kind)]
    if kernels_of(forecaster) is not None:
        return [_identity("the loop", loop_of(forecaster, game)), *own]
    steps = () if own else ("choose", "deliver", "release", "begin", "start")
    rule = {f"{kind.__name__}.{name}": getattr(kind, name) for name in steps}
    asked = blame.kernels_of(learner) if isinstance(learner, Learner) else []
    rule |= {f"{type(learner).__name__}.{each.name}": each.function for each in asked}
    return [*own, *(_identity(name, step) for name, step in rule.items())]


@cache
def _identity(name: str, compiled: Any) -> str | None:
    """The digest of a kernel. One without cannot be part of a key: changed code would pass for the old."""
    found = None if compiled is None else identity(compiled)
    if found is None and compiled is not None:
        raise Unsupported(
            f"{name} cannot be part of a study: it uses something without a stable description (an array, or a "
            "function that is no belated kernel), so that a change of it could not be seen; pass it through params"
        )
    return found


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"|".join(parts)).hexdigest()


def _forecaster_data(forecaster: Forecaster) -> dict[str, Any]:
    """A forecaster as data; one over plain learners by the name of what makes them."""
    if isinstance(forecaster.learner, Learner):
        return catalog.to_data(forecaster)
    own = {name: repr(value) for name, value in forecaster.parameters().items()}
    return {"name": type(forecaster).__name__.lower(), "plain": factories.name_of(forecaster.learner), **own}


def from_description(data: dict[str, Any]) -> Play:
    """The play that `Play.describe` described; its specs must be in the catalog."""
    if "plain" in data["forecaster"]:
        raise InvalidArgument(
            f"the learner {data['forecaster']['plain']} was given in Python and cannot be read back: make the study "
            "again, and run it into the same folder; what is finished is reused"
        )
    specs = {kind: catalog.from_data(kind, data[kind]) for kind in ("forecaster", "game", "delays")}
    return Play(**specs, **{name: data[name] for name in ("rounds", "replications", "seed", "expiry")})
