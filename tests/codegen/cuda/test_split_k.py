"""Products of few elements over many steps are cut into parts of their steps, and keep the bits of the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.codegen.kernels.kernel import Contract, Kernel, statements_of
from jitgraph.codegen.kernels.kernel_text import print_kernel
from jitgraph.codegen.kernels.kernel_verifier import verify_kernel
from jitgraph.codegen.kernels.schedule import Launch, Schedule
from jitgraph.codegen.lower.contraction import span_of
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.schedules.gpu import GPU
from jitgraph.codegen.lower.select import select
from jitgraph.ir.target import Target
from jitgraph.passes import pipeline
from jitgraph_testing.kernels.kernel_parser import parse_kernel
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.codegen.cuda.assembled import assemble, needs_ptxas
from tests.codegen.cuda.launched import SM_90, Array, code_of, run, schedule_of

BLOCK = 384
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], str, int]] = {
    "blocks, the last one short": ((3, 5 * BLOCK + 100), (5 * BLOCK + 100, 5), "float32", BLOCK),
    "blocks, the last one of a step": ((17, 4 * BLOCK + 1), (4 * BLOCK + 1, 2), "float64", BLOCK),
    "runs of four blocks": ((40, 2, 9 * BLOCK + 5), (40, 9 * BLOCK + 5, 2), "float32", 4 * BLOCK),
    "sums in float32": ((2, 5 * BLOCK), (5 * BLOCK, 3), "bfloat16", BLOCK),
    "bytes, in four stages": ((9, 4 * BLOCK + 16), (4 * BLOCK + 16, 3), "int8", BLOCK),
}


def numbers(dtype: str, *shape: int) -> Array:
    values = np.random.default_rng(sum(shape)).standard_normal(shape) * 5
    return values.astype(np.int8 if dtype == "int8" else getattr(jg, dtype))


def product(x: Any, y: Any) -> Any:
    """With something behind."""
    return jg.matmul(x, y) + x[..., :1]


def contract_of(schedule: Schedule) -> tuple[Kernel, Contract]:
    (actual,) = [
        (step.kernel, s)
        for step in schedule.steps
        if isinstance(step, Launch)
        for s in statements_of(step.kernel.body)
        if isinstance(s, Contract)
    ]
    return actual


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", ["in order", "in any order"])
def test_parts_have_the_bits_of_the_whole(case: str, way: str) -> None:
    left, right, dtype, span = CASES[case]
    x, y = numbers(dtype, *left), numbers(dtype, *right)
    graph = jg.trace(product).lower(x, y).graph
    target = SM_90 if way == "in order" else SM_90.in_any_order()
    schedule = schedule_of(graph, target)
    kernel, contract = contract_of(schedule)
    assert contract.span == span and not contract.is_whole
    verify_kernel(kernel)
    assert parse_kernel(print_kernel(kernel)) == kernel
    (want,) = execute_schedule(select(pipeline.run(graph, SM_90), CPU), [x, y])
    if way == "in order":
        (got,) = execute_schedule(schedule, [x, y])
        np.testing.assert_array_equal(got, want)
    (got,) = run(schedule, code_of(schedule, target), [x, y], seed=1)
    if way == "in order" or dtype == "int8":
        np.testing.assert_array_equal(got, want)
    else:
        loss = 2.0**-6 if dtype == "bfloat16" else 2.0**-18
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=loss, atol=loss * left[-1])


@needs_ptxas
def test_parts_assemble_without_spills() -> None:
    x, y = numbers("float32", 64, 5000), numbers("float32", 5000, 64)
    schedule = schedule_of(jg.trace(product).lower(x, y).graph)
    for usage in assemble([code_of(schedule).texts["ptx"]], "sm_90"):
        assert usage.spilled == 0


@needs_ptxas
def test_few_panels_stay_in_a_loop() -> None:
    """Four panels all written out for sm_80 would take 179 registers, and more than there are with other epilogues."""
    sm_80 = Target.named("sm_80")
    inputs = [numbers("float32", *shape) for shape in ((64, 64), (32, 64), (32,), (64, 32))]
    graph = jg.trace(lambda x, w, b, r: r + (x @ w.T + b)).lower(*inputs).graph
    (usage,) = assemble([code_of(schedule_of(graph, sm_80), sm_80).texts["ptx"]], "sm_80")
    assert usage.spilled == 0 and usage.registers <= 96


def test_a_convolution_is_cut_as_well() -> None:
    """The gradient of weights, whose steps are the places of all images."""
    x, ct = numbers("float32", 2, 3, 40, 40), numbers("float32", 2, 4, 40, 40)

    def gradient(x: Any, w: Any, ct: Any) -> Any:
        return jg.grad(lambda w: (jg.nn.functional.conv2d(x, w, padding=1) * ct).sum())(w)

    inputs = [x, numbers("float32", 4, 3, 3, 3), ct]
    graph = jg.trace(gradient).lower(*inputs).graph
    schedule = schedule_of(graph)
    assert contract_of(schedule)[1].span == BLOCK
    (got,) = run(schedule, code_of(schedule), inputs)
    np.testing.assert_array_equal(got, jg.trace(gradient)(*inputs).numpy())


@pytest.mark.parametrize(
    ("around", "m", "n", "k", "span"),
    [
        (1, 64, 64, 4 * BLOCK, BLOCK),
        (1, 64, 64, 4 * BLOCK - 1, None),  # few steps
        (1, 512, 512, 1 << 14, 32 * BLOCK),
        (1, 513, 512, 1 << 14, None),  # enough tiles
        (64, 1, 1, 1 << 14, 32 * BLOCK),
        (65, 1, 1, 1 << 14, None),
        (0, 1, 1, 1 << 14, None),
        (1, jg.ir.dims.Dim.name("n"), 8, 1 << 14, None),
        (1, 8, 8, jg.ir.dims.Dim.name("n"), None),
    ],
)
def test_which_products_are_cut(around: int, m: Any, n: Any, k: Any, span: int | None) -> None:
    assert span_of(GPU.heuristics.products, around, (m, n, k)) == span
    assert span_of(CPU.heuristics.products, around, (m, n, k)) is None
