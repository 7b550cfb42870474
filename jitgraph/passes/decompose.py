"""Composites and calls replaced by what they consist of."""

from __future__ import annotations

from jitgraph.ir.control import RegionCall, structure_of
from jitgraph.ir.graph import Graph, Node
from jitgraph.ir.target import Target
from jitgraph.passes.rewriter import Rewriter, rewrite_regions


def decompose(graph: Graph, target: Target) -> Graph:
    """Inline every composite that ``target`` does not keep, and every call; in regions, and in what is inlined, too.

    One that is kept and has a lowering of its own stands without its definition from here on.
    """
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if not _is_inlined(node, target):
            if node.op.kind == "composite" and node.op.lowering is not None:
                node = Node(node.op, node.inputs, node.attrs, node.outputs, (), node.location)
            rewriter.copy(node, rewrite_regions(node, lambda region: decompose(region, target)))
            continue
        region = _located(decompose(node.regions[0], target), node)
        results = rewriter.inline(region, [rewriter.value(value) for value in node.inputs])
        for old, new in zip(node.outputs, results, strict=True):
            rewriter.replace(old, new)
    return rewriter.finish()


def _is_inlined(node: Node, target: Target) -> bool:
    if node.op.kind == "composite":
        if node.op.name not in target.kept_composites:
            return True
        is_whole = node.op.is_whole
        return is_whole is not None and not is_whole(*(value.type for value in node.inputs), **node.attrs)
    return isinstance(structure_of(node), RegionCall) and "one_kernel" not in node.op.traits


def _located(region: Graph, node: Node) -> Graph:
    """``region`` with the source line of ``node`` on nodes that have none: a decomposition has no line of its own."""
    nodes = tuple(
        Node(inner.op, inner.inputs, inner.attrs, inner.outputs, inner.regions, inner.location or node.location)
        for inner in region.nodes
    )
    return Graph(region.inputs, nodes, region.outputs, region.constraints, region.name)
