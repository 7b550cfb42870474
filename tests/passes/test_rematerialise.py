"""rematerialise: a training step's peak sinks, its results stay the same bits, and small graphs are left alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph.dtypes import float32
from jitgraph.ir.builder import build
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.types import TensorType
from jitgraph.ir.verifier import verify
from jitgraph.ops import add, broadcast, dot, exp, full, mul, neg, reduce_sum, tanh
from jitgraph.passes.autodiff import grad_graph
from jitgraph.passes.cse import cse
from jitgraph.passes.dce import dce
from jitgraph.passes.rematerialise import live_bytes, rematerialise
from tests.graphs import TARGET

ROWS, WIDTH, LAYERS = 8, 16, 6


def step() -> Graph:
    """The gradients of a stack of layers ``x exp(-x) tanh(x)`` over products."""

    def layer(h: Any, w: Any, b: Any) -> Any:
        z = add(dot(h, w, batch=((), ()), contract=((1,), (0,))), broadcast(b, shape=(ROWS, WIDTH), axes=(1,)))
        return mul(mul(z, exp(neg(z))), tanh(z))

    def loss(x: Any, *weights: Any) -> Any:
        for i in range(LAYERS):
            x = layer(x, weights[2 * i], weights[2 * i + 1])
        return reduce_sum(x, axes=(0, 1))

    square, row = TensorType(float32, (WIDTH, WIDTH)), TensorType(float32, (WIDTH,))
    graph = build(loss, [TensorType(float32, (ROWS, WIDTH)), *[square, row] * LAYERS])
    return dce(cse(grad_graph(graph), TARGET), TARGET)


def test_the_peak_sinks_and_the_results_stay() -> None:
    graph = step()
    again = rematerialise(graph, TARGET, least=1)
    verify(again)
    before, after = max(live_bytes(graph)), max(live_bytes(again))
    assert after < 0.7 * before
    assert sum(node.op is dot for node in again.nodes) == sum(node.op is dot for node in graph.nodes)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=value.shape).astype(np.float32) * 0.3 for value in graph.inputs]
    for have, want in zip(interpret(again, arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_array_equal(have, want)


def test_what_is_read_no_more_is_gone() -> None:
    """Fusion, which comes next, would make kernels without results of it."""
    again = rematerialise(step(), TARGET, least=1)
    assert dce(again, TARGET) is again


def test_a_gain_below_the_least_is_no_reason() -> None:
    graph = step()
    assert rematerialise(graph, TARGET) is graph


def test_live_bytes_count_each_value_from_its_node_to_its_last_use() -> None:
    row = TensorType(float32, (10,))

    def chain(x: Any) -> Any:
        y = exp(x)  # 40 bytes
        z = broadcast(y, shape=(3, 10), axes=(1,))  # a view of y
        total = reduce_sum(z, axes=(0, 1))  # 4 bytes, after which y is dead
        return mul(total, full(shape=(), value=2.0, dtype=float32))

    assert live_bytes(build(chain, [row])) == [40, 40, 44, 8, 12]
