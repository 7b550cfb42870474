"""A kernel as one LLVM function, ``i32 kernel(ptr host, ptr call, ptr scratch, params..., sizes...)``: its body, its
loads and stores, and its scratch memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from jitgraph.codegen.cpu import parallel, pool, vectors
from jitgraph.codegen.cpu.interleaving import emit_neighbours, neighbours_of
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
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmModule, LlvmScalar, LlvmValue, lanes_of
from jitgraph.codegen.llvm.environment import Environment, Names, emit_let, integer
from jitgraph.codegen.llvm.index import (
    add,
    axis_lanes,
    element_address,
    from_memory,
    index_value,
    load_element,
    load_run,
    memory_type,
    multiply,
    overload,
    reversed_lanes,
    split,
    store_element,
    store_run,
    to_memory,
    varies,
)
from jitgraph.codegen.llvm.scalars import any_lane
from jitgraph.dtypes import DType, bool_, int64
from jitgraph.errors import CompileError, UnsupportedOp
from jitgraph.ir.target import Target
from jitgraph.runtime import imports, loader

# ----------------------------------------------------------------------
# Loads and stores of kernel buffers: uniform, contiguous, reversed, gathered; lanes masked off touch nothing.


def emit_load(load: Load, env: Environment) -> None:
    """Bind ``load.var``."""
    buffer = env["&" + load.buffer]
    mask = env[load.mask.name] if load.mask is not None else None
    if buffer.lanes > 1:
        value = _load_private(env, buffer, load, mask)
    elif env.lanes is None or not (varies(env, load.index) or _is_varying(mask)):
        value = load_element(env, buffer, index_value(env, load.index), mask)
    elif not varies(env, load.index):
        value = _load_shared(env, buffer, load, mask)
    else:
        value = _load_lanes(env, buffer, load, mask)
    env.bind(load.var.name, value)


def emit_store(store: Store, env: Environment) -> None:
    """Emit ``store``; UnsupportedOp for an update, for which the processor's threads have no instruction here."""
    if store.update is not None:
        raise UnsupportedOp(f"kernel {env.kernel.name} updates {store.buffer} in one step, on a processor")
    buffer = env["&" + store.buffer]
    mask = env[store.mask.name] if store.mask is not None else None
    value = to_memory(env, env[store.value.name], buffer.dtype)
    if buffer.lanes > 1:
        _store_private(env, buffer, store, value, mask)
    elif env.lanes is None:
        store_element(env, buffer, index_value(env, store.index), value, mask)
    else:
        _store_lanes(env, buffer, store, value, mask)


def _is_varying(mask: LlvmScalar | None) -> bool:
    return mask is not None and mask.lanes > 1


def _load_shared(env: Environment, buffer: LlvmScalar, load: Load, mask: LlvmScalar | None) -> LlvmScalar:
    """One element for all lanes, of which some may be masked off: read where any is not."""
    s = env.ops
    active = active_mask(env, mask)
    assert active is not None
    value = load_element(env, buffer, index_value(env, load.index), any_lane(s, active))
    return s.select(active, value, s.zero_like(s.splat(value, active.lanes)))


def _load_lanes(env: Environment, buffer: LlvmScalar, load: Load, mask: LlvmScalar | None) -> LlvmScalar:
    assert env.lanes is not None
    count, dtype = env.lanes.width, buffer.dtype
    active = active_mask(env, mask)
    parts = split(env, load.index)
    if parts is not None and parts[0] in (1, -1):
        reverse = parts[0] == -1
        address = _first_address(env, buffer, parts)
        if reverse and active is not None:
            active = reversed_lanes(env, active)
        raw = load_run(env, address, dtype, count, active)
        return from_memory(env, reversed_lanes(env, raw) if reverse else raw, dtype)
    addresses = element_address(env, buffer, env.ops.splat(_lane_index(env, load.index, parts), count))
    return from_memory(env, _gather(env, addresses, dtype, count, active), dtype)


def _store_lanes(
    env: Environment, buffer: LlvmScalar, store: Store, value: LlvmScalar, mask: LlvmScalar | None
) -> None:
    assert env.lanes is not None
    count = env.lanes.width
    value = env.ops.splat(value, count)
    active = active_mask(env, mask)
    parts = split(env, store.index)
    if parts is not None and parts[0] in (1, -1):
        address = _first_address(env, buffer, parts)
        if parts[0] == -1:
            value = reversed_lanes(env, value)
            active = reversed_lanes(env, active) if active is not None else None
        store_run(env, value, address, buffer.dtype, active)
        return
    addresses = element_address(env, buffer, env.ops.splat(_lane_index(env, store.index, parts), count))
    _scatter(env, value, addresses, buffer.dtype, active)


