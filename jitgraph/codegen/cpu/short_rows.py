"""Sums of short rows, several rows at once: their slots fold together, so that each fold fills a register.

The slots of a row fold in halves, which leaves most of a register empty. Here the halves of two rows share one: of
vectors X and Y, in which rows of w slots lie side by side, one takes the first halves of all rows and another the
second halves, and their combination holds the rows of both with w/2 slots. In the end each lane is a row, and what is
computed from the rows goes on in lanes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from jitgraph.codegen.cpu import prefetching
from jitgraph.codegen.cpu.accumulators import joined_lanes, lanes_from, shuffled
from jitgraph.codegen.cpu.remainder import is_short
from jitgraph.codegen.kernels.index import coefficient
from jitgraph.codegen.kernels.kernel import Body, Combine, IndexValue, Let, Load, Loop
from jitgraph.codegen.llvm.combine import combined
from jitgraph.codegen.llvm.environment import Environment, Names, integer
from jitgraph.codegen.llvm.index import add, index_value
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.codegen.llvm.structure import defined
from jitgraph.dtypes import is_float
from jitgraph.ir.dims import names as names_of

_REGISTERS: Final = 2
"""The most registers of slots of a row that goes with others."""

_BLOCK_BYTES: Final = 16
"""Bytes within which shuffles are cheap."""


class ShortRows(NamedTuple):
    """Steps of a loop, ``together`` at a time, each of which reduces a row; ``body`` is one of them.

    Where the length of a row is not known, it is short if ``condition`` holds.
    """

    together: int
    body: Body
    condition: LlvmScalar | None


def short_rows(loop: Loop, body: Body, env: Environment) -> ShortRows | None:
    """How the steps of ``loop`` go at once where ``body``, one of them, reduces a short row; None where it does not."""
    inner = [statement for statement in body if isinstance(statement, Loop)]
    if env.lanes is not None or len(inner) != 1 or not all(isinstance(s, _Plain | Loop) for s in body):
        return None
    (row,) = inner
    if len(row.carries) != 1 or not is_float(row.carries[0].var.dtype):
        return None
    several = env.target.vector_bytes // row.carries[0].var.dtype.itemsize
    most = _REGISTERS * several
    plain = row.kind == "reduce" and row.is_whole and row.slots is None and row.lanes > 1
    if not plain or not all(isinstance(statement, _Plain) for statement in row.body):
        return None
    if isinstance(row.extent, int):
        short = row.lanes // 2 < row.extent <= row.lanes <= most
        return ShortRows(several, body, None) if short else None
    varying = {loop.axis, *(var.name for var in defined(body))}
    if row.lanes <= most or not varying.isdisjoint(names_of(row.extent)) or not is_short(row.body, env, _REGISTERS):
        return None
    narrow = replace(row, lanes=most, span=most)  # other slots would stay as they begin, and add nothing
    condition = env.ops.cmp("le", index_value(env, row.extent), integer(most))
    return ShortRows(several, tuple(narrow if statement is row else statement for statement in body), condition)


_Plain = Let | Load | IndexValue


def row_environment(env: Environment, row: int) -> Environment:
    """The scope of one of the rows that are lanes of ``env``: its values are uniform there."""
    assert env.lanes is not None

    def of_row(_: str, value: LlvmScalar) -> LlvmScalar:
        return lanes_from(env, value, row, 1) if value.lanes > 1 else value

    names = Names(env.names, of_row)
    inner = Environment(env.function, env.kernel, env.target, names, env.memory, env.statement)
    inner.bind(env.lanes.axis, add(env, env.lanes.base, integer(row)))
    return inner


class _Side(NamedTuple):
    """Rows side by side: a vector for each accumulator, which rows they hold, and the lanes of each."""

    vectors: list[LlvmScalar]
    rows: list[int]
    slots: int


def folded_together(env: Environment, combine: Combine, slots: list[list[LlvmScalar]]) -> list[LlvmScalar]:
    """For each accumulator its rows in lanes; ``slots[row]`` are the slots of one of a power of two of rows."""
    sides = [_Side(vectors, [row], vectors[0].lanes) for row, vectors in enumerate(slots)]
    while sides[0].slots > len(slots):
        sides = [_folded(env, combine, side) for side in sides]
    while sides[0].slots > 1:
        sides = [_folded_pair(env, combine, *pair) for pair in zip(sides[::2], sides[1::2], strict=True)]
    order = [row for side in sides for row in side.rows]
    positions = [order.index(row) for row in range(len(slots))]
    return [
        shuffled(env, joined_lanes(env, list(vectors)), None, positions)
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
    left, right = ([shuffled(env, a, b, order) for a, b in zip(x.vectors, y.vectors, strict=True)] for order in picked)
    rows = [(x, y)[side].rows[start // x.slots] for side, start in starts]
    return _Side(combined(env, combine, left, right), rows, half)


def prefetch(loop: Loop, body: Body, env: Environment, rows: int) -> None:
    """Ask for the memory that ``rows`` steps of ``loop`` some turns ahead will read; ``env`` is at the first of these.

    Where the length of a row is not known, each row asks for what it will need (``remainder.py``).
    """
    (row,) = (statement for statement in body if isinstance(statement, Loop))
    for load in prefetching.contiguous_loads(row.body, row.axis, body):
        stride = coefficient(load.index, loop.axis)
        if isinstance(stride, int) and (each := stride * load.var.dtype.itemsize) <= prefetching.LINE_BYTES:
            ahead = prefetching.AHEAD_BYTES
            distances = [integer(at) for at in range(ahead, ahead + rows * each, prefetching.LINE_BYTES)]
            prefetching.prefetch(env.at({row.axis: integer(0)}), load, distances)
