"""Reductions: a loop over the reduced axes wherever the value is asked for.

Where the order is part of the meaning (``ops/order.py``) there is one loop for each axis, the last axis innermost.
Elsewhere neighbouring axes are one loop, where no index then has to be divided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.lower.recorder import Combiner, KernelRecorder, accumulator
from jitgraph.codegen.lower.statements import ScalarOps
from jitgraph.codegen.lower.values import Evaluator, Index
from jitgraph.dtypes import int64, is_float
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ops.order import Order, fewer_slots, order_along

Run = tuple[int, ...]


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The axes over which a reduce op reduces."""
    axes: Any = node.attrs["axes"] if "axes" in node.attrs else (node.attrs["axis"],)
    return tuple(axes)


def runs_of(axes: Sequence[int]) -> list[Run]:
    """The axes in groups of neighbours."""
    runs: list[Run] = []
    for axis in axes:
        if runs and runs[-1][-1] == axis - 1:
            runs[-1] = (*runs[-1], axis)
        else:
            runs.append((axis,))
    return runs


def extent_of(run: Run, shape: Sequence[DimLike]) -> DimLike:
    """The number of elements along neighbouring axes."""
    return dims.product(shape[axis] for axis in run)


def order_of(node: Node, axis: int, slot_bytes: int) -> Order:
    """The order in which ``node`` reduces along one of its axes; where any will do, slots of ``slot_bytes`` in all."""
    dtype = accumulator(node.inputs[0].dtype)
    if rounds(node):
        return order_along(axis, len(node.inputs[0].shape), dtype)
    return Order(slot_bytes // dtype.itemsize, 0)


def rounds(node: Node) -> bool:
    """Whether the order of a reduction is part of its meaning."""
    assert node.op.reduction is not None
    return node.op.reduction.rounds and is_float(node.inputs[0].dtype)


def reduced_at(values: Evaluator, node: Node, output: int, index: Index, mask: Var | None) -> Var:
    """The reduction at an index of its result, in the outermost block in which that index is known."""
    recorder = values.recorder
    with recorder.within(recorder.home_of(index, (mask,))):
        folded = fold(values, node, index, mask)
        return finished(recorder, node, folded)


def finished(recorder: KernelRecorder, node: Node, folded: tuple[Var, ...]) -> Var:
    """What a reduction gives for its accumulators: the last one, in the output's dtype."""
    return ScalarOps(recorder, folded[-1].dtype).cast(folded[-1], node.output.dtype)


def identity(recorder: KernelRecorder, node: Node) -> tuple[Var, ...]:
    """The accumulators of an empty reduction."""
    assert node.op.reduction is not None
    wide = accumulator(node.inputs[0].dtype)
    init: Any = node.op.reduction.init(wide)
    ops = ScalarOps(recorder, wide)
    return (ops.const(init[0]), ops.const(init[1], int64)) if isinstance(init, tuple) else (ops.const(init),)


def element_at(values: Evaluator, node: Node, index: Index, mask: Var | None) -> tuple[Var, ...]:
    """What one element of the operand contributes: itself, and for a tuple accumulator its position along the axis."""
    x = values.at(node.inputs[0], index, mask)
    wide = ScalarOps(values.recorder, x.dtype).cast(x, accumulator(x.dtype))
    if len(identity(values.recorder, node)) == 1:
        return (wide,)
    (axis,) = reduced_axes(node)
    return wide, values.recorder.index_value(index[axis])


def combine(node: Node, ops: ScalarOps, left: tuple[Var, ...], right: tuple[Var, ...]) -> tuple[Var, ...]:
    """Two accumulators as one."""
    assert node.op.reduction is not None
    if len(left) == 1:
        return (node.op.reduction.combine(ops, left[0], right[0]),)
    result = node.op.reduction.combine(ops, left, right)
    return tuple(result)


def fold(values: Evaluator, node: Node, index: Index, mask: Var | None) -> tuple[Var, ...]:
    """The accumulators of a reduction over all of its axes, at an index of its result."""
    axes = reduced_axes(node)
    remaining = iter(index)
    fixed = {axis: next(remaining) for axis in range(len(node.inputs[0].shape)) if axis not in axes}
    runs = [(axis,) for axis in axes] if rounds(node) else runs_of(axes)
    return fold_runs(values, [node], fixed, runs, mask)


def fold_runs(
    values: Evaluator,
    nodes: Sequence[Node],
    fixed: Mapping[int, DimLike],
    runs: Sequence[Run],
    mask: Var | None,
    *,
    any_order: bool = False,
) -> tuple[Var, ...]:
    """The accumulators of reductions over ``runs`` of their axes, the other ones being ``fixed``.

    Operands of several ``nodes`` have one shape, and their accumulators one order and dtype: first those of the first
    node. With ``any_order`` that of a run of several axes is of no account.
    """
    recorder = values.recorder
    shape = nodes[0].inputs[0].shape
    if not runs:
        index = tuple(fixed[axis] for axis in range(len(shape)))
        return tuple(var for node in nodes for var in element_at(values, node, index, mask))
    run, *rest = runs
    extent = extent_of(run, shape)
    order = order_of(nodes[0], run[-1], values.decisions.slot_bytes)
    lanes = fewer_slots(order.slots, extent) if order.chain or not rest else 1

    def element(position: DimLike) -> tuple[Var, ...]:
        along = dict(zip(run, recorder.ranges.split(position, [shape[axis] for axis in run]), strict=True))
        return fold_runs(values, nodes, {**fixed, **along}, rest, mask)

    init = tuple(var for node in nodes for var in identity(recorder, node))
    chain = 0 if any_order and len(run) > 1 else order.chain
    folded = recorder.reduce(extent, init, element, combiner(*nodes), lanes, chain)
    if len(run) > 1 and recorder.last_divides():
        # Together these axes have no single stride: one loop for each is cheaper than a division for each element.
        recorder.drop_last()
        return fold_runs(values, nodes, fixed, [*((axis,) for axis in run), *rest], mask)
    if len(nodes) == 1:
        return or_empty(recorder, nodes[0], extent, folded)
    return tuple(
        value for node, var in zip(nodes, folded, strict=True) for value in or_empty(recorder, node, extent, (var,))
    )


def combiner(*nodes: Node) -> Combiner:
    """``combine`` for a reduce loop, of several nodes that have one accumulator each."""
    if len(nodes) == 1:
        return lambda ops, left, right: combine(nodes[0], ops, left, right)
    return lambda ops, left, right: tuple(
        value for node, x, y in zip(nodes, left, right, strict=True) for value in combine(node, ops, (x,), (y,))
    )


def or_empty(recorder: KernelRecorder, node: Node, extent: DimLike, folded: tuple[Var, ...]) -> tuple[Var, ...]:
    """What a loop over ``extent`` steps folded to, or the reduction of nothing where there are none."""
    assert node.op.reduction is not None
    if node.op.reduction.empty is None or not rounds(node) or (isinstance(extent, int) and extent > 0):
        return folded
    (value,) = folded
    ops = ScalarOps(recorder, value.dtype)
    empty = ops.const(node.op.reduction.empty(value.dtype))
    if extent == 0:
        return (empty,)
    none = ops.cmp("eq", recorder.index_value(extent), recorder.index_value(0))
    return (ops.select(none, empty, value),)
