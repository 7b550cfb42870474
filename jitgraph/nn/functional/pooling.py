"""Pools: the greatest element, mean or power mean of each window, of chosen, adaptive or random sizes; and padding."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from operator import index
from typing import Any

import numpy as np

from jitgraph import dtypes, ops, random
from jitgraph.eager import placement
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.ir.op import Op
from jitgraph.nn.functional.arguments import floats, repeated
from jitgraph.nn.functional.windows import (
    LETTERS,
    Array,
    Windows,
    batched,
    known,
    padded,
    shared_with_repetitions,
    single,
    weighted,
    windows,
    windows_of,
)
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.creation import arange
from jitgraph.tensor.functions.elementwise import abs, isnan, sign, where
from jitgraph.tensor.functions.manipulation import concat, mode_of, take_along_axis
from jitgraph.tensor.functions.manipulation import pad as numpy_pad
from jitgraph.tensor.functions.manipulation import padded as padded_by_mode
from jitgraph.tensor.functions.reductions import argmax
from jitgraph.tensor.functions.scattering import scatter
from jitgraph.tensor.functions.shapes import expand_dims, reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.one_step import one_step
from jitgraph.tensor.scalars import for_each, listed

# ----------------------------------------------------------------------
# Pools: the greatest element, mean or power mean of each window, of chosen or adaptive sizes; and padding.

# ----------------------------------------------------------------------
# Pools: the greatest element, mean or power mean of each window, maxima put back where they stood, and padding.


def max_pool(
    name: str,
    spatial: int,
    input: TensorLike,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    """The greatest element of each window, NaN before all; with its place in the flat spatial axes where asked for.

    The gradient goes to the first of equal ones, as in PyTorch.
    """
    settings = windows_of(name, spatial, kernel, stride, padding, dilation, ceil_mode)
    x, alone = batched(name, spatial, input)
    unpadded = not any(settings.padding) and not settings.ceil_mode
    best: Any = None
    best_index: Any = None
    inside: Any = None
    for tap, each in zip(settings.taps(), settings.slices(x, -math.inf), strict=True):
        at, within = (None, None) if unpadded and not return_indices else _positions(settings, x, tap, each)
        if best is None:
            best, best_index, inside = each, at, within
            continue
        better = (each > best) | (isnan(each) & ~isnan(best))
        if not unpadded:
            better = within & (better | ~inside)
            inside = inside | within
        best = where(better, each, best)
        if return_indices:
            best_index = where(better, at, best_index)
    values = single(best, alone)
    return (values, single(best_index, alone)) if return_indices else values


def _positions(settings: Windows, x: Any, tap: tuple[int, ...], like: Tensor) -> tuple[Tensor, Tensor]:
    """For each window where its element at ``tap`` stands in the flat spatial axes, and whether that is inside x."""
    shape, lead = like.value.type.shape, len(like.value.type.shape) - settings.spatial
    flat: Any = None
    inside: Any = None
    for axis, offset in enumerate(tap):
        size = wrap(ops.full(shape=(), value=x.shape[lead + axis], dtype=dtypes.int64))
        first = offset * settings.dilation[axis] - settings.padding[axis]
        at = wrap(lifting.positions_along(shape, lead + axis, like.value)) * settings.stride[axis] + first
        within = (at >= 0) & (at < size)
        flat = at if flat is None else flat * size + at
        inside = within if inside is None else inside & within
    return flat, inside


def avg_pool(
    name: str,
    spatial: int,
    input: TensorLike,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    """The mean of each window: its sum over the places inside x, or inside the padded x, or over ``divisor_override``.

    What a window of ``ceil_mode`` reaches beyond the padding does not count.
    """
    if divisor_override == 0:
        raise JitgraphError(f"{name}: divisor_override=0 divides by zero")
    settings = windows_of(name, spatial, kernel, stride, padding, 1, ceil_mode)
    x, alone = batched(name, spatial, input)
    total = _sum(settings.slices(x, 0.0))
    if divisor_override is not None:
        return single(total / divisor_override, alone)
    if (count_include_pad or not any(settings.padding)) and not ceil_mode:
        return single(total / math.prod(settings.kernel), alone)
    return single(total / _counts(settings, x, count_include_pad), alone)


def _sum(slices: Iterator[Tensor]) -> Tensor:
    total = next(slices)
    for each in slices:
        total = total + each
    return total


def _counts(settings: Windows, x: Any, count_include_pad: bool) -> Tensor:
    """How many places of each window count, [1, 1, *outputs]: those of elements, and of padding where it counts."""
    with placement.beside(x):
        counted = settings.padding if count_include_pad else (0,) * settings.spatial
        ones = lifting.repeated(
            1.0, x.dtype, (1, 1, *(n + 2 * pad for n, pad in zip(x.shape[-settings.spatial :], counted, strict=True)))
        )
        rest = tuple(pad - done for pad, done in zip(settings.padding, counted, strict=True))
        high = tuple(left + settings.overhang(x, axis) for axis, left in enumerate(rest))
        padded_ones = padded(ones, 0.0, rest, high)
        return _sum(settings.strided(padded_ones, settings.outputs(x)))


def lp_pool(
    name: str, spatial: int, input: TensorLike, norm_type: float, kernel: Any, stride: Any, ceil_mode: bool
) -> Tensor:
    """The p-th root of the sum of p-th powers of each window, its sign kept, as PyTorch has it.

    For p = inf the greatest element, to which the roots of even powers tend only where that has the greatest magnitude.
    """
    if norm_type == math.inf:
        maxima: Tensor = max_pool(name, spatial, input, kernel, stride, 0, 1, ceil_mode, False)
        return maxima
    if norm_type == 0 or not math.isfinite(norm_type):
        raise JitgraphError(f"{name}: there is no {norm_type}-th root\n  hint: norm_type is a number, or math.inf")
    x, alone = batched(name, spatial, input)
    sizes = repeated(name, "kernel_size", kernel, spatial)
    powers = wrap(x) ** float(norm_type)
    mean = avg_pool(name, spatial, powers, sizes, stride, 0, ceil_mode, True, None)
    positive = where(abs(mean) > 0, abs(mean), 0.0)
    flat = positive == 0
    root = where(flat, 0.0, where(flat, 1.0, positive * float(math.prod(sizes))) ** (1.0 / norm_type))
    return single(sign(mean) * root, alone)


def max_unpool(
    name: str,
    spatial: int,
    input: TensorLike,
    indices: TensorLike,
    kernel: Any,
    stride: Any,
    padding: Any,
    output_size: Sequence[int] | None,
) -> Tensor:
    """Zeros with the elements of x at ``indices``, which a maximum pool gave; IndexError for one beyond the result."""
    sizes = repeated(name, "kernel_size", kernel, spatial)
    steps = sizes if stride is None else repeated(name, "stride", stride, spatial)
    pads = repeated(name, "padding", padding, spatial)
    x, alone = batched(name, spatial, input)
    in_sizes = known(name, x, spatial)
    if output_size is None:
        out = tuple((n - 1) * s - 2 * p + k for n, s, p, k in zip(in_sizes, steps, pads, sizes, strict=True))
    else:
        out = tuple(output_size)[-spatial:]
    at = lifting.value_of(indices)
    if tuple(at.shape) != tuple(lifting.value_of(input).shape):
        raise ShapeError(f"{name}: indices of {at.type} for values of {lifting.value_of(input).type}")
    if len(out) != spatial or min(out) < 1:
        raise ShapeError(f"{name}: output_size={output_size} should be {spatial} positive numbers")
    batch = tuple(x.shape[:2])
    values = reshape(wrap(x), (*batch, math.prod(in_sizes)))
    positions = reshape(wrap(lifting.positions(at)), (*batch, math.prod(in_sizes)))
    with placement.beside(x):
        empty = wrap(lifting.repeated(0.0, x.dtype, (*batch, math.prod(out))))
    return single(reshape(scatter(empty, 2, positions, values), (*batch, *out)), alone)


def _pool(
    op: Op, name: str, spatial: int, input: TensorLike, kernel: Any, stride: Any, padding: Any, **attrs: Any
) -> Tensor:
    """One or two spatial axes, with or without a batch, by the op on [N, C, H, W]."""
    (operand,) = floats(input)
    if len(operand.shape) not in (spatial + 1, spatial + 2):
        raise ShapeError(f"{name} takes x[N, C, {LETTERS[spatial - 1]}], not {operand.type}")
    settings = windows_of(name, spatial, kernel, stride, padding, 1, False)
    lead, fill = (1,) * (spatial + 2 - len(operand.shape)), (1,) * (2 - spatial)
    x = _reshaped(operand, (*lead, *operand.shape[: len(operand.shape) - spatial], *fill, *operand.shape[-spatial:]))
    result = op(
        x,
        kernel=(*fill, *settings.kernel),
        strides=(*fill, *settings.stride),
        padding=(*((0, 0),) * len(fill), *((pad, pad) for pad in settings.padding)),
        **attrs,
    )
    lead_sizes = result.shape[len(lead) : 2]
    return wrap(_reshaped(result, (*lead_sizes, *result.shape[4 - spatial :])))


def _reshaped(value: Any, shape: tuple[Any, ...]) -> Any:
    return value if value.shape == shape else ops.reshape(value, shape=shape)


def _is_plain(spatial: int, dilation: Any, ceil_mode: bool) -> bool:
    """Whether the ops of pools in two axes do it."""
    return spatial < 3 and not ceil_mode and all(gap == 1 for gap in listed(dilation))


@one_step
def max_pool1d(
    input: TensorLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The greatest element of each window of x[N, C, L]; padding never wins.

    With ``return_indices`` also where it stands in the flat spatial axes (int64), the first of equal ones.
    """
    settings = (kernel_size, stride, padding)
    if _is_plain(1, dilation, ceil_mode) and not return_indices:
        return _pool(ops.max_pool2d, "max_pool1d", 1, input, *settings)
    return max_pool("max_pool1d", 1, input, *settings, dilation, ceil_mode, return_indices)


