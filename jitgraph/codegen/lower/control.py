"""cond, while and scan as steps: carries live in buffers, residuals on stacks, and a scan counts in a buffer of its
own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from jitgraph.codegen.kernels.schedule import Branch, Launch, ParallelCopy, Pop, Push, Step, While, copied
from jitgraph.codegen.lower.building import ScheduleBuilder
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.statements import ScalarOps, StackSlice, Storage
from jitgraph.dtypes import bool_, int64
from jitgraph.errors import UnsupportedOp
from jitgraph.ir.control import CarriedLoop
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.types import TensorType
from jitgraph.location import Location

# ----------------------------------------------------------------------
# Stacks of a schedule: one name for a stack from its making to its last use, whichever branch is taken.
#
# A graph makes stacks anywhere and gives them on as values; a schedule has each of them under one name in all its
# steps. So what two branches made, each for itself, becomes one stack, and a loop goes on with the stacks that it began
# with.

Held = Storage | str  # where a value is: a storage, or the name of a stack (empty for a token)


def diverging_stacks(then: Sequence[Held], otherwise: Sequence[Held]) -> dict[str, str]:
    """The stacks that the second branch ends with where the first ends with another, each with that of the first."""
    pairs = zip(then, otherwise, strict=True)
    return {b: a for a, b in pairs if isinstance(a, str) and isinstance(b, str) and a != b}


def require_created_inside(names: Mapping[str, str], operands: Sequence[Held], location: Location | None) -> None:
    """UnsupportedOp where a stack to be renamed, or its new name, is one that both branches are given."""
    if any(name in operands for pair in names.items() for name in pair):
        raise UnsupportedOp(
            "one branch goes on with a stack that it is given, the other with another one",
            location=location,
            hint="make the stack before the branch, or in both of them",
        )


def require_same(before: Sequence[Held], after: Sequence[Held]) -> None:
    """UnsupportedOp where a turn of a loop gives on another stack than it is given."""
    if any(isinstance(a, str) and a != b for a, b in zip(before, after, strict=True)):
        raise UnsupportedOp(
            "a loop goes on with another stack than the one that it is given",
            hint="make the stack before the loop, and push on it",
        )


def with_stacks(steps: Sequence[Step], names: Mapping[str, str]) -> tuple[Step, ...]:
    """The steps with other names for some stacks."""
    return tuple(_with_stack(step, names) for step in steps)


def _with_stack(step: Step, names: Mapping[str, str]) -> Step:
    match step:
        case Push(stack, _) | Pop(stack, _):
            return replace(step, stack=names.get(stack, stack))
        case Branch(_, then, otherwise):
            return replace(step, then=with_stacks(then, names), otherwise=with_stacks(otherwise, names))
        case While(condition, _, body):
            return replace(step, condition=with_stacks(condition, names), body=with_stacks(body, names))
    return step


# ----------------------------------------------------------------------
# cond, while and scan as steps: carries live in buffers, and a scan counts in one of its own.

_FLAG = TensorType(bool_, ())
_COUNT = TensorType(int64, ())


class Regions(Protocol):
    """What lowers the regions inside a node (``codegen.lower.select.Selector``)."""

    builder: ScheduleBuilder

    def region(self, graph: Graph, env: Mapping[Value, Held], results: Sequence[Held | None]) -> list[Held]: ...
    def copy(self, pairs: Sequence[tuple[Storage, Storage]]) -> None: ...
    def whole(self, storage: Storage) -> Storage: ...


def _predicate(selector: Regions, value: Held) -> Storage:
    assert isinstance(value, Storage)
    return selector.whole(value)


def lower_cond(selector: Regions, node: Node, operands: Sequence[Held], dests: Sequence[Held]) -> list[Held]:
    """Both regions write their outputs to the same places, and fill the same stacks."""
    builder = selector.builder
    predicate = _predicate(selector, operands[0])
    branches: list[Sequence[Step]] = []
    ends = []
    for region in node.regions:
        with builder.block() as steps:
            ends.append(selector.region(region, dict(zip(region.inputs, operands[1:], strict=True)), list(dests)))
        branches.append(steps)
    then, otherwise = branches
    if renames := diverging_stacks(*ends):
        require_created_inside(renames, operands, node.location)
        otherwise = with_stacks(otherwise, renames)
        builder.stacks = [stack for stack in builder.stacks if stack not in renames]
    if then or otherwise:  # copies of nothing are no steps
        builder.steps.append(Branch(predicate.name, tuple(then), tuple(otherwise)))
    return ends[0]


def lower_loop(selector: Regions, loop: CarriedLoop, operands: Sequence[Held], dests: Sequence[Held]) -> list[Held]:
    """The carries begin as copies of the operands in temporaries, and each turn replaces them.

    Returns where the results are; they are still to be copied to ``dests``. That a carry lives in the memory of the
    result is for coalescing to decide: it may exchange its own with another's.
    """
    if loop.condition is None:
        return _lower_scan(selector, loop, operands, dests)
    condition, body = loop.condition, loop.body
    builder = selector.builder
    first, _, invariants = loop.parts(operands)
    carries = _begin(selector, first)
    flag = builder.temporary(_FLAG)
    env = [*carries, *invariants]
    with builder.block() as asking:
        selector.region(condition, dict(zip(condition.inputs, env, strict=True)), [flag])
    with builder.block() as turning:
        after = selector.region(body, dict(zip(body.inputs, env, strict=True)), [None] * loop.carries)
        require_same(carries, after)
        _replace(selector, carries, after)
    builder.steps.append(While(tuple(asking), flag.name, tuple(turning)))
    return carries


def _lower_scan(selector: Regions, loop: CarriedLoop, operands: Sequence[Held], dests: Sequence[Held]) -> list[Held]:
    """A while loop over a counter; slices of the operands are read, and those of the results written, in place."""
    body, length = loop.body, loop.length
    first, xs, invariants = loop.parts(operands)
    builder = selector.builder
    counter, flag = builder.temporary(_COUNT), builder.temporary(_FLAG)
    ys = loop.results(dests)[1]
    carries = _begin(selector, first)
    wholes = [_home(selector, dest) for dest in ys]
    _count(builder, counter, start=True)
    with builder.block() as asking:
        _compare(builder, counter, length, flag)
    with builder.block() as turning:
        slot = StackSlice(counter, length, loop.reverse)
        slices = [
            _slice(selector, dest, value.tensor, slot)
            for dest, value in zip(xs, loop.parts(body.inputs)[1], strict=True)
        ]
        stacked: list[Held | None] = [
            _slice(selector, dest, value.tensor, slot)
            for dest, value in zip(wholes, loop.results(body.outputs)[1], strict=True)
        ]
        env = [*carries, *slices, *invariants]
        after = selector.region(body, dict(zip(body.inputs, env, strict=True)), [None] * loop.carries + stacked)
        require_same(carries, loop.results(after)[0])
        _replace(selector, carries, loop.results(after)[0])
        _count(builder, counter, start=False)
    builder.steps.append(While(tuple(asking), flag.name, tuple(turning), length))
    return [*carries, *wholes]


def _slice(selector: Regions, storage: Held, type: TensorType, slot: StackSlice) -> Storage:
    assert isinstance(storage, Storage)
    return Storage(selector.whole(storage).name, type, slot)


def _begin(selector: Regions, operands: Sequence[Held]) -> list[Held]:
    """Copy the first values of the carries to temporaries; stacks stay what they are."""
    carries = [
        selector.builder.temporary(operand.type) if isinstance(operand, Storage) else operand for operand in operands
    ]
    pairs = zip(operands, carries, strict=True)
    selector.copy([(one, carry) for one, carry in pairs if isinstance(one, Storage) and isinstance(carry, Storage)])
    return carries


def _home(selector: Regions, dest: Held) -> Storage:
    """``dest``, or a temporary where it is one slice of a buffer, to which the caller copies what ends up here."""
    assert isinstance(dest, Storage)
    return dest if dest.slot is None else selector.builder.temporary(dest.type)


def _replace(selector: Regions, carries: Sequence[Held], after: Sequence[Held]) -> None:
    """Copy what a turn gave to the carries, at once where one of them becomes the value of another."""
    homes = {carry.name for carry in carries if isinstance(carry, Storage)}
    moved = [
        (new, carry)
        for carry, new in zip(carries, after, strict=True)
        if isinstance(carry, Storage) and isinstance(new, Storage) and carry != new
    ]
    if not any(new.name in homes for new, _ in moved):
        selector.copy(moved)
        return
    full_moves = [(selector.whole(new), carry) for new, carry in moved]
    with selector.builder.block() as copies:
        selector.copy(full_moves)
    launches = tuple([copy for copy in copies if isinstance(copy, Launch)])
    assert len(launches) == len(copies) and all(map(copied, launches)), "one launch copies a whole buffer"
    if launches:
        selector.builder.steps.append(ParallelCopy(launches))


def _count(builder: ScheduleBuilder, counter: Storage, *, start: bool) -> None:
    recorder = KernelRecorder()
    ops = ScalarOps(recorder, int64)
    recorder.store(counter, 0, ops.const(0) if start else ops.add(recorder.load(counter, 0), ops.const(1)))
    builder.launch(recorder, "count")


def _compare(builder: ScheduleBuilder, counter: Storage, length: DimLike, flag: Storage) -> None:
    recorder = KernelRecorder()
    below = ScalarOps(recorder, int64).cmp("lt", recorder.load(counter, 0), recorder.index_value(length))
    recorder.store(flag, 0, below)
    builder.launch(recorder, "more")
