"""The tree in which the chunks of a reduction merge (``kernel.Loop``), as a stack.

Before chunk t as many runs of chunks wait as t has bits, the longest at the bottom. Chunk t merges with those on top of
it, as many as t ends in ones, and waits in their place; the last chunk merges with all, and what lies at the bottom is
the result. So one loop merges, its code is the same for every extent, and a chunk costs two merges on average.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cpu.accumulators import element, memory, read, write
from jitgraph.codegen.kernels.kernel import Combine
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.combine import combined
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, multiply, subtract
from jitgraph.codegen.llvm.operand import LlvmScalar

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
