"""Tables of compiled kernels: on values, with values as results, or on tensors, with a new tensor as the result."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from jitgraph.dtypes import DType
from jitgraph.eager.dispatch.program import Program, Unsupported
from jitgraph.eager.dispatch.table import NativeTable, TableOutcome, check_context, require_plain, value_record
from jitgraph.eager.native import fresh
from jitgraph.ir.context import Context
from jitgraph.ir.types import TensorType
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime import loader

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
        self, entry: loader.Entry, plan: loader.ShapePlan, arguments: Sequence[Argument],
        results: Sequence[tuple[TensorType, int]], ambient: Context | None = None, required: Sequence[bool] = (),
        finish: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        """``results`` are their types and bytes.

        Operands are values, and the result is a tuple of values, unless ``ambient`` is given: then operands are
        tensors under that context, of which those ``required`` require a gradient, and numbers, and the result is a new
        tensor, or what ``finish(arguments, operands, results)`` makes.
        """
        require_plain(entry, plan)
        program = Program(len(arguments))
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
                program.op(
                    "value" if ambient is None else "tensor", number, count,
                    flags=int(any(required[number : number + 1])), a=program.refer(argument), b=sizes,
                    offset=len(argument.shape), expected=program.refer(argument.dtype),
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
            outcome.handles = [struct.pack("<4q", 0, false, false, false)]
            outcome.results = [struct.pack("<2q", layout.FROM_HANDLE, 0)]
            outcome.kind = layout.RESULT_ONE
        else:
            outcome.results = [struct.pack("<2q", layout.FROM_VALUE, number) for number in range(len(results))]
            outcome.kind = layout.RESULT_TUPLE
        super().__init__(program, entry, plan, outcome, count)


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
