"""rematerialise: a training step's peak sinks, its results stay the same bits, and small graphs are left alone."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jitgraph.codegen.kernels.memory import plan_memory
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.select import select
from jitgraph.dtypes import float32
from jitgraph.ir.builder import build
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.types import TensorType
from jitgraph.ir.verifier import verify
from jitgraph.ops import (
    add,
    broadcast,
    cos,
    dot,
    exp,
    full,
    mul,
    neg,
    optimization_barrier,
    reduce_sum,
    sin,
    tanh,
    transpose,
)
from jitgraph.passes.autodiff import expand_grads, grad_graph
from jitgraph.passes.cse import cse
from jitgraph.passes.dce import dce
from jitgraph.passes.decompose import decompose
from jitgraph.passes.decompose_complex import decompose_complex
from jitgraph.passes.fuse import fuse
from jitgraph.passes.rematerialise import live_bytes, rematerialise
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.graphs import TARGET
from tests.programs.gradients import Program

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


def test_the_planned_memory_sinks_too() -> None:
    """Fusion does not put what is computed again into the kernels of the forward half."""
    graph = step()
    planned = [arena_bytes(fuse(result, TARGET)) for result in (graph, rematerialise(graph, TARGET, least=1))]
    assert planned[1] < 0.5 * planned[0]


def arena_bytes(graph: Graph) -> int:
    plan = plan_memory(select(graph, CPU)).plan
    assert plan is not None and isinstance(plan.arena_bytes, int)
    return plan.arena_bytes


def test_compiled_code_gives_the_same_bits() -> None:
    graph = step()
    again = rematerialise(graph, TARGET, least=1)
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=value.shape).astype(np.float32) * 0.3 for value in graph.inputs]
    have, want = (execute_schedule(select(fuse(result, TARGET), CPU), arrays) for result in (again, graph))
    for a, b in zip(have, want, strict=True):
        np.testing.assert_array_equal(a, b)


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
        return mul(total, full(shape=(), value=2.0, dtype=float32))  # an output, in memory of the caller's

    assert live_bytes(build(chain, [row])) == [40, 40, 44, 8, 8]


def test_what_is_kept_as_a_view_is_read_from_its_source() -> None:
    """A barrier stands on a buffer: before a transposed value it would make a copy of it."""

    def program(x: Any, w: Any, wide: Any) -> Any:
        z = transpose(dot(x, w, batch=((), ()), contract=((1,), (0,))), permutation=(1, 0))
        y = functools.reduce(lambda y, f: mul(y, f(z)), (exp, tanh, sin, cos), z)
        y = dot(dot(y, wide, batch=((), ()), contract=((1,), (0,))), wide, batch=((), ()), contract=((1,), (1,)))
        return reduce_sum(functools.reduce(lambda y, f: mul(y, f(z)), (exp, tanh, sin, cos), y), axes=(0, 1))

    square, wide = TensorType(float32, (WIDTH, WIDTH)), TensorType(float32, (WIDTH, 8 * WIDTH))
    graph = cse(build(program, [square, square, wide]), TARGET)
    again = rematerialise(graph, TARGET, least=1)
    barriers = [node for node in again.nodes if node.op is optimization_barrier]
    assert [again.producers[node.inputs[0]].op for node in barriers] == [dot]
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=value.shape).astype(np.float32) * 0.2 for value in graph.inputs]
    for result in (again, graph):
        (have,) = execute_schedule(select(fuse(result, TARGET), CPU), arrays)
        np.testing.assert_array_equal(have, interpret(graph, arrays)[0])


def test_random_gradients_keep_their_bits() -> None:
    """Whatever is computed again, through every stage of the compiler; small graphs, so that there are many."""
    rewritten = 0
    for seed in range(24):
        expanded = decompose(expand_grads(decompose(Program(seed).derivatives(), TARGET)), TARGET)
        graph = cse(decompose_complex(expanded, TARGET), TARGET)
        again = rematerialise(graph, TARGET, least=1)
        if again is graph:
            continue
        rewritten += 1
        verify(again)
        rng = np.random.default_rng(seed)
        arrays = [rng.uniform(-1, 1, value.shape).astype(value.dtype) for value in graph.inputs]
        want = interpret(graph, arrays)
        have = execute_schedule(plan_memory(select(fuse(again, TARGET), CPU)), arrays)
        for a, b, c in zip(have, interpret(again, arrays), want, strict=True):
            np.testing.assert_array_equal(b, c)
            np.testing.assert_allclose(a, c, rtol=1e-9, atol=1e-9, err_msg=f"program {seed}")
    assert rewritten > 12
