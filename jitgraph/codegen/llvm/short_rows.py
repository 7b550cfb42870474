"""Sums of short rows, several rows at once: their slots fold together, so that each fold fills a register.

The slots of a row fold in halves, which leaves most of a register empty. Here the halves of two rows share one: of
vectors X and Y, in which rows of w slots lie side by side, one takes the first halves of all rows and another the
second halves, and their combination holds the rows of both with w/2 slots. In the end each lane is a row, and what is
computed from the rows goes on in lanes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from jitgraph.codegen.index import coefficient
from jitgraph.codegen.kernel import Body, Combine, IndexValue, Let, Load, Loop
from jitgraph.codegen.llvm.access import memory_type
from jitgraph.codegen.llvm.accumulators import combined, lanes_from
from jitgraph.codegen.llvm.environment import Environment, Names, integer
from jitgraph.codegen.llvm.index import add, index_value
from jitgraph.codegen.llvm.index import names as names_of
from jitgraph.codegen.llvm.scalars import Scalar
from jitgraph.codegen.llvm.structure import defined
from jitgraph.dtypes import is_float

_REGISTERS: Final = 2
"""The most registers of slots of a row that goes with others."""

_AHEAD_BYTES: Final = 2048
_LINE_BYTES: Final = 64

_BLOCK_BYTES: Final = 16
"""Bytes within which shuffles are cheap."""


def rows_at_once(body: Body, env: Environment) -> int:
    """How many steps of a loop go at once where ``body``, one of them, reduces a short row; 1 where it does not."""
    inner = [statement for statement in body if isinstance(statement, Loop)]
    if env.lanes is not None or len(inner) != 1 or not all(isinstance(s, _Plain | Loop) for s in body):
        return 1
    (row,) = inner
    if len(row.carries) != 1 or not is_float(row.carries[0].var.dtype):
        return 1
    several = env.target.vector_bytes // row.carries[0].var.dtype.itemsize
    short = (
        row.kind == "reduce"
        and row.is_whole
        and row.slots is None
        and isinstance(row.extent, int)
        and row.lanes // 2 < row.extent <= row.lanes <= _REGISTERS * several
        and row.lanes > 1
        and all(isinstance(statement, _Plain) for statement in row.body)
    )
    return several if short else 1


_Plain = Let | Load | IndexValue


def row_environment(env: Environment, row: int) -> Environment:
    """The scope of one of the rows that are lanes of ``env``: its values are uniform there."""
    assert env.lanes is not None

    def of_row(_: str, value: Scalar) -> Scalar:
        return lanes_from(env, value, row, 1) if value.lanes > 1 else value

    names = Names(env.names, of_row)
    inner = Environment(env.function, env.kernel, env.target, names, env.scratch, env.statement)
    inner.bind(env.lanes.axis, add(env, env.lanes.base, integer(row)))
    return inner


class _Side(NamedTuple):
    """Rows side by side: a vector for each accumulator, which rows they hold, and the lanes of each."""

    vectors: list[Scalar]
    rows: list[int]
    slots: int


def folded_together(env: Environment, combine: Combine, slots: list[list[Scalar]]) -> list[Scalar]:
    """For each accumulator its rows in lanes; ``slots[row]`` are the slots of one of a power of two of rows."""
    sides = [_Side(vectors, [row], vectors[0].lanes) for row, vectors in enumerate(slots)]
    while sides[0].slots > len(slots):
        sides = [_folded(env, combine, side) for side in sides]
    while sides[0].slots > 1:
        sides = [_folded_pair(env, combine, *pair) for pair in zip(sides[::2], sides[1::2], strict=True)]
    order = [row for side in sides for row in side.rows]
    places = [order.index(row) for row in range(len(slots))]
    return [
        _shuffled(env, _joined(env, list(vectors)), None, places)
        for vectors in zip(*(side.vectors for side in sides), strict=True)
    ]


def _folded(env: Environment, combine: Combine, side: _Side) -> _Side:
    """One row with half the slots."""
    half = side.slots // 2
    left, right = ([lanes_from(env, x, start, half) for x in side.vectors] for start in (0, half))
    return _Side(combined(env, combine, left, right), side.rows, half)


def _folded_pair(env: Environment, combine: Combine, x: _Side, y: _Side) -> _Side:
    """The rows of both with half the slots; rows change places within a block, so that shuffles are cheap."""
    lanes, half = x.vectors[0].lanes, x.slots // 2
    span = min(lanes, max(x.slots, _BLOCK_BYTES // x.vectors[0].dtype.itemsize))
    starts = [
        (side, start)
        for block in range(0, lanes, span)
        for side in (0, 1)
        for start in range(block, block + span, x.slots)
    ]
    picked = [
        [lanes * side + start + first + slot for side, start in starts for slot in range(half)] for first in (0, half)
    ]
    left, right = ([_shuffled(env, a, b, order) for a, b in zip(x.vectors, y.vectors, strict=True)] for order in picked)
    rows = [(x, y)[side].rows[start // x.slots] for side, start in starts]
    return _Side(combined(env, combine, left, right), rows, half)


def _joined(env: Environment, vectors: list[Scalar]) -> Scalar:
    """Vectors of one type, a power of two of them, end to end."""
    while len(vectors) > 1:
        lanes = list(range(2 * vectors[0].lanes))
        vectors = [_shuffled(env, x, y, lanes) for x, y in zip(vectors[::2], vectors[1::2], strict=True)]
    return vectors[0]


def _shuffled(env: Environment, x: Scalar, y: Scalar | None, order: list[int]) -> Scalar:
    """Lanes of ``x`` and ``y``, those of ``y`` being numbered after those of ``x``."""
    if y is None and order == list(range(x.lanes)):
        return x
    other = f"{x.type} poison" if y is None else str(y)
    lanes = ", ".join(f"i32 {lane}" for lane in order)
    return env.words.make(f"shufflevector {x}, {other}, <{len(order)} x i32> <{lanes}>", x.dtype, len(order))


def prefetch(loop: Loop, body: Body, env: Environment, rows: int) -> None:
    """Ask for the memory that ``rows`` steps of ``loop`` some turns ahead will read; ``env`` is at the first of these.

    The instructions of a turn are too many for the loads of later ones to be under way meanwhile. Beyond the operand's
    end the processor ignores what it is asked for.
    """
    inside = {var.name for var in defined(body)}
    (row,) = (statement for statement in body if isinstance(statement, Loop))
    start = env.at({row.axis: integer(0)})
    env.module.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n")
    for load in row.body:
        if not isinstance(load, Load) or load.mask is not None or not inside.isdisjoint(names_of(load.index)):
            continue
        stride, size = coefficient(load.index, loop.axis), load.var.dtype.itemsize
        if coefficient(load.index, row.axis) != 1 or not isinstance(stride, int) or stride * size > _LINE_BYTES:
            continue
        buffer = env["&" + load.buffer]
        first = index_value(start, load.index)
        kind = memory_type(buffer.dtype)
        address = env.function.emit("ptr", f"getelementptr {kind}, ptr {buffer.name}, {first}")
        for ahead in range(_AHEAD_BYTES, _AHEAD_BYTES + rows * stride * size, _LINE_BYTES):
            line = env.function.emit("ptr", f"getelementptr i8, {address}, i64 {ahead}")
            env.function.do(f"call void @llvm.prefetch.p0({line}, i32 0, i32 3, i32 1)")
