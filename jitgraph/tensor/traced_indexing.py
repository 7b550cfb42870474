"""Indices of a trace that depend on values: masks, and slices whose bounds the trace computes."""

from __future__ import annotations

from typing import Any

from jitgraph import ops
from jitgraph.errors import UnsupportedOp
from jitgraph.ir.dims import DimLike
from jitgraph.tensor import indexing, lifting, masked, traced_slices
from jitgraph.tensor.lifting import TensorLike


def get(value: Any, index: Any) -> Any:
    """``value[index]``: of a mask a selection, whose size is not known."""
    mask = _mask_alone(value.shape, index)
    if mask is not None:
        return masked.selected(value, mask)
    if any(map(indexing.is_mask, _items(index))):
        raise masked.refused()
    block, items, _ = traced_slices.block(value, indexing.expanded(value.shape, index))
    return indexing.picked(block, tuple(items))


def put(value: Any, index: Any, new: TensorLike) -> Any:
    """``value`` with ``value[index] = new`` done."""
    mask = _mask_alone(value.shape, index)
    if mask is not None:
        return masked.put(value, mask, new)
    filler = lifting.cast(lifting.value_of(new, value.dtype), value.dtype)
    if any(map(indexing.is_mask, _items(index))):
        return _put_beside(value, list(_items(index)), filler)
    block, items, starts = traced_slices.block(value, indexing.expanded(value.shape, index))
    written = indexing.written(block, tuple(items), filler)
    return ops.dynamic_update_slice(value, written, *starts) if starts else written


def _items(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _mask_alone(shape: tuple[DimLike, ...], index: Any) -> Any:
    """The value of a mask that is all of an index, or stands before whole axes; None for any other index."""
    first, *rest = _items(index)
    if not indexing.is_mask(first):
        return None
    mask = lifting.value_of(first)
    if not mask.shape or any(map(_is_other, rest)):
        return None
    indexing.require_mask(mask, shape[: len(mask.shape)])
    return mask


def _is_other(item: Any) -> bool:
    """Whether an item is neither ``...`` nor a slice of a whole axis; tensors are not to be compared."""
    return item is not Ellipsis and not (isinstance(item, slice) and item == slice(None))


def _put_beside(value: Any, items: list[Any], filler: Any) -> Any:
    """A number written where a mask holds, in the part of the tensor that ints and slices beside it cut out."""
    masks = [at for at, item in enumerate(items) if indexing.is_mask(item)]
    plain = [item for item in items if item is Ellipsis or isinstance(item, int | slice)]
    if len(masks) > 1 or len(plain) + 1 < len(items) or filler.shape or any(map(traced_slices.has_tensors, plain)):
        hint = "write a number there, or x[i] = jg.where(mask, v, x[i])"
        raise UnsupportedOp("a mask beside other indices selects a size that a trace does not know", hint=hint)
    (at,) = masks
    mask = lifting.value_of(items[at])
    rank = len(mask.shape)
    cut = (*items[:at], *[slice(None)] * rank, *items[at + 1 :])
    first = sum(map(indexing.axes_of_item, items[:at]))
    if Ellipsis in cut[:at]:
        first = len(value.shape) - rank - sum(map(indexing.axes_of_item, items[at + 1 :]))
    indexing.require_mask(mask, value.shape[first : first + rank])
    each = [item for item in indexing.expanded(value.shape, cut) if item is not Ellipsis]
    start = sum(isinstance(item, slice) for item in each[:first])
    part = indexing.picked(value, cut)
    axes = tuple(range(start, start + rank))
    wide = mask if mask.shape == part.shape else ops.broadcast(mask, shape=part.shape, axes=axes)
    return indexing.written(value, cut, ops.select(wide, lifting.broadcast_to(filler, part.shape), part))
