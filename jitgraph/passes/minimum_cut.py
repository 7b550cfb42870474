"""Minimum cuts of small networks (Dinic 1970, "Algorithm for solution of a problem of maximum flow in networks").

Written here, as importing networkx took longer than all cuts of a model together.
"""

from __future__ import annotations

from collections.abc import Iterable

Edge = tuple[int, int, int | None]
"""From, to, and the capacity; None for an edge that no cut may have."""


def minimum_cut(nodes: int, edges: Iterable[Edge], source: int, sink: int) -> set[int] | None:
    """The nodes on the side of ``source`` of the cheapest cut, of several the one that is nearest to ``sink``.

    Nodes are ``0 .. nodes``. None where every cut has an edge without a capacity.
    """
    network = _Network(nodes, list(edges))
    flow = 0
    while distances := network.distances(source, sink):
        flow += network.saturate(distances, source, sink)
    if flow >= network.unlimited:  # more than all edges with a capacity hold
        return None
    return set(range(nodes)) - network.reaching(sink)


class _Network:
    """Edges in pairs, each beside its reverse (``number ^ 1``), with what may yet flow along it."""

    def __init__(self, nodes: int, edges: list[Edge]) -> None:
        self.unlimited = 1 + sum(capacity for _, _, capacity in edges if capacity is not None)
        self.out: list[list[int]] = [[] for _ in range(nodes)]
        self.to: list[int] = []
        self.free: list[int] = []
        for before, after, capacity in edges:
            self.out[before].append(len(self.to))
            self.out[after].append(len(self.to) + 1)
            self.to += after, before
            self.free += self.unlimited if capacity is None else capacity, 0

    def distances(self, source: int, sink: int) -> dict[int, int]:
        """How far nodes are from the source along edges that have room; empty where the sink is out of reach."""
        distance = {source: 0}
        order = [source]
        for node in order:
            for edge in self.out[node]:
                after = self.to[edge]
                if after not in distance and self.free[edge]:
                    distance[after] = distance[node] + 1
                    order.append(after)
        return distance if sink in distance else {}

    def saturate(self, distances: dict[int, int], source: int, sink: int) -> int:
        """Let flow along shortest ways until none has room; gives how much."""
        untried = {node: list(self.out[node]) for node in distances}
        path: list[int] = []
        node, together = source, 0
        while True:
            if node == sink:
                amount = min(self.free[edge] for edge in path)
                together += amount
                for edge in path:
                    self.free[edge] -= amount
                    self.free[edge ^ 1] += amount
                path, node = [], source
            edges = untried[node]
            while edges and not (self.free[edges[-1]] and distances.get(self.to[edges[-1]]) == distances[node] + 1):
                edges.pop()
            if edges:
                path.append(edges[-1])
                node = self.to[edges[-1]]
            elif path:
                node = self.to[path.pop() ^ 1]
                untried[node].pop()
            else:
                return together

    def reaching(self, sink: int) -> set[int]:
        """The nodes from which more could flow to the sink."""
        reached = {sink}
        order = [sink]
        for node in order:
            for edge in self.out[node]:
                before = self.to[edge]
                if before not in reached and self.free[edge ^ 1]:
                    reached.add(before)
                    order.append(before)
        return reached
