"""Indexing at an index computed at run time: gather, dynamic_slice, dynamic_update_slice, and writes of a part."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.kernels.schedule import CheckSite
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty, lower_pointwise
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.statements import ScalarOps, Storage
from jitgraph.codegen.lower.values import Evaluator, Index, at_least, below, both
from jitgraph.dtypes import bool_, int64
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ops.gathering import out_of_range
from jitgraph.passes.fusion_groups import is_free

# ----------------------------------------------------------------------
# Indexing ops that read at an index computed at run time: gather, dynamic_slice, dynamic_update_slice.


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


# ----------------------------------------------------------------------
# Partial writes: a launch copies the operand to the result, another stores there what changes.
#
# ``kernels/coalescing.py`` then leaves the copy out where the operand is not wanted afterwards, and a write of an
# element is a store. So that it may, the kernel that stores reads the operand nowhere but at what it replaces: updates
# and indices that are computed from the operand are computed first.


def is_copied_first(builder: ScheduleBuilder, group: Group, node: Node) -> bool:
    """Whether the operand of a partial write is worth a copy of its own: it, and the result, are whole buffers.

    A constant has to be copied in any case, which the kernel of the write does best, and so has an input but where the
    call may be given leave to overwrite it.
    """
    source = group.inputs.get(_operand(group, node))
    if source is None or source.slot is not None or group.outputs[0][1].slot is not None:
        return False
    if builder.overwrites_inputs and source.name in builder.given_away:
        return True
    return builder.buffers[source.name].role in ("temporary", "output")


def _operand(group: Group, node: Node) -> Value:
    """The first operand, or the value that it is a view of."""
    value = node.inputs[0]
    while value not in group.inputs and "alias" in group.graph.producers[value].op.traits:
        value = group.graph.producers[value].inputs[0]
    return value


def begin_update(builder: ScheduleBuilder, group: Group, node: Node) -> Group:
    """Append the copy of the operand of ``node`` to the result; gives the group that is left to store there.

    Its updates and indices are inputs where the operand is read for them.
    """
    source = group.inputs[_operand(group, node)]
    before = _behind(group, node.inputs[1:])
    if any(group.inputs[value].name == source.name for value in before & group.inputs.keys()):
        group = _computed_first(builder, group, node, before)
    copy_whole(builder, source, group.outputs[0][1])
    return group


def _behind(group: Group, values: Iterable[Value]) -> set[Value]:
    """What the group reads and computes for ``values``."""
    dependencies: set[Value] = set()
    pending = [*values]
    while pending:
        value = pending.pop()
        if value not in dependencies:
            dependencies.add(value)
            if value not in group.inputs:
                pending += group.graph.producers[value].inputs
    return dependencies


def _computed_first(builder: ScheduleBuilder, group: Group, node: Node, before: Collection[Value]) -> Group:
    """The group with all operands of ``node`` but the first in buffers of their own."""
    operands = tuple(dict.fromkeys(node.inputs[1:]))
    storages = {value: builder.temporary(value.tensor) for value in operands}
    nodes = tuple(one for one in group.graph.nodes if one.outputs[0] in before)
    inputs = {value: storage for value, storage in group.inputs.items() if value in before}
    graph = Graph(tuple(inputs), nodes, operands, group.graph.constraints, group.graph.name)
    lower_pointwise(builder, Group(graph, inputs, tuple(storages.items()), group.checked))
    left = tuple(one for one in group.graph.nodes if one not in nodes)
    storages |= {value: storage for value, storage in group.inputs.items() if value not in storages}
    graph = Graph(tuple(storages), left, node.outputs, group.graph.constraints, group.graph.name)
    return replace(group, graph=graph, inputs=storages)


def copy_whole(builder: ScheduleBuilder, source: Storage, result: Storage) -> None:
    """Append a copy of one storage to another of as many elements."""
    if is_empty(result.type):
        return
    value = Value(result.type)
    reshaped = replace(source, type=result.type)
    lower_pointwise(builder, Group(Graph((value,), (), (value,)), {value: reshaped}, ((value, result),)))


def end_update(builder: ScheduleBuilder, group: Group) -> None:
    """Copy the result to the other buffers that want it."""
    (_, result), *copies = group.outputs
    for _, copy in copies:
        copy_whole(builder, result, copy)


def slice_update_of(group: Group) -> Node | None:
    """The dynamic_update_slice that a group is, beside index maps of what it reads; None where it is something else."""
    nodes = [node for node in group.graph.nodes if not is_free(node)]
    if len(nodes) != 1 or nodes[0].op.lowering != "dynamic_update_slice":
        return None
    (node,) = nodes
    return node if all(value is node.output for value, _ in group.outputs) else None


def lower_slice_update(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """A copy of the operand, and a nest over the update that stores it at its place."""
    group = begin_update(builder, group, node)
    result = group.outputs[0][1]
    x, update, *starts = node.inputs
    if not is_empty(update.tensor):
        recorder = KernelRecorder()
        values = builder.evaluator(recorder, group)
        recorder.param(result, "read")  # all but the slice stays
        with recorder.loops(builder.decisions.independent(update.shape), update.shape) as index:
            new = values.at(update, index)
            target = tuple(
                dim if extent == size else dim + clamped(recorder, values.at(start, ()), extent, size)
                for dim, start, extent, size in zip(index, starts, x.shape, update.shape, strict=True)
            )
            recorder.store(result, offset(target, x.shape), new)
        builder.launch(recorder, group.name)
    end_update(builder, group)
