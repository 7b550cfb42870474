"""Reductions of short rows, several at once, and the last steps of a chunk, which has fewer than its slots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

from jitgraph.codegen.cpu import vectors
from jitgraph.codegen.cpu.merge_trees import joined_lanes, lanes_from, shuffled
from jitgraph.codegen.kernels.index import coefficient
from jitgraph.codegen.kernels.kernel import Body, Combine, IndexValue, Let, Load, Loop
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.access import memory_type
from jitgraph.codegen.llvm.builder import LlvmScalar
from jitgraph.codegen.llvm.environment import Environment, Names, combined, integer
from jitgraph.codegen.llvm.index import add, index_value, subtract
from jitgraph.codegen.llvm.loops import defined, length
from jitgraph.dtypes import int32, is_float
from jitgraph.ir.dims import names as names_of

# ----------------------------------------------------------------------
# Requests for memory that is read some turns later, where a turn has too many instructions to wait for it itself.

AHEAD_BYTES: Final = 2560
LINE_BYTES: Final = 64


def contiguous_loads(body: Body, axis: str, around: Body) -> Iterator[Load]:
    """Loads of neighbours along ``axis`` in ``body``, whose places do not depend on what ``around`` computes."""
    inside = {var.name for var in defined(around)}
    for load in body:
        if not isinstance(load, Load) or load.mask is not None or not inside.isdisjoint(names_of(load.index)):
            continue
        if coefficient(load.index, axis) == 1:
            yield load


def prefetch(env: Environment, load: Load, distances: Iterable[LlvmScalar]) -> None:
    """Ask for the lines so many bytes beyond what ``load`` reads; ``env`` is at one step of each loop around.

    Beyond the operand's end the processor ignores what it is asked for.
    """
    buffer = env["&" + load.buffer]
    env.module.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n")
    index = index_value(env, load.index)
    address = env.function.emit("ptr", f"getelementptr {memory_type(buffer.dtype)}, ptr {buffer.name}, {index}")
    for distance in distances:
        line = env.function.emit("ptr", f"getelementptr i8, {address}, {distance}")
        env.function.do(f"call void @llvm.prefetch.p0({line}, i32 0, i32 3, i32 1)")


# ----------------------------------------------------------------------
# The last steps of a chunk, fewer than it has slots: one register of slots after another, under masks.
#
# This is all of a short row whose length is not known, and so it is short code without loops. Loads under masks do not
# set off the processor's own prefetching, and the next rows are asked for here.

_MOST_CODE: Final = 64
"""Instructions that the remainder may become; where there are more, a loop goes over the registers."""

_FIRST: Final = 2
"""Registers that are done without asking whether so many steps are left."""

Fold = Callable[[Environment, list[LlvmScalar]], list[LlvmScalar]]


class Window(NamedTuple):
    """The steps ``begin .. end`` of a chunk, of which ``rest .. end`` remain after the whole ones."""

    begin: LlvmScalar
    rest: LlvmScalar
    end: LlvmScalar


def is_short(body: Body, env: Environment, registers: int) -> bool:
    """Whether the code of so many steps, each for a register of slots, is short and its masks cheap."""
    return length(body) * registers <= _MOST_CODE and vectors.can_mask(body, env)


def fold_remainder(
    env: Environment, loop: Loop, body: Body, window: Window, slots: list[LlvmScalar], width: int, fold: Fold
) -> list[LlvmScalar]:
    """``slots`` after the last steps of a chunk, no more than there are slots; a register holds ``width`` of them.

    Memory is asked for ahead only where these are all steps: whole steps before them have set off the processor's own
    prefetching, which further requests would disturb.
    """
    begin, end = window.rest, window.end
    function, lanes = env.function, slots[0].lanes
    left = subtract(env, end, begin)
    starts = range(0, lanes, width)
    ahead = integer(AHEAD_BYTES)
    if begin.name != window.begin.name:
        ahead = env.ops.select(env.ops.cmp("eq", begin, window.begin), ahead, integer(0))
    parts = [[lanes_from(env, slot, start, width) for slot in slots] for start in starts]

    def folded(part: int) -> list[LlvmScalar]:
        first = add(env, begin, integer(starts[part]))
        if part % _FIRST == 0:
            for load in contiguous_loads(body, loop.axis, body):
                prefetch(env.at({loop.axis: first}), load, [ahead])
        mask = _between(env, left, starts[part], width, lanes)
        return fold(env.across(loop.axis, first, width, mask), parts[part])

    first = [folded(part) for part in range(min(_FIRST, len(parts)))]
    rest = parts[len(first) :]
    if rest:
        more = env.ops.cmp("gt", left, integer(starts[len(first)]))
        before = function.block
        with loops.only_if(env, more):
            others = [folded(part) for part in range(len(first), len(parts))]
            ends = function.block
        flat = loops.joined(function, (before, list(chain(*rest))), (ends, list(chain(*others))))
        rest = [flat[start : start + len(slots)] for start in range(0, len(flat), len(slots))]
    return [joined_lanes(env, pieces) for pieces in zip(*first, *rest, strict=True)]


def _between(env: Environment, left: LlvmScalar, start: int, width: int, most: int) -> LlvmScalar:
    """The mask of those of ``width`` steps from ``start`` on that are before ``left``, at most ``most``."""
    s = env.ops
    steps = ", ".join(f"i32 {start + lane}" for lane in range(width))
    few = s.splat(s.cast(s.min(left, integer(most)), int32), width)
    return s.cmp("lt", LlvmScalar(f"<{steps}>", f"<{width} x i32>", int32, width), few)


# ----------------------------------------------------------------------
# Sums of short rows, several rows at once: their slots fold together, so that each fold fills a register.
#
# The slots of a row fold in halves, which leaves most of a register empty. Here the halves of two rows share one: of
# vectors X and Y, in which rows of w slots lie side by side, one takes the first halves of all rows and another the
# second halves, and their combination holds the rows of both with w/2 slots. In the end each lane is a row, and what is
# computed from the rows goes on in lanes.

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


def prefetch_rows(loop: Loop, body: Body, env: Environment, rows: int) -> None:
    """Ask for the memory that ``rows`` steps of ``loop`` some turns ahead will read; ``env`` is at the first of these.

    Where the length of a row is not known, each row asks for what it will need (``short_rows.py``).
    """
    (row,) = (statement for statement in body if isinstance(statement, Loop))
    for load in contiguous_loads(row.body, row.axis, body):
        stride = coefficient(load.index, loop.axis)
        if isinstance(stride, int) and (each := stride * load.var.dtype.itemsize) <= LINE_BYTES:
            ahead = AHEAD_BYTES
            distances = [integer(at) for at in range(ahead, ahead + rows * each, LINE_BYTES)]
            prefetch(env.at({row.axis: integer(0)}), load, distances)
