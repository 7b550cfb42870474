"""Dead code: nodes without uses, and operands, carries and results of regions that are not used."""

from __future__ import annotations

from collections.abc import Sequence

from jitgraph.ir.control import CarriedLoop, structure_of
from jitgraph.ir.graph import Attr, Graph, Node, Value
from jitgraph.ir.target import Target
from jitgraph.passes.rewriter import has_effect


def dce(graph: Graph, target: Target) -> Graph:
    """Drop nodes without effect that no output depends on, in regions too, with unused operands, outputs and carries.

    Checks and ordered effects stay, and all that they need. The graph keeps its inputs and outputs.
    """
    live = set(graph.outputs)
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if live.isdisjoint(node.outputs) and not has_effect(node):
            continue
        node = _trimmed(node, [value in live for value in node.outputs], target)
        live.update(node.inputs)
        nodes.append(node)
    nodes.reverse()
    if len(nodes) == len(graph.nodes) and all(new is old for new, old in zip(nodes, graph.nodes, strict=True)):
        return graph
    return Graph(graph.inputs, tuple(nodes), graph.outputs, graph.constraints, graph.name)


def _trimmed(node: Node, needed: list[bool], target: Target) -> Node:
    """``node`` with regions that compute no more than the wanted outputs."""
    structure = structure_of(node)
    if isinstance(structure, CarriedLoop):
        return _trimmed_loop(node, structure, needed, target)
    if structure is not None:  # every operand is an input of each region, every output one of each region
        regions = [dce(_with_outputs(region, needed), target) for region in node.regions]
        first = len(node.inputs) - len(regions[0].inputs)  # the predicate of cond stands before the operands
        used = [any(region.inputs[i] in _read(region) for region in regions) for i in range(len(regions[0].inputs))]
        return _rebuilt(node, [True] * first + used, needed, [_with_inputs(region, used) for region in regions], {})
    return node


def _trimmed_loop(node: Node, loop: CarriedLoop, needed: list[bool], target: Target) -> Node:
    needed_carries, ys = loop.results(needed)
    condition = None if loop.condition is None else dce(loop.condition, target)
    read = set() if condition is None else _read(condition)
    reads = [False] * len(loop.body.inputs) if condition is None else [value in read for value in condition.inputs]
    first = [a or b for a, b in zip(needed_carries, loop.parts(reads)[0], strict=True)]
    carries, body, inputs = _fixpoint(loop.body, first, target, ys)
    _, xs, invariants = loop.parts(body.inputs)
    used = [*carries, *(value in inputs for value in (*xs, *invariants))]
    used = [a or b for a, b in zip(used, reads, strict=True)]
    regions = [_with_inputs(region, used) for region in (condition, body) if region is not None]
    return _rebuilt(node, used, carries + ys, regions, loop.counts(used))


def _fixpoint(
    body: Graph, needed: Sequence[bool], target: Target, others: Sequence[bool]
) -> tuple[list[bool], Graph, set[Value]]:
    """Which carries are needed: those ``needed`` as results or by the condition, or for a needed one's next value.

    Also the body that computes those alone (all inputs kept), and which values it reads.
    """
    carries = list(needed)
    while True:
        trimmed = dce(_with_outputs(body, [*carries, *others]), target)
        inputs = _read(trimmed)
        grown = [carry or body.inputs[i] in inputs for i, carry in enumerate(carries)]
        if grown == carries:
            return carries, trimmed, inputs
        carries = grown


def _read(graph: Graph) -> set[Value]:
    return {value for node in graph.nodes for value in node.inputs} | set(graph.outputs)


def _chosen(values: Sequence[Value], mask: Sequence[bool]) -> tuple[Value, ...]:
    return tuple(value for value, keep in zip(values, mask, strict=True) if keep)


def _with_outputs(graph: Graph, needed: Sequence[bool]) -> Graph:
    if all(needed):
        return graph
    return Graph(graph.inputs, graph.nodes, _chosen(graph.outputs, needed), graph.constraints, graph.name)


def _with_inputs(graph: Graph, needed: Sequence[bool]) -> Graph:
    if all(needed):
        return graph
    return Graph(_chosen(graph.inputs, needed), graph.nodes, graph.outputs, graph.constraints, graph.name)


def _rebuilt(
    node: Node, used: Sequence[bool], needed: Sequence[bool], regions: Sequence[Graph], attrs: dict[str, Attr]
) -> Node:
    if all(used) and all(needed) and all(new is old for new, old in zip(regions, node.regions, strict=True)):
        return node
    inputs, outputs = _chosen(node.inputs, used), _chosen(node.outputs, needed)
    return Node(node.op, inputs, {**node.attrs, **attrs}, outputs, tuple(regions), node.location)
