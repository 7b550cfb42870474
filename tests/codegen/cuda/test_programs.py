"""Whole functions on teams, parts and tiles: the bits of the executor in order, and near them in any order."""

from __future__ import annotations

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.ir.interpreter import interpret
from jitgraph.passes.autodiff import expand_grads
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.codegen.cuda.assembled import PROCESSORS, assemble, needs_ptxas
from tests.codegen.cuda.launched import SM_90, DeviceCheckError, code_of, run, schedule_of
from tests.codegen.cuda.programs import PROGRAMS, floats, traced
from tests.op_loop import require_same, samples_by_names

IN_ANY_ORDER = (
    "softmax_of_300",
    "softmax_of_5000",
    "layer_norm",
    "rows_in_parts",
    "sum_of_all",
    "outer_and_inner_axes",
)
WATCHED = {"softmax_of_300", "sort", "argsort", "rows_in_parts", "columns_in_parts", "transpose", "batched_product"}
"""Programs of few accesses, which are looked at for what no barrier orders."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_the_bits_of_the_executor(name: str) -> None:
    graph, arguments = traced(name)
    schedule = schedule_of(graph)
    code = code_of(schedule)
    expected = execute_schedule(schedule, arguments)
    for evaluated, executed in zip(interpret(expand_grads(graph), arguments), expected, strict=True):
        scale = float(np.abs(np.asarray(evaluated).astype(np.float64)).max())
        require_same([np.asarray(evaluated)], [executed], ulps=64, scale=scale)
    require_same(expected, run(schedule, code, arguments), ulps=0)
    require_same(expected, run(schedule, code, arguments, 1, races=name in WATCHED), ulps=0)


@pytest.mark.parametrize("name", IN_ANY_ORDER)
def test_sums_in_any_order_are_near(name: str) -> None:
    graph, arguments = traced(name)
    target = SM_90.in_any_order()
    schedule = schedule_of(graph, target)
    result = run(schedule, code_of(schedule, target), arguments, seed=3)
    for want, got in zip(execute_schedule(schedule, arguments), result, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max() * np.sqrt(np.log2(want.size + 2)))


@pytest.mark.parametrize("rows", [6, 1])
def test_a_failed_check_is_recorded_and_what_comes_after_it_does_not_run(rows: int) -> None:
    """Both where a thread leaves and where it stays for its team's barriers, nothing is read out of bounds."""
    for function in (lambda x, i: jg.take(x, i, axis=1), lambda x, i: jg.sum(jg.take(x, i, axis=1), axis=1) * 2):
        index = np.arange(300)
        index[[7, 250]] = 500, -501
        arguments = floats(rows, 500), jg.asarray(index)
        schedule = schedule_of(jg.trace(function).lower(*arguments).graph)
        with pytest.raises(DeviceCheckError) as failed:
            run(schedule, code_of(schedule), [argument.numpy() for argument in arguments], seed=1)
        assert (failed.value.value, failed.value.bound) in ((500, 500), (-501, 500))


def test_a_launch_after_a_failed_one_touches_nothing() -> None:
    """Where sizes are names a kernel of its own checks indices, and the one that reads by them does not."""
    samples = samples_by_names("gather", dtypes.float32)
    arguments = [np.array(argument) for argument in samples.arguments]
    for argument in arguments:
        if argument.dtype.kind == "i" and argument.size:
            argument.flat[0] = 1 << 20
    schedule = schedule_of(samples.graph)
    code = code_of(schedule)
    assert len(code.launches) > sum(launch.can_fail for launch in code.launches)
    with pytest.raises(DeviceCheckError):
        run(schedule, code, arguments)


@needs_ptxas
@pytest.mark.parametrize("arch", PROCESSORS)
def test_programs_spill_nothing(arch: str) -> None:
    codes = [code_of(schedule_of(traced(name)[0])).texts["ptx"] for name in PROGRAMS]
    assert not [function for function in assemble(codes, arch) if function.spilled]
