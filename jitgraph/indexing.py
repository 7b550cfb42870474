"""``x[index]`` and ``x[index] = value``: ints, slices, ``...``, None, integer tensors and boolean masks.

Reading: the basic part becomes slice, flip and reshape; integer tensors become one gather over the flattened indexed
axes. Writing: positions of all elements are indexed in the same way, and the chosen ones are scattered.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph import dtypes, lifting, ops
from jitgraph.errors import ShapeError, UnsupportedOp
from jitgraph.ir import context, dims
from jitgraph.ir.dims import DimLike
from jitgraph.lifting import TensorLike
from jitgraph.tensor import Tensor


def get(x: Tensor, index: Any) -> Tensor:
    """``x[index]`` as NumPy has it; IndexError where an integer is out of range."""
    items = _expand(x, index)
    value, gathers = _basic(x.value, items)
    if gathers:
        value = _gather(value, gathers)
    return lifting.wrap(value)


def put(x: Tensor, index: Any, new: TensorLike) -> Any:
    """The value of x with ``x[index] = new`` done; of places named twice the last one in order wins."""
    value = x.value
    dtype = value.type.dtype
    if isinstance(index, Tensor | np.ndarray) and dtypes.is_bool(lifting.dtype_of(index)):
        mask = lifting.value_of(index)
        if mask.type.shape == value.type.shape and lifting.value_of(new, dtype).type.ndim == 0:
            filler = lifting.broadcast_to(lifting.cast(lifting.value_of(new, dtype), dtype), value.type.shape)
            return ops.select(mask, filler, value)
    total = value.type.size
    places = lifting.wrap(ops.reshape(ops.iota(shape=(total,), axis=0, dtype=dtypes.int64), shape=value.type.shape))
    chosen = get(places, index).value
    filler = lifting.cast(lifting.value_of(new, dtype), dtype)
    shape = chosen.type.shape
    while filler.type.ndim > len(shape) and filler.type.shape[0] == 1:
        filler = ops.reshape(filler, shape=filler.type.shape[1:])
    if lifting.broadcast_shapes(filler.type.shape, shape) != shape:
        raise ShapeError(f"cannot write {filler.type} to a place of shape {shape}")
    filler = lifting.broadcast_to(filler, shape)
    count = (chosen.type.size,)
    flat = ops.scatter(
        ops.reshape(value, shape=(total,)), ops.reshape(chosen, shape=count), ops.reshape(filler, shape=count), axis=0
    )
    return ops.reshape(flat, shape=value.type.shape)


def along(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """``take_along_axis``: other axes of x broadcast against those of ``indices``."""
    shape = x.value.type.shape
    if indices.ndim != len(shape):
        raise ShapeError(f"take_along_axis: ranks {len(shape)} and {indices.ndim} differ")
    picks: list[Any] = []
    for i, size in enumerate(indices.value.type.shape):
        if i == axis:
            picks.append(indices)
        else:
            column = (1,) * i + (size,) + (1,) * (len(shape) - i - 1)
            steps = ops.iota(shape=(size,), axis=0, dtype=dtypes.int64)
            picks.append(lifting.wrap(ops.reshape(steps, shape=column)))
    return get(x, tuple(picks))


def _expand(x: Tensor, index: Any) -> list[Any]:
    """The index as a list with ``...`` spelled out and boolean masks turned into integer tensors."""
    items: list[Any] = []
    for item in index if isinstance(index, tuple) else (index,):
        if isinstance(item, list):
            item = lifting.wrap(lifting.value_of(np.asarray(item)))
        if isinstance(item, np.ndarray):
            item = lifting.wrap(lifting.value_of(item))
        if isinstance(item, bool | np.bool_):
            raise IndexError("a bool is not an index; a mask is a boolean tensor")
        if isinstance(item, Tensor) and dtypes.is_bool(item.dtype):
            items.extend(_nonzero(item))
        elif isinstance(item, Tensor) and not dtypes.is_integer(item.dtype):
            raise IndexError(f"an index must be an integer or a mask, not {item.dtype.name}")
        else:
            items.append(item)
    used = sum(1 for item in items if item is not None and item is not Ellipsis)
    ndim = x.ndim
    if used > ndim:
        raise IndexError(f"{used} indices for a tensor of rank {ndim}")
    if items.count(None) + sum(item is Ellipsis for item in items) > 0 or used < ndim:
        where = next((i for i, item in enumerate(items) if item is Ellipsis), len(items))
        rest = [item for item in items[where + 1 :]]
        if any(item is Ellipsis for item in rest):
            raise IndexError("an index can hold only one ...")
        items = items[:where] + [slice(None)] * (ndim - used) + rest
    return items


def _nonzero(mask: Tensor) -> list[Tensor]:
    if context.current().trace is not None:
        raise UnsupportedOp(
            "indexing with a boolean mask has a size that depends on values, which a trace cannot record",
            hint="jg.where(mask, x, fill), or index eagerly",
        )
    return [lifting.wrap(lifting.value_of(places)) for places in np.nonzero(mask._concrete("a mask"))]


def _basic(value: Any, items: list[Any]) -> tuple[Any, list[tuple[int, Any]]]:
    """Apply ints, slices and None; returns the value and what is left: (axis of the result, integer tensor)."""
    starts: list[DimLike] = []
    stops: list[DimLike] = []
    strides: list[int] = []
    flips: list[int] = []
    shape: list[DimLike] = []
    gathers: list[tuple[int, Any]] = []
    axis = 0
    for item in items:
        if item is None:
            shape.append(1)
            continue
        size = value.type.shape[axis]
        if isinstance(item, slice):
            start, stop, stride, reverse = _slice(item, size)
            shape.append(-(-(stop - start) // stride))
            if reverse:
                flips.append(axis)
        elif isinstance(item, Tensor):
            start, stop, stride = 0, size, 1
            gathers.append((len(shape), lifting.cast(item.value, dtypes.int64)))
            shape.append(size)
        else:
            start = _int(item, size, axis)
            stop, stride = start + 1, 1
        starts.append(start)
        stops.append(stop)
        strides.append(stride)
        axis += 1
    if (tuple(starts), tuple(stops), tuple(strides)) != ((0,) * axis, value.type.shape, (1,) * axis):
        value = ops.slice(value, starts=tuple(starts), stops=tuple(stops), strides=tuple(strides))
    if flips:
        value = ops.flip(value, axes=tuple(flips))
    if value.type.shape != tuple(shape):
        value = ops.reshape(value, shape=tuple(shape))
    return value, gathers


def _int(item: Any, size: DimLike, axis: int) -> DimLike:
    trace = context.current().trace
    if trace is not None and not hasattr(item, "__index__"):
        return trace.to_dim(item)  # type: ignore[no-any-return]
    if not hasattr(item, "__index__"):
        raise IndexError(f"an index must be an integer, a slice, ..., None or a tensor, not {type(item).__name__}")
    number = int(item.__index__())
    bound = -number if number < 0 else number + 1
    if not context.constraints().at_least(size, bound):
        raise IndexError(f"index {number} is out of range for axis {axis} with size {size}")
    return size + number if number < 0 else number


def _slice(item: slice, size: DimLike) -> tuple[DimLike, DimLike, int, bool]:
    """Start, stop and positive stride of a slice, and whether its elements are then to be reversed."""
    step = 1 if item.step is None else int(item.step)
    if step == 0:
        raise ValueError("a slice's step cannot be 0")
    if isinstance(size, int):
        trace = context.current().trace
        start, stop, step = slice(*(_known(bound, trace) for bound in (item.start, item.stop)), step).indices(size)
        if step > 0:
            return start, max(stop, start), step, False
        count = max(0, -(-(start - stop) // -step))
        last = start + (count - 1) * step
        return (last, start + 1, -step, True) if count else (0, 0, -step, True)
    if step < 0 and (item.start is not None or item.stop is not None):
        raise ShapeError(f"a reversed slice with bounds on the named size {size}", hint="flip first, then slice")
    start = _bound(item.start, size, 0)
    stop = _bound(item.stop, size, size)
    return start, stop, abs(step), step < 0


def _known(bound: Any, trace: Any) -> int | None:
    if bound is None:
        return None
    if hasattr(bound, "__index__"):
        return int(bound.__index__())
    if trace is not None:
        raise ShapeError("a symbolic bound on an axis of known size", hint="jg.where, or name the axis's size too")
    raise IndexError(f"a slice's bound must be an integer, not {type(bound).__name__}")


def _bound(bound: Any, size: DimLike, default: DimLike) -> DimLike:
    """A bound on a named size: taken to lie within it, which becomes a constraint of the trace."""
    if bound is None:
        return default
    trace = context.current().trace
    given = trace.to_dim(bound) if trace is not None and not isinstance(bound, int) else int(bound)
    number: DimLike = size + given if isinstance(given, int) and given < 0 else given
    known = context.constraints()
    if not (known.at_least(size, number) and known.at_least(number, 0)):
        raise ShapeError(f"slice bound {bound} lies outside the named size {size}")
    return number


def _gather(value: Any, gathers: list[tuple[int, Any]]) -> Any:
    """Index axes with integer tensors, which broadcast together; the result's place is as in NumPy."""
    axes = [axis for axis, _ in gathers]
    if len(gathers) == 1:
        return ops.gather(value, gathers[0][1], axis=axes[0])
    shape = lifting.broadcast_shapes(*(index.type.shape for _, index in gathers))
    sizes = [value.type.shape[axis] for axis in axes]
    rest = [axis for axis in range(value.type.ndim) if axis not in axes]
    flat: Any = None
    for (axis, index), size in zip(gathers, sizes, strict=True):
        places = lifting.broadcast_to(_in_range(index, size, axis), shape)
        scale = _filled(size, shape)
        flat = places if flat is None else ops.add(ops.mul(flat, scale), places)
    moved = ops.transpose(value, permutation=(*axes, *rest))
    merged = ops.reshape(moved, shape=(dims.product(sizes), *(value.type.shape[axis] for axis in rest)))
    picked = ops.gather(merged, flat, axis=0)
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    if not adjacent or axes[0] == 0:
        return picked
    before, count = axes[0], len(shape)
    order = (*range(count, count + before), *range(count), *range(count + before, picked.type.ndim))
    return ops.transpose(picked, permutation=order)


def _filled(size: DimLike, shape: tuple[DimLike, ...]) -> Any:
    if isinstance(size, int):
        return lifting.constant(size, dtypes.int64, shape)
    return lifting.broadcast_to(context.current().trace.size_value(size), shape)


def _in_range(index: Any, size: DimLike, axis: int) -> Any:
    """Indices of one axis made non-negative; IndexError where one is out of range."""
    shape = index.type.shape
    zero, extent = lifting.constant(0, dtypes.int64, shape), _filled(size, shape)
    wrapped = ops.select(ops.lt(index, zero), ops.add(index, extent), index)
    inside = ops.bitwise_and(ops.ge(wrapped, zero), ops.lt(wrapped, extent))
    every = ops.reduce_min(inside, axes=tuple(range(len(shape)))) if shape else inside
    ops.check(every, kind="IndexError", message=f"an index is out of range for axis {axis} with size {size}")
    return wrapped
