"""Convolutions, with ONNX's padding on both sides of each axis."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from jitgraph.errors import UnsupportedOp
from jitgraph.nn import functional as F
from jitgraph.onnx.registry import define
from jitgraph.tensor import functions as fn

_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def pads_of(
    auto_pad: str, pads: Any, sizes: Sequence[Any], kernel: Sequence[int], strides: Any, dilations: Any
) -> list[tuple[Any, Any]]:
    """How many elements stand before and behind each spatial axis."""
    if auto_pad in ("NOTSET", ""):
        rank = len(kernel)
        own = list(pads) if pads else [0] * 2 * rank
        return [(own[i], own[i + rank]) for i in range(rank)]
    if auto_pad == "VALID":
        return [(0, 0)] * len(kernel)
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise UnsupportedOp(f"auto_pad={auto_pad!r}")
    result = []
    for size, width, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        out = -(-size // stride)
        total = (out - 1) * stride + dilation * (width - 1) + 1 - size
        if type(total) is int:
            total = max(0, total)
        small, large = total // 2, total - total // 2
        result.append((small, large) if auto_pad == "SAME_UPPER" else (large, small))
    return result


def around(x: Any, pads: Sequence[tuple[Any, Any]], value: Any = 0) -> Any:
    """x with elements around its spatial axes."""
    return fn.pad(x, [(0, 0), (0, 0), *pads], value=value)


def convolved(
    x: Any, w: Any, bias: Any, pads: Sequence[tuple[Any, Any]], strides: Any, dilations: Any, groups: int
) -> Any:
    """The cross-correlation with padding on both sides of each axis."""
    rank = x.ndim - 2
    if rank not in _CONVOLUTIONS:
        raise UnsupportedOp(f"a convolution over {rank} axes")
    if all(type(a) is int and type(b) is int and a == b for a, b in pads):
        padding: Any = tuple(a for a, _ in pads)
    else:
        x, padding = around(x, pads), 0
    return _CONVOLUTIONS[rank](x, w, bias, tuple(strides), padding, tuple(dilations), groups)


@define("Conv")
def conv(
    x: Any,
    w: Any,
    bias: Any = None,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Any:
    kernel = w.shape[2:]
    rank = len(kernel)
    steps, apart = strides or [1] * rank, dilations or [1] * rank
    own = pads_of(auto_pad, pads, x.shape[2:], kernel, steps, apart)
    return convolved(x, w, bias, own, steps, apart, group)


@define("ConvTranspose")
def conv_transpose(
    x: Any,
    w: Any,
    bias: Any = None,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    output_padding: Any = None,
    output_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Any:
    kernel = w.shape[2:]
    rank = len(kernel)
    steps, apart, more = strides or [1] * rank, dilations or [1] * rank, output_padding or [0] * rank
    if rank not in _TRANSPOSED:
        raise UnsupportedOp(f"a transposed convolution over {rank} axes")
    y = _TRANSPOSED[rank](x, w, None, tuple(steps), 0, 0, group, tuple(apart))
    index, extra = [slice(None), slice(None)], [(0, 0), (0, 0)]
    for i, size in enumerate(x.shape[2:]):
        whole = (size - 1) * steps[i] + (kernel[i] - 1) * apart[i] + 1
        wanted = None
        if output_shape:
            wanted = output_shape[-rank:][i]
        elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            wanted = size * steps[i]
        if wanted is None:
            begin, end = (pads[i], pads[i + rank]) if pads and auto_pad != "VALID" else (0, 0)
        else:
            total = whole + more[i] - wanted
            half = total // 2
            begin, end = (half, total - half) if auto_pad == "SAME_UPPER" else (total - half, half)
        end -= more[i]
        index.append(slice(max(0, begin), whole - end if end > 0 else None))
        extra.append((max(0, -begin), max(0, -end)))
    y = y[tuple(index)]
    if any(map(any, extra)):
        y = fn.pad(y, extra)
    return y if bias is None else fn.add(y, fn.reshape(bias, (-1, *[1] * rank)))


@define("DeformConv")
def deform_conv(
    x: Any,
    w: Any,
    offset: Any,
    bias: Any = None,
    mask: Any = None,
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    offset_group: int = 1,
    pads: Any = None,
    strides: Any = None,
) -> Any:
    if x.ndim != 4:
        raise UnsupportedOp("DeformConv over other than two axes")
    steps, apart = strides or [1, 1], dilations or [1, 1]
    n, c, h, width = x.shape
    kh, kw = w.shape[2:]
    rows, columns = offset.shape[2:]
    top, left = (pads[0], pads[1]) if pads else (0, 0)
    moved = fn.reshape(offset, (n, offset_group, kh * kw, 2, rows, columns))
    own_mask = None if mask is None else fn.reshape(mask, (n, offset_group, kh * kw, rows, columns))
    channels = c // offset_group
    samples = []
    for k, (i, j) in enumerate(itertools.product(range(kh), range(kw))):
        base_y = fn.reshape(fn.arange(rows, dtype=x.dtype), (1, 1, rows, 1)) * steps[0] + (i * apart[0] - top)
        base_x = fn.reshape(fn.arange(columns, dtype=x.dtype), (1, 1, 1, columns)) * steps[1] + (j * apart[1] - left)
        y, z = moved[:, :, k, 0] + base_y, moved[:, :, k, 1] + base_x
        value = _bilinear(fn.reshape(x, (n, offset_group, channels, h * width)), y, z, h, width)
        if own_mask is not None:
            value = value * fn.expand_dims(own_mask[:, :, k], axis=2)
        samples.append(fn.reshape(value, (n, c, rows, columns)))
    columns_of = fn.stack(samples, axis=2)  # [n, c, taps, rows, columns]
    per_group = fn.reshape(columns_of, (n, group, (c // group) * kh * kw, rows * columns))
    weights = fn.reshape(w, (group, w.shape[0] // group, (c // group) * kh * kw))
    result = fn.reshape(fn.matmul(weights, per_group), (n, w.shape[0], rows, columns))
    return result if bias is None else result + fn.reshape(bias, (1, -1, 1, 1))


def _bilinear(x: Any, y: Any, z: Any, h: int, w: int) -> Any:
    """x[n, g, c, h * w] between its elements at rows y[n, g, r, s] and columns z; zeros outside."""
    top, left = fn.floor(y), fn.floor(z)
    total: Any = 0
    for dy, dz in itertools.product((0, 1), (0, 1)):
        row, column = top + dy, left + dz
        weight = (1 - fn.abs(y - row)) * (1 - fn.abs(z - column))
        inside = (row >= 0) & (row <= h - 1) & (column >= 0) & (column <= w - 1)
        place = fn.astype(fn.clip(row, 0, h - 1), "int64") * w + fn.astype(fn.clip(column, 0, w - 1), "int64")
        n, g, c, _ = x.shape
        flat = fn.broadcast_to(
            fn.reshape(place, (n, g, 1, math.prod(place.shape[2:]))), (n, g, c, math.prod(place.shape[2:]))
        )
        value = fn.reshape(fn.gather(x, 3, flat), (n, g, c, *place.shape[2:]))
        total = total + value * fn.expand_dims(fn.where(inside, weight, fn.zeros_like(weight)), axis=2)
    return total
