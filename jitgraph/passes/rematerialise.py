"""rematerialise: computes cheap values again, right before a late use, where that lowers the peak of live memory.

In a training step the peak stands where the forward part ends and everything that the backward part reads is alive. The
values alive there are replaced by the cheapest set from which the rest follows by elementwise and movement ops: the
minimum cut of ``partition.py``. It runs after the last pass that merges equal computations, and before fusion. What the
copies are computed from, they read behind an ``optimization_barrier`` that waits for the peak: without it fusion would
put a copy into the early kernel that makes its operand, and the copy would be alive from there on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.target import Target
from jitgraph.ops import optimization_barrier
from jitgraph.passes.dce import dce
from jitgraph.passes.partition import cheapest, cost, is_cheap
from jitgraph.passes.rewriter import is_tensor

LEAST_GAIN: Final = 1 << 20  # bytes: below a megabyte, caches hold it all and the work is not worth doing again
ROUNDS: Final = 4


def rematerialise(graph: Graph, target: Target, *, least: int = LEAST_GAIN) -> Graph:
    """``graph`` with some values computed twice, where the peak of ``live_bytes`` sinks by ``least`` bytes or more.

    Regions stay as they are: those of loops were cut when they were differentiated.
    """
    peak = max(live_bytes(graph), default=0)
    for _ in range(ROUNDS):
        if peak < least:
            return graph
        again = _cut_at_peak(graph, target)
        lower = max(live_bytes(again), default=0)
        if lower > peak - least:
            return graph
        graph, peak = again, lower
    return graph


def live_bytes(graph: Graph) -> list[int]:
    """For each node, the bytes of computed values alive while it runs: its outputs too, the graph's inputs not.

    A view shares the memory of its operand; named sizes count as ``partition.ASSUMED_SIZE``.
    """
    owners = _owners(graph)
    last = {owners[value]: i for i, node in enumerate(graph.nodes) for value in node.inputs}
    last |= {owners[value]: len(graph.nodes) for value in graph.outputs}
    alive = 0
    found: list[int] = []
    dying: dict[int, list[Value]] = {}
    for i, node in enumerate(graph.nodes):
        for value in node.outputs:
            if owners[value] is value and is_tensor(value):
                alive += cost(value)
                dying.setdefault(max(i, last.get(value, i)), []).append(value)
        found.append(alive)
        alive -= sum(cost(value) for value in dying.pop(i, ()))
    return found


def _owners(graph: Graph) -> Mapping[Value, Value]:
    """For each value, the one whose memory it lies in."""
    owners = {value: value for value in graph.inputs}
    for node in graph.nodes:
        for value in node.outputs:
            owners[value] = owners[node.inputs[0]] if "view" in node.op.traits else value
    return owners


def _cut_at_peak(graph: Graph, target: Target) -> Graph:
    """The graph with what crosses its peak reduced to the cheapest values that suffice."""
    alive = live_bytes(graph)
    if not alive:
        return graph
    peak = max(range(len(alive)), key=alive.__getitem__)
    early, late = graph.nodes[: peak + 1], graph.nodes[peak + 1 :]
    producers = {value: node for node in early for value in node.outputs}
    given = {*graph.inputs, *graph.outputs, *(value for value in producers if not is_tensor(value))}
    crossing = {value for node in late for value in node.inputs if value in producers and value not in given}
    kept = {
        *given,
        *cheapest(producers, producers, crossing, given, lambda value: not is_cheap(producers[value])),
    }
    again = _Again(producers, kept, _anchor(early))
    copies = again.copies
    nodes = list(early)
    for node in late:
        for value in node.inputs:
            if value in producers:
                nodes.extend(again.computed(value))
        nodes.append(replace(node, inputs=tuple(copies.get(value, value) for value in node.inputs)))
    return dce(replace(graph, nodes=tuple(nodes)), target)  # what only late nodes read, which read a copy now


def _is_view(node: Node) -> bool:
    return node.op.kind == "movement" and "view" in node.op.traits


def _anchor(early: Sequence[Node]) -> Value | None:
    """A tensor that is there when the peak has passed: the last one of ``early`` that a kernel computes."""
    for node in reversed(early):
        if node.op.kind != "creation" and "view" not in node.op.traits:
            for value in node.outputs:
                if is_tensor(value):
                    return value
    return None


class _Again:
    """What is computed again behind the peak, from the values ``kept``; ``copies`` says what took a value's place."""

    def __init__(self, producers: Mapping[Value, Node], kept: set[Value], anchor: Value | None) -> None:
        self.producers = producers
        self.kept = {self._source(value) for value in kept}
        self.anchor = anchor
        self.copies: dict[Value, Value] = {}
        self._late: dict[Value, Value] = {}  # what is kept, behind its barrier

    def _source(self, value: Value) -> Value:
        """What ``value`` is a view of, which is kept with it: the view itself costs nothing to take again."""
        while (node := self.producers.get(value)) is not None and _is_view(node):
            value = node.inputs[0]
        return value

    def computed(self, wanted: Value) -> list[Node]:
        """Nodes that compute ``wanted`` again, where it is not kept and was not computed again before."""
        nodes: list[Node] = []
        pending = [wanted]
        while pending:
            value = pending[-1]
            if value in self.kept or value in self.copies:
                pending.pop()
                continue
            node = self.producers[value]
            missing = [v for v in node.inputs if v not in self.kept and v not in self.copies]
            if missing:
                pending.extend(missing)
                continue
            outputs = tuple(Value(output.type, output.hint) for output in node.outputs)
            inputs = tuple([self._operand(v, node, nodes) for v in node.inputs])
            self.copies.update(zip(node.outputs, outputs, strict=True))
            nodes.append(replace(node, inputs=inputs, outputs=outputs))
            pending.pop()
        return nodes

    def _operand(self, value: Value, reader: Node, nodes: list[Node]) -> Value:
        """What a copy of ``reader`` reads for ``value``: a copy, or what is kept, after the peak."""
        if value in self.copies:
            return self.copies[value]
        if self.anchor is None or value is self.anchor or not is_tensor(value):
            return value
        if value not in self._late:
            late = self._late[value] = Value(value.type, value.hint)
            nodes.append(Node(optimization_barrier, (value, self.anchor), {}, (late,), (), reader.location))
        return self._late[value]
