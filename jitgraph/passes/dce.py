"""Dead code: nodes nobody needs, and what regions take, carry and give in vain."""

from __future__ import annotations

from collections.abc import Sequence

from jitgraph.ir.graph import Attr, Graph, Node, Value
from jitgraph.ir.target import Target
from jitgraph.passes.rewriter import has_effect

_PLAIN = ("cond", "call", "fused")  # every operand is an input of each region, every output one of each region


def dce(graph: Graph, target: Target) -> Graph:
    """Drop nodes without effect that no output depends on, in regions too, with unused operands, outputs and carries.

    Checks and ordered effects stay, and all that they need. The graph keeps its inputs and outputs.
    """
    live = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if live.isdisjoint(node.outputs) and not has_effect(node):
            continue
        node = _trimmed(node, [value in live for value in node.outputs], target)
        live.update(node.inputs)
        kept.append(node)
    kept.reverse()
    if len(kept) == len(graph.nodes) and all(new is old for new, old in zip(kept, graph.nodes, strict=True)):
        return graph
    return Graph(graph.inputs, tuple(kept), graph.outputs, graph.constraints, graph.name)


def _trimmed(node: Node, wanted: list[bool], target: Target) -> Node:
    """``node`` with regions that compute no more than the wanted outputs."""
    if node.op.name in _PLAIN:
        regions = [dce(_with_outputs(region, wanted), target) for region in node.regions]
        first = len(node.inputs) - len(regions[0].inputs)  # the predicate of cond stands before the operands
        used = [any(region.inputs[i] in _read(region) for region in regions) for i in range(len(regions[0].inputs))]
        return _rebuilt(node, [True] * first + used, wanted, [_with_inputs(region, used) for region in regions], {})
    if node.op.name == "while":
        return _trimmed_while(node, wanted, target)
    if node.op.name == "scan":
        return _trimmed_scan(node, wanted, target)
    return node


def _trimmed_while(node: Node, wanted: list[bool], target: Target) -> Node:
    condition = dce(node.regions[0], target)
    carries, body, inputs = _fixpoint(node.regions[1], wanted, _read(condition), condition.inputs, target)
    read = _read(condition)
    used = [
        carries[i] if i < len(carries) else value in inputs or condition.inputs[i] in read
        for i, value in enumerate(node.regions[1].inputs)
    ]
    regions = [_with_inputs(condition, used), _with_inputs(body, used)]
    return _rebuilt(node, used, carries, regions, {"num_carries": sum(carries)})


def _trimmed_scan(node: Node, wanted: list[bool], target: Target) -> Node:
    num_carries, num_xs = node.attrs["num_carries"], node.attrs["num_xs"]
    assert isinstance(num_carries, int) and isinstance(num_xs, int)
    ys = wanted[num_carries:]
    carries, body, inputs = _fixpoint(node.regions[0], wanted[:num_carries], set(), (), target, ys)
    used = [carries[i] if i < num_carries else value in inputs for i, value in enumerate(node.regions[0].inputs)]
    counts: dict[str, Attr] = {"num_carries": sum(carries), "num_xs": sum(used[num_carries : num_carries + num_xs])}
    return _rebuilt(node, used, carries + ys, [_with_inputs(body, used)], counts)


def _fixpoint(
    body: Graph,
    wanted: Sequence[bool],
    read_by_condition: set[Value],
    condition_inputs: Sequence[Value],
    target: Target,
    others: Sequence[bool] = (),
) -> tuple[list[bool], Graph, set[Value]]:
    """Which carries are needed: as results, by the condition, or for a needed carry's next value.

    Also the body that computes those alone (all inputs kept), and which values it reads.
    """
    carries = list(wanted)
    for i, value in enumerate(condition_inputs[: len(carries)]):
        carries[i] = carries[i] or value in read_by_condition
    while True:
        trimmed = dce(_with_outputs(body, [*carries, *others]), target)
        inputs = _read(trimmed)
        grown = [carry or body.inputs[i] in inputs for i, carry in enumerate(carries)]
        if grown == carries:
            return carries, trimmed, inputs
        carries = grown


def _read(graph: Graph) -> set[Value]:
    return {value for node in graph.nodes for value in node.inputs} | set(graph.outputs)


def _chosen(values: Sequence[Value], wanted: Sequence[bool]) -> tuple[Value, ...]:
    return tuple(value for value, keep in zip(values, wanted, strict=True) if keep)


def _with_outputs(graph: Graph, wanted: Sequence[bool]) -> Graph:
    if all(wanted):
        return graph
    return Graph(graph.inputs, graph.nodes, _chosen(graph.outputs, wanted), graph.constraints, graph.name)


def _with_inputs(graph: Graph, wanted: Sequence[bool]) -> Graph:
    if all(wanted):
        return graph
    return Graph(_chosen(graph.inputs, wanted), graph.nodes, graph.outputs, graph.constraints, graph.name)


def _rebuilt(
    node: Node, used: Sequence[bool], wanted: Sequence[bool], regions: Sequence[Graph], attrs: dict[str, Attr]
) -> Node:
    if all(used) and all(wanted) and all(new is old for new, old in zip(regions, node.regions, strict=True)):
        return node
    inputs, outputs = _chosen(node.inputs, used), _chosen(node.outputs, wanted)
    return Node(node.op, inputs, {**node.attrs, **attrs}, outputs, tuple(regions), node.location)
