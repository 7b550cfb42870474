"""Algebra: rewrites by the rules of ``passes/rules.py``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from jitgraph.ir.constraints import Constraints
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.target import Target
from jitgraph.passes.patterns import Rule
from jitgraph.passes.rewriter import Rewriter, rewrite_regions
from jitgraph.passes.rules import EXACT, FASTMATH

_MOST_REWRITES: Final = 64  # of one node: no chain of rules is nearly as long


def simplify(graph: Graph, target: Target) -> Graph:
    """Apply the exact rules, and the fast-math ones where ``target`` allows them; runs after differentiation."""
    return apply_rules(graph, EXACT + FASTMATH if target.fastmath else EXACT)


def apply_rules(
    graph: Graph, rules: Sequence[Rule], fired: Counter[str] | None = None, constraints: Constraints | None = None
) -> Graph:
    """``graph`` rewritten by ``rules``, the first that matches first, until none does; counts names in ``fired``.

    What a rule leaves unused stays for ``dce``.
    """
    fired = Counter() if fired is None else fired
    by_name: dict[str, list[Rule]] = {}
    for rule in rules:
        by_name.setdefault(rule.root, []).append(rule)
    rewriter = Rewriter(graph, constraints)
    nodes = rewriter.builder.nodes
    producers: dict[Value, Node] = {}
    for node in graph.nodes:
        regions = rewrite_regions(node, lambda region: apply_rules(region, rules, fired, rewriter.constraints))
        rewriter.copy(node, regions)
        last = nodes[-1]
        producers.update((output, last) for output in last.outputs)
        for _ in range(_MOST_REWRITES):
            value = _rewritten(rewriter, last, by_name.get(last.op.name, ()), producers, fired)
            if value is None:
                break
            rewriter.replace(node.outputs[0], value)
            if value not in producers:
                break
            last = producers[value]
    return rewriter.finish()


def _rewritten(
    rewriter: Rewriter, node: Node, rules: Sequence[Rule], producers: dict[Value, Node], fired: Counter[str]
) -> Value | None:
    """What the first rule that matches makes of the output of ``node``; its new nodes are known as producers."""
    nodes = rewriter.builder.nodes
    for rule in rules:
        bindings = rule.match(node, producers)
        if bindings is None:
            continue
        start = len(nodes)
        with rewriter.emitting(node):
            value = rule.build(bindings)
        if value.type != node.outputs[0].type:  # equal under the constraints only: the text of types must not change
            del nodes[start:]
            continue
        fired[rule.name] += 1
        for new_node in nodes[start:]:
            producers.update((output, new_node) for output in new_node.outputs)
        return value
    return None
