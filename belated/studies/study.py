"""A study as data: forecasters x games x delays x horizons x replications, from a TOML file or from Python.

    title = "What delay costs"
    rounds = [10_000, 100_000]
    replications = 20
    forecasters = ["bold(exp3)", "qpmd(ucb1)", "delayeducb1"]
    games = ["bernoulli([0.2, 0.5, 0.9])"]
    delays = ["constant(100)", "geometric(mean=50)", "pareto(mean=50, alpha=1.5)"]

Optional: `replications` (20), `description`, `seed` (0), `expiry` (rounds after which a ticket is cancelled, or
"none"), and any number of `[[grid]]` tables: each is a grid of its own that takes from the top what it does not say.
A `[figure]` table, or several as `[[figure]]`, says what is drawn: see `belated.report.look`. `import = "mine.py"` (or
a list) makes learners, forecasters, games and laws of one's own known by name; files are looked for beside the study's.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from belated import catalog, imports, notation, require
from belated.engine.play import MOST_ROUNDS, check_fit
from belated.errors import InvalidArgument
from belated.forecasters import Forecaster
from belated.protocols import Delays, Game, Learner
from belated.report.files import write_whole
from belated.report.look import Look
from belated.studies.cells import Play, from_description
from belated.studies.run import Engine, Local, Watch, run_cells
from belated.studies.store import Store

if TYPE_CHECKING:
    from belated.studies.results import Results

#: Unless a study says otherwise.
REPLICATIONS = 20

AXES = ("forecasters", "games", "delays", "rounds", "replications", "expiry")
KEYS = ("title", "description", "seed", *AXES, "grid", "figure", "import")
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
    modules: tuple[str, ...] = ()  #: what it imported

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
        return cls.parse(source, str(file), path.stem, path.parent)

    @classmethod
    def parse(cls, source: str, where: str = "the study", title: str = "A study", folder: str | Path = ".") -> Study:
        """A study from the text of a TOML file, which stands in that folder."""
        try:
            data = tomllib.loads(source)
        except tomllib.TOMLDecodeError as error:
            raise StudyProblems(where, [f"it is not TOML: {error}"]) from None
        modules = _bring(data.get("import", []), Path(folder), where)
        return replace(cls._from(data, where, title), modules=modules)

    @classmethod
    def make(
        cls,
        *,
        forecasters: Any = None,
        games: Any = None,
        delays: Any = None,
        rounds: Any = None,
        replications: Any = REPLICATIONS,
        seed: int = 0,
        expiry: Any = "none",
        title: str = "A study",
        description: str = "",
        figure: Any = (),
        grid: Sequence[Mapping[str, Any]] | None = None,
        **singular: Any,
    ) -> Study:
        """The same from Python: a cell for each combination of forecasters, games, delays, rounds, ... .

        * `forecasters`: text such as "bold(exp3)", or forecasters; over plain learners, too: `bl.QPMD(Mine)`.
        * `games`, `delays`: text such as "bernoulli([0.2, 0.8])" and "geometric(mean=50)", or games and laws.
        * `rounds`: the horizon; `replications`: of each cell; `expiry`: rounds after which a ticket is cancelled, or
          "none". One of each, or a list.
        * `seed`: decides all outcomes and delays, the same for all forecasters.
        * `title`, `description`: of the report. `figure`: what it draws, a table of `x`, `by`, ... or a list of them.
        * `grid`: tables with these names, each a grid of its own that takes from the top what it does not say.

        `forecaster`, `game`, `delay` and `horizon` may be written for one of a kind.

        >>> Study.make(forecasters=["bold(exp3)"], games=["bernoulli([0.2, 0.8])"], delays=["constant(5)"], rounds=100)
        <study 'A study': 1 cell, 2,000 decisions>
        """
        given = {"forecasters": forecasters, "games": games, "delays": delays, "rounds": rounds, "grid": grid}
        data = {name: value for name, value in given.items() if value is not None} | singular
        data |= {"title": title, "description": description, "seed": seed, "figure": figure}
        data |= {"replications": replications, "expiry": expiry}
        return cls._from(data, "the study", "A study")

    @classmethod
    def load(cls, folder: str | Path) -> Study:
        """The study that was run into a folder."""
        file = Path(folder) / FILE
        if not file.exists():
            hint = "; a TOML file is read by Study.read" if Path(folder).is_file() else ""
            raise InvalidArgument(f"{str(folder)!r} holds no study: there is no {FILE} in it{hint}")
        data = json.loads(file.read_text(encoding="utf-8"))
        figures = tuple(Look.read(table) for table in data.get("figures", []))
        modules = data.get("import", [])
        try:
            cells = tuple(from_description(cell) for cell in data["cells"])
        except InvalidArgument as error:
            if not modules or "is called" not in str(error):
                raise
            raise InvalidArgument(
                f"{error} (the study was read with import = {modules}: call belated.imports.bring({modules}) first)"
            ) from None
        return cls(data["title"], cells, data["description"], figures, tuple(modules))

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

    def _repr_html_(self) -> str:
        from belated.report.cards import facts
        from belated.report.labels import LABELS, labels

        known = [labels(cell) for cell in self.cells]
        rows = [("cells", f"{len(self.cells):,}"), ("decisions", f"{self.decisions:,}")]
        for name in LABELS:
            values = list(dict.fromkeys(str(said[name]) for said in known))
            if values != ["None"]:
                rows.append((name, ", ".join(values)))
        rows.append(("replications", ", ".join(str(n) for n in dict.fromkeys(c.replications for c in self.cells))))
        return facts(self.title, rows)

    def run(
        self,
        out: str | Path,
        engine: Engine | None = None,
        watch: Watch | None = None,
        *,
        progress: bool | Callable[[int, int], Any] | None = None,
        threads: int | None = None,
    ) -> Results:
        """Finish all cells and keep them under `out`; those that are there already are not computed again.

        * `progress`: None shows a bar in a terminal or notebook; True, False, or a function of (done, total) decisions.
        * `threads`: cells at a time; None for all cores. `engine`: where cells run, as `OnRay()`.
        * `watch`: a function of the whole `State` instead.
        """
        from belated.studies.display import shown
        from belated.studies.results import Results

        if threads is not None:
            require.integer("threads", threads, low=1)
            if engine is not None:
                raise InvalidArgument(
                    f"threads={threads} is for this machine, and so is not given with engine={engine!r}"
                )
        if not (progress is None or isinstance(progress, bool) or callable(progress)):
            raise InvalidArgument(f"progress must be None, True, False or a function, got {progress!r}")
        folder = Path(out)
        store = Store(folder / "cells")
        what = {"title": self.title, "description": self.description, "cells": [c.describe() for c in self.cells]}
        what |= {"figures": [asdict(look) for look in self.figures], "import": list(self.modules)}
        write_whole(folder / FILE, json.dumps(what, indent=1).encode())
        with shown(self.title, progress if watch is None else False) as telling:
            done, state = run_cells(self.cells, store, engine or Local(threads), watch or telling)
        return Results(self, {cell.key: done[cell] for cell in self.cells}, state)


def _bring(given: Any, folder: Path, where: str) -> tuple[str, ...]:
    """Import the modules that a study names; files stand beside it, and are returned with their folders."""
    names = given if isinstance(given, list) else [given]
    if not all(isinstance(name, str) for name in names):
        raise StudyProblems(where, [f'import: must be text such as "mine.py", or a list of such, got {given!r}'])
    whole = [str((folder / name).resolve()) if name.endswith(".py") else name for name in names]
    try:
        imports.bring(whole)
    except InvalidArgument as error:
        raise StudyProblems(where, [f"import: {error}"]) from None
    return tuple(whole)


@dataclass
class _Reader:
    """Reads data into cells, and notes what is wrong instead of stopping."""

    problems: list[str] = field(default_factory=list)

    def cells(self, data: Mapping[str, Any]) -> Iterator[Play]:
        top = self._named(data, "", KEYS)
        for name in ("figure", "import"):
            top.pop(name, None)
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
