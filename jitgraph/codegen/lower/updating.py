"""Partial writes: a launch copies the operand to the result, another stores there what changes.

``kernels/coalescing.py`` then leaves the copy out where the operand is not wanted afterwards, and a write of an element
is a store. So that it may, the kernel that stores reads the operand nowhere but at what it replaces: updates and
indices that are computed from the operand are computed first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.gathering import clamped
from jitgraph.codegen.lower.pointwise import lower_pointwise
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.storage import Storage
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.passes.fusion_forms import is_free


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
