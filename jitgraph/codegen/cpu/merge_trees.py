"""The trees in which partial sums of reductions and contractions merge, as stacks, and accumulators in lanes and in
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jitgraph.codegen.cpu import parallel
from jitgraph.codegen.kernels.kernel import Combine, Contract
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.builder import LlvmScalar, lanes_of
from jitgraph.codegen.llvm.environment import Environment, combined, constant_of, integer
from jitgraph.codegen.llvm.index import add, index_value, least, multiply, subtract
from jitgraph.dtypes import int64, is_bool, uint8

# ----------------------------------------------------------------------
# Accumulators of reductions in lanes, and where they lie in memory, in which bools are bytes.


def lanes_from(env: Environment, x: LlvmScalar, start: int, count: int) -> LlvmScalar:
    """``count`` of the lanes of ``x``."""
    s = env.ops
    if count == 1:
        return s.make(f"extractelement {x}, i64 {start}", x.dtype, 1)
    order = ", ".join(f"i32 {lane}" for lane in range(start, start + count))
    return s.make(f"shufflevector {x}, {x.type} poison, <{count} x i32> <{order}>", x.dtype, count)


def joined_lanes(env: Environment, vectors: Sequence[LlvmScalar]) -> LlvmScalar:
    """Vectors of one type, a power of two of them, end to end."""
    vectors = list(vectors)
    while len(vectors) > 1:
        lanes = list(range(2 * vectors[0].lanes))
        vectors = [shuffled(env, x, y, lanes) for x, y in zip(vectors[::2], vectors[1::2], strict=True)]
    return vectors[0]


def shuffled(env: Environment, x: LlvmScalar, y: LlvmScalar | None, order: list[int]) -> LlvmScalar:
    """Lanes of ``x`` and ``y``, those of ``y`` being numbered after those of ``x``."""
    if y is None and order == list(range(x.lanes)):
        return x
    other = f"{x.type} poison" if y is None else str(y)
    lanes = ", ".join(f"i32 {lane}" for lane in order)
    return env.ops.make(f"shufflevector {x}, {other}, <{len(order)} x i32> <{lanes}>", x.dtype, len(order))


def memory(env: Environment, like: LlvmScalar, elements: int) -> LlvmScalar:
    """Memory for accumulators such as ``like``."""
    return env.private(uint8 if is_bool(like.dtype) else like.dtype, elements)._replace(dtype=like.dtype)


def element(env: Environment, memory: LlvmScalar, like: LlvmScalar, index: LlvmScalar) -> LlvmScalar:
    """The memory from one of its elements on."""
    if index.name == "0":
        return memory
    address = env.function.emit("ptr", f"getelementptr {_stored(like)}, {memory}, {index}")
    return memory._replace(name=address.name)


def _stored(like: LlvmScalar) -> str:
    """The type of one element of ``like`` in memory."""
    return "i8" if is_bool(like.dtype) else like.type.rpartition(" x ")[2].rstrip(">")


def write(env: Environment, address: LlvmScalar, x: LlvmScalar) -> None:
    """Store ``x``."""
    value = env.ops.bitcast(x, uint8) if is_bool(x.dtype) else x
    env.function.do(f"store {value}, ptr {address.name}, align 1")


def read(env: Environment, address: LlvmScalar, like: LlvmScalar, lanes: int) -> LlvmScalar:
    """``lanes`` accumulators such as ``like``."""
    dtype = like.dtype
    type = lanes_of(_stored(like), lanes)
    value = env.ops.make(f"load {type}, ptr {address.name}, align 1", uint8 if is_bool(dtype) else dtype, lanes, type)
    return env.ops.bitcast(value, dtype) if is_bool(dtype) else value


# ----------------------------------------------------------------------
# The tree in which the chunks of a reduction merge (``kernel.Loop``), as a stack.
#
# Before chunk t as many runs of chunks wait as t has bits, the longest at the bottom. Chunk t merges with those on top
# of it, as many as t ends in ones, and waits in their place; the last chunk merges with all, and what lies at the
# bottom is the result. So one loop merges, its code is the same for every extent, and a chunk costs two merges on
# average.

_INDEX_BITS: Final = 63
_AT_ONCE: Final = 8
"""Registers of slots that merge in registers; more of them stay in memory, where a loop merges one after another."""


class Tree:
    """The stack of one reduction, of ``width`` slots a chunk; ``init`` are the accumulators of no step."""

    def __init__(
        self, env: Environment, init: list[LlvmScalar], combine: Combine, chunk_steps: int, most_chunks: int | None
    ) -> None:
        self.env, self.init, self.combine = env, init, combine
        self.width = init[0].lanes
        self.chunk_bits = chunk_steps.bit_length() - 1
        most = _INDEX_BITS - self.chunk_bits if most_chunks is None else most_chunks.bit_length()
        self.memories = [memory(env, value, most * self.width) for value in init]
        widest = max(value.dtype.itemsize for value in init)
        self.register = max(1, env.target.vector_bytes // widest)

    @property
    def in_registers(self) -> bool:
        """Whether slots are handed over as values, and not in memory."""
        return self.width <= _AT_ONCE * self.register

    def number_of(self, steps: LlvmScalar) -> LlvmScalar:
        """How many chunks are whole in so many steps."""
        known = constant_of(steps)
        if known is not None:
            return integer(known >> self.chunk_bits)
        return self.env.ops.make(f"lshr {steps}, {self.chunk_bits}", steps.dtype, 1) if self.chunk_bits else steps

    def height(self, number: LlvmScalar) -> LlvmScalar:
        """How many runs wait before chunk ``number``."""
        return self.env.ops.intrinsic("ctpop", number)

    def merges(self, number: LlvmScalar, height: LlvmScalar, last: LlvmScalar) -> LlvmScalar:
        """With how many of them chunk ``number`` merges; ``last`` says whether it is the last one."""
        s = self.env.ops
        zeros = s.make(f"xor {number}, -1", number.dtype, 1)
        ones = s.make(f"call i64 @llvm.cttz.i64({zeros}, i1 false)", number.dtype, 1)
        return s.select(last, height, ones)

    def slots(self, height: LlvmScalar) -> list[LlvmScalar]:
        """Where the slots of the chunk lie before which so many runs wait."""
        return self._addresses(multiply(self.env, height, integer(self.width)))

    def _addresses(self, index: LlvmScalar) -> list[LlvmScalar]:
        return [element(self.env, memory, value, index) for memory, value in zip(self.memories, self.init, strict=True)]

    def _read(self, addresses: list[LlvmScalar], lanes: int) -> list[LlvmScalar]:
        return [read(self.env, at, value, lanes) for at, value in zip(addresses, self.init, strict=True)]

    def _write(self, addresses: list[LlvmScalar], values: list[LlvmScalar]) -> None:
        for at, value in zip(addresses, values, strict=True):
            write(self.env, at, value)

    def push(self, slots: list[LlvmScalar], height: LlvmScalar, merges: LlvmScalar) -> list[LlvmScalar]:
        """The slots of a chunk, merged; they wait in the place of the runs that they took up."""
        env = self.env

        def merge(done: LlvmScalar, carried: list[LlvmScalar]) -> list[LlvmScalar]:
            below = subtract(env, subtract(env, height, integer(1)), done)
            return combined(env, self.combine, self._read(self.slots(below), self.width), carried)

        merged = loops.counted(env, integer(0), merges, 1, slots, merge)
        self._write(self.slots(subtract(env, height, merges)), merged)
        return merged

    def merge_in_memory(self, height: LlvmScalar, merges: LlvmScalar) -> None:
        """As ``push``, where the slots of the chunk lie at ``slots(height)``."""
        env, width = self.env, integer(self.width)
        top = multiply(env, height, width)

        def merge(done: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
            right = subtract(env, top, done)
            left = subtract(env, right, width)

            def register(lane: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
                into, other = self._addresses(add(env, left, lane)), self._addresses(add(env, right, lane))
                values = self._read(into, self.register), self._read(other, self.register)
                self._write(into, combined(env, self.combine, *values))
                return []

            return loops.counted(env, integer(0), width, self.register, [], register)

        loops.counted(env, integer(0), multiply(env, merges, width), self.width, [], merge)

    def clear(self) -> None:
        """Put the accumulators of no step to the bottom."""
        self._write(self.memories, self.init)

    def bottom(self) -> list[LlvmScalar]:
        """What lies at the bottom."""
        return self._read(self.memories, self.width)


# ----------------------------------------------------------------------
# The tree in which a contraction merges the sums of its blocks of k (``kernel.Contract``), as a stack.
#
# Before block t as many sums wait as t has bits, the largest at the bottom. The sum of block t merges with those on top
# of it, as many as t ends in ones, and waits in their place; the last block's merges with all, and what lies at the
# bottom is the total. A stack has no gaps, so it takes less memory than a counter with a place for each bit.

_LONGEST = 2**63 - 1


def steps(contract: Contract, env: Environment) -> tuple[LlvmScalar, LlvmScalar]:
    """Where the steps of ``contract`` begin and end."""
    begin, extent = index_value(env, contract.begin), contract.extents[2]
    if contract.span is None:
        return begin, index_value(env, extent)
    last = add(env, begin, integer(contract.span))
    every_part_is_full = isinstance(extent, int) and extent % contract.span == 0
    return begin, last if every_part_is_full else least(env, last, index_value(env, extent))


def most_steps(contract: Contract, env: Environment) -> int | None:
    """How many steps there are at most, where that is known."""
    extent = constant_of(index_value(env, contract.extents[2]))
    if contract.span is None or extent is None:
        return contract.span if extent is None else extent
    return min(extent, contract.span)


def block_count(contract: Contract, env: Environment) -> LlvmScalar:
    """The number of blocks of k; an empty k has one, whose sums are 0."""
    begin, end = steps(contract, env)
    depth = subtract(env, end, begin)
    known = constant_of(depth)
    if known is not None:
        return integer(max(1, -(-known // contract.block_k)))
    return parallel.ceil_div(env, env.ops.max(depth, integer(1)), integer(contract.block_k))


def most_waiting(contract: Contract, env: Environment) -> int:
    """How many sums wait at once at most, whatever k is where it is not known; 1 where none need to.

    Up to three blocks the tree is a chain, for which one place is enough.
    """
    depth = most_steps(contract, env)
    return _waiting(-(-(_LONGEST if depth is None else depth) // contract.block_k))


def _waiting(blocks: int) -> int:
    return max(1, blocks.bit_length() - 1)


def waiting(env: Environment, blocks: LlvmScalar) -> LlvmScalar:
    """As ``most_waiting``, for a number of blocks of the code's."""
    known = constant_of(blocks)
    if known is not None:
        return integer(_waiting(known))
    zeros = env.ops.make(f"call i64 @llvm.ctlz.i64({blocks}, i1 false)", int64, 1)
    return env.ops.max(subtract(env, integer(63), zeros), integer(1))


def height(env: Environment, block: LlvmScalar) -> LlvmScalar:
    """How many sums wait before ``block``."""
    known = constant_of(block)
    return integer(known.bit_count()) if known is not None else env.ops.intrinsic("ctpop", block)


def merges(env: Environment, block: LlvmScalar, blocks: LlvmScalar) -> LlvmScalar:
    """With how many waiting sums that of ``block`` merges; ``blocks`` are all there are."""
    known, last = constant_of(block), constant_of(blocks)
    following = add(env, block, integer(1))
    high = height(env, block)
    ones = subtract(env, add(env, high, integer(1)), height(env, following))
    if known is not None and last is not None:
        return high if known + 1 == last else ones
    return env.ops.select(env.ops.cmp("eq", following, blocks), high, ones)
