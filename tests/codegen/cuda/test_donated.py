"""Kernels that write state in place on a GPU: threads that read the old value have done so before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitgraph import dtypes, ops
from jitgraph.codegen.kernels.memory import plan_memory
from jitgraph.codegen.kernels.schedule import Launch, Schedule, ScheduleBuffer
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.select import select
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.graph import Graph
from jitgraph.ir.types import TensorType
from jitgraph.runtime import loader
from jitgraph_testing.kernels.kernel_parser import parse_kernel
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.codegen.cuda import launched
from tests.codegen.cuda.planned import Planned
from tests.graphs import needs_native

ROWS, COLUMNS = 3, 200


def graph_of(function: Callable[..., tuple[Any, ...]], *shapes: tuple[int, ...]) -> Graph:
    builder = GraphBuilder()
    with context.using(emitter=builder, constraints=builder.constraints):
        outputs = function(*[builder.input(TensorType(dtypes.float32, shape)) for shape in shapes])
    return builder.graph(list(outputs), "donated")


def summed(s: Any, x: Any) -> tuple[Any, ...]:
    """A row's state with the row's sum."""
    return (ops.add(s, ops.reduce_sum(ops.exp(x), axes=(1,))),)


def stepped(s: Any, x: Any) -> tuple[Any, ...]:
    """A step of momentum."""
    m = ops.add(ops.add(s, s), x)
    return m, ops.sub(x, m)


@pytest.mark.parametrize(("function", "shape"), [(summed, (ROWS,)), (stepped, (ROWS, COLUMNS))])
def test_state_in_place_is_what_it_is_elsewhere(
    function: Callable[..., tuple[Any, ...]], shape: tuple[int, ...]
) -> None:
    graph = graph_of(function, shape, (ROWS, COLUMNS))
    rng = np.random.default_rng(0)
    arrays = [np.asarray(rng.normal(size=size), np.float32) for size in (shape, (ROWS, COLUMNS))]
    plain = launched.schedule_of(graph)
    expected = launched.run(plain, launched.code_of(plain), arrays)
    schedule = launched.schedule_of(graph, donate=[(0, 0)])
    assert schedule.plan is not None
    assert schedule.plan.donations == {"out0": "in0"}
    code = launched.code_of(schedule)
    for seed in range(3):
        for have, want in zip(launched.run(schedule, code, arrays, seed, races=True), expected, strict=True):
            np.testing.assert_array_equal(have, want)


_ROWS = f"""kernel @rows(read p0: f32[{ROWS}], read p1: f32[{ROWS * COLUMNS}], write p2: f32[{ROWS}],
 write p3: f32[{ROWS * COLUMNS}]) {{
  parallel _i0 < {ROWS} {{
    _v0: f32 = load p0[_i0]
    _v1: f32 = add(_v0, _v0)
    store p2[_i0] = _v1
    vector _i1 < {COLUMNS} {{
      _v2: f32 = load p1[{COLUMNS}*_i0 + _i1]
      _v3: f32 = mul(_v2, _v0)
      store p3[{COLUMNS}*_i0 + _i1] = _v3
    }}
  }}
}}
""".replace(",\n", ",")


def test_a_team_reads_what_one_of_its_threads_overwrites() -> None:
    row, full = (TensorType(dtypes.float32, shape) for shape in ((ROWS,), (ROWS, COLUMNS)))
    buffers = (
        ScheduleBuffer("in0", row, "input", 0),
        ScheduleBuffer("in1", full, "input", 1),
        ScheduleBuffer("out0", row, "output", 0),
        ScheduleBuffer("out1", full, "output", 1),
    )
    launch = Launch(parse_kernel(_ROWS), tuple(buffer.name for buffer in buffers))
    schedule = plan_memory(Schedule("rows", buffers, (launch,)), [(0, 0)], reads_again=True)
    assert schedule.plan is not None
    assert schedule.plan.donations == {"out0": "in0"}
    s, x = np.arange(1, ROWS + 1, dtype=np.float32), np.ones((ROWS, COLUMNS), np.float32)
    code = launched.code_of(schedule)
    for seed in range(3):
        doubled, scaled = launched.run(schedule, code, [s, x], seed, races=True)
        np.testing.assert_array_equal(doubled, 2 * s)
        np.testing.assert_array_equal(scaled, x * s[:, None])


def test_a_single_element_that_launches_read_again_stays() -> None:
    graph = graph_of(lambda s: (ops.add(s, s),), ())
    schedule = launched.schedule_of(graph, donate=[(0, 0)])
    assert schedule.plan is not None
    assert schedule.plan.donations == {}
    plan = plan_memory(select(graph, CPU), [(0, 0)]).plan
    assert plan is not None
    assert plan.donations == {"out0": "in0"}


def written_rows(k: Any, v: Any, row: Any) -> tuple[Any, ...]:
    """A row of each state, where the index of the second is checked behind the write of the first."""
    index = ops.cast(ops.slice(row, starts=(0,), stops=(1,), strides=(1,)), dtype=dtypes.int64)
    updates = ops.reshape(row, shape=(1, row.shape[0]))
    k = ops.scatter(k, index, updates, axis=0)
    v = ops.scatter(v, ops.add(index, index), ops.add(updates, updates), axis=0)
    return k, v, ops.reduce_sum(k, axes=(1,))


@needs_native
@pytest.mark.parametrize("first", [1, 5, 9, 12])
def test_rows_of_state_are_written_in_place(first: int) -> None:
    """The host launches no copy of memory to itself; where a check fails nothing is written."""
    rows, columns = 12, 70
    graph = graph_of(written_rows, (rows, columns), (rows, columns), (columns,))
    rng = np.random.default_rng(0)
    arrays = [np.asarray(rng.normal(size=size), np.float32) for size in ((rows, columns), (rows, columns), (columns,))]
    arrays[2][0] = first
    schedule = launched.schedule_of(graph, donate=[(0, 0), (1, 1)])
    assert schedule.plan is not None
    assert schedule.plan.donations == {"out0": "in0", "out1": "in1"}
    counts = []
    for donated in (False, True):
        planned = Planned(schedule, arrays, donated=donated)
        assert planned.run() == loader.OK
        counts.append(planned.driver.calls.count("cuLaunchKernel"))
        failed = planned.record[1] != -1
        assert failed == (2 * first >= rows)
        if not failed:
            for have, want in zip(planned.results(), execute_schedule(schedule, arrays), strict=True):
                np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)
        elif donated:
            for have, want in zip(planned.results()[:2], arrays, strict=False):
                np.testing.assert_array_equal(have, want)
    assert counts[0] == counts[1] + 2
