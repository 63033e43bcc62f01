"""What cells are called in frames, tables and figures."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from belated import catalog, notation
from belated.errors import InvalidArgument
from belated.forecasters import Forecaster, factories
from belated.protocols import NEVER, Delays, Game, Learner

#: What names a cell, apart from how often it was played.
LABELS = ("forecaster", "game", "delays", "rounds", "expiry")
#: Labels longer than this are cut, and end in a digest.
LONGEST = 80


def labels(cell: Any) -> dict[str, Any]:
    """What a cell of a study, or the setting of a result, is called.

    The feedback of a game goes without saying: its learner needs it.
    """
    kept: dict[str, Any] = vars(cell).setdefault("_labels", {})
    if not kept:
        kept.update(_labels(cell))
    return dict(kept)


def _labels(cell: Any) -> dict[str, Any]:
    return {
        "forecaster": short("forecaster", cell.forecaster, cell.game),
        "game": short("game", game_data(cell)),
        "delays": short("delays", cell.delays),
        "rounds": cell.rounds,
        "expiry": None if cell.expiry == NEVER else cell.expiry,
    }


def short(kind: str, spec: Any, game: Game | None = None) -> str:
    """The short text of a spec; its repr in lower case if the catalog does not know it (a study's own variant)."""
    try:
        if isinstance(spec, Forecaster) and not isinstance(spec.learner, Learner):
            return f"{type(spec).__name__.lower()}({factories.name_of(spec.learner)})"
        text = notation.text(kind, spec, game)
        shown = text if len(text) <= LONGEST else notation.brief(kind, spec, game)
    except (InvalidArgument, TypeError):
        text = shown = repr(spec).lower()
    if len(text) <= LONGEST:
        return text
    cut = shown if len(shown) <= LONGEST - 10 else f"{shown[: LONGEST - 20]}..."
    return f"{cut} #{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def game_data(cell: Any) -> Any:
    """The game of a cell as data, without the feedback that its learner asks for; the game itself if it has no data."""
    try:
        data = catalog.to_data(cell.game)
    except (InvalidArgument, TypeError):
        return cell.game
    learner = cell.forecaster.learner
    if isinstance(learner, Learner) and learner.feedback == cell.game.feedback:
        data.pop("feedback", None)
    return data


def families(laws: Sequence[Delays], along: str | None = None) -> list[str]:
    """A name for each law that those share which differ in one argument only, such as their mean.

    Where laws of a kind differ in several arguments, they are told apart by all but the first; with `along`, by all but
    that one.

    >>> import belated as bl
    >>> families([bl.delays.Constant(1), bl.delays.Pareto(mean=3, alpha=1.2), bl.delays.Pareto(mean=9, alpha=1.5)])
    ['constant', 'pareto', 'pareto']
    >>> families([bl.delays.Pareto(mean=m, alpha=a) for m in (3, 9) for a in (1.2, 1.5)])
    ['pareto(alpha=1.2)', 'pareto(alpha=1.5)', 'pareto(alpha=1.2)', 'pareto(alpha=1.5)']
    """
    kinds = [type(law).__name__.lower() for law in laws]
    data = [_arguments(law) for law in laws]
    names = []
    for kind, own in zip(kinds, data, strict=True):
        alike = [each for other, each in zip(kinds, data, strict=True) if other == kind]
        varied = [key for key in own if len({each.get(key) for each in alike}) > 1]
        free = along or next(iter(varied), None)
        rest = [key for key in varied if key != free]
        shared = {tuple(each.get(key) for key in rest) for each in alike}
        told = rest if along or len(shared) < len({tuple(each.items()) for each in alike}) else []
        inside = ", ".join(own[key] if len(own) == 1 or key == "law" else f"{key}={own[key]}" for key in told)
        names.append(f"{kind}({inside})" if inside else kind)
    return names


def _arguments(law: Delays) -> dict[str, str]:
    try:
        data = catalog.to_data(law)
    except (InvalidArgument, TypeError):
        return {"": repr(law)}
    return {
        key: notation.brief("delays", value) if isinstance(value, dict) else str(value)
        for key, value in data.items()
        if key != "name"
    }
