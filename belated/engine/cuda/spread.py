"""Records whose numbers lie apart: between two numbers of one are those of its neighbours.

Threads of a GPU that work side by side read memory well where what they read at once lies side by side. So records are
laid out in cells of eight bytes, and the cells of `width` records in turn: cell k of record i is at k * width + i. To
kernels they are records and arrays like any other. With width 1 it is a plain record.

Whole numbers that stay small, if it is said which, take half a cell; two that are alike share one.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel.models import ArrayModel, NestedArrayModel, RecordModel
from numba.core.imputils import lower_builtin
from numba.core.ir_utils import _add_alias, alias_func_extensions
from numba.core.typeconv.castgraph import Conversion
from numba.extending import intrinsic, register_model
from numba.np.arrayobj import fix_integer_index, make_array, populate_array
from numba.np.numpy_support import as_dtype, from_dtype

from belated.kernels.compile import COMPILED
from belated.kernels.states import records

#: Bytes of a cell; how many neighbours a GPU has work together.
CELL = 8
TOGETHER = 32
#: Bytes that a GPU fetches at once, and how often it is told to fetch the beginning of something large.
SECTOR, MOST_SECTORS = 32, 32


class Apart(types.NestedArray):
    """An array in such a record."""

    def __init__(self, dtype: Any, shape: tuple[int, ...], step: int) -> None:
        self._shape, self.step = shape, step
        name = f"apart({dtype}, {shape}, {step})"
        types.Array.__init__(self, dtype, len(shape), "A", name=name)

    def __repr__(self) -> str:
        """By it compiled code is known again: that of other records must not be taken for it."""
        return str(self.name)

    @property
    def strides(self) -> tuple[int, ...]:
        found = [self.step]
        for size in reversed(self._shape[1:]):
            found.insert(0, found[0] * size)
        return tuple(found)

    @property
    def key(self) -> Any:
        return self.dtype, self._shape, self.step


class Spread(types.Record):
    """Such a record. Its value is the place of its first cell."""

    def __init__(self, fields: list[Any], cells: int, width: int) -> None:
        self.cells, self.width = cells, width
        super().__init__(fields, CELL * width * cells, True)
        self.name = f"spread({width}, {self.name})"

    def __repr__(self) -> str:
        return str(self.name)

    @property
    def dtype(self) -> Any:
        return np.dtype((np.void, self.size))

    def can_convert_from(self, typing_context: Any, other: Any) -> Any:
        """What is put into an array of these is copied field by field."""
        alike = isinstance(other, types.Record) and set(other.fields) == set(self.fields)
        return Conversion.safe if alike else None


class Spreads(types.Array):
    """An array of them."""

    def __init__(self, dtype: Spread) -> None:
        super().__init__(dtype, 1, "C", name=f"spreads({dtype})")


def spread(
    dtype: np.dtype[Any], width: int, small: Collection[str] = (), instead: Mapping[str, str] | None = None
) -> Spread:
    """The record with the fields of a dtype, `small` ones in half a cell.

    A field that need not be told from an earlier one has its place: `instead` says which has which.

    >>> kind = spread(np.dtype([("mean", "f8", (3,)), ("seen", "i8", (3,)), ("told", "i8")]), 32, ("seen", "told"))
    >>> kind.cells, kind.offset("told") == 6 * 32 * CELL
    (7, True)
    """
    if not COMPILED:
        return dtype  # type: ignore[return-value]
    step = CELL * width
    fields: dict[str, Any] = {}
    halves: dict[tuple[int, ...], int] = {}  # of each shape the cell whose second half is free
    cells = 0
    for name in dtype.names or ():
        base, shape = dtype[name].base, dtype[name].shape
        inner: Any = spread(base, width, small) if base.names else None
        count = math.prod(shape) * (inner.cells if base.names else 1)
        if base.names:
            kind: Any = types.NestedArray(inner, shape) if shape else inner
        else:
            inner = from_dtype(np.dtype("i4") if name in small and base == np.int64 else base)
            kind = Apart(inner, shape, step) if shape else inner
        if instead and name in instead:
            fields[name] = {"type": kind, "offset": fields[instead[name]]["offset"]}
            continue
        half = not base.names and inner.bitwidth <= 4 * CELL
        if half and shape in halves:
            fields[name] = {"type": kind, "offset": halves.pop(shape) * step + CELL // 2}
            continue
        if half:
            halves[shape] = cells
        fields[name] = {"type": kind, "offset": cells * step}
        cells += count
    return Spread(list(fields.items()), max(cells, 1), width)


def read(kind: Spread, cells: Any, records: Any) -> None:
    """Write into NumPy's records what cells say, the last axis of their array."""
    for numbers, field in _both(kind, cells, records):
        field[...] = numbers


