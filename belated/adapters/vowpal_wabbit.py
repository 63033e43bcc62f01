"""Vowpal Wabbit: its contextual bandits under delay, with the probability of each choice kept on its ticket.

    f = bl.BOLD(bl.adapters.vowpal_wabbit.explore("--cb_explore 4 --bag 5", seed=7))
    f = bl.Direct(bl.adapters.vowpal_wabbit.explore("--cb_explore_adf --squarecb -q CA", actions=4))

Vowpal Wabbit says with which probability each action is to be chosen. The action is drawn here, by a generator with a
seed, and learned from with the probability that it was drawn with, however late.

What cannot hold:

* Vowpal Wabbit learns costs: **cost = 1 - reward**, which lies in [0, 1] where rewards do, as `--squarecb` and
  `--regcb` expect. For another cost c hand in 1 - c.
* Its `predict` changes nothing, and so keeps nothing for `learn`: Direct takes every kind of exploration. Of a
  reduction that does keep something say so with `tolerates_delay=False`: Direct refuses it then, BOLD plays it.
* It counts a round when it is answered. So under Direct `--first N` explores until N answers are in, and `--cover` and
  `--squarecb` narrow their choice later than they would without delay.
* An instance is a workspace of its own, of about 1 MB and the weights that are in use (4 MB for all of the usual 2^18;
  `-b` says how many there are). BOLD has G* + 1 of them.
* Its models take no weights here.

**Saving.** `pickle` saves a forecaster with its workspaces and its open tickets, and it goes on as if nothing had been.
Of `--cb_explore_adf` with `--bag`, `--cover` or `--rnd` Vowpal Wabbit's own file leaves out what the next choice needs:
that is refused. `save(forecaster, "model.vw")` writes Vowpal Wabbit's file, of any kind of exploration, for `vw -i` or
for `explore("... -i model.vw")`, which starts every copy (under BOLD each instance) from the file as it is then.
(`to_bytes` is for learners that are specs.)
"""

from __future__ import annotations

import math
import secrets
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from vowpalwabbit import PredictionType, Workspace

from belated import require
from belated.adapters.copies import Copies, seed_of
from belated.errors import BadPrediction, InvalidArgument, InvalidFeedback, Unsupported
from belated.forecasters import Forecaster

#: Options that are not for copies that learn here, and why.
REFUSED = {
    **dict.fromkeys(("-d", "--data", "--passes"), "examples come from predict and update"),
    **dict.fromkeys(("-f", "--final_regressor"), "all copies would write the same file"),
    "--random_seed": "say seed= instead",
}
#: Options that name a file to start from.
INITIAL = ("-i", "--initial_regressor")
#: With these and action features, a file of Vowpal Wabbit does not go on as the model did that it was written from.
UNSAVED = frozenset(("--bag", "--cover", "--rnd"))
#: Examples that a workspace has ready. Vowpal Wabbit's own 256 cost 8 MB and most of the time that making one takes.
READY = ["--ring_size", "8"]
#: What the line begins with that is not an action's.
SHARED = "shared"
#: What the text format of Vowpal Wabbit has no way to write in a name.
SPECIAL = frozenset(" \t\r\n:|")


def explore(
    arguments: str,
    actions: int | Sequence[Any] | None = None,
    *,
    seed: int | None = None,
    tolerates_delay: bool = True,
) -> Copies:
    """A contextual bandit of Vowpal Wabbit as a learner: `--cb_explore K` or `--cb_explore_adf`, and how it explores.

    A context is None, a dictionary of features (numbers; words, which become `name=word`; dictionaries, which are
    namespaces), a sequence of numbers, or a line of Vowpal Wabbit's text without a label.

    With `--cb_explore_adf` the actions have features as well, written in the same ways: `actions` lists them, or says
    how many actions there are, which then have one feature each, their number. Without it they come with every
    prediction: `predict((context, [action, action, ...]))`, or as lines of text; the decision's action is a number in
    that list. Such actions may change; QPM-D and `play` need a fixed number of them.

    Features without a namespace are in `Context`, those of an action in `Action`: `-q CA` multiplies the two.

    `seed` is for the draws and for Vowpal Wabbit itself; without one a fresh seed is taken.

    >>> import belated as bl
    >>> f = bl.BOLD(bl.adapters.vowpal_wabbit.explore("--cb_explore 4 --epsilon 0.2 -b 10", seed=7))
    >>> d = f.predict({"age": 0.3, "country": "NO"})
    >>> d
    Decision(ticket=1, action=2, probability=0.25)
    >>> f.update(d.ticket, 1.0)
    """
    if not isinstance(arguments, str):
        raise InvalidArgument(f"arguments must be a line of options, got {arguments!r}")
    given = shlex.split(arguments)
    for word in given:
        if (option := word.partition("=")[0]) in REFUSED:
            raise InvalidArgument(f"arguments must be without {option}, got {arguments!r}: {REFUSED[option]}")
    root = secrets.randbits(32) if seed is None else require.integer("seed", seed, low=0, high=2**32 - 1)
    given, model = _initial(given, arguments)
    count, lines = _actions(given, model, arguments, actions)
    make = partial(_Explorer, given, model, count, lines, root, require.boolean("tolerates_delay", tolerates_delay))
    return Copies(f"vowpal_wabbit.explore({arguments})", make)


