"""Random programs of nested branches and loops: gradients, the two halves and jvp must agree with differences."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from jitgraph.dtypes import float64, int64
from jitgraph.ir.builder import build
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.types import TensorType
from jitgraph.ir.verifier import verify
from jitgraph.ops import (
    add,
    broadcast,
    cond,
    cos,
    eq,
    exp,
    full,
    lt,
    mul,
    reduce_sum,
    remainder,
    scan,
    select,
    sin,
    sub,
    tanh,
    while_,
)
from jitgraph.passes.autodiff import jvp_graph, vjp_graph
from tests.differences import check

COUNTER = TensorType(int64, ())
X, Y = np.array([0.3, -0.7, 1.1]), np.array([0.9, 0.4, -0.2])


def integer(value: int) -> Any:
    return full(shape=(), value=value, dtype=int64)


class Programs:
    """Draws programs over vectors of ``size`` floats and a counter; loops nest to ``depth``."""

    def __init__(self, seed: int, size: DimLike) -> None:
        self.rng = random.Random(seed)
        self.size = size
        self.vector = TensorType(float64, (size,))

    def program(self, depth: int) -> Graph:
        def main(i: Any, x: Any, y: Any) -> Any:
            values = self.block(i, [x, y], depth, self.rng.randint(2, 4))
            return values[-1], values[-2]

        return build(main, [COUNTER, self.vector, self.vector])

    def block(self, i: Any, values: Sequence[Any], depth: int, count: int) -> list[Any]:
        """``values`` and the results of ``count`` statements over them."""
        actual = list(values)
        for _ in range(count):
            kinds = [self.arithmetic] * 3 + [self.branch, self.sweep, self.loop] if depth else [self.arithmetic]
            actual += self.rng.choice(kinds)(i, actual, depth - 1)
        return actual

    def arithmetic(self, i: Any, values: list[Any], depth: int) -> list[Any]:
        a, b = self.rng.choice(values), self.rng.choice(values)
        return [
            self.rng.choice(
                [
                    lambda: mul(a, b),
                    lambda: sin(add(a, b)),
                    lambda: tanh(mul(a, b)),
                    lambda: sub(exp(sin(a)), cos(b)),
                    lambda: select(lt(a, b), mul(a, a), sin(b)),
                    lambda: mul(broadcast(tanh(reduce_sum(a, axes=(0,))), shape=(self.size,), axes=()), b),
                ]
            )()
        ]

    def operands(self, values: list[Any]) -> list[Any]:
        return [self.rng.choice(values) for _ in range(self.rng.randint(1, 3))]

    def branch(self, i: Any, values: list[Any], depth: int) -> list[Any]:
        inputs, results = self.operands(values), self.rng.randint(1, 2)

        def region(i: Any, *inner: Any) -> Any:
            actual = self.block(i, inner, depth, self.rng.randint(0, 3))
            return tuple(self.rng.choice(actual) for _ in range(results))

        regions = [build(region, [COUNTER, *[self.vector] * len(inputs)]) for _ in range(2)]
        predicate = eq(remainder(i, integer(2)), integer(0))
        return listed(cond(predicate, i, *inputs, regions=regions))

    def sweep(self, i: Any, values: list[Any], depth: int) -> list[Any]:
        inputs, length, ys = self.operands(values), self.rng.randint(0, 3), self.rng.randint(0, 2)
        carries = self.rng.randint(0, len(inputs))
        xs = broadcast(self.rng.choice(values), shape=(length, self.size), axes=(1,))

        def region(i: Any, *inner: Any) -> Any:
            actual = self.block(i, inner, depth, self.rng.randint(1, 3))
            return add(i, integer(1)), *(self.rng.choice(actual) for _ in range(carries + ys))

        body = build(region, [COUNTER, *[self.vector] * (1 + len(inputs))])
        operands = (i, *inputs[:carries], xs, *inputs[carries:])
        attrs = {"num_carries": 1 + carries, "num_xs": 1, "length": length, "reverse": self.rng.random() < 0.5}
        actual = listed(scan(*operands, regions=(body,), **attrs))
        return [*actual[1 : 1 + carries], *(reduce_sum(y, axes=(0,)) for y in actual[1 + carries :])]

    def loop(self, i: Any, values: list[Any], depth: int) -> list[Any]:
        inputs = self.operands(values)
        trips, carries = self.rng.randint(0, 3), self.rng.randint(1, len(inputs))

        def region(i: Any, *inner: Any) -> Any:
            actual = self.block(i, inner, depth, self.rng.randint(1, 3))
            return add(i, integer(1)), *(self.rng.choice(actual) for _ in range(carries))

        types = [COUNTER, *[self.vector] * len(inputs)]
        condition = build(lambda i, *_: lt(i, integer(trips)), types)
        start = remainder(i, integer(3))
        return listed(while_(start, *inputs, regions=(condition, build(region, types)), num_carries=1 + carries))[1:]


def listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("seed", range(60))
def test_derivatives_of_a_program(seed: int) -> None:
    graph = Programs(seed, Dim.name("n") if seed % 2 else 3).program(depth=2 + seed % 3 // 2)
    verify(graph)
    arrays = [np.int64(seed % 2), X, Y]
    check(graph, arrays)
    small = sum(1 for _ in graph.walk()) < 40
    if small:
        check(graph, arrays, order=2)

    forward, back = vjp_graph(graph)
    verify(forward)
    verify(back)
    outputs = interpret(graph, arrays)
    results = interpret(forward, arrays)
    for have, want in zip(results, outputs, strict=False):
        np.testing.assert_array_equal(have, want)
    cotangents = [np.cos(y) for y in outputs]
    pulled = interpret(back, [*results[len(outputs) :], *cotangents])
    if small:
        pushed = jvp_graph(graph)
        verify(pushed)
        moved = interpret(pushed, [*arrays, X * Y, Y - X])[len(outputs) :]
        along = sum(float(np.sum(ct * dy)) for ct, dy in zip(cotangents, moved, strict=True))
        assert along == pytest.approx(float(pulled[0] @ (X * Y) + pulled[1] @ (Y - X)), rel=1e-9, abs=1e-11)
