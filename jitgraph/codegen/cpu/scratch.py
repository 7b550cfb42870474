"""Scratch memory of kernels: what is too large for the stack of a thread that the program made.

Each chunk of work has ``loader.SCRATCH_BYTES`` to itself while it runs: the calling thread's begin its call's arena,
those of a pool's thread belong to the pool. A kernel lays its panels and long rows out in it as on a stack.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from jitgraph.codegen.llvm.environment import Environment
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.dtypes import DType
from jitgraph.errors import CompileError
from jitgraph.runtime import loader

MOST_STACK_BYTES: Final = 4096
"""Of one piece of memory in a function's frame; what is larger goes into scratch memory."""


class Scratch:
    """The layout of one kernel's scratch memory. ``bytes`` is what it takes, a multiple of the alignment."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.bytes = 0
        self._top = 0

    def allocate(self, size: int) -> int:
        """The offset of ``size`` bytes that stay until the frame around ends. CompileError where there is no room."""
        offset = self._top
        self._top += -(-size // loader.ALIGNMENT) * loader.ALIGNMENT
        self.bytes = max(self.bytes, self._top)
        if self.bytes > loader.SCRATCH_BYTES:
            raise CompileError(
                f"kernel {self.kernel} wants {self.bytes} bytes of scratch memory; {loader.SCRATCH_BYTES} are allowed",
                hint="put what is large into temporary buffers instead",
            )
        return offset

    def private(self, env: Environment, dtype: DType, elements: int) -> LlvmScalar:
        """This chunk's own memory for ``elements`` of ``dtype``, aligned to 64 bytes; on the stack where small."""
        size = max(1, elements) * dtype.itemsize
        if size <= MOST_STACK_BYTES:
            return LlvmScalar(env.function.alloca("i8", size).name, "ptr", dtype, 1)
        address = env.function.emit("ptr", f"getelementptr i8, {env['$scratch']}, i64 {self.allocate(size)}")
        return LlvmScalar(address.name, "ptr", dtype, 1)

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Code emitted in here gives back what it takes: what is emitted after it may use the same memory."""
        top = self._top
        try:
            yield
        finally:
            self._top = top
