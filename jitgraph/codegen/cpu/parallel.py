"""Parallel loops: a range of iterations outlined into a function, and cut into chunks for the thread pool of the
host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from jitgraph.codegen.cpu import pool, vectors
from jitgraph.codegen.cpu.vectors import Work, work
from jitgraph.codegen.kernels.kernel import Loop
from jitgraph.codegen.llvm import loops, machine
from jitgraph.codegen.llvm.builder import OK, LlvmFunction, LlvmModule, LlvmScalar, check
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, index_value, multiply
from jitgraph.dtypes import float64, int64
from jitgraph.ir.dims import DimLike, names
from jitgraph.ir.target import Target
from jitgraph.runtime.loader import abi

# ----------------------------------------------------------------------
# Cutting a range into chunks for the thread pool: a function that images carry, as LLVM IR.
#
# ``i32 jg_range(host, call, fn, ptr range, i64 count, double work)`` runs ``i32 fn(range, i64 chunk, scratch)`` for
# chunks that together make ``0 .. count``. ``work`` estimates one iteration, in vector instructions (about half a
# nanosecond each). The first two slots of ``range``, int64 each, receive ``count`` and the iterations of a chunk; chunk
# c begins at ``c * slot 1``. The cut follows from the arguments alone, never from the number of threads.

CHUNK_WORK: Final = 40_000.0
"""Work of one chunk, about 20 us: well above the microsecond or two of handing it over."""

SLOTS: Final = 2

DECLARATION: Final = "declare i32 @jg_range(ptr, ptr, ptr, ptr, i64, double) nounwind"

# The quotient is below 2**62 for any work from 1 on, so the conversions are defined; minnum drops a NaN.
IR: Final = (
    pool.DECLARATIONS
    + f"""
declare double @llvm.maxnum.f64(double, double)
declare i64 @llvm.smax.i64(i64, i64)
define i32 @jg_range(ptr %host, ptr %call, ptr %fn, ptr %range, i64 %count, double %work) nounwind {{
start:
  %least = call double @llvm.maxnum.f64(double %work, double 1.0)
  %quotient = fdiv double {CHUNK_WORK!r}, %least
  %whole = fptosi double %quotient to i64
  %per = call i64 @llvm.smax.i64(i64 %whole, i64 1)
  %per.at = getelementptr i64, ptr %range, i64 1
  store i64 %count, ptr %range
  store i64 %per, ptr %per.at
  %up = add i64 %per, -1
  %more = add i64 %count, %up
  %chunks = sdiv i64 %more, %per
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %run, label %none
run:
  %several = icmp sgt i64 %chunks, 1
  br i1 %several, label %share, label %alone
share:
  %turns = sitofp i64 %per to double
  %cost = fmul double %turns, %least
  %shared = call i32 @jg_share(ptr %host, ptr %call, ptr %fn, ptr %range, i64 %chunks, double %cost)
  ret i32 %shared
alone:
  %scratch.at = getelementptr i8, ptr %call, i64 {abi.CALL_ARENA}
  %scratch = load ptr, ptr %scratch.at
  %code = call i32 %fn(ptr %range, i64 0, ptr %scratch)
  ret i32 %code
none:
  ret i32 0
}}
"""
)


def range_module(target: Target) -> LlvmModule:
    """The function, to link with emitted code."""
    return LlvmModule(machine.TRIPLE, IR)


# ----------------------------------------------------------------------
# Parallel loops: a range of iterations outlined into a function, run in chunks on the thread pool of the host.
#
# How a range is cut depends on extents alone, and every chunk is independent, so results do not depend on threads. A
# range whose estimated work is small runs in place.

BLOCK: Final = 4096
"""Iterations of a vector loop that stay on one thread."""

_UNKNOWN_EXTENT: Final = 64.0

Amount: TypeAlias = "float | LlvmScalar"
"""Work: a number where it is known, else a float64 of the code."""


def emit_parallel(loop: Loop, env: Environment) -> None:
    """Emit an outermost parallel or vector loop, perfectly nested parallel loops and a vector loop in it included."""
    total = total_work(env, work((loop,), env))
    levels, extents = _cut(_nest(loop), env)
    if not levels or (isinstance(total, float) and total < 2 * CHUNK_WORK):
        vectors.emit_loop(loop, env.inner())
        return
    count = integer(1)
    for level, extent in enumerate(extents):
        env.bind(f"$extent{level}", extent)
        count = multiply(env, count, extent)
    parallel_range(
        env, count, share(env, total, count), lambda inner, begin, end: _emit_range(inner, levels, begin, end)
    )


def _cut(levels: list[Loop], env: Environment) -> tuple[list[Loop], list[LlvmScalar]]:
    """The levels of ``levels`` that are cut into ranges, and their counts: of a long vector loop its blocks."""
    extents = [index_value(env, level.extent) for level in levels]
    if levels[-1].kind != "vector":
        return levels, extents
    known = constant_of(extents[-1])
    if known is not None and known <= BLOCK:
        return levels[:-1], extents[:-1]
    return levels, [*extents[:-1], ceil_div(env, extents[-1], integer(BLOCK))]


def _nest(loop: Loop) -> list[Loop]:
    levels = [loop]
    while levels[-1].kind == "parallel" and len(levels[-1].body) == 1:
        (inner,) = levels[-1].body
        if not isinstance(inner, Loop) or inner.kind not in ("parallel", "vector") or not inner.is_whole:
            break
        if any(level.axis in names(inner.extent) for level in levels):
            break
        levels.append(inner)
    return levels


def _emit_range(env: Environment, levels: Sequence[Loop], begin: LlvmScalar, end: LlvmScalar) -> None:
    """Iterations ``begin .. end`` of the flattened nest; a vector loop's extent counts its blocks."""
    last = levels[-1]
    if len(levels) == 1 and last.kind == "vector":
        _emit_blocks(env, last, begin, end)
        return
    counts = [env[f"$extent{level}"] for level in range(len(levels))]

    def step(flat: LlvmScalar, indices: list[LlvmScalar]) -> list[LlvmScalar]:
        indices = indices or [flat]
        axes = {level.axis: index for level, index in zip(levels, indices, strict=True)}
        if last.kind == "vector":
            block = axes.pop(last.axis)
            _emit_blocks(env.at(axes), last, block, add(env, block, integer(1)))
        else:
            env.at(axes).emit(last.body)
        return _advance(env, indices, counts) if len(indices) > 1 else []

    loops.counted(env, begin, end, 1, _unflatten(env, begin, counts) if len(levels) > 1 else [], step)


