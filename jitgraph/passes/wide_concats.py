"""wide_concats: joins of many tensors go through joins of few, so that no kernel reads hundreds of operands.

A kernel asks of each element which operand it comes from. Both what it runs and what LLVM takes to compile it grow
with the operands for each element, which a list of a thousand parts made quadratic; in a tree of joins each element is
copied once a level, equal joins share a kernel, and all is linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jitgraph import ops
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.target import Target
from jitgraph.passes.rewriter import Rewriter, rewrite_regions

WIDEST: Final = 32


def wide_concats(graph: Graph, target: Target) -> Graph:
    """``graph`` with each ``concat``, in regions too, of at most ``WIDEST`` operands."""
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        regions = rewrite_regions(node, lambda region: wide_concats(region, target))
        if len(node.inputs) > WIDEST and node.op is ops.concat:
            joined = _joined([rewriter.value(value) for value in node.inputs], node, rewriter)
            rewriter.replace(node.output, joined)
        else:
            rewriter.copy(node, regions)
    return rewriter.finish()


def _joined(parts: Sequence[Value], node: Node, rewriter: Rewriter) -> Value:
    """The join of ``parts``; those of each level are buffers, which fusion does not look behind."""
    attrs: Any = node.attrs
    with rewriter.emitting(node):
        while len(parts) > WIDEST:
            joins = [ops.concat(*parts[i : i + WIDEST], **attrs) for i in range(0, len(parts), WIDEST)]
            parts = [ops.optimization_barrier(join, join) for join in joins]
        joined: Value = ops.concat(*parts, **attrs)
    return joined
