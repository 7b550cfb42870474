"""Indices of a trace that depend on values: masks, and slices whose bounds the trace computes.

Of ``x[i:i + 3]`` the start is a tensor and the length a number, what is left of stop - start as sums of products of
what the trace knows; a block that does not lie within its axis is an IndexError when the graph runs, as a shorter
result would have another shape.

Bounds that are Python ints which vary from call to call have Python's meaning, negative ones and those beyond the axis
included: where the slice lies is asked of the numbers, and the graph serves calls with the same answers.
"""

from __future__ import annotations

from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.eager.handle import ValueHandle
from jitgraph.errors import IndexingError, UndecidedError, UnsupportedOp
from jitgraph.ir import context
from jitgraph.ir.dims import DimLike
from jitgraph.tensor import indexing, lifting, masked, scalars
from jitgraph.tensor.lifting import TensorLike


def get(value: Any, index: Any) -> Any:
    """``value[index]``: of a mask a selection, whose size is not known."""
    mask = _mask_alone(value.shape, index)
    if mask is not None:
        return masked.selected(value, mask)
    if any(map(indexing.is_mask, _items(index))):
        raise masked.refused()
    block, items, _ = _block(value, indexing.expanded(value.shape, index))
    return indexing.picked(block, tuple(items))


def put(value: Any, index: Any, new: TensorLike) -> Any:
    """``value`` with ``value[index] = new`` done."""
    mask = _mask_alone(value.shape, index)
    if mask is not None:
        return masked.put(value, mask, new)
    filler = lifting.cast(lifting.value_of(new, value.dtype), value.dtype)
    if any(map(indexing.is_mask, _items(index))):
        return _put_beside(value, list(_items(index)), filler)
    block, items, starts = _block(value, indexing.expanded(value.shape, index))
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
    if len(masks) > 1 or len(plain) + 1 < len(items) or filler.shape or any(map(has_tensors, plain)):
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


Form = dict[Any, int]  # a sum: how often each term is in it; the term None stands for 1

_DEEPEST: Final = 32
_HINT: Final = "x[i:i + n] with a number n, or jg.where with a mask of places"


def is_moving(item: Any) -> bool:
    """Whether a slice has a tensor for a bound, or bounds which vary from call to call."""
    return isinstance(item, slice) and (has_tensors(item) or _varies(item))


def has_tensors(item: Any) -> bool:
    """Whether a slice has a tensor for a bound."""
    return isinstance(item, slice) and (isinstance(item.start, ValueHandle) or isinstance(item.stop, ValueHandle))


def _varies(item: slice) -> bool:
    """Whether both bounds of a slice vary, so that its length may be the same at each call."""
    step = item.step is None or (type(item.step) is int and item.step > 0)
    return step and all(scalars.is_varying(x) and x.kind is int and not x.is_size for x in (item.start, item.stop))


def _block(value: Any, items: list[Any]) -> tuple[Any, list[Any], list[Any]]:
    """The block of ``value`` in which the moving slices lie, the items that index it, and where it starts.

    All of ``value`` where every slice has its place after all; it starts nowhere then.
    """
    starts: list[Any] = []
    sizes: list[DimLike] = []
    block_items: list[Any] = []
    axis = 0
    for item in items:
        if item is None or item is Ellipsis:
            block_items.append(item)
            continue
        size = value.shape[axis]
        window: Any = None
        if is_moving(item):
            window = _window(item, size, axis) if has_tensors(item) else _cut(item, size)
        if isinstance(window, tuple):
            start, length = window
            starts.append(start)
            sizes.append(length)
            block_items.append(slice(None, None, item.step))
        else:
            starts.append(None)
            sizes.append(size)
            block_items.append(item if window is None else window)
        axis += 1
    if not any(start is not None for start in starts):
        return value, block_items, []
    starts = [ops.full(shape=(), value=0, dtype=dtypes.int64) if start is None else start for start in starts]
    return ops.dynamic_slice(value, *starts, sizes=tuple(sizes)), block_items, starts


