"""Reductions: a loop over the reduced axes wherever the value is asked for, and groups of them that share their rows.

The order of a sum depends on shapes alone. Neighbouring reduced axes are one loop of ``lanes`` slots, 128 bytes of them
(fewer for short rows); reduced axes apart from these are loops around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgraph.codegen.index import offset
from jitgraph.codegen.kernel import LoopKind, Var
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.recorder import Recorder, Words
from jitgraph.codegen.lower.values import Evaluator, Index, Inline, accumulator
from jitgraph.dtypes import int64
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ir.types import Shape

_SLOT_BYTES = 128
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


def extent_of(run: Run, shape: Shape) -> DimLike:
    """The number of elements along neighbouring axes."""
    return dims.product(shape[axis] for axis in run)


def lanes_for(extent: DimLike, itemsize: int) -> int:
    """The slots of a sum along a row: a power of two by the row's length and the width of an element."""
    lanes = _SLOT_BYTES // itemsize
    if isinstance(extent, int):
        while lanes > 1 and lanes // 2 >= extent:
            lanes //= 2
    return lanes


def reduced_at(values: Evaluator, node: Node, output: int, index: Index, mask: Var | None) -> Var:
    """The reduction at an index of its result, in the outermost block in which that index is known."""
    recorder = values.recorder
    with recorder.within(recorder.home_of(index, (mask,))):
        folded = fold(values, node, index, mask)
        return finished(recorder, node, folded)


def finished(recorder: Recorder, node: Node, folded: tuple[Var, ...]) -> Var:
    """What a reduction gives for its accumulators: the last one, in the output's dtype."""
    return Words(recorder, folded[-1].dtype).cast(folded[-1], node.output.dtype)


def identity(recorder: Recorder, node: Node) -> tuple[Var, ...]:
    """The accumulators of an empty reduction."""
    assert node.op.reduction is not None
    wide = accumulator(node.inputs[0].dtype)
    init: Any = node.op.reduction.init(wide)
    words = Words(recorder, wide)
    return (words.const(init[0]), words.const(init[1], int64)) if isinstance(init, tuple) else (words.const(init),)


def element_at(values: Evaluator, node: Node, index: Index, mask: Var | None) -> tuple[Var, ...]:
    """What one element of the operand contributes: itself, and for a tuple accumulator its position along the axis."""
    x = values.at(node.inputs[0], index, mask)
    wide = Words(values.recorder, x.dtype).cast(x, accumulator(x.dtype))
    if len(identity(values.recorder, node)) == 1:
        return (wide,)
    (axis,) = reduced_axes(node)
    return wide, values.recorder.index_value(index[axis])


def combine(node: Node, words: Words, left: tuple[Var, ...], right: tuple[Var, ...]) -> tuple[Var, ...]:
    """Two accumulators as one."""
    assert node.op.reduction is not None
    if len(left) == 1:
        return (node.op.reduction.combine(words, left[0], right[0]),)
    result = node.op.reduction.combine(words, left, right)
    return tuple(result)


def fold(values: Evaluator, node: Node, kept: Index, mask: Var | None) -> tuple[Var, ...]:
    """The accumulators of a reduction over all of its axes, at an index of its result."""
    shape = node.inputs[0].shape
    axes = reduced_axes(node)
    remaining = iter(kept)
    fixed = {axis: next(remaining) for axis in range(len(shape)) if axis not in axes}
    return _fold_runs(values, node, fixed, runs_of(axes), mask)


def _fold_runs(
    values: Evaluator, node: Node, fixed: dict[int, DimLike], runs: Sequence[Run], mask: Var | None
) -> tuple[Var, ...]:
    recorder = values.recorder
    shape = node.inputs[0].shape
    if not runs:
        return element_at(values, node, tuple(fixed[axis] for axis in range(len(shape))), mask)
    run, *rest = runs
    extent = extent_of(run, shape)
    lanes = 1 if rest else lanes_for(extent, accumulator(node.inputs[0].dtype).itemsize)
    init = identity(recorder, node)

    def element(position: DimLike) -> tuple[Var, ...]:
        along = recorder.ranges.split(position, [shape[axis] for axis in run])
        return _fold_runs(values, node, {**fixed, **dict(zip(run, along, strict=True))}, rest, mask)

    folded = recorder.reduce(extent, init, element, lambda words, x, y: combine(node, words, x, y), lanes)
    if len(run) > 1 and recorder.last_divides():
        # Together these axes have no single stride: one loop for each is cheaper than a division for each element.
        recorder.drop_last()
        return _fold_runs(values, node, fixed, [*((axis,) for axis in run), *rest], mask)
    return folded


def lower_rows(builder: ScheduleBuilder, group: Group) -> None:
    """Reductions that share their operand's shape and axes, and what stands around them: one pass over the rows.

    Outputs have the operand's shape, or that of the rows (the operand's without the reduced axes).
    """
    node = next(node for node in group.graph.nodes if node.op.kind == "reduce")
    domain, axes = node.inputs[0].shape, reduced_axes(node)
    kept = tuple(axis for axis in range(len(domain)) if axis not in axes)
    rows = tuple(domain[axis] for axis in kept)
    outputs = [(value, storage) for value, storage in group.outputs if not is_empty(value.tensor)]
    if not outputs:
        return
    recorder = Recorder()
    values = builder.evaluator(recorder, group)
    by_column = bool(kept) and kept[-1] == len(domain) - 1 and domain[-1] != 1
    kinds: list[LoopKind] = ["parallel"] * len(kept)
    if by_column:
        kinds[-1] = "vector"
    with recorder.loops(kinds, rows) as row:
        full = [output for output in outputs if axes and output[0].shape == domain]
        narrow = [output for output in outputs if output not in full]
        results = [values.at(value, row) for value, _ in narrow]
        if full:
            runs = runs_of(axes)
            along: list[LoopKind] = ["serial"] * len(runs)
            if not by_column:
                along[-1] = "vector"
            with recorder.loops(along, [extent_of(run, domain) for run in runs]) as positions:
                index = dict(zip(kept, row, strict=True))
                for run, position in zip(runs, positions, strict=True):
                    parts = recorder.ranges.split(position, [domain[axis] for axis in run])
                    index.update(zip(run, parts, strict=True))
                place = tuple(index[axis] for axis in range(len(domain)))
                elements = [values.at(value, place) for value, _ in full]
                for element, (value, storage) in zip(elements, full, strict=True):
                    recorder.store(storage, offset(place, value.shape), element)
        for result, (value, storage) in zip(results, narrow, strict=True):
            recorder.store(storage, offset(row, value.shape), result)
    builder.launch(recorder, group.name)


REDUCTION: dict[str, Inline] = {"reduce": reduced_at}
