"""Text leaves out a composite's region exactly where the reader makes the same one."""

from __future__ import annotations

import pytest

from jitgraph import ops
from jitgraph.dtypes import float32
from jitgraph.ir.builder import build
from jitgraph.ir.constraints import Constraints
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.printer import is_decomposition
from jitgraph.ir.types import TensorType
from jitgraph.ops import OPS
from tests.op_loop import samples_of

COMPOSITES = sorted(name for name, op in OPS.items() if op.decompose and op.samples(float32))


def is_left_out(node: Node, region: Graph) -> bool:
    types = [value.type for value in node.inputs]
    return is_decomposition(region, node.op, types, node.attrs, Constraints(frozen=True))


@pytest.mark.parametrize("name", COMPOSITES)
def test_what_the_decomposition_gives_is_left_out(name: str) -> None:
    for node in samples_of(name, float32).graph.nodes:
        assert is_left_out(node, node.regions[0])


def changed_regions() -> dict[str, Graph]:
    """The region of ``elu(x)``, changed in one place each."""
    region = build(lambda x: ops.elu(x, alpha=0.0), [TensorType(float32, (3,))]).nodes[0].regions[0]
    nodes, last = region.nodes, region.nodes[-1]
    zero = next(node for node in nodes if node.attrs.get("value") == 0.0)
    other = Value(last.output.type)
    more = Node(last.op, last.inputs, last.attrs, (other,), last.regions)
    minus = Node(zero.op, zero.inputs, {**zero.attrs, "value": -0.0}, zero.outputs)
    return {
        "a node more": Graph(region.inputs, (*nodes, more), region.outputs),
        "a node less": Graph(region.inputs, nodes[:-1], region.inputs),
        "another output": Graph(region.inputs, nodes, region.inputs),
        "another zero": Graph(region.inputs, tuple(minus if n is zero else n for n in nodes), region.outputs),
        "another order": Graph(region.inputs, (nodes[1], nodes[0], *nodes[2:]), region.outputs),
    }


@pytest.mark.parametrize("what", changed_regions())
def test_what_differs_is_kept(what: str) -> None:
    node = build(lambda x: ops.elu(x, alpha=0.0), [TensorType(float32, (3,))]).nodes[0]
    region = changed_regions()[what]
    assert not is_left_out(node, region)
    assert region != node.regions[0]