def _load_private(env: Environment, buffer: LlvmScalar, load: Load, mask: LlvmScalar | None) -> LlvmScalar:
    """From a Local of which each lane has its own: element i of lane j lies at i * lanes + j."""
    count, dtype = buffer.lanes, buffer.dtype
    active = active_mask(env, mask) if mask is not None else None  # its memory is there for every lane
    index = multiply(env, index_value(env, load.index), integer(count))
    if index.lanes == 1:
        return from_memory(env, load_run(env, element_address(env, buffer, index), dtype, count, active), dtype)
    addresses = element_address(env, buffer, env.ops.add(index, _own_lane(count)))
    return from_memory(env, _gather(env, addresses, dtype, count, active_mask(env, mask)), dtype)


def _store_private(
    env: Environment, buffer: LlvmScalar, store: Store, value: LlvmScalar, mask: LlvmScalar | None
) -> None:
    count = buffer.lanes
    value = env.ops.splat(value, count)
    index = multiply(env, index_value(env, store.index), integer(count))
    active = active_mask(env, mask) if mask is not None or index.lanes > 1 else None
    if index.lanes == 1:
        store_run(env, value, element_address(env, buffer, index), buffer.dtype, active)
        return
    _scatter(env, value, element_address(env, buffer, env.ops.add(index, _own_lane(count))), buffer.dtype, active)


def _gather(env: Environment, addresses: str, dtype: DType, count: int, active: LlvmScalar | None) -> LlvmScalar:
    """An element from each of ``addresses``; zero in lanes that are not active."""
    memory = lanes_of(memory_type(dtype), count)
    bits = active if active is not None else _all(env, count)
    return env.ops.make(
        f"call {memory} @llvm.masked.gather.{overload(dtype, count)}.v{count}p0("
        f"<{count} x ptr> align {dtype.itemsize} {addresses}, {bits}, {memory} zeroinitializer)",
        dtype, count, memory,
    )  # fmt: skip


def _scatter(env: Environment, value: LlvmScalar, addresses: str, dtype: DType, active: LlvmScalar | None) -> None:
    """The active lanes of ``value`` to an address each."""
    count = value.lanes
    bits = active if active is not None else _all(env, count)
    env.function.do(
        f"call void @llvm.masked.scatter.{overload(dtype, count)}.v{count}p0({value},"
        f" <{count} x ptr> align {dtype.itemsize} {addresses}, {bits})"
    )


def active_mask(env: Environment, mask: LlvmScalar | None) -> LlvmScalar | None:
    """``mask`` and the lanes that are in range; None where that is all of them."""
    assert env.lanes is not None
    if mask is None:
        return env.lanes.mask
    mask = env.ops.splat(mask, env.lanes.width)
    return mask if env.lanes.mask is None else env.ops.and_(mask, env.lanes.mask)


def _all(env: Environment, count: int) -> LlvmScalar:
    return env.ops.splat(LlvmScalar("true", "i1", bool_, 1), count)


def _own_lane(count: int) -> LlvmScalar:
    return LlvmScalar(f"<{', '.join(f'i64 {lane}' for lane in range(count))}>", f"<{count} x i64>", int64, count)


def _first_address(env: Environment, buffer: LlvmScalar, parts: tuple[object, object]) -> str:
    """The lowest address of a contiguous run: lane 0's, or the last lane's where the index falls."""
    assert env.lanes is not None
    rest = index_value(env, parts[1])  # type: ignore[arg-type]
    if parts[0] == 1:
        return element_address(env, buffer, add(env, rest, env.lanes.base))
    last = add(env, env.lanes.base, integer(env.lanes.width - 1))
    return element_address(env, buffer, env.ops.sub(rest, last))


def _lane_index(env: Environment, index: object, parts: tuple[object, object] | None) -> LlvmScalar:
    """A varying index as a vector."""
    if parts is None:
        return index_value(env, index)  # type: ignore[arg-type]
    step = multiply(env, index_value(env, parts[0]), axis_lanes(env))  # type: ignore[arg-type]
    return add(env, index_value(env, parts[1]), step)  # type: ignore[arg-type]


# ----------------------------------------------------------------------
# A kernel as one LLVM function, ``i32 kernel(ptr host, ptr call, ptr scratch, params..., sizes...)``: its body and
# scratch memory.

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
            elif not _may_transpose(statement) or not _part("transposition").emit_transposition(statement, env):
                vectors.emit_loop(statement, env)
        case Contract():
            with env.memory.frame():
                _part("contract").emit_contract(statement, env)


def _may_transpose(loop: Loop) -> bool:
    """Whether it is worth asking ``transposition.py``."""
    return loop.kind == "serial" and not loop.carries and len(loop.body) == 1 and isinstance(loop.body[0], Loop)


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
    neighbours = neighbours_of(kernel)

    def emit(statement: Statement, env: Environment) -> None:
        group = neighbours.get(id(statement))
        if group is not None:
            emit_neighbours(group, statement, env, emit_statement)
        else:
            emit_statement(statement, env)

    env = Environment(function, kernel, target, Names(), scratch, emit, outermost=True)
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
