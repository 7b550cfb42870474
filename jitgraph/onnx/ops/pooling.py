"""Pooling of windows, and over all places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.errors import UnsupportedOp
from jitgraph.nn import functional as F
from jitgraph.onnx import values
from jitgraph.onnx.ops.convolution import pads_of
from jitgraph.onnx.ops.indexing import _counted
from jitgraph.onnx.registry import define
from jitgraph.tensor import functions as fn

_MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_MEAN = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


class _Windows:
    """The windows of pooling: for each axis how many there are, and which places they have."""

    def __init__(
        self, x: Any, kernel: Sequence[int], strides: Any, pads: Any, dilations: Any, auto_pad: str, ceil_mode: int
    ) -> None:
        rank = len(kernel)
        self.kernel = list(kernel)
        self.sizes = x.shape[2:]
        self.strides, self.dilations = strides or [1] * rank, dilations or [1] * rank
        self.pads = pads_of(auto_pad, pads, self.sizes, kernel, self.strides, self.dilations)
        self.counts = []
        for i, size in enumerate(self.sizes):
            before, after = self.pads[i]
            span = size + before + after - self.dilations[i] * (self.kernel[i] - 1) - 1
            count = span // self.strides[i] + 1
            if ceil_mode and auto_pad in ("NOTSET", ""):
                count = -(-span // self.strides[i]) + 1
                if type(count) is int and (count - 1) * self.strides[i] >= size + before:
                    count -= 1  # the last window begins in the padding at the end
            self.counts.append(count)

    def positions(self, i: int) -> Any:
        """The places of axis i that each window has, [windows, kernel]; some are outside of the axis."""
        starts = np.arange(self.counts[i]) * self.strides[i] - self.pads[i][0]
        return starts[:, None] + np.arange(self.kernel[i]) * self.dilations[i]

    def extra(self, i: int) -> tuple[Any, Any]:
        """The padding of axis i for exactly the windows that there are."""
        before, after = self.pads[i]
        needed = (self.counts[i] - 1) * self.strides[i] + self.dilations[i] * (self.kernel[i] - 1) + 1
        return before, max(0, needed - before - self.sizes[i]) if type(needed) is int else after

    def reduced(self, x: Any, fill: Any, reduce: Any) -> Any:
        """x with windows reduced axis by axis: elements outside are ``fill``."""
        for i in range(len(self.kernel)):
            axis = i + 2
            before, after = self.extra(i)
            wide = fn.pad(x, [(before, after) if a == axis else (0, 0) for a in range(x.ndim)], value=fill)
            x = reduce(fn.take(wide, self.positions(i) + before, axis=axis), axis=axis + 1)
        return x


@define("MaxPool")
def max_pool(
    x: Any,
    kernel_shape: Any,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Any = None,
    pads: Any = None,
    storage_order: int = 0,
    strides: Any = None,
    outputs: Any = (),
) -> Any:
    own = _Windows(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    rank = len(kernel_shape)
    lowest = -math.inf if dtypes.is_float(x.dtype) else int(np.iinfo(x.dtype).min)
    wants_indices = len(outputs) > 1 and outputs[1]
    if rank not in _MAX or not dtypes.is_float(x.dtype):
        if wants_indices:
            raise UnsupportedOp(f"MaxPool with indices of {x.dtype.name} over {rank} axes")
        return own.reduced(x, lowest, fn.max)
    extra = [own.extra(i) for i in range(rank)]
    wide = fn.pad(x, [(0, 0), (0, 0), *extra], value=lowest) if any(map(any, extra)) else x
    arguments = (wide, tuple(kernel_shape), tuple(own.strides), 0, tuple(own.dilations))
    if not wants_indices:
        return _MAX[rank](*arguments)
    result, places = _MAX[rank](*arguments, return_indices=True)
    return result, _flat_indices(places, wide.shape[2:], [before for before, _ in extra], x.shape, storage_order)


def _flat_indices(places: Any, wide: Any, before: Any, shape: Any, column_major: int) -> Any:
    """Indices into the whole tensor of places in its padded spatial axes."""
    coordinates = []
    for size, shift in reversed(list(zip(wide, before, strict=True))):
        coordinates.append(fn.subtract(fn.remainder(places, size), shift))
        places = fn.floor_divide(places, size)
    coordinates.reverse()
    spatial = shape[2:]
    order = list(range(len(spatial)))
    if column_major:
        order.reverse()
    flat: Any = 0
    for i in order:
        flat = fn.add(fn.multiply(flat, spatial[i]), coordinates[i])
    channels = fn.reshape(fn.arange(shape[0] * shape[1]), (shape[0], shape[1], *[1] * len(spatial)))
    return fn.add(flat, fn.multiply(channels, math.prod(spatial)))


@define("AveragePool")
def average_pool(
    x: Any,
    kernel_shape: Any,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Any:
    own = _Windows(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    rank = len(kernel_shape)
    plain = all(type(a) is int and type(b) is int and a == b for a, b in own.pads)
    if rank in _MEAN and set(own.dilations) == {1} and plain:
        halves = all(a <= width // 2 for (a, _), width in zip(own.pads, kernel_shape, strict=True))
        if halves:
            padding = tuple(a for a, _ in own.pads)
            return _MEAN[rank](
                x, tuple(kernel_shape), tuple(own.strides), padding, bool(ceil_mode), bool(count_include_pad)
            )
    total = own.reduced(x, 0, fn.sum)
    counts: Any = 1.0
    for i, size in enumerate(own.sizes):
        places = own.positions(i)
        before, after = own.pads[i] if count_include_pad else (0, 0)
        inside = ((places >= -before) & (places < size + after)).sum(1)
        counts = counts * inside.reshape(-1, *[1] * (rank - 1 - i))
    return fn.divide(total, fn.asarray(np.asarray(counts, np.float64), dtype=x.dtype))


@define("LpPool")
def lp_pool(
    x: Any,
    kernel_shape: Any,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Any = None,
    p: Any = 2,
    pads: Any = None,
    strides: Any = None,
) -> Any:
    own = _Windows(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    return fn.pow(own.reduced(fn.pow(fn.abs(x), float(p)), 0, fn.sum), 1 / float(p))


def _spatial(x: Any) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


define("GlobalAveragePool")(lambda x: fn.mean(x, axis=_spatial(x), keepdims=True))
define("GlobalMaxPool")(lambda x: fn.max(x, axis=_spatial(x), keepdims=True))


@define("GlobalLpPool")
def global_lp_pool(x: Any, p: Any = 2) -> Any:
    return fn.pow(fn.sum(fn.pow(fn.abs(x), float(p)), axis=_spatial(x), keepdims=True), 1 / float(p))


@define("MaxUnpool", host=(2,))
def max_unpool(
    x: Any, indices: Any, shape: Any = None, kernel_shape: Any = (), pads: Any = None, strides: Any = None
) -> Any:
    rank = len(kernel_shape)
    steps, own = strides or [1] * rank, pads or [0] * 2 * rank
    inferred = [*x.shape[:2]]
    inferred += [(x.shape[i + 2] - 1) * steps[i] - own[i] - own[i + rank] + kernel_shape[i] for i in range(rank)]
    target = inferred if shape is None else values.sizes(shape)
    places = fn.reshape(indices, (-1,))
    if shape is not None and target != inferred:  # indices are those of the inferred shape
        coordinates, rest = [], places
        for size in reversed(inferred):
            coordinates.append(fn.remainder(rest, size))
            rest = fn.floor_divide(rest, size)
        places = fn.zeros_like(places)
        for size, each in zip(target, reversed(coordinates), strict=True):
            places = fn.add(fn.multiply(places, size), each)
    flat = fn.zeros((math.prod(target),), dtype=x.dtype)
    return fn.reshape(fn.index_copy(flat, 0, _counted(places, math.prod(target)), fn.reshape(x, (-1,))), tuple(target))
