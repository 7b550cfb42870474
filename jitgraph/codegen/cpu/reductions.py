"""Reduce loops: slots in registers or on the stack, and chunks that merge as a tree (see ``kernel.Loop``)."""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cpu import short_rows, vectors
from jitgraph.codegen.cpu.merge_trees import Tree, element, lanes_from, memory, read, write
from jitgraph.codegen.cpu.vectors import POLL_LENGTH, polled, vector_lanes
from jitgraph.codegen.kernels.kernel import Combine, Loop
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.builder import LlvmScalar
from jitgraph.codegen.llvm.environment import Environment, combined, constant_of, integer
from jitgraph.codegen.llvm.index import add, least, subtract
from jitgraph.codegen.llvm.loops import gathers, is_even, length
from jitgraph.errors import CompileError

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
    """Emit a reduce loop with lanes where rows are lanes: see ``short_rows.py``."""
    if env.lanes is None or env.lanes.mask is not None or loop.slots is not None:
        raise CompileError(f"kernel {env.kernel.name}: the reduce loop {loop.axis} has lanes inside lanes")
    slots = []
    for row in range(env.lanes.width):
        here = short_rows.row_environment(env, row)
        slots.append(_Reduction(loop, combine, here, *loops.window(loop, here)).emit())
    folded = short_rows.folded_together(env, combine, slots)
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

    def _short_rows(self) -> short_rows.ShortRows | None:
        """How several short rows go at once; None where that is not worth it."""
        if self.loop.lanes > 1 or self.loop.chain <= 1:
            return None
        short = short_rows.short_rows(self.loop, self.body, self.env)
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
            window = short_rows.Window(begin, middle, end)
            return short_rows.fold_remainder(env, loop, self.body, window, slots, width, self.fold)
        return vectors.in_lanes(loop.axis, self.body, env, begin, end, loop.lanes, init, self.fold)

    def _fold_all_slots(self, first: LlvmScalar, slots: list[LlvmScalar]) -> list[LlvmScalar]:
        """The slots after a step of each."""
        return self.fold(self.env.across(self.loop.axis, first, self.loop.lanes), slots)

    def _rows(self, short: short_rows.ShortRows, begin: LlvmScalar, end: LlvmScalar) -> list[LlvmScalar]:
        """The slot after the steps ``begin .. end`` of a chunk: rows go several at once, and are added one by one."""
        loop, env, several = self.loop, self.env, short.together

        def rows(axis: LlvmScalar, slots: list[LlvmScalar]) -> list[LlvmScalar]:
            here = env.across(loop.axis, axis, several)
            short_rows.prefetch_rows(loop, self.body, env.at({loop.axis: axis}), several)
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
        return not short_rows.is_short(self.body, self.env, self.loop.lanes // width)

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
