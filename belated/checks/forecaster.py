"""The contract of a forecaster."""

from __future__ import annotations

import dataclasses
import json
import linecache
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from belated import catalog
from belated.checks import arenas
from belated.checks.contract import CheckFailed, answer_of, arena, compare, context_of, demand, laws
from belated.checks.promises import ends_every_prediction, gives_back_the_memo, keeps_the_order
from belated.checks.rule_bounds import kernels_stay_in_their_arrays
from belated.checks.stated import chooses_among_those, forgets_what_was_replaced, probabilities_are_propensities
from belated.engine.play import play
from belated.engine.workspace import kernels_of
from belated.errors import BelatedError, CertificateError, InvalidArgument, Unsupported
from belated.forecasters import Forecaster
from belated.forecasters.process import Process
from belated.kernels.blame import frames_of, told
from belated.protocols import Game, Learner

ROUNDS = 120
#: After so many feedbacks more a rule that keeps them in queues must have told its learner of some.
PATIENCE = 5_000


def spec_of(forecaster: Forecaster) -> Learner:
    """Its learner, which must be a spec to be checked with."""
    if not isinstance(forecaster.learner, Learner):
        raise CheckFailed(f"a forecaster is checked over a learner that is a spec, got {forecaster!r}")
    return forecaster.learner


def keeps_its_parameters(forecaster: Forecaster) -> None:
    """The same after a trip through JSON, and so are its copies; nothing of it can be changed."""
    spec_of(forecaster)
    kind, given = type(forecaster), forecaster.parameters()
    again = catalog.build(kind, "forecaster", json.loads(json.dumps(catalog.to_data(forecaster))))
    for made, how in (
        (again, "from JSON"),
        (forecaster.fresh(seed=1), "from fresh()"),
        (forecaster.over(forecaster.learner), "from over()"),
    ):
        demand(made.parameters() == given, f"{forecaster!r} comes back {how} as {made!r}")
        demand(made.learner == forecaster.learner, f"{forecaster!r} comes back {how} over {made.learner!r}")
    try:
        hash(tuple(given.values()))
    except TypeError as error:
        raise CheckFailed(f"the parameters of {forecaster!r} cannot be hashed: {error}; use tuples") from None
    for field in dataclasses.fields(forecaster):
        try:
            setattr(forecaster, field.name, None)
        except AttributeError:
            continue
        raise CheckFailed(f"{field.name} of {kind.__name__} can be changed after it was made")


def _script(seed: int) -> list[tuple[str, float]]:
    """What is done: predict, update or cancel, and a number that says to which open ticket."""
    rng = np.random.default_rng(seed)
    steps = rng.choice(["predict", "update", "cancel"], size=2 * ROUNDS, p=[0.5, 0.4, 0.1])
    return list(zip(steps.tolist(), rng.random(2 * ROUNDS).tolist(), strict=True))


class _Live:
    """A forecaster that a script is played with."""

    def __init__(self, room: Process, game: Game) -> None:
        self.room, self.game, self.learner = room, game, spec_of(room.rule)
        self.said: list[tuple[int, int, float]] = []

    def step(self, word: str, which: float) -> None:
        room = self.room
        waiting = sorted(room.pending)
        if word == "predict" or not waiting:
            context = room.rule.check_context(context_of(self.game, self.learner, len(self.said) % ROUNDS))
            made = room.predict(context)
            letter = room.pending[made.ticket]
            self.said.append((made.ticket, letter.action, made.probability))
            return
        letter = room.pending[waiting[int(which * len(waiting))]]
        if word == "cancel":
            room.cancel(letter)
        else:
            told = answer_of(self.game, self.learner, letter.ticket % ROUNDS, letter.action)
            room.update(letter, room.rule.check_feedback(told, letter.action))


