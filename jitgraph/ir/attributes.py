"""Sizes inside attributes and whole graphs: which names they mention, and the same with names replaced."""

from __future__ import annotations

from collections.abc import Mapping

from jitgraph.ir import dims
from jitgraph.ir.builder import run_graph
from jitgraph.ir.constraints import SizeConstraint
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.ir.graph import Attr, Attrs, Graph, Node, Value
from jitgraph.ir.types import StackType, TensorType, Type

# ----------------------------------------------------------------------
# Sizes inside attributes: which names they mention, and the same attributes with names replaced.


def substitute_attr(attr: Attr, values: Mapping[str, DimLike]) -> Attr:
    """``attr`` with the names in ``values`` replaced in every size, those in tuples included."""
    if isinstance(attr, Dim):
        return dims.substitute(attr, values)
    if isinstance(attr, tuple):
        return tuple(substitute_attr(item, values) for item in attr)
    return attr


def substitute_attrs(attrs: Attrs, values: Mapping[str, DimLike]) -> dict[str, Attr]:
    """The attributes with the names in ``values`` replaced; all ints where every name has an int there."""
    return {key: substitute_attr(attr, values) for key, attr in attrs.items()}


def substitute_type(type: Type, values: Mapping[str, DimLike]) -> Type:
    """``type`` with the names in ``values`` replaced in its shape."""
    if isinstance(type, StackType):
        element = substitute_type(type.element, values)
        assert isinstance(element, TensorType)
        return StackType(element)
    if isinstance(type, TensorType) and any(isinstance(dim, Dim) for dim in type.shape):
        return TensorType(type.dtype, tuple(dims.substitute(dim, values) for dim in type.shape))
    return type


def names_in_attr(attr: Attr) -> frozenset[str]:
    """The names that the sizes in ``attr`` mention."""
    if isinstance(attr, Dim):
        return dims.names(attr)
    if isinstance(attr, tuple):
        return frozenset().union(*map(names_in_attr, attr))
    return frozenset()


def names_in_type(type: Type) -> frozenset[str]:
    """The names that the shape of ``type`` mentions."""
    if isinstance(type, StackType):
        type = type.element
    if isinstance(type, TensorType):
        return frozenset().union(*(dims.names(dim) for dim in type.shape if isinstance(dim, Dim)))
    return frozenset()


# ----------------------------------------------------------------------
# A graph with its named sizes replaced: by ints, or by sizes of a graph around it.


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
