"""Loops of scalar code: counted ones with carried values, steps written out, and what is emitted before a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from jitgraph.codegen.kernels.index import coefficient
from jitgraph.codegen.kernels.kernel import (
    Attend,
    Body,
    CheckStatement,
    Contract,
    IndexValue,
    Let,
    Load,
    Local,
    Loop,
    Statement,
    Store,
    Var,
    bodies_of,
)
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmScalar
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, difference, index_value, least, subtract
from jitgraph.dtypes import bool_, int64
from jitgraph.errors import CompileError
from jitgraph.ir.dims import DimLike, names

# ----------------------------------------------------------------------
# What stands in a body: definitions, stores, and about how many instructions it becomes.


def defined(body: Body) -> Iterator[Var]:
    """The variables that ``body`` defines, results of loops included, in no order."""
    for statement in body:
        match statement:
            case Let() | IndexValue() | Load():
                yield statement.var
            case Loop():
                for carry in statement.carries:
                    yield carry.var
                    yield carry.result
            case Contract():
                yield statement.acc
            case Attend():
                yield from statement.results
        for inner in bodies_of(statement):
            yield from defined(inner)


def stored_buffers(body: Body) -> set[str]:
    """The buffers that ``body`` stores to; local ones that it declares count too."""
    stored: set[str] = set()
    for statement in body:
        if isinstance(statement, Store | Local):
            stored.add(statement.buffer)
        for inner in bodies_of(statement):
            stored |= stored_buffers(inner)
    return stored


def length(body: Body) -> int:
    """About how many instructions ``body`` becomes; a math function counts as 30."""
    total = 0
    for statement in body:
        total += 30 if isinstance(statement, Let) and statement.op in ("call", "rem") else 1
        total += sum(map(length, bodies_of(statement)))
    return total


def merges(body: Body) -> bool:
    """Whether a tree in which chunks merge is most of the code of ``body``, and masks are little of its time."""
    return any(
        (isinstance(statement, Loop) and statement.kind == "reduce" and _is_mostly_tree(statement))
        or any(map(merges, bodies_of(statement)))
        for statement in body
    )


def _is_mostly_tree(loop: Loop) -> bool:
    return loop.chain == 1 or (loop.chain > 1 and not isinstance(loop.extent, int))


def is_even(loop: Loop, steps: int) -> bool:
    """Whether what ``loop`` runs through is a multiple of ``steps`` long, whatever sizes and axes are."""
    return all(_is_multiple(dim, steps) for dim in (loop.begin, loop.extent, loop.span or 0))


def _is_multiple(dim: DimLike, of: int) -> bool:
    """Whether ``dim`` is a multiple of ``of``, as far as its terms show it."""
    return dim % of == 0 if isinstance(dim, int) else all(factor % of == 0 for factor in dim.terms.values())


_UNKNOWN_TURNS: Final = 64


def turn_length(body: Body) -> int:
    """About how many instructions run in ``body`` once: inner loops count as often as they turn, or 64 times."""
    total = 0
    for statement in body:
        inner = sum(map(turn_length, bodies_of(statement)))
        if isinstance(statement, Loop):
            extent = statement.extent if statement.span is None else statement.span
            turns = extent if isinstance(extent, int) else _UNKNOWN_TURNS
            inner = (1 + inner) * turns // (8 if statement.kind == "vector" else 1)
        total += inner + (30 if isinstance(statement, Let) and statement.op in ("call", "rem") else 1)
    return total


def gathers(body: Body, axis: str) -> bool:
    """Whether elements are loaded other than one after another, each by an instruction of its own."""
    return any(
        (isinstance(statement, Load) and coefficient(statement.index, axis) not in (0, 1, -1))
        or any(gathers(inner, axis) for inner in bodies_of(statement))
        for statement in body
    )


# ----------------------------------------------------------------------
# Loops of scalar code: counted ones with carried values, steps written out, and what is emitted before a loop.
#
# Loops come out rotated (the test at the end, a guard before where the extent is not known), since no pass rotates
# them. What does not depend on the iteration is emitted once, before the loop.

Emit = Callable[[LlvmScalar, list[LlvmScalar]], list[LlvmScalar]]
Wrap = Callable[[Environment, Emit, Body, "int | None"], Emit]
"""A step of a loop with this body, run this often where that is known, and what a target does beside it."""

_UNROLLED_BODY: Final = 24
"""Length up to which all steps of a serial loop are written out."""


def window(loop: Loop, env: Environment) -> tuple[LlvmScalar, LlvmScalar]:
    """The loop's first iteration and the one after its last."""
    begin, end = index_value(env, loop.begin), index_value(env, loop.extent)
    if max(begin.lanes, end.lanes) > 1:
        raise CompileError(f"kernel {env.kernel.name}: the extent {loop.extent} differs between lanes")
    return begin, end if loop.span is None else least(env, add(env, begin, integer(loop.span)), end)


