"""Loops of one thread: how many lanes they take, full vectors and the rest under a mask, and the work that they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeGuard

from jitgraph.codegen.cpu import pool
from jitgraph.codegen.kernels.index import coefficient
from jitgraph.codegen.kernels.kernel import Body, Contract, Let, Load, Loop, Statement, Store, bodies_of, statements_of
from jitgraph.codegen.llvm.builder import LlvmScalar, check
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, subtract
from jitgraph.codegen.llvm.loops import Emit, counted, emit_serial, hoist, joined, length, merges, turn_length, window
from jitgraph.dtypes import DType, bool_, int32, is_bool, is_float
from jitgraph.errors import CompileError
from jitgraph.ir.dims import DimLike

# ----------------------------------------------------------------------
# How many lanes a loop takes on the processor.

_SCATTERED_LANES: Final = 16
_COLUMN_REGISTERS: Final = 4
LINE_BYTES: Final = 64
_FEW_ROWS: Final = 8
_SHORT_BODY: Final = 24

VERY_LONG_BODY: Final = 90
"""Length from which on a body is emitted once, always masked, rather than for full vectors and again for the rest."""


def vector_lanes(loop: Loop, env: Environment) -> int:
    """Lanes for a loop: as many as one register holds of its widest values, but few where it gathers narrow ones.

    Sums down columns take several registers: their chains of additions overlap, and more of each row is read at once.
    Where few rows go together, side by side, it is a cache line of each: more would read each row in leaps. In a long
    body the few values that are wider than the others take two registers.
    """
    widest = _widest(loop.body, env)
    if widest == 8 and length(loop.body) >= VERY_LONG_BODY and _is_mostly_narrow(loop.body):
        widest = 4
    lanes = env.target.vector_bytes // widest
    if is_scattered(loop.body, loop.axis):
        return min(lanes, _SCATTERED_LANES)
    sums = [statement for statement in loop.body if isinstance(statement, Loop) and statement.carries]
    if loop.kind == "vector" and isinstance(loop.extent, int) and sums and length(loop.body) <= _SHORT_BODY:
        few = all(map(_takes_few_rows, sums))
        lanes *= max(1, LINE_BYTES // env.target.vector_bytes) if few else _COLUMN_REGISTERS
    return lanes


def _is_mostly_narrow(body: Body) -> bool:
    """Whether most of the work is on values of 4 bytes, as the numbers that are made of 64-bit random blocks are."""
    sizes = [statement.var.dtype.itemsize for statement in statements_of(body) if _is_work(statement)]
    return 2 * sizes.count(4) > len(sizes)


def _is_work(statement: Statement) -> TypeGuard[Let]:
    return isinstance(statement, Let) and statement.op != "const" and not is_bool(statement.var.dtype)


def _takes_few_rows(loop: Loop) -> bool:
    steps = loop.extent if loop.span is None else loop.span
    return loop.kind == "serial" and isinstance(steps, int) and steps <= _FEW_ROWS


def is_scattered(body: Body, axis: str) -> bool:
    """Whether 8- or 16-bit elements are accessed other than one after another: that goes lane by lane."""
    for statement in body:
        match statement:
            case Load(var=value) | Store(value=value) if value.dtype.itemsize <= 2:
                if coefficient(statement.index, axis) not in (0, 1, -1):
                    return True
        if any(is_scattered(inner, axis) for inner in bodies_of(statement)):
            return True
    return False


def _widest(body: Body, env: Environment) -> int:
    widest = 1
    for statement in body:
        match statement:
            case Let():
                widest = max(widest, _register_bytes(statement.var.dtype, computed=statement.op != "const"))
            case Load():
                widest = max(widest, _register_bytes(statement.var.dtype, computed=False))
            case Store():
                widest = max(widest, _register_bytes(statement.value.dtype, computed=False))
        for inner in bodies_of(statement):
            widest = max(widest, _widest(inner, env))
    return widest


def _register_bytes(dtype: DType, computed: bool) -> int:
    if is_bool(dtype):
        return 1
    return 4 if computed and dtype.itemsize == 2 and is_float(dtype) else dtype.itemsize


# ----------------------------------------------------------------------
# An estimate of the work of a body on the processor, by which loops are shared among threads or not.

_CALL_WORK: Final = 20.0
_SLOW_WORK: Final = {"div": 8.0, "rem": 16.0, "sqrt": 8.0}
_ACCESS_WORK: Final = 3.0

Work = list[tuple[float, tuple[DimLike, ...]]]
"""A sum of terms: a number times extents."""


def work(body: Body, env: Environment, extents: tuple[DimLike, ...] = (), lanes: float = 1.0) -> Work:
    """The work of one run of ``body``, in vector instructions (about half a nanosecond each), as a sum of terms."""
    own = 0.0
    terms: Work = []
    for statement in body:
        match statement:
            case Let(op=op):
                own += _CALL_WORK if op == "call" else _SLOW_WORK.get(op, 1.0) if op != "const" else 0.0
            case Load() | Store():
                own += _ACCESS_WORK
            case Loop():
                width = float(vector_lanes(statement, env)) if statement.kind == "vector" else float(statement.lanes)
                width = min(width, 16.0)
                extent = statement.extent if statement.span is None else statement.span
                terms += work(statement.body, env, (*extents, extent), lanes / width)
            case Contract():
                m, n, k = statement.extents
                terms.append((lanes / 8.0, (*extents, m, n, k if statement.span is None else statement.span)))
                terms += work(statement.epilogue, env, (*extents, m, n), lanes / 8.0)
            case _:
                own += 1.0
    terms.append((own * lanes, extents))
    return terms


# ----------------------------------------------------------------------
# Vector loops: full vectors, and then once the rest under a mask.

Step = Callable[[Environment, list[LlvmScalar]], list[LlvmScalar]]
_MASKED_BYTES: Final = (4, 8)  # sizes of elements for which x86-64-v3 has masked loads and stores


def emit_vector(loop: Loop, env: Environment, begin: LlvmScalar, end: LlvmScalar) -> None:
    """Iterations ``begin .. end`` of a vector loop; all of them independent."""
    if env.lanes is not None:
        raise CompileError(f"kernel {env.kernel.name}: the vector loop {loop.axis} stands inside lanes")
    inner = env.inner()
    rest = hoist(loop, inner, subtract(env, end, begin))
    count = vector_lanes(loop, env)
    known = constant_of(subtract(env, end, begin))
    if known is not None and 0 < known < count:
        count = 1 << (known - 1).bit_length()

    def step(env: Environment, carries: list[LlvmScalar]) -> list[LlvmScalar]:
        env.emit(rest)
        return carries

    in_lanes(loop.axis, rest, inner, begin, end, count, [], step, narrow=True)


def in_lanes(
    axis: str,
    body: Body,
    env: Environment,
    begin: LlvmScalar,
    end: LlvmScalar,
    count: int,
    carries: list[LlvmScalar],
    step: Step,
    *,
    narrow: bool = False,
    most: int | None = None,
) -> list[LlvmScalar]:
    """``step`` for ``begin .. end``, ``count`` at a time: full vectors, then once the rest under a mask.

    There are ``most`` at most where that is known: fewer than ``count`` are a rest alone.
    With ``narrow`` a rest of known length goes in as few lanes as it needs; else in as many as the vectors before it.

    ``body`` is what ``step`` emits. One that becomes much code is emitted once, with a mask all the time; where nothing
    is carried, a rest of one, and any rest whose accesses the target cannot mask, goes one by one.
    """
    s, function = env.ops, env.function
    total = subtract(env, end, begin)
    known = constant_of(total)

    def full(at: LlvmScalar, values: list[LlvmScalar]) -> list[LlvmScalar]:
        return step(env.across(axis, at, count), values)

    def masked(at: LlvmScalar, values: list[LlvmScalar]) -> list[LlvmScalar]:
        return step(env.across(axis, at, count, first_lanes(env, subtract(env, end, at), count)), values)

    uneven = count > 1 and (known is None or (known % count != 0 and known > count))
    much = length(body) >= VERY_LONG_BODY or (known is None and merges(body))
    if uneven and much and can_mask(body, env):
        return counted(env, begin, end, count, carries, masked)
    if known is not None:
        middle = add(env, begin, integer(known // count * count))
    elif most is not None and most < count:
        middle = begin
    else:
        middle = s.add(begin, s.and_(total, integer(-count)))
    carries = counted(env, begin, middle, count, carries, full)
    if count == 1 or (known is not None and known % count == 0):
        return carries
    left = subtract(env, end, middle)
    # LLVM 20 makes of a masked store of truncated values, its mask known to hold one lane alone, a store of a whole
    # wide element, which runs over the next one: so a rest of one is no vector.
    alone = constant_of(left) == 1
    if not carries and (alone or not can_mask(body, env)):
        return counted(env, middle, end, 1, [], lambda at, values: step(env.across(axis, at, 1), values))
    few = constant_of(left)
    if narrow and few is not None:
        count = 1 << (few - 1).bit_length()
        if count == few:
            full(middle, carries)
            return carries
    before, tail, after = function.block, function.label("tail"), function.label("after")
    outside = function.known
    if known is None:
        function.branch(s.cmp("gt", left, integer(0)).name, tail, after)
        function.start_block(tail, outside)
    mask = first_lanes(env, left, count)
    results = step(env.across(axis, middle, count, mask), carries)
    if known is not None:
        return results
    ends = function.block
    function.jump(after)
    function.start_block(after, outside)
    return joined(function, (before, carries), (ends, results))


def first_lanes(env: Environment, left: LlvmScalar, count: int) -> LlvmScalar:
    """The mask of the first ``left`` of ``count`` lanes."""
    known = constant_of(left)
    if known is not None:
        bits = ", ".join(f"i1 {'true' if lane < known else 'false'}" for lane in range(count))
        return LlvmScalar(f"<{bits}>", f"<{count} x i1>", bool_, count)
    s = env.ops
    steps = ", ".join(f"i32 {lane}" for lane in range(count))
    few = s.cast(s.min(left, integer(count)), int32)
    return s.cmp("lt", LlvmScalar(f"<{steps}>", f"<{count} x i32>", int32, count), few)


def can_mask(body: Body, env: Environment) -> bool:
    """Whether the target has masked instructions for each access of ``body``; LLVM branches on each lane elsewhere."""
    if env.target.vector_bits >= 512:
        return True
    for statement in body:
        match statement:
            case Load(var=value) | Store(value=value) if value.dtype.itemsize not in _MASKED_BYTES:
                return False
        if not all(can_mask(inner, env) for inner in bodies_of(statement)):
            return False
    return True


# ----------------------------------------------------------------------
# Loops of one thread, which ask the host now and then whether to stop.

POLL_LENGTH: Final = 4096
"""Instructions of a serial loop between two questions to the host whether to stop."""


def emit_loop(loop: Loop, env: Environment) -> None:
    """Emit a loop that is no reduction, all of it on this thread, and bind the results of its carries."""
    begin, end = window(loop, env)
    if loop.kind == "vector":
        emit_vector(loop, env, begin, end)
    else:
        emit_serial(loop, env, begin, end, partial(_asking, loop))


def _asking(loop: Loop, env: Environment, step: Emit, body: Body, count: int | None) -> Emit:
    """``step`` of a serial loop, which asks the host where the loop is long and stands outside of lanes."""
    if env.lanes is not None or (count is not None and count * turn_length(loop.body) <= POLL_LENGTH):
        return step
    return polled(env, step, turn_length(body))


def polled(env: Environment, step: Emit, size: int) -> Emit:
    """``step``, after which the host is asked whether to stop, once in about POLL_LENGTH instructions."""
    every = 1 << max(0, (POLL_LENGTH // max(1, size)).bit_length() - 1)
    function = env.function

    def asking(axis: LlvmScalar, carries: list[LlvmScalar]) -> list[LlvmScalar]:
        results = step(axis, carries)
        pool.declare(env.module)
        question = f"call i32 @jg_poll_anywhere({env['$host']}, {env['$call']}, {env['$scratch']})"
        if every == 1:
            check(function, question)
            return results
        ask, go_on = function.label("ask"), function.label("go_on")
        low = function.emit("i64", f"and {axis}, {every - 1}")
        due = function.emit("i1", f"icmp eq {low}, {every - 1}")
        function.branch(due.name, ask, go_on, likely=False)
        known = function.known
        function.start_block(ask)
        check(function, question)
        function.jump(go_on)
        function.start_block(go_on, known)
        return results

    return asking
