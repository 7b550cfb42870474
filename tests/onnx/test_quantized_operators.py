"""ONNX Runtime's operators on quantised values: equal to formulas in NumPy and to ONNX Runtime, to one unit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg

pytest.importorskip("onnx")
from onnx import numpy_helper

from tests.onnx.test_microsoft_operators import Case, by_jitgraph, integers, normal, sigmoid

U8, I8 = np.uint8, np.int8


def scale(value: float) -> Any:
    return np.array(value, np.float32)


def zero(value: int, dtype: Any = U8) -> Any:
    return np.array(value, dtype)


def wide(x: Any, factor: Any, point: Any) -> Any:
    return (x.astype(np.int32) - np.int32(point)).astype(np.float32) * factor


def narrow(y: Any, factor: Any, point: Any) -> Any:
    limits = np.iinfo(point.dtype)
    return np.clip(np.rint(y / factor) + np.int32(point), limits.min, limits.max).astype(point.dtype)


def of_two(function: Any) -> Any:
    def formula(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, s: Any, z: Any) -> Any:
        return narrow(function(wide(a, a_scale, a_zero), wide(b, b_scale, b_zero)), s, z)

    return formula


def of_one(function: Any) -> Any:
    def formula(x: Any, x_scale: Any, x_zero: Any, s: Any, z: Any, **how: Any) -> Any:
        return narrow(function(wide(x, x_scale, x_zero), **how), s, z)

    return formula


def softmax(x: Any, axis: int = -1, **how: Any) -> Any:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def average_pool(x: Any, kernel_shape: Any, strides: Any, channels_last: int = 0) -> Any:
    x = np.moveaxis(x, -1, 1) if channels_last else x
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel_shape, axis=(2, 3))
    y = windows[:, :, :: strides[0], :: strides[1]].mean((-2, -1))
    return np.moveaxis(y, 1, -1) if channels_last else y


def concat(s: Any, z: Any, *operands: Any, axis: int) -> Any:
    parts = [wide(*operands[i : i + 3]) for i in range(0, len(operands), 3)]
    return narrow(np.concatenate(parts, axis), s, z)


def where(condition: Any, x: Any, xs: Any, xz: Any, y: Any, ys: Any, yz: Any, s: Any, z: Any) -> Any:
    return narrow(np.where(condition, wide(x, xs, xz), wide(y, ys, yz)), s, z)


def gemm(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, c: Any, s: Any, z: Any, **how: Any
) -> Any:
    a, b = (x.T if how.get(name) else x for x, name in ((a, "transA"), (b, "transB")))
    total = (a.astype(np.int32) - np.int32(a_zero)) @ (b.astype(np.int32) - np.int32(b_zero)) + c
    return narrow(total.astype(np.float32) * (a_scale * b_scale * np.float32(how.get("alpha", 1.0))), s, z)


A = (integers(0, 256, 2, 3, 4, dtype=U8), scale(0.03), zero(128))
B = (integers(0, 256, 3, 4, dtype=U8), scale(0.02), zero(100))
SIGNED = (integers(-128, 128, 2, 3, 4, dtype=I8), scale(0.03), zero(5, I8))
IMAGE = (integers(0, 256, 2, 3, 6, 6, dtype=U8), scale(0.03), zero(128))
LAST = (integers(0, 256, 2, 6, 6, 3, dtype=U8), scale(0.03), zero(128))
TO, UNIT = (scale(0.05), zero(120)), (scale(1 / 255), zero(0))
POOL = {"kernel_shape": [2, 2], "strides": [2, 2]}

CASES = [
    Case("QLinearAdd", (*A, *B, *TO), of_two(np.add)),
    Case("QLinearAdd", (*SIGNED, *SIGNED, scale(0.05), zero(-3, I8)), of_two(np.add)),
    Case("QLinearMul", (*A, *B, *TO), of_two(np.multiply)),
    Case("QLinearSigmoid", (*A, *UNIT), of_one(sigmoid)),
    Case(
        "QLinearLeakyRelu",
        (*A, *TO),
        of_one(lambda x, alpha: np.where(x < 0, x * np.float32(alpha), x)),
        {"alpha": 0.2},
    ),
    Case("QLinearSoftmax", (*A, *UNIT), of_one(softmax), {"axis": -1, "opset": 13}),
    Case("QLinearConcat", (*TO, *A, integers(0, 256, 2, 5, 4, dtype=U8), scale(0.01), zero(3)), concat, {"axis": 1}),
    Case("QLinearWhere", (integers(0, 2, 3, 4).astype(bool), *B, *B[:1], scale(0.04), zero(9), *TO), where),
    Case("QLinearAveragePool", (*IMAGE, *TO), of_one(average_pool), POOL),
    Case("QLinearAveragePool", (*LAST, *TO), of_one(average_pool), {**POOL, "channels_last": 1}),
    Case(
        "QLinearGlobalAveragePool",
        (*IMAGE, *TO),
        of_one(lambda x, **how: x.mean((2, 3), keepdims=True)),
        {"channels_last": 0},
    ),
    Case(
        "QLinearGlobalAveragePool",
        (*LAST, *TO),
        of_one(lambda x, **how: x.mean((1, 2), keepdims=True)),
        {"channels_last": 1},
    ),
    *[
        Case("QGemm", (*left, *right, integers(-99, 99, 5), *TO), gemm, how)
        for left, right, how in (
            (
                (integers(0, 256, 3, 4, dtype=U8), scale(0.02), zero(7)),
                (integers(-99, 99, 4, 5, dtype=I8), scale(0.01), zero(0, I8)),
                {},
            ),
            (
                (integers(0, 256, 3, 4, dtype=U8), scale(0.02), zero(7)),
                (integers(-99, 99, 5, 4, dtype=I8), scale(0.01), zero(0, I8)),
                {"transB": 1, "alpha": 0.5},
            ),
        )
    ],
]
IDS = [f"{case.op}-{i}" for i, case in enumerate(CASES)]


def near(got: Any, want: Any, share: float = 0.1) -> None:
    """Equal but for one unit where a number lies halfway, as a small share of them does."""
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    gap = np.abs(got.astype(int) - want.astype(int))
    assert gap.max() <= 1 and (gap > 0).mean() < share


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_operator_equals_its_formula(case: Case) -> None:
    (got,), (want,) = by_jitgraph(case), case.want()
    near(got, want)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_formula_equals_onnx_runtime(case: Case) -> None:
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(case.model().SerializeToString(), options, providers=["CPUExecutionProvider"])
    (got,), (want,) = session.run(None, case.named()), case.want()
    near(got, want, 0.5 if case.op == "QLinearSoftmax" else 0.1)  # that it reads from a table


def test_an_lstm_with_quantised_weights_equals_onnx_runtime() -> None:
    """Its inputs and states are quantised step by step; the weights are given [D, I, 4 * H]."""
    runtime = pytest.importorskip("onnxruntime")
    x, hidden = normal(7, 2, 6), 4
    weights = integers(-120, 120, 2, 6, 4 * hidden, dtype=I8), integers(-120, 120, 2, hidden, 4 * hidden, dtype=I8)
    scales = np.array([0.01, 0.02], np.float32), np.array([0.015, 0.01], np.float32)
    points = np.zeros(2, I8), np.zeros(2, I8)
    operands = (x, *weights, normal(2, 8 * hidden), *[None] * 4, scales[0], points[0], scales[1], points[1])
    attributes = {"hidden_size": hidden, "direction": "bidirectional"}
    case = Case("DynamicQuantizeLSTM", operands, lambda *args, **how: [], attributes, ("y", "h", "c"))
    model = case.model()
    fixed = [each for each in model.graph.input if each.name != "x0"]  # ONNX Runtime reads constants alone
    for each in fixed:
        model.graph.input.remove(each)
        model.graph.initializer.append(numpy_helper.from_array(case.named()[each.name], each.name))
    options = runtime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1  # threads quantise their rows of a batch alone
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    module = jg.onnx.load(model)
    for results in (module(x), module.forward(x)):
        for got, want in zip(results, session.run(None, {"x0": x}), strict=True):
            np.testing.assert_allclose(got.detach().numpy(), want, 1e-4, 1e-5)
