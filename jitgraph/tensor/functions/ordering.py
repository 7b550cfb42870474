"""What sorting answers: quantiles, modes, ranks, counts, orders by several keys, partitions, largest elements,
histograms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.errors import DTypeError, JitgraphError, ShapeError, UndecidedError, UnsupportedOp
from jitgraph.ir import context
from jitgraph.ir.op import OpenShape
from jitgraph.ops import rules
from jitgraph.ops.rules import open_extent
from jitgraph.ops.selecting import MOST_PLACES
from jitgraph.tensor import indexing, lifting, scalars
from jitgraph.tensor.functions.arithmetic import lerp
from jitgraph.tensor.functions.complex_numbers import imag, real
from jitgraph.tensor.functions.creation import arange
from jitgraph.tensor.functions.elementwise import (
    astype,
    ceil,
    floor,
    isfinite,
    isnan,
    logical_and,
    logical_not,
    maximum,
    round,
    where,
)
from jitgraph.tensor.functions.manipulation import concat, moveaxis, stack, take_along_axis, unstack
from jitgraph.tensor.functions.method import array_function, axis_of, method
from jitgraph.tensor.functions.operands import tensor_like
from jitgraph.tensor.functions.reductions import all as all_of
from jitgraph.tensor.functions.reductions import any as any_of
from jitgraph.tensor.functions.reductions import argmax, argsort, cummax, sort
from jitgraph.tensor.functions.reductions import max as max_of
from jitgraph.tensor.functions.reductions import min as min_of
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.functions.shapes import expand_dims, reshape, squeeze
from jitgraph.tensor.index_bounds import dim_of
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.one_kernel import one_kernel
from jitgraph.tensor.scalars import listed
from jitgraph.tensor.tensor import Tensor, wrap

# ----------------------------------------------------------------------
# What sorting answers: quantiles, medians, modes, ranks, bins and counts.


def _size(x: Tensor, axis: int) -> Any:
    return x.value.type.shape[axis]


def _sized(size: Any, like: Tensor) -> Tensor:
    """A size, which may have a name, as a tensor of rank 0 on the device of ``like``."""
    with placement.beside(like.value):
        return wrap(ops.full(shape=(), value=size, dtype=dtypes.int64))


def _along(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    return wrap(indexing.along(x.value, indices.value, axis))


def _require_elements(x: Tensor, axis: int, name: str) -> None:
    rules.require_elements(f"{name} of no elements: the shape is {x.value.type.shape}, axis {axis}", _size(x, axis))


def _one_axis(x: TensorLike, axis: int | None, name: str) -> tuple[Tensor, int]:
    """The tensor and an axis of it; without one it is flat."""
    tensor = tensor_like(x)
    if axis is None or not tensor.ndim:
        tensor, axis = reshape(tensor, -1), 0
    number = axis_of(axis, tensor.ndim, name)
    _require_elements(tensor, number, name)
    return tensor, number


@method
def msort(x: TensorLike) -> Tensor:
    """The elements in order along axis 0, NaN as the greatest."""
    return sort(x, 0)


@method
def kthvalue(x: TensorLike, k: int, axis: int = -1, *, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The ``k``-th smallest element along ``axis``, counted from 1, and its index (int64); NaN is the greatest."""
    tensor, number = _one_axis(x, axis, "kthvalue")
    size, rank = _size(tensor, number), scalars.python_int(k)
    if isinstance(rank, int) and isinstance(size, int) and not 1 <= rank <= size:
        raise ShapeError(f"kthvalue: k={k} does not lie between 1 and the {size} elements along axis {axis}")
    index = expand_dims(_picked(argsort(tensor, number), rank - 1, number), number)
    return _chosen(tensor, index, number, keepdims)


def _picked(x: Tensor, index: Any, axis: int) -> Tensor:
    """The slice at ``index``, which may be a named size, along ``axis``."""
    shape = x.value.type.shape
    starts = tuple(index if i == axis else 0 for i in range(x.ndim))
    stops = tuple(index + 1 if i == axis else size for i, size in enumerate(shape))
    return squeeze(wrap(ops.slice(x.value, starts=starts, stops=stops, strides=(1,) * x.ndim)), axis)


