"""Rows that a kernel keeps for its own later loops: the same bits as computed again, in fewer scalar ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitgraph.codegen.kernels.kernel import Let, Local, statements_of
from jitgraph.codegen.lower import rows
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.dtypes import DTYPES, DType, bfloat16, float32, float64, is_float
from jitgraph.ir.builder import build
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Graph, Value
from jitgraph.ops import add, erf, exp, mul, reduce_prod, reduce_sum, softmax
from jitgraph.ops.movement import restore
from jitgraph.runtime.executable import Executable
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.bits import bits_of
from tests.graphs import compiled, t


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_VERIFY", "1")


def in_place(graph: Graph) -> Executable:
    return compiled(graph, donate=[(0, 0)] if graph.inputs[0].type == graph.outputs[0].type else [])


def calls(result: Executable) -> int:
    """The calls of math functions that stand in the kernels."""
    bodies = [launch.kernel.body for launch in result.stages.schedule.steps]  # type: ignore[union-attr]
    return sum(isinstance(s, Let) and s.op == "call" for body in bodies for s in statements_of(body))


def locals_of(result: Executable) -> int:
    bodies = [launch.kernel.body for launch in result.stages.schedule.steps]  # type: ignore[union-attr]
    return sum(isinstance(s, Local) for body in bodies for s in statements_of(body))


def values(dtype: DType, shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(5).standard_normal(shape).astype(dtype)


def along(row: Any, x: Any) -> Any:
    """What a reduction along the last axis gave, for every element of its row."""
    return restore(row, x.type, (1,))


def both_of_a_chain(x: Any) -> Any:
    """Of the row's exponentials, both loops want the second, and the first of them alone the first."""
    once = exp(x)
    twice = exp(once)
    return add(reduce_sum(mul(once, twice), axes=(1,)), reduce_prod(twice, axes=(1,)))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: softmax(x, axis=1),
    "softmax of the other axis": lambda x: softmax(x, axis=0),
    "a sum and a product of one value": lambda x: add(reduce_sum(exp(x), axes=(1,)), reduce_prod(exp(x), axes=(1,))),
    "a sum and a product of one value, one of what it is made of": lambda x: both_of_a_chain(x),
    "a sum beside what it sums": lambda x: (exp(x), reduce_sum(exp(x), axes=(1,))),
}


def test_the_first_loop_alone_wants_what_a_kept_value_is_made_of() -> None:
    """Wherever nodes lie in memory: the same program has the same code in every process."""
    graphs = [build(both_of_a_chain, [t(5, 40)]) for _ in range(20)]
    assert {locals_of(compiled(graph)) for graph in graphs} == {1}


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 40), (5, 10), (7, 33), (40, 64), (0, 4)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_kept_row_has_the_bits_of_one_computed_again(
    name: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, x = build(FUNCTIONS[name], [t(*shape)]), values(float32, shape)
    kept = in_place(graph)
    with monkeypatch.context() as patch:
        patch.setattr(rows, "rows_to_materialise", lambda *_: [])
        plain = in_place(graph)
    assert locals_of(plain) == 0
    executed = execute_schedule(kept.stages.schedule, [x.copy()])
    for ours, theirs, slow in zip(kept.run([x]), plain.run([x]), executed, strict=True):
        assert bits_of(ours) == bits_of(theirs)
        assert bits_of(ours) == bits_of(slow)


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if is_float(dtype)], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_every_float_is_kept_as_it_is(dtype: DType, axis: int) -> None:
    graph, x = build(lambda x: softmax(x, axis=axis), [t(20, 37, dtype=dtype)]), values(dtype, (20, 37))
    result = in_place(graph)
    (actual,), (executed,) = result.run([x]), execute_schedule(result.stages.schedule, [x.copy()])
    assert bits_of(actual) == bits_of(executed)
    wide = np.exp(x.astype(np.float64) - x.astype(np.float64).max(axis, keepdims=True))
    loose = {2: 0.02, 4: 1e-6, 8: 1e-14}[dtype.itemsize]
    np.testing.assert_allclose(actual.astype(np.float64), wide / wide.sum(axis, keepdims=True), rtol=loose)


def test_softmax_computes_each_exponential_once() -> None:
    for axis in (0, 1):
        result = in_place(build(lambda x, axis=axis: softmax(x, axis=axis), [t(64, 128)]))
        assert (calls(result), locals_of(result)) == (1, 1)


def test_what_is_cheap_is_computed_again() -> None:
    result = in_place(build(lambda x: add(mul(x, x), along(reduce_sum(mul(x, x), axes=(1,)), x)), [t(8, 64)]))
    assert locals_of(result) == 0


def test_rows_beyond_the_cache_and_of_named_length_are_computed_again() -> None:
    n = Dim.name("n")
    keeping = CPU.heuristics.row_materialisation
    assert keeping is not None
    most = keeping.most_bytes // 4
    for shape, count in (((16, most), 1), ((16, most + 1), 2), ((16, n), 2), ((n, 64), 1)):
        assert calls(in_place(build(lambda x: softmax(x, axis=1), [t(*shape)]))) == count, shape
    columns = keeping.most_bytes // keeping.lane_bytes
    assert calls(in_place(build(lambda x: softmax(x, axis=0), [t(columns, 32)]))) == 1
    assert calls(in_place(build(lambda x: softmax(x, axis=0), [t(columns + 1, 32)]))) == 2


def test_the_last_of_a_chain_is_what_is_kept() -> None:
    """Of erf(x) and exp(erf(x)), both wanted by two loops, exp(erf(x)) alone: nobody wants erf(x) by itself."""

    def function(x: Value) -> Any:
        y = exp(erf(x))
        return add(y, along(reduce_sum(y, axes=(1,)), x))

    result = in_place(build(function, [t(6, 30, dtype=float64)]))
    assert (calls(result), locals_of(result)) == (2, 1)


def test_a_sum_inside_of_a_sum_does_not_load_what_is_stored_later() -> None:
    """exp(x) is asked for in the outer sum's loop before the inner sum's loop, which comes first, is written."""

    def function(x: Value) -> Any:
        y = exp(x)
        return reduce_sum(mul(y, along(reduce_sum(y, axes=(1,)), x)), axes=(1,)), y

    graph, x = build(function, [t(6, 45, dtype=bfloat16)]), values(bfloat16, (6, 45))
    result = in_place(graph)
    for actual, slow in zip(result.run([x]), execute_schedule(result.stages.schedule, [x.copy()]), strict=True):
        assert bits_of(actual) == bits_of(slow)
