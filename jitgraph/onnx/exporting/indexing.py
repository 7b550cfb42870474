"""Gathers, scatters, dynamic slices and losses by labels in ONNX.

Bounds are the runtime's to check: what raises IndexError here is an error or open there.
"""

from __future__ import annotations

from typing import Any, Final

from jitgraph import dtypes
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ir.types import TensorType
from jitgraph.onnx.exporting.emitting import Form, NodeEmitter, as_scalar
from jitgraph.onnx.exporting.values import OnnxValue

_INT64: Final = dtypes.int64


def _gather(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    axis = node.attrs.get("axis", 0)  # embedding has none
    x, indices = refs
    return e.node("Gather", [x, indices], node.output.type, axis=axis)


def _rows(
    e: NodeEmitter, x: OnnxValue, indices: OnnxValue, updates: OnnxValue, axis: int
) -> tuple[OnnxValue, OnnxValue, OnnxValue, list[int]]:
    """x with the axis first, flat indices, a row of updates for each, and the permutation that puts the axis back."""
    front = [axis, *(i for i in range(x.ndim) if i != axis)]
    back = sorted(range(x.ndim), key=front.__getitem__)
    own = [*range(axis, axis + indices.ndim)]
    moved = e.transpose(updates, [*own, *(i for i in range(updates.ndim) if i not in own)])
    count = dims.product(indices.shape)
    target = e.transpose(x, front)
    return target, e.reshape(indices, (count,)), e.reshape(moved, (count, *target.shape[1:])), back


def _scatter_add(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    x, indices, updates = refs
    axis: Any = node.attrs["axis"]
    wide = dtypes.float32 if x.dtype in dtypes.HALF else x.dtype
    target, flat, rows, back = _rows(e, e.cast(x, wide), indices, e.cast(updates, wide), axis)
    positions = e.reshape(flat, (*flat.shape, 1))
    summed = e.node("ScatterND", [target, positions, rows], target.type, reduction="add")
    return e.cast(e.transpose(summed, back), x.dtype)


def _scatter(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    """Where indices may repeat, each element takes the row of the last one that names it."""
    x, indices, updates = refs
    axis: Any = node.attrs["axis"]
    target, flat, rows, back = _rows(e, x, indices, updates, axis)
    (count,) = flat.shape
    if count == 0:
        return x
    if count == 1:
        positions = e.reshape(flat, (1, 1))
        return e.transpose(e.node("ScatterND", [target, positions, rows], target.type), back)
    extent = target.shape[0]
    none = e.number(-1, _INT64, (extent,))
    last = e.node(
        "ScatterElements", [none, flat, e.iota(count)], TensorType(_INT64, (extent,)), axis=0, reduction="max"
    )
    hit = e.elementwise("GreaterOrEqual", last, e.number(0, _INT64), dtype=dtypes.bool_)
    source = e.elementwise("Max", last, e.number(0, _INT64))
    if not isinstance(count, int):  # there may be no row at all
        zero = e.number(False if dtypes.is_bool(x.dtype) else 0, x.dtype)
        pads = e.ints((0,) * rows.ndim + (1,) + (0,) * (rows.ndim - 1))
        rows = e.node("Pad", [rows, pads, zero], TensorType(x.dtype, (count + 1, *rows.shape[1:])))
    taken = e.node("Gather", [rows, source], target.type, axis=0)
    axes = list(range(1, target.ndim))
    chosen = e.unsqueeze(hit, axes, target.shape, (extent, *(1 for _ in axes)))
    return e.transpose(e.where(chosen, taken, target), back)


def _combining(reduction: str | None) -> Form:
    def form(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue | None:
        x = refs[0]
        which = reduction or ("max" if node.attrs["largest"] else "min")
        if dtypes.is_bool(x.dtype):
            return None
        return e.node("ScatterElements", list(refs), x.type, axis=0, reduction=which)

    return form


def _clamped(e: NodeEmitter, start: OnnxValue, extent: DimLike, size: DimLike) -> OnnxValue:
    """A start that lies within, as a vector of one."""
    low = e.elementwise("Max", start, e.number(0, _INT64))
    inside = e.elementwise("Min", low, as_scalar(e, extent - size, _INT64))
    return e.reshape(inside, (1,))


def _dynamic_slice(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    x, *starts = refs
    sizes: Any = node.attrs["sizes"]
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if size == x.shape[axis]:
            continue
        first = _clamped(e, start, x.shape[axis], size)
        x = _block(e, x, axis, first, size)
    return x


def _block(e: NodeEmitter, x: OnnxValue, axis: int, first: OnnxValue, size: DimLike) -> OnnxValue:
    """A block along an axis. By Gather, whose result has a known shape, where the bounds of a Slice hide it."""
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    return e.node("Gather", [x, _positions(e, first, size)], TensorType(x.dtype, shape), axis=axis)


def _positions(e: NodeEmitter, first: OnnxValue, size: DimLike) -> OnnxValue:
    return first if size == 1 else e.elementwise("Add", e.iota(size), first)


def _dynamic_update(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    x, update, *starts = refs
    return _updated(e, x, update, starts, 0)


def _updated(e: NodeEmitter, x: OnnxValue, update: OnnxValue, starts: list[OnnxValue], axis: int) -> OnnxValue:
    """x with the block written along each axis in turn: into it goes the block in which later axes are updated."""
    while axis < x.ndim and x.shape[axis] == update.shape[axis]:
        axis += 1
    if axis == x.ndim:
        return update
    size = update.shape[axis]
    first = _clamped(e, starts[axis], x.shape[axis], size)
    if any(x.shape[i] != update.shape[i] for i in range(axis + 1, x.ndim)):
        update = _updated(e, _block(e, x, axis, first, size), update, starts, axis + 1)
    along = e.reshape(_positions(e, first, size), tuple(size if i == axis else 1 for i in range(x.ndim)))
    positions = e.node("Expand", [along, e.ints(update.shape)], TensorType(_INT64, update.shape))
    return e.node("ScatterElements", [x, positions, update], x.type, axis=axis)


# ----------------------------------------------------------------------
# Losses by labels.


def _loss(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue | None:
    scores, labels = refs
    attrs: Any = node.attrs
    if attrs.get("label_smoothing"):
        return None
    wide = e.cast(scores, dtypes.float32) if scores.dtype in dtypes.HALF else scores
    settings = {"ignore_index": attrs["ignore_index"], "reduction": attrs["reduction"]}
    operator: Any = node.op.onnx
    result = e.node(operator, [wide, labels], TensorType(wide.dtype, node.output.shape), **settings)
    return e.cast(result, node.output.dtype)


FORMS: Final[dict[str, Form]] = {
    "gather": _gather,
    "embedding": _gather,
    "scatter": _scatter,
    "scatter_add": _scatter_add,
    "scatter_extreme": _combining(None),
    "scatter_product": _combining("mul"),
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update,
    "nll_loss": _loss,
    "cross_entropy": _loss,
}
