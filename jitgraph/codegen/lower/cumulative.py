"""Cumulative ops: one carry along the axis, the other axes independent of each other."""

from __future__ import annotations

from typing import Any

from jitgraph import dtypes
from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import LoopKind, Var
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.scalar_body import accumulator
from jitgraph.codegen.lower.scalar_ops import ScalarOps
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node


def lower_cumulative(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """A serial loop along the axis, in the order of the elements; where the last axis is another, it may be lanes."""
    if is_empty(node.output.tensor):
        return
    reduction = node.op.reduction
    assert reduction is not None
    x = node.inputs[0]
    axis: Any = node.attrs["axis"]
    wide = accumulator(x.dtype)
    others = (*x.shape[:axis], *x.shape[axis + 1 :])
    kinds: list[LoopKind] = ["parallel"] * len(others)
    if axis < len(x.shape) - 1:
        kinds = builder.decisions.independent(others)
    recorder = KernelRecorder()
    values = builder.evaluator(recorder, group)
    ops = ScalarOps(recorder, wide)
    with recorder.loops(kinds, others) as at:

        def step(along: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            index = (*at[:axis], along, *at[axis:])
            element = values.at(x, index)
            following = reduction.combine(ops, carried[0], ops.cast(element, wide))
            for value, storage in group.outputs:
                recorder.store(storage, offset(index, value.shape), ops.cast(following, x.dtype))
            return (following,)

        recorder.serial(x.shape[axis], (ops.const(start_of(node)),), step)
    builder.launch(recorder, group.name)


def start_of(node: Node) -> float | int | bool:
    """What a cumulative op begins with, in the accumulator's dtype."""
    assert node.op.reduction is not None
    wide = accumulator(node.inputs[0].dtype)
    init: Any = node.op.reduction.init(wide)
    if dtypes.is_float(wide) and init == 0:
        return -0.0  # the identity that keeps the sign of a zero which comes first
    return init  # type: ignore[no-any-return]
