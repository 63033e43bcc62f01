"""Contexts of an experiment that states its features: what its learner sees of an object, and what that is called.

What is stored is what the learner saw, as numbers. The object itself is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from belated.catalog import quoted
from belated.errors import InvalidArgument
from belated.features import Features, Hashed
from belated.forecasters import Forecaster
from belated.protocols import Learner

#: Numbers in a context, and combinations of categories that a learner may tell apart.
CONTEXT = 10_000
#: What the names of columns of an export begin with.
PREFIX = "context."


def known(features: Features) -> dict[str, int]:
    """What a learner takes from the features where it does not say it itself."""
    if features.size > CONTEXT:
        raise InvalidArgument(f"the features make contexts of {features.size} numbers, more than {CONTEXT}")
    return {"features": features.size, "contexts": features.values if 0 < features.values <= CONTEXT else 1}


def finite(learner: Learner) -> int:
    """How many values of side information a learner takes, which are numbered; 0 if it takes a vector."""
    return int(getattr(learner, "contexts", learner.values))


def check(features: Features, learner: Learner) -> None:
    """Refuse features that are not what the learner takes."""
    name, values = quoted(learner), finite(learner)
    if not learner.context_size:
        raise InvalidArgument(f"{name} takes no context: leave features out, or choose a learner that takes one")
    if not values and learner.context_size != features.size:
        raise InvalidArgument(
            f"the features make contexts of {features.size} numbers, and {name} takes {learner.context_size}"
        )
    if not values:
        return
    endless = features.endless
    if endless is not None:
        few = "a category, a hashed one or a boolean (not many, not signed)"
        kind = type(learner).__name__
        raise InvalidArgument(f"{kind} tells a few contexts apart: {endless.name} must be {few}, got {endless.kind}")
    if features.values > CONTEXT:
        raise InvalidArgument(f"the features have more than {CONTEXT} combinations, which {name} cannot tell apart")
    if features.values != values:
        raise InvalidArgument(f"the features have {features.values} combinations, and {name} takes {values}")


def seen(features: Features, forecaster: Forecaster, given: Any) -> Any:
    """What the learner sees of an object."""
    learner = forecaster.learner
    if finite(learner):
        return forecaster.check_context(features.number(given))
    vector = features.vector(given)
    try:
        return forecaster.check_context(vector)
    except InvalidArgument:
        at, limit = int(np.abs(vector).argmax()), learner.context_limit
        if abs(vector[at]) <= limit:
            raise
        number = f"{features.columns[at]} is {float(vector[at])!r}"
        raise InvalidArgument(f"{number}, beyond {limit:g}, which the learner takes: scale it") from None


def columns(features: Features, learner: Learner) -> list[tuple[str, str]]:
    """The columns of an export, and their kinds: text, a number, or a list of numbers.

    A learner of a few contexts has a text for each feature; others have each number of the vector by its name, and the
    slots of a hashed feature, which have no names, in one list.
    """
    if finite(learner):
        return [(PREFIX + each.name, "text") for _, each, _ in features.kept]
    found = []
    for _, each, _ in features.kept:
        many = [(PREFIX + name, "number") for name in each.columns]
        found += [(PREFIX + each.name, "list")] if isinstance(each, Hashed) else many
    return found


def values(features: Features, learner: Learner, stored: Sequence[bytes | None]) -> list[Any]:
    """What stands in these columns, for some contexts as they are stored: texts, numbers, or rows of numbers."""
    size = learner.context_size
    wrong = next((each for each in stored if each is None or len(each) != 8 * size), b"")
    if wrong != b"":
        raise ValueError(f"a context has {0 if wrong is None else len(wrong)} bytes, not {8 * size}")
    rows = np.frombuffer(b"".join(each for each in stored if each is not None)).reshape(-1, size)
    if finite(learner):
        said = {number: features.labels(int(number)) for number in np.unique(rows)}
        return list(zip(*(said[number] for number in rows[:, 0]), strict=True)) or [()] * len(features.kept)
    found: list[Any] = []
    for _, each, at in features.kept:
        part = rows[:, at : at + each.size]
        found += [part] if isinstance(each, Hashed) else list(part.T)
    return found
