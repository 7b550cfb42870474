"""Attention whose scores are in no memory: near float64 within what its roundings allow, both ways; masks and code."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import ops
from jitgraph.codegen.kernels.kernel_text import print_kernel
from jitgraph.codegen.kernels.kernel_verifier import verify_kernel
from jitgraph.codegen.kernels.schedule import Launch
from jitgraph.dtypes import DType, bfloat16, float16, float32
from jitgraph.ir import dims
from jitgraph.ir.target import Target
from jitgraph.tensor import lifting, wrap
from jitgraph_testing.kernels.kernel_parser import parse_kernel
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.codegen.cuda.assembled import assemble, needs_ptxas
from tests.codegen.cuda.attentions import (
    FREE,
    Array,
    Problem,
    cotangent,
    graph_of,
    in_float64,
    is_whole,
    problem,
    ptx_of,
    simulated,
)
from tests.codegen.cuda.launched import SM_90, code_of, run, schedule_of

ALL = os.environ.get("CUDA_DTYPES") == "all"
"""Every dtype and every GPU, which takes long."""

UNIT = {float32: 2.0**-24, bfloat16: 2.0**-8, float16: 2.0**-11}


def require_near(argument: Problem, actual: list[Array], wanted: list[Array]) -> None:
    """Within the roundings of weights and results, the sums' and the exponentials', relative to what is added.

    In float32 scores lose E units, and so a weight the same times the greatest score; 16-bit floats lose three units of
    their own, of weights, of their cotangents and of the result.
    """
    q, k, v = (np.abs(x.astype(np.float64)) for x in argument.operands[:3])
    dtype = argument.operands[0].dtype
    ct, largest = np.abs(cotangent(argument).astype(np.float64)), lambda x: float(x.max(initial=0.0))
    score = 8 + q.shape[-1] * largest(q) * largest(k) * argument.scale
    unit = (3 * UNIT[dtype] if dtype != float32 else 0.0) + UNIT[float32] * score
    of_scores = 2 * v.shape[-1] * largest(ct) * largest(v) * argument.scale
    keys, rows = max(k.shape[-2], 1), max(q.shape[-2], 1)
    bounds = [
        largest(v) * unit,
        UNIT[float32] * score * 2,
        of_scores * largest(k) * unit,
        of_scores * largest(q) * unit * rows,
        largest(ct) * unit * rows,
    ]
    assert keys and len(actual) >= len(wanted)
    for got, want, bound in zip(actual, wanted, bounds, strict=False):
        known = np.isfinite(want)
        np.testing.assert_array_equal(np.isfinite(got.astype(np.float64)), known)
        np.testing.assert_allclose(got.astype(np.float64)[known], want[known], rtol=0, atol=bound)


SHAPES = {
    "one_of_each": ((1, 1), (16, 16), {}),
    "no_multiples": ((21, 37), (24, 9), {}),
    "causal_fewer_queries": ((70, 100), (16, 16), {"causal": True}),
    "causal_more_queries": ((70, 33), (16, 16), {"causal": True}),
    "no_keys": ((5, 0), (16, 16), {}),
    "large_scores": ((20, 40), (16, 16), {"large": 60.0}),
    "one_feature": ((3, 18), (1, 1), {}),
}


@pytest.mark.parametrize("dtype", [float32, bfloat16, *([float16] if ALL else [])], ids=str)
@pytest.mark.parametrize("name", SHAPES)
def test_it_is_near_float64(name: str, dtype: DType) -> None:
    lengths, features, more = SHAPES[name]
    inputs = problem(dtype, lengths, features, **more)
    with np.errstate(invalid="ignore"):
        wanted = in_float64(inputs)
    if name == "no_keys":  # of nothing the mean is NaN, here as in the definition
        wanted = [np.full(wanted[0].shape, np.nan), np.full(wanted[1].shape, -np.inf), *wanted[2:]]
    require_near(inputs, simulated(inputs, 1), wanted)


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
@pytest.mark.parametrize("kind", ["bool", "numbers"])
def test_masks(kind: str, dtype: DType) -> None:
    """Whole rows that see nothing give 0 and get no gradient, and so do keys that nobody sees."""
    inputs = problem(dtype, (20, 35), batch=(2,))
    seen = np.random.default_rng(1).random((2, 20, 35)) < 0.6
    seen[0, 3], seen[1, 17], seen[:, :, 5] = False, False, False
    numbers = np.random.default_rng(2).standard_normal(seen.shape).astype(dtype)
    mask = seen if kind == "bool" else np.where(seen, numbers, np.asarray(-np.inf, dtype)).astype(dtype)
    inputs = replace(inputs, operands=(*inputs.operands, mask))
    out, spread, dq, dk, dv, *of_mask = result = simulated(inputs, 2)
    require_near(inputs, result, in_float64(inputs))
    for array in (out, dq):
        assert not array[0, 3].any() and not array[1, 17].any()
    assert np.isposinf(spread[0, 3]) and not dk[:, 5].any() and not dv[:, 5].any()
    assert len(of_mask) == (kind == "numbers")


def test_scores_that_are_not_finite_are_those_of_the_definition() -> None:
    inputs = problem(float32, (6, 20))
    q, k, v = inputs.operands
    q[1, 0], q[2], q[3, 2] = np.nan, 0.0, np.inf
    k[7, 1], v[4, 4] = -np.inf, np.inf
    result = simulated(inputs)
    wanted = execute_schedule(schedule_of(graph_of(inputs)), [*inputs.operands, cotangent(inputs)])
    for got, want in zip(result, wanted, strict=True):
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_equal_scores_weigh_the_same() -> None:
    inputs = problem(float32, (4, 48))
    inputs = replace(inputs, operands=(np.zeros_like(inputs.operands[0]), *inputs.operands[1:]))
    out, spread, *_ = simulated(inputs)
    np.testing.assert_allclose(out, np.broadcast_to(inputs.operands[2].mean(0), out.shape), atol=1e-6)
    np.testing.assert_allclose(spread, np.log(48.0), rtol=1e-6)


def test_dropout_is_that_of_the_definition_in_both_directions() -> None:
    inputs = problem(float32, (18, 21), (8, 8), (2,), dropout=0.3)
    inputs = replace(inputs, operands=(*inputs.operands, np.array([5, 9], np.uint64)))
    wanted = execute_schedule(schedule_of(graph_of(inputs)), [*inputs.operands, cotangent(inputs)])
    for got, want in zip(simulated(inputs), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=4e-6)


@pytest.mark.parametrize("dtype", [float32, bfloat16, float16], ids=str)
def test_barriers_order_all_that_threads_exchange(dtype: DType) -> None:
    inputs = problem(dtype, (17, 150), (8, 8))
    require_near(inputs, simulated(inputs, 3, races=True), in_float64(inputs))


def test_sizes_that_have_names() -> None:
    names = [("b", "n", 8), ("b", "m", 8), ("b", "m", 8)]
    inputs = problem(float32, (30, 40), (8, 8), (2,), causal=True)
    schedule = schedule_of(graph_of(inputs, names), FREE)
    code = code_of(schedule, FREE)
    assert is_whole(schedule)
    for lengths in ((30, 40), (1, 17)):
        inputs = problem(float32, lengths, (8, 8), (2,), causal=True)
        require_near(inputs, run(schedule, code, [*inputs.operands, cotangent(inputs)]), in_float64(inputs))


def test_gradients_of_gradients_go_by_the_definition() -> None:
    def slopes(q: Any, k: Any, v: Any) -> Any:
        attend = lambda q: (jg.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True) ** 2).sum()
        return jg.grad(lambda q: (jg.grad(attend)(q) ** 2).sum())(q)

    arrays = [x.astype(np.float32) for x in problem(float32, (7, 9), (4, 4)).operands]
    graph = jg.trace(slopes).lower(*map(jg.asarray, arrays)).graph
    (want,) = execute_schedule(schedule_of(graph), arrays)
    schedule = schedule_of(graph, FREE)
    (got,) = run(schedule, code_of(schedule, FREE), arrays)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


def test_its_kernels_have_text_and_rules_and_a_slow_executor() -> None:
    inputs = problem(bfloat16, (20, 35), (16, 8), (2,), causal=True)
    schedule = schedule_of(graph_of(inputs), FREE)
    for step in schedule.steps:
        assert isinstance(step, Launch)
        assert parse_kernel(print_kernel(step.kernel)) == step.kernel
        verify_kernel(step.kernel)
    require_near(inputs, execute_schedule(schedule, [*inputs.operands, cotangent(inputs)]), in_float64(inputs))


def test_memory_is_linear_in_the_length() -> None:
    def arena(length: int, target: Any) -> int:
        plan = schedule_of(graph_of(problem(bfloat16, (length, length), (64, 64), (2, 4))), target).plan
        assert plan is not None
        return dims.evaluate(plan.arena_bytes, {})

    assert arena(2048, FREE) == 2 * arena(1024, FREE) < 1 << 20
    assert arena(2048, SM_90) >= 3 * arena(1024, SM_90) > 1 << 24


@pytest.mark.parametrize(
    ("given", "target"),
    [
        (problem(float32, (8, 8), (129, 8)), FREE),
        (problem(np.float64, (8, 8)), FREE),
        (problem(float32, (8, 8)), SM_90),
        (problem(float32, (8, 8)), Target.named("x86-64-v3").in_any_order()),
    ],
    ids=["many_features", "float64", "in_order", "a_processor"],
)
def test_what_has_no_such_kernel_goes_by_the_definition(given: Problem, target: Any) -> None:
    assert not is_whole(schedule_of(graph_of(given), target))


def test_a_cotangent_of_the_logarithms() -> None:
    """It goes by the definition: softmax is the gradient of the logarithm of a sum of exponentials."""
    q, k, v = problem(float32, (3, 5), (4, 4)).operands
    others = [lifting.value_of(jg.asarray(x)) for x in (k, v)]

    def spread(q: Any) -> Any:
        return wrap(ops.attention(q.value, *others, scale=1.0, causal=False, dropout=0.0)[1]).sum()

    result = jg.grad(spread)
    scores = q @ k.T
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(result(jg.asarray(q)).numpy(), weights @ k, rtol=1e-5, atol=1e-6)


@needs_ptxas
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"] if ALL else ["sm_80"])
def test_the_assembler_takes_them_without_spills(arch: str) -> None:
    some = [(dtype, features) for dtype in UNIT for features in (64, 128)] if ALL else [(float32, 128), (bfloat16, 64)]
    target = Target.named(arch).in_any_order()
    codes = [ptx_of(problem(dtype, (256, 256), (count, count), causal=True), target) for dtype, count in some]
    used = [function for function in assemble(codes, arch) if "attention" in function.name]
    assert len(used) == 3 * len(codes) and not [function for function in used if function.spilled or function.stack]
