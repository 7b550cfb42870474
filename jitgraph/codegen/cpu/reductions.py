"""Reduce loops: slots in registers or on the stack, chunks that merge as a tree, short rows several at once (see
``kernel.Loop``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

from jitgraph.codegen.cpu import vectors
from jitgraph.codegen.cpu.merge_trees import Tree, element, joined_lanes, lanes_from, memory, read, shuffled, write
from jitgraph.codegen.cpu.vectors import LINE_BYTES, POLL_LENGTH, polled, vector_lanes
from jitgraph.codegen.kernels.index import coefficient
from jitgraph.codegen.kernels.kernel import Body, Combine, IndexValue, Let, Load, Loop
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.builder import LlvmScalar, fetch_line
from jitgraph.codegen.llvm.environment import Environment, Names, combined, constant_of, integer
from jitgraph.codegen.llvm.index import add, index_value, least, memory_type, subtract
from jitgraph.codegen.llvm.loops import defined, gathers, is_even, length
from jitgraph.dtypes import int32, is_float
from jitgraph.errors import CompileError
from jitgraph.ir.dims import names as names_of

# ----------------------------------------------------------------------
# Reductions of short rows, several at once, and the last steps of a chunk, which has fewer than its slots.

# ----------------------------------------------------------------------
# Requests for memory that is read some turns later, where a turn has too many instructions to wait for it itself.

AHEAD_BYTES: Final = 2560


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
    index = index_value(env, load.index)
    address = env.function.emit("ptr", f"getelementptr {memory_type(buffer.dtype)}, ptr {buffer.name}, {index}")
    for distance in distances:
        line = env.function.emit("ptr", f"getelementptr i8, {address}, {distance}")
        fetch_line(env.function, line.name)


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

    Where the length of a row is not known, each row asks for what it will need (``reductions.py``).
    """
    (row,) = (statement for statement in body if isinstance(statement, Loop))
    for load in contiguous_loads(row.body, row.axis, body):
        stride = coefficient(load.index, loop.axis)
        if isinstance(stride, int) and (each := stride * load.var.dtype.itemsize) <= LINE_BYTES:
            ahead = AHEAD_BYTES
            distances = [integer(at) for at in range(ahead, ahead + rows * each, LINE_BYTES)]
            prefetch(env.at({row.axis: integer(0)}), load, distances)


# ----------------------------------------------------------------------
# Reduce loops: slots in registers or on the stack, and chunks that merge as a tree (see ``kernel.Loop``).

LONG_BODY: Final = 30
"""Length from which on a reduction's body is emitted for one register at a time, with its slots in memory."""

_SOON: Final = 1 << 22
"""Instructions after which a part of a reduction is over soon enough for nobody to be asked."""

_FEW: Final = 16
"""Chunks of one step whose tree is written out."""

_MANY: Final = 512
"""Short rows from which on code for several at once is worth the time to compile it."""

_STRIP: Final = 1 << 14
"""Steps of a loop of any order between two questions to the host whether to stop."""


def emit_reduce(loop: Loop, env: Environment) -> None:
    """Emit a reduce loop, and bind the results of its carries or emit what becomes of its slots."""
    if loop.combine is None:
        raise CompileError(f"kernel {env.kernel.name}: the reduce loop {loop.axis} has no combine")
    if loop.lanes > 1 and env.lanes is not None:
        _emit_short_rows(loop, loop.combine, env)
        return
    begin, end = loops.window(loop, env)
    with env.memory.frame():
        slots = _Reduction(loop, loop.combine, env, begin, end).emit()
    results = [carry.result.name for carry in loop.carries]
    if loop.slots is not None:
        inside = env.across(loop.slots.axis, integer(0), loop.lanes)
        for name, slot in zip(results, slots, strict=True):
            inside.bind(name, slot)
        inside.emit(loop.slots.body)
        return
    half = loop.lanes // 2
    while half:
        left = [lanes_from(env, slot, 0, half) for slot in slots]
        slots = combined(env, loop.combine, left, [lanes_from(env, slot, half, half) for slot in slots])
        half //= 2
    for name, slot in zip(results, slots, strict=True):
        env.bind(name, slot)


