"""Reduce loops: slots in registers or on the stack, and chunks that merge as a tree (see ``kernel.Loop``).

The tree is a binary counter of chunks: level j holds what 2^j of them make together. A chunk that is added takes up the
levels that are full, from the lowest on, and in the end the levels merge from the lowest to the highest. So the code is
the same for every extent, and a chunk costs two merges on average.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.kernel import Combine, Loop
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, least, multiply, subtract
from jitgraph.codegen.llvm.scalars import Scalar, lanes_of
from jitgraph.codegen.llvm.structure import gathers, length, vector_lanes
from jitgraph.dtypes import is_bool, uint8
from jitgraph.errors import CompileError

LONG_BODY: Final = 30
"""Length from which on a reduction's body is emitted for one register at a time, with its slots in memory."""

_INDEX_BITS: Final = 63

_SOON: Final = 1 << 22
"""Instructions after which a part of a reduction is over soon enough for nobody to be asked."""

_FEW: Final = 16
"""Chunks of one step whose tree is written out."""

_STRIP: Final = 1 << 14
"""Steps of a loop of any order between two questions to the host whether to stop."""


def emit_reduce(loop: Loop, env: Environment) -> None:
    """Emit a reduce loop, and bind the results of its carries or emit what becomes of its slots."""
    if loop.combine is None:
        raise CompileError(f"kernel {env.kernel.name}: the reduce loop {loop.axis} has no combine")
    if loop.lanes > 1 and env.lanes is not None:
        raise CompileError(f"kernel {env.kernel.name}: the reduce loop {loop.axis} has lanes inside lanes")
    begin, end = loops.window(loop, env)
    with env.scratch.frame():
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
        left = [_lanes_from(env, slot, 0, half) for slot in slots]
        slots = combined(env, loop.combine, left, [_lanes_from(env, slot, half, half) for slot in slots])
        half //= 2
    for name, slot in zip(results, slots, strict=True):
        env.bind(name, slot)


