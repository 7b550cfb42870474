"""A kernel as one LLVM function, ``i32 kernel(ptr host, ptr call, ptr scratch, params..., sizes...)``: its body and
scratch memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from jitgraph.codegen.cpu import parallel, pool, vectors
from jitgraph.codegen.cpu.access import active_mask, emit_load, emit_store
from jitgraph.codegen.kernels.kernel import (
    CheckStatement,
    Contract,
    IndexValue,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Statement,
    Store,
)
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmModule, LlvmScalar, LlvmValue
from jitgraph.codegen.llvm.environment import Environment, Names, emit_let, integer
from jitgraph.codegen.llvm.index import index_value
from jitgraph.codegen.llvm.scalars import any_lane
from jitgraph.dtypes import DType, int64
from jitgraph.errors import CompileError
from jitgraph.ir.target import Target
from jitgraph.runtime import imports, loader

# ----------------------------------------------------------------------
# Scratch memory of kernels: what is too large for the stack of a thread that the program made.
#
# Each chunk of work has ``loader.SCRATCH_BYTES`` to itself while it runs: the calling thread's begin its call's arena,
# those of a pool's thread belong to the pool. A kernel lays its panels and long rows out in it as on a stack.

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


# ----------------------------------------------------------------------
# Statements of kernel bodies, one by one. See ``environment.py`` for what an environment is.

MAX_LOCAL_BYTES: Final = 256 << 10


def emit_statement(statement: Statement, env: Environment) -> None:
    """Emit one statement and bind what it defines."""
    match statement:
        case Let():
            env.bind(statement.var.name, emit_let(statement, env))
        case IndexValue():
            env.bind(statement.var.name, index_value(env, statement.index))
        case Load():
            emit_load(statement, env)
        case Store():
            emit_store(statement, env)
        case CheckStatement():
            emit_check(statement, env)
        case Local():
            emit_local(statement, env)
        case Loop(kind="reduce"):
            _part("reductions").emit_reduce(statement, env)
        case Loop():
            if env.outermost and statement.kind in ("parallel", "vector"):
                parallel.emit_parallel(statement, env)
            else:
                vectors.emit_loop(statement, env)
        case Contract():
            with env.memory.frame():
                _part("contract").emit_contract(statement, env)


def _part(name: str) -> Any:
    """A module of this room that most kernels do not need, and that takes a while to import."""
    return imports.module(f"jitgraph.codegen.cpu.{name}")


def emit_check(check: CheckStatement, env: Environment) -> None:
    """Return from the function with the error where any lane that is in range fails."""
    s, function = env.ops, env.function
    bad = s.not_(env[check.ok.name])
    if env.lanes is not None and (bad.lanes > 1 or env.lanes.mask is not None):
        active = active_mask(env, bad)
        assert active is not None
        bad = active
    failed, passed = function.label("failed"), function.label("passed")
    function.branch(any_lane(s, bad).name, failed, passed, likely=False)
    known = function.known
    function.start_block(failed)
    lane = _first_lane(env, bad)
    reported = [
        _of_lane(env, env[var.name], lane) if var is not None else integer(0) for var in (check.value, check.bound)
    ]
    pool.declare(env.module)
    code = function.emit(
        "i32",
        f"call i32 @jg_fail({env['$call']}, i32 {check.check}, {reported[0]}, {reported[1]}, {env['$order']})",
    )
    function.ret(code)
    function.start_block(passed, known)


def _first_lane(env: Environment, bad: LlvmScalar) -> str:
    if bad.lanes == 1:
        return "0"
    function = env.function
    bits = function.emit(f"i{bad.lanes}", f"bitcast {bad} to i{bad.lanes}")
    return function.emit(bits.type, f"call {bits.type} @llvm.cttz.{bits.type}({bits}, i1 true)").name


def _of_lane(env: Environment, x: LlvmScalar, lane: str) -> LlvmScalar:
    if x.lanes == 1:
        return x
    return env.ops.make(f"extractelement {x}, i{x.lanes} {lane}", x.dtype, 1)


def emit_local(local: Local, env: Environment) -> None:
    """Reserve the buffer; inside a vector loop every lane has its own, element by element."""
    lanes = env.lanes.width if env.lanes is not None else 1
    if local.size * lanes * local.dtype.itemsize > MAX_LOCAL_BYTES:
        raise CompileError(
            f"kernel {env.kernel.name} wants {local.size * lanes * local.dtype.itemsize} bytes of memory"
            f" for {local.buffer}; {MAX_LOCAL_BYTES} are allowed",
            hint="put it into a temporary buffer instead",
        )
    memory = env.private(local.dtype, local.size * lanes)
    env.bind("&" + local.buffer, memory._replace(lanes=lanes))


# ----------------------------------------------------------------------
# A kernel as one LLVM function: ``i32 kernel(ptr host, ptr call, ptr scratch, params..., sizes...)`` gives a code.


def emit_kernel(kernel: Kernel, module: LlvmModule, target: Target) -> tuple[str, int]:
    """Emit ``kernel`` into ``module``; gives the name of its function and the bytes of scratch memory that it takes."""
    function = LlvmFunction(module, module.unique(f"k_{kernel.name}"), "i32", attributes="nounwind", inlined=False)
    scratch = Scratch(kernel.name)
    env = Environment(function, kernel, target, Names(), scratch, emit_statement, outermost=True)
    for name in ("$host", "$call"):
        env.bind(name, LlvmScalar(function.argument("ptr").name, "ptr", int64, 1))
    env.bind("$scratch", LlvmScalar(function.argument("ptr", "noalias").name, "ptr", int64, 1))
    env.bind("$order", integer(0))
    for param in kernel.params:
        attributes = ["noalias"] if param.name in env.unaliased else []
        if param.access == "read":
            attributes.append("readonly")
        argument = function.argument("ptr", " ".join(attributes))
        env.bind("&" + param.name, LlvmScalar(argument.name, "ptr", param.dtype, 1))
    for size in kernel.sizes:
        env.bind(size, LlvmScalar(function.argument("i64").name, "i64", int64, 1))
    env.emit(kernel.body)
    function.ret(LlvmValue("0", "i32"))
    function.finish()
    return function.name, scratch.bytes
