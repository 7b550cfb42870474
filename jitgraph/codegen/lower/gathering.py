"""Indexing ops that read at an index computed at run time: gather, dynamic_slice, dynamic_update_slice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.kernels.schedule import CheckSite
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.movement import at_least, below, both
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.scalar_ops import ScalarOps
from jitgraph.codegen.lower.values import Evaluator, Index
from jitgraph.dtypes import bool_, int64
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ops.gathering import out_of_range


def wrapped(values: Evaluator, node: Node, number: Var, extent: DimLike, mask: Var | None, *, check: bool) -> DimLike:
    """An index along an axis of ``extent`` as a position in it: negative ones count from the end, where the op says so.

    With ``check``, one that is out of range stops the kernel with IndexError.
    """
    from_end = node.attrs.get("negative", True)
    recorder = values.recorder
    ops = ScalarOps(recorder, int64)
    bound = recorder.index_value(extent)
    if check:
        site = CheckSite("IndexError", out_of_range(node.op.name, "{index}", "{bound}"), node.location)
        least = ops.neg(bound) if from_end else ops.const(0)
        fits = ops.and_(ops.cmp("ge", number, least), ops.cmp("lt", number, bound))
        ok = fits if mask is None else ops.or_(fits, ops.not_(mask))
        recorder.check(ok, values.sites.number(site), number, bound)
    if from_end:
        number = ops.select(ops.cmp("lt", number, ops.const(0)), ops.add(number, bound), number)
    return recorder.as_index(number, extent)


def gather_at(values: Evaluator, node: Node, output: int, index: Index, mask: Var | None) -> Var:
    """An element of a gather."""
    x, indices = node.inputs
    axis: Any = node.attrs["axis"]
    after = axis + len(indices.shape)
    number = values.at(indices, index[axis:after], mask)
    position = wrapped(values, node, number, x.shape[axis], mask, check=node not in values.checked)
    return values.at(x, (*index[:axis], position, *index[after:]), mask)


def clamped(recorder: KernelRecorder, start: Var, extent: DimLike, size: DimLike) -> DimLike:
    """A start along an axis of ``extent``, moved so that ``size`` elements fit."""
    ops = ScalarOps(recorder, int64)
    room = recorder.index_value(extent - size)
    inside = ops.max(ops.min(start, room), ops.const(0))
    return recorder.as_index(inside, extent - size + 1)


def dynamic_slice_at(values: Evaluator, node: Node, output: int, index: Index, mask: Var | None) -> Var:
    """An element of a slice that starts where the graph says."""
    x, *starts = node.inputs
    sizes: Any = node.attrs["sizes"]
    source: list[DimLike] = []
    for dim, start, extent, size in zip(index, starts, x.shape, sizes, strict=True):
        # The start is the same for every element, so its mask is dropped: the scalar exists wherever the op does.
        number = values.at(start, ())
        source.append(dim if extent == size else dim + clamped(values.recorder, number, extent, size))
    return values.at(x, tuple(source), mask)


def dynamic_update_slice_at(values: Evaluator, node: Node, output: int, index: Index, mask: Var | None) -> Var:
    """An element of a tensor with such a slice written anew."""
    recorder = values.recorder
    x, update, *starts = node.inputs
    inside: Var | None = None
    source: list[DimLike] = []
    for dim, start, extent, size in zip(index, starts, x.shape, update.shape, strict=True):
        if extent == size:
            source.append(dim)
            continue
        position = dim - clamped(recorder, values.at(start, ()), extent, size)
        inside = both(recorder, inside, at_least(recorder, position, 0))
        inside = both(recorder, inside, below(recorder, position, size))
        source.append(position)
    if inside is None:
        return values.at(update, tuple(source), mask)
    new = values.at(update, tuple(source), both(recorder, mask, inside))
    outside = ScalarOps(recorder, bool_).not_(inside)
    old = values.at(x, index, both(recorder, mask, outside))
    return ScalarOps(recorder, new.dtype).select(inside, new, old)


def check_indices(builder: ScheduleBuilder, group: Group) -> Group:
    """Check the indices of the group's gathers and scatters in kernels of their own where the op may have no elements.

    An index out of range is an error even where nothing is read or written with it. Where memory of the caller may be
    written all are checked so: nothing can fail once a part of it is written.
    """
    checked: set[Node] = set()
    for node in group.graph.nodes:
        if "bounds_checked" not in node.op.traits or not (builder.overwrites_inputs or _may_be_empty(node)):
            continue
        checked.add(node)
        recorder = KernelRecorder()
        values = builder.evaluator(recorder, group)
        indices = node.inputs[1]
        if is_empty(indices.tensor):
            continue
        axis: Any = node.attrs["axis"]
        size = (indices.tensor.size,)
        with recorder.loops(builder.decisions.independent(size), size) as (position,):
            number = values.at(indices, recorder.ranges.split(position, indices.shape))
            wrapped(values, node, number, node.inputs[0].shape[axis], None, check=True)
        builder.launch(recorder, "check_indices")
    return replace(group, checked=frozenset(checked))


def _may_be_empty(node: Node) -> bool:
    axis: Any = node.attrs["axis"]
    others = (*node.inputs[0].shape[:axis], *node.inputs[0].shape[axis + 1 :])
    return any(not isinstance(extent, int) or extent == 0 for extent in others)


def lower_check(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """A check of a 0-d bool, and whatever computes it and the number that its message names."""
    kind, message = node.attrs["kind"], node.attrs["message"]
    recorder = KernelRecorder()
    values = builder.evaluator(recorder, group)
    site = values.sites.number(CheckSite(str(kind), str(message), node.location))
    ok, *number = (values.at(value, ()) for value in node.inputs)
    recorder.check(ok, site, *number)
    builder.launch(recorder, "check")
