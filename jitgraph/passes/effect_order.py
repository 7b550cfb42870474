"""The order in which fused groups may stand: values before their uses, and effects as in the program."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from jitgraph.ir.graph import Node
from jitgraph.passes.fusion_forms import is_free
from jitgraph.passes.rewriter import prints


def order_of_effects(nodes: Iterable[Node]) -> dict[Node, tuple[Node, ...]]:
    """For prints and what can raise, in a graph with both: the nodes that stay before, beside those that they read.

    What raises does so behind the prints before it and before those behind it, as in the program.
    """
    predecessors: dict[Node, tuple[Node, ...]] = {}
    since: list[Node] = []  # the last print, and what can raise behind it
    printed = False
    for node in nodes:
        if prints(node):
            predecessors[node] = tuple(since)
            since, printed = [node], True
        elif not is_free(node) and _can_raise(node):
            predecessors[node] = (since[0],) if printed else ()
            since.append(node)
    return predecessors if printed else {}


def _can_raise(node: Node) -> bool:
    """Whether a node is a check, or reads at indices that may be out of range."""
    if node.op.effect == "check" or node.op.kind == "indexing":
        return True
    return any(_can_raise(inner) for region in node.regions for inner in region.nodes)


def in_order(units: list[tuple[int, Node]], behind: Mapping[int, set[int]]) -> Iterable[Node]:
    """The units so that values stand before their uses, those that come first in the old graph first.

    ``behind`` gives for units, by number, others that stand before them.
    """
    maker = {output: i for i, (_, node) in enumerate(units) for output in node.outputs}
    waiting = []
    readers: dict[int, list[int]] = {}
    for i, (_, node) in enumerate(units):
        before = {maker[value] for value in node.inputs if value in maker} | behind.get(i, set())
        waiting.append(len(before))
        for j in before:
            readers.setdefault(j, []).append(i)
    ready = [(units[i][0], i) for i, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    emitted = 0
    while ready:
        _, i = heapq.heappop(ready)
        emitted += 1
        yield units[i][1]
        for j in readers.get(i, ()):
            waiting[j] -= 1
            if not waiting[j]:
                heapq.heappush(ready, (units[j][0], j))
    assert emitted == len(units), "the groups depend on one another in a circle"
