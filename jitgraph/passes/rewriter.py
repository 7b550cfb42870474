"""The Rewriter: how a pass makes a new graph from an old one, node by node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.constraints import Constraints
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.types import TensorType
from jitgraph.ops.creation import full


class Rewriter:
    """Copies a graph: the pass goes over ``graph.nodes`` in order and copies, replaces or leaves out each.

    Nodes and values that do not change are shared with the old graph, so names, locations and types stay as they are.
    Ops called under ``emitting(node)`` become nodes of the new graph, at the source line of ``node``. They may assume
    no more about sizes than the graph does.
    """

    def __init__(self, graph: Graph, constraints: Constraints | None = None) -> None:
        """``constraints`` are those of the outermost graph where ``graph`` is a region."""
        self.graph = graph
        self.constraints = Constraints(graph.constraints, frozen=True) if constraints is None else constraints
        self.builder = GraphBuilder()
        self.builder.constraints = self.constraints
        self._replaced: dict[Value, Value] = {}

    def value(self, old: Value) -> Value:
        """The value that stands for ``old`` in the new graph."""
        return self._replaced.get(old, old)

    def replace(self, old: Value, new: Value) -> None:
        """Let ``new`` stand for ``old`` in all that is copied from here on."""
        if new is not old:
            self._replaced[old] = new

    def copy(self, node: Node, regions: Sequence[Graph] | None = None) -> Node:
        """Append ``node`` with its new operands, and other regions where given; returns the node of the new graph."""
        inputs, new_regions = node.inputs, node.regions
        if not self._replaced.keys().isdisjoint(inputs):
            inputs = tuple([self.value(value) for value in inputs])
        if regions is not None and any(new is not old for new, old in zip(regions, new_regions, strict=True)):
            new_regions = tuple(regions)
        if inputs is not node.inputs or new_regions is not node.regions:
            node = Node(node.op, inputs, node.attrs, node.outputs, new_regions, node.location)
        self.builder.nodes.append(node)
        return node

    def append(self, node: Node) -> None:
        """Append a node that the pass made; its operands are values of the new graph."""
        self.builder.nodes.append(node)

    def inline(self, region: Graph, arguments: Sequence[Value]) -> tuple[Value, ...]:
        """Append the nodes of ``region`` for these arguments (of the new graph); returns what its outputs became."""
        return self.builder.inline(region, arguments)

    @contextmanager
    def emitting(self, node: Node) -> Iterator[None]:
        """Ops called in this block are appended here, at the source line of ``node``."""
        self.builder.location = node.location
        with context.using(emitter=self.builder, constraints=self.constraints):
            yield
        self.builder.location = None

    def finish(self) -> Graph:
        """The new graph; the old one where nothing changed."""
        old = self.graph
        outputs = tuple(self.value(value) for value in old.outputs)
        nodes = tuple(self.builder.nodes)
        if outputs == old.outputs and list(map(id, nodes)) == list(map(id, old.nodes)):
            return old
        return Graph(old.inputs, nodes, outputs, old.constraints, old.name)


def rewrite_regions(node: Node, rewrite: Callable[[Graph], Graph]) -> tuple[Graph, ...]:
    """The regions of ``node``, each rewritten, but for those of composites, which say what the op means."""
    if not node.regions or node.op.kind == "composite":
        return node.regions
    return tuple(rewrite(region) for region in node.regions)


def has_effect(node: Node) -> bool:
    """Whether the node, or one in its regions, does more than give its outputs."""
    if not node.regions:
        return node.op.effect != "none"
    return node.op.effect != "none" or any(has_effect(inner) for region in node.regions for inner in region.nodes)


def prints(node: Node) -> bool:
    """Whether the node, or one in its regions, has an effect whose order can be seen."""
    if not node.regions:
        return node.op.effect == "ordered"
    return node.op.effect == "ordered" or any(prints(inner) for region in node.regions for inner in region.nodes)


def is_tensor(value: Value) -> bool:
    """False for tokens and stacks."""
    return isinstance(value.type, TensorType)


def uniform_value(node: Node | None) -> Any:
    """The one scalar that ``full`` fills a tensor with, a Python number; None for every other node.

    Other uniform constants become ``full`` in ``passes/fold.py``.
    """
    if node is None or node.op is not full:
        return None
    value = node.attrs["value"]
    return value if isinstance(value, bool | int | float) else None