def _actions(
    given: list[str], model: bytes | None, arguments: str, actions: Any
) -> tuple[int | None, list[str] | None]:
    """How many actions there are (None if that changes), and with action features their lines (None if they come)."""
    try:
        probe = _workspace(given, 0, model)
    except RuntimeError as error:
        raise InvalidArgument(f"Vowpal Wabbit does not take {arguments!r}: {error}") from None
    if probe.get_prediction_type() != PredictionType.ACTION_PROBS:
        raise InvalidArgument(f"arguments must have --cb_explore K or --cb_explore_adf, got {arguments!r}")
    if not probe._is_multiline():
        count = len(probe.predict("|"))
        if actions is not None and actions != count:
            raise InvalidArgument(f"actions must be {count}, as in {arguments!r}, got {actions!r}")
        return count, None
    if actions is None:
        return None, None
    if isinstance(actions, Sequence) and not isinstance(actions, str | bytes):
        lines = [_line(action, "Action") for action in require.sequence("actions", actions)]
    else:
        lines = [f"|Action {number}" for number in range(require.integer("actions", actions, low=1))]
    return len(lines), lines


def _workspace(given: list[str], seed: int, model: bytes | None) -> Any:
    ready = [] if any(word.startswith("--ring_size") for word in given) else READY
    options = [*given, *ready, "--quiet"]
    if model is None:
        return Workspace(arg_list=[*options, "--random_seed", str(seed)])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        path.write_bytes(model)
        return Workspace(arg_list=[*options, "-i", str(path)])  # it has the seed, where that still matters


def save(forecaster: Forecaster, path: Any, instance: int = 0) -> None:
    """Write the model of one instance as a file of Vowpal Wabbit. Under Direct there is no other than the first.

    >>> import belated as bl, tempfile
    >>> f = bl.Direct(bl.adapters.vowpal_wabbit.explore("--cb_explore 2 -b 10", seed=7))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     bl.adapters.vowpal_wabbit.save(f, f"{folder}/model.vw")
    ...     g = bl.Direct(bl.adapters.vowpal_wabbit.explore(f"--cb_explore 2 -b 10 -i {folder}/model.vw", seed=7))
    >>> g.predict() == f.predict()
    True
    """
    learners = forecaster._instances
    number = require.integer("instance", instance, low=0, high=max(0, len(learners) - 1))
    if not learners or not isinstance(learners[number], _Explorer):
        raise InvalidArgument(f"forecaster must play Vowpal Wabbit, in an instance {number}, got {forecaster!r}")
    with forecaster._room.lock:
        learners[number].workspace.save(path)


def _initial(given: list[str], arguments: str) -> tuple[list[str], bytes | None]:
    """The options without the file to start from, and what is in it."""
    rest, paths, words = [], [], iter(given)
    for word in words:
        option, equals, value = word.partition("=")
        if option in INITIAL:
            paths.append(value if equals else next(words, ""))
        else:
            rest.append(word)
    if not paths:
        return given, None
    if len(paths) > 1:
        raise InvalidArgument(f"arguments must name one file to start from, got {arguments!r}")
    try:
        return rest, Path(paths[0]).read_bytes()
    except OSError as error:
        raise InvalidArgument(f"the file to start from cannot be read, got {paths[0]!r}: {error.strerror}") from None


