"""Forecasters as bytes: a header that says what they are, arrays, and a digest of all. Never pickle.

    magic | length of header | header (JSON) | arrays, one behind the other | SHA-256 of all before

The header carries the forecaster with its parameters and its learner, the learner's version and the layout of its
state: bytes of another version or layout are refused by name, not misread.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import inspect
import json
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.errors import InvalidArgument, InvalidState
from belated.forecasters.room import Letter
from belated.kernels.states import blank, state_dtype
from belated.protocols import Learner

if TYPE_CHECKING:
    from belated.forecasters.base import Forecaster
    from belated.forecasters.process import Process

MAGIC = b"belated\x02"
FIRST = b"belated\x01"
DIGEST = 32


def spec_data(spec: Any) -> dict[str, Any]:
    """A spec as plain data: its name in lower case, and its fields (specs within specs likewise).

    >>> import belated as bl
    >>> spec_data(bl.KLUCB(actions=3))
    {'name': 'klucb', 'actions': 3, 'c': 3.0}
    """
    if hasattr(spec, "to_fields"):
        fields = spec.to_fields()
    else:
        fields = {field.name: getattr(spec, field.name) for field in dataclasses.fields(spec) if field.init}
    return {"name": name_of(spec), **{name: _plain(value) for name, value in fields.items()}}


def name_of(spec: Any) -> str:
    """The name that stands for a spec's class in data, unless another class would come back for it."""
    kind: type = type(spec)
    name = kind.__name__.lower()
    if dataclasses.is_dataclass(kind):
        check_fields(kind)
    if not kind.__module__.startswith("belated."):
        root = [each for each in kind.__mro__ if each.__module__.startswith("belated.")][-1]
        for other in _below(root):
            own = other.__module__.startswith("belated.") and not inspect.isabstract(other)
            if own and other.__name__.lower() == name:
                mine = f"{kind.__module__}.{kind.__qualname__}"
                raise InvalidArgument(f"{mine} cannot be written as data: there {name!r} is belated's own; rename it")
    return name


def check_fields(kind: type[Any]) -> None:
    """Refuse a class with a field that data could not tell from its name."""
    if any(field.name == "name" and field.init for field in dataclasses.fields(kind)):
        raise InvalidArgument(f"{kind.__name__} cannot have a field called 'name': in data that is its class")


