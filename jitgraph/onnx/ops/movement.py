"""Slices, pieces, padding, and other arrangements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgraph.errors import UnsupportedOp
from jitgraph.onnx import values
from jitgraph.onnx.registry import define
from jitgraph.tensor import functions as fn

_LARGE = 1 << 31


def _bound(number: Any, size: Any, low: int, high: int) -> Any:
    """A bound of a slice as it is meant: from the end where it is negative, and within the axis."""
    if type(size) is int and type(number) is int:
        number += size if number < 0 else 0
        return max(low, min(number, size + high))
    return number


def _from_the_end(number: Any, size: Any) -> Any:
    """A bound of a slice that goes backwards as one of the reversed axis, which has a symbolic size."""
    if type(number) is int and number > _LARGE:
        return 0
    if type(number) is int and number < 0:
        return size if number < -_LARGE else -1 - number
    return max(size - 1 - number, 0)


def _backwards(x: Any, axis: int, start: Any, end: Any, step: int) -> tuple[Any, slice]:
    """x reversed, and the slice of it that is x[start:end:step] for a negative step along an axis of symbolic size."""
    size = x.shape[axis]
    begin = _from_the_end(start, size)
    if begin is size or (type(begin) is int and begin > 0):
        begin = size - 1 if begin is size else min(begin, size - 1)  # the first one, where the bound lies before it
    return fn.flip(x, axis=axis), slice(begin, _from_the_end(end, size), -step)


def sliced(x: Any, starts: Any, ends: Any, axes: Any, steps: Any) -> Any:
    """x[start:end:step] along each axis, as ONNX means negative and large numbers."""
    index: list[Any] = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        own = axis + x.ndim if axis < 0 else axis
        if not 0 <= own < x.ndim:
            raise UnsupportedOp(f"Slice along axis {axis} of rank {x.ndim}")
        size = x.shape[own]
        if step < 0 and type(size) is not int:
            x, index[own] = _backwards(x, own, start, end, step)
        elif step < 0:
            begin, stop = _bound(start, size, 0, -1), _bound(end, size, -1, 0)
            index[own] = slice(begin, None if stop < 0 else stop, step) if size else slice(0, 0)
        else:
            if type(size) is not int:
                start = 0 if type(start) is int and start < -_LARGE else start
                end = None if type(end) is int and end > _LARGE else end
            index[own] = slice(_bound(start, size, 0, 0), _bound(end, size, 0, 0), step)
    return x[tuple(index)]


@define("Slice", since=10, host=(1, 2, 3, 4), raw=True)
def slice_of(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    first, last = (values.sizes(values.host(each, "the bounds of Slice")) for each in (starts, ends))
    along = list(range(len(first))) if axes is None else values.sizes(values.host(axes, "the axes of Slice"))
    each = [1] * len(first) if steps is None else values.sizes(values.host(steps, "the steps of Slice"))
    return sliced(x, first, last, along, each)


@define("Slice", raw=True)
def slice_by_attributes(x: Any, starts: Any, ends: Any, axes: Any = None) -> Any:
    return sliced(x, starts, ends, list(range(len(starts))) if axes is None else axes, [1] * len(starts))


def _split(x: Any, sizes: Any, axis: int, count: int) -> tuple[Any, ...]:
    axis += x.ndim if axis < 0 else 0
    size = x.shape[axis]
    if sizes is None:
        piece = -(-size // count)
        sizes = [piece] * (count - 1)
        sizes.append(size - piece * (count - 1))
        if type(size) is int and sizes[-1] < 0:
            sizes = [min(piece, max(0, size - piece * i)) for i in range(count)]
    pieces, start = [], 0
    for each in sizes:
        pieces.append(x[(*[slice(None)] * axis, slice(start, start + each))])
        start = start + each
    if type(start) is int and type(size) is int and start != size:
        raise UnsupportedOp(f"Split into {sizes}, where there are {size}")
    return tuple(pieces)


@define("Split", since=13, host=(1,), raw=True)
def split(x: Any, sizes: Any = None, axis: int = 0, num_outputs: int | None = None, outputs: Any = ()) -> Any:
    wanted = None if sizes is None else values.sizes(values.host(sizes, "the sizes of Split"))
    return _split(x, wanted, axis, num_outputs or len(outputs))


@define("Split", raw=True)
def split_by_attribute(x: Any, old: Any = None, axis: int = 0, split: Any = None, outputs: Any = ()) -> Any:
    return _split(x, split, axis, len(outputs))


# ----------------------------------------------------------------------
# Padding.

_MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}


def _positions(size: int, before: int, after: int, mode: str) -> Any:
    """Which element of an axis stands at each place of the padded axis."""
    places = np.arange(-before, size + after)
    if mode == "edge":
        return np.clip(places, 0, size - 1)
    if mode == "wrap":
        return places % size
    period = max(2 * (size - 1), 1)
    places = places % period
    return np.where(places >= size, period - places, places)


def _surrounded(x: Any, axis: int, before: Any, after: Any, value: Any) -> Any:
    """x with as many elements before and behind it as sizes say, which may be symbolic."""
    fill = fn.astype(fn.asarray(value), x.dtype)
    parts = [
        fn.broadcast_to(fill, tuple(count if i == axis else size for i, size in enumerate(x.shape)))
        for count in (before, after)
    ]
    return fn.concat([parts[0], x, parts[1]], axis=axis)


def padded(x: Any, pads: Any, mode: str, value: Any, axes: Any) -> Any:
    """x with elements around it, of which a negative number are left out."""
    count = len(axes)
    widths = {(axis + x.ndim if axis < 0 else axis): (pads[i], pads[i + count]) for i, axis in enumerate(axes)}
    if mode == "constant":
        index = [slice(None)] * x.ndim
        around = [(0, 0)] * x.ndim
        for axis, (before, after) in widths.items():
            begin, end = max(0, -before), max(0, -after)
            index[axis] = slice(begin, x.shape[axis] - end if end else None)
            around[axis] = max(0, before), max(0, after)
        inner = x[tuple(index)]
        for axis, (before, after) in enumerate(around):
            if type(before) is not int or type(after) is not int:
                inner, around[axis] = _surrounded(inner, axis, before, after, value), (0, 0)
        return fn.pad(inner, around, value=value) if any(map(any, around)) else inner
    for axis, (before, after) in widths.items():
        if not before and not after:
            continue
        size = x.shape[axis]
        if type(size) is not int:
            if mode == "wrap":
                raise UnsupportedOp("Pad with the mode wrap of an axis with a named size")
            x = fn.pad(x, [(before, after) if i == axis else (0, 0) for i in range(x.ndim)], mode=_MODES[mode])
            continue
        inner = x[(*[slice(None)] * axis, slice(max(0, -before), size - max(0, -after)))]
        index_of = _positions(inner.shape[axis], max(0, before), max(0, after), mode)
        x = fn.take(inner, index_of, axis=axis)
    return x


@define("Pad", since=11, host=(1, 3))
def pad(x: Any, pads: Any, value: Any = None, axes: Any = None, mode: str = "constant") -> Any:
    along = list(range(x.ndim)) if axes is None else values.sizes(axes)
    return padded(x, values.sizes(pads), mode, 0 if value is None else fn.reshape(value, ()), along)


@define("Pad")
def pad_by_attributes(
    x: Any, mode: str = "constant", pads: Any = None, paddings: Any = None, value: float = 0.0
) -> Any:
    return padded(x, pads or paddings or [], mode, value, list(range(x.ndim)))


@define("CenterCropPad", host=(1,))
def center_crop_pad(x: Any, shape: Any, axes: Any = None) -> Any:
    along = list(range(x.ndim)) if axes is None else [axis + x.ndim if axis < 0 else axis for axis in axes]
    for axis, wanted in zip(along, values.sizes(shape), strict=True):
        size = x.shape[axis]
        if size > wanted:
            start = (size - wanted) // 2
            x = x[(*[slice(None)] * axis, slice(start, start + wanted))]
        elif size < wanted:
            before = (wanted - size) // 2
            around = [(0, 0)] * x.ndim
            around[axis] = (before, wanted - size - before)
            x = fn.pad(x, around)
    return x


# ----------------------------------------------------------------------
# Blocks, triangles, sequences in reverse.


@define("DepthToSpace")
def depth_to_space(x: Any, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.shape
    b = blocksize
    if mode == "DCR":
        blocks = fn.permute_dims(fn.reshape(x, (n, b, b, c // (b * b), h, w)), (0, 3, 4, 1, 5, 2))
    else:
        blocks = fn.permute_dims(fn.reshape(x, (n, c // (b * b), b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return fn.reshape(blocks, (n, c // (b * b), h * b, w * b))


@define("SpaceToDepth")
def space_to_depth(x: Any, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.shape
    b = blocksize
    blocks = fn.reshape(x, (n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return fn.reshape(fn.permute_dims(blocks, order), (n, c * b * b, h // b, w // b))


@define("Trilu", host=(1,))
def trilu(x: Any, k: Any = None, upper: int = 1) -> Any:
    return (fn.triu if upper else fn.tril)(x, 0 if k is None else values.one(k))


@define("ReverseSequence")
def reverse_sequence(x: Any, lengths: Any, batch_axis: int, time_axis: int) -> Any:
    time = fn.reshape(fn.arange(x.shape[time_axis]), tuple(-1 if i == time_axis else 1 for i in range(x.ndim)))
    own = fn.reshape(lengths, tuple(-1 if i == batch_axis else 1 for i in range(x.ndim)))
    places = fn.where(fn.less(time, own), fn.subtract(fn.subtract(own, 1), time), time)
    return fn.take_along_axis(x, fn.broadcast_to(places, x.shape), axis=time_axis)


@define("Col2Im", host=(1, 2))
def col2im(
    x: Any, image_shape: Any, block_shape: Any, dilations: Any = None, pads: Any = None, strides: Any = None
) -> Any:
    image, block = values.sizes(image_shape), values.sizes(block_shape)
    rank = len(image)
    steps, apart = strides or [1] * rank, dilations or [1] * rank
    around = pads or [0] * 2 * rank
    n, columns = x.shape[0], x.shape[1]
    counts = [
        (image[i] + around[i] + around[i + rank] - apart[i] * (block[i] - 1) - 1) // steps[i] + 1 for i in range(rank)
    ]
    sizes = [image[i] + around[i] + around[i + rank] for i in range(rank)]
    grids = np.indices((*block, *counts))
    places = [grids[i] * apart[i] + grids[rank + i] * steps[i] for i in range(rank)]
    flat = np.ravel_multi_index(places, sizes).reshape(-1)
    channels = columns // math.prod(block)
    rows = fn.reshape(x, (n, channels, -1))
    total = fn.index_add(fn.zeros((n, channels, math.prod(sizes)), dtype=x.dtype), 2, flat, rows)
    whole = fn.reshape(total, (n, channels, *sizes))
    inner = tuple(slice(around[i], around[i] + image[i]) for i in range(rank))
    return whole[(slice(None), slice(None), *inner)]
