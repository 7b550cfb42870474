"""Vector loops: full vectors, and then once the rest under a mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jitgraph.codegen.cpu.widths import vector_lanes
from jitgraph.codegen.kernels.kernel import Body, Load, Loop, Store
from jitgraph.codegen.kernels.traversal import bodies_of
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, subtract
from jitgraph.codegen.llvm.loops import counted, hoist, joined
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.codegen.llvm.structure import length, merges
from jitgraph.dtypes import bool_, int32
from jitgraph.errors import CompileError

VERY_LONG_BODY: Final = 90
"""Length from which on a body is emitted once, always masked, rather than for full vectors and again for the rest."""

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
