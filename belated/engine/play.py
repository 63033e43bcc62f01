"""`play`: simulate a forecaster on a game under delays."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from functools import lru_cache
from textwrap import shorten
from typing import Any

import numpy as np

from belated import require
from belated.engine.certificate import Certificate, certify, counts_of
from belated.engine.progress import Progress
from belated.engine.result import Integers, Result
from belated.engine.threads import run_compiled, run_on_gpu, run_plain
from belated.engine.workspace import Setting, Tables, kernels_of
from belated.errors import InvalidArgument, InvalidFeedback, Unsupported
from belated.forecasters import Forecaster
from belated.kernels.asked import bad_law
from belated.kernels.blame import blamed
from belated.kernels.sets import set_of, within
from belated.kernels.stated import check_stated
from belated.protocols import NEVER, Delays, Floats, Game, Learner
from belated.theory.covering import covering

#: Checkpoints of a run, spread evenly on a log scale.
CHECKPOINTS = 60
#: What plays.
ENGINES = ("auto", "compiled", "python", "cuda")
#: Rounds of all replications together; more than anybody can wait for, and far from overflow.
MOST_ROUNDS = 2**53


def play(
    forecaster: Forecaster,
    game: Game,
    delays: Delays,
    rounds: int,
    replications: int = 1,
    seed: int = 0,
    threads: int | None = None,
    record: bool = False,
    progress: bool | Callable[[int, int], Any] | None = None,
    expiry: int | None = None,
    engine: str = "auto",
    default: float | None = None,
) -> Result:
    """Let a forecaster play a game under delays, many times, and account for it.

    The forecaster is taken as a spec: every replication starts a fresh copy, `forecaster` itself is not touched and
    its seed is ignored. Outcomes and delays depend on (seed, replication, round, action) only, so every forecaster
    meets the same ones, and results do not depend on the number of threads.

    * `threads`: None for all cores. Plain learners run in Python, one replication after the other. A GPU has its own.
    * `record`: keep actions, delays and probabilities of every round.
    * `progress`: None shows a bar in a terminal when it takes long; True, False, or a function of (done, total).
    * `expiry`: a ticket whose feedback has not come `expiry` rounds later is cancelled.
    * `default`: what is learned at expiry, instead: a reward. It biases what is learned, and no theorem covers it.
    * `engine`: "compiled", "python", or "auto": compiled for learners that are specs. "cuda" is an NVIDIA GPU, with the
      same results; it is never chosen by itself, and pays for thousands of replications.

    >>> import belated as bl
    >>> r = bl.play(bl.QPMD(bl.UCB1(actions=3)), bl.games.Bernoulli([.2, .5, .9]), bl.delays.Constant(10), rounds=1000)
    >>> int(r.peak[0]), bool(r.certificate)
    (10, True)
    """
    _check_kinds(forecaster, game, delays)
    rounds = require.integer("rounds", rounds, low=1)
    replications = require.integer("replications", replications, low=1)
    require.integer("rounds x replications", rounds * replications, high=MOST_ROUNDS)
    seed = require.integer("seed", seed, low=0, high=2**64 - 1)
    if threads is not None:
        require.integer("threads", threads, low=1)
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InvalidArgument(f"progress must be None, True, False or a function, got {progress!r}")
    require.boolean("record", record)
    limit = NEVER if expiry is None else min(require.integer("expiry", expiry, low=0), NEVER)
    require.one_of("engine", engine, ENGINES)
    check_fit(forecaster, game, delays, rounds)
    _check_kept(forecaster.learner, delays, limit)
    known = None if default is None else _check_default(default, expiry, forecaster, game)
    compiled = engine != "python" and kernels_of(forecaster) is not None
    if engine in ("compiled", "cuda") and not compiled:
        why = "only learners that are specs have kernels"
        if isinstance(forecaster.learner, Learner):
            why = f"{type(forecaster).__name__} has no kernels"
        raise Unsupported(f"{forecaster!r} cannot be compiled: {why}")

    checkpoints = checkpoints_of(rounds)
    setting = Setting(forecaster, game, delays, rounds, seed, checkpoints, limit, record, known)
    values = getattr(forecaster.learner, "values", 0)
    tables = Tables.make(replications, game.actions, len(checkpoints), rounds, record, values, game.point_size)
    began = time.perf_counter()
    whose = (forecaster.learner, game, delays)
    with Progress(progress, rounds * replications, f"{forecaster!r}") as shown, blamed(*whose):
        if engine == "cuda":
            run_on_gpu(setting, tables, shown)
        elif compiled:
            run_compiled(setting, tables, threads, shown)
        else:
            run_plain(setting, tables, shown)
    if np.isnan(tables.regret).any():  # which no verdict could be made of
        number = int(np.isnan(tables.regret).any(axis=1).argmax())
        raise InvalidFeedback(f"{game!r} says that its regret is NaN, in replication {number}")
    return gather(setting, tables, time.perf_counter() - began)


#: Counts with one number an action, and what the loop calls them.
TALLIED = {name: name for name in ("pulls", "observed", "cancelled", "dropped")} | {
    "peaks": "peak",
    "base_pulls": "base",
}


def gather(setting: Setting, tables: Tables, seconds: float, certificate: Certificate | None = None) -> Result:
    """The result of a play from the tables that it filled; certified here, or already."""
    tally, summary = tables.tally, tables.summary
    counts = counts_of(setting, tables)
    actions = tables.points if setting.game.point_size else tables.actions
    return Result(
        setting=setting,
        checkpoints=setting.checkpoints,
        regret=tables.regret,
        peak=_plain(summary["peak"]),
        peaks=_plain(tally["peak"]),
        pulls=_plain(tally["pulls"]),
        observed=_plain(tally["observed"]),
        cancelled=_plain(tally["cancelled"]),
        dropped=_plain(tally["dropped"]),
        outstanding=_plain(summary["outstanding"]),
        instances=_plain(summary["instances"]),
        steps=_plain(summary["steps"]),
        base_pulls=_plain(tally["base"]),
        total=_plain(summary["total"]),
        defaulted=_plain(summary["defaulted"]),
        groups={name: _plain(tables.groups[stored]) for name, stored in TALLIED.items()},
        pools={name: _plain(tables.pools[name]) for name in tables.pools.dtype.names},
        certificate=certify(setting, counts) if certificate is None else certificate,
        theorem=covering(setting.forecaster, setting.game, setting.delays, counts),
        seconds=seconds,
        actions=actions if setting.record else None,
        delays=tables.delays if setting.record else None,
        probabilities=_stated(setting, tables.probabilities) if setting.record else None,
    )


def _stated(setting: Setting, probabilities: Floats) -> Floats:
    """The probabilities of decisions; NaN where the learner does not state any."""
    return probabilities if setting.forecaster.states_probability else np.full_like(probabilities, np.nan)


#: Counts with one number a replication.
SUMMARISED = ("peak", "outstanding", "instances", "steps", "total", "defaulted")


def _check_default(default: Any, expiry: Any, forecaster: Forecaster, game: Game) -> float:
    if expiry is None:
        raise InvalidArgument(f"default is what is learned at expiry, which is not given: default={default!r}")
    if game.feedback != "bandit":
        raise Unsupported(f"default is one reward, {game!r} gives {game.feedback} feedback")
    return require.real("default", default, low=float(game.smallest), high=float(game.largest))


def too_late(learner: Any, delays: Delays, expiry: int) -> int:
    """How late feedback may be, where that is known and too late for what the learner keeps; else 0."""
    keeps, longest = getattr(learner, "keeps", 0), delays.maximum
    if not keeps or longest is None or longest == NEVER or getattr(learner, "lets_go", False):
        return 0
    longest = min(longest, expiry)
    return longest if longest >= keeps else 0


def _check_kept(learner: Any, delays: Delays, expiry: int) -> None:
    """Delays that are known to be longer than a learner keeps what it needs are a mistake."""
    if late := too_late(learner, delays, expiry):
        raise InvalidArgument(
            f"feedback may be {late} rounds late by {delays!r}, {learner!r} drops what is {learner.keeps} rounds late "
            f"or more: give it more room, or end tickets by expiry={learner.keeps - 1}"
        )


def _say_if_idle(forecaster: Forecaster, delays: Delays) -> None:
    """Where a learner lets go of what is late, and all is: it plays, and learns nothing."""
    learner, late = forecaster.learner, delays.maximum if delays.constant else None
    idle = isinstance(learner, Learner) and learner.lets_go and forecaster.tells_late
    keeps = learner.keeps if idle else 0  # those that cannot let go are refused
    if keeps and late is not None and late >= keeps:
        warnings.warn(
            f"{learner!r} will learn nothing: all feedback is {late} rounds late by {delays!r}, and what is {keeps} "
            "rounds late or more it lets go; give it a larger window, or play it under BOLD",
            stacklevel=4,
        )


def _check_kinds(forecaster: Any, game: Any, delays: Any) -> None:
    for name, value, kind, example in (
        ("forecaster", forecaster, Forecaster, "bl.BOLD(bl.Exp3(actions=3))"),
        ("game", game, Game, "bl.games.Bernoulli([.2, .5, .9])"),
        ("delays", delays, Delays, "bl.delays.Geometric(mean=50)"),
    ):
        if not isinstance(value, kind):
            raise InvalidArgument(f"{name} must be something like {example}, got {value!r}")


def check_fit(forecaster: Forecaster, game: Game, delays: Delays, rounds: int) -> None:
    """Refuse what cannot be played together, before anything starts."""
    game.check_playable()
    for thing in (game, delays):
        if not type(thing).__module__.startswith("belated."):
            check_stated(thing)
    learner = forecaster.learner
    if game.reactive and not forecaster.plays_reactive:
        raise Unsupported(
            f"{forecaster!r} cannot play {game!r}, whose course depends on what was played before: use Direct"
        )
    if game.point_size != (learner.point_size if isinstance(learner, Learner) else 0):
        raise InvalidArgument(_points(forecaster, game))
    if isinstance(learner, Learner):
        low, high = forecaster.reward_range or (learner.smallest, learner.largest)
        if forecaster.reward_range is not None and game.feedback == "symbol":
            raise InvalidArgument(f"{forecaster!r} takes rewards, {game!r} gives symbols")
        ignores = learner.feedback == "any" and forecaster.reward_range is None
        if not (ignores or learner.feedback == "symbol") and not (low <= game.smallest and game.largest <= high):
            mapped = forecaster.reward_range is None and not learner.point_size and _bounded(game)
            raise InvalidArgument(
                f"{forecaster!r} takes feedback in [{low:g}, {high:g}], {game!r} gives "
                f"[{game.smallest:g}, {game.largest:g}]{'; reward_range=(...) maps them' if mapped else ''}"
            )
        if learner.feedback not in (game.feedback, "any"):
            raise InvalidArgument(
                f"{learner!r} learns from {learner.feedback} feedback, {game!r} gives {game.feedback} feedback"
            )
        if learner.feedback == "symbol":
            _check_same(learner, game)
        if learner.context_size and not game.context_size:
            raise Unsupported(f"{learner!r} needs a context, {game!r} has none")
        if learner.values and game.values != learner.values:
            given = f"{game.values} values" if game.values else "endlessly many"
            raise InvalidArgument(f"{learner!r} needs a context of {learner.values} values, {game!r} gives {given}")
        if learner.context_size not in (0, game.context_size):
            raise InvalidArgument(
                f"{learner!r} needs a context of {learner.context_size} numbers, {game!r} gives {game.context_size}"
            )
        _check_rows(learner, game)
        _check_reach(learner, game)
    if forecaster.actions is None:
        raise Unsupported(
            f"{forecaster!r} predicts anything, a game takes one of its {game.actions} actions: use predict and update"
        )
    if forecaster.actions != game.actions:
        raise InvalidArgument(f"{forecaster!r} has {forecaster.actions} actions, {game!r} has {game.actions}")
    if game.announces:
        if game.event is None:
            raise InvalidArgument(f"{game!r} announces replaced actions, but has no event kernel")
        forecaster.check_replace()
    for thing in (game, delays):
        longest = thing.longest()
        if longest is not None and longest < rounds:
            raise InvalidArgument(f"rounds must be <= {longest}, the length of {thing!r}, got {rounds}")
    delays.check_actions(game.actions)
    _say_if_idle(forecaster, delays)
    if not type(delays).__module__.startswith("belated."):
        found = bad_law(delays)
        if found is not None:
            raise found


def _check_rows(learner: Learner, game: Game) -> None:
    """A learner that takes some numbers only is asked about all rows of side information that the game has."""
    if type(learner).check_context is Learner.check_context or not learner.context_size:
        return
    rows = getattr(game, "contexts", None)
    rows = getattr(game, "X", None) if rows is None else rows
    rows = np.arange(game.values)[:, None] if rows is None and game.values else rows
    for row in np.unique(np.asarray(rows, float), axis=0) if rows is not None else ():
        learner.check_context(row)


def _check_reach(learner: Learner, game: Game) -> None:
    """Points must not leave the set of the game, where both say what theirs is."""
    mine, its = set_of(learner), set_of(game)
    if learner.point_size and mine is not None and its is not None and not within(mine, its, learner.point_size):
        raise InvalidArgument(
            f"{learner!r} plays points of a {mine[0]} of radius {mine[1]:g}, {game!r} takes those of a {its[0]} of "
            f"radius {its[1]:g}"
        )


def _bounded(game: Game) -> bool:
    """Whether a range can be stated for what the game gives."""
    return math.isfinite(game.smallest) and math.isfinite(game.largest)


def _points(forecaster: Forecaster, game: Game) -> str:
    """What is wrong where actions are points on one side only, or of another size."""
    mine = getattr(forecaster.learner, "point_size", 0)
    said = [
        f"points of {size} number{'s' if size > 1 else ''}" if size else "one of its actions"
        for size in (mine, game.point_size)
    ]
    return f"{forecaster!r} plays {said[0]}, {game!r} takes {said[1]}"


def _check_same(learner: Any, game: Any) -> None:
    """A learner of symbols is made for one game."""
    for what in ("loss", "symbols"):
        mine, its = getattr(learner, what), getattr(game, what, ())
        if mine != its:
            wrong = f"{what} {_short(mine)} there, {_short(its)} here"
            raise InvalidArgument(f"{type(learner).__name__} is made for another game than it is to play: {wrong}")


def _short(matrix: Any) -> str:
    return shorten(str([list(row) for row in matrix]), 80, placeholder=" ...")


def checkpoints_of(rounds: int) -> Integers:
    """About sixty rounds, evenly on a log scale; the last is the horizon."""
    return _spread(rounds).copy()


@lru_cache(64)
def _spread(rounds: int) -> Integers:
    spread = np.geomspace(1, rounds, min(rounds, CHECKPOINTS)).round().astype(np.int64)
    spread[-1] = rounds
    return np.unique(spread)


def _plain(column: Any) -> Integers:
    return np.ascontiguousarray(column, dtype=np.int64).view(np.ndarray)
