"""Memory of a kernel's own: a thread's, which lies in registers where indices are known, and that of a team."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jitgraph.codegen.llvm.access import memory_type
from jitgraph.codegen.llvm.builder import LlvmFunction
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import multiply
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.dtypes import DType
from jitgraph.errors import CompileError
from jitgraph.ir.target import Target

_ALIGNMENT = 16


class PrivateMemory:
    """What each thread has for itself: it stays for as long as the function runs."""

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Nothing is given back."""
        yield

    def private(self, env: Environment, dtype: DType, elements: int) -> LlvmScalar:
        """The address of memory of the thread's own for ``elements`` of ``dtype``."""
        address = env.function.alloca(memory_type(dtype), elements, _ALIGNMENT)
        return LlvmScalar(address.name, "ptr", dtype, 1)


class SharedMemory:
    """The shared memory of a kernel's blocks, of which each of ``teams`` has a part of its own."""

    def __init__(self, function: LlvmFunction, target: Target, teams: int) -> None:
        self.function, self.target, self.teams = function, target, teams
        self.bytes = 0
        self._count = 0

    def take(self, env: Environment, dtype: DType, elements: int, team: LlvmScalar) -> LlvmScalar:
        """The address of memory of team number ``team`` for ``elements``; CompileError where a block has no more."""
        each = elements * dtype.itemsize
        base = f"addrspacecast (ptr addrspace(3) {self.variable(env, each * self.teams)} to ptr)"
        offset = multiply(env, team, integer(each))
        if constant_of(offset) == 0:
            return LlvmScalar(base, "ptr", dtype, 1)
        return LlvmScalar(self.function.emit("ptr", f"getelementptr i8, ptr {base}, {offset}").name, "ptr", dtype, 1)

    @property
    def left(self) -> int:
        """Bytes that a block may still take."""
        return self.target.l1_bytes - self.bytes

    def variable(self, env: Environment, bytes: int, alignment: int = _ALIGNMENT) -> str:
        """The name of a variable of so many bytes; CompileError where a block has no more."""
        self.bytes += -(-bytes // alignment) * alignment
        if self.bytes > self.target.l1_bytes:
            raise CompileError(
                f"kernel {env.kernel.name} wants {self.bytes} bytes of shared memory; {self.target.l1_bytes} are there",
                hint="put it into a temporary buffer instead",
            )
        name = f"@shared_{bytes}_{alignment}_{self._count}"  # kernels use the same variables, each for itself
        self._count += 1
        type = f"[{bytes} x i8]"
        self.function.module.declare(f"{name} = internal addrspace(3) global {type} poison, align {alignment}")
        return name
