"""A graph with its named sizes replaced: by ints, or by sizes of a graph around it."""

from __future__ import annotations

from collections.abc import Mapping

from jitgraph.ir import dims
from jitgraph.ir.attributes import substitute_attrs, substitute_type
from jitgraph.ir.constraints import SizeConstraint
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Graph, Node, Value


def resize(graph: Graph, sizes: Mapping[str, DimLike]) -> Graph:
    """``graph`` with the names in ``sizes`` replaced in every type, attribute, constraint and region."""
    new: dict[Value, Value] = {}

    def value(old: Value) -> Value:
        if old not in new:
            new[old] = Value(substitute_type(old.type, sizes), old.hint)
        return new[old]

    inputs = tuple(map(value, graph.inputs))
    nodes = tuple(
        Node(
            node.op,
            tuple(map(value, node.inputs)),
            substitute_attrs(node.attrs, sizes),
            tuple(map(value, node.outputs)),
            tuple(resize(region, sizes) for region in node.regions),
            node.location,
        )
        for node in graph.nodes
    )
    constraints = tuple(
        SizeConstraint(dims.substitute(c.left, sizes), c.relation, dims.substitute(c.right, sizes))
        for c in graph.constraints
    )
    return Graph(inputs, nodes, tuple(map(value, graph.outputs)), constraints, graph.name)