@one_step
def max_pool2d(
    input: TensorLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The greatest element of each window of x[N, C, H, W]; padding never wins.

    With ``return_indices`` also where it stands in the flat spatial axes (int64), the first of equal ones.
    """
    settings = (kernel_size, stride, padding)
    if _is_plain(2, dilation, ceil_mode) and not return_indices:
        return _pool(ops.max_pool2d, "max_pool2d", 2, input, *settings)
    return max_pool("max_pool2d", 2, input, *settings, dilation, ceil_mode, return_indices)


@one_step
def max_pool3d(
    input: TensorLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The greatest element of each window of x[N, C, D, H, W]; padding never wins.

    With ``return_indices`` also where it stands in the flat spatial axes (int64), the first of equal ones.
    """
    settings = (kernel_size, stride, padding)
    return max_pool("max_pool3d", 3, input, *settings, dilation, ceil_mode, return_indices)


@one_step
def avg_pool1d(
    input: TensorLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of x[N, C, L], over all its places or those inside x alone."""
    settings = (kernel_size, stride, padding)
    if _is_plain(1, 1, ceil_mode):
        attrs = {"count_include_pad": count_include_pad}
        return _pool(ops.avg_pool2d, "avg_pool1d", 1, input, *settings, **attrs)
    return avg_pool("avg_pool1d", 1, input, *settings, ceil_mode, count_include_pad, None)


@one_step
def avg_pool2d(
    input: TensorLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of x[N, C, H, W], over its places, those inside x, or ``divisor_override``."""
    settings = (kernel_size, stride, padding)
    if _is_plain(2, 1, ceil_mode) and divisor_override is None:
        attrs = {"count_include_pad": count_include_pad}
        return _pool(ops.avg_pool2d, "avg_pool2d", 2, input, *settings, **attrs)
    return avg_pool("avg_pool2d", 2, input, *settings, ceil_mode, count_include_pad, divisor_override)


@one_step
def avg_pool3d(
    input: TensorLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of x[N, C, D, H, W], over its places, those inside x, or ``divisor_override``."""
    settings = (kernel_size, stride, padding)
    return avg_pool("avg_pool3d", 3, input, *settings, ceil_mode, count_include_pad, divisor_override)


@one_step
def pad(input: TensorLike, pad: Sequence[int], mode: str = "constant", value: float | int | None = None) -> Tensor:
    """x with elements around it: ``pad`` is (before, after) of the last axis, then of the one before.

    ``mode``: constant (``value``, or 0), reflect, replicate, circular, and jg.pad's others. Negative numbers cut
    elements off.
    """
    operand = lifting.value_of(input)
    ndim = len(operand.shape)
    amounts = list(map(index, listed(pad)))
    if len(amounts) % 2 or len(amounts) > 2 * ndim:
        raise ShapeError(f"pad: {len(amounts)} numbers for {operand.type}; give (before, after) from the last axis on")
    widths = [(0, 0)] * (ndim - len(amounts) // 2) + [
        (amounts[i], amounts[i + 1]) for i in range(len(amounts) - 2, -1, -2)
    ]
    kind = mode_of(mode)
    if kind in ("edge", "reflect"):  # of which the elements that are cut off are the source, too
        with placement.beside(operand):
            return wrap(padded_by_mode(operand, widths, kind))
    starts = tuple(max(-low, 0) for low, _ in widths)
    stops = tuple(size - max(-high, 0) for size, (_, high) in zip(operand.shape, widths, strict=True))
    if any(starts) or stops != operand.shape:
        operand = ops.slice(operand, starts=starts, stops=stops, strides=(1,) * ndim)
    if kind != "constant":
        return numpy_pad(wrap(operand), [(max(low, 0), max(high, 0)) for low, high in widths], mode=mode)
    filler = lifting.constant(0 if value is None else value, operand.dtype)
    low, high = (tuple(max(width[side], 0) for width in widths) for side in (0, 1))
    return wrap(ops.pad(operand, filler, low=low, high=high, interior=(0,) * ndim))


def lp_pool1d(
    input: TensorLike, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """(sum of x^p)^(1 / p) of each window of x[N, C, L]."""
    return lp_pool("lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: TensorLike, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """(sum of x^p)^(1 / p) of each window of x[N, C, H, W]."""
    return lp_pool("lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: TensorLike, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """(sum of x^p)^(1 / p) of each window of x[N, C, D, H, W]."""
    return lp_pool("lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode)


@one_step
def max_unpool1d(
    input: TensorLike,
    indices: TensorLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Zeros with the elements of x[N, C, L] at ``indices``, as ``max_pool1d`` gave them."""
    return max_unpool("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


@one_step
def max_unpool2d(
    input: TensorLike,
    indices: TensorLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Zeros with the elements of x[N, C, H, W] at ``indices``, as ``max_pool2d`` gave them."""
    return max_unpool("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


@one_step
def max_unpool3d(
    input: TensorLike,
    indices: TensorLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Zeros with the elements of x[N, C, D, H, W] at ``indices``, as ``max_pool3d`` gave them."""
    return max_unpool("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)


# ----------------------------------------------------------------------
# Pools whose windows are chosen so that the result has given sizes, which need not divide those of x.

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


@one_step
def adaptive_avg_pool1d(input: TensorLike, output_size: Any) -> Tensor:
    """Means of ``output_size`` windows of x[N, C, L]."""
    return adaptive_avg_pool("adaptive_avg_pool1d", 1, input, output_size)


@one_step
def adaptive_avg_pool2d(input: TensorLike, output_size: Any) -> Tensor:
    """Means of windows of x[N, C, H, W], ``output_size`` of them on each axis; None keeps the axis."""
    return adaptive_avg_pool("adaptive_avg_pool2d", 2, input, output_size)


@one_step
def adaptive_avg_pool3d(input: TensorLike, output_size: Any) -> Tensor:
    """Means of windows of x[N, C, D, H, W], ``output_size`` of them on each axis; None keeps the axis."""
    return adaptive_avg_pool("adaptive_avg_pool3d", 3, input, output_size)


@one_step
def adaptive_max_pool1d(input: TensorLike, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of ``output_size`` windows of x[N, C, L], and with ``return_indices`` their places."""
    return adaptive_max_pool("adaptive_max_pool1d", 1, input, output_size, return_indices)


@one_step
def adaptive_max_pool2d(input: TensorLike, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of windows of x[N, C, H, W], ``output_size`` of them on each axis, and their flat places."""
    return adaptive_max_pool("adaptive_max_pool2d", 2, input, output_size, return_indices)


@one_step
def adaptive_max_pool3d(input: TensorLike, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of windows of x[N, C, D, H, W], ``output_size`` of them on each axis, and their flat places."""
    return adaptive_max_pool("adaptive_max_pool3d", 3, input, output_size, return_indices)


# ----------------------------------------------------------------------
# Maxima of windows whose places are drawn at random (Graham 2014).


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


def _drawn_sizes(name: str, sizes: Sequence[int], kernel: Sequence[int], output_size: Any, output_ratio: Any) -> Any:
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


def _drawn_windows(drawn: Tensor, sizes: Sequence[int], kernel: Sequence[int], out: Sequence[int]) -> Any:
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
    out = _drawn_sizes(name, sizes, kernel, output_size, output_ratio)
    batch = value.shape[:2]
    if samples is not None and tuple(lifting.value_of(samples).shape) != (*batch, spatial):
        raise ShapeError(f"{name}: samples {lifting.value_of(samples).type} should be [N, C, {spatial}]")
    with placement.beside(value):
        if samples is None:
            drawn = random.uniform((*x.shape[:2], spatial), dtype=x.dtype, generator=generator)
        else:
            drawn = wrap(lifting.value_of(samples))
        flat = _drawn_windows(drawn, sizes, kernel, out)
    count, most = math.prod(out), math.prod(kernel)
    indices = reshape(flat, (*batch, count * most))
    windows = reshape(take_along_axis(reshape(x, (*batch, math.prod(sizes))), indices, 2), (*batch, count, most))
    best = argmax(windows, axis=-1, keepdims=True)
    values = reshape(take_along_axis(windows, best, 3), (*batch, *out))
    if not return_indices:
        return single(values, alone)
    at = reshape(take_along_axis(reshape(indices, (*batch, count, most)), best, 3), (*batch, *out))
    return single(values, alone), single(at, alone)


@one_step
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


@one_step
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
