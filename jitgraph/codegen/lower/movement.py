"""Movement ops as index maps: where an element of the output comes from."""

from __future__ import annotations

from typing import Any

from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.scalar_ops import ScalarOps
from jitgraph.codegen.lower.values import Evaluator, Index, Inline
from jitgraph.dtypes import bool_
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ir.op import Kind, Lowering


def both(recorder: KernelRecorder, left: Var | None, right: Var | None) -> Var | None:
    """The conjunction of two masks; None is true everywhere."""
    if left is None or right is None:
        return left if right is None else right
    return ScalarOps(recorder, bool_).and_(left, right)


def at_least(recorder: KernelRecorder, index: DimLike, bound: DimLike) -> Var | None:
    """The mask ``index >= bound``; None where that is known to hold."""
    low, _ = recorder.ranges.bounds(index)
    if low is not None and recorder.ranges.nonnegative(low - bound):
        return None
    ops = ScalarOps(recorder, bool_)
    return ops.cmp("ge", recorder.index_value(index), recorder.index_value(bound))


def below(recorder: KernelRecorder, index: DimLike, bound: DimLike) -> Var | None:
    """The mask ``index < bound``; None where that is known to hold."""
    _, high = recorder.ranges.bounds(index)
    if high is not None and recorder.ranges.nonnegative(bound - 1 - high):
        return None
    ops = ScalarOps(recorder, bool_)
    return ops.cmp("lt", recorder.index_value(index), recorder.index_value(bound))


def moved_at(values: Evaluator, node: Node, output: int, index: Index, mask: Var | None) -> Var:
    """The element that the op's index map names: of its reads, the first one whose condition holds."""
    recorder = values.recorder
    assert node.op.index_map is not None
    reads: Any = node.op.index_map(index, *(value.type for value in node.inputs), **node.attrs)
    candidates: list[tuple[Var | None, Var]] = []
    left = mask  # where no earlier read was taken
    for read in reads:
        operand = node.inputs[read.operand]
        if len(reads) > 1 and any(extent == 0 for extent in operand.shape):
            continue
        condition: Var | None = None
        for one, relation, other in read.condition:
            holds = at_least(recorder, one, other) if relation == ">=" else below(recorder, one, other)
            condition = both(recorder, condition, holds)
        # A 0-d operand is there at every index, so reading it needs no mask and can leave the loop.
        here = both(recorder, left, condition) if operand.shape else None
        source = tuple(recorder.ranges.simplify(dim) for dim in read.index)
        candidates.append((condition, values.at(operand, source, here)))
        if condition is None:
            break
        left = both(recorder, left, ScalarOps(recorder, bool_).not_(condition))
    _, result = candidates.pop()
    for condition, value in reversed(candidates):
        assert condition is not None
        result = ScalarOps(recorder, value.dtype).select(condition, value, result)
    return result


MOVEMENT: dict[Kind | Lowering, Inline] = {"movement": moved_at}
