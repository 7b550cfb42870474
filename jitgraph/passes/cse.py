"""Common subexpressions: one node for all that apply one op to the same operands."""

from __future__ import annotations

from jitgraph.ir.graph import Graph, Node
from jitgraph.ir.printer import format_attr
from jitgraph.ir.target import Target
from jitgraph.passes.rewriter import Rewriter, has_effect, is_tensor, rewrite_regions


def cse(graph: Graph, target: Target) -> Graph:
    """Merge nodes with equal op, operands, attributes and regions; equal checks too. Tokens and stacks stay."""
    rewriter = Rewriter(graph)
    seen: dict[tuple[object, ...], Node] = {}
    for node in graph.nodes:
        regions = rewrite_regions(node, lambda region: cse(region, target))
        copied = rewriter.copy(node, regions)
        if not _mergeable(copied):
            continue
        first = seen.setdefault(_key(copied), copied)
        if first is not copied:
            rewriter.builder.nodes.pop()
            for old, new in zip(copied.outputs, first.outputs, strict=True):
                rewriter.replace(old, new)
    return rewriter.finish()


def _mergeable(node: Node) -> bool:
    if not all(map(is_tensor, (*node.inputs, *node.outputs))):
        return False
    return node.op.effect == "check" or not has_effect(node)


def _key(node: Node) -> tuple[object, ...]:
    operands = [id(value) for value in node.inputs]
    if "commutative" in node.op.traits:
        operands.sort()
    # by text, as 0.0 == -0.0, 1 == True and nan != nan
    attrs = tuple((name, format_attr(node.attrs[name])) for name in sorted(node.attrs))
    return node.op, tuple(operands), attrs, node.regions
