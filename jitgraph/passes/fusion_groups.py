"""Groups of nodes that one kernel computes, and the ``fused`` node that a group becomes."""

from __future__ import annotations

from dataclasses import field

from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.types import TensorType
from jitgraph.ops import fused
from jitgraph.passes.fusion_forms import FusionEdge, FusionForm, is_free
from jitgraph.records import dataclass


@dataclass(eq=False)
class FusionGroup:
    form: FusionForm
    members: list[Node]
    first: int
    last: int
    root: Node | None = None
    edges: dict[Node, list[FusionEdge]] = field(default_factory=dict)


def lone_group(node: Node) -> FusionGroup:
    return FusionGroup(FusionForm("alone", ()), [node], 0, 0)


def outer_inputs(graph: Graph, group: FusionGroup) -> tuple[Value, ...]:
    """The values that a group reads and does not make, index maps seen through where the group is a kernel."""
    internal = {output for node in group.members for output in node.outputs}
    external: dict[Value, None] = {}
    through = _is_kernel(group)

    def visit(value: Value) -> None:
        if value in internal or value in external:
            return
        producer = graph.producers.get(value)
        if through and producer is not None and is_free(producer):
            for source in producer.inputs:
                visit(source)
        else:
            external[value] = None

    for node in group.members:
        for value in node.inputs:
            visit(value)
    return tuple(external)


def _is_kernel(group: FusionGroup) -> bool:
    """Whether the group's values are computed at an index, so that index maps can be part of it."""
    return not any(
        node.regions
        or "alias" in node.op.traits
        or not all(isinstance(value.type, TensorType) for value in (*node.inputs, *node.outputs))
        for node in group.members
    )


def node_of(graph: Graph, group: FusionGroup, needed: set[Value]) -> Node:
    """The group as one node: the node itself where it reads nothing through index maps."""
    inputs = outer_inputs(graph, group)
    if len(group.members) == 1 and (not _is_kernel(group) or set(group.members[0].inputs) <= set(inputs)):
        return group.members[0]
    outputs = [value for node in group.members for value in node.outputs if value in needed]
    inner: dict[Value, Value] = {value: Value(value.type, value.hint) for value in inputs}
    builder = GraphBuilder()

    def value_of(value: Value) -> Value:
        if value not in inner:
            copy(graph.producers[value])
        return inner[value]

    def copy(node: Node) -> None:
        copies = builder.copy(node, [value_of(value) for value in node.inputs])
        inner.update(zip(node.outputs, copies, strict=True))

    for node in group.members:
        copy(node)
    name = "_".join(dict.fromkeys(node.op.name for node in group.members))
    builder.inputs = [inner[value] for value in inputs]
    region = builder.graph([inner[value] for value in outputs], name[:60])
    location = next((node.location for node in reversed(group.members) if node.location), None)
    return Node(fused, inputs, {}, tuple(outputs), (region,), location)