def _below(root: type[Any]) -> Iterator[type[Any]]:
    for each in root.__subclasses__():
        yield each
        yield from _below(each)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return spec_data(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value


def layout_text(learner: Learner) -> str:
    """The layout of a learner's state, as text that two versions can compare."""
    dtype = state_dtype(learner)
    return json.dumps([[name, str(dtype[name]), dtype.fields[name][1]] for name in dtype.names])  # type: ignore


def save(forecaster: Forecaster) -> bytes:
    """Write a forecaster over a spec; its seed and replication decide what it draws."""
    room, learner = forecaster._room, forecaster.learner
    arrays = to_arrays(room)
    header = {
        "forecaster": forecaster_data(forecaster),
        "version": learner.version,
        "layout": layout_text(learner),
        "seed": room.seed,
        "replication": room.replication,
        "notes": None if room.notes is None else _dtype_text(room.notes.dtype),
        "arrays": {name: [a.dtype.str, list(a.shape)] for name, a in arrays.items()},
    }
    text = json.dumps(header).encode()
    body = b"".join(np.ascontiguousarray(a).tobytes() for a in arrays.values())
    whole = MAGIC + len(text).to_bytes(8, "little") + text + body
    return whole + hashlib.sha256(whole).digest()


def forecaster_data(forecaster: Forecaster) -> dict[str, Any]:
    """A forecaster as plain data: its name, its learner, and those of its parameters that are not as by default."""
    name = name_of(forecaster)
    usual = {each.name: each.default for each in dataclasses.fields(forecaster)}
    given = {key: value for key, value in forecaster.parameters().items() if value != usual[key]}
    return {"name": name, "learner": spec_data(forecaster.learner), **{key: _plain(v) for key, v in given.items()}}


def to_arrays(room: Process) -> dict[str, Any]:
    """Everything that is not in the spec, as arrays by name."""
    learner = room.spec
    assert learner is not None
    opened = list(room.pending.values())
    waiting = [(queue, *pair) for queue, pairs in sorted(room.queues.items()) for pair in pairs]
    empty = np.zeros((0, learner.feedback_size))
    feedback = [np.full(learner.feedback_size, np.nan) if told is None else told for *_, told in waiting]
    idle = sorted(number for free in room.idle.values() for number in free)
    usual = idle == _without_ticket(room, len(room.seats)) or not room.rule.grows
    return {
        "counters": np.array([room.issued, room.peak, room.dropped], dtype="i8"),
        "stale": np.array([ticket for ticket in room.pending if ticket in room.stale], dtype="i8"),
        **_letters("open", opened, learner),
        "states": np.concatenate([empty_states(learner), *(seat.learner.state for seat in room.seats)]),
        "pools": np.array([seat.pool for seat in room.seats], dtype="i8"),
        "asked": np.array(room.asked or [], dtype="i8"),
        "notes": np.frombuffer(b"" if room.notes is None else room.notes.tobytes(), "u1"),
        "queues": np.array([queue for queue, *_ in waiting], dtype="i8"),
        **_letters("queued", [letter for _, letter, _ in waiting], learner),
        "feedback": np.array(feedback or empty, dtype="f8"),
        **({} if usual else {"idle": np.array(idle, dtype="i8")}),
    }


def _without_ticket(room: Process, seats: int) -> list[int]:
    """The instances that no open ticket names: those that are free, unless the rule keeps others busy."""
    busy = {letter.seat for letter in room.pending.values()}
    return [number for number in range(seats) if number not in busy]


def empty_states(learner: Learner) -> Any:
    return np.zeros(0, state_dtype(learner))


def _letters(name: str, letters: list[Letter], learner: Learner) -> dict[str, Any]:
    rows = [(each.ticket, each.action, each.seat, each.number) for each in letters]
    width = learner.context_size
    contexts = [np.zeros(width) if each.context is None else each.context for each in letters]
    memos = [np.zeros(learner.memo) if each.memo is None else each.memo for each in letters]
    return {
        f"{name}_tickets": np.array(rows, dtype="i8").reshape(-1, 4),
        f"{name}_probabilities": np.array([each.probability for each in letters], dtype="f8"),
        f"{name}_contexts": np.array(contexts, dtype="f8").reshape(len(letters), width),
        f"{name}_memos": np.array(memos, dtype="f8").reshape(len(letters), learner.memo),
    }


def restore(room: Process, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Take back what `to_arrays` gave."""
    learner = room.spec
    assert learner is not None
    if header["notes"] != (None if room.notes is None else _dtype_text(room.notes.dtype)):
        raise InvalidState(f"the notes of {type(room.rule).__name__} were saved as {header['notes']}")
    room.issued, room.peak, room.dropped = (int(x) for x in arrays["counters"])
    room.stale = {int(ticket) for ticket in arrays["stale"]}
    room.pending = {letter.ticket: letter for letter in _read_letters("open", arrays)}
    room.seats.clear()
    room.idle = {}
    pools = arrays["pools"].tolist()
    idle = set(arrays["idle"].tolist() if "idle" in arrays else _without_ticket(room, len(pools)))
    for number, pool in enumerate(pools):
        seat = room.make(pool)
        seat.learner.state[0] = arrays["states"][number]
        if room.rule.grows and number in idle:
            room.idle.setdefault(pool, []).append(number)
    if room.asked is not None:
        room.asked = [int(x) for x in arrays["asked"]]
    if room.notes is not None:
        room.book[:] = np.frombuffer(arrays["notes"].tobytes(), room.notes.dtype)
    room.queues = {}
    waiting = zip(arrays["queues"].tolist(), _read_letters("queued", arrays), arrays["feedback"], strict=True)
    for queue, letter, told in waiting:
        known = None if np.isnan(told).any() else told.copy()
        room.queues.setdefault(queue, deque()).append((letter, known))
    fits = all(
        0 <= letter.action < (room.actions or 0) and 0 <= letter.seat < len(room.seats)
        for letter in room.pending.values()
    )
    if not fits or not room.stale <= room.pending.keys():
        raise InvalidState("the saved tickets do not fit the saved learner")


def _read_letters(name: str, arrays: dict[str, Any]) -> list[Letter]:
    parts = (arrays[f"{name}_{part}"] for part in ("tickets", "probabilities", "contexts", "memos"))
    letters = []
    for row, probability, context, memo in zip(*parts, strict=True):
        ticket, action, seat, number = (int(x) for x in row)
        known = context.copy() if len(context) else None
        kept = memo.copy() if len(memo) else None
        letters.append(Letter(ticket, action, float(probability), known, seat, number, kept))
    return letters


def read_header(data: Any) -> tuple[dict[str, Any], bytes]:
    """The header and the bytes of the arrays, after checking that they are whole."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidState(f"a saved forecaster is bytes, got {type(data).__name__}")
    data = bytes(data)
    if not data.startswith(MAGIC[:-1]):
        raise InvalidState(f"these bytes are not a saved forecaster: they start with {data[:8]!r}")
    if len(data) >= len(MAGIC) and not data.startswith((MAGIC, FIRST)):
        raise InvalidState(f"saved in format {data[len(MAGIC) - 1]}, this version reads formats 1 to {MAGIC[-1]}")
    if len(data) < len(MAGIC) + 8 + DIGEST or hashlib.sha256(data[:-DIGEST]).digest() != data[-DIGEST:]:
        raise InvalidState(f"the saved forecaster is damaged: its {len(data)} bytes do not match their digest")
    start = len(MAGIC) + 8
    length = int.from_bytes(data[len(MAGIC) : start], "little")
    header: dict[str, Any] = json.loads(data[start : start + length])
    if data.startswith(FIRST):
        header["forecaster"] = {"name": header["forecaster"], "learner": header["learner"]}
    return header, data[start + length : -DIGEST]


def unpack(header: dict[str, Any], body: bytes, learner: Learner) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays, once version and layout agree with the learner as it is now, or its `migrate` makes them agree."""
    name = type(learner).__name__
    layout = header["layout"]
    older = header["version"] != learner.version
    if older and (learner.migrate is None or header["version"] > learner.version):
        raise InvalidState(f"saved by {name} version {header['version']}, this is version {learner.version}")
    if not older and layout != layout_text(learner):
        raise InvalidState(f"the state of {name} was saved as {layout}, here it is {layout_text(learner)}")
    arrays = {}
    at = 0
    for key, (code, shape) in header["arrays"].items():
        dtype = np.dtype(code)
        if key == "states":
            dtype = dtype_of(layout, dtype.itemsize) if older else state_dtype(learner)
        size = dtype.itemsize * int(np.prod(shape))
        arrays[key] = np.frombuffer(body[at : at + size], dtype).reshape(shape)
        at += size
    if older:
        states = [migrated(learner, header["version"], old) for old in arrays["states"]]
        arrays["states"] = np.concatenate([empty_states(learner), *states])
    return arrays if "open_tickets" in arrays else _from_first(header, arrays, learner)


def migrated(learner: Learner, version: int, old: Any) -> Any:
    """A state of an earlier version as one of the learner's own: an array of one record."""
    fresh = blank(learner)
    for name in ("predictions", "answering", "open", "memo"):
        if name in (old.dtype.names or ()) and name in (fresh.dtype.names or ()):
            fresh[name] = old[name]
    learner.migrate(version, old, fresh[0])
    return np.asarray(fresh)


def dtype_of(layout: str, size: int) -> np.dtype[Any]:
    """The record that a layout text describes."""
    names, formats, offsets = zip(*json.loads(layout), strict=True)
    kinds = [ast.literal_eval(text) if text[0] in "([{" else text for text in formats]
    return np.dtype({"names": names, "formats": kinds, "offsets": offsets, "itemsize": size})


def _from_first(header: dict[str, Any], old: dict[str, Any], learner: Learner) -> dict[str, Any]:
    """Arrays of format 1, which knew Direct, BOLD and QPM-D by name."""
    count, none = len(old["states"]), np.zeros((0, 4), "i8")
    tickets = old["tickets"]
    dropped = old["dropped"] if "dropped" in old else np.zeros(1, "i8")  # older still: before actions were replaced
    arrays = {
        "counters": np.concatenate([old["counters"], dropped]),
        "stale": old.get("stale", np.zeros(0, "i8")),
        "open_tickets": tickets,
        "open_probabilities": old["probabilities"],
        "open_contexts": old["contexts"],
        "open_memos": np.zeros((len(tickets), 0)),
        "states": old["states"],
        "pools": np.zeros(count, "i8"),
        "asked": np.zeros(0, "i8"),
        "notes": np.zeros(0, "u1"),
        "queues": np.zeros(0, "i8"),
        "feedback": np.zeros((0, learner.feedback_size)),
    }
    waiting = 0
    header["notes"] = None
    if "held" in old:  # the actions that QPM-D held, how often it asked, and for what
        values = len(old["held_probability"])
        held = np.zeros(values, [("action", "<i8"), ("probability", "<f8")])
        held["action"], held["probability"] = old["held"][:values], old["held_probability"]
        notes = np.dtype([("held", held.dtype, (values,))])
        waiting = len(old["queue_actions"])
        header["notes"] = _dtype_text(notes)
        arrays |= {
            "asked": old["held"][values + 1 :],
            "notes": np.frombuffer(held.tobytes(), "u1"),
            "queues": old["queue_actions"],
            "feedback": old["queue_feedback"],
        }
    return arrays | {
        "queued_tickets": np.zeros((waiting, 4), "i8") if waiting else none,
        "queued_probabilities": np.ones(waiting),
        "queued_contexts": np.zeros((waiting, 0)),
        "queued_memos": np.zeros((waiting, 0)),
    }


def _dtype_text(dtype: np.dtype[Any]) -> str:
    return json.dumps(dtype.descr)
