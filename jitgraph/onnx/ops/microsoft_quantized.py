"""The domain com.microsoft: quantised values."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph.errors import UnsupportedOp
from jitgraph.onnx.ops import quantization
from jitgraph.onnx.ops.recurrent import lstm_by
from jitgraph.onnx.registry import MICROSOFT, define
from jitgraph.tensor import functions as fn


@define("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(
    a: Any,
    b: Any,
    scales: Any,
    zero_points: Any = None,
    group: Any = None,
    bias: Any = None,
    K: int = 0,  # noqa: N803 - ONNX Runtime's names
    N: int = 0,  # noqa: N803
    bits: int = 4,
    block_size: int = 32,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Any:
    if bits not in (2, 4, 8) or group is not None or weight_prepacked:
        raise UnsupportedOp(f"MatMulNBits with {bits} bits, with groups, or with packed weights")
    blocks = -(-K // block_size)
    whole = _unpacked(fn.reshape(b, (N, blocks, -1)), bits)
    wide = fn.astype(whole, a.dtype)
    if zero_points is None:
        point: Any = float(1 << (bits - 1))
    elif zero_points.dtype == np.uint8:
        point = _unpacked(fn.reshape(zero_points, (N, -1)), bits)[:, :blocks]
        point = fn.reshape(fn.astype(point, a.dtype), (N, blocks, 1))
    else:
        point = fn.reshape(zero_points, (N, blocks, 1))
    own = (wide - point) * fn.reshape(scales, (N, blocks, 1))
    weights = fn.reshape(own, (N, -1))[:, :K]
    result = fn.matmul(a, fn.matrix_transpose(weights))
    return result if bias is None else result + bias


def _unpacked(packed: Any, bits: int) -> Any:
    """Numbers of few bits, the lowest first, along the last axis."""
    if bits == 8:
        return packed
    mask = (1 << bits) - 1
    parts = [fn.bitwise_and(fn.bitwise_right_shift(packed, shift), mask) for shift in range(0, 8, bits)]
    return fn.reshape(fn.stack(parts, axis=-1), (*packed.shape[:-1], -1))


@define("QuantizeLinear", domain=MICROSOFT, raw=True)
def quantize(x: Any, scale: Any, zero_point: Any = None, axis: int = 1) -> Any:
    return quantization.quantize(x, scale, zero_point, axis)


@define("DequantizeLinear", domain=MICROSOFT, raw=True)
def dequantize(x: Any, scale: Any, zero_point: Any = None, axis: int = 1) -> Any:
    return quantization.dequantize(x, scale, zero_point, axis)


@define("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(a: Any, b: Any, b_scale: Any, b_zero: Any = None, bias: Any = None) -> Any:
    own, scale, zero = quantization.dynamic_quantize(a)
    total = fn.astype(quantization.matmul_integer(own, b, zero, b_zero), np.float32) * (scale * b_scale)
    return total if bias is None else total + bias


@define("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(
    a: Any, b: Any, a_scale: Any, b_scale: Any, a_zero: Any = None, b_zero: Any = None, bias: Any = None
) -> Any:
    total = fn.astype(quantization.matmul_integer(a, b, a_zero, b_zero), np.float32) * (a_scale * b_scale)
    return total if bias is None else total + bias


@define("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(
    x: Any,
    w: Any,
    r: Any,
    bias: Any,
    lengths: Any,
    initial_h: Any,
    initial_c: Any,
    peepholes: Any,
    w_scale: Any,
    w_zero: Any,
    r_scale: Any,
    r_zero: Any,
    outputs: Any = (),
    **how: Any,
) -> Any:
    """LSTM whose inputs and states are quantised step by step; weights [D, I, 4 * H] have their scales beside them."""

    def product(rows: Any, weights: Any) -> Any:
        own, scale, zero = quantization.dynamic_quantize(rows)
        total = quantization.matmul_integer(own, weights[0], zero, weights[2])
        return fn.astype(total, np.float32) * (scale * weights[1])

    own, other = (
        [(each[d], scale[d], zero[d]) for d in range(each.shape[0])]
        for each, scale, zero in ((w, w_scale, w_zero), (r, r_scale, r_zero))
    )
    weights, states = (own, other), (initial_h, initial_c)
    return lstm_by(product, x, weights, bias, lengths, states, peepholes, r.shape[1], **how)[: len(outputs)]
