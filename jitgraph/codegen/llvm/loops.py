"""Loops: counted loops with carried values, and vector loops with masked tails.

Loops come out rotated (the test at the end, a guard before where the extent is not known), since no pass rotates them.
What does not depend on the iteration is emitted once, before the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from jitgraph.codegen.cpu import pool
from jitgraph.codegen.kernels.kernel import Body, Check, IndexValue, Let, Load, Loop, Statement, Store, Var
from jitgraph.codegen.kernels.traversal import bodies_of
from jitgraph.codegen.llvm.builder import Function, check
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, index_value, least, names, subtract
from jitgraph.codegen.llvm.scalars import Scalar
from jitgraph.codegen.llvm.structure import defined, length, merges, stored_buffers, turn_length, vector_lanes
from jitgraph.dtypes import bool_, int32, int64
from jitgraph.errors import CompileError

VERY_LONG_BODY: Final = 90
"""Length from which on a body is emitted once, always masked, rather than for full vectors and again for the rest."""

_UNROLLED_BODY: Final = 24
"""Length up to which all steps of a serial loop are written out."""

POLL_LENGTH: Final = 4096
"""Instructions of a serial loop between two questions to the host whether to stop."""

Emit = Callable[[Scalar, list[Scalar]], list[Scalar]]
Step = Callable[[Environment, list[Scalar]], list[Scalar]]
_MASKED_BYTES: Final = (4, 8)  # sizes of elements for which x86-64-v3 has masked loads and stores


def emit_loop(loop: Loop, env: Environment) -> None:
    """Emit a loop that is no reduction, all of it on this thread, and bind the results of its carries."""
    begin, end = window(loop, env)
    if loop.kind == "vector":
        emit_vector(loop, env, begin, end)
    else:
        _emit_serial(loop, env, begin, end)


def window(loop: Loop, env: Environment) -> tuple[Scalar, Scalar]:
    """The loop's first iteration and the one after its last."""
    begin, end = index_value(env, loop.begin), index_value(env, loop.extent)
    if max(begin.lanes, end.lanes) > 1:
        raise CompileError(f"kernel {env.kernel.name}: the extent {loop.extent} differs between lanes")
    return begin, end if loop.span is None else least(env, add(env, begin, integer(loop.span)), end)


def counted(
    env: Environment, begin: Scalar, end: Scalar, step: int, carries: Sequence[Scalar], emit: Emit
) -> list[Scalar]:
    """``for axis in range(begin, end, step): carries = emit(axis, carries)``; gives the last carries.

    The axis is a uniform int64; ``end - begin`` need not be a multiple of ``step``.
    """
    function = env.function
    first, last = constant_of(begin), constant_of(end)
    known = last - first if first is not None and last is not None else None
    if known is not None and known <= 0:
        return list(carries)
    if known is not None and known <= step:
        return emit(begin, list(carries))
    before, loop, after = function.block, function.label("loop"), function.label("after")
    outside = function.known
    if known is None:
        function.branch(env.ops.cmp("lt", begin, end).name, loop, after)
    else:
        function.jump(loop)
    function.start_block(loop, outside)
    axis = function.phi("i64")
    axis.add(begin.name, before)
    phis = [function.phi(carry.type) for carry in carries]
    for phi, carry in zip(phis, carries, strict=True):
        phi.add(carry.name, before)
    inside = [carry._replace(name=phi.value.name) for phi, carry in zip(phis, carries, strict=True)]
    results = emit(Scalar(axis.value.name, "i64", int64, 1), inside)
    stepped = function.emit("i64", f"add nsw {axis.value}, {step}")
    latch = function.block
    axis.add(stepped.name, latch)
    for phi, result in zip(phis, results, strict=True):
        assert result.type == phi.value.type, (result, phi.value)
        phi.add(result.name, latch)
    more = function.emit("i1", f"icmp slt {stepped}, {end.name}")
    function.branch(more.name, loop, after)
    function.start_block(after, outside)
    if known is not None:
        return results
    return joined(function, (before, carries), (latch, results))


@contextmanager
def only_if(env: Environment, condition: Scalar | None) -> Iterator[None]:
    """What is emitted inside runs only where ``condition`` holds, or always where that is None."""
    if condition is None:
        yield
        return
    function, outside = env.function, env.function.known
    inside, after = function.label("only"), function.label("after")
    function.branch(condition.name, inside, after)
    function.start_block(inside, outside)
    yield
    function.jump(after)
    function.start_block(after, outside)