def write(kind: Spread, cells: Any, records: Any) -> None:
    """The other way round."""
    for numbers, field in _both(kind, cells, records):
        numbers[...] = field


def _both(kind: Spread, cells: Any, records: Any) -> Iterator[tuple[Any, Any]]:
    """The numbers of each field in cells, and in records."""
    known: Any
    for name, known in kind.fields.items():
        first, half = divmod(known.offset, CELL * kind.width)
        nested = isinstance(known.type, types.NestedArray)
        number = known.type.dtype if nested else known.type
        field = records[name] if nested else records[name][..., None]
        count = math.prod(field.shape[cells.ndim - 1 :])
        if isinstance(number, Spread):
            for i in range(count):
                start = first + i * number.cells
                yield from _both(number, cells[..., start : start + number.cells], field[..., i])
            continue
        size = number.bitwidth // 8
        part = cells[..., first : first + count].view(as_dtype(number))
        yield part[..., half // size :: CELL // size].reshape(field.shape), field


def further(builder: Any, pointer: Any, offset: Any, kind: Any = None) -> Any:
    """A pointer so many bytes further. Numba makes a number of it on the way, behind which NVIDIA's compiler does not
    see what memory it points to."""
    offset = ir.IntType(64)(offset) if isinstance(offset, int) else offset
    moved = builder.gep(builder.bitcast(pointer, ir.IntType(8).as_pointer()), [offset])
    return builder.bitcast(moved, kind or pointer.type)


def size(kind: Any) -> int:
    """Bytes of a record by itself."""
    return int(CELL * kind.cells if isinstance(kind, Spread) else kind.itemsize)


def as_places(model: Any) -> Any:
    """A model of records for those that are spread: how Numba handles them, which is by their place."""

    class Places(model):  # type: ignore[misc]
        def as_data(self, builder: Any, value: Any) -> Any:
            raise TypeError("a record whose numbers lie apart is put into an array by index only")

    return Places


register_model(Apart)(NestedArrayModel)
register_model(Spreads)(ArrayModel)
register_model(Spread)(as_places(RecordModel))


def set_record(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """array[index] = record, field by field."""
    array, index, record = signature.args
    made = make_array(array)(context, builder, values[0])
    place = fix_integer_index(context, builder, index, values[1], builder.extract_value(made.shape, 0))
    at = further(builder, made.data, builder.mul(place, builder.extract_value(made.strides, 0)))
    _copy(context, builder, array.dtype, builder.bitcast(at, made.data.type), record, values[2])
    return context.get_dummy_value()


def _copy(context: Any, builder: Any, kind: Any, to: Any, of: Any, given: Any) -> None:
    """All fields that both have."""
    for name in kind.fields:
        if name in of.fields:
            _copy_field(context, builder, kind, to, of, given, name)


def _copy_field(context: Any, builder: Any, kind: Any, to: Any, of: Any, given: Any, name: str) -> None:
    sides = []
    for record, place in ((kind, to), (of, given)):
        field = record.typeof(name)
        nested = isinstance(field, types.NestedArray)
        number = field.dtype if nested else field
        step = field.strides[-1] if nested else 0
        first = cgutils.get_record_member(builder, place, record.offset(name), context.get_data_type(number))
        sides.append((number, first, step))
    (new, there, wide), (old, here, narrow) = sides
    word = context.get_value_type(types.intp)
    count = getattr(kind.typeof(name), "nitems", 1)
    with cgutils.for_range(builder, word(count)) as loop:
        target = further(builder, there, builder.mul(loop.index, word(wide)))
        source = further(builder, here, builder.mul(loop.index, word(narrow)))
        if isinstance(new, types.Record):
            _copy(context, builder, new, target, old, source)
        else:
            value = context.cast(builder, context.unpack_value(builder, old, source), old, new)
            context.pack_value(builder, new, value, target)


lower_builtin(operator.setitem, Spreads, types.Integer, types.Record)(set_record)


@cache
def view(kind: Spread) -> Any:
    """What makes an array of such records: of cells by group of neighbours, row, cell and neighbour, those of one of
    all neighbours."""
    if not COMPILED:
        return _column

    def typing(typing_context, cells, i):
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            array = make_array(signature.args[0])(context, builder, values[0])
            rows = builder.extract_value(array.shape, 1)
            word = context.get_value_type(types.intp)
            number = context.cast(builder, values[1], signature.args[1], types.intp)
            group, place = (operation(number, word(kind.width)) for operation in (builder.udiv, builder.urem))
            skipped = builder.mul(builder.mul(group, rows), word(kind.size))
            at = builder.add(skipped, builder.mul(place, word(CELL)))
            return _array(context, builder, signature.return_type, further(builder, array.data, at), rows)

        return Spreads(kind)(cells, i), generate

    return _named(typing, f"view {kind}")


def _array(context: Any, builder: Any, kind: Any, data: Any, rows: Any) -> Any:
    word = context.get_value_type(types.intp)
    size = word(kind.dtype.size)
    made = make_array(kind)(context, builder)
    data = builder.bitcast(data, context.get_data_type(kind.dtype).as_pointer())
    populate_array(made, data=data, shape=[rows], strides=[size], itemsize=size, meminfo=None)
    return made._getvalue()


@cache
def nearby(kind: Any, rows: int) -> Any:
    """What makes room for so many records where they are quick to reach, with one of all neighbours: to be filled
    before they are read, and gone when the kernel returns.

    On a GPU that is memory that neighbours share."""
    if not COMPILED:
        return lambda i: records(kind, rows)
    assert kind.width == TOGETHER, "neighbours would all have the same place"

    def typing(typing_context, i):
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            room = ir.ArrayType(ir.IntType(64), rows * kind.size // CELL)
            if builder.module.triple.startswith("nvptx"):
                name = builder.module.get_unique_name("belated_near")
                shared = cgutils.add_global_variable(builder.module, room, name, 3)
                shared.linkage, shared.align = "internal", CELL * kind.width
                shared.initializer = ir.Constant(room, ir.Undefined)
                data = builder.addrspacecast(shared, room.as_pointer(), "generic")
            else:
                with builder.goto_entry_block():
                    data = builder.alloca(room)
            word = context.get_value_type(types.intp)
            number = context.cast(builder, values[0], signature.args[0], types.intp)
            at = builder.mul(builder.urem(number, word(kind.width)), word(CELL))
            data = further(builder, builder.bitcast(data, ir.IntType(8).as_pointer()), at)
            return _array(context, builder, signature.return_type, data, word(rows))

        return Spreads(kind)(i), generate

    return _named(typing, f"nearby {rows} {kind}")


@cache
def own(dtype: np.dtype[Any], count: int) -> Any:
    """The same for plain records that a thread has for itself."""
    if not COMPILED:
        return lambda i: records(dtype, count)

    def typing(typing_context, i):
        kind = types.Array(from_dtype(dtype), 1, "C")

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            with builder.goto_entry_block():
                room = builder.alloca(ir.ArrayType(ir.IntType(64), -(-count * dtype.itemsize // 8)))
            word = context.get_value_type(types.intp)
            made = make_array(kind)(context, builder)
            data = builder.bitcast(room, made.data.type)
            size = word(dtype.itemsize)
            populate_array(made, data=data, shape=[word(count)], strides=[size], itemsize=size, meminfo=None)
            return made._getvalue()

        return kind(i), generate

    return _named(typing, f"own {count} {dtype}")


def _named(typing: Any, name: str) -> Any:
    """A function of compiled code, which is known again by its name."""

    def aliases(made: str, arguments: Any, alias_map: Any, arg_aliases: Any) -> None:
        _add_alias(made, arguments[0].name, alias_map, arg_aliases)  # else Numba takes what is written for dead

    alias_func_extensions[typing.__name__, __name__] = aliases
    compiled: Any = intrinsic(typing)
    compiled._belated_identity = name
    return compiled


def _typing(typing_context, array, index, record):
    return types.none(array, index, record), set_record


def _assign(array: Any, index: int, record: Any) -> None:
    if array.dtype == record.dtype:
        array[index] = record
        return
    to = array[index]
    for name in array.dtype.names:
        if name in record.dtype.names:
            to[name] = record[name]


def _column(rows: Any, i: int) -> Any:
    return rows[:, i]


def _soon_typing(typing_context, array, index):
    kind = array.dtype
    wide = isinstance(kind, Spread) and kind.width > 1
    size = kind.size if isinstance(kind, Spread) else 1
    step = CELL * TOGETHER if wide else SECTOR

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if builder.module.triple.startswith("nvptx"):
            made = make_array(array)(context, builder, values[0])
            number = context.cast(builder, values[1], index, types.intp)
            at = further(builder, made.data, builder.mul(number, builder.extract_value(made.strides, 0)))
            word = ir.IntType(64)
            way = ir.FunctionType(ir.VoidType(), [word])
            for offset in range(0, min(size, MOST_SECTORS * step), step):
                place = builder.ptrtoint(further(builder, at, offset), word)
                builder.asm(way, "prefetch.global.L2 [$0];", "l", [place], side_effect=True)
        return context.get_dummy_value()

    return types.none(array, index), generate


def _soon(array: Any, index: int) -> None:
    pass


#: soon(array, index): this will be read soon.
soon = _named(_soon_typing, "read soon") if COMPILED else _soon
#: assign(array, index, record): put a record into an array of records, with the fields that both have.
assign = _named(_typing, "a record field by field") if COMPILED else _assign
