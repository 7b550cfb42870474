"""Elements picked and placed by indices, in PyTorch's names: gather, scatter, index_*, segments, masks, windows.

As in PyTorch an index of these is not negative; IndexError where one is out of range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.errors import DTypeError, JitgraphError, ShapeError, UnsupportedOp
from jitgraph.ir import context, dims
from jitgraph.ir.dims import DimLike
from jitgraph.tensor import lifting, scalars
from jitgraph.tensor.functions.creation import full, shape_of
from jitgraph.tensor.functions.elementwise import astype, clip, maximum, where
from jitgraph.tensor.functions.manipulation import concat, moveaxis
from jitgraph.tensor.functions.method import axis_of, method
from jitgraph.tensor.functions.operands import index_positions, tensor_like
from jitgraph.tensor.functions.reductions import cumsum
from jitgraph.tensor.functions.searching import searchsorted
from jitgraph.tensor.functions.shapes import reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


def _filled(size: DimLike, like: Any) -> Any:
    return ops.full(shape=like.shape, value=size, dtype=dtypes.int64)


def _flat_positions(name: str, shape: tuple[DimLike, ...], index: Any, axis: int) -> Any:
    """For each element of ``index`` the row-major place, in a tensor of ``shape``, that it names along ``axis``."""
    zero, extent = _filled(0, index), _filled(shape[axis], index)
    inside = ops.bitwise_and(ops.ge(index, zero), ops.lt(index, extent))
    every = ops.reduce_min(inside, axes=tuple(range(len(index.shape)))) if index.shape else inside
    ops.check(
        every, kind="IndexError", message=f"{name}: an index is out of range for axis {axis} of size {shape[axis]}"
    )
    flat: Any = None
    stride: DimLike = 1
    for i in reversed(range(len(shape))):
        coordinate = index if i == axis else ops.iota(shape=index.shape, axis=i, dtype=dtypes.int64)
        term = ops.mul(coordinate, _filled(stride, index))
        flat = term if flat is None else ops.add(flat, term)
        stride = stride * shape[i]
    return ops.reshape(flat, shape=(dims.product(index.shape),))


def _require_within(name: str, index: Any, shape: Sequence[DimLike], axis: int | None, what: str) -> None:
    """ShapeError where ``index`` is larger than what it picks from, or lays out, along an axis other than ``axis``."""
    if len(index.shape) != len(shape):
        raise ShapeError(f"{name}: the indices have rank {len(index.shape)}, {what} {len(shape)}")
    for i, (picked, size) in enumerate(zip(index.shape, shape, strict=True)):
        if i != axis and isinstance(picked, int) and isinstance(size, int) and picked > size:
            raise ShapeError(f"{name}: {picked} indices along axis {i}, where {what} has {size}")


def _vector(value: Any) -> Any:
    return ops.reshape(value, shape=(dims.product(value.shape),))


def _scalar_axes(x: TensorLike, index: Any) -> tuple[Any, Any]:
    """A tensor of rank 0 counts as a vector of one element, and so does an index."""
    value = lifting.value_of(x)
    value = ops.reshape(value, shape=(1,)) if not value.shape else value
    return value, ops.reshape(index, shape=(1,)) if not index.shape else index


@method
def gather(x: TensorLike, axis: int, index: TensorLike) -> Tensor:
    """For each element of ``index`` the element of x at that index along ``axis``, and at its own along other axes.

    ``index`` has the rank of x, and along the other axes at most its sizes; the result has the shape of ``index``.
    """
    positions = index_positions(index, "gather")
    with placement.beside(lifting.value_of(x)):
        value, picks = _scalar_axes(x, positions)
        number = axis_of(axis, len(value.shape), "gather")
        _require_within("gather", picks, value.shape, number, "the tensor")
        picked = ops.gather(_vector(value), _flat_positions("gather", value.shape, picks, number), axis=0)
        return wrap(ops.reshape(picked, shape=positions.shape))


def _targets(name: str, x: TensorLike, axis: int, index: TensorLike, src: TensorLike) -> tuple[Any, Any, Any]:
    """x as a vector, and for each element that is placed its place in it and its value."""
    value, picks = _scalar_axes(x, index_positions(index, name))
    number = axis_of(axis, len(value.shape), name)
    _require_within(name, picks, value.shape, number, "the tensor")
    source = lifting.cast(lifting.value_of(src, value.dtype), value.dtype)
    if scalars.is_scalar(src) or (not source.shape and len(value.shape) != 0 and not isinstance(src, Tensor)):
        source = lifting.broadcast_to(source, picks.shape)
    elif not source.shape:
        source = ops.reshape(source, shape=(1,))
    _require_within_source(name, picks, source)
    if source.shape != picks.shape:
        none = (0,) * len(picks.shape)
        source = ops.slice(source, starts=none, stops=picks.shape, strides=(1,) * len(picks.shape))
    return _vector(value), _flat_positions(name, value.shape, picks, number), _vector(source)


def _require_within_source(name: str, index: Any, source: Any) -> None:
    _require_within(name, index, source.shape, None, "the source")


def _shaped_like(x: TensorLike, flat: Any) -> Tensor:
    return wrap(ops.reshape(flat, shape=lifting.value_of(x).shape))


@method
def scatter(x: TensorLike, axis: int, index: TensorLike, src: TensorLike) -> Tensor:
    """x with each element of ``src`` (a tensor or a number) stored at its index in ``index`` along ``axis``.

    Where several go to one place, the last one in row-major order stays.
    """
    with placement.beside(lifting.value_of(x)):
        return _shaped_like(x, ops.scatter(*_targets("scatter", x, axis, index, src), axis=0))


@method
def scatter_add(x: TensorLike, axis: int, index: TensorLike, src: TensorLike) -> Tensor:
    """x with each element of ``src`` added at its index in ``index`` along ``axis``, in row-major order."""
    with placement.beside(lifting.value_of(x)):
        return _shaped_like(x, ops.scatter_add(*_targets("scatter_add", x, axis, index, src), axis=0))


_REDUCTIONS: Final = ("sum", "prod", "mean", "amax", "amin")


@method
def scatter_reduce(
    x: TensorLike, axis: int, index: TensorLike, src: TensorLike, reduce: str, *, include_self: bool = True
) -> Tensor:
    """x combined with the elements of ``src`` at their indices in ``index``: by sum, prod, mean, amax or amin.

    Without ``include_self`` elements of x to which something goes do not take part. The mean of integers is rounded
    down. The gradient of amax and amin is shared among equal elements, as in PyTorch.
    """
    if reduce not in _REDUCTIONS:
        raise JitgraphError(f"scatter_reduce: reduce={reduce!r} is none of {', '.join(_REDUCTIONS)}")
    with placement.beside(lifting.value_of(x)):
        flat, positions, values = _targets("scatter_reduce", x, axis, index, src)
        return _shaped_like(x, _combined(flat, positions, values, reduce, include_self))


def _combined(flat: Any, positions: Any, values: Any, reduce: str, include_self: bool) -> Any:
    dtype, shape = flat.dtype, flat.shape
    if not include_self:
        start = _identity(reduce, dtype)
        flat = ops.scatter(flat, positions, ops.full(shape=positions.shape, value=start, dtype=dtype), axis=0)
    if reduce == "sum":
        return ops.scatter_add(flat, positions, values, axis=0)
    if reduce == "mean":
        total = wrap(ops.scatter_add(flat, positions, values, axis=0))
        initial_count = ops.full(shape=shape, value=int(include_self), dtype=dtypes.int64)
        ones = ops.full(shape=positions.shape, value=1, dtype=dtypes.int64)
        count = maximum(wrap(ops.scatter_add(initial_count, positions, ones, axis=0)), 1)
        if dtypes.is_integer(dtype):
            return (total // astype(count, dtype)).value
        return (total / astype(count, dtype)).value
    if reduce == "prod":
        return ops.scatter_product(flat, positions, values)
    return ops.scatter_extreme(flat, positions, values, largest=reduce == "amax")


def _identity(reduce: str, dtype: dtypes.DType) -> float | int:
    """What changes nothing that it is combined with."""
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    least, greatest = dtypes.LIMITS.get(dtype, (-math.inf, math.inf))
    return least if reduce == "amax" else greatest


@method
def put_along_axis(x: TensorLike, indices: TensorLike, values: TensorLike, axis: int) -> Tensor:
    """x with ``values`` (broadcast) at ``indices`` along ``axis``; NumPy's function, but it returns the result.

    Indices below 0 count from the end.
    """
    value = lifting.value_of(x)
    number = axis_of(axis, len(value.shape), "put_along_axis")
    picks = wrap(index_positions(indices, "put_along_axis"))
    size = value.shape[number]
    with placement.beside(value):
        extent = wrap(_filled(size, picks.value))
        wrapped = where(picks < 0, picks + extent, picks)
        shape = tuple(
            n if i == number else m for i, (n, m) in enumerate(zip(wrapped.value.shape, value.shape, strict=True))
        )
        wrapped = wrap(lifting.broadcast_to(wrapped.value, shape))
        source = lifting.broadcast_to(lifting.cast(lifting.value_of(values, value.dtype), value.dtype), shape)
        return scatter(x, number, wrapped, wrap(source))


# --- whole slices ---------------------------------------------------------------------------------------------------


@method
def index_copy(x: TensorLike, axis: int, index: TensorLike, source: TensorLike) -> Tensor:
    """x with slice i of ``source`` in the place of slice ``index[i]`` along ``axis``; the last of equal ones stays."""
    value = lifting.value_of(x)
    number = axis_of(axis, len(value.shape), "index_copy")
    replacement = lifting.cast(lifting.value_of(source, value.dtype), value.dtype)
    with placement.beside(value):
        return wrap(ops.scatter(value, index_positions(index, "index_copy"), replacement, axis=number, negative=False))


@method
def index_fill(x: TensorLike, axis: int, index: TensorLike, value: TensorLike) -> Tensor:
    """x with the slices at ``index`` along ``axis`` filled with ``value``, a number or a tensor of rank 0."""
    tensor = lifting.value_of(x)
    number = axis_of(axis, len(tensor.shape), "index_fill")
    picks = index_positions(index, "index_fill")
    filler = lifting.cast(lifting.value_of(value, tensor.dtype), tensor.dtype)
    if filler.shape:
        raise ShapeError(f"index_fill takes a number, not {filler.type}", hint="jg.index_copy takes slices")
    shape = (*tensor.shape[:number], *picks.shape, *tensor.shape[number + 1 :])
    with placement.beside(tensor):
        return wrap(ops.scatter(tensor, picks, lifting.broadcast_to(filler, shape), axis=number, negative=False))


@method
def index_put(x: TensorLike, indices: Sequence[TensorLike], values: TensorLike, accumulate: bool = False) -> Tensor:
    """x with ``x[indices] = values`` done; with ``accumulate`` values are added, those of equal indices in order."""
    from jitgraph.tensor import indexing

    value = lifting.value_of(x)
    index = tuple(indices)
    if not accumulate:
        return wrap(indexing.put(value, index, values))
    with placement.beside(value):
        total = dims.product(value.shape)
        every = ops.reshape(ops.iota(shape=(total,), axis=0, dtype=dtypes.int64), shape=value.shape)
        chosen = indexing.get(every, index)
        added = lifting.cast(lifting.value_of(values, value.dtype), value.dtype)
        added = lifting.broadcast_to(added, chosen.shape)
        return _shaped_like(x, ops.scatter_add(_vector(value), _vector(chosen), _vector(added), axis=0))


@method
def segment_sum(x: TensorLike, segment_ids: TensorLike, num_segments: DimLike | None = None) -> Tensor:
    """Sums of the slices along axis 0 with equal ``segment_ids``, one for each of ``num_segments``.

    Without ``num_segments`` the largest number decides, which needs its value. IndexError for a number out of range.
    """
    value, picks = lifting.value_of(x), index_positions(segment_ids, "segment_sum")
    if num_segments is None:
        num_segments = _largest(picks, "segment_sum", "num_segments") + 1
    (count,) = shape_of(num_segments)
    shape = (count, *value.shape[len(picks.shape) :])
    with placement.beside(value):
        zeros = ops.full(shape=shape, value=0, dtype=value.dtype)
        return wrap(ops.scatter_add(zeros, picks, value, axis=0, negative=False))


def _largest(value: Any, name: str, parameter: str) -> int:
    """The largest of integers, read now; -1 for none."""
    if context.current().trace is not None:
        raise UnsupportedOp(f"{name} without {parameter}= has a size that depends on values", hint=f"give {parameter}=")
    array = placement.array_of(value)
    return int(array.max()) if array.size else -1


# --- masks ----------------------------------------------------------------------------------------------------------


@method
def masked_select(x: TensorLike, mask: TensorLike) -> Tensor:
    """The elements of x where ``mask`` is true, as a vector; both broadcast. In traces it has no known size."""
    value, chosen = lifting.value_of(x), lifting.value_of(mask)
    if not dtypes.is_bool(chosen.dtype):
        raise DTypeError(f"masked_select: a mask is bool, not {chosen.type}", hint="mask != 0")
    shape = lifting.broadcast_shapes(value.shape, chosen.shape)
    part: Tensor = wrap(lifting.broadcast_to(value, shape))[wrap(lifting.broadcast_to(chosen, shape))]
    return part if hasattr(part._value, "trailing") else wrap(part.value)


@method
def masked_scatter(x: TensorLike, mask: TensorLike, source: TensorLike) -> Tensor:
    """x with the elements where ``mask`` is true replaced by those of ``source``, taken in row-major order.

    ShapeError where ``source`` has fewer elements than the mask may ask for: in a trace fewer than x, eagerly fewer
    than the mask has set.
    """
    value = lifting.value_of(x)
    chosen = lifting.broadcast_to(lifting.value_of(mask), value.shape)
    if not dtypes.is_bool(chosen.dtype):
        raise DTypeError(f"masked_scatter: a mask is bool, not {chosen.type}", hint="mask != 0")
    pool = _vector(lifting.cast(lifting.value_of(source, value.dtype), value.dtype))
    have = pool.shape[0]
    with placement.beside(value):
        needed = ops.reduce_sum(ops.cast(_vector(chosen), dtype=dtypes.int64), axes=(0,))
        enough = ops.le(needed, ops.full(shape=(), value=have, dtype=dtypes.int64))
        ops.check(enough, kind="ValueError", message=f"masked_scatter: the mask asks for more than {have} elements")
        if isinstance(have, int) and have == 0:
            return wrap(value)
        order = ops.cumsum(ops.cast(_vector(chosen), dtype=dtypes.int64), axis=0)
        source_index = maximum(wrap(order) - 1, 0).value
        taken = ops.reshape(ops.gather(pool, _clipped(source_index, have), axis=0), shape=value.shape)
        return wrap(ops.select(chosen, taken, value))


def _clipped(index: Any, extent: DimLike) -> Any:
    last = ops.sub(_filled(extent, index), _filled(1, index))
    return ops.minimum(index, last)


# --- windows at starts that are tensors -----------------------------------------------------------------------------


def _starts(starts: Sequence[TensorLike], rank: int, name: str) -> list[Any]:
    listed_starts = (
        list(starts) if isinstance(starts, Sequence) else [wrap(lifting.value_of(starts))[i] for i in range(rank)]
    )
    if len(listed_starts) != rank:
        raise ShapeError(f"{name}: {len(listed_starts)} starts for a tensor of rank {rank}")
    values = [index_positions(start, name) for start in listed_starts]
    for start in values:
        if start.shape:
            raise ShapeError(f"{name}: a start is one integer, not {start.type}")
    return values


@method
def dynamic_slice(x: TensorLike, starts: Sequence[TensorLike], sizes: Sequence[DimLike]) -> Tensor:
    """The block of ``sizes`` at ``starts`` (integers or tensors of rank 0), shifted to lie within x, as in JAX."""
    value = lifting.value_of(x)
    with placement.beside(value):
        return wrap(
            ops.dynamic_slice(value, *_starts(starts, len(value.shape), "dynamic_slice"), sizes=shape_of(sizes))
        )


@method
def dynamic_update_slice(x: TensorLike, update: TensorLike, starts: Sequence[TensorLike]) -> Tensor:
    """x with ``update`` where ``dynamic_slice`` of the same sizes would read."""
    value = lifting.value_of(x)
    new = lifting.cast(lifting.value_of(update, value.dtype), value.dtype)
    with placement.beside(value):
        return wrap(ops.dynamic_update_slice(value, new, *_starts(starts, len(value.shape), "dynamic_update_slice")))


@method
def index_reduce(
    x: TensorLike, axis: int, index: TensorLike, source: TensorLike, reduce: str, *, include_self: bool = True
) -> Tensor:
    """x with slice i of ``source`` combined with slice ``index[i]`` along ``axis``: by prod, mean, amax or amin.

    Without ``include_self`` slices of x to which something goes do not take part. As ``scatter_reduce`` otherwise.
    """
    tensor, values = tensor_like(x), tensor_like(source)
    number = axis_of(axis, tensor.ndim, "index_reduce")
    positions = tensor_like(index)
    if positions.ndim > 1 or values.ndim != tensor.ndim:
        raise ShapeError(f"index_reduce: indices {positions.value.type} and a source {values.value.type}")
    positions = reshape(positions, (-1, *[1] * (tensor.ndim - number - 1)))
    spread = wrap(lifting.broadcast_to(positions.value, values.value.type.shape))
    return scatter_reduce(tensor, number, spread, values, reduce, include_self=include_self)


_NAMES = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin", "prod": "prod"}
_EMPTY = {"sum": 0.0, "mean": float("nan"), "max": float("-inf"), "min": float("inf"), "prod": 1.0}


@method
def segment_reduce(
    x: TensorLike,
    reduce: str,
    *,
    lengths: TensorLike | None = None,
    offsets: TensorLike | None = None,
    axis: int = 0,
    initial: float | None = None,
) -> Tensor:
    """Runs of slices along ``axis`` combined by sum, mean, max, min or prod: one slice for each of them.

    ``lengths`` says how long each run is, or ``offsets`` where each begins, with the end behind, in a vector of
    integers; the runs are all slices. A run of none is ``initial``, which otherwise is combined with each.
    """
    if reduce not in _NAMES:
        raise JitgraphError(f"segment_reduce: reduce={reduce!r} is none of {', '.join(_NAMES)}")
    if (lengths is None) == (offsets is None):
        raise JitgraphError("segment_reduce takes either lengths= or offsets=")
    tensor = tensor_like(x)
    number = axis_of(axis, tensor.ndim, "segment_reduce")
    ends = cumsum(tensor_like(lengths)) if offsets is None else tensor_like(offsets)[1:]  # type: ignore[arg-type]
    if ends.ndim != 1:
        raise ShapeError(f"segment_reduce: the runs are a vector, not {ends.value.type}", hint="jg.vmap for batches")
    rows = moveaxis(tensor, number, 0)
    size, count = rows.value.type.shape[0], ends.value.type.shape[0]
    segment_ids = searchsorted(ends, wrap(lifting.positions_along((size,), 0, rows.value)), side="right")
    spread = wrap(lifting.broadcast_to(reshape(segment_ids, (-1, *[1] * (rows.ndim - 1))).value, rows.value.type.shape))
    begins = concat([ends[:1] * 0, ends[:-1]])
    empty = reshape(ends == begins, (-1, *[1] * (rows.ndim - 1)))
    start = full((count, *rows.value.type.shape[1:]), _EMPTY[reduce] if initial is None else initial, dtype=rows.dtype)
    joined = initial is not None and reduce != "mean"
    reduced = scatter_reduce(start, 0, spread, rows, _NAMES[reduce], include_self=joined)
    if initial is not None and reduce == "mean":
        lengths_of = astype(ends - begins, rows.dtype)
        reduced = reduced + initial / reshape(clip(lengths_of, 1, None), (-1, *[1] * (rows.ndim - 1)))
    return moveaxis(where(empty, start, reduced), 0, number)
