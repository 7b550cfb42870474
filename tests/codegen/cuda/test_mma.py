"""Products on tensor cores, where sums may go in any order: near the executor's, whatever sides and steps there are."""

from __future__ import annotations

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.codegen.kernels.schedule_executor import execute_schedule
from jitgraph.dtypes import DType, bfloat16, float16
from tests.codegen.cuda.assembled import assemble, needs_ptxas
from tests.codegen.cuda.launched import SM_90, code_of, run, schedule_of
from tests.codegen.cuda.programs import floats

FREE = SM_90.in_any_order()


def product(dtype: DType, m: int, k: int, n: int, *, turned: bool) -> tuple[object, list[object]]:
    """A graph with a prologue and an epilogue, and its arguments; the right operand by columns where ``turned``."""
    x, y = floats(m, k).astype(dtype), floats(*((n, k) if turned else (k, n))).astype(dtype)
    graph = jg.trace(lambda x, y: jg.nn.functional.relu(x @ (y.T if turned else y)) + 1).lower(x, y).graph
    return graph, [x.numpy(), y.numpy()]


@pytest.mark.parametrize("dtype", [bfloat16, float16], ids=str)
@pytest.mark.parametrize(("m", "k", "n", "turned"), [(128, 64, 128, False), (130, 37, 70, True), (70, 1, 129, False)])
def test_products_are_near_those_in_order(dtype: DType, m: int, k: int, n: int, turned: bool) -> None:
    graph, arguments = product(dtype, m, k, n, turned=turned)
    schedule = schedule_of(graph, FREE)
    code = code_of(schedule, FREE)
    assert "mma.sync" in code.texts["ptx"]
    (want,) = execute_schedule(schedule, arguments)
    (got,) = run(schedule, code, arguments, seed=1)
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=2**-7, atol=1e-4)


def test_products_in_order_use_no_tensor_cores() -> None:
    graph, _ = product(bfloat16, 128, 64, 128, turned=False)
    assert "mma.sync" not in code_of(schedule_of(graph)).texts["ptx"]


@needs_ptxas
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_assembler_takes_them_without_spills(arch: str) -> None:
    codes = [
        code_of(schedule_of(product(dtype, 512, 256, 512, turned=turned)[0], FREE), FREE).texts["ptx"]
        for dtype in (bfloat16, float16)
        for turned in (False, True)
    ]
    used = assemble(codes, arch)
    assert used and not [function for function in used if function.spilled]
