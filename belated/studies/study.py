"""A study as data: forecasters x games x delays x horizons x replications, from a TOML file or from Python.

    title = "What delay costs"
    rounds = [10_000, 100_000]
    replications = 20
    forecasters = ["bold(exp3)", "qpmd(ucb1)", "delayeducb1"]
    games = ["bernoulli([0.2, 0.5, 0.9])"]
    delays = ["constant(100)", "geometric(mean=50)", "pareto(mean=50, alpha=1.5)"]

Optional: `replications` (20), `description`, `seed` (0), `expiry` (rounds after which a ticket is cancelled, or
"none"), and any number of `[[grid]]` tables: each is a grid of its own that takes from the top what it does not say.
A `[figure]` table, or several as `[[figure]]`, says what is drawn: see `belated.report.look`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from belated import catalog, notation, require
from belated.engine.play import MOST_ROUNDS, check_fit
from belated.errors import InvalidArgument
from belated.forecasters import Forecaster
from belated.protocols import Delays, Game, Learner
from belated.report.files import write_whole
from belated.report.look import Look
from belated.studies.cells import Play, from_description
from belated.studies.run import Engine, Watch, run_cells
from belated.studies.store import Store

if TYPE_CHECKING:
    from belated.studies.results import Results

#: Unless a study says otherwise.
REPLICATIONS = 20

AXES = ("forecasters", "games", "delays", "rounds", "replications", "expiry")
KEYS = ("title", "description", "seed", *AXES, "grid", "figure")
#: What a study's folder says of it.
FILE = "study.json"
#: One forecaster, game or law may be given without a list, and by the singular.
SINGULAR = {"forecaster": "forecasters", "game": "games", "delay": "delays", "horizon": "rounds", "horizons": "rounds"}


class StudyProblems(InvalidArgument):
    """Everything that is wrong with a study, all at once."""

    def __init__(self, where: str, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        count = len(problems)
        listed = "\n".join(f"  {problem}" for problem in problems)
        super().__init__(f"{where} has {count} problem{'s' if count > 1 else ''}:\n{listed}")


@dataclass(frozen=True, eq=False)
class Study:
    """Cells with a title. Make one with `Study.read(file)` or `Study.make(...)`."""

    title: str
    cells: tuple[Play, ...]
    description: str = ""
    figures: tuple[Look, ...] = ()

    @classmethod
    def read(cls, file: str | Path) -> Study:
        """A study from a TOML file; raise StudyProblems with everything that is wrong with it."""
        path = Path(file)
        try:
            source = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise InvalidArgument(f"there is no file {str(file)!r}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"{str(file)!r} cannot be read: {error}") from None
        return cls.parse(source, str(file), path.stem)

    @classmethod
    def parse(cls, source: str, where: str = "the study", title: str = "A study") -> Study:
        """A study from the text of a TOML file."""
        try:
            data = tomllib.loads(source)
        except tomllib.TOMLDecodeError as error:
            raise StudyProblems(where, [f"it is not TOML: {error}"]) from None
        return cls._from(data, where, title)

    @classmethod
    def make(cls, **data: Any) -> Study:
        """The same from Python; forecasters, games and delays may be specs, too.

        >>> Study.make(forecasters=["bold(exp3)"], games=["bernoulli([0.2, 0.8])"], delays=["constant(5)"], rounds=100)
        <study 'A study': 1 cell, 2,000 decisions>
        """
        return cls._from(data, "the study", "A study")

    @classmethod
    def load(cls, folder: str | Path) -> Study:
        """The study that was run into a folder."""
        file = Path(folder) / FILE
        if not file.exists():
            raise InvalidArgument(f"{str(folder)!r} holds no study: there is no {FILE} in it")
        data = json.loads(file.read_text(encoding="utf-8"))
        return cls(data["title"], tuple(from_description(cell) for cell in data["cells"]), data["description"])

    @classmethod
    def _from(cls, data: Mapping[str, Any], where: str, title: str) -> Study:
        reader = _Reader()
        cells = list({cell.key: cell for cell in reader.cells(data)}.values())
        title = reader.words(data, "title", title)
        description = reader.words(data, "description", "")
        figures = reader.figures(data)
        if reader.problems:
            raise StudyProblems(where, list(dict.fromkeys(reader.problems)))
        return cls(title, tuple(cells), description, figures)

    @property
    def decisions(self) -> int:
        return sum(cell.decisions for cell in self.cells)

    def __repr__(self) -> str:
        count = len(self.cells)
        return f"<study {self.title!r}: {count} cell{'s' if count != 1 else ''}, {self.decisions:,} decisions>"

    def run(self, out: str | Path, engine: Engine | None = None, watch: Watch | None = None) -> Results:
        """Finish all cells and keep them under `out`; those that are there already are not computed again."""
        from belated.studies.results import Results

        folder = Path(out)
        store = Store(folder / "cells")
        what = {"title": self.title, "description": self.description, "cells": [c.describe() for c in self.cells]}
        write_whole(folder / FILE, json.dumps(what, indent=1).encode())
        done, state = run_cells(self.cells, store, engine, watch)
        return Results(self, {cell.key: done[cell] for cell in self.cells}, state)


@dataclass
class _Reader:
    """Reads data into cells, and notes what is wrong instead of stopping."""

    problems: list[str] = field(default_factory=list)

    def cells(self, data: Mapping[str, Any]) -> Iterator[Play]:
        top = self._named(data, "", KEYS)
        top.pop("figure", None)
        grids = top.pop("grid", [{}])
        if not isinstance(grids, list) or not grids or not all(isinstance(grid, dict) for grid in grids):
            self.problems.append(f"grid: must be given as [[grid]] tables, got {grids!r}")
            return
        for number, grid in enumerate(grids):
            where = f"grid[{number}]." if "grid" in data else ""
            own = self._named(grid, where, ("seed", *AXES))
            yield from self._grid({**top, **own}, where)

    def words(self, data: Mapping[str, Any], key: str, default: str) -> str:
        value = data.get(key, default)
        if not isinstance(value, str):
            self.problems.append(f"{key}: must be text, got {value!r}")
        return str(value)

    def figures(self, data: Mapping[str, Any]) -> tuple[Look, ...]:
        given = data.get("figure", [])
        looks = []
        for number, table in enumerate(given if isinstance(given, list | tuple) else [given]):
            where = f"figure[{number}]" if isinstance(given, list | tuple) else "figure"
            try:
                if not isinstance(table, Mapping):
                    raise InvalidArgument(f"must be a table, got {table!r}")
                looks.append(Look.read(table))
            except InvalidArgument as error:
                self.problems.append(f"{where}: {error}")
        return tuple(looks)

    def _named(self, data: Mapping[str, Any], where: str, known: tuple[str, ...]) -> dict[str, Any]:
        named = {}
        for key, value in data.items():
            name = SINGULAR.get(key, key)
            if name in named:
                self.problems.append(f"{where}{key}: {name} is given twice")
            elif name in known:
                named[name] = value
            else:
                hint = catalog.nearest(key, known) or f"there are {', '.join(known)}"
                self.problems.append(f"{where}{key}: there is no such setting; {hint}")
        return named

    def _grid(self, data: dict[str, Any], where: str) -> Iterator[Play]:
        before = len(self.problems)
        seed = self._number(f"{where}seed", data.get("seed", 0), 0, 2**64 - 1)
        axes = {key: self._axis(data, key, where) for key in AXES}
        if len(self.problems) > before:
            return
        for forecaster, game, delays, rounds, replications, expiry in product(*axes.values()):
            try:
                require.integer("rounds x replications", rounds * replications, high=MOST_ROUNDS)
                yield Play(*fit(forecaster, game, delays, rounds), rounds, replications, seed, expiry)
            except InvalidArgument as error:
                self.problems.append(f"{where}{error}")

    def _axis(self, data: dict[str, Any], key: str, where: str) -> list[Any]:
        default = {"replications": REPLICATIONS, "expiry": "none"}.get(key)
        if data.get(key, default) is None:
            self.problems.append(f"{where}{key}: is missing")
            return []
        given = data.get(key, default)
        values = list(given) if isinstance(given, list | tuple) else [given]
        if not values:
            self.problems.append(f"{where}{key}: is empty")
        checked = []
        for number, value in enumerate(values):
            place = f"{where}{key}[{number}]" if isinstance(given, list | tuple) else f"{where}{key}"
            checked.append(self._entry(key, place, value))
        return checked

    def _entry(self, key: str, place: str, value: Any) -> Any:
        if key in ("rounds", "replications"):
            return self._number(place, value, 1)
        if key == "expiry":
            return None if value in ("none", None) else self._number(place, value, 0)
        make: Any = {"forecasters": notation.some_forecaster, "games": notation.game, "delays": notation.delays}[key]
        try:
            make(value)
        except InvalidArgument as error:
            self.problems.append(f"{place}: {error}")
        return value

    def _number(self, place: str, value: Any, low: int, high: int = MOST_ROUNDS) -> int:
        try:
            # 1e6 is a number without a fraction.
            whole = int(value) if isinstance(value, float) and value.is_integer() else value
            return require.integer(place, whole, low=low, high=high)
        except InvalidArgument as error:
            self.problems.append(str(error))
            return low


def fit(forecaster: Any, game: Any, delays: Any, rounds: int = 1) -> tuple[Forecaster, Game, Delays]:
    """What plays together: the game gives what the learner learns from, the learner has the actions of the game."""
    learner = notation.some_forecaster(forecaster).learner
    wanted = learner.feedback if isinstance(learner, Learner) else None
    played = notation.game(game, wanted)
    chosen = notation.forecaster(forecaster, played.actions, played)
    law = notation.delays(delays)
    check_fit(chosen, played, law, rounds)
    return chosen, played, law
