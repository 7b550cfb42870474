"""rematerialise: computes cheap values again, right before a late use, where that lowers the peak of live memory.

In a training step the peak stands where the forward part ends and everything that the backward part reads is alive. The
values alive there are replaced by the cheapest set from which the rest follows by elementwise and movement ops: the
minimum cut of ``partition.py``. It runs after the last pass that merges equal computations, and before fusion. What
cheap nodes behind the peak, copies or not, read of values before it, they read behind an ``optimization_barrier`` that
waits for the peak: without it fusion would put them into the early kernel that computes the operand, and their values
would be alive from there on.

An optimiser's step stands behind the whole backward part, but its arithmetic on a gradient is fused with the gradient,
and ``step_order.py`` runs that as soon as it can. So liveness is judged in an order in which cheap nodes that outputs
alone depend on stand right behind what they read, and outputs, which lie in memory of the caller's, do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from jitgraph import ops
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.target import Target
from jitgraph.passes.dce import dce
from jitgraph.passes.partition import cheapest, cost, is_cheap
from jitgraph.passes.rewriter import is_tensor

LEAST_GAIN: Final = 1 << 20  # bytes: below a megabyte, caches hold it all and the work is not worth doing again
ROUNDS: Final = 4
OF_CHECKPOINTED: Final = 0.2  # of the peak: where checkpoints cut it, the rest is mostly values that fusion removes
MOST_SEGMENTS: Final = 60


def rematerialise(graph: Graph, target: Target, *, least: int = LEAST_GAIN) -> Graph:
    """``graph`` with some values computed twice, where the peak of ``live_bytes`` sinks by ``least`` bytes or more, and
    in a checkpointed graph by ``OF_CHECKPOINTED`` of it.

    Regions stay as they are: those of loops were cut when they were differentiated.
    """
    alive = live_bytes(outputs_early(graph))
    peak = max(alive, default=0)
    best, segments = graph, _segments(graph)
    gain = max(least, OF_CHECKPOINTED * peak) if segments else least
    for _ in range(ROUNDS + segments):
        if peak < least:
            break
        again = _cut_at_peak(graph, target)
        sunk = live_bytes(outputs_early(again))
        high = max(alive) - least
        if _count_above(high, sunk) >= _count_above(high, alive):
            break
        graph, alive = again, sunk
        if max(alive, default=0) <= peak - gain:
            best, peak = graph, max(alive, default=0)
    return best


def _segments(graph: Graph) -> int:
    """How many checkpointed parts the graph computes anew: each may have a peak of its own."""
    anchors = {node.inputs[1] for node in graph.nodes if node.op is ops.optimization_barrier}
    return min(MOST_SEGMENTS, len(anchors))


def _count_above(bound: int, alive: Sequence[int]) -> int:
    return sum(one > bound for one in alive)


def live_bytes(graph: Graph) -> list[int]:
    """For each node, the bytes of computed values alive while it runs: its outputs too, the graph's inputs and
    outputs not.

    A view shares the memory of its operand; named sizes count as ``dims.ASSUMED_SIZE``.
    """
    owners = _owners(graph)
    last = {owners[value]: i for i, node in enumerate(graph.nodes) for value in node.inputs}
    callers = {owners[value] for value in graph.outputs}
    alive = 0
    live_sizes: list[int] = []
    dying: dict[int, list[Value]] = {}
    for i, node in enumerate(graph.nodes):
        for value in node.outputs:
            if owners[value] is value and is_tensor(value) and value not in callers:
                alive += cost(value)
                dying.setdefault(max(i, last.get(value, i)), []).append(value)
        live_sizes.append(alive)
        alive -= sum(cost(value) for value in dying.pop(i, ()))
    return live_sizes


def outputs_early(graph: Graph) -> Graph:
    """``graph`` with the cheap nodes that outputs alone depend on right behind the last of what they read."""
    tail = _tail(graph)
    if not tail:
        return graph
    step: dict[Value, int] = {}  # the last node before the tail that a value waits for
    keys: dict[Node, int] = {}
    for i, node in enumerate(graph.nodes):
        behind = max((step.get(value, -1) for value in node.inputs), default=-1)
        keys[node] = behind if node in tail else i
        step.update(dict.fromkeys(node.outputs, keys[node]))
    return replace(graph, nodes=tuple(sorted(graph.nodes, key=lambda node: (keys[node], node in tail))))


def _tail(graph: Graph) -> set[Node]:
    """The cheap nodes whose values nothing reads but outputs and others of them."""
    other: set[Value] = set()  # read by what is none of them
    tail: set[Node] = set()
    for node in reversed(graph.nodes):
        if other.isdisjoint(node.outputs) and is_cheap(node):
            tail.add(node)
        else:
            other.update(node.inputs)
    return tail


def _in_order(numbered: Sequence[tuple[int | None, Node]]) -> list[Node]:
    """The nodes in the order of their numbers, each without one before the first that reads it."""
    first: dict[Value, int] = {}
    keys: list[int] = []
    for number, node in reversed(numbered):
        key = number if number is not None else min(first[value] for value in node.outputs if value in first)
        keys.append(key)
        for value in node.inputs:
            first[value] = min(key, first.get(value, key))
    keys.reverse()
    return [numbered[i][1] for i in sorted(range(len(numbered)), key=keys.__getitem__)]


def _owners(graph: Graph) -> Mapping[Value, Value]:
    """For each value, the one whose memory it lies in."""
    owners = {value: value for value in graph.inputs}
    for node in graph.nodes:
        for value in node.outputs:
            owners[value] = owners[node.inputs[0]] if "view" in node.op.traits else value
    return owners


def _cut_at_peak(graph: Graph, target: Target) -> Graph:
    """The graph with what crosses its peak reduced to the cheapest values that suffice."""
    old, graph = graph, outputs_early(graph)
    alive = live_bytes(graph)
    if not alive:
        return graph
    peak = max(range(len(alive)), key=alive.__getitem__)
    early, late = graph.nodes[: peak + 1], graph.nodes[peak + 1 :]
    producers = {value: node for node in early for value in node.outputs}
    tail = _tail(graph)
    available = {*graph.inputs, *graph.outputs, *(value for value in producers if not is_tensor(value))}
    late_tail = {value for node in late if node in tail for value in node.inputs}  # a copy would wait at the first line
    available.update(value for value in late_tail if value not in producers or producers[value].op.kind != "creation")
    crossing = {value for node in late for value in node.inputs if value in producers and value not in available}
    retained = {
        *available,
        *cheapest(producers, producers, crossing, available, lambda value: not is_cheap(producers[value])),
    }
    again = _Again(producers, retained, _anchor([node for node in early if node not in tail]))
    number = {node: i for i, node in enumerate(old.nodes)}
    numbered: list[tuple[int | None, Node]] = [(number[node], node) for node in early]
    for node in late:
        if node in tail:
            numbered.append((number[node], node))
            continue
        before: list[Node] = []
        inputs: list[Value] = []
        for value in node.inputs:
            if value in producers:
                before += again.computed(value)
            # fusion would move a cheap reader of an early value to the kernel that computes the value
            is_early = value in producers and is_cheap(node)
            inputs.append(again.operand(value, node, before) if is_early else again.copies.get(value, value))
        numbered.extend((None, copy) for copy in before)
        numbered.append((number[node], replace(node, inputs=tuple(inputs))))
    return dce(
        replace(graph, nodes=tuple(_in_order(numbered))), target
    )  # what only late nodes read, which read a copy now


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
    """What is computed again behind the peak, from the values ``retained``; ``copies`` says what took whose place."""

    def __init__(self, producers: Mapping[Value, Node], retained: set[Value], anchor: Value | None) -> None:
        self.producers = producers
        self.kept = {self._source(value) for value in retained}
        self.anchor = anchor
        self.copies: dict[Value, Value] = {}
        self._late: dict[Value, Value] = {}  # what is kept, behind its barrier

    def _source(self, value: Value) -> Value:
        """What ``value`` is a view of, which is kept with it: the view itself costs nothing to take again."""
        while (node := self.producers.get(value)) is not None and _is_view(node):
            value = node.inputs[0]
        return value

    def computed(self, target: Value) -> list[Node]:
        """Nodes that compute ``target`` again, where it is not kept and was not computed again before."""
        nodes: list[Node] = []
        pending = [target]
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
            inputs = tuple([self.operand(v, node, nodes) for v in node.inputs])
            self.copies.update(zip(node.outputs, outputs, strict=True))
            nodes.append(replace(node, inputs=inputs, outputs=outputs))
            pending.pop()
        return nodes

    def operand(self, value: Value, reader: Node, nodes: list[Node]) -> Value:
        """What ``reader``, behind the peak, reads for ``value``: its copy, or the value itself behind a barrier.

        A barrier that is new is added to ``nodes``.
        """
        if value in self.copies:
            return self.copies[value]
        if self.anchor is None or value is self.anchor or not is_tensor(value):
            return value
        if value not in self._late:
            late = self._late[value] = Value(value.type, value.hint)
            nodes.append(Node(ops.optimization_barrier, (value, self.anchor), {}, (late,), (), reader.location))
        return self._late[value]