def _emit_short_rows(loop: Loop, combine: Combine, env: Environment) -> None:
    """Emit a reduce loop with lanes where rows are lanes: see ``reductions.py``."""
    if env.lanes is None or env.lanes.mask is not None or loop.slots is not None:
        raise CompileError(f"kernel {env.kernel.name}: the reduce loop {loop.axis} has lanes inside lanes")
    slots = []
    for row in range(env.lanes.width):
        here = row_environment(env, row)
        slots.append(_Reduction(loop, combine, here, *loops.window(loop, here)).emit())
    folded = folded_together(env, combine, slots)
    for carry, value in zip(loop.carries, folded, strict=True):
        env.bind(carry.result.name, value)


class _Reduction:
    """One reduce loop at one place, of ``most`` steps or fewer if known; its accumulators have ``width`` lanes."""

    def __init__(self, loop: Loop, combine: Combine, env: Environment, begin: LlvmScalar, end: LlvmScalar) -> None:
        self.loop, self.combine, self.env = loop, combine, env.inner()
        self.begin, self.end = begin, end
        self.count = subtract(env, end, begin)
        self.known = constant_of(self.count)  # the steps, where they are a number
        self.most = loop.span if self.known is None else self.known
        self.width = loop.lanes if env.lanes is None else env.lanes.width
        self.init = [env.ops.splat(env[carry.init.name], self.width) for carry in loop.carries]
        self.body = loops.hoist(loop, self.env, self.count)
        self.short = self._short_rows()
        self.chunk_steps = loop.lanes * loop.chain

    def _short_rows(self) -> ShortRows | None:
        """How several short rows go at once; None where that is not worth it."""
        if self.loop.lanes > 1 or self.loop.chain <= 1:
            return None
        short = short_rows(self.loop, self.body, self.env)
        return short if short is None or self.most is None or self.most >= _MANY else None

    def emit(self) -> list[LlvmScalar]:
        """The slots after all steps."""
        if self.most is not None and self.most <= (self.chunk_steps or _STRIP):
            return self._one_chunk(self.begin, self.end)
        if not self.chunk_steps:
            return self._strips()
        if self.chunk_steps == 1 and self.known is not None and self.known <= _FEW:
            return self._few(self.known)
        most_chunks = None if self.most is None else -(-self.most // self.chunk_steps)
        return self._tree(Tree(self.env, self.init, self.combine, self.chunk_steps, most_chunks))

    def fold(self, here: Environment, slots: list[LlvmScalar]) -> list[LlvmScalar]:
        """The slots after the step, or the steps in lanes, at which ``here`` is."""
        here.emit(self.body)
        elements = [here.ops.splat(here[carry.next.name], slots[0].lanes) for carry in self.loop.carries]
        folded = combined(here, self.combine, slots, elements)
        mask = here.lanes.mask if here.lanes is not None and self.loop.lanes > 1 else None  # one slot is not left out
        if mask is None:
            return folded
        return [here.ops.select(mask, new, old) for new, old in zip(folded, slots, strict=True)]

    def _few(self, count: int) -> list[LlvmScalar]:
        """A few steps that are chunks by themselves: the tree without a counter."""
        run = []
        for step in range(count):
            axis = add(self.env, self.begin, integer(step))
            run.append(self.fold(self.env.at({self.loop.axis: axis}), self.init))
        return self._merged_pairs(run)

    def _merged_pairs(self, run: list[list[LlvmScalar]]) -> list[LlvmScalar]:
        """The tree of a few chunks, written out."""
        while len(run) > 1:
            pairs = [combined(self.env, self.combine, *pair) for pair in zip(run[::2], run[1::2], strict=False)]
            run = pairs + run[2 * len(pairs) :]
        return run[0]

    def _strips(self) -> list[LlvmScalar]:
        """All steps in any order, with a question to the host now and then."""
        env = self.env

        def strip(first: LlvmScalar, slots: list[LlvmScalar]) -> list[LlvmScalar]:
            return self._chunk(first, least(env, add(env, first, integer(_STRIP)), self.end), slots)

        asking = polled(env, strip, POLL_LENGTH)
        return loops.counted(env, self.begin, self.end, _STRIP, self.init, asking)

    def _chunk(self, begin: LlvmScalar, end: LlvmScalar, init: list[LlvmScalar]) -> list[LlvmScalar]:
        """The slots, which are ``init`` before, after the steps ``begin .. end``."""
        loop, env = self.loop, self.env
        if loop.lanes == 1:
            return loops.counted(
                env, begin, end, 1, init, lambda axis, slots: self.fold(env.at({loop.axis: axis}), slots)
            )
        if self._is_in_memory(begin, end):
            addresses = [memory(env, value, value.lanes) for value in init]
            self._chunk_in_memory(begin, end, init, addresses)
            return [read(env, at, value, value.lanes) for at, value in zip(addresses, init, strict=True)]
        if is_even(loop, loop.lanes):
            return loops.counted(env, begin, end, loop.lanes, init, self._fold_all_slots)
        width = vector_lanes(loop, env)
        if constant_of(subtract(env, end, begin)) is None and width < loop.lanes:
            middle, slots = begin, init
            if loop.span is None or loop.span > loop.lanes:
                middle = add(env, begin, env.ops.and_(subtract(env, end, begin), integer(-loop.lanes)))
                slots = loops.counted(env, begin, middle, loop.lanes, init, self._fold_all_slots)
            window = Window(begin, middle, end)
            return fold_remainder(env, loop, self.body, window, slots, width, self.fold)
        return vectors.in_lanes(loop.axis, self.body, env, begin, end, loop.lanes, init, self.fold)

    def _fold_all_slots(self, first: LlvmScalar, slots: list[LlvmScalar]) -> list[LlvmScalar]:
        """The slots after a step of each."""
        return self.fold(self.env.across(self.loop.axis, first, self.loop.lanes), slots)

    def _rows(self, short: ShortRows, begin: LlvmScalar, end: LlvmScalar) -> list[LlvmScalar]:
        """The slot after the steps ``begin .. end`` of a chunk: rows go several at once, and are added one by one."""
        loop, env, several = self.loop, self.env, short.together

        def rows(axis: LlvmScalar, slots: list[LlvmScalar]) -> list[LlvmScalar]:
            here = env.across(loop.axis, axis, several)
            prefetch_rows(loop, self.body, env.at({loop.axis: axis}), several)
            here.emit(short.body)
            vectors = [here.ops.splat(here[carry.next.name], several) for carry in loop.carries]
            for lane in range(several):
                slots = combined(env, self.combine, slots, [lanes_from(env, value, lane, 1) for value in vectors])
            return slots

        middle = end
        if not is_even(loop, several):
            middle = add(env, begin, env.ops.and_(subtract(env, end, begin), integer(-several)))
        if short.condition is not None:
            middle = env.ops.select(short.condition, middle, begin)
        slots = loops.counted(env, begin, middle, several, self.init, rows)
        if middle is end:
            return slots
        return loops.counted(
            env, middle, end, 1, slots, lambda axis, slots: self.fold(env.at({loop.axis: axis}), slots)
        )

    def _is_by_register(self) -> bool:
        """Whether the body is emitted for one register, not for all slots: it is long, gathers, or has a loop."""
        loops_inside = any(isinstance(statement, Loop) for statement in self.body)
        return loops_inside or length(self.body) >= LONG_BODY or gathers(self.body, self.loop.axis)

    def _is_in_memory(self, begin: LlvmScalar, end: LlvmScalar) -> bool:
        """Whether the slots of a chunk of these steps lie in memory at its end."""
        width = vector_lanes(self.loop, self.env)
        if self.loop.lanes <= width:
            return False
        if self._is_by_register():
            return True
        if constant_of(subtract(self.env, end, begin)) is not None or is_even(self.loop, self.loop.lanes):
            return False
        return not is_short(self.body, self.env, self.loop.lanes // width)

    def _chunk_in_memory(
        self, begin: LlvmScalar, end: LlvmScalar, init: list[LlvmScalar], addresses: list[LlvmScalar]
    ) -> None:
        """As ``_chunk``, with the slots at ``addresses`` in the end.

        Whole steps of all slots are done in registers, unless the body is emitted for one register. The rest goes by
        registers: their masks are cheap on every machine.
        """
        loop, env = self.loop, self.env
        slots = init
        if not self._is_by_register():
            middle = add(env, begin, env.ops.and_(subtract(env, end, begin), integer(-loop.lanes)))
            slots = loops.counted(env, begin, middle, loop.lanes, init, self._fold_all_slots)
            begin = middle
        for at, slot in zip(addresses, slots, strict=True):
            write(env, at, slot)
        self._by_register(begin, end, addresses)

    def _by_register(self, begin: LlvmScalar, end: LlvmScalar, addresses: list[LlvmScalar]) -> None:
        """The steps ``begin .. end``, a register of them at a time, added to the slots at ``addresses``.

        Each slot is needed again ``lanes / register`` steps later, when its store is over.
        """
        env, init, lanes = self.env, self.init, self.loop.lanes

        def step(here: Environment, _: list[LlvmScalar]) -> list[LlvmScalar]:
            count, first = (here.lanes.width, here.lanes.base) if here.lanes is not None else (1, here[self.loop.axis])
            offset = env.ops.and_(subtract(env, first, begin), integer(lanes - 1))
            inside = [element(env, at, value, offset) for at, value in zip(addresses, init, strict=True)]
            slots = [read(env, at, value, count) for at, value in zip(inside, init, strict=True)]
            for at, folded in zip(inside, self.fold(here, slots), strict=True):
                write(env, at, folded)
            return []

        vectors.in_lanes(self.loop.axis, self.body, env, begin, end, vector_lanes(self.loop, env), [], step)

    def _tree(self, tree: Tree) -> list[LlvmScalar]:
        """All steps in chunks; where slots are handed over in memory, one chunk alone does without it."""
        env = self.env
        in_registers = tree.in_registers or not self._is_in_memory(self.begin, self._stop(self.begin))
        several = None
        if in_registers and not tree.in_registers and self.known is None:
            several = env.ops.cmp("gt", self.count, integer(self.chunk_steps))

        def chunk(first: LlvmScalar, carried: list[LlvmScalar]) -> list[LlvmScalar]:
            number = tree.number_of(subtract(env, first, self.begin))
            height = tree.height(number)
            last = env.ops.cmp("ge", add(env, first, integer(self.chunk_steps)), self.end)
            merges = tree.merges(number, height, last)
            if tree.in_registers:
                return tree.push(self._one_chunk(first, self._stop(first)), height, merges)
            addresses = tree.slots(height)
            if not in_registers:
                self._chunk_in_memory(first, self._stop(first), self.init, addresses)
                tree.merge_in_memory(height, merges)
                return []
            slots = self._one_chunk(first, self._stop(first))
            with loops.only_if(env, several):
                for at, slot in zip(addresses, slots, strict=True):
                    write(env, at, slot)
                tree.merge_in_memory(height, merges)
            return slots if several is not None else []

        size = self.chunk_steps * max(1, length(self.body) // self.width)
        if tree.in_registers or several is not None:
            carries = self.init
        else:
            carries = []
            tree.clear()
        slots = loops.counted(env, self.begin, self.end, self.chunk_steps, carries, self._polled(tree, chunk, size))
        if tree.in_registers:
            return slots
        if several is None:
            return tree.bottom()
        before = env.function.block
        with loops.only_if(env, several):
            bottom = tree.bottom()
            ends = env.function.block
        return loops.joined(env.function, (before, slots), (ends, bottom))

    def _stop(self, first: LlvmScalar) -> LlvmScalar:
        """The step after the last one of the chunk that begins with ``first``."""
        return least(self.env, add(self.env, first, integer(self.chunk_steps)), self.end)

    def _one_chunk(self, begin: LlvmScalar, end: LlvmScalar) -> list[LlvmScalar]:
        """The slots of a chunk."""
        if self.short is not None:
            return self._rows(self.short, begin, end)
        if self.chunk_steps == 1:
            return self.fold(self.env.at({self.loop.axis: begin}), self.init)
        return self._chunk(begin, end, self.init)

    def _polled(self, tree: Tree, chunk: loops.Emit, size: int) -> loops.Emit:
        """``chunk``, after some of which the host is asked whether to stop, unless all is over soon."""
        if self.most is not None and self.most * (1 + length(self.body)) <= _SOON:
            return chunk

        def asking(first: LlvmScalar, carries: list[LlvmScalar]) -> list[LlvmScalar]:
            number = tree.number_of(subtract(self.env, first, self.begin))
            return polled(self.env, lambda _, inside: chunk(first, inside), size)(number, carries)

        return asking
