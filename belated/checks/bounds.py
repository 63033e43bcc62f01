"""Kernels keep to their arrays, and to what kernels may do. Nothing is compiled here, so nothing can crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from belated.checks.contract import CheckFailed, arena, context_of, demand, feedback_of
from belated.forecasters.instance import supply
from belated.kernels import guard, states
from belated.kernels.asked import SAYS, bad_law, blind
from belated.kernels.blame import arity, bad_answer, kernels_of, told, traced
from belated.kernels.compile import plain, source
from belated.kernels.pointers import behind
from belated.kernels.random import key_of, learner_draw
from belated.kernels.reading import offences, return_line
from belated.protocols import NEEDED, Delays, Game, Learner

ROUNDS = 60
#: Instances of a learner that are looked at: they draw differently.
INSTANCES = 2
#: How late feedback is, where the learner tolerates delay.
LATE = 3
KEY = key_of(0, 0)

Call = Callable[..., Any]


def keeps_to_the_rules(spec: Learner | Game | Delays) -> None:
    """Kernels take the arguments they are given, allocate nothing, raise nothing, and draw from their draw alone."""
    for each in kernels_of(spec):
        wrong = arity(spec, each)
        demand(wrong is None, str(wrong))
        found = next(iter(offences(each.function)), None)
        if found is not None:
            raise CheckFailed(told(spec, each.name, found.file, found.line, f"it {found.what}"))


def stays_in_its_arrays(spec: Learner | Game | Delays) -> None:
    """No kernel reads or writes outside its arrays, negative indices included; run in plain Python, over guards."""
    with np.errstate(divide="raise", invalid="raise", over="ignore", under="ignore"):
        if isinstance(spec, Learner):
            _play_learner(spec)
        elif isinstance(spec, Game):
            _play_game(spec)
        else:
            _draw_delays(spec)


def _calls(spec: Any) -> dict[str, Call]:
    """The kernels of a spec in plain Python, by name; an error in one is told with its place."""
    return {
        each.name: _told(spec, each.name, plain(each.function, {source(behind): _behind})) for each in kernels_of(spec)
    }


def _behind(vector: guard.Pointer, start: int) -> guard.Pointer:
    return vector.behind(start)


def _told(spec: Any, name: str, function: Call) -> Call:
    def call(*given: Any) -> Any:
        with _failing(spec, name):
            return function(*given)

    return call


@contextmanager
def _failing(spec: Any, name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        what = str(error) if isinstance(error, guard.Outside | AttributeError) else f"{type(error).__name__}: {error}"
        if isinstance(error, ZeroDivisionError | FloatingPointError) or "math domain" in what:
            what += " (compiled code goes on with inf or NaN: guard x / 0 and log 0)"
        if "read-only" in what:
            what = (
                "it writes into context, feedback or allowed, which kernels only read: a ticket would keep the change"
            )
        raise CheckFailed(traced(spec, name, error, what)) from error


def _play_learner(learner: Learner) -> None:
    calls, game = _calls(learner), arena(learner, ROUNDS)
    for number in range(INSTANCES):
        player = _Player(learner, calls, number)
        waiting: list[tuple[int, int, int, float, Any]] = []
        for t in range(ROUNDS):
            context = context_of(game, learner, t)
            action, probability = player.ask(context)
            waiting.append((t, player.predictions, action, probability, player.memo))
            if t % 7 == 3:
                _, asked, action, probability, memo = waiting.pop()  # cancelled, and sometimes replaced before
                player.lose(context, asked, -1 if t % 2 else action, probability, memo)
            while len(waiting) > (LATE if learner.tolerates_delay and t >= ROUNDS // 2 else 0):
                s, asked, action, probability, memo = waiting.pop(0)
                feedback = feedback_of(game, learner, s, action)
                player.tell(context_of(game, learner, s), asked, action, probability, memo, feedback)
            if "predict_among" in calls and t % 2:
                some = np.flatnonzero(np.random.default_rng(t).random(learner.actions) < 0.5)
                player.ask(context, some if len(some) else np.array([t % learner.actions]))
            if "replace" in calls and t % 10 == 9:
                calls["replace"](player.params, player.state, (t // 10) % learner.actions)


class _Player:
    """One instance of a learner over guarded records."""

    def __init__(self, learner: Learner, calls: dict[str, Call], number: int) -> None:
        self._learner, self._calls, self._number = learner, calls, number
        self._own = [made.view(states.PlainRecords) for made in (states.params(learner), states.blank(learner))]
        rows = [own.view(np.ndarray)[0] for own in self._own]
        self.params, self.state = guard.GuardedRecord(rows[0], "params"), guard.GuardedRecord(rows[1], "state")

    @property
    def predictions(self) -> int:
        return int(self.state.predictions)

    def ask(self, context: Any, among: Any = None) -> tuple[int, float]:
        name = "predict" if among is None else "predict_among"
        rest = () if among is None else (_vector(among, "allowed", np.int64),)
        self.state.predictions += 1
        draw = source(learner_draw)(*KEY, self.predictions, self._number)
        for times in range(1, 10_000):
            said = self._calls[name](self.params, self.state, _vector(context, "context"), *rest, draw)
            wrong = bad_answer(self._learner, said, name)
            demand(wrong is None, str(wrong))
            if said[0] != NEEDED:
                break
            supply(self._learner, self._own[0], self._own[1][0], times)
        top = self._learner.actions - 1
        function = source(getattr(self._learner, name))
        where = function.__code__.co_filename, return_line(function)
        demand(0 <= said[0] <= top, told(self._learner, name, *where, f"it chose action {said[0]}, outside 0..{top}"))
        if self._learner.counts_open:
            self.state.open += 1
        return int(said[0]), float(said[1])

    @property
    def memo(self) -> Any:
        return self._own[1]["memo"][0].copy() if self._learner.memo else None

    def _back(self, number: int, memo: Any) -> None:
        """The number and the memo of a prediction that has ended."""
        self.state.answering = number
        if self._learner.counts_open:
            self.state.open -= 1
        if memo is not None:
            self._own[1]["memo"][0] = memo

    def lose(self, context: Any, number: int, action: int, probability: float, memo: Any) -> None:
        self._back(number, memo)
        if "lost" in self._calls:
            self._calls["lost"](self.params, self.state, _vector(context, "context"), action, probability)

    def tell(self, context: Any, number: int, action: int, probability: float, memo: Any, feedback: Any) -> None:
        self._back(number, memo)
        given = (_vector(context, "context"), action, probability, _vector(feedback, "feedback"))
        self._calls["update"](self.params, self.state, *given)


def _vector(values: Any, name: str, kind: Any = float) -> guard.Guarded:
    """What a kernel is given to read."""
    made = np.zeros(0) if values is None else np.array(values, kind)
    made.flags.writeable = False
    return guard.Guarded.over(made, name)


def _rounds(spec: Game | Delays) -> int:
    longest = spec.longest()
    return ROUNDS if longest is None else min(ROUNDS, longest)


def _play_game(game: Game) -> None:
    calls = _calls(game)
    params = guard.Pointer(game.params(), "params")
    memory = guard.Pointer(np.zeros(game.memory()), "memory")
    feedback = guard.Pointer(np.zeros(max(game.feedback_size, game.point_size)), "feedback")
    context = guard.Pointer(np.zeros(game.context_size), "context")
    last = _rounds(game)
    for t in range(1, last + 1):
        if "observe" in calls:
            calls["observe"](params, memory, *KEY, t, context)
        if "event" in calls:
            calls["event"](params, memory, *KEY, t)
        for i in range(game.point_size):
            feedback[i] = ((t + i) % 5) / (4.0 * game.point_size)
        calls["outcome"](params, memory, *KEY, t, (t * 7 // 3) % game.actions, feedback)
        if t % 10 == 0 or t == last:
            calls["regret"](params, memory)


def _draw_delays(law: Delays) -> None:
    delay, params = _calls(law)["kernel"], guard.Pointer(law.params(), "params")
    longest = law.longest()
    reward = (0.5,) if law.depends_on_reward else ()
    looks = law.depends_on_action or law.depends_on_reward
    for t in range(1, _rounds(law) + 1):
        for action in range(actions_of(law) if looks else 1):
            delay(params, *KEY, t, action, *reward)
    if longest is not None and longest > ROUNDS:
        delay(params, *KEY, longest, 0, *reward)


def actions_of(law: Delays) -> int:
    """How many actions a law is made for; 3 if for any number."""
    return getattr(law, "actions", None) or 3


def looks_at_actions_only_if_it_says(law: Delays) -> None:
    """A law that does not say `depends_on_action` gives every action the same delay, and does not look at it. Delays
    are whole numbers."""
    found = bad_law(law, _rounds(law))
    demand(found is None, str(found))
    if law.depends_on_action or law.depends_on_reward:
        return
    delay, params, code = blind(law), law.params(), source(law.kernel).__code__
    for t in range(1, _rounds(law) + 1):
        drawn = [int(delay(params, *KEY, t, action)) for action in range(3)]
        what = f"delays of {drawn} for actions 0, 1, 2 in round {t}: {SAYS}"
        demand(len(set(drawn)) == 1, told(law, "kernel", code.co_filename, code.co_firstlineno, what))
