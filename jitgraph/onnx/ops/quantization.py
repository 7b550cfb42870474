"""Quantised values, and products of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.onnx import values
from jitgraph.onnx.ops.convolution import convolved, pads_of
from jitgraph.onnx.ops.elementwise import stored
from jitgraph.onnx.registry import define
from jitgraph.tensor import functions as fn

_LIMITS = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    if dtype.name in _LIMITS:
        return _LIMITS[dtype.name]
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _along(scale: Any, x: Any, axis: int, block: int) -> Any:
    """A scale or zero point as it broadcasts to x: one, one for each slice along an axis, or one for each block."""
    if scale is None or not scale.ndim or (scale.ndim == 1 and scale.shape[0] == 1 and not block):
        return scale if scale is None or not scale.ndim else scale.reshape(())
    axis += x.ndim if axis < 0 else 0
    if block or scale.ndim > 1:
        size = block or -(-x.shape[axis] // scale.shape[axis])
        whole = np.repeat(scale, size, axis) if isinstance(scale, np.ndarray) else fn.repeat(scale, size, axis=axis)
        return whole[(*[slice(None)] * axis, slice(0, x.shape[axis]))]
    return scale.reshape(tuple(-1 if i == axis else 1 for i in range(x.ndim)))


@define("QuantizeLinear", raw=True)
def quantize(
    x: Any,
    scale: Any,
    zero_point: Any = None,
    axis: int = 1,
    saturate: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
) -> Any:
    if zero_point is not None:
        dtype = values.dtype_of(zero_point)
    else:
        dtype = values.dtype_of_number(output_dtype or 2)
    scale = _wide(scale)
    factor, zero = _along(scale, x, axis, block_size), _along(zero_point, x, axis, block_size)
    wide = _wide(x)
    if values.dtype_of(x).kind in "iu":
        wide = fn.astype(values.tensor(x), np.float32)
    factor = fn.astype(values.tensor(factor), values.dtype_of(wide), copy=False)
    quotient = fn.divide(values.tensor(wide), factor)
    if dtype in values.STORED and dtype.name not in _LIMITS:
        return stored(values.host(fn.astype(quotient, np.float32), "a value in float8"), dtype, saturate)
    whole = fn.round(quotient)
    if zero is not None:
        whole = fn.add(whole, fn.astype(values.tensor(_wide(zero)), whole.dtype))
    low, high = _limits(dtype)
    limited = fn.clip(whole, low, high)
    if dtype in values.STORED:
        return stored(values.host(fn.astype(limited, np.float32), "a value in int4"), dtype)
    return fn.astype(limited, dtype)


def _wide(x: Any) -> Any:
    """Values in a dtype of tensors: those that are only stored as float32 or int32."""
    if isinstance(x, np.ndarray) and x.dtype in values.STORED:
        return x.astype(np.int8).astype(np.int32) if x.dtype.name in _LIMITS else x.astype(np.float32)
    return x


@define("DequantizeLinear", raw=True)
def dequantize(
    x: Any, scale: Any, zero_point: Any = None, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Any:
    dtype = values.dtype_of_number(output_dtype) if output_dtype else values.dtype_of(scale)
    if dtype in values.STORED:
        dtype = np.dtype(np.float32)
    own_scale, wide = _wide(scale), values.tensor(_wide(x))
    factor, zero = _along(own_scale, x, axis, block_size), _along(zero_point, x, axis, block_size)
    if dtypes.is_integer(wide.dtype):
        wide = fn.astype(wide, np.int32, copy=False)
    if zero is not None:
        other = values.tensor(_wide(zero))
        wide = fn.subtract(wide, fn.astype(other, wide.dtype))
    factor = values.tensor(factor)
    work = np.dtype(np.float32) if dtype.itemsize <= 4 else dtype
    return fn.astype(fn.multiply(fn.astype(wide, work), fn.astype(factor, work)), dtype)


@define("DynamicQuantizeLinear")
def dynamic_quantize(x: Any) -> Any:
    low, high = fn.minimum(fn.min(x), 0), fn.maximum(fn.max(x), 0)
    scale = fn.divide(fn.subtract(high, low), 255)
    zero = fn.clip(fn.round(fn.divide(fn.negative(low), fn.where(scale == 0, fn.ones_like(scale), scale))), 0, 255)
    whole = fn.clip(fn.round(fn.divide(x, fn.where(scale == 0, fn.ones_like(scale), scale))) + zero, 0, 255)
    return fn.astype(whole, np.uint8), scale, fn.astype(zero, np.uint8)


def _shifted(x: Any, zero: Any, rows: bool) -> Any:
    wide = fn.astype(x, np.int32)
    if zero is None:
        return wide
    point = fn.astype(zero, np.int32)
    if point.ndim == 1 and rows:
        point = fn.reshape(point, (-1, 1))
    return fn.subtract(wide, point)


@define("MatMulInteger")
def matmul_integer(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    return fn.matmul(_shifted(a, a_zero, True), _shifted(b, b_zero, False))


def _requantized(total: Any, scale: Any, zero: Any) -> Any:
    dtype = values.dtype_of(zero)
    low, high = _limits(dtype)
    whole = fn.round(fn.multiply(fn.astype(total, np.float32), scale)) + fn.astype(zero, np.float32)
    return fn.astype(fn.clip(whole, low, high), dtype)


@define("QLinearMatMul")
def qlinear_matmul(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any
) -> Any:
    total = fn.matmul(_shifted(a, a_zero, True), _shifted(b, b_zero, False))
    scales = [fn.astype(each, np.float32) for each in (a_scale, b_scale, y_scale)]
    left = fn.reshape(scales[0], (-1, 1)) if scales[0].ndim == 1 and scales[0].shape[0] > 1 else scales[0]
    return _requantized(total, left * scales[1] / scales[2], y_zero)


def _integer_conv(x: Any, x_zero: Any, w: Any, w_zero: Any, how: dict[str, Any]) -> Any:
    rank = w.ndim - 2
    steps, apart = how.get("strides") or [1] * rank, how.get("dilations") or [1] * rank
    pads = pads_of(how.get("auto_pad", "NOTSET"), how.get("pads"), x.shape[2:], w.shape[2:], steps, apart)
    own = fn.astype(_shifted(x, x_zero, False), np.float64)  # exact for products of 8 bits
    point = None if w_zero is None else fn.reshape(w_zero, (-1, *[1] * (rank + 1))) if w_zero.ndim else w_zero
    weights = fn.astype(_shifted(w, point, False), np.float64)
    return fn.astype(convolved(own, weights, None, pads, steps, apart, how.get("group", 1)), np.int32)


@define("ConvInteger")
def conv_integer(x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, **how: Any) -> Any:
    return _integer_conv(x, x_zero, w, w_zero, how)


@define("QLinearConv")
def qlinear_conv(
    x: Any,
    x_scale: Any,
    x_zero: Any,
    w: Any,
    w_scale: Any,
    w_zero: Any,
    y_scale: Any,
    y_zero: Any,
    bias: Any = None,
    **how: Any,
) -> Any:
    total = _integer_conv(x, x_zero, w, w_zero, how)
    rank = w.ndim - 2
    if bias is not None:
        total = total + fn.reshape(bias, (-1, *[1] * rank))
    scale = x_scale * w_scale / y_scale
    if scale.ndim == 1 and scale.shape[0] > 1:
        scale = fn.reshape(scale, (-1, *[1] * rank))
    return _requantized(total, scale, y_zero)
