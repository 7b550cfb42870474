"""Reductions: a loop over the reduced axes wherever the value is asked for, and groups of them that share their rows.

The order of a sum depends on shapes alone. Neighbouring reduced axes are one loop of ``lanes`` slots, 128 bytes of them
(fewer for short rows); reduced axes apart from these are loops around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgraph.codegen.kernel import Var
from jitgraph.codegen.lower.recorder import Recorder
from jitgraph.codegen.lower.values import Evaluator, Index, Inline, accumulator
from jitgraph.codegen.lower.words import Words
from jitgraph.dtypes import int64
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node

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


def extent_of(run: Run, shape: Sequence[DimLike]) -> DimLike:
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


class Window(NamedTuple):
    """A part of one reduced axis: ``extent`` elements from ``start`` on."""

    axis: int
    start: DimLike
    extent: int


def fold(values: Evaluator, node: Node, kept: Index, mask: Var | None, window: Window | None = None) -> tuple[Var, ...]:
    """The accumulators of a reduction over all of its axes, at an index of its result; of one axis only a window."""
    shape = node.inputs[0].shape
    axes = reduced_axes(node)
    remaining = iter(kept)
    fixed = {axis: next(remaining) for axis in range(len(shape)) if axis not in axes}
    return _fold_runs(values, node, fixed, runs_of(axes), mask, window)


def _fold_runs(
    values: Evaluator,
    node: Node,
    fixed: dict[int, DimLike],
    runs: Sequence[Run],
    mask: Var | None,
    window: Window | None,
) -> tuple[Var, ...]:
    recorder = values.recorder
    shape = list(node.inputs[0].shape)
    if window is not None:
        shape[window.axis] = window.extent
    if not runs:
        return element_at(values, node, tuple(fixed[axis] for axis in range(len(shape))), mask)
    run, *rest = runs
    extent = extent_of(run, shape)
    lanes = 1 if rest else lanes_for(extent, accumulator(node.inputs[0].dtype).itemsize)
    init = identity(recorder, node)

    def element(position: DimLike) -> tuple[Var, ...]:
        along = dict(zip(run, recorder.ranges.split(position, [shape[axis] for axis in run]), strict=True))
        if window is not None and window.axis in along:
            along[window.axis] = window.start + along[window.axis]
        return _fold_runs(values, node, {**fixed, **along}, rest, mask, window)

    folded = recorder.reduce(extent, init, element, lambda words, x, y: combine(node, words, x, y), lanes)
    if len(run) > 1 and recorder.last_divides():
        # Together these axes have no single stride: one loop for each is cheaper than a division for each element.
        recorder.drop_last()
        return _fold_runs(values, node, fixed, [*((axis,) for axis in run), *rest], mask, window)
    return folded


REDUCTION: dict[str, Inline] = {"reduce": reduced_at}