def keeps_all_in_its_room(forecaster: Forecaster) -> None:
    """Two lives of one forecaster, step by step in turn, go as each goes alone: the rule keeps nothing itself."""
    game = arena(spec_of(forecaster), ROUNDS)
    alone = [_life(forecaster, game, seed, _script(seed)).said for seed in (1, 2)]
    rule = forecaster.fresh(seed=0)
    both = [_live(rule, game, seed) for seed in (1, 2)]
    for first, second in zip(_script(1), _script(2), strict=True):
        both[0].step(*first)
        both[1].step(*second)
    for one, two in zip(alone, both, strict=True):
        demand(one == two.said, f"{forecaster!r} decides otherwise when another of its kind lives beside it")


def _live(rule: Forecaster, game: Game, seed: int) -> _Live:
    room = Process(rule, seed)
    room.begin()
    return _Live(room, game)


def _life(forecaster: Forecaster, game: Game, seed: int, script: list[tuple[str, float]]) -> _Live:
    life = _live(forecaster.fresh(seed=seed), game, seed)
    for step in script:
        life.step(*step)
    return life


def tells_once(forecaster: Forecaster) -> None:
    """An instance is told of a ticket's feedback at most once, and of nothing that has not come."""
    learner = spec_of(forecaster)
    game, told = arena(learner, ROUNDS), []

    class Spy:
        """What a plain learner sees."""

        actions = learner.actions
        weighs, in_order, tolerates_delay = learner.weighs, learner.in_order, learner.tolerates_delay

        def __init__(self) -> None:
            self.heard: list[Any] = []
            told.append(self.heard)
            self.count = 0

        def predict(self, context: Any) -> tuple[int, float]:
            self.count += 1
            return self.count % self.actions, 1.0

        def update(self, context: Any, action: int, probability: float, feedback: Any) -> None:
            self.heard.append(feedback)

    try:
        rule = type(forecaster)(Spy, **forecaster.parameters(), seed=0)
    except Unsupported:
        return  # it plays specs only
    told.clear()
    room = Process(rule, 0)
    room.begin()
    before = [len(heard) for heard in told]
    own = [feedback for queue in room.queues.values() for _, feedback in queue]  # what a rule knew before
    given: list[float] = []
    for word, which in _script(3):
        waiting = sorted(room.pending)
        if word == "predict" or not waiting:
            context = context_of(game, learner, room.issued % ROUNDS)
            room.predict(context if learner.context_size else None)
            continue
        letter = room.pending[waiting[int(which * len(waiting))]]
        if word == "cancel":
            room.cancel(letter)
            continue
        given.append(len(given) + 1000.25)
        room.update(letter, given[-1])
        for number, heard in enumerate(told):
            mine = heard[before[number] :] if number < len(before) else heard
            demand(set(mine) <= {*given, *own}, f"{forecaster!r} tells an instance of what has not come")
            once = Counter(mine) <= Counter([*given, *own])
            demand(once, f"{forecaster!r} tells an instance of one feedback twice")
    for _ in range(PATIENCE):  # it may tell later
        if any(told) or not any(room.queues.values()):
            break
        room.predict(context_of(game, learner, room.issued % ROUNDS) if learner.context_size else None)
        for letter in list(room.pending.values()):
            room.update(letter, 0.25)
    waits = sum(map(len, room.queues.values()))
    late = f", though {waits} feedbacks wait in its queues" if waits else ""
    demand(any(told), f"{forecaster!r} tells its learner nothing{late}")
    last, queues = max(room.queues, default=-1), rule.queues()
    unsaid = queues == 0 and rule.layout() is not None
    demand(unsaid or last < queues, f"{forecaster!r} puts feedback into queue {last}, and says queues() = {queues}")


def can_be_taken_back(forecaster: Forecaster) -> None:
    """After a trial that is taken back, everything is as before."""
    game = arena(spec_of(forecaster), ROUNDS)
    life = _life(forecaster, game, 1, _script(1)[:100])
    rule = life.room.rule
    object.__setattr__(rule, "_room", life.room)
    before = _inside(life.room)
    for t in range(5):
        tried = []
        for _ in range(2):
            made, take_back = rule.trial(context_of(game, life.learner, t))
            tried.append((made.ticket, np.array(made.action).tolist(), made.probability, _inside(life.room)))
            take_back()
        one, two = (trial[:3] for trial in tried)
        demand(one == two, f"{forecaster!r} decides {one}, and when that is taken back {two}")
        demand(tried[0] == tried[1], f"{forecaster!r} does otherwise when a decision was taken back before")
        demand(_inside(life.room) == before, f"{forecaster!r} is not as before after trials")


