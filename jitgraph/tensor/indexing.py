"""``x[index]`` and ``x[index] = value``: ints, slices, ``...``, None, integer tensors and boolean masks, as in NumPy.

Reading: the basic part becomes slice, flip and reshape; integer tensors become one gather over the indexed axes.
Writing: a block of neighbours is set as one; else the places of all elements are indexed in the same way, and the new
ones scattered to those chosen.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal, NamedTuple

import numpy as np

from jitgraph import dtypes, foreign, ops
from jitgraph.eager import placement
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.handle import ValueHandle
from jitgraph.eager.rules import dense
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import IndexingError, ShapeError
from jitgraph.ir import context, dims
from jitgraph.ir.dims import DimLike
from jitgraph.ops.rules import extent_of
from jitgraph.records import dataclass
from jitgraph.runtime import imports
from jitgraph.tensor import direct, lifting, scalars
from jitgraph.tensor.lifting import TensorLike


class _Picks(NamedTuple):
    """A tensor as an item of an index: the value of its integers, or of a mask."""

    value: Any

    @property
    def is_mask(self) -> bool:
        return dtypes.is_bool(self.value.dtype)


class _Truth(NamedTuple):
    """A bool as an item of an index: a new axis, of one element or of none."""

    holds: bool


@dataclass(slots=True)
class _Plan:
    """An index taken apart: what the slice op takes, which axes are then flipped, the shape that follows, and gathers.

    ``gathers`` are (axis of that shape, int64 value). ``place`` is the axis of the result at which the axes of the
    gathers' indices stand. ``kinds`` says for each axis of the tensor what indexes it.
    """

    starts: list[DimLike] = field(default_factory=list)
    stops: list[DimLike] = field(default_factory=list)
    strides: list[int] = field(default_factory=list)
    flips: list[int] = field(default_factory=list)
    shape: list[DimLike] = field(default_factory=list)
    gathers: list[tuple[int, Any]] = field(default_factory=list)
    place: int = 0
    kinds: list[Literal["int", "slice", "tensor"]] = field(default_factory=list)


def of_eager(x: Any, index: Any) -> Any:
    """``x[index]`` outside of traces; None where the general way has to be taken."""
    cut = direct.items_of(index)
    for item in cut:
        if item is not Ellipsis and item.__class__ is not int and item.__class__ is not slice and item is not None:
            from jitgraph.tensor import direct_indexing  # here, as not every program picks elements

            return direct_indexing.get(x, index)
    view = direct.view(x, lambda array: array[cut])
    if view is not None or x._value.__class__ is not EagerValue or context.current().trace is not None:
        return view
    return _cut_on_the_tape(x.value, cut)


def _cut_on_the_tape(value: EagerValue, items: tuple[Any, ...]) -> Any:
    """The same with a record; None for steps back, and for what is no index."""
    from jitgraph.tensor.index_record import IndexRecord, cut_of  # here, as not every program has a tape

    now = context.current()
    if now.emitter is not EAGER or now.profile is not None:
        return None
    if value.record is None or cut_of(value.shape, items) is None:
        return None
    output = EagerValue(value.array[items])
    if value.is_private():
        output = dense(output)
    return output.part_of(IndexRecord(value, output, items), 0)


def get(value: Any, index: Any) -> Any:
    """``value[index]`` as NumPy has it, where the value lies; IndexError where an integer is out of range."""
    with placement.beside(value):
        if context.current().trace is not None:
            index = _of_tensors(index)
            if _depends_on_values(index):
                return imports.module("jitgraph.tensor.traced_indexing").get(value, index)
        return picked(value, index)


def picked(value: Any, index: Any) -> Any:
    """The same for an index whose result has a size that is known."""
    return _apply(value, _plan(value.shape, index))


def _of_tensors(index: Any) -> Any:
    """An index with tensors in place of numbers that the graph computes, and of ints that vary from call to call.

    The bounds of a slice that vary stay numbers: how long it is, is asked of them.
    """
    if type(index) is tuple:  # and no _Picks, which is a tensor already
        return tuple(map(_of_tensors, index))
    if isinstance(index, slice):
        bounds, step = (index.start, index.stop), index.step
        if not any(map(scalars.is_computed, (*bounds, step))):
            return index
        start, stop = map(_of_tensors, bounds)
        return slice(start, stop, step.as_tensor() if scalars.is_computed(step) else step)
    if scalars.is_computed(index):
        return index.as_tensor()
    return lifting.index_of(index) if scalars.is_varying(index) else index


def _depends_on_values(index: Any) -> bool:
    """Whether an index has a mask, or a slice whose bounds are tensors or vary from call to call."""
    for item in index if isinstance(index, tuple) else (index,):
        if isinstance(item, slice):
            if any(isinstance(bound, ValueHandle) or scalars.is_varying(bound) for bound in (item.start, item.stop)):
                return True
        elif is_mask(item):
            return True
    return False


def is_mask(item: Any) -> bool:
    """Whether an item of an index is a tensor or an array of bools."""
    return _is_tensor(item) and dtypes.is_bool(lifting.dtype_of(item))


def put(value: Any, index: Any, new: TensorLike) -> Any:
    """``value`` with ``value[index] = new`` done; of places named twice the last one in order wins.

    An assignment copies, so ``new`` and the indices may lie on another device.
    """
    with placement.beside(value):
        return placement.brought(_put(value, index, new), value)


def is_whole(shape: tuple[DimLike, ...], index: Any) -> bool:
    """Whether an index of ints, slices, None and ``...`` is known to choose all elements."""
    sizes = iter(shape)
    for item in expanded(shape, index):
        if item is None or item is Ellipsis:
            continue
        size = next(sizes)
        if isinstance(item, slice):
            if item != slice(None) and not (isinstance(size, int) and _is_full(item, size)):
                return False
        elif size != 1:
            return False
    return True


def _is_full(item: slice, size: int) -> bool:
    bounds = (item.start, item.stop, item.step)
    return all(bound is None or type(bound) is int for bound in bounds) and item.indices(size) == (0, size, 1)


def _put(value: Any, index: Any, new: TensorLike) -> Any:
    if context.current().trace is not None:
        index = _of_tensors(index)
        if _depends_on_values(index):
            return imports.module("jitgraph.tensor.traced_indexing").put(value, index, new)
    filler = lifting.cast(lifting.value_of(new, value.dtype), value.dtype)
    from jitgraph.tensor import direct_indexing  # here, as not every program writes elements

    result = direct_indexing.put(value, index, filler)
    if result is not None:
        return result
    if is_mask(index) and not filler.shape:
        mask = lifting.value_of(index)
        if mask.shape == value.shape:
            return ops.select(mask, lifting.broadcast_to(filler, value.shape), value)
    return written(value, index, filler)


def written(value: Any, index: Any, filler: Any) -> Any:
    """``value`` with the value ``filler``, of its dtype, written at an index whose size is known."""
    shape = value.shape
    plan = _plan(shape, index)
    if not plan.gathers and not plan.flips and all(stride == 1 for stride in plan.strides):
        return _put_block(value, plan, filler)
    result = _put_picked(value, plan, filler)
    if result is not None:
        return result
    total = dims.product(shape)
    positions = ops.reshape(ops.iota(shape=(total,), axis=0, dtype=dtypes.int64), shape=shape)
    chosen = _apply(positions, plan)
    filler = _fitted(filler, chosen.shape)
    count = (dims.product(chosen.shape),)
    flat = ops.scatter(
        ops.reshape(value, shape=(total,)), ops.reshape(chosen, shape=count), ops.reshape(filler, shape=count), axis=0
    )
    return ops.reshape(flat, shape=shape)


def _put_block(value: Any, plan: _Plan, filler: Any) -> Any:
    filler = _fitted(filler, tuple(plan.shape))
    block = tuple(stop - start for start, stop in zip(plan.starts, plan.stops, strict=True))
    if filler.shape != block:
        filler = ops.reshape(filler, shape=block)
    if block == value.shape:
        return filler
    return ops.dynamic_update_slice(value, filler, *(_filled(start, ()) for start in plan.starts))


def _put_picked(value: Any, plan: _Plan, filler: Any) -> Any:
    """A write at integer tensors along neighbouring axes, or at tensors of rank 0: of elements, not of all places.

    None for any other index.
    """
    picks = [index for _, index in plan.gathers]
    shape = value.shape
    along = _indexed_axes(shape, plan)
    if along is not None:
        table, flat, axis = _merged(value, plan, *along)
        filler = _fitted(filler, (*table.shape[:axis], *flat.shape, *table.shape[axis + 1 :]))
        return ops.reshape(ops.scatter(table, flat, filler, axis=axis), shape=shape)
    if not _is_plain(plan) or any(index.shape for index in picks):
        return None
    starts, block = _block(shape, plan)
    filler = _fitted(filler, _picked_shape(plan))
    return ops.dynamic_update_slice(value, ops.reshape(filler, shape=block), *starts)


def _block(shape: tuple[DimLike, ...], plan: _Plan) -> tuple[list[Any], tuple[DimLike, ...]]:
    """Where the block begins that slices, ints and tensors of rank 0 index, and its extents."""
    starts: list[Any] = []
    block: list[DimLike] = []
    picks = iter([index for _, index in plan.gathers])
    for axis, (kind, start, stop) in enumerate(zip(plan.kinds, plan.starts, plan.stops, strict=True)):
        picked = kind == "tensor"
        starts.append(_in_range(next(picks), shape[axis], axis) if picked else _filled(start, ()))
        block.append(1 if picked else stop - start)
    return starts, tuple(block)


def _picked_shape(plan: _Plan) -> tuple[DimLike, ...]:
    """The shape of what tensors of rank 0 index."""
    axes = {axis for axis, _ in plan.gathers}
    return tuple(size for axis, size in enumerate(plan.shape) if axis not in axes)


def _is_plain(plan: _Plan) -> bool:
    """Whether all strides are 1, and each gather is along an axis of the tensor."""
    strides = not plan.flips and all(stride == 1 for stride in plan.strides)
    return strides and plan.kinds.count("tensor") == len(plan.gathers)


def _indexed_axes(shape: tuple[DimLike, ...], plan: _Plan) -> tuple[int, int] | None:
    """From where to before where neighbouring axes are indexed by tensors and ints; None where others are not whole."""
    bounds = zip(plan.kinds, plan.starts, plan.stops, shape, strict=True)
    is_full = all((start, stop) == (0, size) for kind, start, stop, size in bounds if kind == "slice")
    indexed = [axis for axis, kind in enumerate(plan.kinds) if kind != "slice"]
    new_axes = len(plan.shape) - plan.kinds.count("slice") - len(plan.gathers)
    if not is_full or new_axes or not _is_plain(plan) or indexed[-1] - indexed[0] + 1 != len(indexed):
        return None
    return indexed[0], indexed[-1] + 1


def _merged(value: Any, plan: _Plan, first: int, behind: int) -> tuple[Any, Any, int]:
    """The tensor with the axes from ``first`` to before ``behind`` as one, the indices along that, and its number."""
    shape, picks = value.shape, iter([index for _, index in plan.gathers])
    axes = range(first, behind)
    indices = [next(picks) if plan.kinds[axis] == "tensor" else _filled(plan.starts[axis], ()) for axis in axes]
    if len(indices) == 1:
        return value, indices[0], first
    index_shape = lifting.broadcast_shapes(*(index.shape for index in indices))
    flat: Any = None
    for axis, index in zip(axes, indices, strict=True):
        number = _in_range(index, shape[axis], axis) if plan.kinds[axis] == "tensor" else index
        number = lifting.broadcast_to(number, index_shape)
        flat = number if flat is None else ops.add(ops.mul(flat, _filled(shape[axis], index_shape)), number)
    merged = dims.product(shape[first:behind])
    return ops.reshape(value, shape=(*shape[:first], merged, *shape[behind:])), flat, first


def _fitted(filler: Any, shape: tuple[DimLike, ...]) -> Any:
    """``filler`` broadcast to the place it is written to; leading axes of size 1 are dropped, as in NumPy."""
    original_type = filler.type
    while len(filler.shape) > len(shape) and isinstance(filler.shape[0], int) and filler.shape[0] == 1:
        filler = ops.reshape(filler, shape=filler.shape[1:])
    try:
        fits = lifting.broadcast_shapes(filler.shape, shape) == shape
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(f"cannot write {original_type} to a place of shape {shape}")
    return lifting.broadcast_to(filler, shape)


def along(value: Any, indices: Any, axis: int) -> Any:
    """``take_along_axis``: other axes of ``value`` broadcast against those of ``indices``, a value of integers."""
    shape, rank = indices.shape, len(value.shape)
    if len(shape) != rank:
        raise ShapeError(f"the indices have rank {len(shape)}, the tensor {rank}")
    picks = []  # for each element of ``indices``, its place along ``axis`` and its own elsewhere
    with placement.beside(value):
        for i, size in enumerate(shape):
            column = (1,) * i + (size,) + (1,) * (rank - i - 1)
            steps = ops.iota(shape=(size,), axis=0, dtype=dtypes.int64)
            picks.append(_Picks(indices if i == axis else ops.reshape(steps, shape=column)))
        return get(value, tuple(picks))


# --- from the index to a plan ---------------------------------------------------------------------------------------


def _plan(shape: tuple[DimLike, ...], index: Any) -> _Plan:
    from jitgraph.tensor.index_bounds import bounds_of, index_of  # here, as views of eager tensors ask for no plan

    plan = _Plan()
    axis = 0
    advanced: list[int] = []  # where, among all items, ints and tensors stand
    before: list[int] = []  # how many axes of the result come before each of them
    items = expanded(shape, index)
    for position, item in enumerate(items):
        if item is None:
            plan.shape.append(1)
            continue
        if item is Ellipsis:
            continue
        if isinstance(item, _Truth):
            advanced.append(position)
            before.append(len(plan.shape) - len(plan.gathers))
            plan.gathers.append((len(plan.shape), lifting.repeated(0, dtypes.int64, (int(item.holds),))))
            plan.shape.append(1)
            continue
        size = shape[axis]
        start: DimLike
        stop: DimLike
        if isinstance(item, slice):
            start, stop, stride, reverse = bounds_of(item, size)
            if reverse:
                plan.flips.append(axis)
            plan.shape.append(extent_of(start, stop, stride))
            plan.kinds.append("slice")
        elif isinstance(item, _Picks):
            start, stop, stride = 0, size, 1
            advanced.append(position)
            before.append(len(plan.shape) - len(plan.gathers))
            plan.gathers.append((len(plan.shape), lifting.positions(item.value)))
            plan.shape.append(size)
            plan.kinds.append("tensor")
        else:
            plan.kinds.append("int")
            start = index_of(item, size, axis)
            stop, stride = start + 1, 1
            advanced.append(position)
            before.append(len(plan.shape) - len(plan.gathers))
        plan.starts.append(start)
        plan.stops.append(stop)
        plan.strides.append(stride)
        axis += 1
    if plan.gathers and advanced == list(range(advanced[0], advanced[0] + len(advanced))):
        plan.place = before[0]
    return plan


def expanded(shape: tuple[DimLike, ...], index: Any) -> list[Any]:
    """The index as a list with an item for each axis, ``...`` kept in its place, masks turned into integer tensors."""
    entries = [_item(item) for item in (index if isinstance(index, tuple) else (index,))]
    used = sum(_axes_of(item) for item in entries)
    if used > len(shape):
        raise IndexingError(f"{used} indices for a tensor of rank {len(shape)}")
    dots = sum(item is Ellipsis for item in entries)
    if dots > 1:
        raise IndexingError("an index can hold only one ...")
    if dots == 0 and used < len(shape):
        entries.append(Ellipsis)
    items: list[Any] = []
    axis = 0
    for item in entries:
        if item is Ellipsis:
            items += [Ellipsis, *[slice(None)] * (len(shape) - used)]
            axis += len(shape) - used
            continue
        count = _axes_of(item)
        if isinstance(item, _Picks) and item.is_mask:
            items += _nonzero(item.value, shape[axis : axis + count])
        else:
            items.append(item)
        axis += count
    return items


def _item(item: Any) -> Any:
    if isinstance(item, _Picks):
        return item
    if isinstance(item, list) and lifting.holds_tensors(item):
        item = ValueHandle._of(lifting.nested(item))
    if isinstance(item, list):
        scalars.require_plain_in(item, scalars.leaf_types(item))
        item = np.asarray(item) if item else np.asarray(item, np.int64)
    if _is_tensor(item):
        item = _Picks(lifting.value_of(item))
    if isinstance(item, _Picks) and item.is_mask and not item.value.shape:
        return _Truth(bool(placement.array_of(item.value)))
    if isinstance(item, bool | np.bool_):
        return _Truth(bool(item))
    if isinstance(item, _Picks) and dtypes.is_float(item.value.dtype):
        raise IndexingError(f"an index must be an integer or a mask, not {item.value.dtype.name}")
    return item


def _is_tensor(item: Any) -> bool:
    """Whether an item is a tensor or an array, of whatever library."""
    return isinstance(item, ValueHandle | np.ndarray) or foreign.is_array(item)


def axes_of_item(item: Any) -> int:
    """How many axes of the tensor an item of an index stands for."""
    return _axes_of(_item(item))


def _axes_of(item: Any) -> int:
    """How many axes of the tensor an item stands for."""
    if item is None or item is Ellipsis or isinstance(item, _Truth):
        return 0
    return len(item.value.shape) if isinstance(item, _Picks) and item.is_mask else 1


def require_mask(mask: Any, shape: tuple[DimLike, ...]) -> None:
    """IndexError where a mask does not have the shape of the axes that it indexes."""
    if mask.shape != shape:
        raise IndexingError(f"a mask of shape {mask.shape} does not fit axes of shape {shape}")


def _nonzero(mask: Any, shape: tuple[DimLike, ...]) -> list[_Picks]:
    require_mask(mask, shape)
    return [_Picks(lifting.value_of(indices)) for indices in np.nonzero(placement.array_of(mask))]


# --- from a plan to ops ---------------------------------------------------------------------------------------------


def _apply(value: Any, plan: _Plan) -> Any:
    if plan.gathers and _is_plain(plan) and not any(index.shape for _, index in plan.gathers):
        along = _indexed_axes(value.shape, plan)
        if along is None:
            offsets, block = _block(value.shape, plan)
            return ops.reshape(ops.dynamic_slice(value, *offsets, sizes=block), shape=_picked_shape(plan))
        table, flat, axis = _merged(value, plan, *along)
        return ops.gather(table, flat, axis=axis)
    starts, stops, strides = tuple(plan.starts), tuple(plan.stops), tuple(plan.strides)
    if (starts, stops, strides) != ((0,) * len(starts), value.shape, (1,) * len(starts)):
        value = ops.slice(value, starts=starts, stops=stops, strides=strides)
    if plan.flips:
        value = ops.flip(value, axes=tuple(plan.flips))
    if value.shape != tuple(plan.shape):
        value = ops.reshape(value, shape=tuple(plan.shape))
    return _gather(value, plan.gathers, plan.place) if plan.gathers else value


def _gather(value: Any, gathers: list[tuple[int, Any]], out_axis: int) -> Any:
    """Index axes with integer tensors, which broadcast together; their axes stand at ``out_axis`` in the result."""
    axes = [axis for axis, _ in gathers]
    if len(gathers) == 1:
        picked, at, count = ops.gather(value, gathers[0][1], axis=axes[0]), axes[0], len(gathers[0][1].shape)
    else:
        flat, sizes = _flattened(value, gathers)
        rest = [axis for axis in range(len(value.shape)) if axis not in axes]
        moved = ops.transpose(value, permutation=(*axes, *rest))
        merged = ops.reshape(moved, shape=(dims.product(sizes), *(value.shape[axis] for axis in rest)))
        picked, at, count = ops.gather(merged, flat, axis=0), 0, len(flat.shape)
    if at == out_axis or count == 0:
        return picked
    others = [axis for axis in range(len(picked.shape)) if not at <= axis < at + count]
    order = (*others[:out_axis], *range(at, at + count), *others[out_axis:])
    return ops.transpose(picked, permutation=order)


def _flattened(value: Any, gathers: list[tuple[int, Any]]) -> tuple[Any, list[DimLike]]:
    """Several indices as one into the merged axes, and the sizes of those."""
    shape = lifting.broadcast_shapes(*(index.shape for _, index in gathers))
    sizes = [value.shape[axis] for axis, _ in gathers]
    flat: Any = None
    for (axis, index), size in zip(gathers, sizes, strict=True):
        positions = lifting.broadcast_to(_in_range(index, size, axis), shape)
        flat = positions if flat is None else ops.add(ops.mul(flat, _filled(size, shape)), positions)
    return flat, sizes


def _filled(size: DimLike, shape: tuple[DimLike, ...]) -> Any:
    if isinstance(size, int):
        return lifting.repeated(size, dtypes.int64, shape)
    return ops.full(shape=shape, value=size, dtype=dtypes.int64)


def _in_range(index: Any, size: DimLike, axis: int) -> Any:
    """Indices of one axis made non-negative; IndexError where one is out of range."""
    shape = index.shape
    zero, extent = _filled(0, shape), _filled(size, shape)
    wrapped = ops.select(ops.lt(index, zero), ops.add(index, extent), index)
    inside = ops.bitwise_and(ops.ge(wrapped, zero), ops.lt(wrapped, extent))
    every = ops.reduce_min(inside, axes=tuple(range(len(shape)))) if shape else inside
    ops.check(every, kind="IndexError", message=f"an index is out of range for axis {axis} with size {size}")
    return wrapped
