"""Orders by several keys, partitions, largest elements, distinct rows, runs of equal elements, and sets of elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.errors import ShapeError
from jitgraph.ops import rules
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.complex_numbers import imag, real
from jitgraph.tensor.functions.creation import arange, ones_like
from jitgraph.tensor.functions.cumulative import cumsum
from jitgraph.tensor.functions.elementwise import astype, isnan, logical_and, not_equal, where
from jitgraph.tensor.functions.manipulation import concat, moveaxis, take_along_axis
from jitgraph.tensor.functions.method import array_function, axis_of, method
from jitgraph.tensor.functions.operands import tensor_like
from jitgraph.tensor.functions.reductions import all as all_of
from jitgraph.tensor.functions.reductions import any as any_of
from jitgraph.tensor.functions.reductions import argsort, sort
from jitgraph.tensor.functions.reductions import max as max_of
from jitgraph.tensor.functions.reductions import min as min_of
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.functions.searching import counted, isin, numbered
from jitgraph.tensor.functions.sets import unique_values
from jitgraph.tensor.functions.shapes import expand_dims, reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.scalars import listed
from jitgraph.tensor.tensor import Tensor, wrap


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
    """The elements along ``axis`` with the smallest ones before place ``kth``, as if sorted; they are all sorted here.

    Without an axis of the flat tensor. IndexError for places out of range.
    """
    tensor, number = _parted(x, kth, axis, "partition")
    return sort(tensor, number)


@method
def argpartition(x: TensorLike, kth: int | Sequence[int], axis: int | None = -1) -> Tensor:
    """Indices (int64) that make the ``partition``; they sort."""
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


def _chosen(values: Tensor, inverse: Any, counts: Any, more: Sequence[bool]) -> Any:
    outputs = [values, *(each() for each, requested in zip((inverse, counts), more, strict=True) if requested)]
    return tuple(outputs) if len(outputs) > 1 else values


def _differs(rows: Tensor) -> Tensor:
    """For each row of a matrix whether it differs from the one before it; the first one does."""
    if rows.value.type.shape[0] == 0:
        return (
            rows[:, 0] != rows[:, 0]
            if rows.value.type.shape[1] != 0
            else wrap(lifting.repeated(True, dtypes.bool_, (0,)))
        )
    steps = any_of(not_equal(rows[1:], rows[:-1]), 1)
    return concat([ones_like(any_of(not_equal(rows[:1], rows[:1]), 1)), steps])


def _lengths(first: Tensor, number: Tensor, size: Any) -> Tensor:
    """How many rows each of the kinds has."""
    zeros = lifting.repeated(0, dtypes.int64, (size + 1,))
    limit = wrap(ops.minimum(number.value, ops.full(shape=number.value.shape, value=size, dtype=dtypes.int64)))
    one = lifting.repeated(1, dtypes.int64, number.value.shape)
    return wrap(ops.scatter_add(zeros, limit.value, one, axis=0))[:size]


def _as_rows(x: TensorLike, axis: int | None, name: str) -> tuple[Tensor, Tensor, int]:
    """The tensor with the axis first (flat without one), its slices as rows of a matrix, and where the axis was."""
    tensor = tensor_like(x)
    if axis is None:
        tensor, axis = reshape(tensor, (-1,)), 0
    number = axis_of(axis, tensor.ndim, name)
    slices = moveaxis(tensor, number, 0)
    count = slices.value.type.shape[0]
    width: Any = 1
    for size in slices.value.type.shape[1:]:
        width = width * size
    return slices, reshape(slices, (count, width)), number


def _taken(slices: Tensor, indices: Tensor, axis: int) -> Tensor:
    return moveaxis(wrap(ops.gather(slices.value, indices.value, axis=0)), 0, axis)


@method
def unique_consecutive(
    x: TensorLike,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    size: Any = None,
) -> Any:
    """The first of each run of equal elements, or of equal slices along ``axis``; PyTorch's function.

    With which run each belongs to, and how long each is, where asked for. In a trace ``size`` says how many; runs
    that are missing then have the first slice and no length.
    """
    full_shape = tensor_like(x).value.type.shape if axis is None else None
    slices, rows, number = _as_rows(x, axis, "unique_consecutive")
    first = _differs(rows)
    kind = cumsum(first) - 1
    total = counted(sum_of(first, dtype=dtypes.int64), size, "unique_consecutive")
    indices = numbered(kind, first, total, lifting.positions_along(first.value.shape, 0, first.value), 0)
    return _chosen(
        _taken(slices, indices, number),
        lambda: kind if full_shape is None else reshape(kind, full_shape),
        lambda: _lengths(first, kind, total),
        (return_inverse, return_counts),
    )


@method
def unique(
    x: TensorLike,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    return_index: bool = False,
    size: Any = None,
) -> Any:
    """The distinct elements in order, or the distinct slices along ``axis`` in the order of their elements.

    With where each first stands (``return_index``), which is which (``return_inverse``) and how often each is there
    (``return_counts``), in this order. They are sorted either way, and NaNs differ from one another. In a trace
    ``size`` says how many; missing ones are the first slice then, with a count of 0.
    """
    tensor = tensor_like(x)
    full_shape = tensor.value.type.shape if axis is None else None
    slices, rows, number = _as_rows(tensor, axis, "unique")
    width = rows.value.type.shape[1]
    if not isinstance(width, int):
        raise ShapeError(f"unique slices of a named size {width}", hint="name the other axes")
    count = rows.value.type.shape[0]
    if width:
        order = lexsort([rows[:, i] for i in reversed(range(width))])
    else:
        order = wrap(lifting.positions_along((count,), 0, rows.value))
    first = _differs(wrap(ops.gather(rows.value, order.value, axis=0)))
    kind = cumsum(first) - 1
    total = counted(sum_of(first, dtype=dtypes.int64), size, "unique")
    indices = numbered(kind, first, total, order.value, 0)

    def inverse() -> Tensor:
        start = lifting.repeated(0, dtypes.int64, kind.value.shape)
        back = wrap(ops.scatter(start, order.value, kind.value, axis=0))
        return back if full_shape is None else reshape(back, full_shape)

    outputs = [_taken(slices, indices, number)]
    outputs += [indices] if return_index else []
    outputs += [inverse()] if return_inverse else []
    outputs += [_lengths(first, kind, total)] if return_counts else []
    return tuple(outputs) if len(outputs) > 1 else outputs[0]


# --- sets -------------------------------------------------------------------------------------------------------------


def _both(x1: TensorLike, x2: TensorLike) -> list[Tensor]:
    common = lifting.common_dtype(x1, x2)
    return [reshape(astype(tensor_like(x), common), (-1,)) for x in (x1, x2)]


def _selected(vector: Tensor, mask: Tensor, size: Any, name: str) -> Tensor:
    total = counted(sum_of(mask, dtype=dtypes.int64), size, name)
    return numbered(cumsum(mask) - 1, mask, total, vector.value, 0)


def _distinct(vector: Tensor) -> tuple[Tensor, Tensor]:
    """A sorted vector of all elements, and which of them are the first of their kind."""
    order = lexsort([vector])
    ordered = wrap(ops.gather(vector.value, order.value, axis=0))
    return ordered, _differs(reshape(ordered, (-1, 1)))


@array_function
def union1d(x1: TensorLike, x2: TensorLike, *, size: Any = None) -> Tensor:
    """The distinct elements of both, in order; a trace needs ``size``."""
    return unique_values(concat(_both(x1, x2)), size=size)


@array_function
def intersect1d(x1: TensorLike, x2: TensorLike, *, size: Any = None) -> Tensor:
    """The distinct elements that are in both, in order; a trace needs ``size``."""
    left, right = _both(x1, x2)
    ordered, first = _distinct(left)
    return _selected(ordered, logical_and(first, isin(ordered, right)), size, "intersect1d")


@array_function
def setdiff1d(x1: TensorLike, x2: TensorLike, *, size: Any = None) -> Tensor:
    """The distinct elements of the first that are not in the second, in order; a trace needs ``size``."""
    left, right = _both(x1, x2)
    ordered, first = _distinct(left)
    return _selected(ordered, logical_and(first, isin(ordered, right, invert=True)), size, "setdiff1d")


@array_function
def setxor1d(x1: TensorLike, x2: TensorLike, *, size: Any = None) -> Tensor:
    """The distinct elements that are in one of both alone, in order; a trace needs ``size``."""
    left, right = _both(x1, x2)
    ordered, first = _distinct(concat([left, right]))
    alone = isin(ordered, left, invert=True) | isin(ordered, right, invert=True)
    return _selected(ordered, logical_and(first, alone), size, "setxor1d")


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
    if isinstance(size, int) and not 0 <= k <= size:
        raise ShapeError(f"topk: k={k} does not lie between 0 and the {size} elements along axis {axis}")
    rows = moveaxis(tensor, number, -1)
    length = _block_length(rows, k)
    if length:
        indices = _by_blocks(wrap(ops.stop_gradient(rows.value)), k, length, largest)
        values = take_along_axis(rows, indices, -1)
    else:
        order, indices = ops.sort(rows.value, axis=rows.ndim - 1, descending=largest)
        values, indices = wrap(order)[..., :k], wrap(indices)[..., :k]
    return moveaxis(values, -1, number), moveaxis(indices, -1, number)


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
