"""Tables of compiled kernels and of calls that take a part of a tensor, with a new value or tensor as the result."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import partial
from types import EllipsisType
from typing import Any, Final, NamedTuple

import numpy as np

from jitgraph.dtypes import DOUBLE, DType
from jitgraph.eager.dispatch.program import Program, Unsupported
from jitgraph.eager.dispatch.table import NativeTable, TableOutcome, check_context, require_plain, value_record
from jitgraph.eager.handle import Api, class_of_tensors
from jitgraph.eager.native import fresh
from jitgraph.eager.tape import EagerValue, native_type
from jitgraph.ir.context import Context
from jitgraph.ir.types import TensorType
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime import loader
from jitgraph.runtime.buffer import Array
from jitgraph.runtime.cpython import layout as cpython

# ----------------------------------------------------------------------
# Tables of compiled kernels: on values, with values as results, or on tensors, with a new tensor as the result.

_MOST_BYTES: Final = 1 << 20
_MOST_WORK: Final = 4_000_000
"""Of operations, beside which Python's part counts for nothing; the interpreter's lock is kept meanwhile."""


def require_short(types: Sequence[TensorType], multiplies: bool) -> None:
    """Unsupported unless a call on operands and results of these types is short; ``multiplies``: as products are."""
    sizes: list[Any] = [type.size for type in types]
    total = sum(size * type.dtype.itemsize for size, type in zip(sizes, types, strict=True))
    elements = sum(sizes)
    work = elements * elements**0.5 if multiplies else elements
    if total > _MOST_BYTES or work > _MOST_WORK:
        raise Unsupported("it takes so long that Python's part counts for nothing")


class NumberArgument(NamedTuple):
    """An argument that is a Python number of this class, and becomes an operand of rank 0."""

    kind: type
    dtype: DType


class ConstantArgument(NamedTuple):
    """An argument that has to be this Python number, and is no operand."""

    number: int | float


Argument = TensorType | NumberArgument | ConstantArgument


class LaunchTable(NativeTable):
    """A kernel on operands of known types, given by position."""

    def __init__(
        self, entry: loader.Entry, plan: loader.ShapePlan, numbers: Sequence[EagerValue], arguments: Sequence[Argument],
        results: Sequence[tuple[TensorType, int]], ambient: Context | None = None, required: Sequence[bool] = (),
        finish: Callable[..., Any] | None = None, api: Api = "",
    ) -> None:  # fmt: skip
        """``results`` are their types and bytes, and ``numbers`` operands of every call, behind those that are given.

        Operands are values, and the result is a tuple of values, unless ``ambient`` is given: then operands are
        tensors under that context, of which those ``required`` require a gradient, and numbers, and the result is a new
        tensor, or what ``finish(arguments, operands, results)`` makes, ``numbers`` among its operands. Tensors are of
        the API.
        """
        require_plain(entry, plan)
        program = Program(len(arguments))
        types = [argument for argument in arguments if isinstance(argument, TensorType)]
        meets_double = ambient is not None and any(type.dtype in DOUBLE for type in types)
        count = 0
        for number, argument in enumerate(arguments):
            if isinstance(argument, ConstantArgument):
                require_number(program, number, argument.number)
                continue
            if isinstance(argument, NumberArgument):
                program.require_type(number, argument.kind)
                program.op("number", number, count, flags=layout.NUMBER_DTYPES[argument.dtype.name])
            else:
                sizes = sizes_of(program, argument)
                if meets_double and argument.dtype not in DOUBLE:  # of a parameter, each such call may warn
                    program.require_type(number, class_of_tensors(api))
                program.op(
                    "value" if ambient is None else "tensor", number, count,
                    flags=int(any(required[number : number + 1])) + 2 * bool(api), a=program.refer(argument), b=sizes,
                    offset=len(argument.shape), expected=program.refer(argument.dtype),
                )  # fmt: skip
            count += 1
        for value in numbers:
            program.op(
                "value", program.constant(value), count, a=program.refer(value.type), b=sizes_of(program, value.type),
                offset=0, expected=program.refer(value.dtype),
            )  # fmt: skip
            count += 1
        if ambient is not None:  # last, as it takes longest
            check_context(program, ambient)
        outcome = TableOutcome(
            [value_record(program, type, size, partial(fresh, type, size)) for type, size in results]
        )
        outcome.finish = finish
        if finish is not None:
            outcome.held = range(len(arguments))
        elif ambient is not None:
            false = program.refer(False)
            outcome.handles = [struct.pack("<5q", 0, false, false, false, _kind(program, api))]
            outcome.results = [struct.pack("<2q", layout.FROM_HANDLE, 0)]
            outcome.kind = layout.RESULT_ONE
        else:
            outcome.results = [struct.pack("<2q", layout.FROM_VALUE, number) for number in range(len(results))]
            outcome.kind = layout.RESULT_TUPLE
        super().__init__(program, entry, plan, outcome, count)


def _kind(program: Program, api: Api) -> int:
    """The word of a new tensor that says of which class it is."""
    return program.refer(class_of_tensors(api)) if api else 0


def require_number(program: Program, register: int, number: int | float) -> None:
    """Write the check that a register holds this very number, of this class."""
    if isinstance(number, float):
        (bits,) = struct.unpack("<q", struct.pack("<d", number))
        program.op("float_bits", register, offset=bits)
    else:
        program.op("equal", register, a=program.refer(number))


def sizes_of(program: Program, type: TensorType) -> int:
    """The address of the sizes of a type, for who looks at an array."""
    shape: tuple[Any, ...] = type.shape
    sizes = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    program.keep.append(sizes)
    return ctypes.addressof(sizes)


# ----------------------------------------------------------------------
# Tables of calls that take a part of a tensor: elements in another shape, order or number, without arithmetic.

_MOST_COPIED: Final = 1 << 14
"""Bytes of a part with gaps that becomes memory of its own, as every kernel takes it; a larger one is a view."""

Item = int | slice | EllipsisType | None
Index = Item | tuple[Item, ...]


class ViewTable(NativeTable):
    """A part of a tensor of a known type: in the same memory where its elements lie side by side, else a copy."""

    def __init__(
        self, array: Array, part: Callable[[Array], Array] | Index, ambient: Context, *, required: bool,
        finish: Callable[..., Any] | None = None, api: Api = "",
    ) -> None:  # fmt: skip
        """``part`` makes a view of ``array``, or is the index of a call, whose ints may be others in later calls.

        ``finish`` is that of a call on the tape.
        """
        if array.dtype.kind == "c":
            raise Unsupported("its elements are complex numbers")
        if not array.flags.c_contiguous:
            raise Unsupported("its elements do not lie side by side")
        count = 1 if callable(part) else 2
        program = Program(count)
        offset = program.register()
        view, moves = (part(array), []) if callable(part) else _indexed(program, array, part)
        type, shares = native_type(view.dtype, view.shape), view.flags.c_contiguous
        if not view.size or not np.may_share_memory(view, array) or not (shares or view.nbytes <= _MOST_COPIED):
            raise Unsupported("it is empty, no view, or large and with gaps")
        array_type = native_type(array.dtype, array.shape)
        flags, sizes = int(required) + 2 * bool(api), sizes_of(program, array_type)
        program.op("tensor", flags=flags, a=program.refer(array_type), b=sizes,
                   offset=array.ndim, expected=program.refer(array.dtype))  # fmt: skip
        program.op("whole", a=program.refer(array_type))
        program.op("constant", 0, offset, a=loader.address_of(view) - loader.address_of(array))
        for register, extent, step in moves:
            program.op("view_offset", register, offset, a=extent, offset=step)
        check_context(program, ambient)
        outcome = TableOutcome([value_record(program, type, -1 if shares else view.nbytes, type.__class__)])
        outcome.view = _view_record(program, view, offset, shares=shares)
        outcome.finish = finish
        if finish is not None:
            outcome.held = range(count)
        else:
            false = program.refer(False)
            outcome.handles = [struct.pack("<5q", 0, false, false, program.refer(count == 2), _kind(program, api))]
            outcome.results = [struct.pack("<2q", layout.FROM_HANDLE, 0)]
            outcome.kind = layout.RESULT_ONE
        super().__init__(program, None, None, outcome, 1)


def _view_record(program: Program, view: Array, offset: int, *, shares: bool) -> bytes:
    """What the part is, as code reads it."""
    axes = _merged(view)
    if len(axes) > layout.MOST_AXES:
        raise Unsupported("it has too many axes")
    item = view.dtype.itemsize.bit_length() - 1
    sizes, steps = ((ctypes.c_int64 * len(axes))(*numbers) for numbers in zip(*axes, strict=True))
    program.keep += [sizes, steps]
    rank = -1 if shares else len(axes)
    return struct.pack("<5q", offset, rank, item, ctypes.addressof(sizes), ctypes.addressof(steps))


def _merged(view: Array) -> list[tuple[int, int]]:
    """The sizes and steps of an array in bytes, neighbours as one axis where that can be; at least one."""
    axes: list[tuple[int, int]] = []
    for size, step in zip(view.shape, view.strides, strict=True):
        if size == 1:
            continue
        if axes and axes[-1][1] == size * step:
            axes[-1] = axes[-1][0] * size, step
        else:
            axes.append((size, step))
    return axes or [(1, view.dtype.itemsize)]


def _indexed(program: Program, array: Array, index: Index) -> tuple[Array, list[tuple[int, int, int]]]:
    """Write the checks of an index in register 1.

    Gives the part where all its ints are 0, and for each of these its register, the extent of the axis and its step.
    """
    items = index if isinstance(index, tuple) else (index,)
    registers = _items(program, items, is_tuple=isinstance(index, tuple))
    axes = iter(_axes(items, array.ndim))
    moves, zeros = [], []
    for item, register in zip(items, registers, strict=True):
        _require_item(program, item, register)
        zeros.append(0 if isinstance(item, int) else item)
        axis = None if item is None or item is Ellipsis else next(axes)
        if axis is not None and isinstance(item, int):
            moves.append((register, array.shape[axis], array.strides[axis]))
    cut: Any = (*zeros,) if Ellipsis in zeros else (*zeros, ...)
    return array[cut], moves


def _items(program: Program, items: Sequence[Item], *, is_tuple: bool) -> list[int]:
    """The registers of the items of an index."""
    if not is_tuple:
        return [1]
    program.require_type(1, tuple)
    program.op("length", 1, b=len(items))
    return [program.load("item", 1, offset=number) for number in range(len(items))]


def _axes(items: Sequence[Item], rank: int) -> list[int]:
    """The axes for which the ints and slices stand."""
    non_newaxis = [item for item in items if item is not None]
    before = non_newaxis.index(Ellipsis) if Ellipsis in non_newaxis else len(non_newaxis)
    after = len(non_newaxis) - before - 1
    return [*range(before), *range(rank - max(0, after), rank)]


def _require_item(program: Program, item: Item, register: int) -> None:
    """Write the check of what an item is: an int of any value, or the same slice, ... or None."""
    if isinstance(item, int):
        program.require_type(register, int)
    elif isinstance(item, slice):
        program.require_type(register, slice)
        for number, bound in enumerate((item.start, item.stop, item.step)):
            field = cpython.SLICE + number * layout.WORD
            if bound is None:
                program.load("field", register, offset=field, expected=(None,))
            elif type(bound) is int:
                require_number(program, program.load("field", register, offset=field), bound)
            else:
                raise Unsupported("a bound that is no int")
    else:
        program.op("same", register, program.constant(item))
