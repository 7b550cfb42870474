"""Composites and calls replaced by what they consist of, and where there is no Python, what Python would evaluate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
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
        if target.alone and (expansion := generated(node)) is not None:
            _inline(rewriter, node, _located(decompose(expansion, target), node))
            continue
        if not _is_inlined(node, target):
            if node.op.kind == "composite" and node.op.lowering is not None:
                node = Node(node.op, node.inputs, node.attrs, node.outputs, (), node.location)
            rewriter.copy(node, rewrite_regions(node, lambda region: decompose(region, target)))
            continue
        _inline(rewriter, node, _located(decompose(node.regions[0], target), node))
    return rewriter.finish()


def _inline(rewriter: Rewriter, node: Node, region: Graph) -> None:
    results = rewriter.inline(region, [rewriter.value(value) for value in node.inputs])
    for old, new in zip(node.outputs, results, strict=True):
        rewriter.replace(old, new)


def generated(node: Node, composed: Callable[..., Any] | None = None) -> Graph | None:
    """What stands for an op that Python evaluates where there is no Python; None where nothing does.

    Small matrices have formulas. For other operands ``composed`` goes before the op's own composition.
    """
    op = node.op
    is_small = op.is_generated is not None and op.is_generated(*(value.type for value in node.inputs))
    definition = op.generated if is_small else composed or op.composed
    if definition is None:
        return None
    builder = GraphBuilder()
    inputs = [builder.input(value.type) for value in node.inputs]
    with context.using(emitter=builder, constraints=builder.constraints):
        outputs = definition(*inputs, **node.attrs)
    return builder.graph(outputs if isinstance(outputs, tuple) else (outputs,), op.name)


def _is_inlined(node: Node, target: Target) -> bool:
    if node.op.kind == "composite":
        if node.op.name not in target.opaque_composites:
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
