"""The order of fusion's groups: merges that would make a cycle, and only those, are refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from jitgraph import dtypes
from jitgraph.ir.builder import build
from jitgraph.ir.types import TensorType
from jitgraph.ir.verifier import verify
from jitgraph.ops import OPS, add, cast, concat, exp, full, gather, mul, sort
from jitgraph.passes.fuse import fuse
from jitgraph.passes.fusion_groups import GroupOrder
from tests.graphs import TARGET


class Merging:
    """Sets of the nodes 0, 1, ... of a random graph, merged in random order; reachability by brute force."""

    def __init__(self, rng: random.Random, count: int) -> None:
        self.before = {node: {rng.randrange(node) for _ in range(rng.randint(0, 2)) if node} for node in range(count)}
        self.group = {node: frozenset([node]) for node in range(count)}
        self.order = GroupOrder(list(self.group.values()), self.reads)

    def reads(self, group: frozenset[int]) -> set[frozenset[int]]:
        return {self.group[before] for node in group for before in self.before[node]}

    def reaches_by_another(self, start: frozenset[int], end: frozenset[int]) -> bool:
        pending, seen = [group for group in self.reads(end) if group not in (start, end)], set()
        while pending:
            group = pending.pop()
            if group is start:
                return True
            if group not in seen:
                seen.add(group)
                pending += self.reads(group)
        return False

    def merge(self, left: frozenset[int], right: frozenset[int]) -> bool:
        between = self.order.between(left, right)
        if between is None:
            return False
        merged = left | right
        self.order.merge(left, right, merged, between)
        self.group.update(dict.fromkeys(merged, merged))
        return True


@pytest.mark.parametrize("seed", range(60))
def test_merges_are_refused_where_they_make_a_cycle_and_nowhere_else(seed: int) -> None:
    rng = random.Random(seed)
    graph = Merging(rng, count := 30)
    refused = 0
    for _ in range(80):
        left, right = graph.group[rng.randrange(count)], graph.group[rng.randrange(count)]
        if left is right or len(left | right) > 6:
            continue
        cycle = graph.reaches_by_another(left, right) or graph.reaches_by_another(right, left)
        assert graph.merge(left, right) is not cycle
        refused += cycle
    assert refused, "no merge would have made a cycle, so nothing was tested"


def test_a_group_with_an_early_and_a_late_node_lies_on_both_sides() -> None:
    """Of two sorts the group of both products reads one and is read by the other."""

    def twice(x: Any) -> Any:
        half = full(shape=(4,), value=0.5, dtype=dtypes.float64)
        one = full(shape=(4,), value=1, dtype=dtypes.int64)
        first, first_order = sort(x, axis=0, descending=False)
        _, second_order = sort(mul(first, half), axis=0, descending=False)
        later, earlier = add(second_order, one), add(first_order, one)
        return mul(exp(gather(x, earlier, axis=0)), half), later

    verify(fuse(build(twice, [TensorType(dtypes.float64, (4,))]), TARGET))


def random_program(rng: random.Random, steps: int) -> Callable[..., Any]:
    """Arithmetic with few values and constants, and kernels of their own between: what reads one value is merged."""

    def program(*inputs: Any) -> Any:
        constants = [full(shape=(4,), value=value, dtype=dtypes.float64) for value in (0.5, 2.0)]
        values = list(inputs)
        for _ in range(steps):
            x = rng.choice(values[-8:])
            match rng.choice(("binary", "constant", "constant", "sort", "order", "concat")):
                case "binary":
                    result = rng.choice((add, mul))(x, rng.choice(values))
                case "constant":
                    result = rng.choice((add, mul))(x, rng.choice(constants))
                case "sort":
                    result = sort(x, axis=0, descending=False)[0]
                case "order":
                    result = cast(sort(x, axis=0, descending=False)[1], dtype=dtypes.float64)
                case _:
                    joined = concat(x, x, x, x, x, axis=0)
                    result = OPS["slice"](joined, starts=(3,), stops=(7,), strides=(1,))
            values.append(result)
        return values

    return program


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_are_fused_without_a_circle(seed: int) -> None:
    rng = random.Random(seed)
    graph = build(random_program(rng, 40), [TensorType(dtypes.float64, (4,))] * 3)
    verify(fuse(graph, TARGET))
