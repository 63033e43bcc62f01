"""Arrays of records on a device as the host reads and writes them: of each lane so many rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from belated.engine.cuda import spread
from belated.kernels import states
from belated.kernels.compile import COMPILED


def blank(kind: Any, rows: int, lanes: int) -> tuple[tuple[int, ...], Any]:
    """The shape and the dtype of the array for so many rows of so many lanes: cells, or in plain Python the records."""
    if not COMPILED:
        return (rows, lanes), kind
    if kind.width == 1:
        return (lanes, rows, kind.cells), np.int64
    return (-(-lanes // kind.width), rows, kind.cells, kind.width), np.int64


def filled(kind: Any, record: Any, lanes: int) -> Any:
    """An array, here, in which all lanes have this one record."""
    shape, dtype = blank(kind, 1, lanes)
    if not COMPILED:
        return np.repeat(record[None], lanes, axis=1).view(type(record))
    cells = np.zeros((1, kind.cells), np.int64)
    spread.write(kind, cells, record)
    return np.ascontiguousarray(np.broadcast_to(cells[0][:, None] if kind.width > 1 else cells[0], shape), dtype)


def get(device: Any, kind: Any, array: Any, row: int, lane: int, dtype: Any) -> Any:
    """One record."""
    if not COMPILED:
        return device.get(array[row, lane : lane + 1])
    found = states.records(dtype, 1)
    group, place = divmod(lane, kind.width)
    cells = device.get(array[group, row])
    spread.read(kind, cells[None] if kind.width == 1 else np.ascontiguousarray(cells[:, place])[None], found)
    return found


def put(device: Any, kind: Any, array: Any, row: int, lane: int, record: Any) -> None:
    """Write one record."""
    if not COMPILED:
        device.set(array[row, lane : lane + 1], record)
        return
    group, place = divmod(lane, kind.width)
    cells = device.get(array[group, row])
    changed = np.zeros((1, kind.cells), np.int64)
    spread.write(kind, changed, record)
    cells[...] = changed[0] if kind.width == 1 else np.where(np.arange(kind.width) == place, changed[0][:, None], cells)
    device.set(array[group, row], cells)