def _chosen(x: Tensor, indices: Tensor, axis: int, keepdims: bool) -> tuple[Tensor, Tensor]:
    """The elements at ``indices`` (of size 1 along ``axis``), and the places."""
    values = _along(x, indices, axis)
    return (values, indices) if keepdims else (squeeze(values, axis), squeeze(indices, axis))


def _middle(x: TensorLike, axis: int | None, keepdims: bool, name: str) -> Any:
    tensor, number = _one_axis(x, axis, name)
    size = _size(tensor, number)
    if dtypes.is_float(tensor.dtype) and name == "nanmedian":
        order = argsort(tensor, number)
        count = sum_of(logical_not(isnan(tensor)), number, keepdims=True)
        index = _along(order, maximum(count - 1, 0) // 2, number)
    else:
        index = _of_rank(tensor, (size - 1) // 2, number)
        if dtypes.is_float(tensor.dtype):
            missing = isnan(tensor)
            first = argmax(missing, number, keepdims=True)
            index = where(any_of(missing, number, keepdims=True), first, index)
    values, indices = _chosen(tensor, index, number, keepdims)
    if axis is not None:
        return values, indices
    return reshape(values, (1,) * tensor_like(x).ndim) if keepdims else values


def _of_rank(tensor: Tensor, rank: Any, axis: int) -> Tensor:
    """The index along an axis, which stays, of the element that stands at ``rank`` in sorted order."""
    if tensor.dtype not in rules.NUMBERS or _is_empty(tensor):
        return expand_dims(_picked(argsort(tensor, axis), rank, axis), axis)
    rows = moveaxis(tensor, axis, -1)
    with placement.beside(tensor.value):
        ranks = ops.full(shape=(1,), value=rank, dtype=dtypes.int64)
    return moveaxis(wrap(ops.ranked_positions(ops.stop_gradient(rows.value), ranks)), -1, axis)


def _is_empty(tensor: Tensor) -> bool:
    return any(isinstance(extent, int) and extent == 0 for extent in tensor.value.type.shape)


@method
def median(x: TensorLike, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """PyTorch's median: the lower of the two middle elements; NaN if there is one.

    Along an ``axis`` it comes with its index (int64). NumPy's, which is their mean, is ``quantile(x, 0.5)``.
    """
    return _middle(x, axis, keepdims, "median")


@method
def nanmedian(x: TensorLike, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """``median`` of the elements that are not NaN; NaN where all are."""
    return _middle(x, axis, keepdims, "nanmedian")


@method
def mode(x: TensorLike, axis: int = -1, *, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest of the most frequent elements along ``axis``, and the index (int64) of its last occurrence."""
    tensor, number = _one_axis(x, axis, "mode")
    order = argsort(tensor, number)
    ordered = _along(tensor, order, number)
    position = wrap(lifting.positions_along(tensor.value.type.shape, number, tensor.value))
    before = _along(ordered, maximum(position - 1, 0), number)
    begins = (before != ordered) | (position == 0)
    length = position - cummax(where(begins, position, 0), number)[0]
    return _chosen(tensor, _along(order, argmax(length, number, keepdims=True), number), number, keepdims)


# --- quantiles ----------------------------------------------------------------------------------------------------

_INTERPOLATIONS: Final = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantiles(x: TensorLike, q: TensorLike, axis: Any, keepdims: bool, interpolation: str, name: str) -> Tensor:
    if interpolation not in _INTERPOLATIONS:
        raise JitgraphError(f"{name}: interpolation={interpolation!r} is none of {', '.join(_INTERPOLATIONS)}")
    rank = tensor_like(x).ndim
    tensor, number = _one_axis(x, axis, name)
    if not dtypes.is_float(tensor.dtype):
        tensor = astype(tensor, dtypes.float32)
    part = _fractions(q, name)
    rows = moveaxis(tensor, number, -1)
    few = name == "quantile" and not _is_empty(tensor) and part.value.type.size in range(1, _MOST_RANKS + 1)
    if not few:
        rows = sort(rows, -1)
    missing = isnan(rows)
    size = _sized(_size(rows, rows.ndim - 1), rows)
    count = sum_of(logical_not(missing), -1, keepdims=True) if name == "nanquantile" else size
    with placement.beside(tensor.value):  # where the quantiles that are asked for may not lie
        ranks = astype(maximum(count - 1, 0), dtypes.float64) * reshape(part, -1)
    alike = ranks
    ranks = wrap(lifting.broadcast_to(ranks.value, (*rows.value.type.shape[:-1], ranks.value.type.shape[-1])))
    if interpolation in ("lower", "higher", "nearest"):
        rounding = {"lower": floor, "higher": ceil, "nearest": round}[interpolation]
        ranks, alike = rounding(ranks), rounding(alike)
    low = floor(ranks)
    if few:
        below, above = _of_ranks(rows, floor(alike), ceil(alike))
    else:
        below, above = (_along(rows, astype(end, dtypes.int64), rows.ndim - 1) for end in (low, ceil(ranks)))
    weight = where(ranks == low, 0.0, 0.5) if interpolation == "midpoint" else ranks - low
    quantiles = where(below == above, below, lerp(below, above, astype(weight, rows.dtype)))
    if name == "quantile":
        lost = any_of(missing, -1, keepdims=True)
        undefined = where(lost, quantiles, 1.0) * math.nan  # with NaN for slopes, those of the other rows excepted
        quantiles = where(lost, undefined, quantiles)
    else:
        quantiles = where(count == 0, math.nan, quantiles)
    quantiles = moveaxis(quantiles, -1, 0)  # quantiles first
    if keepdims:
        quantiles = reshape(quantiles, (-1, *[1] * rank)) if axis is None else expand_dims(quantiles, number + 1)
    return quantiles if part.ndim else squeeze(quantiles, 0)


_MOST_RANKS: Final = 4  # beyond so many quantiles a sort of the rows takes less time


def _of_ranks(rows: Tensor, *ranks: Tensor) -> list[Tensor]:
    """For each vector of ranks, which all rows have, the elements of the rows that stand there in sorted order."""
    every = astype(concat(list(ranks)), dtypes.int64)
    places = wrap(ops.ranked_positions(ops.stop_gradient(rows.value), every.value))
    count = places.value.type.shape[-1] // len(ranks)
    parts = [places[..., i * count : (i + 1) * count] for i in range(len(ranks))]
    return [_along(rows, part, rows.ndim - 1) for part in parts]


def _fractions(q: TensorLike, name: str) -> Tensor:
    part = wrap(lifting.cast(lifting.value_of(q, dtypes.float64), dtypes.float64))
    if part.ndim > 1:
        raise ShapeError(f"{name}: q is a number or a vector, not {part.value.type}")
    inside = logical_and(part >= 0, part <= 1).value
    every = ops.reduce_min(inside, axes=(0,)) if part.ndim else inside
    ops.check(every, kind="ValueError", message=f"{name}: q lies between 0 and 1")
    return part


@method
def quantile(
    x: TensorLike, q: TensorLike, axis: int | None = None, *, keepdims: bool = False, interpolation: str = "linear"
) -> Tensor:
    """The ``q``-quantile (q in [0, 1]) along ``axis``, or of all elements; a vector q adds a new first axis.

    Between two elements by ``interpolation``: linear, lower, higher, midpoint or nearest (halves to even). NaN where
    there is one; integers in float32. ValueError for a q outside of [0, 1].
    """
    return _quantiles(x, q, axis, keepdims, interpolation, "quantile")


@method
def nanquantile(
    x: TensorLike, q: TensorLike, axis: int | None = None, *, keepdims: bool = False, interpolation: str = "linear"
) -> Tensor:
    """``quantile`` of the elements that are not NaN; NaN where all are."""
    return _quantiles(x, q, axis, keepdims, interpolation, "nanquantile")


@method
def percentile(
    x: TensorLike, q: TensorLike, axis: int | None = None, *, keepdims: bool = False, interpolation: str = "linear"
) -> Tensor:
    """``quantile`` of q / 100."""
    return _quantiles(x, _hundredths(q), axis, keepdims, interpolation, "quantile")


@method
def nanpercentile(
    x: TensorLike, q: TensorLike, axis: int | None = None, *, keepdims: bool = False, interpolation: str = "linear"
) -> Tensor:
    """``nanquantile`` of q / 100."""
    return _quantiles(x, _hundredths(q), axis, keepdims, interpolation, "nanquantile")


def _hundredths(q: TensorLike) -> Tensor:
    return wrap(lifting.cast(lifting.value_of(q, dtypes.float64), dtypes.float64)) / 100


# --- bins and counts ----------------------------------------------------------------------------------------------


@method
def bucketize(x: TensorLike, boundaries: TensorLike, *, right: bool = False) -> Tensor:
    """For each element the index i (int64) with boundaries[i-1] < x <= boundaries[i], of an ascending vector.

    With ``right``, boundaries[i-1] <= x < boundaries[i]. NaN stands behind all boundaries.
    """
    tensor, ends = map(wrap, lifting.beside(x, boundaries))
    if ends.ndim != 1:
        raise ShapeError(f"bucketize: boundaries are a vector, not {ends.value.type}")
    size = _size(ends, 0)
    if not isinstance(size, int):
        raise UndecidedError(f"bucketize by boundaries of the named size {size}")
    dtype = lifting.common_dtype(tensor, ends)
    if dtypes.is_bool(dtype):
        dtype = dtypes.uint8
    queries, row = (lifting.cast(operand.value, dtype) for operand in (tensor, ends))
    return wrap(ops.search(row, queries, right=right))


def _along_vector(vector: Tensor, indices: Tensor) -> Tensor:
    return wrap(ops.gather(vector.value, indices.value, axis=0))


def counted_indices(indices: Tensor, weights: Tensor | None, size: Any, dtype: Any) -> Tensor:
    """How often each of ``size`` places is named, or the sum of its weights; IndexError for places out of range."""
    flat = reshape(indices, -1)
    with placement.beside(flat.value):
        zeros = ops.full(shape=(size,), value=0, dtype=dtype)
        one = ops.full(shape=flat.value.shape, value=1, dtype=dtype)
        added = one if weights is None else reshape(astype(weights, dtype), -1).value
        return wrap(ops.scatter_add(zeros, flat.value, added, axis=0, negative=False))


@method
def bincount(
    x: TensorLike, weights: TensorLike | None = None, minlength: int = 0, *, length: int | None = None
) -> Tensor:
    """How often each number from 0 on occurs in a vector of integers, or the sum of its ``weights``.

    There are as many as the largest number asks for, at least ``minlength``; in a trace, which cannot know it, give
    ``length``. IndexError for a number below 0, or from ``length`` on.
    """
    tensor = tensor_like(x)
    if not dtypes.is_integer(tensor.dtype) or tensor.ndim != 1:
        raise DTypeError(f"bincount takes a vector of integers, not {tensor.value.type}")
    indices = wrap(lifting.positions(tensor.value))
    if length is None:
        if context.current().trace is not None:
            raise UnsupportedOp("bincount has a size that depends on values", hint="give length=")
        array = placement.array_of(indices.value)
        length = max(minlength, int(array.max()) + 1 if array.size else 0)
    weight = None if weights is None else tensor_like(weights)
    dtype = dtypes.int64 if weight is None else weight.dtype if dtypes.is_float(weight.dtype) else dtypes.float64
    return counted_indices(indices, weight, length, dtype)


@method
def histc(x: TensorLike, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Counts, in the dtype of x, of ``bins`` equal bins from ``min`` to ``max``, or over all elements where both are 0.

    Elements outside, and NaN, are in none; ``max`` itself is in the last one.
    """
    tensor = tensor_like(x)
    tensor = tensor if dtypes.is_float(tensor.dtype) else astype(tensor, dtypes.float32)
    counts, _ = _histogram(tensor, bins, None if min == max else (min, max), None)
    return astype(counts, tensor.dtype)


def edges_of(flat: Tensor, bins: Any, span: Any, name: str) -> tuple[Tensor, int]:
    """The edges of so many equal bins over ``span``, or of all elements without one, or the given edges; their bins."""
    if not isinstance(bins, int):
        edges = astype(wrap(lifting.beside(bins, flat)[0]), flat.dtype)
        size = _size(edges, 0) if edges.ndim == 1 else None
        if not isinstance(size, int) or size < 2:
            raise ShapeError(f"{name}: edges are a vector of at least two numbers, not {edges.value.type}")
        return edges, size - 1
    if bins < 1:
        raise ShapeError(f"{name}: {bins!r} bins; at least 1 is needed")
    if span is not None:
        low, high = (wrap(lifting.constant(float(end), flat.dtype)) for end in span)
    else:
        _require_elements(flat, 0, name)
        low, high = flat.min(), flat.max()
        finite = logical_and(isfinite(low), isfinite(high)).value
        ops.check(finite, kind="ValueError", message=f"{name}: an element is not finite, and no range is given")
        alone = low == high
        low, high = where(alone, low - 0.5, low), where(alone, high + 0.5, high)
    low, high = wrap(ops.stop_gradient(low.value)), wrap(ops.stop_gradient(high.value))
    steps = wrap(lifting.positions_along((bins + 1,), 0, flat.value))
    return where(steps == bins, high, low + (high - low) * (astype(steps, flat.dtype) / bins)), bins


def bin_indices(flat: Tensor, edges: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """In which of the bins each element is, the last one closed; and whether it is in one."""
    last = _picked(edges, bins, 0)
    bin_index = bucketize(flat, edges, right=True) - 1
    return where(flat == last, bins - 1, bin_index), (flat >= _picked(edges, 0, 0)) & (flat <= last)


def _histogram(x: Tensor, bins: Any, span: Any, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    flat = reshape(x, -1)
    edges, _ = edges_of(flat, bins, span, "histogram")
    if weight is None:
        return _counts(flat, edges), edges
    return _counts(flat, edges, reshape(weight, -1)), edges


def _open_rows(flat: tuple[int, ...], edges: tuple[int, ...], *weight: tuple[int, ...]) -> tuple[OpenShape, ...]:
    row = (open_extent(flat[0], "n"),)
    return row, edges, *[row] * len(weight)


@one_kernel(open_shapes=_open_rows)
def _counts(flat: Tensor, edges: Tensor, weight: Tensor | None = None) -> Tensor:
    """How many numbers are in each bin between edges, or the sum of their weights."""
    size = edges.value.type.shape[0] - 1
    bin_index, inside = bin_indices(flat, edges, size)
    dtype = flat.dtype if weight is None else weight.dtype
    amounts = astype(inside, dtype) if weight is None else where(inside, weight, 0)
    return counted_indices(where(inside, bin_index, 0), amounts, size, dtype)


@method
def histogram(
    x: TensorLike,
    bins: TensorLike | Sequence[float] = 100,
    *,
    range: tuple[float, float] | None = None,
    weight: TensorLike | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:
    """Counts (or sums of ``weight``, or a density) of equal bins over ``range``, or between given edges, and the edges.

    PyTorch's: the counts have the dtype of x. Elements outside, and NaN, are in no bin. ValueError where the range is
    that of the elements, and one is not finite.
    """
    tensor = tensor_like(x)
    tensor = tensor if dtypes.is_float(tensor.dtype) else astype(tensor, dtypes.float32)
    cast_weight = None if weight is None else astype(wrap(lifting.beside(weight, tensor)[0]), tensor.dtype)
    counts, edges = _histogram(tensor, bins, range, cast_weight)
    if density:
        counts = counts / (sum_of(counts) * (edges[1:] - edges[:-1]))
    return counts, edges


@array_function
def histogram_bin_edges(x: TensorLike, bins: int = 10, range: tuple[float, float] | None = None) -> Tensor:
    """The edges of the bins that ``histogram`` would take."""
    return histogram(x, bins, range=range)[1]


# ----------------------------------------------------------------------
# Orders by several keys, partitions, and the largest or smallest elements of rows.


@array_function
def lexsort(keys: TensorLike | Sequence[TensorLike], axis: int = -1) -> Tensor:
    """Indices (int64) that sort by the last of the keys, equal ones by the one before it, and so on, as in NumPy.

    ``keys`` is a list of tensors of one shape, or a tensor whose rows are keys. ShapeError for none.
    """
    rows = [tensor_like(keys[i]) for i in range(len(keys))]  # type: ignore[arg-type,index]
    if not rows:
        raise ShapeError("lexsort by no keys")
    if rows[0].ndim == 0:
        return wrap(lifting.repeated(0, dtypes.int64, ()))
    number = axis_of(axis, rows[0].ndim, "lexsort")
    order: Tensor | None = None
    for key in rows:
        for part in (imag(key), real(key)) if dtypes.is_complex(key.dtype) else (key,):
            if order is None:
                order = argsort(part, number)
                continue
            order = take_along_axis(order, argsort(take_along_axis(part, order, number), number), number)
    assert order is not None
    return order


@method
def partition(x: TensorLike, kth: int | Sequence[int], axis: int | None = -1) -> Tensor:
    """The elements along ``axis`` with the ``kth`` in its sorted position and smaller ones before; here all are sorted.

    Without an axis of the flat tensor. IndexError for places out of range.
    """
    tensor, number = _parted(x, kth, axis, "partition")
    return sort(tensor, number)


@method
def argpartition(x: TensorLike, kth: int | Sequence[int], axis: int | None = -1) -> Tensor:
    """Indices (int64) of a ``partition``; they sort x completely."""
    tensor, number = _parted(x, kth, axis, "argpartition")
    return argsort(tensor, number)


def _parted(x: TensorLike, kth: int | Sequence[int], axis: int | None, name: str) -> tuple[Tensor, int]:
    tensor = tensor_like(x)
    if axis is None:
        tensor, axis = reshape(tensor, (-1,)), 0
    number = axis_of(axis, tensor.ndim, name)
    size = tensor.value.type.shape[number]
    for index in listed(kth):
        if isinstance(size, int) and not -size <= index < size:
            raise IndexError(f"{name}: place {index} does not lie within the {size} elements along axis {axis}")
    return tensor, number


# --- distinct elements ------------------------------------------------------------------------------------------------


_SHORT_ROW: Final = 1 << 14
"""Elements that are sorted as they are."""
_GAIN: Final = 4
"""How many times fewer elements the sorts of candidates have to have."""


@method
def topk(x: TensorLike, k: int, axis: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """The ``k`` largest (or smallest) elements along ``axis`` and their indices (int64), always in order.

    NaN is the greatest, and of equal elements the first comes first. ShapeError for more than there are.
    """
    tensor = tensor_like(x)
    number = axis_of(axis, tensor.ndim, "topk")
    size = tensor.value.type.shape[number]
    if k < 0 or not context.constraints().at_least(size, dim_of(k)):
        raise ShapeError(f"topk: k={k} does not lie between 0 and the {size} elements along axis {axis}")
    rows = moveaxis(tensor, number, -1)
    length = _block_length(rows, k)
    if 1 <= k <= MOST_PLACES and isinstance(size, int) and size >= _FEW * k and rows.dtype in rules.NUMBERS:
        indices = wrap(ops.first_positions(ops.stop_gradient(rows.value), count=k, largest=bool(largest)))
        values = take_along_axis(rows, indices, -1)
    elif length:
        indices = _by_blocks(wrap(ops.stop_gradient(rows.value)), k, length, largest)
        values = take_along_axis(rows, indices, -1)
    else:
        order, indices = ops.sort(rows.value, axis=rows.ndim - 1, descending=largest)
        values, indices = wrap(order)[..., :k], wrap(indices)[..., :k]
    return moveaxis(values, -1, number), moveaxis(indices, -1, number)


_FEW: Final = 8  # times as many elements as are asked for, from which on most of a row is not looked at one by one


def _block_length(rows: Tensor, k: int) -> int:
    """Elements a block, so that the blocks' extremes and the elements of k blocks are about as many; 0 for a sort."""
    size = rows.value.type.shape[-1]
    if not isinstance(size, int) or size < _SHORT_ROW or k < 1 or rows.dtype not in rules.NUMBERS:
        return 0
    length = math.isqrt(size // k)
    candidates = size // length + (k + 1) * length if length > 1 else size
    return length if candidates * _GAIN <= size else 0


def _by_blocks(rows: Tensor, k: int, length: int, largest: bool) -> Tensor:
    """The places of the first k elements of the order, which lie in the k blocks whose extremes are the first.

    An element of another block has one of each of these k blocks before it. Places rise within the candidates, so that
    a stable sort keeps the order of equal elements. What is no whole block is a candidate.
    """
    *batch, size = rows.value.type.shape
    blocks = size // length
    blocked = reshape(rows[..., : blocks * length], (*batch, blocks, length))
    chosen = sort(argsort(_extremes(blocked, largest), -1, descending=largest)[..., :k], -1)
    with placement.beside(rows.value):
        within = arange(length, dtype=dtypes.int64)
        rest = lifting.broadcast_to(lifting.value_of(np.arange(blocks * length, size)), (*batch, size % length))
        indices = reshape(expand_dims(chosen, -1) * length + within, (*batch, k * length))
        indices = concat([indices, wrap(rest)], axis=-1)
    order = argsort(take_along_axis(rows, indices, -1), -1, descending=largest)[..., :k]
    return take_along_axis(indices, order, -1)


def _extremes(blocks: Tensor, largest: bool) -> Tensor:
    """The element of each block that comes first in the order, in which NaN is the greatest."""
    if largest or not dtypes.is_float(blocks.dtype):
        extreme: Any = max_of if largest else min_of
        return extreme(blocks, -1)  # type: ignore[no-any-return]
    missing = isnan(blocks)
    least = min_of(where(missing, math.inf, blocks), -1)
    return where(all_of(missing, -1), math.nan, least)


# ----------------------------------------------------------------------
# Histograms over several axes, in PyTorch's and NumPy's names.


@method
def histogramdd(
    x: TensorLike, bins: Any = 10, *, range: Any = None, weight: TensorLike | None = None, density: bool = False
) -> tuple[Tensor, list[Tensor]]:
    """Counts (or sums of ``weight``, or a density) of the rows of a matrix in a grid of bins, and all edges.

    ``bins`` is a number, or for each axis a number or edges; ``range`` is for each axis None or a pair, or PyTorch's
    flat list of them. Counts have the dtype of x; rows outside, and NaN, are in no bin.
    """
    rows = tensor_like(x)
    rows = rows if dtypes.is_float(rows.dtype) else astype(rows, dtypes.float32)
    if rows.ndim != 2 or not isinstance(rows.value.type.shape[1], int) or not rows.value.type.shape[1]:
        raise ShapeError(f"histogramdd takes a matrix with a row for each point, not {rows.value.type}")
    count = rows.value.type.shape[1]
    bin_specs = [bins] * count if isinstance(bins, int) else list(bins)
    spans = [None] * count if range is None else list(range)
    if len(spans) == 2 * count and not isinstance(spans[0], Sequence):
        spans = list(zip(spans[::2], spans[1::2], strict=True))
    if len(bin_specs) != count or len(spans) != count:
        raise ShapeError(f"histogramdd: {len(bin_specs)} bins and {len(spans)} ranges for {count} columns")
    edges, sizes, flat, inside = [], [], None, None
    for column, each, span in zip(unstack(rows, axis=1), bin_specs, spans, strict=True):
        ends, size = edges_of(reshape(column, (-1,)), each, span, "histogramdd")
        bin_index, within = bin_indices(column, ends, size)
        flat = bin_index if flat is None else flat * size + bin_index
        inside = within if inside is None else inside & within
        edges.append(ends)
        sizes.append(size)
    assert flat is not None
    assert inside is not None
    amount = astype(inside, rows.dtype)
    if weight is not None:
        amount = where(inside, reshape(astype(tensor_like(weight), rows.dtype), (-1,)), 0)
    total_bins = 1
    for size in sizes:
        total_bins *= size
    counts = reshape(counted_indices(where(inside, flat, 0), amount, total_bins, rows.dtype), tuple(sizes))
    if density:
        counts = counts / sum_of(counts)
        for axis, ends in enumerate(edges):
            counts = counts / reshape(ends[1:] - ends[:-1], (-1, *[1] * (count - axis - 1)))
    return counts, edges


@array_function
def histogram2d(
    x: TensorLike,
    y: TensorLike,
    bins: Any = 10,
    *,
    range: Any = None,
    weight: TensorLike | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """``histogramdd`` of the points (x[i], y[i]): the counts, and the edges along both axes, as NumPy gives them.

    ``bins`` is a number, edges for both axes, or for each axis a number or edges.
    """
    both = bins
    if not isinstance(bins, int) and len(bins) not in (1, 2):
        both = [bins, bins]
    points = stack([reshape(tensor_like(each), (-1,)) for each in (x, y)], axis=1)
    counts, (first, second) = histogramdd(points, both, range=range, weight=weight, density=density)
    return counts, first, second
