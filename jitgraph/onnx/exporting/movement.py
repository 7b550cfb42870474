"""Ops that make and move elements in ONNX: constants, ranges, reshapes, broadcasts, slices, pads, concatenations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ir.types import TensorType
from jitgraph.onnx.exporting.emitting import Form, NodeEmitter, as_scalar
from jitgraph.onnx.exporting.values import OnnxValue

_LEAST: Final = int(np.iinfo(np.int64).min)


def _full(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    value: Any = node.attrs["value"]
    type = node.output.tensor
    return (
        as_scalar(e, value, type.dtype, type.shape)
        if isinstance(value, dims.Dim)
        else e.number(value, type.dtype, type.shape)
    )


def _constant(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    value: Any = node.attrs["value"]
    return e.array(value.value) if value.value.ndim else e.number(value.value, value.value.dtype)


def _iota(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    shape, axis = node.output.shape, node.attrs["axis"]
    assert isinstance(axis, int)
    count = e.iota(shape[axis])
    dtype = node.output.dtype
    if dtype in dtypes.HALF:
        count = e.cast(count, dtypes.float32)
    count = e.cast(count, dtype)
    new = [i for i in range(len(shape)) if i != axis]
    return e.unsqueeze(count, new, shape, tuple(extent if i == axis else 1 for i, extent in enumerate(shape)))


def _reshape(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    return e.reshape(refs[0], node.output.shape)


def _transpose(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    permutation: Any = node.attrs["permutation"]
    return e.transpose(refs[0], permutation)


def _flip(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    axes: Any = node.attrs["axes"]
    return flipped(e, refs[0], axes)


def flipped(e: NodeEmitter, x: OnnxValue, axes: Sequence[int]) -> OnnxValue:
    """The order of elements reversed along the axes."""
    if not axes or x.fill is not None:
        return x
    count = len(axes)
    starts, ends, steps = (e.ints((bound,) * count) for bound in (-1, _LEAST, -1))
    return e.node("Slice", [x, starts, ends, e.ints(axes), steps], x.type)


def _broadcast(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    """Only new axes are added here; what reads the value stretches it, or ``NodeEmitter.whole`` does."""
    (x,), shape = refs, node.output.shape
    axes: Any = node.attrs["axes"]
    if not x.stored:  # one number, of whatever shape
        return OnnxValue(x.name, node.output.type, (), x.fill)
    new = [axis for axis in range(len(shape)) if axis not in axes]
    stored: list[Any] = [1] * len(shape)
    for extent, axis in zip(x.stored, axes, strict=True):
        stored[axis] = shape[axis] if extent != 1 else 1
    return e.unsqueeze(x, new, shape, tuple(stored))


def _slice(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    attrs: Any = node.attrs
    return e.slice(refs[0], attrs["starts"], attrs["stops"], attrs["strides"], node.output.shape)


def _pad(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    attrs: Any = node.attrs
    x, value = refs
    return padded(e, x, value, attrs["low"], attrs["high"], attrs["interior"], node.output.shape)


def padded(
    e: NodeEmitter,
    x: OnnxValue,
    value: OnnxValue,
    low: Sequence[DimLike],
    high: Sequence[DimLike],
    interior: Sequence[int],
    shape: Sequence[DimLike],
) -> OnnxValue:
    """``x`` with the value before, after and between its elements; ONNX has no operator for between."""
    for axis, gap in enumerate(interior):
        if gap and x.shape[axis] not in (0, 1):
            x = _spread(e, x, value, axis, gap)
    if all(size == 0 for size in (*low, *high)):
        return x
    pads = e.ints((*low, *high))
    return e.node("Pad", [x, pads, value], TensorType(x.dtype, tuple(shape)))


def _spread(e: NodeEmitter, x: OnnxValue, value: OnnxValue, axis: int, gap: int) -> OnnxValue:
    """``gap`` values between the elements along an axis: each element with as many behind it, less the last ones."""
    extent = x.shape[axis]
    split = (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])
    column = e.reshape(x, split)
    low, high = [0] * len(split), [0] * len(split)
    high[axis + 1] = gap
    widened = (*x.shape[: axis + 1], 1 + gap, *x.shape[axis + 1 :])
    column = e.node("Pad", [column, e.ints((*low, *high)), value], TensorType(x.dtype, widened))
    joined = e.reshape(column, (*x.shape[:axis], extent * (gap + 1), *x.shape[axis + 1 :]))
    shape = (*x.shape[:axis], (extent - 1) * (gap + 1) + 1, *x.shape[axis + 1 :])
    return e.slice(joined, (0,) * len(shape), shape, (1,) * len(shape), shape)


def _concat(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    if len(refs) == 1:
        return refs[0]
    return e.node("Concat", list(refs), node.output.type, axis=node.attrs["axis"])


FORMS: Final[dict[str, Form]] = {
    "full": _full,
    "constant": _constant,
    "iota": _iota,
    "reshape": _reshape,
    "transpose": _transpose,
    "flip": _flip,
    "broadcast": _broadcast,
    "slice": _slice,
    "pad": _pad,
    "concat": _concat,
}
