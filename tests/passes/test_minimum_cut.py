"""Minimum cuts against those of networkx: of all the cheapest, the one that is nearest to the sink."""

from __future__ import annotations

import random
from itertools import pairwise

import networkx
import pytest

from jitgraph.passes.partition import Edge, minimum_cut


def of_networkx(nodes: int, edges: list[Edge]) -> set[int] | None:
    network = networkx.DiGraph()
    network.add_nodes_from(range(nodes))
    for before, after, capacity in edges:
        network.add_edge(before, after, **({} if capacity is None else {"capacity": capacity}))
    try:
        _, (before, _) = networkx.minimum_cut(network, 0, 1)
    except networkx.NetworkXUnbounded:
        return None
    return set(before)


@pytest.mark.parametrize("seed", range(300))
def test_random_networks(seed: int) -> None:
    rng = random.Random(seed)
    nodes = rng.randrange(2, 14)
    pairs = [(a, b) for a in range(nodes) for b in range(nodes) if a != b and rng.random() < 0.4]
    edges = [(a, b, None if rng.random() < 0.2 else rng.choice([0, 1, 1, 2, 5, 1 << 40])) for a, b in pairs]
    assert minimum_cut(nodes, edges, 0, 1) == of_networkx(nodes, edges)


def test_of_equal_cuts_the_nearest_to_the_sink_is_taken() -> None:
    assert minimum_cut(4, [(0, 2, 3), (2, 3, 3), (3, 1, 3)], 0, 1) == {0, 2, 3}


def test_a_long_chain() -> None:
    """Deeper than Python's recursion limit."""
    nodes = 5000
    chain = [*range(2, nodes), 1]
    edges = [(0, 2, None), *[(a, b, 1 if a == 4000 else None) for a, b in pairwise(chain)]]
    before = minimum_cut(nodes, edges, 0, 1)
    assert before == {0, *range(2, 4001)}


def test_nothing_to_cut() -> None:
    assert minimum_cut(2, [], 0, 1) == {0}
    assert minimum_cut(2, [(0, 1, None)], 0, 1) is None