def counted(
    env: Environment,
    begin: LlvmScalar,
    end: LlvmScalar,
    step: int,
    carries: Sequence[LlvmScalar],
    emit: Emit,
    *,
    rolled: bool = False,
) -> list[LlvmScalar]:
    """``for axis in range(begin, end, step): carries = emit(axis, carries)``; gives the last carries.

    The axis is a uniform int64; ``end - begin`` need not be a multiple of ``step``. A loop that is to stay ``rolled``
    is unrolled by no one.
    """
    function = env.function
    known = difference(env, end, begin)
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
    results = emit(LlvmScalar(axis.value.name, "i64", int64, 1), inside)
    stepped = function.emit("i64", f"add nsw {axis.value}, {step}")
    latch = function.block
    axis.add(stepped.name, latch)
    for phi, result in zip(phis, results, strict=True):
        assert result.type == phi.value.type, (result, phi.value)
        phi.add(result.name, latch)
    more = function.emit("i1", f"icmp slt {stepped}, {end.name}")
    function.branch(more.name, loop, after, rolled=rolled)
    function.start_block(after, outside)
    if known is not None:
        return results
    return joined(function, (before, carries), (latch, results))


@contextmanager
def only_if(env: Environment, condition: LlvmScalar | None) -> Iterator[None]:
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


def joined(
    function: LlvmFunction, one: tuple[str, Sequence[LlvmScalar]], other: tuple[str, Sequence[LlvmScalar]]
) -> list[LlvmScalar]:
    """The values where two ways meet, at the head of a block: those of the block by which it was reached."""
    values = []
    for x, y in zip(one[1], other[1], strict=True):
        phi = function.phi(x.type)
        phi.add(x.name, one[0])
        phi.add(y.name, other[0])
        values.append(x._replace(name=phi.value.name))
    return values


def carried(env: Environment, x: LlvmScalar) -> LlvmScalar:
    """``x`` in the lanes of the loops around: a carried value may differ between lanes after one step."""
    return x if env.lanes is None else env.ops.splat(x, env.lanes.width)


def written_out(
    env: Environment,
    begin: LlvmScalar,
    end: LlvmScalar,
    most: int,
    init: list[LlvmScalar],
    step: Emit,
    at_turn: Callable[[int | None], None],
) -> list[LlvmScalar]:
    """``most`` steps one after another without a loop; a loop where the extent ends before them."""
    function = env.function

    def steps() -> list[LlvmScalar]:
        carries = init
        for turn in range(most):
            at_turn(turn)
            carries = step(add(env, begin, integer(turn)), carries)
        at_turn(None)
        return carries

    count = subtract(env, end, begin)
    if constant_of(count) is not None:
        return steps()
    full, part, after = map(function.label, ("whole", "part", "after"))
    function.branch(env.ops.cmp("eq", count, integer(most)).name, full, part)
    outside = function.known
    function.start_block(full, outside)
    all_steps, first = steps(), function.block
    function.jump(after)
    function.start_block(part, outside)
    some_steps, second = counted(env, begin, end, 1, init, step), function.block
    function.jump(after)
    function.start_block(after, outside)
    return joined(function, (first, all_steps), (second, some_steps))


def emit_serial(
    loop: Loop,
    env: Environment,
    begin: LlvmScalar,
    end: LlvmScalar,
    wrap: Wrap,
    most: int = _UNROLLED_BODY,
    at_turn: Callable[[int | None], None] = lambda turn: None,
) -> None:
    """Emit a serial loop and bind the results of its carries; ``wrap`` adds to its step what a target does in each.

    All steps are written out where they are known to be few, of ``most`` instructions together: ``at_turn`` is told the
    number of each before it is, and None behind the last.
    """
    inner = env.inner()
    init = [carried(env, env[carry.init.name]) for carry in loop.carries]
    count = subtract(env, end, begin)
    rest = hoist(loop, inner, count)

    def step(axis: LlvmScalar, carries: list[LlvmScalar]) -> list[LlvmScalar]:
        inner.bind(loop.axis, axis)
        for carry, value in zip(loop.carries, carries, strict=True):
            inner.bind(carry.var.name, value)
        inner.emit(rest)
        return [carried(env, inner[carry.next.name]) for carry in loop.carries]

    known = constant_of(count)
    few = loop.span if known is None else known
    if loop.carries and few is not None and few * length(rest) <= most:
        results = written_out(inner, begin, end, few, init, step, at_turn)
    else:
        results = counted(inner, begin, end, 1, init, wrap(inner, step, rest, known))
    for carry, result in zip(loop.carries, results, strict=True):
        env.bind(carry.result.name, result)


# --- what does not depend on the iteration ---


def hoist(loop: Loop, env: Environment, extent: LlvmScalar) -> Body:
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
            loads = loads and not isinstance(statement, CheckStatement) and not any(map(_checks, bodies_of(statement)))
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
    return any(isinstance(statement, CheckStatement) or any(map(_checks, bodies_of(statement))) for statement in body)


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
