"""Pools whose windows are chosen so that the result has given sizes, which need not divide those of x."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgraph import ops
from jitgraph.eager import placement
from jitgraph.errors import ShapeError
from jitgraph.nn.functional.arguments import repeated
from jitgraph.nn.functional.pooling import avg_pool1d, avg_pool2d, avg_pool3d
from jitgraph.nn.functional.resampling import Array, shared_with_repetitions, weighted, windows
from jitgraph.nn.functional.windows import batched, known, single
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.manipulation import take_along_axis
from jitgraph.tensor.functions.reductions import argmax
from jitgraph.tensor.functions.shapes import expand_dims, reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.scalars import for_each, listed

_PLAIN = {1: avg_pool1d, 2: avg_pool2d, 3: avg_pool3d}


def _sizes(name: str, spatial: int, x: Any, output_size: Any) -> tuple[int, ...]:
    """The wanted sizes; None keeps that of x."""
    requested = for_each(output_size, spatial)
    if len(requested) != spatial:
        raise ShapeError(f"{name}: output_size={output_size} is neither a number nor {spatial}")
    resolved = [x.shape[axis - spatial] if size is None else size for axis, size in enumerate(requested)]
    sizes = repeated(name, "output_size", tuple(resolved), spatial)
    if min(sizes) < 1:
        raise ShapeError(f"{name}: output_size={output_size} should be positive")
    return sizes


def _windows(size: int, out: int) -> tuple[Array, Array]:
    """For each of ``out`` windows the places in it [out, most], and which of them count; the others repeat the first.

    Window i holds the places from floor(i size / out) to ceil((i + 1) size / out), as in PyTorch.
    """
    steps = np.arange(out)
    return windows(steps * size // out, -(-(steps + 1) * size // out))


def adaptive_avg_pool(name: str, spatial: int, input: TensorLike, output_size: Any) -> Tensor:
    """The mean of each window."""
    x, alone = batched(name, spatial, input)
    if listed(output_size) in ((1,), (1,) * spatial):
        axes = tuple(range(-spatial, 0))
        return single(wrap(x).mean(axis=axes, keepdims=True), alone)
    out, sizes = _sizes(name, spatial, x, output_size), known(name, x, spatial)
    if all(size % count == 0 for size, count in zip(sizes, out, strict=True)):
        windows = tuple(size // count for size, count in zip(sizes, out, strict=True))
        return single(_PLAIN[spatial](wrap(x), windows), alone)
    result = wrap(x)
    for axis, (size, count) in enumerate(zip(sizes, out, strict=True)):
        indices, counted = _windows(size, count)
        result = weighted(
            result, axis + 2, indices, shared_with_repetitions(counted / counted.sum(axis=1, keepdims=True), counted)
        )
    return single(result, alone)


def adaptive_max_pool(name: str, spatial: int, input: TensorLike, output_size: Any, return_indices: bool) -> Any:
    """The greatest element of each window, and its place in the flat spatial axes where asked for."""
    x, alone = batched(name, spatial, input)
    out, sizes = _sizes(name, spatial, x, output_size), known(name, x, spatial)
    axis_windows = [_windows(size, count)[0] for size, count in zip(sizes, out, strict=True)]
    most = [indices.shape[1] for indices in axis_windows]
    flat = np.zeros((*out, *most), np.int64)
    for axis, indices in enumerate(axis_windows):
        shape = [1] * 2 * spatial
        shape[axis], shape[spatial + axis] = indices.shape
        flat = flat * sizes[axis] + indices.reshape(shape)
    rows = flat.reshape(math.prod(out), math.prod(most))
    batch = tuple(x.shape[:2])
    spread = ops.reshape(x, shape=(*batch, math.prod(sizes)))
    with placement.beside(x):
        windows = wrap(ops.gather(spread, lifting.value_of(rows.ravel()), axis=2))
        windows = reshape(windows, (*batch, *rows.shape))
        best = argmax(windows, -1)
        values = single(reshape(take_along_axis(windows, expand_dims(best, -1), -1), (*batch, *out)), alone)
        if not return_indices:
            return values
        row = wrap(lifting.positions_along(best.value.type.shape, 2, best.value)) * rows.shape[1]
        at = ops.gather(lifting.value_of(rows.ravel()), (best + row).value, axis=0)
        return values, single(reshape(wrap(at), (*batch, *out)), alone)


def adaptive_avg_pool1d(input: TensorLike, output_size: Any) -> Tensor:
    """Means of ``output_size`` windows of x[N, C, L]."""
    return adaptive_avg_pool("adaptive_avg_pool1d", 1, input, output_size)


def adaptive_avg_pool2d(input: TensorLike, output_size: Any) -> Tensor:
    """Means of windows of x[N, C, H, W], ``output_size`` of them on each axis; None keeps the axis."""
    return adaptive_avg_pool("adaptive_avg_pool2d", 2, input, output_size)


def adaptive_avg_pool3d(input: TensorLike, output_size: Any) -> Tensor:
    """Means of windows of x[N, C, D, H, W], ``output_size`` of them on each axis; None keeps the axis."""
    return adaptive_avg_pool("adaptive_avg_pool3d", 3, input, output_size)


def adaptive_max_pool1d(input: TensorLike, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of ``output_size`` windows of x[N, C, L], and with ``return_indices`` their places."""
    return adaptive_max_pool("adaptive_max_pool1d", 1, input, output_size, return_indices)


def adaptive_max_pool2d(input: TensorLike, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of windows of x[N, C, H, W], ``output_size`` of them on each axis, and their flat places."""
    return adaptive_max_pool("adaptive_max_pool2d", 2, input, output_size, return_indices)


def adaptive_max_pool3d(input: TensorLike, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of windows of x[N, C, D, H, W], ``output_size`` of them on each axis, and their flat places."""
    return adaptive_max_pool("adaptive_max_pool3d", 3, input, output_size, return_indices)