def _window(item: slice, size: DimLike, axis: int) -> tuple[Any, int]:
    """Where the block of a slice starts (int64 of rank 0), and its length."""
    if item.start is None or item.stop is None:
        raise UndecidedError("a slice with a traced bound and no other has no known length", hint=_HINT)
    if item.step is not None and int(item.step) < 1:
        raise UndecidedError("a reversed slice with traced bounds", hint="x[i:i + n], then jg.flip")
    left, right = _form(item.start), _form(item.stop)
    rest = {term: right.get(term, 0) - left.get(term, 0) for term in {**left, **right}}
    if any(count for term, count in rest.items() if term is not None):
        raise UndecidedError("the length of this slice depends on values, which a trace cannot know", hint=_HINT)
    length = max(0, rest.get(None, 0))
    start = lifting.positions(_integer(item.start))
    if length:
        zero, extent, last = (ops.full(shape=(), value=n, dtype=dtypes.int64) for n in (0, length, size))
        inside = ops.bitwise_and(ops.ge(start, zero), ops.le(ops.add(start, extent), last))
        what = f"a slice of {length} elements lies outside axis {axis} with size {size}"
        ops.check(inside, kind="IndexError", message=what)
    return start, length


def _cut(item: slice, size: DimLike) -> tuple[Any, DimLike] | slice:
    """Where the block of a slice between bounds that vary starts (int64), and its length, as Python cuts it.

    A slice where that is known: one without elements, or that begins at an end of the axis.
    """
    trace: Any = context.current().trace
    extent = size if isinstance(size, int) else trace.number_of(size)
    start, stop = (_within(bound, extent) for bound in (item.start, item.stop))
    if not start < stop:
        return slice(0, 0, item.step)
    first = lifting.index_of(start) if scalars.is_varying(start) else start
    if not isinstance(first, ValueHandle):
        return slice(first, stop, item.step)
    return lifting.value_of(first), trace.to_dim(stop - start)


def _within(bound: Any, extent: Any) -> Any:
    """A bound counted from the start of an axis, and within it."""
    if bound < 0:
        bound = bound + extent
        return 0 if bound < 0 else bound
    return extent if bound > extent else bound


def _integer(bound: Any) -> Any:
    value = lifting.value_of(bound)
    if not dtypes.is_integer(value.dtype) or value.shape:
        raise IndexingError(f"a slice's bound must be an integer, not {value.type}")
    return value


def _form(bound: Any) -> Form:
    """A bound as a sum of terms."""
    if not isinstance(bound, ValueHandle):
        return {None: int(bound)}
    value = _integer(bound)
    trace: Any = context.current().trace
    return _form_of(value.ir, trace.producers, _DEEPEST)


def _form_of(ir: Any, producers: Any, depth: int) -> Form:
    node = producers.get(ir) if depth else None
    if node is None:
        return {ir: 1}
    name = node.op.name
    if name == "full" and isinstance(node.attrs["value"], int):
        return {None: int(node.attrs["value"])}
    if name in ("add", "sub", "mul", "cast"):
        parts = [_form_of(operand, producers, depth - 1) for operand in node.inputs]
        if name == "cast":
            return parts[0] if dtypes.is_integer(node.inputs[0].dtype) else {ir: 1}
        left, right = parts
        if name == "mul":
            return _product(left, right, ir)
        sign = 1 if name == "add" else -1
        return {term: left.get(term, 0) + sign * right.get(term, 0) for term in {**left, **right}}
    return {ir: 1}


def _product(left: Form, right: Form, ir: Any) -> Form:
    """A product of which one factor is a number; any other is a term of its own."""
    for factor, other in ((left, right), (right, left)):
        if set(factor) <= {None}:
            return {term: count * factor.get(None, 0) for term, count in other.items()}
    return {ir: 1}