def _emit_blocks(env: Environment, loop: Loop, begin: LlvmScalar, end: LlvmScalar) -> None:
    s = env.ops
    extent = index_value(env, loop.extent)
    stop = s.mul(end, integer(BLOCK))
    vectors.emit_vector(loop, env, multiply(env, begin, integer(BLOCK)), s.min(stop, extent))


def _unflatten(env: Environment, flat: LlvmScalar, counts: Sequence[LlvmScalar]) -> list[LlvmScalar]:
    """Indices of ``flat`` in a grid of ``counts``, the last fastest. The range is not empty, so no count is zero."""
    s = env.ops
    indices = []
    for count in reversed(counts[1:]):
        safe = s.max(count, integer(1))
        indices.append(s.make(f"urem {flat}, {safe.name}", int64, 1))
        flat = s.make(f"udiv {flat}, {safe.name}", int64, 1)
    return [flat, *reversed(indices)]


def _advance(env: Environment, indices: Sequence[LlvmScalar], counts: Sequence[LlvmScalar]) -> list[LlvmScalar]:
    """The indices after ``indices``: the last grows, and wraps into the one before it."""
    s = env.ops
    advanced: list[LlvmScalar] = []
    carry = integer(1)
    for index, count in zip(reversed(indices[1:]), reversed(counts[1:]), strict=True):
        grown = s.add(index, carry)
        wraps = s.cmp("ge", grown, count)
        advanced.append(s.select(wraps, integer(0), grown))
        carry = s.cast(wraps, int64)
    return [s.add(indices[0], carry), *reversed(advanced)]


def parallel_range(
    env: Environment,
    count: LlvmScalar,
    unit_work: Amount,
    emit: Callable[[Environment, LlvmScalar, LlvmScalar], None],
) -> None:
    """``emit(inner, begin, end)`` for ranges that together make ``0 .. count``, on several threads where it pays.

    ``count`` is a uniform int64, ``unit_work`` the work of one iteration in vector instructions. In the inner
    environment names of ``env`` are captured as they are used; values reach it by ``env.bind`` alone. Ranges are never
    empty, run in any order, and no range may depend on another.
    """
    assert env.outermost
    known = constant_of(count)
    if known is not None and isinstance(unit_work, float) and (known <= 1 or known * unit_work < 2 * CHUNK_WORK):
        if known > 0:
            emit(env.inner(), integer(0), count)
        return
    inner = _Outlined(env)
    emit(inner.environment, inner.begin, inner.end)
    inner.finish(count, unit_work)


