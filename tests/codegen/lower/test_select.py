"""Selection: schedules in the slow executor give what the interpreter gives, for the whole op table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitgraph import dtypes
from jitgraph.codegen.kernels.kernel import Let, statements_of
from jitgraph.codegen.kernels.schedule import Launch, Schedule
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.select import select
from jitgraph.ir.builder import build
from jitgraph.ir.dims import Dim
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.types import TensorType
from jitgraph.ops import (
    OPS,
    add,
    argmax,
    check,
    exp,
    full_like,
    gather,
    lt,
    mul,
    neg,
    reduce_max,
    reduce_sum,
    sort,
    transpose,
    while_,
)
from jitgraph.ops import select as where
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.coverage_table import note
from tests.graphs import t
from tests.op_loop import Case, cases, is_complex, label, require_same, samples_by_names, samples_of

SUMS = frozenset({"reduce_sum", "reduce_prod", "cumsum", "cumprod", "scatter_add", "scan", "avg_pool2d"})

EXTREMES = frozenset({"reduce_max", "reduce_min", "cummax", "cummin"})  # NumPy leaves open which of -0.0 and 0.0 wins


def calls_math(schedule: Schedule) -> bool:
    """Whether a math function, which has an error bound instead of exact bits, is called anywhere."""
    return any(
        isinstance(statement, Let) and statement.op == "call"
        for step in schedule.steps
        if isinstance(step, Launch)
        for statement in statements_of(step.kernel.body)
    )


def tolerance(case: Case, schedule: Schedule) -> float:
    inexact = calls_math(schedule) or any(node.op.name in SUMS or node.regions for node in case.graph.nodes)
    return 64.0 if inexact else 0.0


@pytest.mark.parametrize("case", [case for case in cases() if not is_complex(case)], ids=label)
def test_executor_equals_interpreter(case: tuple[str, dtypes.DType]) -> None:
    sampled = samples_of(*case)
    schedule = select(sampled.graph, CPU)
    expected = interpret(sampled.graph, sampled.arguments)
    result = execute_schedule(schedule, [np.asarray(x) for x in sampled.arguments])
    require_same(expected, result, ulps=tolerance(sampled, schedule), signs=case[0] not in EXTREMES)
    note(case[0], "executor", sampled.samples)


@pytest.mark.parametrize("name", dict.fromkeys(name for name, dtype in cases() if not is_complex((name, dtype))))
def test_named_sizes(name: str) -> None:
    case = samples_by_names(name, dtypes.float32)
    result = execute_schedule(select(case.graph, CPU), [np.asarray(x) for x in case.arguments])
    exact = OPS[name].kind == "contraction"
    require_same(interpret(case.graph, case.arguments), result, ulps=0 if exact else 64, signs=exact)


LONG: dict[str, tuple[Callable[..., Any], list[TensorType]]] = {
    "sum of all": (lambda x: reduce_sum(x, axes=(0, 1)), [t(1000, 300)]),
    "sum of a transposed": (lambda x: reduce_sum(transpose(x, permutation=(1, 0)), axes=(0, 1)), [t(1003, 33)]),
    "narrow columns": (lambda x: (reduce_sum(x, axes=(0,)), reduce_max(mul(x, x), axes=(0,))), [t(1003, 33)]),
    "wide columns": (lambda x: reduce_sum(exp(x), axes=(1,)), [t(2, 1003, 130)]),
    "argmax of all": (lambda x: argmax(x, axis=0), [t(40000)]),
    "argmax of columns": (lambda x: argmax(x, axis=0), [t(1003, 70)]),
    "transpose in tiles": (
        lambda x, y: add(transpose(x, permutation=(2, 0, 1)), y),
        [t(96, 2, 128), t(128, 96, 2)],
    ),
    "sort": (lambda x: sort(x, axis=0, descending=True, stable=True), [t(1000, 3)]),
}


@pytest.mark.parametrize("name", LONG)
def test_large_shapes(name: str) -> None:
    function, types = LONG[name]
    rng = np.random.default_rng(0)
    arguments = [rng.standard_normal(type.shape).astype(np.float32) for type in types]
    graph = build(function, types)
    result = execute_schedule(select(graph, CPU), arguments)
    require_same(
        interpret(graph, arguments), result, ulps=32, scale=1000.0 if "sum" in name or "columns" in name else 1.0
    )


def test_index_out_of_range_is_found_even_where_nothing_is_read() -> None:
    indices = TensorType(dtypes.int64, (3,))
    for shape in [(5, 4), (5, 0), (Dim.name("n"), Dim.name("m"))]:
        schedule = select(build(lambda x, i: gather(x, i, axis=0), [t(*shape), indices]), CPU)
        x = np.zeros([extent if isinstance(extent, int) else k * 5 for k, extent in enumerate(shape, 1)], np.float32)
        with pytest.raises(IndexError, match=f"index {len(x)} is out of range for an axis of {len(x)} elements"):
            execute_schedule(schedule, [x, np.array([0, -1, len(x)])])


def test_check_names_its_kind() -> None:
    def program(x: Any) -> Any:
        check(lt(x, full_like(1.0, x)), kind="ZeroDivisionError", message="x is large")
        return neg(x)

    schedule = select(build(program, [t()]), CPU)
    assert execute_schedule(schedule, [np.float32(0)]) == [0]
    with pytest.raises(ZeroDivisionError, match="x is large"):
        execute_schedule(schedule, [np.float32(2)])


def test_carries_are_computed_in_place() -> None:
    types = [TensorType(dtypes.int64, ()), t(6)]
    condition = build(lambda i, x: lt(i, full_like(10, i)), types)
    body = build(lambda i, x: (add(i, full_like(1, i)), exp(neg(x))), types)
    graph = build(lambda i, x: while_(i, x, regions=(condition, body), num_carries=2), types)
    schedule = select(graph, CPU)
    turn = schedule.steps[-1]
    names = {step.kernel.name for step in turn.body if isinstance(step, Launch)}  # type: ignore[union-attr]
    assert not any(name.startswith("copy") for name in names)
    arguments = [np.array(3), np.linspace(0, 1, 6, dtype=np.float32)]
    require_same(interpret(graph, arguments), execute_schedule(schedule, arguments), ulps=8)


def test_carries_that_change_places() -> None:
    types = [TensorType(dtypes.int64, ()), t(3), t(3)]
    condition = build(lambda i, x, y: lt(i, full_like(5, i)), types)
    body = build(lambda i, x, y: (add(i, full_like(1, i)), y, where(lt(x, y), x, neg(x))), types)
    graph = build(lambda i, x, y: while_(i, x, y, regions=(condition, body), num_carries=3), types)
    arguments = [np.array(0), np.array([1, 2, 3], np.float32), np.array([3, 2, 1], np.float32)]
    require_same(interpret(graph, arguments), execute_schedule(select(graph, CPU), arguments), ulps=0)