class _Reduction:
    """One reduce loop at one place: ``width`` is the number of lanes of its accumulators."""

    def __init__(self, loop: Loop, combine: Combine, env: Environment, begin: Scalar, end: Scalar) -> None:
        self.loop, self.combine, self.env = loop, combine, env.inner()
        self.begin, self.end = begin, end
        self.count = subtract(env, end, begin)
        self.width = loop.lanes if env.lanes is None else env.lanes.width
        self.init = [env.words.splat(env[carry.init.name], self.width) for carry in loop.carries]
        self.body = loops.hoist(loop, self.env, self.count)
        self.chunk_steps = loop.lanes * loop.chain

    def emit(self) -> list[Scalar]:
        """The slots after all steps."""
        known = constant_of(self.count)
        most = self.loop.span if known is None else known
        if most is not None and most <= (self.chunk_steps or _STRIP):
            return self._chunk(self.begin, self.end, self.init)
        if not self.chunk_steps:
            return self._strips()
        if self.chunk_steps == 1 and known is not None and known <= _FEW:
            return self._few(known)
        most_chunks = None if most is None else -(-most // self.chunk_steps)
        return self._tree(_Levels(self, most_chunks))

    def fold(self, here: Environment, slots: list[Scalar]) -> list[Scalar]:
        """The slots after the step, or the steps in lanes, at which ``here`` is."""
        here.emit(self.body)
        elements = [here.words.splat(here[carry.next.name], slots[0].lanes) for carry in self.loop.carries]
        folded = combined(here, self.combine, slots, elements)
        mask = here.lanes.mask if here.lanes is not None and self.loop.lanes > 1 else None  # one slot is not left out
        if mask is None:
            return folded
        return [here.words.select(mask, new, old) for new, old in zip(folded, slots, strict=True)]

    def _few(self, count: int) -> list[Scalar]:
        """A few steps that are chunks by themselves: the tree without a counter."""
        run = []
        for step in range(count):
            axis = add(self.env, self.begin, integer(step))
            run.append(self.fold(self.env.at({self.loop.axis: axis}), self.init))
        while len(run) > 1:
            pairs = [combined(self.env, self.combine, *pair) for pair in zip(run[::2], run[1::2], strict=False)]
            run = pairs + run[2 * len(pairs) :]
        return run[0]

    def _strips(self) -> list[Scalar]:
        """All steps in any order, with a question to the host now and then."""
        env = self.env

        def strip(first: Scalar, slots: list[Scalar]) -> list[Scalar]:
            return self._chunk(first, least(env, add(env, first, integer(_STRIP)), self.end), slots)

        asking = loops.polled(env, strip, loops.POLL_LENGTH)
        return loops.counted(env, self.begin, self.end, _STRIP, self.init, asking)

    def _chunk(self, begin: Scalar, end: Scalar, init: list[Scalar]) -> list[Scalar]:
        """The slots, which are ``init`` before, after the steps ``begin .. end``."""
        loop, env = self.loop, self.env
        if loop.lanes == 1:
            return loops.counted(
                env, begin, end, 1, init, lambda axis, slots: self.fold(env.at({loop.axis: axis}), slots)
            )
        register = vector_lanes(loop, env)
        if loop.lanes > register:
            if length(self.body) >= LONG_BODY or gathers(self.body, loop.axis):
                return self._in_memory(begin, end, register, init)
            count = subtract(env, end, begin)
            if constant_of(count) is None:  # the rest by registers, whose masks are cheap on every machine
                middle = add(env, begin, env.words.and_(count, integer(-loop.lanes)))
                slots = loops.counted(
                    env,
                    begin,
                    middle,
                    loop.lanes,
                    init,
                    lambda at, slots: self.fold(env.across(loop.axis, at, loop.lanes), slots),
                )
                return self._in_memory(middle, end, register, slots)
        return loops.in_lanes(loop.axis, self.body, env, begin, end, loop.lanes, init, self.fold)

    def _in_memory(self, begin: Scalar, end: Scalar, register: int, init: list[Scalar]) -> list[Scalar]:
        """As ``_chunk``, with a body that is emitted for one register, not for all slots.

        That is for a long one, one whose loads gather, and for what is left of a chunk behind its last whole step of
        all slots. The slots lie on the stack meanwhile; each is needed again ``lanes / register`` steps later, when its
        store is over.
        """
        env, lanes = self.env, self.loop.lanes
        memories = [_memory(env, value, value.lanes) for value in init]
        for memory, value in zip(memories, init, strict=True):
            _write(env, memory, value)

        def step(here: Environment, _: list[Scalar]) -> list[Scalar]:
            count, first = (here.lanes.width, here.lanes.base) if here.lanes is not None else (1, here[self.loop.axis])
            place = env.words.and_(subtract(env, first, begin), integer(lanes - 1))
            places = [_element(env, memory, value, place) for memory, value in zip(memories, init, strict=True)]
            slots = [_read(env, at, value, count) for at, value in zip(places, init, strict=True)]
            for at, folded in zip(places, self.fold(here, slots), strict=True):
                _write(env, at, folded)
            return []

        loops.in_lanes(self.loop.axis, self.body, env, begin, end, register, [], step)
        return [_read(env, memory, value, lanes) for memory, value in zip(memories, init, strict=True)]

    def _tree(self, levels: _Levels) -> list[Scalar]:
        """All steps in chunks."""
        env = self.env

        def chunk(first: Scalar, _: list[Scalar]) -> list[Scalar]:
            stop = least(env, add(env, first, integer(self.chunk_steps)), self.end)
            number = _shifted(env, subtract(env, first, self.begin), self.chunk_steps)
            levels.add(number, self._chunk(first, stop, self.init))
            return []

        size = self.chunk_steps * max(1, length(self.body) // self.width)
        loops.counted(env, self.begin, self.end, self.chunk_steps, [], self._polled(chunk, size))
        steps = env.words.max(self.count, integer(0)) if constant_of(self.count) is None else self.count
        return levels.merged(_shifted(env, add(env, steps, integer(self.chunk_steps - 1)), self.chunk_steps))

    def _polled(self, chunk: loops.Emit, size: int) -> loops.Emit:
        """``chunk``, after some of which the host is asked whether to stop, unless all is over soon."""
        if self.loop.span is not None and self.loop.span * (1 + length(self.body)) <= _SOON:
            return chunk

        def asking(first: Scalar, carries: list[Scalar]) -> list[Scalar]:
            number = _shifted(self.env, subtract(self.env, first, self.begin), self.chunk_steps)
            return loops.polled(self.env, lambda _, inside: chunk(first, inside), size)(number, carries)

        return asking


class _Levels:
    """The tree of a reduction: for each level the slots of a run of 2^level chunks, in memory."""

    def __init__(self, reduction: _Reduction, most_chunks: int | None) -> None:
        self.env, self.init, self.combine = reduction.env, reduction.init, reduction.combine
        self.width = reduction.width
        bits = _INDEX_BITS - (reduction.chunk_steps.bit_length() - 1)
        self.count = bits if most_chunks is None else most_chunks.bit_length()
        self.memories = [_memory(self.env, value, self.count * self.width) for value in self.init]

    def _place(self, level: Scalar) -> list[Scalar]:
        at = multiply(self.env, level, integer(self.width))
        return [_element(self.env, memory, value, at) for memory, value in zip(self.memories, self.init, strict=True)]

    def _load(self, places: list[Scalar]) -> list[Scalar]:
        return [_read(self.env, at, value, self.width) for at, value in zip(places, self.init, strict=True)]

    def add(self, number: Scalar, slots: list[Scalar]) -> None:
        """Put chunk ``number`` into the tree."""
        env, function = self.env, self.env.function
        turn, merge, done = map(function.label, ("level", "merge", "put"))
        before, known = function.block, function.known
        function.jump(turn)
        function.start_block(turn, known)
        level, bits = function.phi("i64"), function.phi("i64")
        phis = [function.phi(slot.type) for slot in slots]
        for phi, value in zip((level, bits, *phis), ("0", number.name, *(slot.name for slot in slots)), strict=True):
            phi.add(value, before)
        carried = [slot._replace(name=phi.value.name) for slot, phi in zip(slots, phis, strict=True)]
        low = function.emit("i64", f"and {bits.value}, 1")
        full = function.emit("i1", f"icmp ne {low}, 0")
        places = self._place(integer(0)._replace(name=level.value.name))
        inside = function.known
        function.branch(full.name, merge, done)
        function.start_block(merge, inside)
        merged = combined(env, self.combine, self._load(places), carried)
        after = function.emit("i64", f"add nsw {level.value}, 1")
        rest = function.emit("i64", f"lshr {bits.value}, 1")
        for phi, value in zip(
            (level, bits, *phis), (after.name, rest.name, *(slot.name for slot in merged)), strict=True
        ):
            phi.add(value, function.block)
        function.jump(turn)
        function.start_block(done, inside)
        for at, slot in zip(places, carried, strict=True):
            _write(env, at, slot)

    def merged(self, chunks: Scalar) -> list[Scalar]:
        """All of ``chunks`` chunks together: the identity where there is none."""
        env, function = self.env, self.env.function
        known = constant_of(chunks)
        if known is not None:
            slots = self.init
            for level in range(self.count):
                if known >> level & 1:
                    slots = combined(env, self.combine, self._load(self._place(integer(level))), slots)
            return slots

        def step(level: Scalar, slots: list[Scalar]) -> list[Scalar]:
            bits = function.emit("i64", f"lshr {chunks}, {level.name}")
            full = env.words.cmp("ne", env.words.and_(chunks._replace(name=bits.name), integer(1)), integer(0))
            merge, after = function.label("merge"), function.label("next")
            before, outside = function.block, function.known
            function.branch(full.name, merge, after)
            function.start_block(merge, outside)
            together = combined(env, self.combine, self._load(self._place(level)), slots)
            ends = function.block
            function.jump(after)
            function.start_block(after, outside)
            return loops.joined(function, (before, slots), (ends, together))

        used = env.words.make(f"call i64 @llvm.ctlz.i64({chunks}, i1 false)", chunks.dtype, 1)
        return loops.counted(env, integer(0), subtract(env, integer(64), used), 1, self.init, step)


def combined(env: Environment, combine: Combine, left: list[Scalar], right: list[Scalar]) -> list[Scalar]:
    """``combine`` of two sets of accumulators, lane by lane."""
    scope = env.inner()
    for var, value in zip((*combine.left, *combine.right), (*left, *right), strict=True):
        scope.bind(var.name, value)
    scope.emit(combine.body)
    return [scope.words.splat(scope[var.name], left[0].lanes) for var in combine.results]


def _shifted(env: Environment, x: Scalar, divisor: int) -> Scalar:
    """``x`` divided by a power of two, for x >= 0."""
    known = constant_of(x)
    if known is not None:
        return integer(known // divisor)
    return env.words.make(f"lshr {x}, {divisor.bit_length() - 1}", x.dtype, 1)


def _lanes_from(env: Environment, x: Scalar, start: int, count: int) -> Scalar:
    s = env.words
    if count == 1:
        return s.make(f"extractelement {x}, i64 {start}", x.dtype, 1)
    order = ", ".join(f"i32 {lane}" for lane in range(start, start + count))
    return s.make(f"shufflevector {x}, {x.type} poison, <{count} x i32> <{order}>", x.dtype, count)


# --- accumulators in memory, where bools are bytes ---


def _memory(env: Environment, like: Scalar, elements: int) -> Scalar:
    return env.private(uint8 if is_bool(like.dtype) else like.dtype, elements)._replace(dtype=like.dtype)


def _element(env: Environment, memory: Scalar, like: Scalar, index: Scalar) -> Scalar:
    address = env.function.emit("ptr", f"getelementptr {_stored(like)}, {memory}, {index}")
    return memory._replace(name=address.name)


def _stored(like: Scalar) -> str:
    """The type of one element of ``like`` in memory."""
    return "i8" if is_bool(like.dtype) else like.type.rpartition(" x ")[2].rstrip(">")


def _write(env: Environment, address: Scalar, x: Scalar) -> None:
    value = env.words.bitcast(x, uint8) if is_bool(x.dtype) else x
    env.function.do(f"store {value}, ptr {address.name}, align 1")


def _read(env: Environment, address: Scalar, like: Scalar, lanes: int) -> Scalar:
    dtype = like.dtype
    type = lanes_of(_stored(like), lanes)
    value = env.words.make(f"load {type}, ptr {address.name}, align 1", uint8 if is_bool(dtype) else dtype, lanes, type)
    return env.words.bitcast(value, dtype) if is_bool(dtype) else value
