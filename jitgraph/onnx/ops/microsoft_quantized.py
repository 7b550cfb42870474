"""The domain com.microsoft: quantised values."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph.errors import UnsupportedOp
from jitgraph.nn import functional as F
from jitgraph.onnx.ops import attention, microsoft, pooling, quantization
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


# ----------------------------------------------------------------------
# Functions of quantised values: of the numbers that they stand for, quantised again.


def _wide(x: Any, scale: Any, zero: Any) -> Any:
    return quantization.dequantize(x, scale, zero, 0)


def _narrow(y: Any, scale: Any, zero: Any) -> Any:
    return quantization.quantize(y, scale, zero, 0)


@define("QLinearAdd", domain=MICROSOFT)
def qlinear_add(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, scale: Any, zero: Any) -> Any:
    return _narrow(_wide(a, a_scale, a_zero) + _wide(b, b_scale, b_zero), scale, zero)


@define("QLinearMul", domain=MICROSOFT)
def qlinear_mul(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, scale: Any, zero: Any) -> Any:
    return _narrow(_wide(a, a_scale, a_zero) * _wide(b, b_scale, b_zero), scale, zero)


@define("QLinearSigmoid", domain=MICROSOFT)
def qlinear_sigmoid(x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any) -> Any:
    return _narrow(fn.sigmoid(_wide(x, x_scale, x_zero)), scale, zero)


@define("QLinearLeakyRelu", domain=MICROSOFT)
def qlinear_leaky_relu(x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any, alpha: float = 0.01) -> Any:
    return _narrow(F.leaky_relu(_wide(x, x_scale, x_zero), alpha), scale, zero)


@define("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any, axis: int = -1, opset: int = 13) -> Any:
    if opset < 13:
        raise UnsupportedOp("QLinearSoftmax of an operator set before 13")
    return _narrow(F.softmax(_wide(x, x_scale, x_zero), axis), scale, zero)


@define("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(scale: Any, zero: Any, *operands: Any, axis: int) -> Any:
    parts = [_wide(*operands[i : i + 3]) for i in range(0, len(operands), 3)]
    return _narrow(fn.concat(parts, axis=axis), scale, zero)


@define("QLinearWhere", domain=MICROSOFT)
def qlinear_where(
    condition: Any, x: Any, x_scale: Any, x_zero: Any, y: Any, y_scale: Any, y_zero: Any, scale: Any, zero: Any
) -> Any:
    return _narrow(fn.where(condition, _wide(x, x_scale, x_zero), _wide(y, y_scale, y_zero)), scale, zero)


@define("QLinearReduceMean", domain=MICROSOFT)
def qlinear_reduce_mean(
    x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any, axes: Any = None, keepdims: int = 1
) -> Any:
    wide = _wide(x, x_scale, x_zero)
    return _narrow(fn.mean(wide, axis=None if axes is None else tuple(axes), keepdims=bool(keepdims)), scale, zero)


def _channels_last(function: Any, x: Any, channels_last: int) -> Any:
    """A function of images whose channels may be the last axis, as those of its result then are."""
    return fn.moveaxis(function(fn.moveaxis(x, -1, 1)), 1, -1) if channels_last else function(x)


@define("QLinearAveragePool", domain=MICROSOFT)
def qlinear_average_pool(
    x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None, channels_last: int = 0, **how: Any
) -> Any:
    wide = _wide(x, x_scale, x_zero)
    return _narrow(_channels_last(lambda each: pooling.average_pool(each, **how), wide, channels_last), scale, zero)


@define("QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_global_average_pool(
    x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any, channels_last: int = 0
) -> Any:
    wide = _wide(x, x_scale, x_zero)
    axes = tuple(range(1, x.ndim - 1) if channels_last else range(2, x.ndim))
    return _narrow(fn.mean(wide, axis=axes, keepdims=True), scale, zero)


@define("NhwcMaxPool", domain=MICROSOFT)
def nhwc_max_pool(x: Any, **how: Any) -> Any:
    return _channels_last(lambda each: pooling.max_pool(each, **how, outputs=(True,)), x, 1)


@define("QLinearConv", domain=MICROSOFT)
def qlinear_conv(x: Any, *operands: Any, channels_last: int = 0, **how: Any) -> Any:
    return _channels_last(lambda each: quantization.qlinear_conv(each, *operands, **how), x, channels_last)


@define("QGemm", domain=MICROSOFT)
def q_gemm(
    a: Any,
    a_scale: Any,
    a_zero: Any,
    b: Any,
    b_scale: Any,
    b_zero: Any,
    c: Any = None,
    scale: Any = None,
    zero: Any = None,
    alpha: float = 1.0,
    transA: int = 0,  # noqa: N803 - ONNX Runtime's names
    transB: int = 0,  # noqa: N803
) -> Any:
    """``c`` has integers, of the scale of the product."""
    a, b = (fn.matrix_transpose(x) if turned else x for x, turned in ((a, transA), (b, transB)))
    total = quantization.matmul_integer(a, b, a_zero, b_zero)
    total = total if c is None else total + c
    wide = fn.astype(total, np.float32) * (a_scale * b_scale * alpha)
    return wide if scale is None else _narrow(wide, scale, zero)


@define("QAttention", domain=MICROSOFT)
def q_attention(
    x: Any,
    weights: Any,
    bias: Any,
    x_scale: Any,
    scale: Any,
    mask: Any = None,
    x_zero: Any = None,
    zero: Any = None,
    past: Any = None,
    outputs: Any = (),
    **how: Any,
) -> Any:
    product = matmul_integer_to_float(x, weights, x_scale, scale, x_zero, zero, bias)
    return attention.attention_of(product, mask, past, outputs=outputs, **how)


@define("QEmbedLayerNormalization", domain=MICROSOFT)
def q_embed_layer_norm(ids: Any, segments: Any, *operands: Any, epsilon: float = 1e-12, outputs: Any = ()) -> Any:
    """The tables, gamma and beta, the mask, and then scales and zero points of the five."""
    tables, mask, scales, zeros = operands[:5], operands[5], operands[6:11], operands[11:]
    wide = [
        None if table is None else _wide(table, scale, zero)
        for table, scale, zero in zip(tables, scales, zeros, strict=True)
    ]
    return microsoft.embed_layer_norm(ids, segments, *wide, mask, epsilon=epsilon, outputs=outputs)