def joined(function: Function, one: tuple[str, Sequence[Scalar]], other: tuple[str, Sequence[Scalar]]) -> list[Scalar]:
    """The values where two ways meet, at the head of a block: those of the block by which it was reached."""
    values = []
    for x, y in zip(one[1], other[1], strict=True):
        phi = function.phi(x.type)
        phi.add(x.name, one[0])
        phi.add(y.name, other[0])
        values.append(x._replace(name=phi.value.name))
    return values


def carried(env: Environment, x: Scalar) -> Scalar:
    """``x`` in the lanes of the loops around: a carried value may differ between lanes after one step."""
    return x if env.lanes is None else env.ops.splat(x, env.lanes.width)


def _emit_serial(loop: Loop, env: Environment, begin: Scalar, end: Scalar) -> None:
    inner = env.inner()
    init = [carried(env, env[carry.init.name]) for carry in loop.carries]
    count = subtract(env, end, begin)
    rest = hoist(loop, inner, count)

    def step(axis: Scalar, carries: list[Scalar]) -> list[Scalar]:
        inner.bind(loop.axis, axis)
        for carry, value in zip(loop.carries, carries, strict=True):
            inner.bind(carry.var.name, value)
        inner.emit(rest)
        return [carried(env, inner[carry.next.name]) for carry in loop.carries]

    known = constant_of(count)
    asks = env.lanes is None and (known is None or known * turn_length(loop.body) > POLL_LENGTH)
    few = loop.span if known is None else known
    if loop.carries and few is not None and few * length(rest) <= _UNROLLED_BODY:
        results = _written_out(inner, begin, end, few, init, step)
    else:
        results = counted(inner, begin, end, 1, init, polled(inner, step, turn_length(rest)) if asks else step)
    for carry, result in zip(loop.carries, results, strict=True):
        env.bind(carry.result.name, result)


def _written_out(
    env: Environment, begin: Scalar, end: Scalar, most: int, init: list[Scalar], step: Emit
) -> list[Scalar]:
    """``most`` steps one after another without a loop; a loop where the extent ends before them."""
    function = env.function

    def steps() -> list[Scalar]:
        carries = init
        for turn in range(most):
            carries = step(add(env, begin, integer(turn)), carries)
        return carries

    count = subtract(env, end, begin)
    if constant_of(count) is not None:
        return steps()
    whole, part, after = map(function.label, ("whole", "part", "after"))
    function.branch(env.ops.cmp("eq", count, integer(most)).name, whole, part)
    outside = function.known
    function.start_block(whole, outside)
    all_steps, first = steps(), function.block
    function.jump(after)
    function.start_block(part, outside)
    some_steps, second = counted(env, begin, end, 1, init, step), function.block
    function.jump(after)
    function.start_block(after, outside)
    return joined(function, (first, all_steps), (second, some_steps))


