"""Writes of a part of a tensor that a loop carries, or of an input given away: an order in which they can be stores.

A write of an element gives a new tensor, and may go into the memory of its operand where nothing after it reads that.
So, in the body of a loop, and of inputs that a call may overwrite, what reads the operand stands before the write where
the program has it there, and is part of no kernel that stands behind; an index map over the operand that is read behind
the write is computed before it.

This decides what can be fast. Whether memory is shared is decided, and proved, where copies are left out
(``codegen/kernels/coalescing.py``): in any order results are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final

from jitgraph.ir.control import CarriedLoop, Conditional, structure_of
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.types import TensorType
from jitgraph.ops.conversion import cast
from jitgraph.passes.effect_order import order_of_effects
from jitgraph.passes.fusion_forms import is_free

_WRITES: Final = ("scatter", "dynamic_update_slice")


class PartialWrites:
    """The partial writes of a graph into the memory of what ``carried`` holds, or of what became of that.

    ``inside`` says that the graph is, or belongs to, the body of a loop, where loops and branches write to it too.
    """

    def __init__(self, graph: Graph, carried: Collection[Value], *, inside: bool) -> None:
        self.graph = graph
        self.carried = carried
        self.inside = inside
        self._position = {node: number for number, node in enumerate(graph.nodes)}
        self._read: dict[Value, frozenset[Value]] = {}
        self.writers: dict[Node, tuple[Value, ...]] = dict(self._found()) if carried else {}
        self.alone = {node for node in self.writers if not node.regions}
        """Writes of a carry, or of what became of one: each is a step of its own."""

    def _found(self) -> Iterator[tuple[Node, tuple[Value, ...]]]:
        """The nodes that may write into the memory of operands, and these operands, without what is a view of them."""
        carried = set(self.carried)
        for node in self.graph.nodes:
            operands: list[Value] = []
            if node.op.lowering in _WRITES:
                operands = [value for value in node.inputs[:1] if self._viewed(value) in carried]
            elif node.regions and self.inside:
                match structure_of(node):
                    case CarriedLoop() as loop:
                        operands = loop.parts(node.inputs)[0]
                    case Conditional():
                        operands = list(node.inputs[1:])
            operands = [value for value in operands if isinstance(value.type, TensorType) and value.shape]
            if operands:
                carried.update(node.outputs)
                yield node, tuple(map(self._viewed, operands))

    def _viewed(self, value: Value) -> Value:
        return _source(self.graph, value)

    def _reads(self, value: Value) -> frozenset[Value]:
        """The values in memory that are read for ``value``: those behind index maps, or itself."""
        known = self._read.get(value)
        if known is None:
            producer = self.graph.producers.get(value)
            if producer is None or not is_free(producer):
                known = frozenset((value,))
            else:
                known = frozenset().union(*map(self._reads, producer.inputs))
            self._read[value] = known
        return known

    def _readers(self) -> dict[Value, list[Node]]:
        """The nodes that read a value, through index maps or not, in order."""
        readers: dict[Value, list[Node]] = {}
        for node in self.graph.nodes:
            if not is_free(node):
                for value in frozenset().union(*map(self._reads, node.inputs)):
                    readers.setdefault(value, []).append(node)
        return readers

    def with_readers_first(self) -> Graph:
        """The graph with nodes that read what a write before them replaces, and do not need the write, before it.

        Gradients have such: what a write reads of the cotangent is recorded behind what it sets to zero.
        """
        readers = self._readers()
        late = [
            (reader, node)
            for node, operands in self.writers.items()
            for value in dict.fromkeys(operands)
            for reader in readers.get(value, ())
            if self._position[reader] > self._position[node]
        ]
        if not late:
            return self.graph
        before: dict[Node, set[Node]] = {node: set() for node in self.graph.nodes}
        for node in self.graph.nodes:
            before[node].update(self.graph.producers[v] for v in node.inputs if v in self.graph.producers)
        for node, firsts in (*order_of_effects(self.graph.nodes).items(), *self.readers_first().items()):
            before[node].update(firsts)
        moved = False
        for reader, node in late:
            if not _needs(reader, node, before):
                before[node].add(reader)
                moved = True
        if not moved:
            return self.graph
        nodes: dict[Node, None] = {}
        for node in self.graph.nodes:
            _append(node, before, nodes, self._position)
        return replace(self.graph, nodes=tuple(nodes))

    def readers_first(self) -> dict[Node, tuple[Node, ...]]:
        """For each write the nodes before it that read what it replaces."""
        if not self.writers:
            return {}
        readers = self._readers()
        return {
            node: tuple(
                reader
                for value in dict.fromkeys(operands)
                for reader in readers.get(value, ())
                if self._position[reader] < self._position[node]
            )
            for node, operands in self.writers.items()
        }

    def read_in_time(self) -> Graph:
        """The graph with what is read through index maps behind a write of what they are over computed where they are.

        The node for that is a cast to the dtype that the value has.
        """
        last = {value: self._position[node] for node, operands in self.writers.items() for value in operands}
        late = dict.fromkeys(
            value
            for node in self.graph.nodes
            if not is_free(node)
            for value in node.inputs
            if self._is_late(value, self._position[node], last)
        )
        late.update(
            dict.fromkeys(value for value in self.graph.outputs if self._is_late(value, len(self.graph.nodes), last))
        )
        if not late:
            return self.graph
        nodes: list[Node] = []
        new = {value: Value(value.type, value.hint) for value in late}
        for node in self.graph.nodes:
            position = self._position[node]
            inputs = tuple(
                new[value] if value in new and self._is_late(value, position, last) else value for value in node.inputs
            )
            nodes.append(node if inputs == node.inputs else replace(node, inputs=inputs))
            nodes += [
                Node(cast, (value,), {"dtype": value.dtype}, (new[value],), (), node.location)
                for value in node.outputs
                if value in new
            ]
        outputs = tuple(
            new[value] if value in new and self._is_late(value, len(self.graph.nodes), last) else value
            for value in self.graph.outputs
        )
        return replace(self.graph, nodes=tuple(nodes), outputs=outputs)

    def _is_late(self, value: Value, position: int, last: dict[Value, int]) -> bool:
        """Whether a node at ``position`` reads ``value`` through an index map that was there before a write."""
        producer = self.graph.producers.get(value)
        if producer is None or not is_free(producer) or "alias" in producer.op.traits:
            return False
        defined_at = self._position[producer]
        return any(defined_at < last.get(source, -1) < position for source in self._reads(value))


def partial_writes(graph: Graph, carried: Collection[Value], *, inside: bool) -> PartialWrites:
    """The partial writes of a graph, with its nodes in an order in which they can be stores into memory of operands."""
    writes = PartialWrites(graph, carried, inside=inside)
    for change in (PartialWrites.with_readers_first, PartialWrites.read_in_time):
        if writes.writers and (changed := change(writes)) is not writes.graph:
            writes = PartialWrites(changed, carried, inside=inside)
    return writes


def writes_into(graph: Graph, inputs: Collection[Value]) -> bool:
    """Whether a part of one of ``inputs`` is written, by a node of the graph or of a kernel in it."""
    for node in graph.nodes:
        if node.op.lowering in _WRITES and _source(graph, node.inputs[0]) in inputs:
            return True
        if "one_kernel" in node.op.traits:
            (region,) = node.regions
            pairs = zip(region.inputs, node.inputs, strict=True)
            if writes_into(region, {inner for inner, outer in pairs if _source(graph, outer) in inputs}):
                return True
    return False


def _source(graph: Graph, value: Value) -> Value:
    """The value whose memory ``value`` is a view of."""
    producer = graph.producers.get(value)
    while producer is not None and "alias" in producer.op.traits:
        value = producer.inputs[0]
        producer = graph.producers.get(value)
    return value


def _needs(node: Node, other: Node, before: Mapping[Node, set[Node]]) -> bool:
    """Whether ``other`` stands before ``node`` in every order."""
    seen: set[Node] = set()
    pending = [node]
    while pending:
        one = pending.pop()
        if one is other:
            return True
        if one not in seen:
            seen.add(one)
            pending += before[one]
    return False


def _append(
    node: Node, before: Mapping[Node, set[Node]], nodes: dict[Node, None], position: Mapping[Node, int]
) -> None:
    """Append a node behind all that stand before it."""
    pending = [node]
    while pending:
        missing = [one for one in before[pending[-1]] if one not in nodes]
        if missing and pending[-1] not in nodes:
            pending += sorted(missing, key=position.__getitem__, reverse=True)
        else:
            nodes.setdefault(pending.pop())
