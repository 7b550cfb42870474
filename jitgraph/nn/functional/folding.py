"""Windows of images as columns and back, and channels as blocks of pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgraph import ops
from jitgraph.eager import placement
from jitgraph.errors import ShapeError
from jitgraph.nn.functional.arguments import repeated
from jitgraph.nn.functional.windows import Array, known_sizes
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.manipulation import moveaxis, pad
from jitgraph.tensor.functions.shapes import permute_dims, reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


def _windows(
    name: str, sizes: Sequence[int], kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> tuple[Array, tuple[int, ...], tuple[int, int]]:
    """The flat place of each element of each window in the padded grid, the paddings, and the padded sizes."""
    kernel, spread, around, step = (
        repeated(name, what, argument, 2)
        for what, argument in zip(
            ("kernel_size", "dilation", "padding", "stride"), (kernel_size, dilation, padding, stride), strict=True
        )
    )
    if min(*kernel, *spread, *step) < 1 or min(around) < 0:
        raise ShapeError(f"{name}: kernel_size, dilation and stride are at least 1, padding at least 0")
    wide = (sizes[0] + 2 * around[0], sizes[1] + 2 * around[1])
    counts = [(wide[i] - spread[i] * (kernel[i] - 1) - 1) // step[i] + 1 for i in range(2)]
    if min(counts) < 1:
        raise ShapeError(f"{name}: windows of {kernel} do not fit into {wide}")
    rows, columns = (
        (np.arange(kernel[i]) * spread[i])[:, None] + (np.arange(counts[i]) * step[i])[None, :] for i in range(2)
    )
    indices = rows[:, None, :, None] * wide[1] + columns[None, :, None, :]
    return indices.reshape(kernel[0] * kernel[1], counts[0] * counts[1]), around, wide


def unfold(input: TensorLike, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of x[N, C, H, W] (or [C, H, W]) as columns: [N, C * window, number of windows]."""
    x = wrap(lifting.value_of(input))
    if x.ndim not in (3, 4):
        raise ShapeError(f"unfold takes x[N, C, H, W] or [C, H, W], not {x.value.type}")
    sizes = known_sizes(x, x.ndim - 2, "unfold")
    indices, around, _ = _windows("unfold", sizes, kernel_size, dilation, padding, stride)
    lead = x.value.type.shape[:-2]
    wide = pad(x, (*[(0, 0)] * len(lead), *((n, n) for n in around)))
    with placement.beside(x.value):
        picked = wrap(
            ops.gather(
                reshape(wide, (*lead, math.prod(wide.value.type.shape[-2:]))).value,
                lifting.value_of(indices),
                axis=len(lead),
            )
        )
    return reshape(picked, (*lead[:-1], lead[-1] * indices.shape[0], indices.shape[1]))


def fold(
    input: TensorLike, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The sum [N, C, H, W] of windows that stand as columns [N, C * window, number of windows], as ``unfold`` makes."""
    x = wrap(lifting.value_of(input))
    sizes = repeated("fold", "output_size", output_size, 2)
    indices, around, wide = _windows("fold", sizes, kernel_size, dilation, padding, stride)
    shape = x.value.type.shape
    if (
        x.ndim not in (2, 3)
        or shape[-1] != indices.shape[1]
        or not isinstance(shape[-2], int)
        or shape[-2] % indices.shape[0]
    ):
        raise ShapeError(
            f"fold of {x.value.type}: {indices.shape[1]} windows of {indices.shape[0]} elements are needed"
        )
    lead = (*shape[:-2], shape[-2] // indices.shape[0])
    columns = reshape(x, (*lead, *indices.shape))
    with placement.beside(x.value):
        empty = ops.full(shape=(*lead, wide[0] * wide[1]), value=0, dtype=x.dtype)
        summed = wrap(ops.scatter_add(empty, lifting.value_of(indices), columns.value, axis=len(lead)))
    padded = reshape(summed, (*lead, *wide))
    cropped = padded[..., around[0] : around[0] + sizes[0], around[1] : around[1] + sizes[1]]
    return wrap(cropped.value)


def pixel_shuffle(input: TensorLike, upscale_factor: int) -> Tensor:
    """x[..., C * r * r, H, W] as [..., C, H * r, W * r]: channels become blocks of r by r pixels."""
    x, r = wrap(lifting.value_of(input)), upscale_factor
    *lead, channels, height, width = _image("pixel_shuffle", x)
    if not isinstance(channels, int) or r < 1 or channels % (r * r):
        raise ShapeError(f"pixel_shuffle: {channels} channels are no multiple of {r} * {r}")
    split = reshape(x, (*lead, channels // (r * r), r, r, height, width))
    n = len(lead)
    turned = permute_dims(split, (*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    return reshape(turned, (*lead, channels // (r * r), height * r, width * r))


def pixel_unshuffle(input: TensorLike, downscale_factor: int) -> Tensor:
    """x[..., C, H * r, W * r] as [..., C * r * r, H, W], the inverse of ``pixel_shuffle``."""
    x, r = wrap(lifting.value_of(input)), downscale_factor
    *lead, channels, height, width = _image("pixel_unshuffle", x)
    sizes = known_sizes(x, x.ndim - 2, "pixel_unshuffle")
    if r < 1 or sizes[0] % r or sizes[1] % r:
        raise ShapeError(f"pixel_unshuffle: {height} by {width} pixels are no multiples of {r}")
    n = len(lead)
    split = reshape(x, (*lead, channels, sizes[0] // r, r, sizes[1] // r, r))
    turned = permute_dims(split, (*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return reshape(turned, (*lead, channels * r * r, sizes[0] // r, sizes[1] // r))


def _image(name: str, x: Tensor) -> list[Any]:
    if x.ndim < 3:
        raise ShapeError(f"{name} takes x[..., C, H, W], not {x.value.type}")
    return list(x.value.type.shape)


def channel_shuffle(input: TensorLike, groups: int) -> Tensor:
    """x[N, C, ...] with its channels dealt out: channel k of group g goes to place k * groups + g."""
    x = wrap(lifting.value_of(input))
    n, channels, *rest = _image("channel_shuffle", x)
    if not isinstance(channels, int) or groups < 1 or channels % groups:
        raise ShapeError(f"channel_shuffle: {channels} channels in {groups} groups")
    split = reshape(x, (n, groups, channels // groups, *rest))
    return reshape(moveaxis(split, 1, 2), (n, channels, *rest))
