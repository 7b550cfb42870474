"""Products on tensor cores: near the executor's, whatever types, sides and steps there are, and exact for bytes.

Where sums go in any order, an element may be wrong by ``_LOSS`` of the sum of its products' magnitudes, beside the
rounding of the result: 2**-21 for float32 sums of up to some hundred steps, and 2**-10 more where tf32 rounds operands.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.codegen.cuda import mma
from jitgraph.dtypes import DType, bfloat16, float16, float32, float64, int8, is_float, uint8
from jitgraph.ir.target import GENERATIONS, Target
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.codegen.cuda.assembled import assemble, needs_ptxas
from tests.codegen.cuda.launched import SM_90, Array, code_of, run, schedule_of

FREE, TF32 = SM_90.in_any_order(), SM_90.in_tf32()
SHAPES = {f"{rows}x{columns}": shape for shape in mma.SHAPES for rows, columns in (shape[:2],)}
_LOSS = {bfloat16: 2.0**-21, float16: 2.0**-21, float32: 2.0**-10, float64: 2.0**-50}
_ROUNDING = {bfloat16: 2.0**-7, float16: 2.0**-10, float32: 2.0**-23, float64: 2.0**-52}
_DOUBLE: Any = np.float64
_LONG = os.environ.get("CUDA_DTYPES") == "all"
ARCHITECTURES = [f"sm_{sm}" for sm in GENERATIONS if _LONG or sm in (80, 120)]
CASES = [
    (dtype, shape)
    for dtype in (bfloat16, float16, float32, float64, int8, uint8)
    for shape in SHAPES
    if not (dtype == float64 and shape == "128x128")  # whose sums would take all registers
    and (_LONG or shape == ("128x16" if dtype.itemsize in (2, 4) else "32x32"))
]


def numbers(dtype: DType, *shape: int) -> Array:
    values = np.random.default_rng(sum(shape)).standard_normal(shape) * 2
    return values.astype(dtype) if is_float(dtype) else (values * 40).astype(np.int64).astype(dtype)


def matmul(x: Any, y: Any, turned: str) -> Any:
    """The product, whose operands lie the other way where ``turned`` names them."""
    return (x.T if "l" in turned else x) @ (y.T if "r" in turned else y)


def operands(dtype: DType, m: int, k: int, n: int, turned: str) -> tuple[Array, Array]:
    left, right = (
        numbers(dtype, *((k, m) if "l" in turned else (m, k))),
        numbers(dtype, *((n, k) if "r" in turned else (k, n))),
    )
    return left, right


def require_near(got: Array, left: Array, right: Array, want: Array) -> None:
    """Within the bound of the executor's result; equal where the elements are integers."""
    dtype = left.dtype
    if not is_float(dtype):
        np.testing.assert_array_equal(got, want)
        return
    sizes = np.abs(left.astype(_DOUBLE)) @ np.abs(right.astype(_DOUBLE))
    wide = want.astype(_DOUBLE)
    assert (np.abs(got.astype(_DOUBLE) - wide) <= _LOSS[dtype] * sizes + _ROUNDING[dtype] * np.abs(wide) + 1e-30).all()