class _Explorer:
    """A workspace as a plain learner."""

    def __init__(
        self,
        given: list[str],
        model: bytes | None,
        actions: int | None,
        lines: list[str] | None,
        seed: int,
        tolerates_delay: bool,
        number: int,
    ) -> None:
        self.workspace = _workspace(given, seed_of(seed, number), model)
        self.given, self.seed, self.number = given, seed, number
        self.adf = bool(self.workspace._is_multiline())
        self.actions, self.lines = actions, lines
        self.tolerates_delay = tolerates_delay
        self.draws = np.random.default_rng((seed, number))

    def predict(self, context: Any) -> tuple[int, float]:
        weights = self.workspace.predict(self._example(context))
        limits = list(accumulate(weights))
        total = limits[-1]
        if not (math.isfinite(total) and total > 0.0 and min(weights) >= 0.0):
            raise BadPrediction(f"Vowpal Wabbit gave {weights!r} as probabilities")
        at = self.draws.random() * total
        action = next((i for i, limit in enumerate(limits) if at < limit), weights.index(max(weights)))
        return action, weights[action] / total

    def update(self, context: Any, action: int, probability: float, feedback: Any) -> None:
        try:
            cost = 1.0 - require.real("feedback", feedback)
        except InvalidArgument as error:
            raise InvalidFeedback(str(error)) from None
        example = self._example(context)
        if isinstance(example, str):
            self.workspace.learn(f"{action + 1}:{cost!r}:{probability!r} {example}")
            return
        place = action + example[0].startswith(SHARED)
        example[place] = f"0:{cost!r}:{probability!r} {example[place]}"
        self.workspace.learn(example)

    def _example(self, context: Any) -> Any:
        """The text of an example: a line, or with action features several."""
        if not self.adf:
            return _line(context, "Context")
        if self.lines is None:
            return _lines_of(context)
        return [*_shared(context), *self.lines]

    def __reduce__(self) -> Any:
        left_out = UNSAVED.intersection(self.given) if self.adf else ()
        if left_out:
            raise Unsupported(
                f"a learner of Vowpal Wabbit with {min(left_out)} cannot be pickled: its file leaves out what the next "
                "choice needs"
            )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model")
            self.workspace.save(path)
            model = path.read_bytes()
        made = (self.given, model, self.actions, self.lines, self.seed, self.tolerates_delay, self.number)
        return _Explorer, made, {"draws": self.draws}


def _lines_of(context: Any) -> list[str]:
    """The lines of an example that brings its actions along."""
    if isinstance(context, str):
        context = context.strip().splitlines()
    if isinstance(context, list) and context and all(isinstance(line, str) for line in context):
        common = context[0].lstrip().startswith(SHARED)
        seen, actions = (context[0], context[1:]) if common else (None, context)
    elif isinstance(context, tuple) and len(context) == 2:
        seen, actions = context
    else:
        raise InvalidArgument(f"context must be (context, [action, ...]) or lines of text, got {context!r}")
    return [*_shared(seen), *(_line(action, "Action") for action in require.sequence("the actions", actions))]


def _shared(context: Any) -> list[str]:
    """The line that all actions share; none without a context."""
    if context is None:
        return []
    known = context.strip().removeprefix(SHARED) if isinstance(context, str) else context
    return [f"{SHARED} {_line(known, 'Context')}"]


def _checked(line: str) -> str:
    """A line of text that somebody else wrote."""
    label, bar, _ = line.partition("|")
    if not bar or label.strip() or "\n" in line.strip():
        raise InvalidArgument(f"text must be one line like '|Namespace a:0.5 b', without a label, got {line!r}")
    return line.strip()


def _line(features: Any, namespace: str) -> str:
    """Features as text."""
    if isinstance(features, str):
        return _checked(features)
    if features is None:
        return f"|{namespace}"
    if not isinstance(features, Mapping):
        numbers = np.asarray(features, dtype=object)
        if numbers.ndim != 1:
            raise InvalidArgument(f"features must be a dictionary, numbers in a row or text, got {features!r}")
        features = dict(enumerate(numbers))
    inside = {name: values for name, values in features.items() if isinstance(values, Mapping)}
    loose = {name: value for name, value in features.items() if name not in inside}
    spaces = {namespace: loose, **inside} if loose or not inside else inside
    return " ".join(
        " ".join([f"|{_name(space)}", *(_feature(name, value) for name, value in values.items())])
        for space, values in spaces.items()
    )


def _feature(name: Any, value: Any) -> str:
    if isinstance(value, str):
        return f"{_name(name)}={_name(value)}"
    number = require.real(f"the feature {name!r}", int(value) if isinstance(value, bool | np.bool_) else value)
    return f"{_name(name)}:{number!r}"


def _name(name: Any) -> str:
    word = str(name)
    if not word or not SPECIAL.isdisjoint(word):
        raise InvalidArgument(f"a name for Vowpal Wabbit must be a word without space, colon or bar, got {name!r}")
    return word