def polled(env: Environment, step: Emit, size: int) -> Emit:
    """``step``, after which the host is asked whether to stop, once in about POLL_LENGTH instructions."""
    every = 1 << max(0, (POLL_LENGTH // max(1, size)).bit_length() - 1)
    function = env.function

    def asking(axis: Scalar, carries: list[Scalar]) -> list[Scalar]:
        results = step(axis, carries)
        env.module.declare(pool.DECLARATIONS)
        ask, go_on = function.label("ask"), function.label("go_on")
        low = function.emit("i64", f"and {axis}, {every - 1}")
        due = function.emit("i1", f"icmp eq {low}, {every - 1}")
        function.branch(due.name, ask, go_on, likely=False)
        known = function.known
        function.start_block(ask)
        check(function, f"call i32 @jg_poll_anywhere({env['$host']}, {env['$call']}, {env['$scratch']})")
        function.jump(go_on)
        function.start_block(go_on, known)
        return results

    return asking


def emit_vector(loop: Loop, env: Environment, begin: Scalar, end: Scalar) -> None:
    """Iterations ``begin .. end`` of a vector loop; all of them independent."""
    if env.lanes is not None:
        raise CompileError(f"kernel {env.kernel.name}: the vector loop {loop.axis} stands inside lanes")
    inner = env.inner()
    rest = hoist(loop, inner, subtract(env, end, begin))
    count = vector_lanes(loop, env)
    known = constant_of(subtract(env, end, begin))
    if known is not None and 0 < known < count:
        count = 1 << (known - 1).bit_length()

    def step(env: Environment, carries: list[Scalar]) -> list[Scalar]:
        env.emit(rest)
        return carries

    in_lanes(loop.axis, rest, inner, begin, end, count, [], step, narrow=True)


def in_lanes(
    axis: str,
    body: Body,
    env: Environment,
    begin: Scalar,
    end: Scalar,
    count: int,
    carries: list[Scalar],
    step: Step,
    *,
    narrow: bool = False,
) -> list[Scalar]:
    """``step`` for ``begin .. end``, ``count`` at a time: full vectors, then once the rest under a mask.

    With ``narrow`` a rest of known length goes in as few lanes as it needs; else in as many as the vectors before it.

    ``body`` is what ``step`` emits. One that becomes much code is emitted once, with a mask all the time; where nothing
    is carried, a rest of one, and any rest whose accesses the target cannot mask, goes one by one.
    """
    s, function = env.ops, env.function
    total = subtract(env, end, begin)
    known = constant_of(total)

    def full(at: Scalar, values: list[Scalar]) -> list[Scalar]:
        return step(env.across(axis, at, count), values)

    def masked(at: Scalar, values: list[Scalar]) -> list[Scalar]:
        return step(env.across(axis, at, count, first_lanes(env, subtract(env, end, at), count)), values)

    uneven = count > 1 and (known is None or (known % count != 0 and known > count))
    much = length(body) >= VERY_LONG_BODY or (known is None and merges(body))
    if uneven and much and can_mask(body, env):
        return counted(env, begin, end, count, carries, masked)
    if known is not None:
        middle = add(env, begin, integer(known // count * count))
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


def first_lanes(env: Environment, left: Scalar, count: int) -> Scalar:
    """The mask of the first ``left`` of ``count`` lanes."""
    known = constant_of(left)
    if known is not None:
        bits = ", ".join(f"i1 {'true' if lane < known else 'false'}" for lane in range(count))
        return Scalar(f"<{bits}>", f"<{count} x i1>", bool_, count)
    s = env.ops
    steps = ", ".join(f"i32 {lane}" for lane in range(count))
    few = s.cast(s.min(left, integer(count)), int32)
    return s.cmp("lt", Scalar(f"<{steps}>", f"<{count} x i32>", int32, count), few)


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


# --- what does not depend on the iteration ---


def hoist(loop: Loop, env: Environment, extent: Scalar) -> Body:
    """Emit what each iteration would compute alike, once, and give the rest of the body.

    Scalar ops and indices cannot fault, so they move freely. A load moves where no check, which might have forbidden
    it, stands before it and nothing in the loop stores to its buffer; it reads only if the loop runs at all.
    """
    varying = {loop.axis, *(carry.var.name for carry in loop.carries)}
    written = stored_buffers(loop.body)
    written |= {other for pair in env.kernel.aliases for name, other in (pair, pair[::-1]) if name in written}
    runs, loads = constant_of(extent), constant_of(extent) != 0
    rest: list[Statement] = []
    for statement in loop.body:
        if not _is_invariant(statement, varying, written, loads):
            loads = loads and not isinstance(statement, Check) and not any(map(_checks, bodies_of(statement)))
            varying.update(var.name for var in defined((statement,)))
            rest.append(statement)
            continue
        if isinstance(statement, Load) and runs is None:
            if _RUNS.name not in env.names:
                env.bind(_RUNS.name, env.ops.cmp("gt", extent, integer(0)))
            statement = replace(statement, mask=_RUNS)
        env.statement(statement, env)
    return tuple(rest)


_RUNS: Final = Var("$runs", bool_)


def _checks(body: Body) -> bool:
    return any(isinstance(statement, Check) or any(map(_checks, bodies_of(statement))) for statement in body)


def _is_invariant(statement: Statement, varying: set[str], stores: set[str], loads: bool) -> bool:
    match statement:
        case Let():
            return not any(arg.name in varying for arg in statement.args)
        case IndexValue():
            return varying.isdisjoint(names(statement.index))
        case Load():
            return (
                loads
                and statement.mask is None
                and statement.buffer not in stores
                and varying.isdisjoint(names(statement.index))
            )
    return False
