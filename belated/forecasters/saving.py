"""Forecasters as bytes: a header that says what they are, arrays, and a digest of all. Never pickle.

    magic | length of header | header (JSON) | arrays, one behind the other | SHA-256 of all before

The header carries the spec of the learner, its version and the layout of its state: bytes of another version or
layout are refused by name, not misread.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import numpy as np

from belated.errors import InvalidState
from belated.kernels.states import state_dtype
from belated.protocols import Learner

MAGIC = b"belated\x01"
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
    return {"name": type(spec).__name__.lower(), **{name: _plain(value) for name, value in fields.items()}}


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


def pack(forecaster: str, learner: Learner, stream: tuple[int, int], arrays: dict[str, np.ndarray[Any, Any]]) -> bytes:
    """Write a forecaster; `stream` is its seed and replication, which decide what it draws."""
    header = {
        "forecaster": forecaster,
        "learner": spec_data(learner),
        "version": learner.version,
        "layout": layout_text(learner),
        "seed": stream[0],
        "replication": stream[1],
        "arrays": {name: [a.dtype.str, list(a.shape)] for name, a in arrays.items()},
    }
    text = json.dumps(header).encode()
    body = b"".join(np.ascontiguousarray(a).tobytes() for a in arrays.values())
    whole = MAGIC + len(text).to_bytes(8, "little") + text + body
    return whole + hashlib.sha256(whole).digest()


def read_header(data: Any) -> tuple[dict[str, Any], bytes]:
    """The header and the bytes of the arrays, after checking that they are whole."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidState(f"a saved forecaster is bytes, got {type(data).__name__}")
    data = bytes(data)
    if not data.startswith(MAGIC[:-1]):
        raise InvalidState(f"these bytes are not a saved forecaster: they start with {data[:8]!r}")
    if len(data) >= len(MAGIC) and not data.startswith(MAGIC):
        raise InvalidState(f"saved in format {data[len(MAGIC) - 1]}, this version reads format {MAGIC[-1]}")
    if len(data) < len(MAGIC) + 8 + DIGEST or hashlib.sha256(data[:-DIGEST]).digest() != data[-DIGEST:]:
        raise InvalidState(f"the saved forecaster is damaged: its {len(data)} bytes do not match their digest")
    start = len(MAGIC) + 8
    length = int.from_bytes(data[len(MAGIC) : start], "little")
    header: dict[str, Any] = json.loads(data[start : start + length])
    return header, data[start + length : -DIGEST]


def unpack(header: dict[str, Any], body: bytes, learner: Learner) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays, once version and layout agree with the learner as it is now."""
    name = type(learner).__name__
    if header["version"] != learner.version:
        raise InvalidState(f"saved by {name} version {header['version']}, this is version {learner.version}")
    if header["layout"] != layout_text(learner):
        raise InvalidState(f"the state of {name} was saved as {header['layout']}, here it is {layout_text(learner)}")
    arrays = {}
    at = 0
    for key, (code, shape) in header["arrays"].items():
        dtype = state_dtype(learner) if key == "states" else np.dtype(code)
        size = dtype.itemsize * int(np.prod(shape))
        arrays[key] = np.frombuffer(body[at : at + size], dtype).reshape(shape)
        at += size
    return arrays
