"""Maxima of windows whose places are drawn at random (Graham 2014)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jitgraph import dtypes, ops, random
from jitgraph.eager import placement
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.nn.functional.arguments import repeated
from jitgraph.nn.functional.windows import batched, known, single
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.creation import arange
from jitgraph.tensor.functions.manipulation import concat, take_along_axis
from jitgraph.tensor.functions.reductions import argmax
from jitgraph.tensor.functions.shapes import expand_dims, reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.scalars import for_each


def _starts(sample: Tensor, size: int, kernel: int, out: int) -> Tensor:
    """Where the windows of an axis begin, [N, C, out]: floor((i + u) alpha) - floor(u alpha), the last at the end."""
    batch = sample.value.type.shape
    last = wrap(ops.full(shape=(*batch, 1), value=size - kernel, dtype=dtypes.int64))
    if out == 1:
        return last
    alpha = (size - kernel) / (out - 1)
    u = expand_dims(sample, -1)
    steps = arange(out - 1, dtype=sample.dtype)
    first: Tensor = ((steps + u) * alpha).astype(dtypes.int64) - (u * alpha).astype(dtypes.int64)
    return concat([first, last], axis=-1)


def _sizes(name: str, sizes: Sequence[int], kernel: Sequence[int], output_size: Any, output_ratio: Any) -> Any:
    if (output_size is None) == (output_ratio is None):
        raise JitgraphError(f"{name} takes one of output_size and output_ratio")
    spatial = len(sizes)
    if output_size is None:
        ratios = for_each(output_ratio, spatial)
        if len(ratios) != spatial or not all(0 < ratio < 1 for ratio in ratios):
            raise JitgraphError(f"{name}: output_ratio={output_ratio} should lie between 0 and 1 for each axis")
        out = tuple(int(size * ratio) for size, ratio in zip(sizes, ratios, strict=True))
    else:
        out = repeated(name, "output_size", output_size, spatial)
    for size, window, count in zip(sizes, kernel, out, strict=True):
        if window < 1 or count < 1 or count + window - 1 > size:
            raise ShapeError(f"{name}: {count} windows of {window} places do not fit an axis of {size}")
    return out


def _windows(drawn: Tensor, sizes: Sequence[int], kernel: Sequence[int], out: Sequence[int]) -> Any:
    """The places of each window's elements in the flattened axes, [N, C, *out, *kernel], by samples [N, C, axes]."""
    flat: Any
    spatial, flat = len(sizes), 0
    for axis in range(spatial):
        # PyTorch takes the sample of an image's columns first, and those of a volume in the order of its axes
        start = _starts(drawn[..., 1 - axis if spatial == 2 else axis], sizes[axis], kernel[axis], out[axis])
        within = arange(kernel[axis], dtype=dtypes.int64)
        positions = expand_dims(start, -1) + within
        shape: list[Any] = [*drawn.shape[:-1], *(1,) * (2 * spatial)]
        shape[2 + axis], shape[2 + spatial + axis] = out[axis], kernel[axis]
        flat = flat * sizes[axis] + reshape(positions, tuple(shape))
    return flat


def _pooled(
    name: str,
    spatial: int,
    input: TensorLike,
    kernel_size: Any,
    output_size: Any,
    output_ratio: Any,
    return_indices: bool,
    samples: TensorLike | None,
    generator: random.Generator | None,
) -> Any:
    value, alone = batched(name, spatial, input)
    x, kernel, sizes = wrap(value), repeated(name, "kernel_size", kernel_size, spatial), known(name, value, spatial)
    out = _sizes(name, sizes, kernel, output_size, output_ratio)
    batch = value.shape[:2]
    if samples is not None and tuple(lifting.value_of(samples).shape) != (*batch, spatial):
        raise ShapeError(f"{name}: samples {lifting.value_of(samples).type} should be [N, C, {spatial}]")
    with placement.beside(value):
        if samples is None:
            drawn = random.uniform((*x.shape[:2], spatial), dtype=x.dtype, generator=generator)
        else:
            drawn = wrap(lifting.value_of(samples))
        flat = _windows(drawn, sizes, kernel, out)
    count, most = math.prod(out), math.prod(kernel)
    indices = reshape(flat, (*batch, count * most))
    windows = reshape(take_along_axis(reshape(x, (*batch, math.prod(sizes))), indices, 2), (*batch, count, most))
    best = argmax(windows, axis=-1, keepdims=True)
    values = reshape(take_along_axis(windows, best, 3), (*batch, *out))
    if not return_indices:
        return single(values, alone)
    at = reshape(take_along_axis(reshape(indices, (*batch, count, most)), best, 3), (*batch, *out))
    return single(values, alone), single(at, alone)


def fractional_max_pool2d(
    input: TensorLike,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: TensorLike | None = None,
    *,
    generator: random.Generator | None = None,
) -> Any:
    """Maxima of randomly placed windows of x[N, C, H, W].

    The result has ``output_size`` along the spatial axes, or ``output_ratio`` times their sizes.

    ``_random_samples`` [N, C, 2] between 0 and 1 place the windows. With ``return_indices`` (maxima, their places in
    the flat spatial axes). ShapeError where the windows do not fit.
    """
    settings = (kernel_size, output_size, output_ratio, return_indices, _random_samples, generator)
    return _pooled("fractional_max_pool2d", 2, input, *settings)


def fractional_max_pool3d(
    input: TensorLike,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: TensorLike | None = None,
    *,
    generator: random.Generator | None = None,
) -> Any:
    """Maxima of randomly placed windows of x[N, C, D, H, W], as ``fractional_max_pool2d``."""
    settings = (kernel_size, output_size, output_ratio, return_indices, _random_samples, generator)
    return _pooled("fractional_max_pool3d", 3, input, *settings)
