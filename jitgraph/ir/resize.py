"""A graph with its named sizes replaced: by ints, or by sizes of a graph around it."""

from __future__ import annotations

from collections.abc import Mapping

from jitgraph.ir import dims
from jitgraph.ir.attributes import substitute_attrs, substitute_type
from jitgraph.ir.constraints import SizeConstraint
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.running import run_graph


def resize(graph: Graph, sizes: Mapping[str, DimLike]) -> Graph:
    """``graph`` with the names in ``sizes`` replaced in every type, attribute, constraint and region."""
    nodes: list[Node] = []

    def resized(value: Value) -> Value:
        return Value(substitute_type(value.type, sizes), value.hint)

    def apply(node: Node, operands: list[Value]) -> tuple[Value, ...]:
        attrs, outputs = substitute_attrs(node.attrs, sizes), tuple(map(resized, node.outputs))
        regions = tuple(resize(region, sizes) for region in node.regions)
        nodes.append(Node(node.op, tuple(operands), attrs, outputs, regions, node.location))
        return outputs

    inputs = tuple(map(resized, graph.inputs))
    outputs = run_graph(graph, inputs, apply)
    constraints = tuple(
        SizeConstraint(dims.substitute(c.left, sizes), c.relation, dims.substitute(c.right, sizes))
        for c in graph.constraints
    )
    return Graph(inputs, tuple(nodes), tuple(outputs), constraints, graph.name)
