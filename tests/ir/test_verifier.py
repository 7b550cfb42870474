"""What the verifier refuses that no text can say; the rest stands in golden/errors.jgir."""

from __future__ import annotations

import numpy as np
import pytest

from jitgraph import ops
from jitgraph.dtypes import float32
from jitgraph.errors import GraphError
from jitgraph.ir import verify
from jitgraph.ir.builder import build
from jitgraph.ir.constraints import SizeConstraint
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.types import StackType, TensorType
from jitgraph.location import Location

N = Dim.name("n")
TYPE = TensorType(float32, (2,))
X = Value(TYPE)


def neg(x: Value, out: Value, **attrs: object) -> Node:
    return Node(ops.neg, (x,), attrs, (out,))  # type: ignore[arg-type]


def refused(graph: Graph, message: str) -> GraphError:
    with pytest.raises(GraphError, match=message) as caught:
        verify(graph)
    return caught.value


def test_defined_twice() -> None:
    y = Value(TYPE)
    refused(Graph((X,), (neg(X, y), neg(X, y)), (y,)), "defined twice")
    refused(Graph((X, X), (), (X,)), "defined twice")
    refused(Graph((X,), (neg(X, X),), (X,)), "defined twice")


def test_not_defined() -> None:
    y, z = Value(TYPE), Value(TYPE)
    refused(Graph((X,), (neg(z, y),), (y,)), "operand 0 of neg is not defined")
    refused(Graph((X,), (), (y,)), "output 0 is not defined")


def test_value_of_the_outer_graph() -> None:
    y = Value(TYPE)
    region = Graph((), (), (X,))
    refused(Graph((X,), (Node(ops.call, (), {}, (y,), (region,)),), (y,)), "output 0 is not defined")


@pytest.mark.parametrize(
    "attr", [np.int64(1), np.float32(1), [1], {}, object(), 2**64, (1, [2]), np.dtype(np.clongdouble), b"x"]
)
def test_attributes_of_no_kind(attr: object) -> None:
    refused(Graph((X,), (neg(X, Value(TYPE), it=attr),), (X,)), "which no attribute can be")


@pytest.mark.parametrize("name", ["_i0", "1x", "a b", "if", "é", ""])
def test_names_of_sizes(name: str) -> None:
    x = Value(TensorType(float32, (Dim.name(name),)))
    refused(Graph((x,), (), (x,)), "cannot be the name of a size")


def test_types() -> None:
    for type, message in [
        (TensorType(np.dtype(np.clongdouble), (2,)), "is not a type"),
        (TensorType(float32, (True,)), "is not a size"),
        (TensorType(float32, (np.int64(3),)), "is not a size"),
        (TensorType(float32, (1,) * 65), "rank 65"),
        (TensorType(float32, (2**31, 2**31)), "larger than any memory"),
        (StackType(TensorType(float32, (-1,))), "is not a size"),
    ]:
        refused(Graph((Value(type),), (), ()), message)


def test_constraints() -> None:
    x = Value(TensorType(float32, (N,)))
    refused(
        Graph((x,), (), (x,), (SizeConstraint(Dim.name("k"), ">=", 1),)), "the size k is not in the type of any input"
    )
    region = Graph((x,), (), (x,), (SizeConstraint(N, ">=", 1),))
    refused(Graph((x,), (Node(ops.call, (x,), {}, (Value(x.type),), (region,)),), (x,)), "belong to the whole graph")


def test_composites_need_their_region() -> None:
    graph = build(lambda x: ops.relu(x), [TYPE])
    verify(graph)
    (node,) = graph.nodes

    def with_regions(*regions: Graph) -> Graph:
        return Graph(graph.inputs, (Node(node.op, node.inputs, {}, node.outputs, regions),), graph.outputs)

    refused(with_regions(), "0 regions")
    other = build(lambda x: ops.relu(x), [TensorType(float32, (3,))])
    refused(with_regions(other), "input 0 of the region of relu is f32")
    refused(with_regions(build(lambda x: ops.reduce_sum(x, axes=()), [TYPE]), graph), "2 regions")
    refused(with_regions(build(lambda x: ops.reduce_sum(x, axes=(0,)), [TYPE])), "output 0 of the region of relu")


def test_message_shows_the_lines_around_and_the_users_line() -> None:
    values = [X, *(Value(TYPE) for _ in range(30))]
    nodes = [neg(values[i], values[i + 1]) for i in range(30)]
    nodes[20] = Node(ops.neg, (values[20],), {}, (values[21],), location=Location("model.py", 7))
    values[21] = Value(TYPE)
    nodes[20] = Node(ops.exp, (values[20],), {"a": 1}, nodes[20].outputs, location=Location("model.py", 7))
    error = refused(Graph((X,), tuple(nodes), (values[1],)), "exp refuses")
    assert error.location == Location("model.py", 7)
    lines = error.message.splitlines()
    assert len(lines) == 12
    assert lines[6].startswith("  >   %21: f32[2] = exp(%20) {a=1}")


def test_sizes_that_only_a_constraint_makes_equal() -> None:
    m = Dim.name("m")
    graph = build(lambda a, b: ops.mul(a, b), [TensorType(float32, (N,)), TensorType(float32, (m,))])
    assert graph.constraints
    verify(graph)
    refused(Graph(graph.inputs, graph.nodes, graph.outputs), "mul refuses")
