"""The entry of the host: what it asks of a driver that notes everything, held against the table of launches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.codegen.cuda.failures import LAUNCH_SHIFT
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.dims import Dim
from jitgraph.ir.types import TensorType
from jitgraph.ops import OPS
from jitgraph.runtime import loader
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.codegen.cuda.launched import schedule_of
from tests.codegen.cuda.planned import Planned
from tests.codegen.cuda.programs import floats, traced
from tests.graphs import needs_native
from tests.op_loop import require_same, samples_by_names

pytestmark = needs_native


@contextmanager
def _made(name: str) -> Iterator[Planned]:
    graph, arguments = traced(name)
    yield Planned(schedule_of(graph), arguments)


@pytest.mark.parametrize("name", ["sum_of_all", "gradient_of_layer_norm", "cross_entropy", "batched_product"])
def test_an_entry_launches_all_steps_in_order(name: str) -> None:
    with _made(name) as planned:
        assert planned.run() == loader.OK
        launched = ["cuLaunchKernel"] * len(planned.code.launches)
        around = (["cuMemsetD32Async"], ["cuMemcpyDtoHAsync_v2"]) if planned.code.reports else ([], [])
        assert planned.driver.calls == [*around[0], *launched, *around[1]]
        assert planned.record[1] == (-1 if planned.code.reports else 0)
        require_same(execute_schedule(planned.schedule, planned.arguments), planned.results(), ulps=0)


def test_sizes_by_name_become_grids() -> None:
    samples = samples_by_names("reduce_sum", np.dtype(np.float32))
    planned = Planned(schedule_of(samples.graph), list(samples.arguments))
    assert planned.run() == loader.OK
    require_same(execute_schedule(planned.schedule, planned.arguments), planned.results(), ulps=0)
    assert planned.run(**{planned.schedule.sizes[0]: -1}) == loader.SIZES_REFUSED


def test_a_grid_without_blocks_is_not_launched() -> None:
    builder = GraphBuilder()
    with context.using(emitter=builder, constraints=builder.constraints):
        x = builder.input(TensorType(dtypes.float32, (Dim.name("n"),)))
        outputs = builder.emit(OPS["exp"], [x], {}, ())
    planned = Planned(schedule_of(builder.graph(outputs, "empty")), [np.zeros(0, np.float32)])
    assert planned.run() == loader.OK
    assert planned.driver.calls == []


def test_a_failed_check_is_in_the_record_of_the_call() -> None:
    arguments = [floats(4, 5).numpy(), np.array([2, 9, 1])]
    schedule = schedule_of(jg.trace(lambda x, i: jg.take(x, i, axis=1) + 1).lower(*map(jg.asarray, arguments)).graph)
    planned = Planned(schedule, arguments)
    assert planned.run() == loader.OK
    _, order, value, bound, check = planned.record
    assert (order >> LAUNCH_SHIFT, value, bound) == (0, 9, 5)
    assert schedule.checks[check].kind == "IndexError"


@pytest.mark.parametrize("symbol", ["cuMemsetD32Async", "cuLaunchKernel", "cuMemcpyDtoHAsync_v2"])
def test_what_the_driver_refuses_ends_the_entry(symbol: str) -> None:
    with _made("cross_entropy") as planned:
        planned.driver.result[symbol] = 719
        assert planned.run() == -719
        assert planned.driver.calls[-1] == symbol
        assert planned.call.error.check_id == (len(planned.code.launches) if symbol.startswith("cuMemcpy") else 0)
