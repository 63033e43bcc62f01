"""Whose kernel it was: errors of kernels in words of the learner, the game or the delay law.

Numba tells of a mistake in a kernel in terms of the loop around it. All here runs when something has failed, and costs
nothing otherwise.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numba.core.errors import NumbaError, UnsupportedBytecodeError

from belated.errors import BadKernel, BelatedError
from belated.kernels import guard, pointers, states
from belated.kernels.compile import COMPILED, kernel, plain, source
from belated.kernels.random import key_of
from belated.kernels.reading import MAY, RAISES, attribute_line, offences, reachable, return_line
from belated.protocols import Delays, Game, Learner

#: Characters of a spec that a message shows.
SHOWN = 80
#: Errors of the compiler, and what else a mistake in a kernel may come as.
NUMBAS = (NumbaError, UnsupportedBytecodeError)
SIGNS = (*NUMBAS, KeyError, TypeError, AttributeError, NameError, ValueError, IndexError, NotImplementedError)
FLOATS = types.Array(types.float64, 1, "C")
DRAW = types.UniTuple(types.uint64, 5)


class Kernel(NamedTuple):
    """One kernel of a spec: what it is called, its function, the names and types of its arguments, what it returns."""

    name: str
    function: Any
    arguments: tuple[str, ...]
    types: tuple[Any, ...]
    returns: Callable[[Any], str | None]


def called(spec: Any) -> str:
    """A spec as messages show it."""
    text = repr(spec)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}...)"


def told(spec: Any, name: str, file: str, line: int, what: str) -> str:
    """Whose kernel, which, where, what is wrong, and the line itself."""
    written = linecache.getline(file, line).strip()
    return f"{called(spec)}, {name}, {file}, line {line}: {what}" + (f"\n    {written}" if written else "")


def frames_of(error: BaseException) -> list[tuple[CodeType, int]]:
    """The code and line of every frame that an error came through, NumPy and the guards aside; the outermost first."""
    inner = Path(guard.__file__), Path(states.__file__), Path(__file__).with_name("asked.py")
    found, trace = [], error.__traceback__
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if file not in inner and "numpy" not in file.parts:
            found.append((trace.tb_frame.f_code, trace.tb_lineno))
        trace = trace.tb_next
    return found


def traced(spec: Any, name: str, error: BaseException, what: str) -> str:
    """As `told`, for an error from a kernel that ran as plain Python: its line, and that of a function it calls."""
    frames, own = frames_of(error), source(getattr(spec, name)).__code__
    line = next((line for code, line in frames if code is own), None)
    if line is None:
        return told(spec, name, own.co_filename, own.co_firstlineno, what)
    deepest, at = frames[-1]
    if deepest is own:
        return told(spec, name, own.co_filename, at, what)
    name = f"{name}, {own.co_filename}, line {line}, in {deepest.co_name}"
    return told(spec, name, deepest.co_filename, at, what)


def kernels_of(spec: Any) -> list[Kernel]:
    """The kernels that a spec has."""
    if isinstance(spec, Learner):
        return list(_of_learner(spec))
    if isinstance(spec, Game):
        return list(_of_game(spec))
    given: tuple[str, ...] = ("params", "k0", "k1", "round_", "action")
    law: tuple[Any, ...] = (pointers.VECTOR, types.uint64, types.uint64, types.int64, types.int64)
    if spec.depends_on_reward:
        given, law = (*given, "reward"), (*law, types.float64)
    return [Kernel("kernel", spec.kernel, given, law, _whole)]


def _of_learner(spec: Learner) -> Iterator[Kernel]:
    record = numba.from_dtype(states.params(spec).dtype), numba.from_dtype(states.state_dtype(spec))
    asked = ("params", "state", "context", "draw")
    yield Kernel("predict", spec.predict, asked, (*record, FLOATS, DRAW), _prediction)
    answered = ("params", "state", "context", "action", "probability", "feedback")
    given = (*record, FLOATS, types.int64, types.float64, FLOATS)
    yield Kernel("update", spec.update, answered, given, _anything)
    if spec.replace is not None:
        yield Kernel("replace", spec.replace, ("params", "state", "action"), (*record, types.int64), _anything)
    if spec.lost is not None:
        yield Kernel("lost", spec.lost, answered[:-1], given[:-1], _anything)
    if spec.predict_among is not None:
        among = (*record, FLOATS, types.Array(types.int64, 1, "C"), DRAW)
        yield Kernel("predict_among", spec.predict_among, (*asked[:3], "allowed", "draw"), among, _prediction)


def _of_game(spec: Game) -> Iterator[Kernel]:
    head = ("params", "memory")
    drawn = (*head, "k0", "k1", "round_")
    yield Kernel("outcome", spec.outcome, (*drawn, "action", "feedback"), pointers.OUTCOME_SIGNATURE.args, _number)
    yield Kernel("regret", spec.regret, head, pointers.REGRET_SIGNATURE.args, _number)
    if spec.announces and spec.event is not None:
        yield Kernel("event", spec.event, drawn, pointers.EVENT_SIGNATURE.args, _whole)
    if spec.context_size and spec.observe is not None:
        yield Kernel("observe", spec.observe, (*drawn, "context"), pointers.OBSERVE_SIGNATURE.args, _anything)


def _anything(given: Any) -> None:
    return None


def _number(given: Any) -> str | None:
    return None if isinstance(given, types.Number | types.Boolean) else f"it must return a number, it returns {given}"


def _whole(given: Any) -> str | None:
    return None if isinstance(given, types.Integer) else f"it must return a whole number, it returns {given}"


def _prediction(given: Any) -> str | None:
    if not isinstance(given, types.BaseTuple) or len(given) != 2:
        return f"it must return the action and its probability (1.0 if it draws nothing), it returns {_said(given)}"
    pair: Any = given
    action, probability = pair
    if not isinstance(action, types.Integer):
        return f"the action that it returns must be a whole number, it is a {action}: use int(...)"
    return _number(probability)


def _said(given: Any) -> str:
    if isinstance(given, types.Optional):
        return "nothing at the end of some of its ways: return a pair on each"
    return "one number" if isinstance(given, types.Number) else f"{given}"


def arity(spec: Any, each: Kernel) -> str | None:
    """What is wrong with the arguments that a kernel takes, in words; None if nothing is."""
    function = source(each.function)
    if not isinstance(function, FunctionType):
        return None
    wanted, code = len(each.arguments), function.__code__
    least = code.co_argcount - len(function.__defaults__ or ())
    if least <= wanted <= code.co_argcount and not code.co_kwonlyargcount:
        return None
    own = code.co_varnames[: code.co_argcount]
    what = f"it must take {wanted} arguments ({', '.join(each.arguments)}), it takes {len(own)} ({', '.join(own)})"
    if own[:1] == ("self",):
        what = f"kernels are static: write @staticmethod before it, and take self away; {what}"
    return told(spec, each.name, code.co_filename, code.co_firstlineno, what)


def diagnose(spec: Any) -> BadKernel | None:
    """Compile each kernel of a spec by itself, and say what is wrong with the first that cannot work."""
    for each in kernels_of(spec):
        function = source(each.function)
        wrong = arity(spec, each)
        if wrong is not None:
            return BadKernel(wrong)
        if not COMPILED or not isinstance(function, FunctionType):
            continue
        dispatcher = kernel(function)
        try:
            dispatcher.compile(each.types)
        except SIGNS as error:
            made = BadKernel(_explained(spec, each, error))
            made.__cause__ = error
            return made
        what = each.returns(types.unliteral(dispatcher.overloads[each.types].signature.return_type))
        if what is not None:
            return BadKernel(told(spec, each.name, function.__code__.co_filename, return_line(function), what))
    return None


def _explained(spec: Any, each: Kernel, error: Exception) -> str:
    """An error of Numba in a line or two."""
    code = source(each.function).__code__
    text = re.sub(r"\x1b\[\d*m", "", str(error))
    if isinstance(error, KeyError):  # a field that a record does not have
        found = attribute_line(each.function, str(error.args[0]))
        if found is not None:
            return told(spec, each.name, found.file, found.line, _field(spec, found.what))
    file, line = code.co_filename, code.co_firstlineno
    places = re.findall(r"(?:During: typing of [^\n]* at|Raised from) (\S[^\n]*) \((\d+)\)", text)
    at = getattr(error, "loc", None)
    if places:
        file, line = places[0][0], int(places[0][1])
    elif at is not None and at.filename:
        file, line = at.filename, int(at.line)
    for offence in offences(each.function):
        if (offence.file, offence.line) == (file, line):
            return told(spec, each.name, file, line, f"it {offence.what}")
    return told(spec, each.name, file, line, _short(text))


def _short(text: str) -> str:
    bare = re.search(r">>> (\w+)\(float64\*", text)
    if bare:
        return (
            f"{bare[1]} of a vector that is a bare pointer in the compiled loop: index it by whole numbers, but ask "
            "for no length and no slice (put sizes into params)"
        )
    call = re.search(r">>> (.*)", text)
    if call and re.fullmatch(r"[gs]etitem\((nested)?array\(.*, float64(, .*)?\)", call[1]):
        return "an index must be a whole number: use int(...)"
    if call and re.match(r"[gs]etitem\((float64|int64),", call[1]):
        return "it takes a single number by an index: the field is no vector"
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith(("Failed in", "During:", "File"))]
    first = said[0] if said else "it cannot be compiled"
    if first.startswith("NameError"):
        return first
    return f"{first}{f' {call[1]}' if call else ''}; {MAY}"


def _field(spec: Any, name: str) -> str:
    known = (
        {"state": states.state_dtype(spec), "params": states.params(spec).dtype} if isinstance(spec, Learner) else {}
    )
    there = ", ".join(f"{owner} has {', '.join(dtype.names or ())}" for owner, dtype in known.items())
    names = [field for dtype in known.values() for field in dtype.names or ()]
    return f"there is no field {name!r}: {there}{states.near(name, names)}"


def parts(spec: Any) -> Iterator[Any]:
    """A spec and those inside it, the innermost first."""
    if not isinstance(spec, Learner | Game | Delays):
        return
    for name in ("learner", "games", "laws", "law"):
        inner = vars(spec).get(name, ()) if hasattr(spec, "__dict__") else ()
        for each in inner if isinstance(inner, list | tuple) else (inner,):
            yield from parts(each)
    yield spec


def check_allowed(*specs: Any) -> None:
    """Refuse specs of others whose kernels do what kernels may not: a CPU may forgive it, a GPU does something else.

    It has no memory to give and no exceptions: the line after a `raise` would just be run.
    """
    suspects = [part for spec in specs for part in parts(spec)]
    for suspect in (each for each in suspects if not type(each).__module__.startswith("belated.")):
        for each in kernels_of(suspect):
            for found in offences(each.function):
                what = f"it {found.what}, which a GPU cannot; {MAY}"
                raise BadKernel(told(suspect, each.name, found.file, found.line, what))


def blame(error: Exception, specs: Iterable[Any]) -> BadKernel | None:
    """The error of ours that an error comes from, if a kernel of one of these specs is guilty."""
    if isinstance(error, BelatedError) or not isinstance(error, SIGNS):
        return None
    suspects = [part for spec in specs for part in parts(spec)]
    frames = frames_of(error)
    for spec in suspects:
        for each in kernels_of(spec):
            if any(code is getattr(source(each.function), "__code__", None) for code, _ in frames):
                what = str(error) if isinstance(error, AttributeError) else f"{type(error).__name__}: {error}"
                return BadKernel(traced(spec, each.name, error, what))
            raised = _raised(spec, each, error, frames)
            if raised is not None:
                return raised
    last = frames[-1][0].co_filename if frames else ""
    if not isinstance(error, NUMBAS) and not re.search(r"[/\\](belated|numba)[/\\]", last):
        return None  # somebody else's
    own = (spec for spec in suspects if not type(spec).__module__.startswith("belated."))
    return next((found for spec in own if (found := diagnose(spec) or _answer(spec)) is not None), None)


def _raised(spec: Any, each: Kernel, error: Exception, frames: list[tuple[CodeType, int]]) -> BadKernel | None:
    """What a compiled kernel, or one that it calls, raised itself.

    Its last frame is made up, by file and name; the line is that of when it was compiled.
    """
    last = frames[-1][0] if frames else None
    for function in reachable(each.function) if COMPILED else ():
        code = function.__code__
        if last is not None and (code.co_filename, code.co_name) == (last.co_filename, last.co_name):
            lines = [
                found.line for found in offences(function) if found.what == RAISES and found.file == code.co_filename
            ]
            line = lines[0] if len(lines) == 1 else code.co_firstlineno
            return BadKernel(told(spec, each.name, code.co_filename, line, f"{type(error).__name__}: {error}"))
    return None


def _answer(spec: Any) -> BadKernel | None:
    """Whether a learner's first answer is none, in plain Python."""
    if not isinstance(spec, Learner):
        return None
    state, params = (made.view(states.PlainRecords)[0] for made in (states.blank(spec), states.params(spec)))
    state.predictions += 1
    draw = (*key_of(0, 0), np.uint64(1), np.uint64(0), np.uint64(3))
    said = plain(spec.predict)(params, state, np.zeros(spec.context_size), draw)
    return bad_answer(spec, said)


def bad_answer(spec: Learner, said: Any, name: str = "predict") -> BadKernel | None:
    """The error for what a predict kernel returned in plain Python; None if it is an action and a probability."""
    function = source(getattr(spec, name))
    what = "it must return the action and its probability (1.0 if it draws nothing)"
    if isinstance(said, tuple) and len(said) == 2:
        if isinstance(said[0], int | np.integer):
            return None
        what = "the action that it returns must be a whole number"
    code = function.__code__
    return BadKernel(told(spec, name, code.co_filename, return_line(function), f"{what}, it returned {said!r}"))


def retell(error: Exception, *specs: Any) -> None:
    """Raise `BadKernel` if the error comes from a kernel of one of these specs; else do nothing."""
    try:
        found = blame(error, specs)
    except Exception:  # a spec that cannot even be looked at: its own error says more
        return
    if found is not None:
        raise found from (found.__cause__ or error)


@contextmanager
def blamed(*specs: Any) -> Iterator[None]:
    """Errors inside that come from a kernel of these specs are raised as `BadKernel`."""
    try:
        yield
    except Exception as error:
        retell(error, *specs)
        raise
