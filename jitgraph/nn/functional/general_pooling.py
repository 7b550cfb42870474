"""Pools of every kind over one to three spatial axes: maxima with their places, means, power means."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.nn.functional.arguments import repeated
from jitgraph.nn.functional.windows import Windows, batched, known, padded, single, windows_of
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.elementwise import abs, isnan, sign, where
from jitgraph.tensor.functions.scattering import scatter
from jitgraph.tensor.functions.shapes import reshape
from jitgraph.tensor.lifting import TensorLike


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