def _inside(room: Process) -> Any:
    """All that is in a room."""
    return (
        [(seat.pool, seat.learner.state.tobytes()) for seat in room.seats],
        {pool: sorted(free) for pool, free in room.idle.items() if free},
        {queue: [letter.ticket for letter, _ in waiting] for queue, waiting in room.queues.items() if waiting},
        None if room.book is None else room.book.tobytes(),
        list(room.asked or ()),
        sorted(room.pending),
        room.issued,
        room.peak,
    )


def compiled_is_python(forecaster: Forecaster) -> None:
    """Where it has kernels: the compiled loop and the Python form agree in every action, count and regret."""
    learner = spec_of(forecaster)
    if kernels_of(forecaster) is None:
        return
    game = arena(learner, 300)
    for law, expiry in laws(300):
        compare(forecaster, game, law, 300, expiry)


def saved_continues(forecaster: Forecaster) -> None:
    """Saved in the middle of things and restored it continues identically."""
    if not _saves(forecaster):
        return
    game = arena(spec_of(forecaster), ROUNDS)
    life = _life(forecaster, game, 3, _script(3)[:120])
    one = life.room.rule
    object.__setattr__(one, "_room", life.room)
    two = catalog.from_bytes(one.to_bytes())
    demand(repr(two) == repr(one), f"{one!r} comes back as {two!r}")
    lives = [_Live(each._room, game) for each in (one, two)]
    for step in _script(4):
        for each in lives:
            each.step(*step)
    same = lives[0].said == lives[1].said and one.to_bytes() == two.to_bytes()
    demand(same, f"{one!r} does not continue identically after from_bytes")


def _saves(forecaster: Forecaster) -> bool:
    """Whether bytes can be read back: only for what is entered in the catalog."""
    tables = ((catalog.FORECASTERS, forecaster), (catalog.LEARNERS, forecaster.learner))
    return all(table.get(type(each).__name__.lower()) is type(each) for table, each in tables)


def lives_in_a_ledger(forecaster: Forecaster) -> None:
    """In a service it decides what it decides in a process, and `verify` finds the same states again."""
    learner = spec_of(forecaster)
    if not _saves(forecaster) or learner.point_size:
        return
    from belated.ledger.database import open_store
    from belated.ledger.experiment import make
    from belated.ledger.items import Cancel, Create, Decide, Feedback, Save
    from belated.ledger.ledger import Ledger
    from belated.ledger.verify import verify

    game = arena(learner, ROUNDS)
    life = _live(forecaster.fresh(seed=5), game, 5)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(str(Path(folder) / "check.db"), serve=True)
        try:
            ledger = Ledger(store)
            names = [f"action {i}" for i in range(learner.actions)]
            data = catalog.to_data(forecaster)
            given = data.pop("reward_range", None) or arenas.ends(learner)
            experiment = make("check", names, data, given, seed=5)
            (made,) = ledger.serve([Create(experiment, ledger.prepare(experiment))])
            tickets: dict[int, bytes] = {}
            for number, (word, which) in enumerate(_script(5)):
                if number % ROUNDS == ROUNDS // 2:  # another process goes on, from what is on record
                    ledger.serve([Save()])
                    ledger = Ledger(store)
                    made = ledger.find(made.name)
                waiting = sorted(life.room.pending)
                if word == "predict" or not waiting:
                    context = experiment.context(context_of(game, learner, len(life.said) % ROUNDS))
                    life.step(word, which)
                    (answer,) = ledger.serve([Decide(made, [context])])
                    (decided,) = _demand_answers(forecaster, answer)
                    ticket, action, probability = life.said[-1]
                    tickets[ticket] = bytes.fromhex(decided.ticket)
                    stated = probability if learner.states_probability else None
                    demand(
                        (decided.action, decided.probability) == (action, stated),
                        f"{forecaster!r} decides {action} with probability {probability} in a process, in a service "
                        f"{decided.action} with {decided.probability}: decision {ticket}",
                    )
                    continue
                letter = life.room.pending[waiting[int(which * len(waiting))]]
                life.step(word, which)
                own = tickets.pop(letter.ticket)
                if word == "cancel":
                    _demand_answers(forecaster, ledger.serve([Cancel(made, [own])])[0])
                    continue
                told = answer_of(game, learner, letter.ticket % ROUNDS, letter.action)
                value = told if learner.feedback == "symbol" else _as_value(experiment, told)
                _demand_answers(forecaster, ledger.serve([Feedback(made, [(own, value)])])[0])
            for lost in ([], list(tickets.values())[:1]):  # as it is, and after a ticket that ends without feedback
                if lost:
                    _demand_answers(forecaster, ledger.serve([Cancel(made, lost)])[0])
                (report,) = verify(store)
                demand(report.verdict == "identical", f"{forecaster!r} in a service: verify says {report}")
        finally:
            store.close()


