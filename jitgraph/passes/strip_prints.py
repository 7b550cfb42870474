"""strip_prints: graphs without prints, for what is run again: each print of the program is printed once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from jitgraph.ir.control import CarriedLoop, structure_of
from jitgraph.ir.graph import Attr, Graph, Node, Value
from jitgraph.ir.types import TokenType


def strip_prints(graph: Graph) -> Graph:
    """``graph`` without prints, in regions too, and without the tokens that order them."""
    inputs, nodes = _without_tokens(graph.inputs), without_prints(graph.nodes)
    if inputs == graph.inputs and list(map(id, nodes)) == list(map(id, graph.nodes)):
        return graph
    return replace(graph, inputs=inputs, nodes=nodes, outputs=_without_tokens(graph.outputs))


def without_prints(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The nodes that are left of ``nodes`` without prints; the values that they give stay the same."""
    return tuple(_silent(node) for node in nodes if not _is_token_alone(node))


def _is_token_alone(node: Node) -> bool:
    """Whether a node gives tokens and nothing else, as ``token`` and ``print`` do."""
    return bool(node.outputs) and not node.regions and not _without_tokens(node.outputs)


def _silent(node: Node) -> Node:
    if node.op.kind == "composite" and "recomputed" not in node.op.traits:  # which says what a formula means
        return node
    inputs, outputs = _without_tokens(node.inputs), _without_tokens(node.outputs)
    regions = tuple(strip_prints(region) for region in node.regions)
    if inputs == node.inputs and all(new is old for new, old in zip(regions, node.regions, strict=True)):
        return node
    attrs: dict[str, Attr] = dict(node.attrs)
    structure = structure_of(node)
    if isinstance(structure, CarriedLoop):
        attrs |= structure.counts([not isinstance(value.type, TokenType) for value in node.inputs])
    return replace(node, inputs=inputs, attrs=attrs, outputs=outputs, regions=regions)


def _without_tokens(values: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(value for value in values if not isinstance(value.type, TokenType))