class _Outlined:
    """A function under construction that runs a range, and the function around it that a chunk calls.

    What the range uses are arguments, so that pointers keep ``noalias``; it is inlined into the chunk's function.
    """

    def __init__(self, env: Environment) -> None:
        self.outer = env
        self.name = env.module.unique(f"{env.function.name}_range")
        self.function = LlvmFunction(env.module, f"{self.name}_body", "i32", attributes="nounwind", inlined=True)
        self.captured: list[LlvmScalar] = []
        self.begin, self.end, self.order = (self._argument("i64") for _ in range(3))
        self.environment = env.outlined(self.function, self._capture)
        self.environment.bind("$order", self.order)
        self.environment.bind("$scratch", self._argument("ptr", "noalias"))

    def _argument(self, type: str, attributes: str = "") -> LlvmScalar:
        return LlvmScalar(self.function.argument(type, attributes).name, type, int64, 1)

    def _capture(self, name: str, value: LlvmScalar) -> LlvmScalar:
        if value.is_literal:
            return value
        assert value.lanes == 1 or value.type == "ptr", (name, value)
        attributes = "noalias" if name.startswith("&") and name[1:] in self.environment.unaliased else ""
        self.captured.append(value)
        return value._replace(name=self.function.argument(value.type, attributes).name)

    def finish(self, count: LlvmScalar, unit_work: Amount) -> None:
        """End the function and emit its call in the outer one."""
        self.function.ret(OK)
        self.function.finish()
        self._emit_chunk()
        env, outer = self.outer, self.outer.function
        pool.declare(env.module)
        env.module.declare(DECLARATION)
        context = outer.alloca("i64", SLOTS + len(self.captured), align=8)
        for index, value in enumerate(self.captured):
            outer.do(f"store {value}, {_slot(outer, context.name, SLOTS + index)}")
        amount = env.ops.const(unit_work, float64) if isinstance(unit_work, float) else unit_work
        chunk = outer.named(self.name)
        check(
            outer,
            outer.call_of("i32", "jg_range", env["$host"], env["$call"], f"ptr {chunk}", context, count, amount),
        )

    def _emit_chunk(self) -> None:
        chunk_function = LlvmFunction(self.outer.module, self.name, "i32", attributes="nounwind")
        context, chunk, scratch = (chunk_function.argument(type) for type in ("ptr", "i64", "ptr"))
        types = ["i64", "i64", *(value.type for value in self.captured)]
        count, per_chunk, *captured = (
            chunk_function.emit(type, f"load {type}, {_slot(chunk_function, context.name, index)}, align 8")
            for index, type in enumerate(types)
        )
        begin = chunk_function.emit("i64", f"mul {chunk}, {per_chunk.name}")
        stop = chunk_function.emit("i64", f"add {begin}, {per_chunk.name}")
        end = chunk_function.emit("i64", f"call i64 @llvm.smin.i64({stop}, {count})")
        call = chunk_function.call_of("i32", self.function.name, begin, end, chunk, scratch, *captured)
        chunk_function.ret(chunk_function.emit("i32", call))
        chunk_function.finish()


def _slot(function: LlvmFunction, context: str, index: int) -> str:
    return str(function.emit("ptr", f"getelementptr i64, ptr {context}, i64 {index}"))


# --- how much work ---


def total_work(env: Environment, terms: Work) -> Amount:
    """The value of a sum of work terms; extents that are not known before the loop count as 64."""
    known, parts = 0.0, []
    for factor, extents in terms:
        values = []
        for extent in extents:
            if isinstance(extent, int):
                factor *= max(0, extent)
            elif _is_available(env, extent):
                values.append(_as_float(env, index_value(env, extent)))
            else:
                factor *= _UNKNOWN_EXTENT
        if not values:
            known += factor
            continue
        product = env.ops.const(factor, float64)
        for value in values:
            product = env.ops.mul(product, value)
        parts.append(product)
    if not parts:
        return known
    total = env.ops.const(known, float64)
    for part in parts:
        total = env.ops.add(total, part)
    return total


def _is_available(env: Environment, extent: DimLike) -> bool:
    try:
        return all(env[name].lanes == 1 for name in names(extent))
    except KeyError:
        return False


def _as_float(env: Environment, x: LlvmScalar) -> LlvmScalar:
    return env.ops.make(f"sitofp {x} to double", float64, 1)


def is_worth_sharing(total: Amount) -> bool:
    """Whether the work may be enough for several threads."""
    return not isinstance(total, float) or total >= 2 * CHUNK_WORK


def share(env: Environment, total: Amount, count: LlvmScalar) -> Amount:
    """``total / count``, the work of one of ``count`` iterations."""
    known = constant_of(count)
    if known is not None and isinstance(total, float):
        return total / max(1, known)
    amount = env.ops.const(total, float64) if isinstance(total, float) else total
    return env.ops.div(amount, _as_float(env, env.ops.max(count, integer(1))))


def ceil_div(env: Environment, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
    """``x / y`` rounded up, for x >= 0 and y >= 1."""
    a, b = constant_of(x), constant_of(y)
    if a is not None and b is not None:
        return integer(-(-a // b))
    s = env.ops
    up = s.add(x, integer(b - 1) if b is not None else s.sub(y, integer(1)))
    return s.make(f"udiv {up}, {y.name}", int64, 1)