def _as_value(experiment: Any, told: Any) -> Any:
    numbers = [float(x) for x in told]
    return numbers[0] if experiment.takes_numbers else numbers


def _demand_answers(forecaster: Forecaster, answers: Any) -> Any:
    for each in answers if isinstance(answers, list) else [answers]:
        demand(not isinstance(each, BelatedError | Exception), f"{forecaster!r} in a service: {each}")
    return answers


def counts_are_certified(forecaster: Forecaster) -> None:
    """`play` finds its identities, and those that all share, on many delays; and a theorem, or why there is none."""
    game = arena(spec_of(forecaster), ROUNDS)
    for law, expiry in laws(ROUNDS):
        try:
            r = play(forecaster, game, law, rounds=ROUNDS, replications=2, expiry=expiry, engine="python")
            _ = r.theorem
        except (CertificateError, InvalidArgument) as error:
            raise CheckFailed(f"{law!r}, expiry {expiry}: {error}") from None


FORECASTER_CHECKS: tuple[Callable[[Forecaster], None], ...] = (
    keeps_its_parameters,
    keeps_all_in_its_room,
    tells_once,
    counts_are_certified,
    can_be_taken_back,
    saved_continues,
    lives_in_a_ledger,
    gives_back_the_memo,
    ends_every_prediction,
    keeps_the_order,
    probabilities_are_propensities,
    chooses_among_those,
    forgets_what_was_replaced,
    kernels_stay_in_their_arrays,
    compiled_is_python,
)


def check_forecaster(forecaster: Forecaster) -> None:
    """All of them, for a forecaster over a learner that is a spec; both should be entered in the catalog."""
    for check in FORECASTER_CHECKS:
        try:
            check(forecaster)
        except CheckFailed:
            raise
        except Exception as error:
            raise CheckFailed(_told(forecaster, error)) from error


def _told(forecaster: Forecaster, error: Exception) -> str:
    """What a rule raised, with its place, and what may have been meant."""
    what = str(error) if isinstance(error, BelatedError) else f"{type(error).__name__}: {error}"
    if isinstance(error, dataclasses.FrozenInstanceError):
        what += "; a rule keeps nothing itself: what changes is in room.notes, by its layout()"
    own = {getattr(sys.modules.get(kind.__module__), "__file__", None) for kind in type(forecaster).__mro__[:1]}
    places = [(code, line) for code, line in frames_of(error) if code.co_filename in own]
    if not places:
        return what if isinstance(error, BelatedError) else f"{forecaster!r}: {what}"
    code, line = places[-1]
    if forecaster.layout() is None and "notes" in linecache.getline(code.co_filename, line):
        what += "; it has no layout(), so there are no notes"
    return told(forecaster, code.co_name, code.co_filename, line, what)
