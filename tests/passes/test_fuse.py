"""Fusion: what becomes one kernel, what stays apart and why, and that programs keep their value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jitgraph import dtypes
from jitgraph.codegen.kernels.memory import plan_memory
from jitgraph.codegen.kernels.schedule_verifier import verify_plan
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.select import select
from jitgraph.ir.builder import build
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.types import TensorType
from jitgraph.ir.verifier import verify
from jitgraph.ops import (
    OPS,
    add,
    broadcast,
    cast,
    dot,
    exp,
    full_like,
    gather,
    maximum,
    mul,
    reduce_max,
    reduce_sum,
    reshape,
    sort,
    sqrt,
    sub,
    transpose,
)
from jitgraph.passes import pipeline
from jitgraph.passes.fuse import fuse_with_reasons
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.golden_meaning import samples
from tests.graphs import TARGET, t
from tests.op_loop import require_same

F32 = dtypes.float32


def fused(function: Callable[..., Any], *types: TensorType) -> Graph:
    graph = build(function, types)
    result = pipeline.run(graph, TARGET)
    verify(result)
    require_equal_runs(graph, result)
    return result


def require_equal_runs(graph: Graph, result: Graph) -> None:
    arguments = samples(graph, numbers="positive")
    expected = interpret(graph, arguments)
    require_same(expected, interpret(result, arguments), ulps=0)
    schedule = plan_memory(select(result, CPU))
    verify_plan(schedule)
    require_same(expected, execute_schedule(schedule, arguments), ulps=64)


def shape_of(graph: Graph) -> list[str]:
    """The nodes of a fused graph: an op's name, or the names in a group's region without index maps."""
    results = []
    for node in graph.nodes:
        if node.op.name != "fused":
            results.append(node.op.name)
            continue
        inside = [n.op.name for n in node.regions[0].nodes if n.op.kind not in ("movement", "creation")]
        results.append(" ".join(inside))
    return results


def test_pointwise_chain_is_one_kernel() -> None:
    graph = fused(lambda x, y: exp(mul(add(x, y), sub(x, y))), t(7, 5), t(7, 5))
    assert len(graph.nodes) == 1


def test_index_maps_are_copied_into_their_readers() -> None:
    graph = fused(
        lambda x, b: (exp(add(x, broadcast(b, shape=(4, 6), axes=(1,)))), transpose(b, permutation=(0,))), t(4, 6), t(6)
    )
    assert "broadcast" not in [node.op.name for node in graph.nodes]


def test_random_bits_are_made_once() -> None:
    """They need no memory to be made from, as an index map does not, but cost more than a load."""
    key = t(2, dtype=dtypes.uint64)

    def twice(key: Any) -> Any:
        bits = OPS["random_bits"](key, shape=(4, 6))
        return sort(bits, axis=0, descending=False)[0], sort(bits, axis=1, descending=False)[0]

    results = [node.op.name for node in pipeline.run(build(twice, [key]), TARGET).walk()]
    assert results.count("random_bits") == 1


@pytest.mark.parametrize(
    ("name", "attrs", "types"),
    [
        ("softmax", {"axis": 1}, [t(6, 10)]),
        ("log_softmax", {"axis": 1}, [t(6, 10)]),
        ("softmax", {"axis": 0}, [t(6, 10)]),
        ("layer_norm", {"num_axes": 1, "eps": 1e-5}, [t(6, 10), t(10), t(10)]),
        ("softmax", {"axis": 1}, [t(Dim.name("n"), Dim.name("m"))]),
    ],
)
def test_row_reductions_are_one_kernel(name: str, attrs: dict[str, Any], types: list[TensorType]) -> None:
    graph = fused(lambda *xs: OPS[name](*xs, **attrs), *types)
    assert len(graph.nodes) == 1


def test_epilogue_is_fused_into_dot_with_all_that_is_saved() -> None:
    def layer(x: Any, w: Any, b: Any, r: Any) -> Any:
        pre = add(dot(x, w, batch=((), ()), contract=((1,), (0,))), broadcast(b, shape=(8, 6), axes=(1,)))
        return add(maximum(pre, full_like(0.0, pre)), r), pre

    assert shape_of(fused(layer, t(8, 4), t(4, 6), t(6), t(8, 6))) == ["dot add maximum add"]


def test_operand_of_dot_is_computed_once() -> None:
    graph = fused(lambda x, w: dot(exp(x), w, batch=((), ()), contract=((1,), (0,))), t(8, 4), t(4, 6))
    assert shape_of(graph) == ["exp", "dot"]


def test_transposed_operand_of_dot_is_an_index_map() -> None:
    def product(x: Any, w: Any) -> Any:
        return dot(x, transpose(w, permutation=(1, 0)), batch=((), ()), contract=((1,), (0,)))

    assert len(fused(product, t(8, 4), t(6, 4)).nodes) == 1


def test_second_dot_of_a_sum_stays_apart() -> None:
    def both(x: Any, w: Any) -> Any:
        first = dot(x, w, batch=((), ()), contract=((1,), (0,)))
        return add(first, dot(first, w, batch=((), ()), contract=((1,), (0,))))

    assert shape_of(fused(both, t(4, 4), t(4, 4))) == ["dot", "dot add"]


def adam(p: Any, g: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
    m = add(mul(m, full_like(0.9, m)), mul(g, full_like(0.1, g)))
    v = add(mul(v, full_like(0.99, v)), mul(mul(g, g), full_like(0.01, g)))
    return sub(p, OPS["div"](m, add(sqrt(v), full_like(1e-8, v)))), m, v


def test_update_of_one_parameter_is_one_kernel_and_parameters_stay_apart() -> None:
    def step(*xs: Any) -> Any:
        return *adam(*xs[:4]), *adam(*xs[4:])

    graph = fused(step, *[t(3, 4)] * 4, *[t(5)] * 4)
    assert [len(node.outputs) for node in graph.nodes] == [3, 3]


def test_readers_of_one_value_are_one_kernel() -> None:
    assert len(fused(lambda x: (exp(x), sqrt(x)), t(7, 3)).nodes) == 1


def test_column_sum_joins_its_producer() -> None:
    graph = fused(lambda x, y: (mul(x, y), reduce_sum(mul(x, y), axes=(0,))), t(7, 3), t(7, 3))
    assert len(graph.nodes) == 1


def test_reductions_over_other_axes_stay_apart() -> None:
    graph = build(lambda x: add(reduce_sum(exp(x), axes=(0,)), reduce_sum(exp(x), axes=(1,))), [t(4, 4)])
    _, apart = fuse_with_reasons(pipeline.run(graph, TARGET, pipeline.PIPELINE[:-1]), TARGET)
    assert any("other axes" in one.reason for one in apart)


def test_large_global_reduction_finishes_first() -> None:
    def normalised(x: Any) -> Any:
        return sub(x, broadcast(reduce_max(x, axes=(0,)), shape=(1 << 15,), axes=()))

    assert shape_of(fused(normalised, t(1 << 15))) == ["reduce_max", "sub"]


def test_no_cycle() -> None:
    def around(x: Any, w: Any) -> Any:
        a = exp(x)
        b = reduce_sum(dot(a, w, batch=((), ()), contract=((1,), (0,))), axes=(0, 1))
        return mul(a, broadcast(b, shape=(4, 4), axes=()))

    assert shape_of(fused(around, t(4, 4), t(4, 4))) == ["exp", "dot", "reduce_sum mul"]


def test_value_read_transposed_too_is_computed_once() -> None:
    def symmetric(x: Any) -> Any:
        y = exp(x)
        return add(y, transpose(y, permutation=(1, 0)))

    assert shape_of(fused(symmetric, t(4, 4))) == ["exp", "add"]


def test_view_of_a_result_is_no_kernel() -> None:
    graph = fused(lambda x: reshape(exp(x), shape=(12,)), t(3, 4))
    schedule = select(graph, CPU)
    assert len(schedule.steps) == 1


def test_gather_joins_what_follows() -> None:
    graph = fused(lambda x, i: exp(gather(x, i, axis=0)), t(9, 4), t(5, dtype=dtypes.int64))
    assert shape_of(graph) == ["gather exp"]


def test_regions_are_fused() -> None:
    body = build(lambda c, x: (add(sqrt(c), x), mul(sqrt(c), x)), [t(3), t(3)], "body")
    attrs = {"num_carries": 1, "num_xs": 1, "length": 4, "reverse": False}
    graph = fused(lambda c, xs: OPS["scan"](c, xs, regions=(body,), **attrs), t(3), t(4, 3))
    assert [node.op.name for node in graph.nodes[0].regions[0].nodes] == ["fused"]


UNARY = [exp, sqrt, lambda x: cast(x, dtype=dtypes.float32), lambda x: sub(x, full_like(1.0, x))]


@st.composite
def programs(draw: st.DrawFn) -> Callable[..., Any]:
    """A random program on three 4 x 4 matrices: pointwise ops, reductions and back, transposes, products, sorts."""
    choices = draw(
        st.lists(st.tuples(st.integers(0, 7), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=14)
    )
    kept = draw(st.lists(st.integers(0, 99), min_size=1, max_size=4))

    def program(*inputs: Any) -> Any:
        values = list(inputs)
        for kind, i, j in choices:
            x, y = values[i % len(values)], values[j % len(values)]
            axis = j % 2
            match kind:
                case 0 | 1:
                    actual = (add, mul, maximum, sub)[(i + j) % 4](x, y)
                case 2:
                    actual = OPS["abs"](UNARY[j % 4](OPS["abs"](x)) if j % 4 else OPS["tanh"](x))
                case 3 | 4:
                    reduced = (reduce_sum, reduce_max)[i % 2](x, axes=(axis,))
                    actual = broadcast(reduced, shape=(4, 4), axes=(1 - axis,))
                case 5:
                    actual = transpose(x, permutation=(1, 0))
                case 6:
                    actual = dot(OPS["tanh"](x), OPS["tanh"](y), batch=((), ()), contract=((1,), (axis,)))
                case _:
                    actual = sort(x, axis=axis, descending=False, stable=True)[0]
            values.append(actual)
        return [values[i % len(values)] for i in kept]

    return program


@given(programs())
def test_random_programs_keep_their_value(program: Callable[..., Any]) -> None:
    graph = build(program, [t(4, 4)] * 3)
    result = pipeline.run(graph, TARGET)
    verify(result)
    rng = np.random.default_rng(1)
    arguments = [rng.uniform(0.5, 1.5, (4, 4)).astype(np.float32) for _ in range(3)]
    # in float64 the order of sums does not matter to float32's precision, but the program may amplify what it does
    expected = interpret(result, arguments)
    schedule = plan_memory(select(result, CPU))
    verify_plan(schedule)
    actual = execute_schedule(schedule, arguments)
    scale = max(1.0, *(float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x))) for x in expected))
    require_same(expected, actual, ulps=4096, scale=scale)


def test_what_is_copied_unread_makes_no_cycle() -> None:
    """A pad that pads nothing reads no fill value; the fill, which waits for an early value, is copied with it."""

    def program(x: Any, y: Any, fill: Any) -> Any:
        early = exp(x)
        padded = OPS["pad"](y, OPS["optimization_barrier"](fill, early), low=(0,), high=(0,), interior=(0,))
        return add(mul(early, early), padded)

    graph = build(program, [t(4), t(4), t()])
    fused = fuse_with_reasons(graph, TARGET)[0]
    verify(fused)
    arrays = [np.arange(4, dtype=np.float32), np.ones(4, np.float32), np.float32(7)]
    np.testing.assert_array_equal(interpret(fused, arrays)[0], interpret(graph, arrays)[0])