@pytest.mark.parametrize(("dtype", "shape"), CASES)
def test_products_are_near_those_in_order(dtype: DType, shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sides that are no multiples of a tile, steps that are none of a panel, and each way for operands to lie."""
    rows, columns, *_ = SHAPES[shape]
    monkeypatch.setattr(mma, "SHAPES", (SHAPES[shape],))
    per_panel = 64 // dtype.itemsize
    modes = ((3 * per_panel, "", 8), (2 * per_panel + 5, "lr", 5), (5 * per_panel + 8, "r", 0), (4, "l", 1))
    if dtype.itemsize == 1 and shape != "32x32":  # bytes that are computed leave no registers for so many sums
        modes = modes[2:3]
    for k, turned, more in modes if _LONG else modes[1:3]:
        m, n = rows + more, columns - more
        left, right = operands(dtype, m, k, n, turned)
        graph = jg.trace(lambda x, y, turned=turned: matmul(x, y, turned)).lower(left, right).graph
        schedule = schedule_of(graph, TF32)
        code = code_of(schedule, TF32)
        assert "mma.sync" in code.texts["ptx"]
        (want,) = execute_schedule(schedule, [left, right])
        profile: list[Any] = []
        (got,) = run(schedule, code, [left, right], seed=k, races=_LONG, profile=profile)
        require_near(got, *matmul_sides(left, right, turned), want)
        assert all(counts.shared.transactions == counts.shared.least for counts in profile), "lanes wait for a bank"


def matmul_sides(left: Array, right: Array, turned: str) -> tuple[Array, Array]:
    return (left.T if "l" in turned else left), (right.T if "r" in turned else right)


def product(left: Array, right: Array, target: Any = FREE, function: Any = None, seed: int = 1) -> tuple[Array, Array]:
    """What the device makes of a product, and what the executor does."""
    graph = jg.trace(function or (lambda x, y: x @ y)).lower(left, right).graph
    schedule = schedule_of(graph, target)
    code = code_of(schedule, target)
    assert "mma.sync" in code.texts["ptx"]
    (want,) = execute_schedule(schedule, [left, right])
    (got,) = run(schedule, code, [left, right], seed=seed)
    return got, want


@pytest.mark.parametrize(("m", "k", "n"), [(1, 70, 40), (40, 70, 1), (3, 2, 5)])
def test_thin_products(m: int, k: int, n: int) -> None:
    left, right = numbers(bfloat16, m, k), numbers(bfloat16, k, n)
    require_near(*product(left, right)[:1], left, right, product(left, right)[1])


def test_products_with_a_fused_epilogue_and_in_batches() -> None:
    left, right = numbers(float16, 3, 40, 24), numbers(float16, 3, 24, 34)
    got, want = product(left, right, function=lambda x, y: jg.nn.functional.relu(x @ y) + 1)
    np.testing.assert_allclose(got.astype(_DOUBLE), want.astype(_DOUBLE), rtol=2**-9, atol=1e-4)


@pytest.mark.parametrize("turned", ["", "lr"])
def test_infinities_beside_an_operand_stay_outside(turned: str) -> None:
    """What lies behind the last step and the last row of a part is infinite, and no product is."""
    full = [numbers(bfloat16, 64, 64) for _ in range(2)]
    for array in full:
        array[40:], array[:, 40:] = np.inf, np.nan
    got, want = product(*full, function=lambda x, y: matmul(x[:40, :40], y[:40, :40], turned))
    left, right = matmul_sides(full[0][:40, :40], full[1][:40, :40], turned)
    assert np.isfinite(got.astype(_DOUBLE)).all()
    require_near(got, left, right, want)


def test_infinities_of_an_operand_reach_their_rows_alone() -> None:
    left, right = numbers(bfloat16, 20, 37), numbers(bfloat16, 37, 20)
    left[3, 36], right[0, 19] = np.inf, np.nan
    got, want = product(left, right)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))


def test_named_sizes() -> None:
    spec = jg.TensorSpec(("m", "k"), bfloat16), jg.TensorSpec(("k", "n"), bfloat16)
    graph = jg.trace(lambda x, y: x @ y).lower(*spec).graph
    schedule = schedule_of(graph, FREE)
    code = code_of(schedule, FREE)
    assert "mma.sync" in code.texts["ptx"]
    for m, k, n in ((70, 45, 33), (5, 64, 8), (3, 0, 4)):
        left, right = numbers(bfloat16, m, k), numbers(bfloat16, k, n)
        (want,) = execute_schedule(schedule, [left, right])
        require_near(run(schedule, code, [left, right], seed=2)[0], left, right, want)


def test_what_stays_off_tensor_cores() -> None:
    """Sums in order, and products of float32 unless tf32 was asked for."""
    for dtype, target in ((bfloat16, SM_90), (float64, SM_90), (float32, FREE)):
        x = numbers(dtype, 64, 64)
        graph = jg.trace(lambda x: x @ x).lower(x).graph
        assert "mma.sync" not in code_of(schedule_of(graph, target), target).texts["ptx"]


@pytest.mark.parametrize("dtype", [bfloat16, float32], ids=str)
def test_convolutions_and_their_gradients(dtype: DType) -> None:
    """Strided, dilated, padded and in groups: all three products are on tensor cores."""
    conv = jg.nn.functional.conv2d
    options = {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}
    x, w = numbers(dtype, 2, 4, 9, 7), numbers(dtype, 4, 2, 3, 2)

    def loss(x: Any, w: Any) -> Any:
        return jg.sum(conv(x, w, **options).astype(jg.float32))

    graph = jg.trace(lambda x, w: (conv(x, w, **options), *jg.grad(loss, argnums=(0, 1))(x, w))).lower(x, w).graph
    schedule = schedule_of(graph, TF32)
    code = code_of(schedule, TF32)
    assert code.texts["ptx"].count("mma.sync") >= 3
    tolerance = 2.0**-7 if dtype == bfloat16 else 2.0**-9
    for want, got in zip(execute_schedule(schedule, [x, w]), run(schedule, code, [x, w], seed=3), strict=True):
        scale = np.abs(want.astype(_DOUBLE)).max()
        np.testing.assert_allclose(
            got.astype(_DOUBLE), want.astype(_DOUBLE), rtol=tolerance, atol=tolerance * scale / 4
        )


@needs_ptxas
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_assembler_takes_them_without_spills(architecture: str) -> None:
    target = Target.named(architecture).in_tf32()
    codes = []
    for dtype in (bfloat16, float16, float32, float64, int8) if _LONG else (bfloat16, float64, int8):
        for turned, k in (("", 256), ("lr", 256), ("", 255)) if _LONG else (("", 255 + dtype.itemsize % 2),):
            left, right = (np.zeros(side.shape, dtype) for side in operands(dtype, 2048, k, 2047 + k % 2, turned))
            graph = jg.trace(lambda x, y, turned=turned: matmul(x, y, turned)).lower(left, right).graph
            codes.append(code_of(schedule_of(graph, target), target).texts["ptx"])
    used = assemble(codes, architecture)
    assert used and not [function for function in used if function.spilled]
